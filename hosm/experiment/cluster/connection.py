"""A Ray cluster to work on: the one at RAY_ADDRESS, or a local one that ends with the work."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import AuthenticationError

from hosm.experiment.run.process import StageError
from hosm.experiment.run.secrets import masked
from hosm.experiment.settings import ClusterParams

__all__ = [
    "NO_TOKEN",
    "connect",
    "keep_token_private",
    "settled",
    "unreachable",
    "worker_capacity",
]

LOOPBACK = "127.0.0.1"
PATIENCE = 20.0  # seconds that the nodes of a cluster may take to join it
LATE = "timed out during startup"  # Ray's words for a node that it gives up
NO_TOKEN = (
    "the Ray cluster asks for a token: set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN (or "
    "RAY_AUTH_TOKEN_PATH) as on its head node, or RAY_AUTH_MODE=disabled on both sides"
)
QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "PYTHONWARNINGS": "ignore::FutureWarning",
}
UNWATCHED = ("RAY_TRAIN_ENABLE_PREEMPTION_WATCHER", "0")  # a process more for each run


def unreachable(address: str) -> str | None:
    """Return why there is no cluster to join at an address; None if something listens there.

    Ray itself would try for minutes.

    Args:
        address: as in RAY_ADDRESS.
    """
    host, _, port = address.rpartition(":")
    if address == "auto":
        return None
    if not host or "://" in address or not port.isdecimal():
        return f"RAY_ADDRESS must be host:port of the head node, auto, or unset, got {address!r}"
    try:
        socket.create_connection((host, int(port)), 3.0).close()
    except (OSError, OverflowError) as error:
        return f"no Ray cluster answers at RAY_ADDRESS={address}: {error}; `ray start --head`"
    return None


@contextmanager
def connect(params: ClusterParams, echo: bool = True, dashboard: bool = True) -> Iterator[None]:
    """Join the cluster at RAY_ADDRESS, or start a local one and stop it at the end.

    All ports of a local cluster listen on loopback. Ray Tune needs its dashboard to free stopped
    trials, and Ray Train to learn whether a run still goes on; mere calls start sooner without
    it. No node is taken away from it, so that nothing watches for that.
    Nodes may still be joining the cluster, so it is given some time until all workers fit.

    Args:
        params: what a worker needs, and the local cluster's size.
        echo: whether what workers print appears here.
        dashboard: whether a local cluster has one.

    Raises:
        StageError: the cluster does not answer or start, or the workers do not fit into its nodes.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    options: dict[str, Any] = {"log_to_driver": echo, "logging_level": "warning"}
    joins = "RAY_ADDRESS" in os.environ
    if joins and (reason := unreachable(os.environ["RAY_ADDRESS"])):
        raise StageError(masked(reason))
    if joins:  # its nodes know nothing of what is set here
        quiet = {name: os.environ[name] for name in QUIET}
        options |= {"runtime_env": {"env_vars": quiet}}
    elif not ray.is_initialized():
        os.environ.setdefault(*UNWATCHED)
        options |= {
            "address": "local",  # not one that another program started on this machine
            "num_cpus": params.local_cpus,
            "object_store_memory": params.object_store_mb * 2**20,
            "include_dashboard": dashboard,
            "dashboard_host": LOOPBACK,
            "_node_ip_address": LOOPBACK,
        }
    _begin(options)
    try:
        _wait_for_capacity(params, PATIENCE if joins else 0.0)
        yield
    except KeyboardInterrupt:
        # A thread may still wait for Ray, which then ends the process in the middle of
        # `ray.shutdown`. Ray shuts down by itself at the exit, when all has been said and kept.
        raise
    except BaseException:
        ray.shutdown()
        raise
    else:
        ray.shutdown()


def _begin(options: dict[str, Any]) -> None:
    """Join or start a cluster; SIGTERM means what it did before.

    Args:
        options: of `ray.init`.

    Raises:
        StageError: it cannot be joined, or does not start.
    """
    on_term = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(ignore_reinit_error=True, **options)
        signal.signal(signal.SIGTERM, on_term)  # Ray's own would leave its processes behind
        keep_token_private()
    except (ConnectionError, AuthenticationError) as error:
        where = masked(os.environ.get("RAY_ADDRESS", "local"))
        raise StageError(
            f"RAY_ADDRESS={where} cannot be joined: not Ray, or {NO_TOKEN}"
        ) from error
    except Exception as error:
        if LATE not in str(error):
            raise
        raise StageError(
            "Ray did not start within half a minute; once this machine is less busy, start again"
        ) from error


def settled(params: ClusterParams, nodes: list[dict[str, float]] | None = None) -> ClusterParams:
    """Return the settings with `use_gpu: auto` decided: true where a node has a GPU.

    Args:
        params: the settings.
        nodes: the resources of each node, by Ray's names; those of the joined cluster by default.
    """
    if params.use_gpu != "auto":
        return params
    there = _nodes() if nodes is None else nodes
    return params.model_copy(update={"use_gpu": any(node.get("GPU", 0) >= 1 for node in there)})


def _nodes() -> list[dict[str, float]]:
    """Return the resources of each node of the joined cluster."""
    return [node["Resources"] for node in ray.nodes() if node["Alive"]]


def keep_token_private(token: Path | None = None) -> None:
    """Let nobody else read Ray's token, which whoever holds it may run code with.

    Args:
        token: the file; None for where Ray writes it, `~/.ray/auth_token`. It need not exist.
    """
    with suppress(OSError):  # there is none, or it belongs to another user
        (token or Path.home() / ".ray" / "auth_token").chmod(0o600)


def worker_capacity(params: ClusterParams, nodes: list[dict[str, float]]) -> int:
    """Return how many workers fit into a cluster, each of them whole on one node.

    Args:
        params: how many workers there are, and what each needs.
        nodes: the resources of each node, by Ray's names.
    """
    each = {"CPU": params.cpus_per_worker, "GPU": int(settled(params, nodes).use_gpu is True)}
    needs = {name: count for name, count in each.items() if count}
    return sum(min(int(node.get(k, 0) // count) for k, count in needs.items()) for node in nodes)


def _wait_for_capacity(params: ClusterParams, patience: float) -> None:
    """Wait until all workers fit into the cluster.

    Args:
        params: how many workers there are, and what each needs.
        patience: seconds to wait.

    Raises:
        StageError: they do not fit by then.
    """
    deadline = time.monotonic() + patience
    wanted = params.fewest_workers if params.elastic else params.workers
    while True:
        nodes = _nodes()
        if (found := worker_capacity(params, nodes)) >= wanted:
            return
        if time.monotonic() > deadline:
            break
        time.sleep(1)
    with_gpus = settled(params, nodes).use_gpu
    each = f"{params.cpus_per_worker} CPUs{' and a GPU' if with_gpus else ''}"
    there = ", ".join(f"{node.get('CPU', 0):g}" for node in nodes)
    gpus = ", ".join(f"{node.get('GPU', 0):g}" for node in nodes)
    raise StageError(
        f"cluster.workers must be at most {found}, got {params.workers}: each needs {each}, "
        f"and the nodes of the cluster have {there} CPUs"
        f"{f' and {gpus} GPUs' if with_gpus else ''}"
    )
