"""A Ray cluster to work on: the one at RAY_ADDRESS, or a local one that ends with the work."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ray

from hosm.experiment.params import ClusterParams
from hosm.experiment.process import StageError

__all__ = ["connect"]

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_TRAIN_ENABLE_PRINT_PATCH": "0",
    "RAY_TRAIN_HEALTH_CHECK_INTERVAL_S": "0.2",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_WARN_EXCESSIVE_EXPERIMENT_CHECKPOINT_SYNC_THRESHOLD_S": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
    "PYTHONWARNINGS": "ignore::FutureWarning",
}


@contextmanager
def connect(params: ClusterParams, echo: bool = True) -> Iterator[None]:
    """Join the cluster at RAY_ADDRESS, or start a local one and stop it at the end.

    The dashboard of a local cluster listens on loopback; Ray Tune needs it to free stopped trials.

    Args:
        params: the workers' needs and the local cluster's size.
        echo: whether what workers print appears here.

    Raises:
        StageError: the cluster does not answer, or has fewer CPUs than the workers need.
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    options: dict[str, Any] = {"log_to_driver": echo, "logging_level": "warning"}
    if "RAY_ADDRESS" not in os.environ and not ray.is_initialized():
        options |= {
            "address": "local",  # not one that another program started on this machine
            "num_cpus": params.local_cpus,
            "object_store_memory": params.object_store_mb * 2**20,
            "include_dashboard": True,
            "dashboard_host": "127.0.0.1",
            "_node_ip_address": "127.0.0.1",
        }
    on_term = signal.getsignal(signal.SIGTERM)
    try:
        ray.init(ignore_reinit_error=True, **options)
        signal.signal(signal.SIGTERM, on_term)  # Ray's own would leave its processes behind
    except ConnectionError as error:
        where = os.environ.get("RAY_ADDRESS")
        raise StageError(f"no Ray cluster answers at RAY_ADDRESS={where}") from error
    try:
        needed, there = params.workers * params.cpus_per_worker, ray.cluster_resources()
        if needed > there.get("CPU", 0):
            raise StageError(f"{needed} CPUs needed; the cluster has {there.get('CPU', 0):g}")
        if params.use_gpu and params.workers > there.get("GPU", 0):
            raise StageError(
                f"{params.workers} GPUs needed; the cluster has {there.get('GPU', 0):g}"
            )
        yield
    finally:
        ray.shutdown()
