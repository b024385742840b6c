"""What MLflow holds of the estimates of a sweep, in SQLite."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from mlflow import MlflowClient
from mlflow.artifacts import download_artifacts

from hosm.experiment.accuracy.study import logged
from hosm.experiment.run.tracking import open_tracker
from hosm.experiment.settings import load_params
from tests.experiment.accuracy.estimates import BEGAN, estimate

ROOT = Path(__file__).resolve().parents[3]
SWEEP = load_params(ROOT / "params.yaml").sweep


@pytest.fixture(scope="module")
def logged_sweep(tmp_path_factory):
    """The store of a sweep with an estimate of s2, one of an s1, and one that diverged."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MLFLOW_TRACKING_URI", raising=False)
        tracker = open_tracker(None, "hosm", tmp_path_factory.mktemp("sweep"))
        lost = estimate("FAILED", "residual", diverged="training diverged at step 3")
        with tracker.run("sweep") as parent:
            logged.describe(tracker, parent)
            for each in (estimate(), estimate(target="dsm-vr", rank=0), lost):
                tags = {"git.commit": "abc", "sweep": "2026-11-30 19:00 UTC", "profile": "smoke"}
                logged.log_estimate(tracker, parent, SWEEP, "key", tags, each)
    return tracker


@pytest.fixture(scope="module")
def client(logged_sweep):
    return MlflowClient(tracking_uri=logged_sweep.uri)


def found(client, tracker, target):
    search = f"tags.stage = 'trial' and params.target = '{target}'"
    (run,) = client.search_runs([tracker.experiment_id], search)
    return run


def test_one_error_of_one_name_comes_first_for_every_method(client, logged_sweep):
    s2, s1 = (found(client, logged_sweep, each).data.metrics for each in ("jacobian", "dsm-vr"))
    assert s2["hessian_error"] == 7.5 and s2["s1_hessian_error"] == 9.4
    assert s1["hessian_error"] == 9.4
    for metrics in (s2, s1):
        assert min(metrics) == "hessian_error"
        assert "autodiff_error" not in metrics and "s2_error" not in metrics


