"""Functions applied to many arguments at once, on the CPUs of a Ray cluster."""

from collections.abc import Callable, Sequence
from typing import Any

import ray
import torch
from ray.exceptions import RayTaskError

from hosm.experiment.run.process import StageError, keep_freed_memory

__all__ = ["map_on_cluster"]

Work = tuple[Callable[..., Any], Sequence[tuple[Any, ...]]]


def map_on_cluster(*work: Work) -> list[list[Any]]:
    """Return what functions return for each of their arguments, in that order.

    Each call has one CPU of the cluster, with torch on one thread. They begin in the order given,
    so that long ones should come first.

    Args:
        work: functions, each with the arguments of its calls; all of them picklable.

    Returns:
        For each function, a list of what its calls return.

    Raises:
        StageError: a call failed; the results of the others are lost.
    """

    def call(function: Callable[..., Any], *each: Any) -> Any:  # noqa: ANN401
        keep_freed_memory()
        torch.set_num_threads(1)
        return function(*each)

    task = ray.remote(num_cpus=1)(call)
    waiting = [[task.remote(function, *each) for each in calls] for function, calls in work]
    found = []
    for (function, _), results in zip(work, waiting, strict=True):
        try:
            found.append(ray.get(results))
        except RayTaskError as error:
            raise StageError(f"a call of {function.__name__} failed: {error.cause!r}") from error
    return found
