"""The frame of every stage: settings in, an MLflow run around the work, whole files out."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from hosm.experiment.run.exchange import exchanged, storage
from hosm.experiment.run.machine_load import patience_of
from hosm.experiment.run.process import PROJECT
from hosm.experiment.run.tags import standard_tags
from hosm.experiment.run.tracking import RunLogger, Tracker, open_tracker
from hosm.experiment.settings import Params, load_params
from hosm.io import write_whole

__all__ = ["Stage", "open_stage", "storage_path", "write_csv", "write_json", "write_tables"]

EXPERIMENT = "hosm"


class Stage(NamedTuple):
    """What a stage works with: its settings, its MLflow run, and the store of that run."""

    params: Params
    run: RunLogger
    tracker: Tracker


@contextmanager
def open_stage(stage: str, item: str | None = None) -> Iterator[Stage]:
    """Read the settings and open the stage's MLflow run; in a Ray job, also move its files.

    Args:
        stage: the stage's name in dvc.yaml.
        item: what it is run for, where one stage serves several data sets.

    Yields:
        The settings, the run to log to, and its tracker.
    """
    params = load_params(PROJECT / "params.yaml")
    tracker = open_tracker(None, EXPERIMENT, PROJECT)
    name = stage if item is None else f"{stage}/{item}"
    tracker.close_abandoned(name)
    tags = standard_tags(PROJECT, params.profile, None) | {"stage": stage}
    names = (stage,) if item is None else (f"{stage}@{item}", f"{stage}-images@{item}")
    with tracker.run(name, params={"profile": params.profile}, tags=tags) as run:
        with exchanged(PROJECT, *names), patience_of(params.profile):
            yield Stage(params, run, tracker)


def storage_path(stage: str) -> str:
    """Return where Ray keeps a stage's checkpoints: a path or URI outside DVC's outputs."""
    return f"{storage() or PROJECT / 'runs' / 'ray'}/{stage}"


def write_csv(frame: pd.DataFrame, path: Path) -> None:
    """Write a table as CSV."""
    write_whole(frame.to_csv(index=False, float_format="%.6g").encode(), path)


def write_tables(tables: Mapping[str, pd.DataFrame], folder: Path, run: RunLogger) -> None:
    """Write tables by the names of their CSV files, and log these files.

    Args:
        tables: by the names of their files, without ending.
        folder: where the files go.
        run: what they are logged to.
    """
    for name, frame in tables.items():
        write_csv(frame, folder / f"{name}.csv")
        run.log_artifact(folder / f"{name}.csv")


def write_json(values: dict[str, Any], path: Path) -> None:
    """Write numbers as JSON."""
    write_whole((json.dumps(values, indent=2) + "\n").encode(), path)
