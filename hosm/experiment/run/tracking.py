"""Runs, their settings, metrics and files in MLflow, which only this and `outbox` import.

The driver opens a tracker, which creates the store and the experiment once, and owns the runs;
workers log to a run by the store's URI and the run's id. MLflow's global state (active run,
tracking URI) is never used, so threads and processes do not disturb each other.

Tracking fails soft, with one warning. A server that goes away in the middle is tried again now
and then, and what is logged meanwhile is kept (`hosm.experiment.run.outbox`). To any other store
that fails, and to a server that is away from the start, nothing is sent from then on. TypeError
and errors of the caller's own code pass through.
"""

import atexit
import json
import logging
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pandas as pd
from filelock import FileLock
from mlflow import MlflowClient
from mlflow.entities import Run
from mlflow.exceptions import MlflowException
from mlflow.telemetry import set_telemetry_client

from hosm.experiment.run.outbox import Outbox, send
from hosm.experiment.run.process import has_ended, identity, silenced
from hosm.experiment.run.secrets import masked
from hosm.experiment.run.tags import PARAM, TAG, named, number, texts

if TYPE_CHECKING:  # most stages draw nothing, and would wait for it
    from matplotlib.figure import Figure

__all__ = ["RunLogger", "Tracker", "open_tracker"]

T = TypeVar("T")
WORDS = {"FINISHED": "finished", "FAILED": "failed", "KILLED": "interrupted"}  # by status
LOG = logging.getLogger(__name__)
DEFAULTS = {
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
}
PATIENCE = 10  # seconds to wait for a locked SQLite file
RETRY = 30.0  # seconds after which a server that was away is tried again
_away: dict[str, float] = {}  # servers that were away, and when they are tried again
_failed: set[str] = set()  # stores that this process has given up
_lock = threading.RLock()


def open_tracker(uri: str | None, experiment: str, root: Path) -> "Tracker":
    """Open a store, creating it and the experiment in it where they do not exist.

    Several processes may do so at once. The environment variable MLFLOW_TRACKING_URI overrides
    the URI; "off", in either, turns tracking off.

    Args:
        uri: the store; SQLite in root/runs/mlflow.db if None. A relative SQLite file is relative
            to `root`.
        experiment: its name.
        root: folder of the project. Artifacts go to root/runs/artifacts, unless a server decides.

    Returns:
        The tracker; one that does nothing if the store cannot be opened.
    """
    root, asked = root.resolve(), os.environ.get("MLFLOW_TRACKING_URI")
    if "off" in (uri, asked):
        return Tracker(None, None)
    store = asked or uri or "sqlite:///runs/mlflow.db"
    file = _sqlite_file(store, root)
    if file is None:
        artifacts = None if store.startswith("http") else (root / "runs/artifacts").as_uri()
        return Tracker(store, _attempt(store, lambda: _identify(store, experiment, artifacts)))
    store = f"sqlite:///{file}"

    def identify() -> str:
        file.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{file}.lock", timeout=120):
            file.touch()
            return _identify(store, experiment, (root / "runs/artifacts").as_uri())

    return Tracker(store, _attempt(store, identify))


def _sqlite_file(uri: str, root: Path = Path("/")) -> Path | None:
    return root / uri.removeprefix("sqlite:///") if uri.startswith("sqlite:///") else None


def _set_defaults() -> None:
    """Shorten MLflow's retries and turn its telemetry off, unless the user has set either."""
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    set_telemetry_client()  # reads the environment again, as at import


def _keeps(uri: str) -> bool:
    """Return whether what a store is not sent is kept: that of a server, which may come back."""
    return uri.startswith("http") and uri not in _failed


def _reached(uri: str, action: Callable[[MlflowClient], T]) -> T | None:
    """Return action(client), after all that is kept for a server; None if it is away."""
    if uri in _away and time.monotonic() < _away[uri]:
        return None
    box = Outbox(uri)
    try:
        with silenced("mlflow", "urllib3", "alembic"):
            box.flush(_client(uri))
            answer = action(_client(uri))
    except TypeError:
        raise
    except Exception as error:  # as in _attempt
        if uri not in _away:
            reason = masked(" ".join(str(error).split()))[:300] or type(error).__name__
            where = f"what is logged is kept in {box.folder} and sent later"
            LOG.warning("MLflow at %s fails, so %s: %s", masked(uri), where, reason)
            atexit.register(_last_try, uri)
        _away[uri] = time.monotonic() + RETRY
        return None
    _away.pop(uri, None)
    return answer


def _last_try(uri: str) -> None:
    """Send what is kept before the process ends, if the server is back."""
    with _lock:
        if uri in _away:
            _away[uri] = 0.0
            _reached(uri, lambda client: True)


def _client(uri: str) -> MlflowClient:
    """Return a client, after a look whether a SQLite file is one: MLflow would retry for long."""
    _set_defaults()
    file = _sqlite_file(uri)
    if file:
        place = f"{file.as_uri()}?mode=rw"
        with closing(sqlite3.connect(place, timeout=PATIENCE, uri=True)) as probe:
            probe.execute("SELECT count(*) FROM sqlite_master")
    return MlflowClient(tracking_uri=uri)


