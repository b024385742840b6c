"""A run as it is shown: a line for each stage, its progress below, and a table at the end."""

import shutil
import time
from collections import deque
from collections.abc import Callable, Collection, Sequence
from typing import TextIO

from tabulate import tabulate

from hosm.experiment.repro.expected import pace
from hosm.experiment.repro.lines import UNCHANGED, News, is_chatter, news, plain
from hosm.experiment.repro.plan import Step
from hosm.experiment.repro.turns import seconds_to_end
from hosm.experiment.run.duration import in_words

__all__ = ["View"]

LAST = 20  # lines of a stage that are shown when it fails


class View:
    """Reads what a run prints, and shows what matters of it.

    Args:
        steps: the stages that are planned, in DVC's order.
        expected: seconds of stages, where they are known.
        out: where it is shown; on a terminal, only the last line of progress stays.
        room: how many stages run at once.
        clock: seconds that pass.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        expected: dict[str, float],
        out: TextIO,
        room: int = 1,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.steps, self.expected, self.out, self.room = steps, expected, out, room
        self.stages = [step.name for step in steps]
        self.outcomes: dict[str, str] = {}
        self.took: dict[str, float] = {}
        self.last: dict[str, deque[str]] = {}
        self.running: dict[str, float] = {}
        self.clock, self.began = clock, clock()
        self.live = False

    def elapsed(self) -> float:
        """Return the seconds since the run began."""
        return self.clock() - self.began

    def read(self, line: str, stage: str | None = None) -> None:
        """Take one line of the run.

        Args:
            line: as it was printed.
            stage: that printed it; None where one DVC runs all stages in turn, and its news tell.
        """
        text = plain(line)
        said, of = news(text), stage or next(iter(self.running), None)
        if said:
            self._heard(said, alone=stage is None)
        elif of:
            self.last[of].append(text)
        if said and said.what == "failed" or text.startswith("ERROR: "):
            self._write(text)
        elif not said and not is_chatter(text):
            self._progress(text if stage is None else f"{stage}: {text}")

    def skip(self, stages: Collection[str]) -> None:
        """Take note of stages that have nothing to do."""
        self.outcomes |= {name: UNCHANGED for name in self.stages if name in stages}

    def begin(self, stage: str) -> None:
        """Show that a stage begins."""
        self.outcomes[stage] = "runs"
        self.running[stage] = self.clock()
        self.last[stage] = deque(maxlen=LAST)
        self._write(self._headline(stage))

    def end(self, stage: str, status: int = 0) -> None:
        """Take note that a stage has ended; it failed unless the status is 0."""
        seconds = self.clock() - self.running.pop(stage)
        if status:
            self.outcomes[stage] = "failed"
        elif self.outcomes[stage] == "runs":
            self.outcomes[stage] = "ran"
        if self.outcomes[stage] in ("ran", "failed"):
            self.took[stage] = seconds

    def close(self, status: int) -> None:
        """End what runs, which failed unless the status is 0; show why, and the table."""
        for stage in [*self.running]:
            self.end(stage, status)
        for stage, outcome in self.outcomes.items():
            if outcome == "failed" and self.last.get(stage):
                self._write(f"stage {stage} failed; its last lines:")
                for text in self.last[stage]:
                    self._write(f"  {text}")
        if self.outcomes:
            self._write(self.table())
        if self.outcomes and {*self.outcomes.values()} == {UNCHANGED}:
            self._write("Data and pipelines are up to date.")

    def table(self) -> str:
        """Return the table of stages and seconds."""
        names = [*self.stages, *(name for name in self.outcomes if name not in self.stages)]
        rows = [
            (name, f"{self.took[name]:.0f}" if name in self.took else "", self._outcome(name))
            for name in names
        ]
        total = ("all", f"{self.elapsed():.0f}", "")
        align = ("left", "right", "left")
        return tabulate([*rows, total], ("stage", "seconds", ""), "simple", colalign=align)

    def _outcome(self, name: str) -> str:
        return self.outcomes.get(name, "not reached")

    def _heard(self, said: News, alone: bool) -> None:
        """Take note of what DVC says of a stage; alone, one that is named ends the one before."""
        if said.what == "failed":
            self.outcomes[said.stage] = "failed"
        elif alone:
            for stage in [*self.running]:
                self.end(stage)
            self.outcomes[said.stage] = said.what
            if said.what == "runs":
                self.begin(said.stage)
        else:
            self.outcomes[said.stage] = said.what

    def _headline(self, stage: str) -> str:
        place = self.stages.index(stage) + 1 if self.room == 1 and stage in self.stages else 0
        of = len(self.stages) or "?"
        now = self.clock()
        running = {name: now - since for name, since in self.running.items()}
        done = {name for name in self.outcomes if name not in running}
        left = seconds_to_end(self.steps, done, running, self.expected, self.room)
        known = "time left unknown"
        if self.steps and left is not None:
            known = f"about {in_words(left * pace(self.expected, self.took))} left"
        return f"stage {place or len(self.outcomes)} of {of}, {stage}, {known}"

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
