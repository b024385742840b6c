"""The README and the guide: short, their links lead somewhere, and what they show runs."""

import pkgutil
import re
from pathlib import Path

import pytest

from hosm.cli import arguments

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
MADE = {"index.md", "examples.md"}  # by the build of the site
LINK = re.compile(r"\]\(([^)\s]+)\)")
COMMAND = re.compile(r"hosm (\w+)")


def blocks(text, language):
    """Return the blocks of code of a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def test_the_readme_is_short():
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_files(page):
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        place = link.partition("#")[0]
        if place and "://" not in link and place not in MADE:
            assert (page.parent / place).exists(), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_exist(page):
    known = set(arguments.parser()._subparsers._group_actions[0].choices)
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = page.read_text(encoding="utf-8")
    code = "\n".join([*blocks(text, "sh"), *re.findall(r"`([^`\n]+)`", text)])
    assert {*re.findall(r"^hosm ([a-z]+)", code, re.MULTILINE)} <= known
    assert {*re.findall(r"^make ([a-z0-9-]+)", code, re.MULTILINE)} <= targets


def test_what_the_readme_says_of_a_table_runs(capsys):
    table = blocks(README, "python")[0]
    space = {}
    exec(compile(table, "README", "exec"), space)  # noqa: S102
    shown, printed = blocks(README, "text")[0], capsys.readouterr().out
    # how many laws are tried and which is chosen may depend on the rounding of a processor
    for text in (shown, printed):
        assert re.match(r"Chosen of \d+ candidates: ", text) and "Ledoit" in text
    assert space["curvature"].shape == space["error"].shape == (178, 13)
    assert 0 < space["unlike"].mean() < 0.1


def test_what_the_readme_says_of_a_photograph_runs():
    photograph = blocks(README, "python")[1]
    space = {}
    exec(compile(photograph, "README", "exec"), space)  # noqa: S102
    found = space["found"]
    assert found.mean.shape == found.std.shape == space["low"].shape == (427, 640, 3)
    assert found.sigma == pytest.approx(25, rel=0.1)  # the error of the estimate of noise
    assert space["directions"].shape == (3, 32, 32, 3)


def test_functions_that_pages_name_exist():
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    named = set(re.findall(r"hosm\.((?:\w+\.)*\w+)\(", text))
    assert len(named) > 5
    for name in named:
        assert pkgutil.resolve_name(f"hosm.{name}"), name
