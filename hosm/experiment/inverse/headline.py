"""The headline numbers of linear inverse problems."""

from collections.abc import Iterator

from hosm.experiment.inverse.claims import points_off
from hosm.experiment.inverse.results import EXACT, NAMES, OURS, InverseRun
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.headline import HeadlineLine

__all__ = ["inverse_lines"]


def inverse_lines(run: InverseRun) -> Iterator[HeadlineLine]:
    """Yield the largest miss of intervals over tasks, ours beside the rivals'."""
    learned = run.methods[run.methods["model"] == "learned"]
    worst = points_off(learned).groupby(learned["method"], sort=False).max()
    rivals = [name for name in worst.index if name not in (OURS, EXACT)]
    yield HeadlineLine(
        "points that intervals of linear inverse problems are off, largest of "
        f"{learned['task'].nunique()} tasks and three levels",
        f"`hosm.inverse`; {', '.join(NAMES[name] for name in rivals)}",
        formats.DASH,
        "; ".join(f"{worst[name]:.1f}" for name in (OURS, *rivals)),
    )
