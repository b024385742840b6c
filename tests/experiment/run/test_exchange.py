"""Files of a submitted stage: fetched as they were stored, verified, whole or not at all."""

import subprocess

import fsspec
import pytest

from hosm.experiment.run import exchange, stage
from hosm.experiment.run.exchange import Store, exchanged, stage_files, stages
from tests.project.test_pipeline import GRAPH, ROOT, body, items


@pytest.fixture(params=["folder", "memory"])
def place(request, tmp_path):
    if request.param == "folder":
        yield str(tmp_path / "shared")
        return
    yield "memory://hosm"
    memory = fsspec.filesystem("memory")
    if memory.exists("hosm"):
        memory.rm("hosm", recursive=True)


def write(root, path, text="content"):
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture
def project(tmp_path):
    root = tmp_path / "here"
    for name in ("dvc.yaml", "params.yaml"):
        write(root, name, (ROOT / name).read_text())
    write(root, "data/prepared/ring6/train.npy", "points")
    write(root, "data/prepared/ring6/deep/card.json", "{}")
    write(root, "reports/metrics/train-ring6.json", "1")
    return root


PATHS = ["data/prepared/ring6", "reports/metrics/train-ring6.json"]


def tree(root):
    return {str(p.relative_to(root)): p.read_text() for p in root.rglob("*") if p.is_file()}


def test_what_is_pulled_is_what_was_pushed(project, place, tmp_path):
    Store(place).push(project, PATHS)
    there = tmp_path / "there"
    Store(place).pull(there, PATHS)
    here = tree(project)
    assert tree(there) == {k: v for k, v in here.items() if k.startswith(("data", "reports"))}


def test_a_folder_that_differs_is_replaced_whole_and_one_that_does_not_is_kept(
    project, place, tmp_path
):
    store, there = Store(place), tmp_path / "there"
    store.push(project, PATHS)
    write(there, "data/prepared/ring6/train.npy", "other")
    write(there, "data/prepared/ring6/more.npy")
    store.pull(there, PATHS)
    assert sorted(p.name for p in (there / "data/prepared/ring6").iterdir()) == [
        "deep",
        "train.npy",
    ]
    kept = (there / "data/prepared/ring6/train.npy").stat()
    store.pull(there, PATHS)
    assert (there / "data/prepared/ring6/train.npy").stat().st_ino == kept.st_ino
    assert [p.name for p in (there / "data/prepared").iterdir()] == ["ring6"]


def test_files_that_are_gone_are_not_fetched_again(project, place, tmp_path):
    store = Store(place)
    store.push(project, PATHS)
    (project / "data/prepared/ring6/train.npy").unlink()
    store.push(project, PATHS)
    store.pull(tmp_path / "there", PATHS)
    assert not (tmp_path / "there/data/prepared/ring6/train.npy").exists()


@pytest.mark.parametrize("text", ["altered", ""])
def test_altered_files_are_refused_and_leave_what_was_there(project, place, tmp_path, text):
    store, there = Store(place), tmp_path / "there"
    store.push(project, PATHS)
    store.system.pipe_file(f"{store.base}/data/prepared/ring6/train.npy", text.encode())
    write(there, "data/prepared/ring6/train.npy", "earlier")
    with pytest.raises(ValueError, match=r"ring6/train\.npy in HOSM_STORAGE was altered"):
        store.pull(there, PATHS)
    assert tree(there) == {"data/prepared/ring6/train.npy": "earlier"}


@pytest.mark.parametrize("name", ["../../home/x", "data/prepared/ring6/../../x", "/etc/passwd"])
def test_a_list_cannot_name_files_elsewhere(project, place, tmp_path, name):
    store = Store(place)
    store.push(project, PATHS)
    store.system.pipe_file(f"{store.base}/data/prepared/ring6.sha256", f"0  {name}\n".encode())
    with pytest.raises(ValueError, match="must list files of data/prepared/ring6"):
        store.pull(tmp_path / "there", PATHS)
    assert not (tmp_path / "there").exists()


def test_what_is_forgotten_or_missing_is_named(project, place, tmp_path):
    store = Store(place)
    store.push(project, PATHS)
    store.forget(PATHS[1:])
    with pytest.raises(FileNotFoundError, match="holds no reports/metrics/train-ring6.json"):
        store.pull(tmp_path / "there", PATHS)
    with pytest.raises(FileNotFoundError, match="data/nothing does not exist"):
        store.push(project, ["data/nothing"])


