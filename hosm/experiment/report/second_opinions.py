"""A second opinion on each claim of the paper: what is found of it at one other point.

For each claim `paper.yaml` says what would change its verdict, and names one other point of data,
network, budget or regime: settings that differ, and the stages that they concern. A copy of the
project runs those stages alone, on the data and models that this project has, and the claims are
judged there as here. Points that are finished are kept, so that a run that was stopped goes on.

    python -m hosm.experiment.report.second_opinions
"""

import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from hosm.experiment.report.claims import claims
from hosm.experiment.report.results import load_results
from hosm.experiment.report.texts import OtherPoint, paper
from hosm.experiment.run.process import PROJECT, StageError, main
from hosm.experiment.run.stage import write_csv
from hosm.experiment.shared.finished_parts import FinishedParts
from hosm.experiment.shared.rows import Row

__all__ = ["change_settings", "judged_at", "second_opinions"]


def change_settings(path: Path, changes: Mapping[str, Any]) -> None:
    """Change entries of params.yaml in place, without its comments.

    Args:
        path: the file.
        changes: entries by their dotted names; each section has to be there.

    Raises:
        ValueError: there is no such section.
    """
    whole = yaml.safe_load(path.read_text(encoding="utf-8"))
    for name, value in changes.items():
        *sections, last = name.split(".")
        part = whole
        for section in sections:
            part = part.get(section) if isinstance(part, dict) else None
        if not isinstance(part, dict):
            raise ValueError(f"{name} must name an entry of {path.name}, got no such section")
        part[last] = value
    path.write_text(yaml.safe_dump(whole, sort_keys=False), encoding="utf-8")


def _copy(root: Path, copy: Path) -> None:
    """Make a copy of the last commit, with the data, models and results of the project."""
    if not (root / "data" / "results").is_dir():
        raise FileNotFoundError(f"{root / 'data' / 'results'} does not exist; run dvc repro first")
    shutil.rmtree(copy, ignore_errors=True)
    subprocess.run(["git", "clone", "-q", str(root), str(copy)], check=True)
    shutil.copytree(root / "data", copy / "data")


def _run(copy: Path, stage: str) -> None:
    """Run one stage in a copy: its name, and its arguments."""
    name, *arguments = stage.split()
    command = [sys.executable, "-m", f"pipeline.{name}", *arguments]
    ended = subprocess.run(command, cwd=copy, env={**os.environ, "PYTHONPATH": str(copy)})
    if ended.returncode:
        raise StageError(f"stage {stage} in {copy} ended with status {ended.returncode}")


def _judged(copy: Path) -> list[Row]:
    """Judge every claim by what a copy measured itself, and not by longer runs."""
    whole = copy / "reports" / "whole"
    shutil.rmtree(whole)
    shutil.copytree(copy / "data" / "results" / "accuracy", whole)
    return [
        {"name": c.name, "where": c.where, "verdict": c.verdict, "evidence": c.evidence}
        for c in claims(load_results(copy))
    ]


def judged_at(root: Path, point: OtherPoint, copy: Path) -> list[Row]:
    """Return the verdict on every claim at another point, and the seconds that its stages took.

    Args:
        root: the project, with `data` from a whole run.
        point: the settings that differ, and the stages to run with them.
        copy: folder of the copy that runs them; what is there is replaced.

    Raises:
        FileNotFoundError: the project has no data, models or results.
        StageError: a stage failed.
        ValueError: a setting has no section in params.yaml.
    """
    _copy(root, copy)
    change_settings(copy / "params.yaml", point.settings)
    since = time.perf_counter()
    for stage in point.stages:
        _run(copy, stage)
    seconds = time.perf_counter() - since
    return [{**row, "seconds": seconds} for row in _judged(copy)]


def second_opinions() -> None:
    """Write reports/whole/second-opinions.csv: a row for each place of each deciding claim."""
    folder = PROJECT / "build" / "second-opinions"
    lock = hashlib.sha256((PROJECT / "dvc.lock").read_bytes()).hexdigest()
    finished = FinishedParts(folder / "finished", {"dvc.lock": lock})  # data, code and settings
    rows: list[Row] = []
    for claimed in paper().claims:
        point = claimed.elsewhere
        about = {"stages": point.stages, "settings": point.settings}
        found = finished.part(about, partial(judged_at, PROJECT, point, folder / "copy"))
        deciding = [row for row in found if row["name"] in claimed.decides]
        rows += deciding
        told = ", ".join(row["verdict"] for row in deciding)
        print(f"{claimed.claim.strip()} At {point.point.strip()}: {told}", flush=True)
    write_csv(pd.DataFrame(rows), PROJECT / "reports" / "whole" / "second-opinions.csv")


if __name__ == "__main__":
    main(second_opinions)
