"""The last states of a run, in a folder or a bucket that outlives the processes of the run.

Ray has a registry of checkpoints of its own: one file, rewritten in place, that a kill or a full
disk may tear, after which no run of that name starts again. Here each state is a file that is
written whole or not at all; a run continues from the newest file that is sound, so that a damaged
one costs the steps since the file before it.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pyarrow.fs import FileInfo, FileSelector, FileSystem, FileType, LocalFileSystem

from hosm.io import write_whole
from hosm.training import packed, unpacked

__all__ = ["SavedStates", "every", "every_seconds"]

ENDING, UNFINISHED = "state", "tmp"
REQUEST = "requested"


def every(steps: int) -> Callable[[int], bool]:
    """Return a function that says whether a step is a multiple of `steps`; never if that is 0."""
    return lambda step: steps > 0 and step % steps == 0


def every_seconds(seconds: float) -> Callable[[], bool]:
    """Return a function that says whether so much time has passed since it last did; 0: never."""
    last = time.monotonic()

    def passed() -> bool:
        nonlocal last
        if seconds == 0 or time.monotonic() - last < seconds:
            return False
        last = time.monotonic()
        return True

    return passed


class SavedStates:
    """The states of a run, by names of which the last in alphabetical order are kept.

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
            tell: called with a line about each state that is damaged.
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

    def exist(self) -> bool:
        """Say whether there is anything in the folder."""
        return bool(self.files.get_file_info(FileSelector(self.folder, allow_not_found=True)))

    def request(self, patience: float) -> bool:
        """Request a state from the writer; say whether it was written in time.

        Args:
            patience: seconds to wait for it.
        """
        self.files.create_dir(self.folder)
        self.files.open_output_stream(f"{self.folder}/{REQUEST}").close()
        deadline = time.monotonic() + patience
        while (waiting := self.requested()) and time.monotonic() < deadline:
            time.sleep(0.1)
        self.answer()
        return not waiting

    def requested(self) -> bool:
        """Say whether someone waits for a state."""
        return self.files.get_file_info(f"{self.folder}/{REQUEST}").type != FileType.NotFound

    def answer(self) -> None:
        """Remove the request: the state is written, or nobody waits any more."""
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
