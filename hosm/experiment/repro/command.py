"""`dvc repro` with its progress shown, everything that it prints in a log, its seconds in a file.

    python -m hosm.experiment.repro [arguments of dvc repro]

The log is runs/repro.log, the seconds are in runs/stage_seconds.json. DVC's exit status is kept,
and signals are passed on: SIGINT to DVC and its stage, as a terminal does, the others to DVC.
"""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hosm.experiment.repro.expected import SECONDS, expected_seconds, known_seconds, profile
from hosm.experiment.repro.plan import planned
from hosm.experiment.repro.view import View
from hosm.experiment.run.process import die_with_parent
from hosm.io import write_whole

__all__ = ["reproduce"]

LOG = Path("runs", "repro.log")
ENVIRONMENT = {"PYTHONUNBUFFERED": "1"}  # lines appear when they are printed
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
    stages = planned(root, arguments)
    view = View(stages, expected_seconds(root, stages), sys.stdout)
    (root / LOG).parent.mkdir(parents=True, exist_ok=True)
    with (root / LOG).open("w", encoding="utf-8") as log:
        status = _follow(root, ["dvc", "repro", *arguments], view, log.write)
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
    kept = {"last_run": view.outcomes, "seconds": every}
    write_whole((json.dumps(kept, indent=2) + "\n").encode(), path)


def _follow(root: Path, command: list[str], view: View, log: Callable[[str], int]) -> int:
    with subprocess.Popen(
        command,
        cwd=root,
        env={**ENVIRONMENT, **os.environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        errors="replace",
        process_group=0,  # what a terminal sends comes here alone, and is passed on once
        preexec_fn=die_with_parent,
    ) as run:
        with _passed_on(run):
            for line in run.stdout or ():
                log(line)
                view.read(line)
            status = run.wait()
    return status if status >= 0 else 128 - status


@contextmanager
def _passed_on(run: subprocess.Popen[str]) -> Iterator[None]:
    def pass_on(number: int, frame: object) -> None:
        if number == signal.SIGINT:
            os.killpg(run.pid, number)
        else:
            run.send_signal(number)

    before = {number: signal.signal(number, pass_on) for number in PASSED_ON}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
