"""The wheel in an environment of its own, without extras: array to Hessians, and the command."""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LINES = """
import sys
import numpy as np
import hosm
X = np.random.default_rng(0).normal(size=(400, 3))
estimator = hosm.ScoreEstimator(random_state=0).fit(X)
assert estimator.hessian_diag(X).shape == (400, 3)
assert estimator.hessian(X, dense=True).shape == (400, 3, 3)
assert (estimator.posterior(X).variance > 0).all()
import hosm.metrics, hosm.metrics, torch
heavy = {"arviz", "matplotlib", "PIL", "ray", "mlflow"} & set(sys.modules)
assert not heavy, heavy
assert hosm.metrics.ess_nice(torch.randn(2, 50, 1), torch.zeros(1), torch.ones(1)) > 5
try:
    hosm.metrics.ess_bulk(torch.randn(2, 50, 1))
except ImportError as error:
    assert "hosm[diagnostics]" in str(error)
else:
    raise AssertionError("arviz is installed")
np.savetxt("x.csv", X, delimiter=",")
"""


def call(*command, folder):
    """Run a command that must succeed, away from the sources; return what it prints."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    done = subprocess.run(
        [*map(str, command)], cwd=folder, env=clean, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_alone_takes_an_array_to_hessians(tmp_path):
    source = tmp_path / "source"  # a build leaves things behind
    shutil.copytree(ROOT / "hosm", source / "hosm", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check")
    call(*pip, "wheel", "--quiet", "--no-deps", "-w", tmp_path, source, folder=tmp_path)
    (wheel,) = tmp_path.glob("hosm-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "hosm/py.typed" in names and "hosm/experiment/report/page.html.jinja" in names
    assert not [name for name in names if name.startswith(("tests", "pipeline", "examples"))]
    call(sys.executable, "-m", "venv", tmp_path / "clean", folder=tmp_path)
    binaries = tmp_path / "clean" / "bin"
    install = ("install", "--quiet", "-c", ROOT / "constraints.txt", wheel)
    call(binaries / "python", "-m", "pip", *install, folder=tmp_path)
    installed = call(binaries / "python", "-m", "pip", "list", folder=tmp_path)
    assert "arviz" not in installed and "tifffile" not in installed
    call(binaries / "python", "-c", LINES, folder=tmp_path)
    assert "usage: hosm" in call(binaries / "hosm", "--help", folder=tmp_path)
    fit = ("fit", "x.csv", "-o", "m", "--steps", "20", "--json")
    assert '"dimension": 3' in call(binaries / "hosm", *fit, folder=tmp_path)
    shipped = (
        "import numpy as np, hosm; y = np.random.default_rng(0).normal(100, 9, (40, 40, 3)); "
        "print(hosm.PictureDenoiser.pretrained(3).denoise(y, 9).std.mean() < 9)"
    )
    assert "True" in call(binaries / "python", "-c", shipped, folder=tmp_path)
    (tmp_path / "x.tif").write_bytes(b"II")
    code = "import hosm.io; hosm.io.read_pages('x.tif')"
    need = "ImportError: TIFF files need the package tifffile: pip install 'hosm[files]'"
    done = subprocess.run(
        [binaries / "python", "-c", code], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1 and done.stderr.splitlines()[-1] == need
