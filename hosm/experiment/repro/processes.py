"""Commands that run at once: what they print, line by line, and signals passed on to all."""

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from threading import Thread

from hosm.experiment.run.process import die_with_parent

__all__ = ["Processes"]

ENVIRONMENT = {"PYTHONUNBUFFERED": "1"}  # lines appear when they are printed
PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
Heard = tuple[str, str | None]  # the name of a command and its line, None where it has ended


class Processes:
    """Runs commands in a folder, each under a name.

    Args:
        root: the folder.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self.running: dict[str, subprocess.Popen[str]] = {}
        self._signals: list[int] = []  # that have come
        self._told: set[str] = set()  # commands that have been told of the last of them
        self._heard: SimpleQueue[Heard] = SimpleQueue()

    def begin(self, name: str, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start a command, which ends with this process.

        Args:
            name: of the command; none that runs has it.
            command: and its arguments.
            environment: beside that of this process.

        Raises:
            OSError: there is no such command.
        """
        signals = len(self._signals)
        run = self.running[name] = subprocess.Popen(
            command,
            cwd=self.root,
            env={**ENVIRONMENT, **os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
            process_group=0,  # what a terminal sends comes here alone, and is passed on once
            preexec_fn=die_with_parent,
        )
        if len(self._signals) > signals and name not in self._told:
            _send(run, self._signals[-1])  # it came while the command was starting
        Thread(target=self._listen, args=(name, run), daemon=True).start()

    @property
    def signalled(self) -> int:
        """The exit status by the last signal that came, as in a shell; 0 if none came."""
        return 128 + self._signals[-1] if self._signals else 0

    def _listen(self, name: str, run: subprocess.Popen[str]) -> None:
        for line in run.stdout or ():
            self._heard.put((name, line))
        self._heard.put((name, None))

    def hear(self) -> tuple[str, str | int]:
        """Wait for a line of any command, or for its end.

        Returns:
            Its name, and the line, or its exit status: 128 and the number of the signal that
            ended it, as in a shell.
        """
        name, line = self._heard.get()
        if line is not None:
            return name, line
        status = self.running.pop(name).wait()
        return name, status if status >= 0 else 128 - status

    @contextmanager
    def signals_passed_on(self) -> Iterator[None]:
        """Pass signals on to all that runs.

        SIGINT reaches a command and its children, as from a terminal; others the command alone.
        """

        def pass_on(number: int, frame: object) -> None:
            self._signals.append(number)
            self._told = {*self.running}
            for run in self.running.values():
                _send(run, number)

        before = {number: signal.signal(number, pass_on) for number in PASSED_ON}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _send(run: subprocess.Popen[str], number: int) -> None:
    if number != signal.SIGINT:
        run.send_signal(number)
    elif run.poll() is None:
        os.killpg(run.pid, number)
