"""The stages that `dvc repro` goes through, in its order, as DVC itself plans them."""

from collections.abc import Sequence
from pathlib import Path

from dvc.cli import DvcParserError, parse_args
from dvc.exceptions import DvcException
from dvc.repo import Repo
from dvc.repo.reproduce import collect_stages, get_active_graph, plan_repro

__all__ = ["planned"]


def planned(root: Path, arguments: Sequence[str]) -> list[str]:
    """Return the names of the stages, in the order in which DVC reaches them.

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
            chosen = collect_stages(repo, targets, options.recursive, options.glob)
            if options.single_item:
                return [stage.addressing for stage in chosen]
            graph = get_active_graph(repo.index.graph)
            steps = plan_repro(graph, chosen, options.pipeline, options.downstream)
            return [stage.addressing for stage in steps]
    except (DvcException, DvcParserError):
        return []
