"""The tutorials: scripts that run on their own, each a page with a title, words and cells."""

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("plot_*.py"))
FAST = ("plot_6_inverse_problems",)  # a second; the others take up to half a minute each
CASES = [
    pytest.param(path, id=path.stem, marks=() if path.stem in FAST else pytest.mark.slow)
    for path in TUTORIALS
]


@pytest.mark.parametrize("path", CASES)
def test_a_tutorial_runs(path, tmp_path):
    environment = os.environ | {"MPLBACKEND": "Agg", "PYTHONPATH": str(ROOT)}
    told = {"capture_output": True, "text": True, "env": environment, "cwd": tmp_path}
    done = subprocess.run([sys.executable, str(path)], **told, timeout=290)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.iterdir())  # nothing is written where the reader is


@pytest.mark.parametrize("path", TUTORIALS, ids=[path.stem for path in TUTORIALS])
def test_a_tutorial_has_a_title_and_cells_that_say_what_they_do(path):
    text = path.read_text()
    title, line, empty, *words = (ast.get_docstring(ast.parse(text)) or "").splitlines()
    assert set(line) == {"="} and len(line) == len(title) and empty == "" and words
    cells = re.findall(r"^# %%\n# (\w.*)", text, re.MULTILINE)
    assert len(cells) >= 3
    assert text.count("\n") <= 120
    assert "hosm." in text


def test_all_numbers_of_the_tutorials_are_there():
    numbers = [int(path.stem.split("_")[1]) for path in TUTORIALS]
    assert numbers == [*range(1, len(numbers) + 1)]