def test_the_list_is_one_that_sha256sum_checks(project, tmp_path):
    store = Store(str(tmp_path / "shared"))
    store.push(project, PATHS)
    command = ["sha256sum", "--check", "data/prepared/ring6.sha256"]
    done = subprocess.run(command, cwd=store.base, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count(": OK") == 2


def test_every_stage_is_known_by_its_name_with_its_files():
    known = stages(ROOT)
    expected = [
        f"{name}@{item}" if item is not None else name
        for name, each in GRAPH.items()
        for item in items(each)
    ]
    assert list(known) == expected
    assert known["train@ring6"] == (
        "python -m pipeline.train ring6",
        ["data/prepared/ring6"],
        [
            "data/models/planar/ring6",
            "data/results/training/ring6.csv",
            "reports/metrics/train-ring6.json",
        ],
    )
    assert (
        stage_files(ROOT, "train@mnist5k", "train-images@mnist5k").outputs[0].endswith("mnist5k")
    )
    alone = stage_files(ROOT, "prepare@ring6")
    assert alone == ("python -m pipeline.prepare ring6", [], ["data/prepared/ring6"])
    for name, each in GRAPH.items():
        outs = known[name if "foreach" not in each else f"{name}@{items(each)[0]}"].outputs
        assert len(outs) >= len(body(each)["outs"])


def job(monkeypatch, place):
    monkeypatch.setenv(exchange.JOB, "{}")
    if place is None:
        monkeypatch.delenv("HOSM_STORAGE", raising=False)
    else:
        monkeypatch.setenv("HOSM_STORAGE", place)


def results(root):
    for path in stage_files(root, "train@ring6").outputs:
        write(root, f"{path}/weights" if path.startswith("data/models") else path, "result")


def test_a_job_fetches_its_inputs_and_stores_its_results(project, place, tmp_path, monkeypatch):
    Store(place).push(project, ["data/prepared/ring6"])
    there = tmp_path / "there"
    for name in ("dvc.yaml", "params.yaml"):
        write(there, name, (ROOT / name).read_text())
    job(monkeypatch, place)
    with exchanged(there, "train@ring6"):
        assert (there / "data/prepared/ring6/train.npy").read_text() == "points"
        results(there)
    Store(place).pull(project, stage_files(project, "train@ring6").outputs)
    assert (project / "data/models/planar/ring6/weights").read_text() == "result"


def test_a_job_that_fails_stores_nothing(project, place, monkeypatch):
    Store(place).push(project, ["data/prepared/ring6"])
    job(monkeypatch, place)
    with pytest.raises(ValueError, match="diverged"), exchanged(project, "train@ring6"):
        results(project)
        raise ValueError("diverged")
    with pytest.raises(FileNotFoundError):
        Store(place).pull(project, ["data/models/planar/ring6"])


def test_outside_a_job_nothing_moves(project, tmp_path, monkeypatch):
    monkeypatch.setenv("HOSM_STORAGE", str(tmp_path / "shared"))
    monkeypatch.delenv(exchange.JOB, raising=False)
    with exchanged(project, "no stage at all"):
        pass
    assert not (tmp_path / "shared").exists()


def test_a_job_without_a_place_for_its_inputs_says_so(project, monkeypatch):
    job(monkeypatch, None)
    with exchanged(project, "train@ring6"):  # they lie here, on a file system of all machines
        pass
    with pytest.raises(FileNotFoundError, match="no data/prepared/ring8; set HOSM_STORAGE"):
        with exchanged(project, "train@ring8"):
            pass


def test_checkpoints_and_files_share_one_place(monkeypatch):
    monkeypatch.setenv("HOSM_STORAGE", "s3://bucket/hosm")
    assert stage.storage_path("train") == "s3://bucket/hosm/train"
    monkeypatch.setenv("HOSM_STORAGE", "shared")
    with pytest.raises(
        ValueError, match="HOSM_STORAGE must be an absolute path or a URI, got 'shared'"
    ):
        stage.storage_path("train")


def test_files_are_exchanged_by_hand(project, tmp_path, monkeypatch):
    monkeypatch.setattr(exchange, "PROJECT", project)
    monkeypatch.setenv("HOSM_STORAGE", str(tmp_path / "shared"))
    exchange.exchange("push", "train@ring6")
    results(project)
    Store(str(tmp_path / "shared")).push(project, stage_files(project, "train@ring6").outputs)
    (project / "reports/metrics/train-ring6.json").unlink()
    exchange.exchange("pull", "train@ring6")
    assert (project / "reports/metrics/train-ring6.json").read_text() == "result"
    with pytest.raises(ValueError, match="direction must be push or pull, got 'fetch'"):
        exchange.exchange("fetch", "train@ring6")
