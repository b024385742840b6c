"""How far a fit, a training or a run of chains has come: a bar on stderr, by the package tqdm.

    with ProgressBar(verbose) as bar:
        bar.move("chains", step, steps)

The bar says which part runs, how far it is, how long it took and about how long the rest takes.
Where nobody knows beforehand how many parts there are, it counts them. In Python it is off by
default and is turned on by `verbose=True`; in the command `hosm` it is on, and `--quiet` turns it
off. What a program wants to know of the progress it gets by `callback`, as numbers.
"""

from __future__ import annotations

import sys
from typing import Any, Self

from tqdm import tqdm

__all__ = ["ProgressBar", "print_beside"]

COUNTED = "{desc}: {n_fmt} parts [{elapsed}{postfix}]"  # where the number of parts is unknown


class _Bar(tqdm):  # type: ignore[type-arg]
    """A bar of tqdm that starts no thread of its own."""

    monitor_interval = 0
    _drawn: tuple[float, str] | None = None  # how far, and words, of what stands there

    def go_to(self, step: int, words: str) -> None:
        """Draw the bar once with so many steps done; `update` of tqdm and a refresh draw two."""
        self.n = step
        self.set_postfix_str(words, refresh=False)
        self.refresh()

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Draw the bar, unless it stands there already, as at the end of a bar that is full."""
        now = (self.n, self.postfix or "")
        if msg is not None or now != self._drawn:
            super().display(msg, pos)
            self._drawn = now

    def clear(self, nolock: bool = False) -> None:
        """Wipe the bar away, for a line above it."""
        super().clear(nolock)
        self._drawn = None


class ProgressBar:
    """One bar after another on stderr, each with a title; none of them if it is not shown.

    Args:
        shown: whether anything is written.
        unit: what is counted, in the singular.
    """

    def __init__(self, shown: bool, unit: str = "step") -> None:
        self.shown, self.unit = shown, unit
        self._title = ""
        self._bar: _Bar | None = None

    def move(self, title: str, step: int, steps: int, words: str = "") -> None:
        """Move the bar of a title to a step, and begin it if another one was there.

        Args:
            title: what runs.
            step: how many steps of it are done, from 0.
            steps: of so many.
            words: what else there is to say; nothing by default.
        """
        bar = self._begun(title, total=steps)
        if bar is not None:
            bar.go_to(step, words)

    def count(self, title: str, words: str) -> None:
        """Count one more part that is done, of a number that is not known.

        Args:
            title: what runs.
            words: which part.
        """
        bar = self._begun(title, total=None, bar_format=COUNTED)
        if bar is not None:
            bar.go_to(int(bar.n) + 1, words)

    def _begun(self, title: str, **options: Any) -> _Bar | None:  # noqa: ANN401
        """Return the bar of a title, a new one if need be; None if nothing is shown."""
        if self.shown and (self._bar is None or title != self._title):
            self.close()
            self._bar = _Bar(desc=title, unit=self.unit, dynamic_ncols=True, **options)
            self._title = title
        return self._bar

    def close(self) -> None:
        """Leave the bar as it is, and its line."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()


def print_beside(text: str) -> None:
    """Print a line on stderr above the bar, if one is shown."""
    tqdm.write(text, file=sys.stderr)
