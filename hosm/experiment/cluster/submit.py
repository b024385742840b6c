"""A stage as a Ray job on a cluster that this machine reaches through its dashboard alone.

    python -m hosm.experiment.cluster.submit train@ring6

puts the stage's inputs into HOSM_STORAGE, sends code and settings with the job, shows what the
job prints, and fetches the results into the project, verified. The dashboard is the one at
RAY_API_SERVER_ADDRESS. Ctrl-C leaves the job running.
"""

import asyncio
import logging
import os
import sys
import time

from aiohttp import ClientError
from ray.exceptions import AuthenticationError
from ray.job_submission import JobStatus, JobSubmissionClient

from hosm.experiment.cluster.connection import NO_TOKEN
from hosm.experiment.run.exchange import open_store, stage_files
from hosm.experiment.run.process import PROJECT, StageError, main
from hosm.experiment.run.secrets import masked

__all__ = ["passed_on", "submit"]

PASSED = (
    *(f"MLFLOW_TRACKING_{name}" for name in ("URI", "USERNAME", "PASSWORD", "TOKEN")),
    *(f"AWS_{name}" for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY", "SESSION_TOKEN")),
    *("AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "HOSM_STORAGE", "HOSM_TRACEBACK"),
)
CHATTY = (
    *(f"ray.dashboard.modules.{name}" for name in ("dashboard_sdk", "job.sdk")),
    *(f"ray._private.runtime_env.{name}" for name in ("packaging", "working_dir")),
)
PATIENCE = 60  # seconds that a cluster which has just started may take to accept a job


def passed_on() -> dict[str, str]:
    """Return the environment of a job: where to store and to track, and credentials for both.

    Nothing of it is printed here; Ray keeps it in its own logs on the cluster's nodes. Without
    MLFLOW_TRACKING_URI the job is not tracked, as this machine's file would be none to it.
    """
    passed = {name: os.environ[name] for name in PASSED if name in os.environ}
    return {"MLFLOW_TRACKING_URI": "off", **passed}


def _client() -> JobSubmissionClient:
    """Return a client of the cluster.

    Raises:
        StageError: the cluster does not answer, or asks for a token.
    """
    try:
        return JobSubmissionClient()
    except AuthenticationError as error:
        raise StageError(NO_TOKEN) from error
    except (OSError, RuntimeError, ValueError) as error:
        where = os.environ.get("RAY_API_SERVER_ADDRESS", "http://localhost:8265")
        raise StageError(
            f"no Ray dashboard answers at {where}; set RAY_API_SERVER_ADDRESS=http://host:8265"
        ) from error


def _submitted(client: JobSubmissionClient, command: str) -> str:
    """Submit a job and return its id; again while a new cluster has no agent to take it."""
    environment = {"working_dir": str(PROJECT), "env_vars": passed_on()}
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            return client.submit_job(entrypoint=command, runtime_env=environment)
        except RuntimeError as error:
            if "No available agent" not in str(error) or time.monotonic() > deadline:
                raise StageError(f"the cluster refuses the job: {masked(str(error))}") from error
        time.sleep(2)


def _ended(client: JobSubmissionClient, job: str) -> JobStatus:
    """Show what a job prints until it ends, and return how it ended.

    A job that ends may leave lines behind that Ray has not passed on, such as why it failed; they
    are asked for at the end.
    """
    shown = 0

    async def show() -> None:
        nonlocal shown
        async for text in client.tail_job_logs(job):
            print(masked(text), end="", flush=True)
            shown += len(text)

    try:
        asyncio.run(show())
    except (ClientError, RuntimeError) as error:
        print(f"more of the job's output comes at its end: {masked(str(error))}", file=sys.stderr)
    while not (status := client.get_job_status(job)).is_terminal():
        time.sleep(1)
    try:
        print(masked(client.get_job_logs(job)[shown:]), end="", flush=True)
    except (OSError, RuntimeError) as error:
        print(f"the rest of the job's output is lost: {masked(str(error))}", file=sys.stderr)
    return status


def submit(stage: str) -> None:
    """Run a stage as a Ray job, from its inputs here to its results here.

    Args:
        stage: its name, as in `dvc repro`: train@ring6, sweep.

    Raises:
        ValueError: there is no such stage, or HOSM_STORAGE is not set or is not a place.
        StageError: the cluster does not answer, or the job failed.
    """
    files, store = stage_files(PROJECT, stage), open_store()
    for name in CHATTY:
        logging.getLogger(name).setLevel(logging.ERROR)
    client = _client()
    store.push(PROJECT, files.inputs)
    store.forget(files.outputs)
    if "MLFLOW_TRACKING_URI" not in os.environ:
        print("MLFLOW_TRACKING_URI is not set, so the job is not tracked", file=sys.stderr)
    job = _submitted(client, files.command)
    print(f"job {job}: {files.command}", flush=True)
    try:
        status = _ended(client, job)
    except KeyboardInterrupt:
        print(f"\nthe job goes on; `ray job stop {job}` stops it", file=sys.stderr)
        raise
    if status != JobStatus.SUCCEEDED:
        raise StageError(f"job {job} ended as {status}; its last lines say why")
    store.pull(PROJECT, files.outputs)
    print(f"fetched: {', '.join(files.outputs)}")


if __name__ == "__main__":
    main(submit, *sys.argv[1:])
