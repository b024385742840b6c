"""A run as it is shown: a line for each stage, its progress below, and a table at the end."""

import shutil
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import TextIO

from tabulate import tabulate

from hosm.experiment.repro.expected import seconds_left
from hosm.experiment.repro.lines import News, is_chatter, news, plain

__all__ = ["View"]

LAST = 20  # lines of a stage that are shown when it fails


class View:
    """Reads what a run prints, and shows what matters of it.

    Args:
        stages: those that are planned, in DVC's order.
        expected: seconds of stages, where they are known.
        out: where it is shown; on a terminal, only the last line of progress stays.
        clock: seconds that pass.
    """

    def __init__(
        self,
        stages: Sequence[str],
        expected: dict[str, float],
        out: TextIO,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stages, self.expected, self.out, self.clock = stages, expected, out, clock
        self.outcomes: dict[str, str] = {}
        self.took: dict[str, float] = {}
        self.last: dict[str, deque[str]] = {}
        self.running: str | None = None
        self.since = clock()
        self.live = False

    def read(self, line: str) -> None:
        """Take one line of the run."""
        text = plain(line)
        if said := news(text):
            self._heard(said)
        elif self.running:
            self.last[self.running].append(text)
        if said and said.what == "failed" or text.startswith("ERROR: "):
            self._write(text)
        elif not said and not is_chatter(text):
            self._progress(text)

    def close(self, status: int) -> None:
        """End the last stage, which failed unless the status is 0; show why, and the table."""
        if self.running and status:
            self.outcomes[self.running] = "failed"
        self._finish()
        for stage, outcome in self.outcomes.items():
            if outcome == "failed" and self.last.get(stage):
                self._write(f"stage {stage} failed; its last lines:")
                for text in self.last[stage]:
                    self._write(f"  {text}")
        if self.outcomes:
            self._write(self.table())

    def table(self) -> str:
        """Return the table of stages and seconds."""
        names = [*self.stages, *(name for name in self.outcomes if name not in self.stages)]
        rows = [
            (name, f"{self.took[name]:.0f}" if name in self.took else "", self._outcome(name))
            for name in names
        ]
        total = ("all", f"{sum(self.took.values()):.0f}", "")
        align = ("left", "right", "left")
        return tabulate([*rows, total], ("stage", "seconds", ""), "simple", colalign=align)

    def _outcome(self, name: str) -> str:
        return self.outcomes.get(name, "not reached")

    def _heard(self, said: News) -> None:
        if said.what == "failed":
            self.outcomes[said.stage] = "failed"
            return
        self._finish()
        self.outcomes[said.stage] = said.what
        if said.what == "runs":
            self.running, self.since = said.stage, self.clock()
            self.last[said.stage] = deque(maxlen=LAST)
            self._write(self._headline(said.stage))

    def _finish(self) -> None:
        if self.running:
            self.took[self.running] = self.clock() - self.since
            if self.outcomes[self.running] == "runs":
                self.outcomes[self.running] = "ran"
        self.running = None

    def _headline(self, stage: str) -> str:
        place = self.stages.index(stage) + 1 if stage in self.stages else len(self.outcomes)
        ahead = [name for name in self.stages if name == stage or name not in self.outcomes]
        left = seconds_left(self.expected, self.took, ahead) if ahead else None
        known = "time left unknown" if left is None else f"about {_duration(left)} left"
        return f"stage {place} of {len(self.stages) or '?'}, {stage}, {known}"

    def _progress(self, text: str) -> None:
        if not self.out.isatty():
            self._write(f"  {text}")
            return
        width = shutil.get_terminal_size().columns - 1
        self.out.write(f"\r\x1b[2K{f'  {text}'[:width]}")
        self.out.flush()
        self.live = True

    def _write(self, text: str) -> None:
        self.out.write(f"\n{text}\n" if self.live else f"{text}\n")
        self.out.flush()
        self.live = False


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
