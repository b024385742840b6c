"""Seconds in the words of a line of progress."""

__all__ = ["in_words"]


def in_words(seconds: float) -> str:
    """Return a duration in whole minutes from 90 s on, in whole seconds below.

    Args:
        seconds: at least 0.
    """
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
