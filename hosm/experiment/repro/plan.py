"""The stages that `dvc repro` goes through, in its order, as DVC itself plans them."""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dvc.cli import DvcParserError, parse_args
from dvc.exceptions import DvcException
from dvc.repo import Repo
from dvc.repo.reproduce import collect_stages, get_active_graph, plan_repro

__all__ = ["Step", "planned", "up_to_date"]


class Step(NamedTuple):
    """A stage, the planned ones whose results it needs, and whether it has the machine alone.

    A stage is alone if dvc.yaml says `meta: {alone: true}`: it takes times, or keeps all
    processors busy by itself.
    """

    name: str
    after: frozenset[str] = frozenset()
    alone: bool = False


def planned(root: Path, arguments: Sequence[str]) -> list[Step]:
    """Return the stages, in the order in which DVC reaches them.

    What DVC cannot plan (a wrong target, another run that holds its lock) it refuses itself when
    it runs, in its own words; the list is empty then.

    Args:
        root: folder of the project.
        arguments: of `dvc repro`.
    """
    try:
        options = parse_args(["repro", *arguments])
        with Repo(str(root)) as repo:
            targets = [] if options.all_pipelines else options.targets or ["dvc.yaml"]
            stages = collect_stages(repo, targets, options.recursive, options.glob)
            graph = get_active_graph(repo.index.graph)
            if not options.single_item:
                stages = plan_repro(graph, stages, options.pipeline, options.downstream)
            names = {stage.addressing for stage in stages}
            return [_step(stage, names, graph) for stage in stages]
    except (DvcException, DvcParserError):
        return []


def _step(stage: Any, names: set[str], graph: Any) -> Step:  # noqa: ANN401
    """Return a stage of DVC's graph as a step among the names that are planned."""
    needs = {each.addressing for each in graph.successors(stage)}
    alone = bool((stage.meta or {}).get("alone"))
    return Step(stage.addressing, frozenset(needs & names), alone)


def up_to_date(root: Path, steps: Collection[Step]) -> set[str]:
    """Return the stages that have nothing to do, nor has any stage that they depend on.

    Args:
        root: folder of the project.
        steps: in DVC's order.

    Raises:
        OSError: DVC cannot look, as while another run holds its lock.
    """
    fresh: set[str] = set()
    try:
        with Repo(str(root)) as repo, repo.lock:
            known = {stage.addressing: stage for stage in repo.index.stages}
            for step in steps:
                if step.after <= fresh and not known[step.name].changed():
                    fresh.add(step.name)
    except DvcException as error:
        raise OSError(str(error)) from error
    return fresh
