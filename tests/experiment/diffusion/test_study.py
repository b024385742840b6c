"""The study in miniature: every row is there, and exact scores have the smallest gap."""

from pathlib import Path

import pytest

from hosm.experiment.diffusion.study import study
from hosm.experiment.settings import DiffusionParams, load_params

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def frames():
    whole = load_params(ROOT / "params.yaml").diffusion.model_dump()
    small = {"dimension": 6, "rank": 2, "width": 16, "max_steps": 3, "batch_size": 8}
    small |= {"steps": (2, 4), "seeds": (0, 1), "points": 200, "repeats": 2}
    small |= {"flow_steps": 10, "flow_points": 5, "probes": (1, 2)}
    return study.run_study(DiffusionParams(**{**whole, **small}))


def test_rows(frames):
    steps = frames["steps"]
    assert len(steps) == 2 * 2 * 15
    assert set(steps["evaluations"].dropna()) == {2, 3, 4, 7}
    assert len(frames["seconds"]) == 6
    assert list(frames["likelihood"]["trace"]) == [
        "trace of s2",
        "trace of s2",
        "Hutchinson, 1 probe",
        "Hutchinson, 2 probes",
    ]
    assert set(study.headline(steps)) >= {"gap_diagonal_plus_low_rank", "gap_exact"}


def test_exact_scores_have_the_least_gap(frames):
    gaps = frames["steps"].groupby(["mean", "covariance"])["gap"].mean()
    assert gaps["exact"].idxmin() == "exact"
    assert gaps["exact", "exact"] < gaps["network"].min()
    likelihood = frames["likelihood"]
    # the wanted error of the flow, which of six dimensions is far smaller
    assert likelihood["error"][0] < 0.02
    assert (likelihood["noise"][2:] > 0).all()


def test_a_range_must_grow():
    whole = load_params(ROOT / "params.yaml").diffusion.model_dump()
    with pytest.raises(ValueError, match="low < high"):
        DiffusionParams(**{**whole, "sigma": (1.0, 0.5)})
