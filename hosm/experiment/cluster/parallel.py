"""A function applied to many arguments at once, on the CPUs of a Ray cluster."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import ray
import torch
from ray.exceptions import RayTaskError

from hosm.experiment.run.process import StageError, keep_freed_memory

__all__ = ["map_on_cluster"]

Result = TypeVar("Result")


def map_on_cluster(
    function: Callable[..., Result], arguments: Sequence[tuple[Any, ...]]
) -> list[Result]:
    """Return function(*each) for each of the arguments, in their order.

    Each call has one CPU of the cluster, with torch on one thread.

    Args:
        function: is called; it must be picklable.
        arguments: of each call, picklable.

    Raises:
        StageError: a call failed; the results of the others are lost.
    """

    def call(*each: Any) -> Result:  # noqa: ANN401
        keep_freed_memory()
        torch.set_num_threads(1)
        return function(*each)

    task = ray.remote(num_cpus=1)(call)
    waiting = [task.remote(*each) for each in arguments]
    try:
        return ray.get(waiting)
    except RayTaskError as error:
        raise StageError(f"a call of {function.__name__} failed: {error.cause!r}") from error
