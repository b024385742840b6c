"""The last states of a run, in a folder or a bucket that outlives the processes of the run.

Ray has a registry of checkpoints of its own: one file, rewritten in place, that a kill or a full
disk may tear, after which no run of that name starts again. Here there is nothing to tear. Each
state is a file that is whole or does not exist, the next is the newest that is sound, and a file
that is damaged costs the steps since the one before.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, LocalFileSystem

from hosm.io import write_whole
from hosm.training import packed, unpacked

__all__ = ["States", "every"]

ENDING, UNFINISHED = "state", "tmp"
REQUEST = "requested"


def every(steps: int) -> Callable[[int], bool]:
    """Return whether a step is a multiple of `steps`; never if that is 0."""
    return lambda step: steps > 0 and step % steps == 0


class States:
    """The states of a run by name, of which the last in alphabetical order are kept.

    Any process may read them; one at a time may write.

    Args:
        place: absolute path of a folder, or a URI that pyarrow knows.
        kept: how many states stay; two or more, so that one may be damaged.
    """

    def __init__(self, place: str, kept: int) -> None:
        self.place, self.kept = place, kept
        self.files, self.folder = FileSystem.from_uri(place)
        self.damaged: list[FileInfo] = []

    def save(self, state: dict[str, Any], name: str) -> None:
        """Write a state whole or not at all, then remove what is no longer kept.

        Args:
            state: tensors, numbers and texts.
            name: comes after those of earlier states in alphabetical order.

        Raises:
            OSError: it could not be written; the earlier states stay.
        """
        while self.damaged:  # they would be counted among those that stay
            self._remove(self.damaged.pop().path)
        data, path = packed(state), f"{self.folder}/{name}.{ENDING}"
        if isinstance(self.files, LocalFileSystem):
            write_whole(data, Path(path))
        else:
            self.files.create_dir(self.folder)
            with self.files.open_output_stream(f"{path}.{UNFINISHED}") as stream:
                stream.write(data)
            self.files.move(f"{path}.{UNFINISHED}", path)
        for file in [*self._stored(ENDING)[: -self.kept], *self._stored(UNFINISHED)]:
            self._remove(file.path)

    def newest(self, tell: Callable[[str], None] = print) -> dict[str, Any] | None:
        """Return the newest state that is sound; None if there is none.

        Args:
            tell: takes a line about each state that is not, and on what follows.
        """
        stored = self._stored(ENDING)
        self.damaged = []
        for file in reversed(stored):
            try:
                with self.files.open_input_stream(file.path) as stream:
                    return unpacked(stream.read(), file.path)
            except (ValueError, FileNotFoundError) as error:
                tell(f"{error}; the one before is taken")
                self.damaged.append(file)
        if stored:
            tell(f"no checkpoint in {self.place} is sound, so the run begins anew")
        return None

    def begun(self) -> bool:
        """Whether there is anything in the folder."""
        return bool(self.files.get_file_info(FileSelector(self.folder, allow_not_found=True)))

    def ask(self, patience: float) -> bool:
        """Ask the writer for a state now; say whether it was written before patience ended.

        Args:
            patience: seconds.
        """
        self.files.create_dir(self.folder)
        self.files.open_output_stream(f"{self.folder}/{REQUEST}").close()
        deadline = time.monotonic() + patience
        while (waiting := self.asked()) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.answer()
        return not waiting

    def asked(self) -> bool:
        """Whether someone waits for a state."""
        return self.files.get_file_info(f"{self.folder}/{REQUEST}").type != FileType.NotFound

    def answer(self) -> None:
        """Say that the state is written, or that nobody waits any more."""
        self._remove(f"{self.folder}/{REQUEST}")

    def _remove(self, path: str) -> None:
        """Remove a file, unless a writer whose driver was killed was faster."""
        with suppress(FileNotFoundError):
            self.files.delete_file(path)

    def _stored(self, ending: str) -> list[FileInfo]:
        """Return the files of an ending, the oldest first."""
        found = self.files.get_file_info(FileSelector(self.folder, allow_not_found=True))
        chosen = [file for file in found if file.extension == ending]
        return sorted(chosen, key=lambda file: file.base_name)
