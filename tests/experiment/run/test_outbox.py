"""A server that goes away in the middle loses nothing: no row, no run, no file, no order."""

import json
import math
import threading
from collections import defaultdict

import numpy as np
import pytest
from matplotlib.figure import Figure
from mlflow.exceptions import MlflowException, RestException

from hosm.experiment.run import outbox, tracking
from hosm.experiment.run.outbox import Outbox
from hosm.experiment.run.tracking import RunLogger, Tracker

URI = "http://127.0.0.1:9"


class Server:
    """What a server would hold, and whether it answers."""

    def __init__(self):
        self.away, self.refuses, self.asked = False, False, 0
        self.runs, self.metrics, self.params = {}, defaultdict(list), defaultdict(dict)
        self.tags, self.ended, self.files = defaultdict(dict), {}, defaultdict(list)

    def _answer(self):
        self.asked += 1
        if self.away:
            raise MlflowException("API request failed: connection refused")
        if self.refuses:
            raise RestException({"error_code": "INVALID_PARAMETER_VALUE", "message": "no"})

    def create_run(self, experiment, start_time=None, tags=None, run_name=None):
        self._answer()
        run_id = f"{len(self.runs):032d}"
        self.runs[run_id] = run_name
        self.tags[run_id] |= tags
        info = type("Info", (), {"run_id": run_id})
        return type("Run", (), {"info": info})

    def log_batch(self, run_id, metrics=(), params=(), tags=()):
        self._answer()
        assert run_id in self.runs
        self.metrics[run_id] += [(m.key, m.value, m.step) for m in metrics]
        self.params[run_id] |= {p.key: p.value for p in params}
        self.tags[run_id] |= {t.key: t.value for t in tags}

    def log_artifact(self, run_id, path, folder):
        self._answer()
        with open(path) as stream:
            self.files[run_id].append((folder, stream.read()))

    def log_table(self, run_id, data, name):
        self._answer()
        self.files[run_id].append((name, data.to_dict("list")))

    def set_terminated(self, run_id, status, end_time=None):
        self._answer()
        self.ended[run_id] = status

    def search_runs(self, place, wanted):
        self._answer()
        return []


@pytest.fixture
def server(monkeypatch, tmp_path):
    made = Server()
    monkeypatch.setenv("HOSM_OUTBOX", str(tmp_path / "outbox"))
    monkeypatch.setattr(tracking, "_client", lambda uri: made)
    monkeypatch.setattr(tracking, "_failed", set())
    monkeypatch.setattr(tracking, "_away", {})
    return made


def back(server, monkeypatch):
    server.away = False
    monkeypatch.setattr(tracking, "_away", {URI: 0.0})


def test_fifty_trials_through_an_outage_lose_no_row(server, monkeypatch, tmp_path):
    tracker = Tracker(URI, "1")
    (tmp_path / "table.csv").write_text("1,2")
    with tracker.run("sweep") as parent:
        for number in range(50):
            server.away = 10 <= number < 40
            if number == 40:
                back(server, monkeypatch)
            with tracker.run(f"trial {number}", {"n": number}, None, parent.run_id) as run:
                for step in range(3):
                    run.log_metrics({"loss": number / 8}, step)
                run.log_artifact(tmp_path / "table.csv", "tables")
            parent.log_metrics({"done": number}, number)
    assert len(server.runs) == 51 and {*server.ended.values()} == {"FINISHED"}
    (sweep,) = [each for each, name in server.runs.items() if name == "sweep"]
    assert server.metrics[sweep] == [("done", number, number) for number in range(50)]
    for run_id, name in server.runs.items():
        if run_id != sweep:
            number = int(name.split()[1])
            assert server.metrics[run_id] == [("loss", number / 8, step) for step in range(3)]
            assert server.params[run_id] == {"n": str(number)}
            assert server.files[run_id] == [("tables", "1,2")]
            assert server.tags[run_id]["mlflow.parentRunId"] == sweep
    assert not Outbox(URI).waiting() and not [*tmp_path.rglob("*.refused")]


def test_a_parent_and_its_child_that_begin_in_an_outage_find_each_other(server, monkeypatch):
    tracker = Tracker(URI, "1")
    server.away = True
    with tracker.run("parent") as parent, tracker.run("child", None, None, parent.run_id):
        assert parent.run_id.startswith("kept-")
        back(server, monkeypatch)
        parent.log_metrics({"x": 1.0})
    ids = {name: run_id for run_id, name in server.runs.items()}
    assert server.tags[ids["child"]]["mlflow.parentRunId"] == ids["parent"]
    assert server.metrics[ids["parent"]] == [("x", 1.0, 0)]


