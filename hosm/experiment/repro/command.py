"""`dvc repro` with its progress shown, everything that it prints in a log, its seconds in a file.

    python -m hosm.experiment.repro [arguments of dvc repro]

Where no option is given and there are processors for it, stages run beside each other, each by a
`dvc repro` of its own and on one thread. Those that dvc.yaml marks `alone` have the machine for
themselves: one `dvc repro` runs in turn all of them that can begin. What a stage finds does not
depend on what runs beside it. With options of DVC, and on one processor, one `dvc repro` does it
all. A stage that fails ends the run, once the stages beside it are finished.

The log is runs/repro.log, the seconds are in runs/stage_seconds.json. DVC's exit status is kept,
and signals are passed on: SIGINT to DVC and its stages, as a terminal does, the others to DVC.
"""

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from hosm.experiment.repro.expected import SECONDS, expected_seconds, known_seconds, profile
from hosm.experiment.repro.plan import Step, planned, up_to_date
from hosm.experiment.repro.processes import Processes
from hosm.experiment.repro.turns import alone_in_turn, to_begin, ways
from hosm.experiment.repro.view import View
from hosm.experiment.run.process import cpu_count
from hosm.io import write_whole

__all__ = ["reproduce"]

LOG = Path("runs", "repro.log")
MOST = 4  # stages at once: each of them may take some GB of memory
SINGLE = ("dvc", "--wait-for-lock", "repro", "--single-item")
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
Log = Callable[[str], int]


def reproduce(root: Path, arguments: Sequence[str]) -> int:
    """Run `dvc repro` and show how far it is.

    Args:
        root: folder of the project.
        arguments: of `dvc repro`.

    Returns:
        The exit status of DVC; 128 and the number of the signal that ended it, as in a shell.

    Raises:
        OSError: there is no command `dvc`, or runs/ cannot be written.
    """
    steps = planned(root, arguments)
    plain = bool(steps) and not any(each.startswith("-") for each in arguments)
    room = min(cpu_count(), MOST) if plain else 1
    view = View(steps, expected_seconds(root, [step.name for step in steps]), sys.stdout, room)
    (root / LOG).parent.mkdir(parents=True, exist_ok=True)
    with (root / LOG).open("w", encoding="utf-8") as log:
        if room > 1:
            status = _beside_each_other(root, steps, view, log.write)
        else:
            status = _in_turn(root, arguments, view, log.write)
    view.close(status)
    _keep(root, view)
    return status


def _keep(root: Path, view: View) -> None:
    """Write the seconds of stages that ran whole, beside those of earlier runs."""
    path = root / SECONDS
    whole = {name: s for name, s in view.took.items() if view.outcomes[name] == "ran"}
    if not view.outcomes:
        return
    every = json.loads(path.read_text(encoding="utf-8"))["seconds"] if path.exists() else {}
    every[profile(root)] = known_seconds(root) | whole
    in_order = dict.fromkeys([*view.stages, *view.outcomes])
    last = {name: view.outcomes[name] for name in in_order if name in view.outcomes}
    kept = {"last_run": last, "last_run_seconds": view.elapsed(), "seconds": every}
    write_whole((json.dumps(kept, indent=2) + "\n").encode(), path)


def _in_turn(root: Path, arguments: Sequence[str], view: View, log: Log) -> int:
    """Have one `dvc repro` run all stages; return its exit status."""
    runs = Processes(root)
    with runs.signals_passed_on():
        runs.begin("dvc", ["dvc", "repro", *arguments], {})
        while True:
            _, said = runs.hear()
            if isinstance(said, int):
                return said
            log(said)
            view.read(said)


def _beside_each_other(root: Path, steps: Sequence[Step], view: View, log: Log) -> int:
    """Run stages as their turn comes; return the exit status of the first that failed, or 0."""
    runs, way, status = Processes(root), ways(steps, view.expected), 0
    alone = {step.name for step in steps if step.alone}
    try:
        done = up_to_date(root, steps)
    except OSError as error:
        view.read(f"ERROR: {error}")
        return 255  # that of DVC
    view.skip(done)
    with runs.signals_passed_on():
        while True:
            if not status and not runs.signalled:
                _begin_next(runs, steps, done, way, view)
            if not runs.running:
                return status or runs.signalled
            command, said = runs.hear()
            stages = command.split()
            if isinstance(said, int):
                for name in view.running.keys() & stages:
                    view.end(name, said)
                done |= {*stages}
                status = status or said
            elif alone.isdisjoint(stages):
                log(f"{command}: {said}")
                view.read(said, command)
            else:
                view.read(said)
                log(f"{next(iter(view.running), stages[0])}: {said}")


def _begin_next(
    runs: Processes, steps: Sequence[Step], done: set[str], way: Mapping[str, float], view: View
) -> None:
    """Begin what may run now, in commands named by their stages.

    Stages beside each other have a command each, and begin with it; those that are alone have one
    command together, whose DVC says which of them begins.
    """
    running = [name for command in runs.running for name in command.split()]
    if not running and (names := alone_in_turn(steps, done, way)):
        runs.begin(" ".join(names), [*SINGLE, *names], {})
        return
    for name in to_begin(steps, done, running, way, view.room):
        runs.begin(name, [*SINGLE, name], ONE_THREAD)
        view.begin(name)