def _identify(uri: str, experiment: str, artifacts: str | None) -> str:
    """Return the id of an experiment, new or not."""
    client = _client(uri)
    found = client.get_experiment_by_name(experiment)
    if found is None:
        try:
            return client.create_experiment(experiment, artifact_location=artifacts)
        except MlflowException:  # at a server, another process may have been faster
            found = client.get_experiment_by_name(experiment)
            if found is None:
                raise
    return found.experiment_id


def _attempt(uri: str | None, action: Callable[[], T]) -> T | None:
    """Return action(), or None if the store fails or has failed; the first time with a warning.

    One thread at a time, so that a store that is away costs its timeout once.
    """
    with _lock:
        if uri is None or uri in _failed:
            return None
        try:
            with silenced("mlflow", "urllib3", "alembic"):  # which report each retry
                return action()
        except TypeError:  # a wrong call, not a failure
            raise
        except Exception as error:  # the back ends of MLflow share no class of errors
            if not _failed:
                reason = masked(" ".join(str(error).split()))[:300] or type(error).__name__
                LOG.warning("MLflow at %s fails, so tracking is now off: %s", masked(uri), reason)
            _failed.add(uri)
            return None


@dataclass(frozen=True)
class RunLogger:
    """A run to log to, from any process; one that does nothing if `uri` or `run_id` is None.

    Nested names become dotted ones, characters that MLflow refuses become underscores, texts are
    cut at its limits, and values that are None are left out.
    """

    uri: str | None
    run_id: str | None

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Log numbers, or tensors of one number each, at a step; 0 if None.

        NaN stays NaN. Infinite values become NaN, as MLflow would store them as 1.8e308.

        Raises:
            TypeError: a value is not a number.
        """
        now, values = int(1000 * time.time()), named(metrics)
        self._do({"metrics": [[k, number(k, v), now, step or 0] for k, v in values.items()]})

    def log_params(self, params: Mapping[str, Any]) -> None:
        """Log settings, which cannot change later."""
        self._do({"params": texts(params, PARAM)})

    def set_tags(self, tags: Mapping[str, Any]) -> None:
        """Set tags, or change them."""
        self._do({"tags": texts(tags, TAG)})

    def log_artifact(self, path: str | Path, folder: str | None = None) -> None:
        """Copy a file or a folder into `folder` among the run's artifacts.

        Raises:
            FileNotFoundError: there is nothing at `path`.
        """
        if not Path(path).exists():
            raise FileNotFoundError(f"{path} does not exist, so it cannot be logged")
        self._do({"artifact": str(path), "folder": folder})

    def log_table(self, rows: Sequence[Mapping[str, Any]], name: str) -> None:
        """Log rows as a table, a JSON file that MLflow's pages show beside those of other runs."""
        self._do({"table": json.loads(pd.DataFrame(rows).to_json(orient="split")), "name": name})

    def log_figure(self, figure: "Figure", name: str) -> None:
        """Log a figure of matplotlib as a picture, whose kind is that of its name."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, Path(name).name)
            figure.savefig(path)
            above = Path(name).parent
            self._do({"artifact": str(path), "folder": None if above == Path() else str(above)})

    def _end(self, status: str, how: str, when: float | None = None) -> None:
        """End the run: its status, in words as the tag `ended`, and seconds since 1970 or now."""
        self.set_tags({"ended": how})
        self._do({"status": status, "at": int(1000 * (when or time.time()))})

    def _do(self, entry: dict[str, Any]) -> None:
        """Have the store do what a call asks for, now or, if a server is away, later."""
        uri, run_id = self.uri, self.run_id
        if uri is None or run_id is None:
            return
        if not _keeps(uri):
            _attempt(uri, lambda: send(_client(uri), run_id, entry))
            return

        def deliver(client: MlflowClient) -> bool:
            send(client, Outbox(uri).real(run_id), entry)
            return True

        with _lock:
            if not _reached(uri, deliver):
                Outbox(uri).keep(run_id, entry)


@dataclass(frozen=True)
class Tracker:
    """An experiment in a store, or nothing without one; workers pass its absolute `uri` on."""

    uri: str | None
    experiment_id: str | None

    @contextmanager
    def run(
        self,
        name: str,
        params: Mapping[str, Any] | None = None,
        tags: Mapping[str, Any] | None = None,
        parent_run_id: str | None = None,
    ) -> Iterator[RunLogger]:
        """Log the body as a run: FINISHED, FAILED after an error, or KILLED if interrupted.

        The tag `ended` says so in words: finished, `failed: the error`, or `interrupted: by what`.

        Args:
            name: of the run.
            params: its settings, perhaps nested.
            tags: its tags.
            parent_run_id: the run that it is shown under.

        Yields:
            What to log to; its `run_id` is None if tracking is off.
        """
        own = {"mlflow.parentRunId": parent_run_id, "process": identity()}
        run = self._start(name, {**(tags or {}), **own})
        run.log_params(params or {})
        status, how = "FINISHED", "finished"
        try:
            yield run
        except KeyboardInterrupt as error:
            status, how = "KILLED", f"interrupted: {error or 'by the keyboard'}"
            raise
        except BaseException as error:
            status, how = "FAILED", f"failed: {type(error).__name__}: {error}"
            raise
        finally:
            run._end(status, how)

    def finished_child(
        self,
        parent: RunLogger | str | None,
        name: str,
        params: Mapping[str, Any],
        metrics: Mapping[str, Any],
        tags: Mapping[str, Any] | None = None,
        status: str = "FINISHED",
        key: str | None = None,
        when: tuple[float, float] | None = None,
        more: Callable[[RunLogger], None] = lambda run: None,
    ) -> str | None:
        """Log a run that has ended elsewhere, such as a trial of a search, and return its id.

        A run of the same key that ended alike is not logged again but moved below `parent`: a
        search that is started again tells of all its trials.

        Args:
            parent: the run that it is shown under, or the id of that run.
            name: of the run.
            params: its settings.
            metrics: its last metrics.
            tags: its tags; `ended` may say more of how it ended than its status.
            status: how it ended: FINISHED, FAILED or KILLED.
            key: what the run is known by, as a tag.
            when: start and end of the run, in seconds since 1970; both are now if None.
            more: logs what else belongs to a run that is new.

        Raises:
            ValueError: there is no such status.
        """
        if status not in WORDS:
            raise ValueError(f"status must be one of {', '.join(WORDS)}, got {status!r}")
        above = parent.run_id if isinstance(parent, RunLogger) else parent
        if known := self._known(key, status):
            RunLogger(self.uri, known).set_tags({"mlflow.parentRunId": above})
            return known
        began, ended = when or (None, None)
        own = {"mlflow.parentRunId": above, "key": key}
        run = self._start(name, {**(tags or {}), **own}, began)
        run.log_params(params)
        run.log_metrics(metrics)
        more(run)
        run._end(status, (tags or {}).get("ended", WORDS[status]), ended)
        return run.run_id

    def save_view(self, name: str, wanted: str, columns: Sequence[str]) -> None:
        """Save a view of the experiment's list of runs, as the button *Views* of its page does.

        Args:
            name: of the view; in lower case it is the key of its address.
            wanted: the search of the runs that it shows.
            columns: their metrics and params, as `metrics.error` or `params.rank`; the runs are
                sorted by the first, which also shows those that lie below other runs.
        """
        now = int(1000 * time.time())
        parts = (column.partition(".") for column in columns)
        shown = [f"{kind}.`{rest}`" for kind, _, rest in parts]
        search = {"searchFilter": wanted, "orderByKey": shown[0], "orderByAsc": True}
        state = json.dumps({**search, "selectedColumns": shown})
        view = {"name": name, "createdAt": now, "updatedAt": now, "state": state}
        key, place = f"mlflow.sharedViewState.{name.lower()}", str(self.experiment_id)
        _attempt(
            self.uri,
            lambda: _client(str(self.uri)).set_experiment_tag(place, key, json.dumps(view)),
        )

    def close_abandoned(self, name: str) -> None:
        """Mark runs of a name as KILLED whose process has ended without ending them.

        Args:
            name: of the runs.
        """
        for run in self._search(f"attributes.run_name = '{name}' and status = 'RUNNING'"):
            owner = run.data.tags.get("process")
            if owner and has_ended(owner):
                how = "interrupted: its process ended without a word"
                RunLogger(self.uri, run.info.run_id)._end("KILLED", how)

    def _known(self, key: str | None, status: str) -> str | None:
        """Return the id of the run of a key that ended in a status."""
        found = self._search(f"tags.key = '{key}' and status = '{status}'") if key else []
        return found[0].info.run_id if found else None

    def _search(self, wanted: str) -> list[Run]:
        place = [str(self.experiment_id)]
        if self.uri is not None and _keeps(self.uri):
            with _lock:
                return _reached(self.uri, lambda client: client.search_runs(place, wanted)) or []
        return _attempt(self.uri, lambda: _client(str(self.uri)).search_runs(place, wanted)) or []

    def _start(self, name: str, tags: Mapping[str, Any], when: float | None = None) -> RunLogger:
        uri, experiment, labels = self.uri, self.experiment_id, texts(tags, TAG)
        if uri is None or experiment is None:
            return RunLogger(uri, None)

        began = int(1000 * (when or time.time()))

        def create() -> str:
            run = _client(uri).create_run(experiment, began, labels, name)
            return run.info.run_id

        if not _keeps(uri):
            return RunLogger(uri, _attempt(uri, create))
        with _lock:
            known = _reached(uri, lambda client: create())
            return RunLogger(uri, known or Outbox(uri).begin(experiment, name, labels, began))
