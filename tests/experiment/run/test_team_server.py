"""MLflow as a team has it: PostgreSQL, an S3 store for files, passwords, and an outage."""

import sys
import threading
import time

import pytest
from mlflow import MlflowClient

from hosm.experiment.run import tracking
from hosm.experiment.run.outbox import Outbox
from hosm.experiment.run.tracking import open_tracker
from tests.experiment.run.services import (
    KEYS,
    Proxy,
    free_port,
    need,
    postgres,
    s3,
    started,
)

pytestmark = pytest.mark.cluster
need("moto", "boto3", "flask_cors", "flask_wtf", "psycopg2")
MEETING = 700  # seconds that fifty trials may take to log, each request with a password's hash
AUTH = """[mlflow]
default_permission = READ
database_uri = sqlite:///{folder}/auth.db
admin_username = admin
admin_password = planted-admin-password
authorization_function = mlflow.server.auth:authenticate_request_basic_auth
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Yield the port of the server, and the address of its S3 store."""
    import boto3

    folder = tmp_path_factory.mktemp("team")
    (folder / "auth.ini").write_text(AUTH.format(folder=folder))
    with s3() as store, postgres(folder) as database:
        client = boto3.client(
            "s3",
            endpoint_url=store,
            aws_access_key_id="testing",
            aws_secret_access_key="testing-secret",
            region_name="us-east-1",
        )
        client.create_bucket(Bucket="mlflow")
        port = free_port()
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1"]
        command += ["--port", str(port), "--workers", "1", "--app-name", "basic-auth"]
        command += ["--backend-store-uri", database, "--artifacts-destination", "s3://mlflow/a"]
        own = {
            **KEYS,
            "MLFLOW_S3_ENDPOINT_URL": store,
            "MLFLOW_AUTH_CONFIG_PATH": str(folder / "auth.ini"),
            "MLFLOW_FLASK_SERVER_SECRET_KEY": "planted-server-key",
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }
        with started(command, f"http://127.0.0.1:{port}/health", env=environment(own), cwd=folder):
            yield port, client


def environment(own):
    import os

    return {k: v for k, v in os.environ.items() if not k.startswith(("MLFLOW", "AWS"))} | own


@pytest.fixture
def proxy(server, monkeypatch, tmp_path):
    monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", "admin")
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "planted-admin-password")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    monkeypatch.setenv("HOSM_OUTBOX", str(tmp_path / "outbox"))
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    for name, value in {"_failed": set(), "_away": {}, "RETRY": 1.0}.items():
        monkeypatch.setattr(tracking, name, value)
    made = Proxy(server[0])
    made.open()
    yield made
    made.close()


def test_fifty_trials_at_once_through_an_outage_are_all_there(server, proxy, tmp_path):
    uri = f"http://127.0.0.1:{proxy.port}"
    tracker = open_tracker(uri, "sweep", tmp_path)
    (tmp_path / "table.csv").write_text("1,2")
    half, again = threading.Barrier(51), threading.Barrier(51)

    def trial(number):
        with tracker.run(f"trial {number}", {"n": number}, None, parent.run_id) as run:
            run.log_metrics({"loss": 1.0}, 0)
            half.wait(MEETING)
            again.wait(MEETING)
            run.log_metrics({"loss": 2.0}, 1)
            if number == 7:
                run.log_artifact(tmp_path / "table.csv", "tables")

    with tracker.run("sweep") as parent:
        threads = [threading.Thread(target=trial, args=(number,)) for number in range(50)]
        for each in threads:
            each.start()
        half.wait(MEETING)
        proxy.close()
        again.wait(MEETING)
        for each in threads:
            each.join()
        kept = Outbox(uri).waiting()
        proxy.open()
        time.sleep(tracking.RETRY)
    assert len(kept) >= 49 and not Outbox(uri).waiting()
    client = MlflowClient(tracking_uri=uri)
    found = client.search_runs([tracker.experiment_id], max_results=100)
    assert len(found) == 51 and {run.info.status for run in found} == {"FINISHED"}
    for run in found:
        if run.info.run_name != "sweep":
            history = client.get_metric_history(run.info.run_id, "loss")
            assert [(m.step, m.value) for m in history] == [(0, 1.0), (1, 2.0)]
    listed = server[1].list_objects_v2(Bucket="mlflow").get("Contents", [])
    assert [each["Key"].rsplit("/", 1)[1] for each in listed] == ["table.csv"]


def test_without_the_password_nothing_is_logged(proxy, tmp_path, monkeypatch, caplog):
    monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD", "another-word-entirely")
    tracker = open_tracker(f"http://127.0.0.1:{proxy.port}", "refused", tmp_path)
    assert tracker.experiment_id is None and "fails, so tracking is now off" in caplog.text
    assert "another-word-entirely" not in caplog.text
