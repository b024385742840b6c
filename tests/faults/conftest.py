"""The table of cases that the suite prints at its end: tried, survived, lost.

The moments of kills are drawn with FAULTS_SEED, which the table names (`make faults SEED=1`).
`make faults` runs two tests at once, each with clusters of its own, since one alone leaves half of
two cores idle; the table is of both.
"""

import os
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field

import pytest

from tests.faults.processes import MARKS, gone

CASES = []
SEED = int(os.environ.get("FAULTS_SEED", "0"))


@dataclass
class Case:
    """Faults of one kind: how many, how many were survived, and the steps that each cost."""

    name: str
    tried: int
    survived: int = 0
    repeated: list[int] = field(default_factory=list)
    note: str = ""


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left():
    """No process of any test may be left at the end; Ray's agents take a minute to see it."""
    yield
    assert not {mark: left for mark in sorted(MARKS) if (left := gone(mark, 90))}


@pytest.fixture
def case():
    """Return what opens a case; its faults count as survived once the body passes."""

    @contextmanager
    def opened(name, tried=1):
        each = Case(name, tried)
        CASES.append(each)
        try:
            yield each
        except pytest.skip.Exception:
            CASES.remove(each)
            raise
        each.survived = tried

    return opened


def pytest_sessionfinish(session):
    """Give the cases of one of several processes to the one that prints the table."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["faults"] = [asdict(each) for each in CASES]


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Take the cases of a process that has ended; one that crashed has none, and failed."""
    CASES.extend(Case(**each) for each in getattr(node, "workeroutput", {}).get("faults", ()))


def pytest_terminal_summary(terminalreporter):
    """Print the table."""
    if not CASES:
        return
    CASES.sort(key=lambda each: each.name)
    width = max(len(each.name) for each in CASES)
    rows = [("case".ljust(width), "tried", "survived", "lost", "steps repeated", "")]
    for each in CASES:
        most = f"at most {max(each.repeated)}" if each.repeated else ""
        numbers = (str(each.tried), str(each.survived), str(each.tried - each.survived))
        rows.append((each.name.ljust(width), *numbers, most, each.note))
    tried, survived = (sum(getattr(each, key) for each in CASES) for key in ("tried", "survived"))
    rows.append(("all".ljust(width), str(tried), str(survived), str(tried - survived), "", ""))
    terminalreporter.section(f"faults, their moments drawn with seed {SEED}")
    for name, tried, survived, lost, repeated, note in rows:
        line = f"{name}  {tried:>5}  {survived:>8}  {lost:>4}  {repeated:>14}  {note}"
        terminalreporter.write_line(line.rstrip())
