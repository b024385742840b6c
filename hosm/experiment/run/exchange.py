"""Files of a stage that runs as a Ray job: its inputs and results, by way of a shared place.

A job has the code and the settings, but neither git nor DVC's data. So what a stage reads and
writes under data/ and reports/, as dvc.yaml says, travels through HOSM_STORAGE: a folder that all
machines see, or a URI such as s3://bucket/hosm. The path p lies at files/p there, beside
files/p.sha256, which lists a hash for each file as sha256sum does and is written last. What is
fetched is verified, and appears whole or not at all; nothing in it is executed.

    python -m hosm.experiment.run.exchange push train@ring6   # the stage's inputs to HOSM_STORAGE
    python -m hosm.experiment.run.exchange pull train@ring6     # its results from there

do by hand what `hosm.experiment.cluster.submit` does before and after a job.
"""

import functools
import hashlib
import operator
import os
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import fsspec
import yaml

from hosm.experiment.run.process import PROJECT, main
from hosm.experiment.run.secrets import masked

__all__ = [
    "StageFiles",
    "Store",
    "exchange",
    "exchanged",
    "open_store",
    "stage_files",
    "stages",
    "storage",
]

JOB = "RAY_JOB_CONFIG_JSON_ENV_VAR"  # set by Ray where a submitted job runs
CARRIED = ("data/", "reports/")


class StageFiles(NamedTuple):
    """A stage of dvc.yaml: its command, and the paths that it reads and writes."""

    command: str
    inputs: list[str]
    outputs: list[str]


def storage() -> str | None:
    """Return HOSM_STORAGE, None if it is not set.

    Raises:
        ValueError: it is a relative path, which means another folder on each machine.
    """
    place = os.environ.get("HOSM_STORAGE") or None
    if place and "://" not in place and not Path(place).is_absolute():
        raise ValueError(f"HOSM_STORAGE must be an absolute path or a URI, got {place!r}")
    return place


def stages(root: Path) -> dict[str, StageFiles]:
    """Return every stage of the experiment by its name in `dvc repro`.

    Args:
        root: folder of the project, which holds dvc.yaml and params.yaml.
    """
    names = ("dvc.yaml", "params.yaml")
    graph, params = (yaml.safe_load((root / name).read_text()) for name in names)
    found: dict[str, StageFiles] = {}
    for name, stage in graph["stages"].items():
        items = stage.get("foreach", [])
        if isinstance(items, str):  # ${section.key}
            items = functools.reduce(operator.getitem, items[2:-1].split("."), params)
        found |= {f"{name}@{item}": _stage(stage["do"], item) for item in items}
        if "foreach" not in stage:
            found[name] = _stage(stage, "")
    return found


def _stage(body: dict[str, Any], item: str) -> StageFiles:
    def paths(*keys: str) -> list[str]:
        entries = [entry for key in keys for entry in body.get(key, [])]
        plain = [next(iter(entry)) if isinstance(entry, dict) else entry for entry in entries]
        every = [path.replace("${item}", item) for path in plain]
        return [path for path in every if path.startswith(CARRIED)]

    command = body["cmd"].replace("${item}", item)
    return StageFiles(command, paths("deps"), paths("outs", "metrics", "plots"))


def stage_files(root: Path, *names: str) -> StageFiles:
    """Return the command and the files of a stage.

    Args:
        root: folder of the project.
        names: of the stage, as in `dvc repro`; the first that exists is used. A stage that is run
            for several items at once, each with an output of its name, is also known for one of
            them, as <stage>@<item>.

    Raises:
        ValueError: there is none of these names.
    """
    every = stages(root)
    for name in names:
        if found := every.get(name) or _one_of_several(every, name):
            return found
    raise ValueError(f"the stage must be one of {', '.join(every)}, got {names[0]!r}")


def _one_of_several(every: dict[str, StageFiles], name: str) -> StageFiles | None:
    """Return what <stage>@<item> is of a stage whose command names several items, if it is one."""
    stage, _, item = name.partition("@")
    whole = every.get(stage, StageFiles("", [], []))
    own = [path for path in whole.outputs if PurePosixPath(path).name == item]
    words = whole.command.split()
    if not own or item not in words[3:]:  # words are python, -m, the module, then items
        return None
    return StageFiles(" ".join([*words[:3], item]), whole.inputs, own)


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _hashes(root: Path, path: str) -> dict[str, str]:
    """Return the hash of each file of a path, which is a file or a folder, by its own path."""
    place = root / path
    files = sorted(place.rglob("*")) if place.is_dir() else [place]
    return {file.relative_to(root).as_posix(): _hash(file) for file in files if file.is_file()}