def test_tables_and_figures_of_an_outage_arrive_when_it_ends(server, monkeypatch):
    run = RunLogger(URI, server.create_run("1", tags={}, run_name="a").info.run_id)
    rows = [{"sigma": 0.5, "error": np.float64(2.0)}, {"sigma": 1.0, "error": np.nan}]
    figure = Figure()
    figure.subplots().plot([0, 1])
    server.away = True
    run.log_table(rows, "curve.json")
    run.log_figure(figure, "pictures/curve.svg")
    assert not server.files
    back(server, monkeypatch)
    run.log_metrics({"x": 1.0})
    (name, table), (folder, picture) = server.files[run.run_id]
    assert (name, folder) == ("curve.json", "pictures") and "<svg" in picture
    assert table["sigma"] == [0.5, 1.0] and table["error"][0] == 2.0
    assert math.isnan(table["error"][1])


def test_an_outage_costs_one_try_and_one_warning(server, caplog):
    server.away = True
    for step in range(100):
        RunLogger(URI, "0" * 32).log_metrics({"loss": 1.0}, step)
    assert server.asked == 1 and len(caplog.records) == 1
    assert "kept in" in caplog.text


def test_another_process_sends_what_one_left(server, monkeypatch):
    run = RunLogger(URI, server.create_run("1", tags={}, run_name="a").info.run_id)
    server.away = True
    run.log_metrics({"loss": 1.0}, 3)
    monkeypatch.setattr(tracking, "_away", {})  # as a new process begins
    server.away = False
    assert Outbox(URI).flush(server) == 1
    assert server.metrics[run.run_id] == [("loss", 1.0, 3)]
    assert Outbox(URI).flush(server) == 0


def test_what_a_server_refuses_for_good_is_set_aside_and_the_rest_is_sent(server, tmp_path):
    box = Outbox(URI)
    run_id = server.create_run("1", tags={}, run_name="a").info.run_id
    box.keep(run_id, {"params": {"a": "1"}})
    server.refuses = True
    box.flush(server)
    server.refuses = False
    (aside,) = tmp_path.rglob("*.refused")
    assert json.loads(aside.read_text())["params"] == {"a": "1"}
    box.keep(run_id, {"tags": {"b": "2"}})
    assert box.flush(server) == 1 and server.tags[run_id] == {"b": "2"}


def test_a_flush_that_breaks_off_keeps_the_rest(server):
    box = Outbox(URI)
    run_id = server.create_run("1", tags={}, run_name="a").info.run_id
    for step in range(4):
        box.keep(run_id, {"metrics": [["x", float(step), 0, step]]})
    log = server.log_batch

    def breaks(*arguments, **options):
        server.away = len(server.metrics[run_id]) == 2
        log(*arguments, **options)

    server.log_batch = breaks
    with pytest.raises(MlflowException):
        box.flush(server)
    assert [step for _, _, step in server.metrics[run_id]] == [0, 1]
    server.log_batch, server.away = log, False
    assert box.flush(server) == 2
    assert [step for _, _, step in server.metrics[run_id]] == [0, 1, 2, 3]


def test_a_line_that_a_death_cut_short_does_not_stop_the_others(server):
    box = Outbox(URI)
    run_id = server.create_run("1", tags={}, run_name="a").info.run_id
    box.keep(run_id, {"metrics": [["x", 1.0, 0, 1]]})
    with (box.folder / f"{run_id}.jsonl").open("a") as stream:
        stream.write('{"metrics": [["x", 2.')
    assert box.flush(server) == 1 and server.metrics[run_id] == [("x", 1.0, 1)]


def test_fifty_threads_keep_fifty_lines(server):
    box = Outbox(URI)
    run_id = server.create_run("1", tags={}, run_name="a").info.run_id
    keep = [
        threading.Thread(target=box.keep, args=(run_id, {"metrics": [["x", 0.0, 0, step]]}))
        for step in range(50)
    ]
    for each in keep:
        each.start()
    for each in keep:
        each.join()
    box.flush(server)
    assert sorted(step for _, _, step in server.metrics[run_id]) == [*range(50)]


def test_sending_by_hand_asks_for_a_server(monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "off")
    with pytest.raises(ValueError, match="must be the address of a server"):
        outbox.flush_here()
