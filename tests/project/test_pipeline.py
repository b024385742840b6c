"""dvc.yaml against the code: stage <-> file, params keys exist, deps cover the imports."""

import ast
from pathlib import Path

import pytest
import yaml

from hosm.experiment.settings import PrepareParams
from pipeline.prepare import sizes_of

ROOT = Path(__file__).resolve().parents[2]
GRAPH = yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"]
PARAMS = yaml.safe_load((ROOT / "params.yaml").read_text())


def body(stage):
    return stage.get("do", stage)


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
    files = {f"{name.replace('.', '/')}.py" for name in names if name.startswith("hosm")}
    return {file for file in files if (ROOT / file).exists()}


def closure(path):
    """A file and everything of the project that it imports, directly or not."""
    seen, todo = set(), [path]
    while todo:
        file = todo.pop()
        if file not in seen:
            seen.add(file)
            todo += direct(file)
    return seen


def module(name):
    """The file that a stage runs: of its name, or of what stands before `-images` in it."""
    return name.removesuffix("-images")


def items(stage):
    """What a stage is run for: its list, or that of the parameter that it names."""
    named = stage.get("foreach", [None])
    return PARAMS[named[2:-1]] if isinstance(named, str) else named


def test_every_stage_has_its_file_and_every_file_its_stage():
    files = {path.stem for path in (ROOT / "pipeline").glob("*.py")} - {"__init__"}
    assert {module(name) for name in GRAPH} == files
    for name, stage in GRAPH.items():
        assert body(stage)["cmd"].split()[:3] == ["python", "-m", f"pipeline.{module(name)}"]


@pytest.mark.parametrize("name", GRAPH)
def test_deps_are_exactly_the_code_that_a_stage_runs(name):
    deps = {dep for dep in body(GRAPH[name])["deps"] if dep.endswith(".py")}
    assert deps == closure(f"pipeline/{module(name)}.py")


@pytest.mark.parametrize("name", GRAPH)
def test_params_exist_and_include_the_profile(name):
    stage = GRAPH[name]
    keys = body(stage)["params"]
    assert "profile" in keys
    for item in items(stage):
        for key in keys:
            value = PARAMS
            for part in key.replace("${item}", str(item)).split("."):
                value = value[part]


def test_the_swept_datasets_are_prepared():
    swept = {name for names in PARAMS["sweep"]["datasets"].values() for name in names}
    assert swept <= set(GRAPH["prepare"]["foreach"])
    images = {"mnist5k", "mnist", "cifar10"}
    assert set(GRAPH["train"]["foreach"]) | images == set(PARAMS["train"]) - {"common"}
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
