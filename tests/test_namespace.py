"""What `import hosm` offers: names and sections, each imported at its first use."""

import importlib
import subprocess
import sys

import pytest

import hosm

LAZY = """
import sys, hosm
assert "torch" not in sys.modules
assert hosm.metrics.__name__ == "hosm.metrics"
assert hosm.causal.order and hosm.distributions.Gaussian
"""


def test_sections_are_reached_from_the_package_and_take_no_time_before():
    subprocess.run([sys.executable, "-c", LAZY], check=True, timeout=120)


def test_dir_shows_all_that_there_is_and_nothing_else():
    names = dir(hosm)
    assert {"ScoreEstimator", "PictureDenoiser", "causal", "samplers"} <= {*names}
    assert not {"importlib", "PLACES", "SECTIONS", "TYPE_CHECKING"} & {*names}
    for name in names:
        assert getattr(hosm, name) is not None
    for name in hosm.SECTIONS:
        assert getattr(hosm, name) is importlib.import_module(f"hosm.{name}")


def test_what_there_is_not_is_told():
    with pytest.raises(AttributeError, match="has no attribute 'scorse'"):
        hosm.scorse  # noqa: B018
