"""Finished parts of a long study, kept so that a study that was stopped goes on with the rest."""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hosm import __version__
from hosm.io import write_whole

__all__ = ["NOTHING_FINISHED", "FinishedParts", "code_hash"]


def code_hash(*folders: Path) -> str:
    """Return a hash of the Python files of some folders, and of folders within."""
    files = sorted(file for folder in folders for file in folder.rglob("*.py"))
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:16]


@dataclass(frozen=True)
class FinishedParts:
    """A folder of finished parts, each in a file that is named by all that the part depends on.

    Attributes:
        folder: where they lie; None keeps none.
        depends: what every part depends on beside this version of the code, such as settings and
            the hashes of weights, of JSON's types.
    """

    folder: Path | None
    depends: Mapping[str, Any]

    def part(self, about: object, make: Callable[[], Any]) -> Any:  # noqa: ANN401
        """Return a part that was finished before; else make it, and keep it.

        Args:
            about: what this part depends on beside `depends`, of JSON's types.
            make: makes it, of JSON's types; numbers return as they were, tuples as lists.

        Raises:
            ValueError: the file of a finished part is damaged.
        """
        if self.folder is None:
            return json.loads(json.dumps(make()))
        text = json.dumps([__version__, dict(self.depends), about], sort_keys=True)
        path = self.folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"
        if not path.is_file():
            write_whole(json.dumps(make()).encode(), path)
        try:
            return json.loads(path.read_text())
        except ValueError as error:
            raise ValueError(f"{path} is damaged: {error}; remove it") from error


NOTHING_FINISHED = FinishedParts(None, {})
