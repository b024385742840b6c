"""The structure: one-way imports, small files and functions, documented public names."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ALLOWED = {  # module -> what of ours it may import
    **{
        name: set()
        for name in (
            "checks",
            "networks",
            "writing",
            "eigen",
            "lanczos",
            "operands",
            "products",
        )
    },
    **{name: {"checks"} for name in ("noise", "laws", "ess", "proposals")},
    "checkpoints": {"writing"},
    "unet": {"checks", "networks"},
    "tensors": {"operands"},
    "finite_data": {"checks", "laws"},
    "distributions": {"checks", "laws", "finite_data"},
    "energies": {"checks", "laws", "distributions"},
    "operators": {"checks", "operands", "eigen", "lanczos"},
    "metrics": {"checks", "ess"},
    "tweedie": {"checks", "operators"},
    "scores": {"noise", "operators", "networks", "autodiff"},
    "targets": {"operators", "products"},
    "objectives": {"checks", "noise", "operators", "autodiff", "targets"},
    "autodiff": {"checks", "noise"},
    "high_order": {"checks", "noise", "operators", "targets", "tensors"},
    "batches": {"noise"},
    "uncertainty": {"checks", "operators", "tweedie"},
    "calibration": {"checks", "uncertainty"},
    "chains": {"checks", "proposals"},
    "samplers": {"checks", "proposals", "chains"},
    "settings": {"noise", "objectives"},
    "joint": {"noise", "objectives", "settings"},
    "training": {"batches", "joint", "settings"},
    "heads": {"autodiff", "settings", "targets"},
    "implicit": {"noise"},
    "recipes": {"networks", "scores", "settings", "training", "heads"},
    "frozen": {"checks", "noise", "scores", "recipes"},
    "arrays": {"checks", "operators", "uncertainty"},
    "conventions": set(),
    "fitted": {
        "arrays",
        "checks",
        "conventions",
        "implicit",
        "operators",
        "samplers",
        "scores",
        "uncertainty",
    },
    "stored": {"arrays", "fitted", "frozen", "recipes"},
    "estimator": {
        "arrays",
        "checks",
        "frozen",
        "implicit",
        "noise",
        "recipes",
        "scores",
        "stored",
        "training",
    },
    "files": set(),
    "patches": {"checks"},
    "novelty": {"fitted"},
    "commands": {"estimator", "files", "novelty", "patches", "stored"},
    "cli": {"commands"},
}
TOOLS = {
    "ray.train": ("cluster", "worker"),
    "ray.tune": ("search",),
    "ray.job_submission": ("submit",),
    "fsspec": ("exchange",),
    "mlflow": ("tracking",),
    "jax": ("peers",),
    "blackjax": ("peers",),
}
FILES = sorted([*ROOT.glob("hosm/**/*.py"), *ROOT.glob("pipeline/*.py")])
IDS = [str(path.relative_to(ROOT)) for path in FILES]


def imports(path):
    """Every dotted name that a file imports."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def ours(path):
    """Modules of hosm above experiment/ that a file imports."""
    names = {name.split(".")[1] for name in imports(path) if name.startswith("hosm.")}
    return {name for name in names if (ROOT / "hosm" / f"{name}.py").exists()}


@pytest.mark.parametrize("module", sorted(path.stem for path in ROOT.glob("hosm/*.py")))
def test_library_modules_import_only_what_stands_below_them(module):
    if module == "__init__":
        return
    path = ROOT / "hosm" / f"{module}.py"
    assert ours(path) <= ALLOWED[module]
    assert not any(name.startswith(("hosm.experiment", "pipeline")) for name in imports(path))


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_each_tool_has_its_importers(path):
    for tool, owners in TOOLS.items():
        if any(name == tool or name.startswith(f"{tool}.") for name in imports(path)):
            assert path.stem in owners and path.parent.name == "experiment"


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_no_stage_imports_a_stage_and_nothing_imports_one(path):
    assert not any(name.startswith("pipeline.") for name in imports(path))


@pytest.mark.parametrize("path", FILES, ids=IDS)
def test_files_and_functions_fit_their_budgets(path):
    text = path.read_text()
    assert text.count("\n") <= (60 if path.parent.name == "pipeline" else 300)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno + 1 <= 60, node.name
            inner = [n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom)]
            assert not inner, f"{node.name} imports"
        assert not (isinstance(node, ast.ExceptHandler) and node.type is None)


@pytest.mark.parametrize("path", [p for p in FILES if p.name != "__init__.py"], ids=str)
def test_modules_say_what_they_export(path):
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree)
    if path.parent.name == "pipeline":
        return
    names = [
        node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__"
    ]
    defined = {getattr(node, "name", "") for node in tree.body}
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            defined |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            defined |= {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
    assert set(ast.literal_eval(names[0])) <= defined