def test_what_the_page_says_of_comparing_runs_runs(logged_sweep, capsys):
    page = (ROOT / "docs" / "compare-runs.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert code.count("sqlite:///runs/mlflow.db") == 1 and f"*{logged.VIEW}*" in page
    exec(code.replace("sqlite:///runs/mlflow.db", logged_sweep.uri), {})
    assert capsys.readouterr().out.split("\n")[:2] == ["jacobian 15 7.5", "dsm-vr 0 9.4"]


def test_settings_of_training_come_after_those_of_the_cell(client, logged_sweep):
    run = found(client, logged_sweep, "jacobian")
    spec = SWEEP.model({**estimate().cell})
    names = sorted(run.data.params)
    assert names[:6] == ["dataset", "rank", "regime", "seed", "sigma", "target"]
    kinds = ("batch_size", "learning_rate", "max_steps", "width")
    assert names[6:] == [f"training.{kind}" for kind in kinds]
    assert float(run.data.params["training.learning_rate"]) == spec.learning_rate
    assert int(run.data.params["training.max_steps"]) == spec.max_steps
    assert run.data.tags["git.commit"] == "abc"


@pytest.mark.parametrize("target", ["jacobian", "residual"])
def test_a_run_lasts_as_long_as_its_training(client, logged_sweep, target):
    info = found(client, logged_sweep, target).info
    assert info.start_time == round(1000 * BEGAN) and info.end_time - info.start_time == 90_000


def test_the_learning_curve_is_a_metric_a_table_and_a_picture(client, logged_sweep, tmp_path):
    run_id = found(client, logged_sweep, "jacobian").info.run_id
    history = client.get_metric_history(run_id, logged.CURVE)
    assert [(point.step, point.value) for point in history] == [
        (100, 50),
        (500, 10),
        (900, 5000 / 900),
    ]
    files = {each.path: each for each in client.list_artifacts(run_id)}
    assert set(files) == {"estimate.json", "learning_curve.json", "learning_curve.png"}
    assert max(each.file_size for each in files.values()) < 60_000

    def read(name):
        place = download_artifacts(
            run_id=run_id, artifact_path=name, dst_path=tmp_path, tracking_uri=logged_sweep.uri
        )
        return Path(place).read_bytes()

    table = json.loads(read("learning_curve.json"))
    assert [row[table["columns"].index("step")] for row in table["data"]] == [100, 500, 900]
    (row,) = json.loads(read("estimate.json"))["data"]
    assert 7.5 in row
    assert read("learning_curve.png").startswith(b"\x89PNG")


def test_the_picture_shows_the_errors_at_their_steps():
    (ax,) = logged.learning_curve(estimate()).axes
    (line,) = ax.lines
    assert line.get_xdata().tolist() == [100, 500, 900] and ax.get_yscale() == "log"
    assert ax.get_title() == "gaussian100, streaming, σ = 0.05, jacobian, r = 15, seed 0"


def test_what_diverged_has_failed_and_says_why(client, logged_sweep):
    run = found(client, logged_sweep, "residual")
    assert run.info.status == "FAILED"
    assert run.data.tags["ended"] == "failed: training diverged at step 3"
    assert set(run.data.metrics) == {"steps"}


def test_the_sweep_tells_how_to_compare_and_saves_the_view_that_it_names(client, logged_sweep):
    (run,) = client.search_runs([logged_sweep.experiment_id], "attributes.run_name = 'sweep'")
    note = run.data.tags["mlflow.note.content"]
    for text in ("press *Compare*", "Parallel Coordinates", "target and sigma", run.info.run_id):
        assert text in note
    assert f"#/experiments/{logged_sweep.experiment_id}/runs?viewStateShareKey=estimates" in note
    tags = client.get_experiment(logged_sweep.experiment_id).tags
    view = json.loads(tags["mlflow.sharedViewState.estimates"])
    assert view["name"] == "Estimates" and view["createdAt"] > 0
    state = json.loads(view["state"])
    assert state["searchFilter"] == "tags.stage = 'trial'"
    assert state["orderByKey"] == "metrics.`hessian_error`" and state["orderByAsc"]
    data = found(client, logged_sweep, "jacobian").data
    filled = {f"params.`{name}`" for name in data.params} | {
        f"tags.`{name}`" for name in data.tags
    }
    shown = state["selectedColumns"][1:]
    # MLflow puts them in the order of the alphabet, params first, whatever ours is
    assert shown[:4] == [f"params.`{name}`" for name in ("dataset", "rank", "sigma", "target")]
    assert set(shown[4:]) == {"tags.`sweep`", "tags.`profile`"}
    assert set(shown) < filled  # others would stay empty


def test_the_page_and_the_sweep_say_the_same_of_the_error():
    page = " ".join((ROOT / "docs" / "compare-runs.md").read_text().split())
    (sentence,) = re.findall(r"`hessian_error` is the squared error.*?\.", logged.HOW_TO_COMPARE)
    assert "(over the diagonal" in sentence and sentence in page


def test_a_finished_sweep_shows_its_least_errors_by_rank_and_sigma(tmp_path):
    cell = {"dataset": "gaussian100", "regime": "streaming"}
    rows = [
        {**cell, "rank": 15, "sigma": 0.05, "target": "jacobian", "seed": 0, "s2_error": 7.0},
        {**cell, "rank": 15, "sigma": 0.05, "target": "jacobian", "seed": 1, "s2_error": 8.0},
        {**cell, "rank": 15, "sigma": 0.05, "target": "moment", "seed": 0, "s2_error": 7.4},
        {**cell, "rank": 15, "sigma": 0.1, "target": "moment", "seed": 0, "s2_error": 6.25},
        {**cell, "rank": 0, "sigma": 0.1, "target": "dsm-vr", "seed": 0, "autodiff_error": 0.5},
    ]
    tracker = open_tracker(None, "hosm", tmp_path)
    with tracker.run("sweep") as parent:
        logged.describe(tracker, parent)
        logged.describe(tracker, parent, pd.DataFrame(rows))
    client = MlflowClient(tracking_uri=tracker.uri)
    note = client.get_run(parent.run_id).data.tags["mlflow.note.content"]
    table = [[part.strip() for part in line.split("|")[1:-1]] for line in note.split("\n")[-4:]]
    assert table[0] == ["dataset", "regime", "rank", "sigma 0.05", "sigma 0.1"]
    assert table[2] == ["gaussian100", "streaming", "0", "", "0.5 (dsm-vr)"]
    assert table[3] == ["gaussian100", "streaming", "15", "7.4 (moment)", "6.25 (moment)"]
    assert "press *Compare*" in note and "examples/compare_runs.py" in note
