"""The headline numbers of linear inverse problems."""

from collections.abc import Iterator

from hosm.experiment.inverse.claims import points_off
from hosm.experiment.inverse.results import EXACT, NAMES, OURS, InverseRun
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.headline import Finding, HeadlineLine

__all__ = ["inverse_findings", "inverse_lines"]


def _worst(run: InverseRun) -> tuple[int, dict[str, float]]:
    """Return the number of tasks, and by method how far intervals are off at worst, in points."""
    learned = run.methods[run.methods["model"] == "learned"]
    worst = points_off(learned).groupby(learned["method"], sort=False).max()
    kept = {str(name): float(off) for name, off in worst.items() if name != EXACT}
    return int(learned["task"].nunique()), kept


def inverse_lines(run: InverseRun) -> Iterator[HeadlineLine]:
    """Yield the largest miss of intervals over tasks, ours beside the rivals'."""
    tasks, worst = _worst(run)
    rivals = [name for name in worst if name != OURS]
    yield HeadlineLine(
        "points that intervals of linear inverse problems are off, largest of "
        f"{tasks} tasks and three levels",
        f"`hosm.inverse`; {', '.join(NAMES[name] for name in rivals)}",
        formats.DASH,
        "; ".join(f"{worst[name]:.1f}" for name in (OURS, *rivals)),
    )


def inverse_findings(run: InverseRun) -> Iterator[Finding]:
    """Yield the same beside the best method of others alone."""
    tasks, worst = _worst(run)
    rivals = [name for name in worst if name not in (OURS, "diagonal")]
    best = min(rivals, key=lambda name: worst[name])
    yield Finding(
        "How far intervals of 50, 80 and 95 % are from holding that share of the posterior's "
        f"draws, at the worst of {tasks} linear inverse problems, in points.",
        f"{worst[OURS]:.1f}",
        f"{worst[best]:.1f} by {NAMES[best]}",
    )
