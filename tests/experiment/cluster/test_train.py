"""Ray: the plain loop and Ray Train agree, one worker and two agree, runs resume."""

import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from hosm.experiment.cluster import connection
from hosm.experiment.cluster import train as cluster
from hosm.experiment.cluster.parallel import map_on_cluster
from hosm.experiment.cost.study import workers as scaling
from hosm.experiment.data import datasets
from hosm.experiment.run.process import StageError
from hosm.experiment.settings import Backbone, ClusterParams, ModelParams, ScalingParams
from hosm.experiment.train.training_task import TrainingTask, train_here
from hosm.training import Diverged
from tests.tolerances import FLOAT32

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).resolve().parents[3]


def spec(**changes):
    base = {
        "backbone": Backbone(kind="mlp", shared=False, width=32),
        "sigma": 0.1,
        "rank": 0,
        "learning_rate": 2e-3,
        "batch_size": 64,
        "max_steps": 60,
        "average_width": 0.1,
        "validate_every": 20,
    }
    return ModelParams(**{**base, **changes})


def task(**changes):
    sizes = {"train_points": 640, "validation_points": 300, "test_points": 10}
    data = datasets.prepare("ring6", seed=0, **sizes)
    return TrainingTask.of(data, spec(**changes), data.card["shape"], data.card["std"])


def params(workers=1, **changes):
    base = {
        "workers": workers,
        "use_gpu": False,
        "backend": "auto",
        "cpus_per_worker": 1,
        "local_cpus": 2,
        "object_store_mb": 200,
        "max_failures": 0,
        "checkpoint_every": 0,
        "checkpoints_kept": 2,
    }
    return ClusterParams(**{**base, **changes})


@pytest.fixture(scope="module")
def local_cluster():
    with connection.connect(params()):
        yield


def test_ray_with_one_worker_equals_the_plain_loop(local_cluster, tmp_path):
    torch.set_num_threads(1)
    plain = train_here(task())
    ray_result = cluster.train_on_cluster(task(), params(), str(tmp_path))
    assert ray_result.history == plain.history
    for name, value in plain.weights.items():
        assert torch.equal(ray_result.weights[name], value)


def near(losses):
    """Sums over the batch in another order, in float32."""
    return pytest.approx(losses, rel=FLOAT32["rtol"], abs=FLOAT32["atol"])


@pytest.mark.parametrize("changes", [{}, {"rank": 1, "target": "residual"}, {"regime": "finite"}])
def test_two_workers_equal_one_at_equal_global_batch(local_cluster, tmp_path, changes):
    one = train_here(task(**changes))
    two = cluster.train_on_cluster(task(**changes), params(2), str(tmp_path))
    for ours, reference in zip(two.history, one.history, strict=True):
        for name in ("validation_dsm", "validation_second"):
            assert ours[name] == near(reference[name]), name


def test_each_of_200_losses_is_that_of_one_worker(local_cluster, tmp_path):
    """Shuffles, noise and shards are keyed by (seed, epoch, sample), so only rounding differs."""
    steps = {"max_steps": 200, "validate_every": 1, "rank": 1}
    one = train_here(task(**steps))
    two = cluster.train_on_cluster(task(**steps), params(2), str(tmp_path))
    assert len(one.history) == 200
    for ours, reference in zip(two.history, one.history, strict=True):
        assert ours == near(reference)


