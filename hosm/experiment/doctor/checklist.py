"""Is this machine ready? Each check says ok, a warning, or what to mend.

    python -m hosm.experiment.doctor.checklist [--json]

The exit status is 1 if there is something to mend. Checks run side by side; what has not answered
after some seconds is itself to be mended, and so is a check that fails.
"""

import json
import threading
import time
from collections.abc import Callable, Mapping

from hosm.experiment.doctor import other_machines as reach
from hosm.experiment.doctor import this_machine as health
from hosm.experiment.doctor.this_machine import Finding
from hosm.experiment.run.masking import masked
from hosm.experiment.run.process import PROJECT

__all__ = ["doctor", "examine"]

PATIENCE = 13.0  # seconds for all checks
CHECKS: dict[str, Callable[[], list[Finding]]] = {
    "python": lambda: health.python(PROJECT),
    "packages": lambda: health.packages(PROJECT),
    "settings": lambda: health.settings(PROJECT),
    "threads": lambda: health.threads(PROJECT),
    "compiler": health.compiler,
    "disk": lambda: health.disk(PROJECT),
    "shared memory": lambda: health.shared_memory(PROJECT),
    "dvc": lambda: health.dvc(PROJECT),
    "ray": lambda: reach.ray_cluster(PROJECT),
    "dashboard": reach.dashboard,
    "storage": reach.shared_storage,
    "mlflow": lambda: reach.mlflow(PROJECT),
}


def _guarded(check: Callable[[], list[Finding]]) -> list[Finding]:
    """Return what a check finds; where it fails, that."""
    try:
        return check()
    except Exception as error:  # whatever it is, the other checks are worth showing
        return [Finding("mend", f"the check failed: {type(error).__name__}: {error}")]


def examine(
    checks: Mapping[str, Callable[[], list[Finding]]], patience: float = PATIENCE
) -> list[tuple[str, Finding]]:
    """Return what each check finds, in their order.

    Args:
        checks: by name.
        patience: seconds for all of them.
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
    late = [Finding("mend", f"no answer within {patience:g} s")]
    return [(name, each) for name in checks for each in found.get(name, late)]


def doctor(*options: str) -> None:
    """Print what each check finds, then leave with status 1 if there is something to mend.

    Args:
        options: --json prints a list of objects with check, status and text.

    Raises:
        ValueError: an option is unknown.
    """
    if wrong := [option for option in options if option != "--json"]:
        raise ValueError(f"unknown option {wrong[0]!r}; legal: --json")
    found = [(name, each.status, masked(each.text)) for name, each in examine(CHECKS)]
    statuses = [status for _, status, _ in found]
    if options:
        keys = ("check", "status", "text")
        print(json.dumps([dict(zip(keys, row, strict=True)) for row in found], indent=2))
    else:
        for name, status, text in found:
            print(f"{status:8} {name:14} {' '.join(text.split())}")
        counts = [f"{statuses.count(each)} {each}" for each in ("ok", "warning", "mend")]
        print(f"doctor: {', '.join(counts)}")
    if "mend" in statuses:
        raise SystemExit(1)