class Store:
    """The shared place.

    Args:
        place: a folder, or a URI of whatever fsspec knows.

    Raises:
        ValueError: the URI is of no known kind.
        ImportError: it needs a package that is not installed.
    """

    def __init__(self, place: str) -> None:
        self.place = place
        try:
            self.system, base = fsspec.core.url_to_fs(place)
        except ValueError as error:
            raise ValueError(f"HOSM_STORAGE = {masked(place)!r}: {masked(str(error))}") from error
        self.base = f"{base.rstrip('/')}/files"

    def _listed(self, path: str) -> str:
        return f"{self.base}/{path}.sha256"

    def forget(self, paths: Sequence[str]) -> None:
        """Mark what lies at some paths as missing."""
        for path in paths:
            if self.system.exists(self._listed(path)):
                self.system.rm_file(self._listed(path))

    def push(self, root: Path, paths: Sequence[str]) -> None:
        """Copy paths of the project to the shared place.

        Args:
            root: folder of the project.
            paths: files and folders, relative to it.

        Raises:
            FileNotFoundError: one is missing.
        """
        for path in paths:
            if not (root / path).exists():
                raise FileNotFoundError(f"{root / path} does not exist; run the stage before")
            hashes = _hashes(root, path)
            text = "".join(f"{digest}  {name}\n" for name, digest in hashes.items())
            listed = self._listed(path)
            if self.system.exists(listed) and self.system.cat_file(listed).decode() == text:
                continue
            self.forget([path])
            for name in hashes:
                target = f"{self.base}/{name}"
                self.system.makedirs(target.rpartition("/")[0], exist_ok=True)
                self.system.put_file(str(root / name), target)
            self.system.pipe_file(listed, text.encode())

    def _list(self, path: str) -> dict[str, str]:
        """Return the hashes of the files of a path, as listed in the shared place."""
        listed = self._listed(path)
        if not self.system.exists(listed):
            raise FileNotFoundError(f"HOSM_STORAGE holds no {path}; submit the stage anew")
        hashes = {}
        for line in self.system.cat_file(listed).decode().splitlines():
            digest, _, name = line.partition("  ")
            inside = name == path or name.startswith(f"{path}/")
            if not inside or ".." in PurePosixPath(name).parts:
                raise ValueError(f"{masked(listed)} must list files of {path}, got {name!r}")
            hashes[name] = digest
        return hashes

    def pull(self, root: Path, paths: Sequence[str]) -> None:
        """Copy paths from the shared place into the project, each whole or not at all.

        Args:
            root: folder of the project.
            paths: files and folders, relative to it.

        Raises:
            FileNotFoundError: one is missing there.
            ValueError: one was altered: its hash is not the one that is listed.
        """
        for path in paths:
            hashes, target = self._list(path), root / path
            if target.exists() and _hashes(root, path) == hashes:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=target.parent, prefix=".fetched-") as aside:
                for name, digest in hashes.items():
                    fresh = Path(aside, "new", name)
                    fresh.parent.mkdir(parents=True, exist_ok=True)
                    self.system.get_file(f"{self.base}/{name}", str(fresh))
                    if _hash(fresh) != digest:
                        raise ValueError(f"{name} in HOSM_STORAGE was altered; submit it anew")
                _put_in_place(Path(aside, "new", path), target, Path(aside, "old"))


def open_store() -> Store:
    """Return the store at HOSM_STORAGE.

    Raises:
        ValueError: it is not set, or is a relative path or an unknown kind of URI.
        ImportError: it needs a package that is not installed.
    """
    place = storage()
    if place is None:
        raise ValueError(
            "HOSM_STORAGE must be a folder or URI that all machines see, and is not set"
        )
    return Store(place)


def _put_in_place(fresh: Path, target: Path, aside: Path) -> None:
    """Move a file or a folder to its place; what was there is moved aside, and back on failure."""
    if target.exists():
        target.rename(aside)
    try:
        fresh.rename(target)
    except OSError:
        if aside.exists():
            aside.rename(target)
        raise


@contextmanager
def exchanged(root: Path, *names: str) -> Iterator[None]:
    """Within a Ray job, fetch a stage's inputs before the body and store its results after it.

    Elsewhere, and in a job without HOSM_STORAGE, the stage works on the project's own files.

    Args:
        root: folder of the project.
        names: of the stage; the first that is in dvc.yaml is used.

    Raises:
        FileNotFoundError: an input is missing.
    """
    place = storage()
    if JOB not in os.environ:
        yield
        return
    files = stage_files(root, *names)
    if place is None:
        if missing := [path for path in files.inputs if not (root / path).exists()]:
            raise FileNotFoundError(f"the job has no {missing[0]}; set HOSM_STORAGE, see README")
        yield
        return
    store = Store(place)
    store.pull(root, files.inputs)
    yield
    store.push(root, files.outputs)


def exchange(direction: str, stage: str) -> None:
    """Copy the files of a stage by hand.

    Args:
        direction: push, its inputs to HOSM_STORAGE; or pull, its results from there.
        stage: its name, as in `dvc repro`.

    Raises:
        ValueError: there is no such direction or stage, or a fetched file was altered.
        FileNotFoundError: a file is missing.
    """
    files, store = stage_files(PROJECT, stage), open_store()
    if direction == "push":
        store.push(PROJECT, files.inputs)
    elif direction == "pull":
        store.pull(PROJECT, files.outputs)
    else:
        raise ValueError(f"direction must be push or pull, got {direction!r}")


if __name__ == "__main__":
    main(exchange, *sys.argv[1:])
