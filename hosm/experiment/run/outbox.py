"""What is logged to an MLflow server while it is away: kept on disk, and sent when it is back.

Each run has a file of lines below the outbox, one for each call, in the order of the calls. They
are sent in this order, by the process that wrote them or by any later one of this machine; a run
that began while the server was away gets its id then. A line is removed after it was sent, so a
death between the two sends it again, which MLflow takes as the same.

    python -m hosm.experiment.run.outbox      # send what is left to MLFLOW_TRACKING_URI
"""

import hashlib
import json
import os
import shutil
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import pandas as pd
from filelock import FileLock
from mlflow import MlflowClient
from mlflow.entities import Metric, Param, RunTag
from mlflow.exceptions import MlflowException

from hosm.experiment.run.process import main

__all__ = ["Outbox", "send"]

KEPT = "kept-"  # begins the id of a run that the server does not know yet
AGAIN = (401, 403, 408, 429)  # answers after which another try may go well
PARENT = "mlflow.parentRunId"


def send(client: MlflowClient, run_id: str, entry: dict[str, Any]) -> None:
    """Do at a server what one call asked for.

    Args:
        client: of the server.
        run_id: of the run.
        entry: its metrics (name, value, milliseconds, step), params, tags, artifact, table or
            status.
    """
    if "artifact" in entry:
        client.log_artifact(run_id, entry["artifact"], entry["folder"])
    elif "table" in entry:
        client.log_table(run_id, pd.DataFrame(**entry["table"]), entry["name"])
    elif "status" in entry:
        client.set_terminated(run_id, entry["status"], end_time=entry["at"])
    else:
        client.log_batch(
            run_id,
            metrics=[Metric(*each) for each in entry.get("metrics", ())],
            params=[Param(*each) for each in entry.get("params", {}).items()],
            tags=[RunTag(*each) for each in entry.get("tags", {}).items()],
        )


def _refused(error: MlflowException) -> bool:
    """Return whether a server understood a call and will never do it."""
    status = error.get_http_status_code()
    return 400 <= status < 500 and status not in AGAIN


class Outbox:
    """What one server has not been sent yet, below HOSM_OUTBOX or the user's own folder.

    Args:
        uri: of the server.
    """

    def __init__(self, uri: str) -> None:
        own = Path.home() / ".local" / "state" / "hosm" / "outbox"
        place = Path(os.environ.get("HOSM_OUTBOX") or own)
        self.folder = place / hashlib.sha256(uri.encode()).hexdigest()[:12]

    def _lock(self) -> FileLock:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        return FileLock(self.folder / "lock", timeout=120)

    def waiting(self) -> list[Path]:
        """Return the files of runs with something to send, those that began first first."""
        return sorted(self.folder.glob("*.jsonl"), key=lambda path: (_lines(path)[0]["at"], path))

    def keep(self, run_id: str, entry: dict[str, Any]) -> None:
        """Add a call to the file of a run; a copy of an artifact goes with it."""
        if "artifact" in entry:
            entry = {**entry, "artifact": str(self._copied(Path(entry["artifact"])))}
        line = json.dumps({**entry, "at": entry.get("at", int(1000 * time.time()))})
        with self._lock(), (self.folder / f"{run_id}.jsonl").open("a") as stream:
            stream.write(line + "\n")
            stream.flush()
            os.fsync(stream.fileno())

    def begin(self, experiment: str, name: str, tags: dict[str, str], began: int) -> str:
        """Keep a run that began while the server is away; return an id to log to.

        Args:
            experiment: id of the experiment.
            name: of the run.
            tags: its tags.
            began: milliseconds since 1970.
        """
        run_id = f"{KEPT}{uuid.uuid4().hex}"
        self.keep(run_id, {"create": [experiment, name, tags], "at": began})
        return run_id

    def real(self, run_id: str) -> str:
        """Return the id that the server gave to a run, or the id itself."""
        known = self.folder / f"{run_id}.id"
        return known.read_text() if run_id.startswith(KEPT) and known.exists() else run_id

    def _copied(self, path: Path) -> Path:
        place = self.folder / "files" / uuid.uuid4().hex / path.name
        place.parent.mkdir(parents=True)
        shutil.copytree(path, place) if path.is_dir() else shutil.copy2(path, place)
        return place

    def flush(self, client: MlflowClient) -> int:
        """Send what is kept, and return how many calls that were.

        A call that the server refuses for good is set aside in a file `*.refused`.

        Raises:
            Exception: the server is still away; what was not sent stays.
        """
        if not self.folder.is_dir():
            return 0
        sent = 0
        with self._lock():
            for path in self.waiting():
                sent += self._sent(client, path)
        return sent

    def _sent(self, client: MlflowClient, path: Path) -> int:
        """Send the calls of one run; return how many that were."""
        entries, done = _lines(path), 0
        try:
            for entry in entries:
                try:
                    self._one(client, path.stem, entry)
                except MlflowException as error:
                    if not _refused(error):
                        raise
                    with path.with_suffix(".refused").open("a") as stream:
                        stream.write(json.dumps({**entry, "refused": str(error)}) + "\n")
                done += 1
        except Exception:
            rest = "".join(json.dumps(entry) + "\n" for entry in entries[done:])
            part = path.with_suffix(".part")
            part.write_text(rest)
            part.replace(path)
            raise
        path.unlink()
        return len(entries)

    def _one(self, client: MlflowClient, run_id: str, entry: dict[str, Any]) -> None:
        if "create" in entry:
            experiment, name, tags = entry["create"]
            parent = {PARENT: self.real(tags[PARENT])} if PARENT in tags else {}
            run = client.create_run(
                experiment, start_time=entry["at"], tags={**tags, **parent}, run_name=name
            )
            (self.folder / f"{run_id}.id").write_text(run.info.run_id)
            return
        if PARENT in entry.get("tags", {}):
            entry["tags"][PARENT] = self.real(entry["tags"][PARENT])
        send(client, self.real(run_id), entry)
        if "artifact" in entry:
            shutil.rmtree(Path(entry["artifact"]).parent)


def _lines(path: Path) -> list[dict[str, Any]]:
    """Return the calls of a file; one that a death cut short was never promised to be kept."""
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found or [{"at": 0}]


def flush_here() -> None:
    """Send what this machine has kept for the server at MLFLOW_TRACKING_URI."""
    uri = os.environ.get("MLFLOW_TRACKING_URI", "")
    if not uri.startswith("http"):
        raise ValueError("MLFLOW_TRACKING_URI must be the address of a server")
    print(f"sent: {Outbox(uri).flush(MlflowClient(tracking_uri=uri))} calls")


if __name__ == "__main__":
    main(flush_here, *sys.argv[1:])
