"""How often regions of a stated probability held the clean point."""

from hosm.experiment.shared.rows import Row

__all__ = ["LEVELS", "coverage"]

LEVELS = (0.5, 0.8, 0.95)


def coverage(row: Row, prefix: str = "") -> str:
    """Return the coverages of a row in per cent, as 50.1 / 79.8 / 95.2.

    Args:
        row: with columns such as `coverage_0.5`.
        prefix: what these names begin with.
    """
    return " / ".join(f"{100 * row[f'{prefix}coverage_{level:g}']:.1f}" for level in LEVELS)
