"""What the stage `sweep` tells MLflow of itself, its trials put in by hand."""

import re
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
from mlflow import MlflowClient

import pipeline.sweep as stage
from hosm.experiment.run.tracking import open_tracker
from hosm.experiment.settings import load_params
from tests.experiment.accuracy.estimates import estimate

ROOT = Path(__file__).resolve().parents[3]


def test_estimates_name_their_sweep_which_ends_with_its_least_errors(monkeypatch, tmp_path):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    tracker, one = open_tracker(None, "hosm", tmp_path), estimate()
    rows = np.zeros((1, 2), "float32")
    card = {"std": 1.0, "sha256": "abc"}

    @contextmanager
    def opened(name):
        with tracker.run(name) as run:
            yield load_params(ROOT / "params.yaml"), run, tracker

    def trained(inputs, cluster, storage, key, tell):
        tell(one)
        return pd.DataFrame([{**one.cell, **one.row}]), pd.DataFrame(), pd.DataFrame()

    def prepared(folder):
        return SimpleNamespace(train=rows, validation=rows, test=rows, card=card)

    monkeypatch.setattr(stage, "PROJECT", tmp_path)
    monkeypatch.setattr(stage, "open_stage", opened)
    monkeypatch.setattr(stage.datasets, "load", prepared)
    monkeypatch.setattr(stage.connection, "connect", lambda *_, **__: nullcontext())
    monkeypatch.setattr(stage.study, "run_sweep", trained)
    stage.sweep()
    runs = MlflowClient(tracking_uri=tracker.uri).search_runs([tracker.experiment_id])
    found = {run.data.tags.get("stage", "sweep"): run.data.tags for run in runs}
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d UTC", found["trial"]["sweep"])
    assert found["sweep"]["mlflow.note.content"].endswith("7.5 (jacobian) |")
