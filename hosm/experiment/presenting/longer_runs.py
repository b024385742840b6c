"""Results that are kept from a longer run than this one, and shown beside it.

What is measured on sets of images is kept by their names; a longer run of the same set has the
same name with `LONGER` at its end. Wherever a number is shown, `THIS_RUN` or `LONG_RUN` says which
of the two it is of.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from hosm.experiment.shared.files import read_frames, read_json

__all__ = [
    "LONGER",
    "LONG_RUN",
    "THIS_RUN",
    "WithLonger",
    "is_longer",
    "read_runs",
    "read_tables",
    "read_with_longer",
    "run_name",
    "short_name",
]

Found = TypeVar("Found")
LONGER = "-whole"  # ends the name of what is kept from a longer run
THIS_RUN, LONG_RUN = "this run", "long run"


def is_longer(name: str) -> bool:
    """Say whether a name is that of a longer run."""
    return name.endswith(LONGER)


def run_name(name: str) -> str:
    """Return which run found what has this name."""
    return LONG_RUN if is_longer(name) else THIS_RUN


def short_name(name: str) -> str:
    """Return the name of a set of images, whether of this run or of a longer one."""
    return name.removesuffix(LONGER)


def read_runs(
    read: Callable[[Path, bool], Found], run: Path, longer: Path, names: Sequence[str]
) -> dict[str, Found]:
    """Read what this run found of each set of images, then what is kept of longer runs.

    Args:
        read: reads one folder; the second argument says whether it holds pictures, which are not
            kept of longer runs.
        run: folder of this run, with a folder for each set of images.
        longer: the same of longer runs; it may be missing.
        names: the sets of images of this run.
    """
    found = {name: read(run / name, True) for name in names}
    kept = {f"{folder.name}{LONGER}": read(folder, False) for folder in sorted(longer.glob("*/"))}
    return {**found, **kept}


@dataclass(frozen=True, eq=False)
class WithLonger(Generic[Found]):
    """What this run found: `whole` is a longer run, where one is kept."""

    run: Found
    whole: Found | None

    @property
    def longest(self) -> Found:
        """The longer run if there is one, else this one."""
        return self.whole or self.run

    @property
    def shown(self) -> str:
        """Which of the two `longest` is."""
        return LONG_RUN if self.whole else THIS_RUN


def read_with_longer(read: Callable[[Path], Found], run: Path, longer: Path) -> WithLonger[Found]:
    """Read what this run found, and what is kept of a longer one.

    Args:
        read: reads one folder.
        run: folder of this run.
        longer: the same of a longer run; it may be missing.
    """
    return WithLonger(read(run), read(longer) if longer.is_dir() else None)


def read_tables(
    kind: Callable[..., Found],
    name: str,
    files: Mapping[str, tuple[str, str]],
    entries: str,
    results: Path,
    kept: Path,
) -> WithLonger[Found]:
    """Read the tables and the card of a study, of this run and of what is kept of a longer one.

    Args:
        kind: made of the tables by their names, and of the `card`.
        name: of the study's folder.
        files: name of a table -> its file, and the columns that it must have.
        entries: of the card, separated by spaces.
        results: the folder `data/results`.
        kept: the folder `reports/whole` of what is kept of longer runs.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file lacks a column or an entry, or holds no rows.
    """

    def read(folder: Path) -> Found:
        return kind(**read_frames(folder, files), card=read_json(folder / "card.json", entries))

    return read_with_longer(read, results / name, kept / name)
