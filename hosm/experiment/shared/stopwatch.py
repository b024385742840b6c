"""Time and memory of a piece of work, on a CPU or a GPU.

Works that are compared are timed in turn, round after round, so that what slows a machine down
for a while slows all of them. A short work is called many times in each round, as `timeit` does.
Beside the times stands what else the machine did (`hosm.experiment.run.machine_load`).
"""

import contextlib
import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psutil
import torch
from torch.profiler import ProfilerActivity, profile

from hosm.experiment.run.machine_load import (
    Load,
    Reader,
    Watch,
    counted,
    counters,
    wait_until_quiet,
)
from hosm.experiment.run.process import keep_freed_memory
from hosm.experiment.run.provenance import hardware

__all__ = [
    "CIRCUMSTANCES",
    "Times",
    "Work",
    "devices",
    "peak_bytes",
    "summary",
    "threads",
    "timed_in_turn",
]

Work = Callable[[], object]
Key = TypeVar("Key")
CIRCUMSTANCES = ("left_out", "others", "stolen", "threads", "megahertz", "machine")
SHORTEST = 0.02  # seconds that a round spends on each work, at least
_CLEAR_REFS, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")


class Times(NamedTuple):
    """Seconds of each round of a work, and the load of the machine in that round."""

    seconds: list[float]
    loads: list[Load]

    @property
    def counted(self) -> list[float]:
        """Seconds of the rounds that count: see `machine_load.counted`."""
        return [self.seconds[number] for number in counted(self.loads)]


def devices() -> list[torch.device]:
    """Return what can be timed here: the CPU, and a GPU where there is one."""
    return [torch.device(name) for name in ("cpu", *["cuda"] * torch.cuda.is_available())]


@contextlib.contextmanager
def threads(count: int) -> Iterator[None]:
    """Have torch use `count` threads for a while."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _seconds(work: Work, calls: int, device: torch.device) -> float:
    """Return the seconds of one call, from `calls` of them."""
    if device.type == "cuda":
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(calls):
            work()
        stop.record()
        torch.cuda.synchronize()
        return start.elapsed_time(stop) / 1e3 / calls
    began = time.perf_counter()
    for _ in range(calls):
        work()
    return (time.perf_counter() - began) / calls


def timed_in_turn(
    works: Mapping[Key, Work],
    repeats: int,
    device: torch.device,
    shortest: float = SHORTEST,
    read: Reader = counters,
) -> dict[Key, Times]:
    """Return the times of each work, `repeats` of them, after two calls to warm up.

    The machine is read after each round, so that a disturbed round counts for no work or for all.

    Args:
        works: by any key.
        repeats: rounds.
        device: where they run.
        shortest: seconds that a round spends on each work, at least.
        read: the source of readings of the machine.
    """
    calls = {}
    for name, work in works.items():
        work()
        once = _seconds(work, 1, device)
        calls[name] = max(1, math.ceil(shortest / max(once, 1e-9)))
    times: dict[Key, list[float]] = {name: [] for name in works}
    wait_until_quiet()
    watch = Watch(read)
    for _ in range(repeats):
        for name, work in works.items():
            times[name].append(_seconds(work, calls[name], device))
        watch.round_ended()
    return {name: Times(each, watch.loads()) for name, each in times.items()}


def summary(times: Times) -> dict[str, Any]:
    """Return median, least and largest of the times that count, in seconds, and how they arose.

    Returns:
        `seconds`, `seconds_low`, `seconds_high`; `repeats`, the rounds that count, and
        `left_out`, those that do not; `others` and `stolen`, the largest shares of the cores that
        other processes used, and the host kept, in a round that counts; `threads`; `megahertz`,
        not a number where it is unknown; and `machine`, in words.
    """
    seconds, loads = times.counted, [times.loads[number] for number in counted(times.loads)]
    frequency = psutil.cpu_freq() if hasattr(psutil, "cpu_freq") else None
    return {
        "seconds": statistics.median(seconds),
        "seconds_low": min(seconds),
        "seconds_high": max(seconds),
        "repeats": len(seconds),
        "left_out": len(times.seconds) - len(seconds),
        "others": max(load.others for load in loads),
        "stolen": max(load.stolen for load in loads),
        "threads": torch.get_num_threads(),
        "megahertz": frequency.current if frequency else math.nan,
        "machine": hardware(),
    }


def _allocated_on_cpu(work: Work) -> int:
    """Return the most bytes that torch's allocator held for the work at once."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        work()
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        record.export_chrome_trace(file.name)
        events = json.loads(Path(file.name).read_text())["traceEvents"]
    totals = [e["args"] for e in events if e.get("name") == "[memory]"]
    totals = [arg for arg in totals if arg["Device Type"] == 0]
    if not totals:
        return 0
    before = totals[0]["Total Allocated"] - totals[0]["Bytes"]
    return max(arg["Total Allocated"] for arg in totals) - before


def _process_size(name: str) -> float:
    """Return a size of this process in bytes, where Linux tells it.

    Args:
        name: VmRSS for what is resident, VmHWM for the most of it since `_forget_peak`.
    """
    lines = _STATUS.read_text().splitlines() if _STATUS.exists() else []
    found = [line.split()[1] for line in lines if line.startswith(f"{name}:")]
    return 1024.0 * int(found[0]) if found else math.nan


def _forget_peak() -> None:
    """Start to measure the peak anew, where Linux lets a process do so."""
    with contextlib.suppress(OSError):
        _CLEAR_REFS.write_text("5")


def peak_bytes(work: Work, device: torch.device) -> dict[str, float]:
    """Return the peak memory of a work in bytes, once it has run to warm up.

    `allocated` is what torch's allocator held at once beyond what it held before, so without
    weights, state of an optimiser and inputs; `process` is the largest resident size of the whole
    process, whatever lives in it (host memory also where the work is on a GPU).
    """
    work()
    keep_freed_memory(False)  # what earlier works left behind does not count
    _forget_peak()
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        work()
        torch.cuda.synchronize()
        allocated = torch.cuda.max_memory_allocated() - before
    else:
        work()  # unprofiled: the record itself takes memory
    process = _process_size("VmHWM")
    keep_freed_memory()
    if device.type == "cpu":
        allocated = _allocated_on_cpu(work)
    return {"allocated": float(allocated), "process": process}
