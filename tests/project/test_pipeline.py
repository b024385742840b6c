"""dvc.yaml against the code: stage <-> file, params keys exist, deps cover the imports."""

import ast
import functools
import operator
from pathlib import Path

import pytest
import yaml

from hosm.experiment.settings import PrepareParams
from pipeline.prepare import sizes_of

ROOT = Path(__file__).resolve().parents[2]
GRAPH = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
PARAMS = yaml.safe_load((ROOT / "params.yaml").read_text())
UNREAD = {"hosm/__init__.py", "hosm/moved.py"}  # doors to the library that compute nothing


def body(stage):
    return stage.get("do", stage)


def files_of(name):
    """The files that importing a dotted name executes: the module's, and its packages'."""
    parts = name.split(".")
    places = ["/".join(parts[: n + 1]) for n in range(len(parts))]
    files = {f"{places[-1]}.py", *(f"{place}/__init__.py" for place in places)}
    return {file for file in files if (ROOT / file).exists()} - UNREAD


@functools.cache
def direct(path):
    """Files of the project that a file imports."""
    names = set()
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "import_module":
            names |= {arg.value for arg in node.args if isinstance(arg, ast.Constant)}
    return {file for name in names if name.startswith("hosm") for file in files_of(name)}


@functools.cache
def does_something(path):
    """Whether a file holds more than a docstring."""
    return len(ast.parse((ROOT / path).read_text()).body) > 1


@functools.cache
def closure(path):
    """A file and everything of the project that it imports, directly or not."""
    seen, todo = set(), [path]
    while todo:
        file = todo.pop()
        if file not in seen:
            seen.add(file)
            todo += direct(file)
    return {file for file in seen if does_something(file)}


def covers(dep, file):
    """Whether a dependency is a file, or a folder that holds it."""
    return file == dep or file.startswith(f"{dep}/")


def code(name):
    """The dependencies of a stage that are code."""
    return [dep for dep in body(GRAPH[name])["deps"] if dep.startswith(("hosm", "pipeline"))]


def module(name):
    """The file that a stage runs: of its name, or of what stands before `-images` in it."""
    return name.removesuffix("-images")


def setting(key):
    """The value at a dotted key of params.yaml."""
    return functools.reduce(operator.getitem, key.split("."), PARAMS)


def items(stage):
    """What a stage is run for: its list, or that of the parameter that it names."""
    named = stage.get("foreach", [None])
    return setting(named[2:-1]) if isinstance(named, str) else named


def test_every_stage_has_its_file_and_every_file_its_stage():
    files = {path.stem for path in (ROOT / "pipeline").glob("*.py")} - {"__init__"}
    assert {module(name) for name in GRAPH} == files
    for name, stage in GRAPH.items():
        assert body(stage)["cmd"].split()[:3] == ["python", "-m", f"pipeline.{module(name)}"]


@pytest.mark.parametrize("name", GRAPH)
def test_folders_cover_what_a_stage_loads_and_no_more(name):
    loaded, deps = closure(f"pipeline/{module(name)}.py"), code(name)
    assert not [file for file in loaded if not any(covers(dep, file) for dep in deps)]
    assert not [dep for dep in deps if not any(covers(dep, file) for file in loaded)]
    assert all((ROOT / dep).exists() for dep in deps)


def outputs(name):
    """What a stage writes, up to the item that it is run for."""
    outs = body(GRAPH[name]).get("outs", [])
    plain = [next(iter(out)) if isinstance(out, dict) else out for out in outs]
    return [out.split("${")[0].rstrip("/") for out in plain]


def reads(name, written):
    """Whether a stage depends on one of the outputs."""
    deps = body(GRAPH[name])["deps"]
    return any(covers(out, dep) or covers(dep, out) for out in written for dep in deps)


def reruns(file):
    """The stages that are stale once a file has changed, with all that is downstream of them."""
    stale = {name for name in GRAPH if any(covers(dep, file) for dep in code(name))}
    while True:
        written = [out for name in stale for out in outputs(name)]
        downstream = {name for name in GRAPH if reads(name, written)}
        if downstream <= stale:
            return stale
        stale |= downstream


TRAINED = {"train", "train-images", "scales", "sweep"}


def test_a_change_in_the_report_reruns_the_report_alone():
    for folder in ("report", "presenting"):
        for path in sorted((ROOT / "hosm/experiment" / folder).iterdir()):
            if path.is_file():
                assert reruns(path.relative_to(ROOT).as_posix()) == {"report"}
    for name in ("tables", "figures", "claims", "results"):
        for path in (ROOT / "hosm/experiment").glob(f"*/{name}.py"):
            assert reruns(path.relative_to(ROOT).as_posix()) == {"report"}


def test_a_change_in_a_sampler_trains_nothing():
    stale = reruns("hosm/samplers/langevin_ozaki.py")
    assert {"mixing", "diversity", "report"} <= stale and not stale & TRAINED


def test_a_change_in_an_objective_trains_again():
    assert reruns("hosm/objectives/targets.py") >= TRAINED


def test_stages_that_take_times_have_the_machine_alone():
    for name in GRAPH:
        files = [file for file in closure(f"pipeline/{module(name)}.py") if "/study" in file]
        texts = [(ROOT / file).read_text() for file in files]
        times = any("timed_in_turn(" in text or "Watch(" in text for text in texts)
        assert not times or body(GRAPH[name]).get("meta") == {"alone": True}, name


def test_dvc_sees_code_and_not_what_python_keeps_beside_it():
    assert "__pycache__" in (ROOT / ".dvcignore").read_text().split()


def test_a_change_in_how_a_run_is_shown_reruns_nothing():
    loaded = {file for name in GRAPH for file in closure(f"pipeline/{module(name)}.py")}
    assert not [file for file in loaded if file.startswith("hosm/experiment/repro/")]


@pytest.mark.parametrize("name", GRAPH)
def test_params_exist_and_include_the_profile(name):
    stage = GRAPH[name]
    keys = body(stage)["params"]
    assert "profile" in keys
    for item in items(stage):
        for key in keys:
            setting(key.replace("${item}", str(item)))


def test_the_swept_datasets_are_prepared():
    swept = {name for names in PARAMS["sweep"]["datasets"].values() for name in names}
    prepared = GRAPH["prepare"]["cmd"].split()[3:]
    assert swept | set(setting("train.planar.datasets")) <= set(prepared)
    assert GRAPH["prepare"]["outs"] == [f"data/prepared/{name}" for name in prepared]
    assert set(PARAMS["laws"]) <= set(setting("train.planar.datasets"))
    assert set(PARAMS["images"]) <= set(setting("train.denoisers.datasets"))
    assert PARAMS["images"] == ["mnist5k"]  # what needs no network


def test_every_computing_stage_has_a_cached_output():
    """A clone holds the committed reports but must still compute what they are made of."""
    for name, stage in GRAPH.items():
        outs = body(stage).get("outs", [])
        if name != "report":
            assert any(isinstance(out, str) for out in outs), name


def test_image_data_sets_are_taken_whole_up_to_a_bound():
    sizes = {"train_points": 7, "validation_points": 5, "test_points": 3}
    settings = PrepareParams(**sizes, seed=0, images=800, folder="")
    assert sizes_of("moons", settings) == {"train": 7, "validation": 5, "test": 3}
    assert sizes_of("mnist5k", settings) == {"train": 800, "validation": 500, "test": 500}


def test_git_ignores_what_runs_write():
    ignored = (ROOT / ".gitignore").read_text().split()
    assert {"/data/", "/runs/", ".venv/"} <= set(ignored)
