"""The structure: imports go one way, folder by folder; functions are short; exports are named."""

import ast
import functools
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = {  # section of the library -> the sections that it may import, besides itself
    "checks": "",
    "progress": "",
    "parameters": "",
    "standard_output": "",
    "io": "checks",
    "noise": "checks",
    "distributions": "checks",  # shares no code with what it judges
    "operators": "checks",
    "networks": "checks",
    "metrics": "checks",
    "autodiff": "checks noise",
    "tweedie": "checks noise operators",
    "scores": "checks noise operators networks autodiff",
    "exact_scores": "checks noise operators distributions",
    "objectives": "checks noise operators autodiff",
    "training": "checks io noise autodiff objectives",
    "uncertainty": "checks noise operators metrics tweedie",
    "samplers": "checks io noise",
    "diffusion": "checks noise operators autodiff tweedie",
    "pictures": "checks parameters progress io noise operators networks objectives training "
    "uncertainty",
    "inverse": "checks noise operators autodiff tweedie uncertainty",
    "causal": "checks progress io estimator",
    "cli": "checks progress standard_output io estimator pictures plot",
    "plot": "checks io samplers uncertainty estimator pictures",
    "moved": "",
}
ABOVE = {"causal", "diffusion", "inverse", "pictures", "cli", "moved", "plot"} | {
    "standard_output"
}
LIBRARY["estimator"] = " ".join(set(LIBRARY) - ABOVE - {"metrics"})
BELOW = "settings run data shared train cluster"
DRAWERS = "accuracy cost reduction denoising uncertainty mixing diversity tabular photos diffusion"
DRAWERS += " causal dimension inverse training_losses"
EXPERIMENT = {  # folder of the experiment -> the folders that it may import, besides itself
    "settings": "",
    "run": "settings",
    "data": "settings run",
    "shared": "settings run data",
    "train": "settings run data shared",
    "cluster": "settings run data shared train",
    "presenting": "settings run data shared",
    "doctor": "settings run cluster",
    "repro": "settings run",
    **{drawer: f"{BELOW} presenting" for drawer in DRAWERS.split()},
    "digits": f"{BELOW} presenting diffusion diversity",  # its schedule of seeds, its classifier
    "report": f"{BELOW} presenting {DRAWERS}",
}
TOOLS = {  # package -> the only places of the experiment that import it
    "ray": ("cluster", "doctor/other_machines.py"),
    "dvc": ("repro/plan.py",),
    "fsspec": ("run/exchange.py",),
    "mlflow": ("run/tracking.py", "run/outbox.py"),
    "skimage": ("photos/study/rivals.py",),
    "jax": ("mixing/study/peers.py",),
    "blackjax": ("mixing/study/peers.py",),
}
FILES = sorted([*ROOT.glob("hosm/**/*.py"), *ROOT.glob("pipeline/*.py")])
OURS = [path for path in FILES if path.is_relative_to(ROOT / "hosm")]


def named(paths):
    """Paths with the names that tests carry."""
    return [pytest.param(path, id=path.relative_to(ROOT).as_posix()) for path in paths]


@functools.cache
def imports(path):
    """Every dotted name that a file imports."""
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return names


def section(path, root):
    """The section or folder that a file belongs to."""
    return path.relative_to(root).parts[0].removesuffix(".py")


def used(path, package, known):
    """The sections below a package that a file imports, without its own."""
    names = {name.removeprefix(f"{package}.") for name in imports(path) if package in name}
    return {name.split(".")[0] for name in names} & set(known)


@pytest.mark.parametrize("path", named(OURS))
def test_imports_go_one_way(path):
    folder = ROOT / "hosm" / "experiment"
    if path.is_relative_to(folder):
        if path.parent != folder:
            own = section(path, folder)
            found = used(path, "hosm.experiment", EXPERIMENT)
            assert found - {own} <= set(EXPERIMENT[own].split())
        return
    if path != ROOT / "hosm" / "__init__.py":
        own = section(path, ROOT / "hosm")
        assert used(path, "hosm", LIBRARY) - {own} <= set(LIBRARY[own].split())
    assert not any(name.startswith(("hosm.experiment", "pipeline")) for name in imports(path))


@pytest.mark.parametrize("allowed", [LIBRARY, EXPERIMENT], ids=["library", "experiment"])
def test_the_order_has_no_circle(allowed):
    known = list(allowed)
    ranks = {}
    while len(ranks) < len(known):
        free = [k for k in known if k not in ranks and set(allowed[k].split()) <= set(ranks)]
        assert free, f"a circle among {set(known) - set(ranks)}"
        ranks |= dict.fromkeys(free, len(ranks))


@pytest.mark.parametrize("path", named(OURS))
def test_a_study_knows_nothing_of_how_it_is_shown(path):
    """A change in tables, figures, claims or the page reruns the report alone."""
    parts = path.relative_to(ROOT / "hosm").parts
    if parts[0] == "experiment" and any(part in ("study", "study.py") for part in parts):
        shown = ("presenting", "report", "tables", "figures", "claims", "results", "pictures")
        names = [name for name in imports(path) if name.startswith("hosm.experiment.")]
        assert not [name for name in names if set(name.split(".")) & set(shown)]


@pytest.mark.parametrize("path", named(FILES))
def test_each_tool_has_its_place(path):
    for tool, places in TOOLS.items():
        if any(name == tool or name.startswith(f"{tool}.") for name in imports(path)):
            owners = [ROOT / "hosm" / "experiment" / place for place in places]
            assert any(path.is_relative_to(owner) for owner in owners)


@pytest.mark.parametrize("path", named(FILES))
def test_no_stage_imports_a_stage_and_nothing_imports_one(path):
    assert not any(name.startswith("pipeline.") for name in imports(path))


@pytest.mark.parametrize("path", named(FILES))
def test_functions_fit_a_screen_and_import_nothing(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno + 1 <= 60, node.name
            inner = [n for n in ast.walk(node) if isinstance(n, ast.Import | ast.ImportFrom)]
            assert not inner, f"{node.name} imports"
        assert not (isinstance(node, ast.ExceptHandler) and node.type is None)


@pytest.mark.parametrize("path", named(FILES))
def test_modules_say_what_they_are_about_and_what_they_export(path):
    tree = ast.parse(path.read_text())
    assert ast.get_docstring(tree)
    if path.parent.name == "pipeline" or path.name in ("__init__.py", "__main__.py"):
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


@pytest.mark.parametrize("path", named(sorted(ROOT.glob("tests/**/test_*.py"))))
def test_tests_mirror_the_folders(path):
    """A folder of tests is named after a folder of the library, or holds tests of the whole."""
    folder = path.parent.relative_to(ROOT / "tests")
    assert (
        folder.parts[:1] in ((), ("project",), ("faults",), ("fuzz",))
        or (ROOT / "hosm" / folder).is_dir()
    )
