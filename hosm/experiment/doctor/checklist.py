"""Is this machine ready? Each check ends in `ok`, in a `warning`, or in what to `fix`.

    python -m hosm.experiment.doctor [--json]

The exit status is 1 if there is something to fix. Checks run side by side; one that fails, or that
does not answer within some seconds, counts as something to fix.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping

from hosm.experiment.doctor import other_machines, this_machine
from hosm.experiment.doctor.this_machine import Finding
from hosm.experiment.run.process import PROJECT
from hosm.experiment.run.secrets import masked

__all__ = ["doctor", "examine"]

PATIENCE = 13.0  # seconds for all checks
CHECKS: dict[str, Callable[[], list[Finding]]] = {
    "python": lambda: this_machine.python(PROJECT),
    "packages": lambda: this_machine.packages(PROJECT),
    "settings": lambda: this_machine.settings(PROJECT),
    "threads": lambda: this_machine.threads(PROJECT),
    "compiler": this_machine.compiler,
    "disk": lambda: this_machine.disk(PROJECT),
    "shared memory": lambda: this_machine.shared_memory(PROJECT),
    "dvc": lambda: this_machine.dvc(PROJECT),
    "ray": lambda: other_machines.ray_cluster(PROJECT),
    "dashboard": other_machines.dashboard,
    "storage": other_machines.shared_storage,
    "mlflow": lambda: other_machines.mlflow(PROJECT),
}


def _guarded(check: Callable[[], list[Finding]]) -> list[Finding]:
    """Return what a check finds, or that it failed."""
    try:
        return check()
    except Exception as error:  # of whatever kind: the other checks are worth showing
        return [Finding("fix", f"the check failed: {type(error).__name__}: {error}")]


def examine(
    checks: Mapping[str, Callable[[], list[Finding]]], patience: float = PATIENCE
) -> list[tuple[str, Finding]]:
    """Return the findings of each check, in the order of the checks.

    Args:
        checks: what is called, by name.
        patience: seconds that all checks together may take.
    """
    found: dict[str, list[Finding]] = {}

    def run(name: str) -> None:
        found[name] = _guarded(checks[name])

    threads = [threading.Thread(target=run, args=(name,), daemon=True) for name in checks]
    deadline = time.monotonic() + patience
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    late = [Finding("fix", f"no answer within {patience:g} s")]
    return [(name, each) for name in checks for each in found.get(name, late)]


def doctor(*options: str) -> None:
    """Print what each check finds; exit with status 1 if there is something to fix.

    Args:
        options: --json prints a list of objects with check, status and text.

    Raises:
        ValueError: an option is unknown.
    """
    if wrong := [option for option in options if option != "--json"]:
        raise ValueError(f"the option must be --json, got {wrong[0]!r}")
    found = [(name, each.status, masked(each.text)) for name, each in examine(CHECKS)]
    statuses = [status for _, status, _ in found]
    if options:
        keys = ("check", "status", "text")
        print(json.dumps([dict(zip(keys, row, strict=True)) for row in found], indent=2))
    else:
        for name, status, text in found:
            print(f"{status:8} {name:14} {' '.join(text.split())}")
        counts = [f"{statuses.count(each)} {each}" for each in ("ok", "warning", "fix")]
        print(f"doctor: {', '.join(counts)}")
    if "fix" in statuses:
        raise SystemExit(1)