def test_a_finished_run_of_the_same_name_is_not_trained_again(local_cluster, tmp_path):
    def states():
        return {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/states/*")}

    first = cluster.train_on_cluster(task(), params(), str(tmp_path))
    kept = states()
    again = cluster.train_on_cluster(task(), params(), str(tmp_path))
    assert again.history == first.history
    assert kept and states() == kept  # a step would have written another
    folders = [path for path in tmp_path.iterdir() if path.name.startswith("ring6-")]
    assert len(folders) == 1


def test_calls_are_spread_over_cpus_in_order_and_on_one_thread(local_cluster):
    def call(number, scale):
        return number * scale, torch.get_num_threads()

    numbers = [(number, 2.0) for number in range(5)]
    found, roots, none = map_on_cluster((call, numbers), (math.sqrt, [(4.0,)]), (call, []))
    assert found == [(2.0 * number, 1) for number in range(5)]
    assert roots == [2.0] and none == []


def test_a_call_that_fails_is_named(local_cluster):
    def halve(number):
        if number == 3:
            raise ValueError("3 is odd")
        return number / 2

    with pytest.raises(StageError, match=r"a call of halve failed: ValueError\('3 is odd'\)"):
        map_on_cluster((halve, [(2,), (3,), (4,)]))


def test_a_failing_run_ends_in_one_line(local_cluster, tmp_path):
    wild = task(learning_rate=1e30, target="moment")
    with pytest.raises(StageError, match="training of ring6 failed: .*diverged") as caught:
        cluster.train_on_cluster(wild, params(max_failures=20), str(tmp_path))
    assert "\n" not in str(caught.value)
    # a worker said so and did not raise: what diverges would again, so nothing is restarted
    assert isinstance(caught.value, Diverged) and caught.value.last == {}


def stage_environment(project, **extra):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("RAY_", "DVC_", "MLFLOW_"))}
    return {**clean, "HOSM_PROJECT": str(project), "PYTHONPATH": str(ROOT), **extra}


@pytest.fixture
def project(tmp_path):
    """A project folder under the smoke profile, with one prepared data set."""
    text = (ROOT / "params.yaml").read_text()
    head, tail = text.split("profile: laptop", 1)
    (tmp_path / "params.yaml").write_text(f"{head}profile: smoke{tail}")
    command = [sys.executable, "-m", "pipeline.prepare", "two-modes"]
    environment = stage_environment(tmp_path, MLFLOW_TRACKING_URI="off")
    subprocess.run(command, cwd=ROOT, check=True, env=environment, timeout=400)
    return tmp_path


def wait_for(condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "timed out"
        time.sleep(0.5)


def alive(pattern):
    done = subprocess.run(["pgrep", "-f", pattern], capture_output=True, text=True)
    return [int(pid) for pid in done.stdout.split()]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_no_orphan_trains_on_when_the_parent_is_killed(project, number):
    """As when DVC, which runs the stage, is killed: Linux tells the stage, which stops Ray."""
    text = (project / "params.yaml").read_text()
    long = text.replace("max_steps: {smoke: 200,", "max_steps: {smoke: 10000000,")
    (project / "params.yaml").write_text(long)
    environment = stage_environment(
        project, DVC_STAGE="train@two-modes", MLFLOW_TRACKING_URI="off", MARK=str(project)
    )
    code = (
        "import subprocess, sys; subprocess.run("
        f"[sys.executable, '-m', 'pipeline.train', 'two-modes'], cwd={str(ROOT)!r})"
    )
    with (project / "stage.log").open("w") as log:
        parent = subprocess.Popen(
            [sys.executable, "-c", code],
            env=environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        wait_for(lambda: "step 100/" in (project / "stage.log").read_text(), 400)
        mark = str(project).encode()
        parent.send_signal(number)
        parent.wait(200)
        wait_for(lambda: not marked(mark), 200)
    assert not (project / "data" / "models" / "planar" / "two-modes").exists()


def marked(mark):
    """Processes whose environment holds the mark, Ray's workers among them."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if b"MARK=" + mark in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue
    return found


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: (folder / "train.npy").unlink(), "train.npy"),
        (lambda folder: (folder / "train.npy").write_bytes(b"\x93NUMPY"), "train.npy"),
        (lambda folder: np.save(folder / "train.npy", np.full((9, 2), np.nan, "f4")), "train.npy"),
    ],
)
def test_spoilt_data_end_in_one_line_and_leave_the_earlier_model(project, spoil, message):
    earlier = project / "data" / "models" / "planar" / "two-modes"
    earlier.mkdir(parents=True)
    (earlier / "card.json").write_text("{}")
    spoil(project / "data" / "prepared" / "two-modes")
    done = subprocess.run(
        [sys.executable, "-m", "pipeline.train", "two-modes"],
        cwd=ROOT,
        env=stage_environment(project, MLFLOW_TRACKING_URI="off"),
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 1
    errors = [line for line in done.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and message in errors[0]
    assert "Traceback" not in done.stderr
    assert (earlier / "card.json").read_text() == "{}"


def test_loops_and_workers_are_timed_and_so_is_their_link():
    sizes = {"width": 8, "rank": 2, "batch_size": 8, "steps": 4, "repeats": 1, "threads": 1}
    steps, reduced = scaling.time_workers(ScalingParams(workers=(1, 2), **sizes), params())
    loops = [("plain loop", 1), ("Ray Train", 1), ("Ray Train", 2)]
    assert list(zip(steps["loop"], steps["workers"], strict=True)) == loops
    assert (steps["seconds_per_step"] > 0).all() and (reduced["seconds"] > 0).all()
