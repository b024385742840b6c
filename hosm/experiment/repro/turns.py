"""Whose turn it is: which stages run beside each other, and when the last of them ends.

A stage begins once all that it depends on is finished. Those that may run beside others come
first, the one with the longest way to the end first; a stage that has the machine alone waits
until nothing else can run.
"""

from collections.abc import Collection, Mapping, Sequence

from hosm.experiment.repro.plan import Step

__all__ = ["alone_in_turn", "seconds_to_end", "to_begin", "ways"]


def ways(steps: Sequence[Step], expected: Mapping[str, float]) -> dict[str, float]:
    """Return the seconds from the start of each stage to the end, by the longest way there.

    Args:
        steps: in DVC's order, so that each comes after what it depends on.
        expected: seconds of stages; one that is not known counts as none.
    """
    found: dict[str, float] = {}
    for step in reversed(steps):
        later = (found[each.name] for each in steps if step.name in each.after)
        found[step.name] = expected.get(step.name, 0.0) + max(later, default=0.0)
    return found


def to_begin(
    steps: Sequence[Step],
    done: Collection[str],
    running: Collection[str],
    way: Mapping[str, float],
    room: int,
) -> list[str]:
    """Return the stages to begin now.

    Args:
        steps: the planned ones.
        done: those that are finished.
        running: those that run.
        way: seconds from the start of each to the end, as `ways` returns them.
        room: how many may run at once.
    """
    ready = _ready(steps, done, running, way)
    if any(step.alone for step in steps if step.name in running):
        return []
    beside = [step.name for step in ready if not step.alone]
    if beside or running:
        return beside[: max(0, room - len(running))]
    return [step.name for step in ready[:1]]


def alone_in_turn(
    steps: Sequence[Step], done: Collection[str], way: Mapping[str, float]
) -> list[str]:
    """Return the stages to run one after the other, each with the machine for itself.

    Args:
        steps: the planned ones.
        done: those that are finished; nothing runs.
        way: seconds from the start of each to the end, as `ways` returns them.

    Returns:
        Those that are alone and need nothing that is not done; none while any stage that may
        run beside others can begin.
    """
    ready = _ready(steps, done, (), way)
    return [step.name for step in ready] if all(step.alone for step in ready) else []


def _ready(
    steps: Sequence[Step],
    done: Collection[str],
    running: Collection[str],
    way: Mapping[str, float],
) -> list[Step]:
    """Return the stages whose needs are done, the one with the longest way first."""
    begun = {*done, *running}
    ready = [step for step in steps if step.name not in begun and step.after <= {*done}]
    return sorted(ready, key=lambda step: -way[step.name])


def seconds_to_end(
    steps: Sequence[Step],
    done: Collection[str],
    running: Mapping[str, float],
    expected: Mapping[str, float],
    room: int,
) -> float | None:
    """Return the seconds until all stages are finished, None where one of them is not known.

    Args:
        steps: the planned ones.
        done: those that are finished.
        running: those that run, with the seconds for which they have.
        expected: seconds of stages.
        room: how many run at once.
    """
    ahead = {*running, *(step.name for step in steps if step.name not in done)}
    if not ahead <= {*expected}:
        return None
    way, finished, now = ways(steps, expected), {*done}, 0.0
    ends = {name: max(0.0, expected[name] - since) for name, since in running.items()}
    while not ahead <= finished:
        for name in to_begin(steps, finished, ends, way, room):
            ends[name] = now + expected[name]
        if not ends:
            return None  # a stage waits for one that failed
        first = min(ends, key=lambda name: ends[name])
        now = ends.pop(first)
        finished.add(first)
    return now
