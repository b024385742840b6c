"""Which worker hangs: one that is not waiting while all others wait for it.

Workers take their steps together, so one that stands still stops all of them, and Ray sees nothing
amiss. Each worker therefore tells an actor now and then which step it is in and whether it waits
for the others. Once none of them has moved for long, those that do not wait, or that have fallen
silent, are named; the workers that hear of it end, and Ray starts the group again. Before the
first step nobody is named: how long a start takes depends on the machine, and torch has a timeout
of its own.
"""

import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import ray
from ray.exceptions import RayError

__all__ = ["Pulse", "Pulses", "hanging", "watch_over"]

PATIENCE = 5.0  # seconds for an answer of the actor


@dataclass
class _Heard:
    """What is known of a worker: where it is, what it did last, since when, and when it spoke."""

    place: str
    doing: tuple[int, bool]
    since: float
    spoke: float


@dataclass
class Pulses:
    """The last signs of life of all workers of a group.

    `patience` is in seconds; `clock` tells them.
    """

    patience: float
    clock: Callable[[], float] = time.monotonic
    attempt: float = 0.0
    heard: dict[int, _Heard] = field(default_factory=dict)
    named: str = ""

    def beat(
        self, attempt: float, rank: int, workers: int, place: str, doing: tuple[int, bool]
    ) -> str:
        """Take a sign of life of a worker; return who hangs, "" if nobody does.

        Args:
            attempt: number of its group, higher for a group that was started later.
            rank: of the worker.
            workers: in the group.
            place: its process and host.
            doing: the step that it is in, and whether it waits for the others.
        """
        if attempt < self.attempt:
            return ""
        if attempt > self.attempt:
            self.attempt, self.heard, self.named = attempt, {}, ""
        now, before = self.clock(), self.heard.get(rank)
        since = before.since if before and before.doing == doing else now
        self.heard[rank] = _Heard(place, doing, since, now)
        still = now - max(each.since for each in self.heard.values())
        begun = any(each.doing[0] for each in self.heard.values())
        if not self.named and begun and len(self.heard) == workers and still > self.patience:
            self.named = self._name(now)
        return self.named

    def who(self) -> str:
        """Return who hangs in the latest group, "" if nobody does."""
        return self.named

    def _name(self, now: float) -> str:
        guilty = [
            f"worker {rank} of {len(self.heard)} ({each.place})"
            for rank, each in sorted(self.heard.items())
            if not each.doing[1] or now - each.spoke > self.patience / 2
        ]
        step = max(each.doing[0] for each in self.heard.values())
        who, verb = " and ".join(guilty), "have" if len(guilty) > 1 else "has"
        who = who or f"the link between {len(self.heard)} workers, which all wait,"
        return f"{who} {verb} stood still in step {step} for {self.patience:g} s"


class Pulse:
    """What a worker does now, which its watching thread tells the others; `step` is its step."""

    def __init__(self) -> None:
        self.step, self.waits = 0, 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Note that the worker waits for the others in the body."""
        self.waits += 1
        try:
            yield
        finally:
            self.waits -= 1

    def tell(self, pulses: Any, attempt: float, rank: int, workers: int, pause: float) -> None:  # noqa: ANN401
        """Tell an actor now and then; end this process when it says that someone hangs.

        Args:
            pulses: the actor.
            attempt: number of the group.
            rank: of this worker.
            workers: in the group.
            pause: seconds between two signs of life.
        """
        place = f"process {os.getpid()} on {socket.gethostname()}"

        def run() -> None:
            while True:
                doing = (self.step, self.waits > 0)
                try:
                    named = ray.get(pulses.beat.remote(attempt, rank, workers, place, doing))
                except RayError:  # the actor is lost with its node, and the group with it
                    return
                if named:
                    print(f"{named}; the workers end", flush=True)
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(pause)

        threading.Thread(target=run, daemon=True).start()


def watch_over(patience: float) -> Any:  # noqa: ANN401
    """Start the actor that hears the workers, which needs no CPU.

    Args:
        patience: seconds for which no worker may move.
    """
    return ray.remote(num_cpus=0)(Pulses).remote(patience)


def hanging(pulses: Any) -> str:  # noqa: ANN401
    """Return who hangs; "" if nobody does, or if the actor is lost.

    Args:
        pulses: the actor, or None where nobody watches.
    """
    if pulses is None:
        return ""
    try:
        return ray.get(pulses.who.remote(), timeout=PATIENCE)
    except RayError:
        return ""
