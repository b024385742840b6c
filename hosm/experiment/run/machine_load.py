"""What else a machine did while something was timed there, and waiting until it does less.

A time that was measured beside other processes says little of the method. What the cores did is
read before the first round of a timing and after each: what all processes used of them, less what
this process used itself, are the others. On a virtual machine, cores are also stolen by its host.

Rounds that passed while the machine was busy are left out where more than half of the rounds were
quiet. Otherwise all count, and the largest share of the others tells the reader so.
"""

import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import psutil

__all__ = [
    "OTHERS",
    "STOLEN",
    "UNKNOWN",
    "Counters",
    "Load",
    "Patience",
    "Reader",
    "Watch",
    "counted",
    "counters",
    "family_counters",
    "loads_of_rounds",
    "patience_of",
    "wait_until_quiet",
]

OTHERS, STOLEN = 0.10, 0.05  # shares of the cores above which a machine counts as busy
SPELL = 0.5  # seconds of a reading: Linux counts in hundredths of a second of each core
LEAST = 0.1  # seconds below which a reading says nothing
CHECK = 0.25  # seconds between two looks while waiting
PATIENCE = 60.0  # seconds that a stage waits at most, in all


class Counters(NamedTuple):
    """What the cores that this process may use have done, in seconds that only grow.

    `used` is what all processes used of all these cores, `own` what this process used, `stolen`
    what the host of a virtual machine kept for others; `clock` is that of the wall.
    """

    clock: float
    cores: int
    used: float
    own: float
    stolen: float


Reader = Callable[[], Counters]


def counters() -> Counters:
    """Return what the cores have done until now; `own` is of this process alone."""
    cores = psutil.cpu_times(percpu=True)
    if hasattr(os, "sched_getaffinity"):
        cores = [core for number, core in enumerate(cores) if number in os.sched_getaffinity(0)]
    stolen = sum(getattr(core, "steal", 0.0) for core in cores)
    kinds = ("user", "nice", "system", "irq", "softirq")  # guests are counted as users
    used = sum(getattr(core, kind, 0.0) for core in cores for kind in kinds)
    return Counters(time.perf_counter(), len(cores), used, time.process_time(), stolen)


def family_counters() -> Counters:
    """Return what the cores have done until now; `own` includes all descendants' processes."""
    own = 0.0
    for process in (whole := psutil.Process()), *whole.children(recursive=True):
        try:
            own += sum(process.cpu_times()[:4])  # the last two are of children that have ended
        except psutil.NoSuchProcess:
            continue  # it ended just now, and its parent's next reading counts it
    return counters()._replace(own=own)


class Load(NamedTuple):
    """Shares of the cores that other processes used, and that the host of the machine kept."""

    others: float
    stolen: float

    @property
    def busy(self) -> bool:
        """Whether a time measured meanwhile is one of a disturbed machine; False if unknown."""
        return self.others > OTHERS or self.stolen > STOLEN


UNKNOWN = Load(math.nan, math.nan)


def _load(before: Counters, after: Counters) -> Load:
    """Return the load between two readings; it is unknown where they do not tell it."""
    wall = (after.clock - before.clock) * after.cores
    if after.clock - before.clock < LEAST:
        return UNKNOWN
    if after.own < before.own:
        return UNKNOWN  # a process of the family has ended, and its count is lost
    others = (after.used - before.used) - (after.own - before.own)
    return Load(max(0.0, others) / wall, (after.stolen - before.stolen) / wall)


def loads_of_rounds(readings: Sequence[Counters]) -> list[Load]:
    """Return the load of each round; short ones share that of a spell of several.

    Args:
        readings: before the first round, and after each.
    """
    loads: list[Load] = []
    first, end = 0, len(readings) - 1
    while first < end:
        later = range(first + 1, end)
        long = (k for k in later if readings[k].clock - readings[first].clock >= SPELL)
        last = next(long, end)
        if readings[end].clock - readings[last].clock < SPELL:
            last = end  # too short a rest joins what is before it
        loads += [_load(readings[first], readings[last])] * (last - first)
        first = last
    return loads


class Watch:
    """Reads what the cores have done, from now on and after each round.

    Args:
        read: the source of the readings.
    """

    def __init__(self, read: Reader = counters) -> None:
        self._read = read
        self._readings = [read()]

    def round_ended(self) -> None:
        """Read once more."""
        self._readings.append(self._read())

    def loads(self) -> list[Load]:
        """Return the load of each round."""
        return loads_of_rounds(self._readings)


def counted(loads: Sequence[Load]) -> list[int]:
    """Return the numbers of the rounds that count: the quiet ones, if they are more than half."""
    quiet = [number for number, load in enumerate(loads) if not load.busy]
    return quiet if 2 * len(quiet) > len(loads) else list(range(len(loads)))


@dataclass
class Patience:
    """Seconds for which timings may still wait for a busy machine, and whether one did."""

    seconds: float = 0.0
    waited: bool = False


_PATIENCE = Patience()  # of this process: none outside of a stage


@contextmanager
def patience_of(profile: str) -> Iterator[None]:
    """Let timings in the body wait for a busy machine; not in the smoke profile.

    Args:
        profile: the switch of params.yaml.
    """
    before = _PATIENCE.seconds, _PATIENCE.waited
    _PATIENCE.seconds, _PATIENCE.waited = 0.0 if profile == "smoke" else PATIENCE, False
    try:
        yield
    finally:
        _PATIENCE.seconds, _PATIENCE.waited = before


def wait_until_quiet(
    patience: Patience = _PATIENCE,
    read: Reader = counters,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Wait until the machine is quiet, or until patience has run out; say so once.

    Args:
        patience: what is left of it; it shrinks.
        read: the source of readings.
        sleep: waits for so many seconds.
    """
    while patience.seconds > 0:
        before = read()
        sleep(CHECK)
        load = _load(before, read())
        if not load.busy:
            return
        if not patience.waited:
            told = f"{load.others:.0%} of the cores by other processes, {load.stolen:.0%} stolen"
            print(f"the machine is busy ({told}): timings wait, {patience.seconds:.0f} s in all")
        patience.waited = True
        patience.seconds -= CHECK
