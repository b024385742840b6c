"""Docstrings: every public name says its shapes, its errors and the source of its formulas."""

import ast
import dataclasses
import importlib
import inspect
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "hosm"
MODULES = sorted(
    path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".")
    for path in LIBRARY.glob("**/*.py")
    if path.name != "__init__.py" and not path.is_relative_to(LIBRARY / "experiment")
)
PLUMBING = (  # no mathematics, hence no source
    *("hosm.checks", "hosm.moved", "hosm.io", "hosm.cli", "hosm.progress"),
    *("hosm.standard_output", "hosm.parameters", "hosm.plot.axes"),
    *("hosm.training.checkpoints", "hosm.training.keyed_batches", "hosm.training.settings"),
    *("hosm.estimator.archive", "hosm.estimator.arrays", "hosm.estimator.data_checks"),
    *("hosm.estimator.threads",),
    *("hosm.pictures.crops", "hosm.pictures.tiles"),
)
REFERS = re.compile(r"as (in|for) `|Arguments (and errors )?as|see `")


def public():
    """Every public function, class and public method of the library: (module, name, object)."""
    for stem in MODULES:
        module = importlib.import_module(stem)
        for name in module.__all__:
            value = getattr(module, name)
            if getattr(value, "__module__", None) != module.__name__:
                continue  # a constant, a type alias, or a name that lives in another module
            yield stem, name, value
            if inspect.isclass(value):
                for key, member in vars(value).items():
                    function = getattr(member, "__func__", member)
                    if not key.startswith("_") and inspect.isfunction(function):
                        yield stem, f"{name}.{key}", function


NAMES = list(public())
IDS = [f"{module}.{name}" for module, name, _ in NAMES]


def tensors(function):
    """Names of the parameters that are annotated as tensors or sequences of them."""
    parameters = inspect.signature(function).parameters.values()
    return [p.name for p in parameters if re.search(r"\bTensor\b", str(p.annotation))]


def raises(function):
    """Whether a function raises ValueError in its own body."""
    tree = ast.parse(inspect.cleandoc("\n" + inspect.getsource(function)))
    nodes = [node.exc for node in ast.walk(tree) if isinstance(node, ast.Raise) and node.exc]
    return any(getattr(getattr(node, "func", None), "id", "") == "ValueError" for node in nodes)


@pytest.mark.parametrize(("module", "name", "value"), NAMES, ids=IDS)
def test_docstring_gives_shapes_and_errors(module, name, value):
    text = inspect.getdoc(value)
    assert text, "no docstring"
    function = value
    if inspect.isclass(value):  # its docstring documents the constructor
        function = vars(value).get("__post_init__", vars(value).get("__init__"))
        if dataclasses.is_dataclass(value) and function is vars(value)["__init__"]:
            return
    if REFERS.search(text) or not inspect.isfunction(function):
        return
    for parameter in tensors(function):
        assert re.search(rf"\b{parameter}\b", text), f"{parameter} is not described"
    if [name for name in tensors(function) if name != "lower"]:  # a callable's annotation
        assert re.search(r"shape|\(n|\(\*|\(D", text), "no shape"
    if raises(function):
        assert re.search(r"Raises|ValueError|an error", text), "raises an error that it hides"


@pytest.mark.parametrize("module", [m for m in MODULES if not m.startswith(PLUMBING)])
def test_module_names_the_source_of_its_mathematics(module):
    text = importlib.import_module(module).__doc__
    assert re.search(r"\b(19|20)\d\d\b", text), "no year of a source"
    assert re.search(r"[A-Z][a-z]+", text)


def test_every_package_says_what_its_section_is_about_and_what_it_exports():
    for path in sorted(LIBRARY.glob("*/__init__.py")):
        name = f"hosm.{path.parent.name}"
        package = importlib.import_module(name)
        assert package.__doc__ and "TODO" not in package.__doc__
        if path.parent.name != "experiment":
            assert len(package.__all__) == len(set(package.__all__)) > 0
            submodules = {each.stem for each in path.parent.glob("*.py")}
            assert not submodules & set(package.__all__), "a submodule hides behind a function"
