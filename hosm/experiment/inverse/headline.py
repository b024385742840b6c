"""The headline numbers of linear inverse problems."""

from collections.abc import Iterator

from hosm.experiment.inverse.claims import points_off
from hosm.experiment.inverse.results import EXACT, NAMES, OURS, InverseRun
from hosm.experiment.presenting.headline import Finding

__all__ = ["inverse_findings", "inverse_sentence"]


def _worst(run: InverseRun) -> tuple[int, dict[str, float]]:
    """Return the number of tasks, and by method how far intervals are off at worst, in points."""
    learned = run.methods[run.methods["model"] == "learned"]
    worst = points_off(learned).groupby(learned["method"], sort=False).max()
    kept = {str(name): float(off) for name, off in worst.items() if name != EXACT}
    return int(learned["task"].nunique()), kept


def _best_rival(worst: dict[str, float]) -> str:
    """Return the best method of others."""
    return min((name for name in worst if name not in (OURS, "diagonal")), key=worst.__getitem__)


def inverse_sentence(run: InverseRun) -> str:
    """Return how far intervals are off at worst, beside the best method of others."""
    tasks, worst = _worst(run)
    best = _best_rival(worst)
    return (
        f"In {tasks} linear inverse problems, such as filling in what is missing, the share of "
        f"true values that our intervals hold is at most {worst[OURS]:.1f} percentage points "
        f"from what they state; that of {NAMES[best]}, the next best method, up to "
        f"{worst[best]:.1f}."
    )


def inverse_findings(run: InverseRun) -> Iterator[Finding]:
    """Yield the same beside the best method of others alone."""
    tasks, worst = _worst(run)
    best = _best_rival(worst)
    yield Finding(
        "How far intervals of 50, 80 and 95 % are from holding that share of the posterior's "
        f"draws, at the worst of {tasks} linear inverse problems, in percentage points.",
        f"{worst[OURS]:.1f}",
        f"{worst[best]:.1f} by {NAMES[best]}",
    )
