"""What the lines of a run mean: DVC's news of stages, chatter of others, progress of a stage."""

import re
from typing import NamedTuple

__all__ = ["UNCHANGED", "News", "is_chatter", "news", "plain"]

UNCHANGED = "did not change"
NEWS = {
    "runs": re.compile(r"^Running stage '(.+)':$"),
    UNCHANGED: re.compile(r"^(?:Stage )?'(.+)' didn't change, skipping$"),
    "from the cache of runs": re.compile(r"^Stage '(.+)' is cached - skipping run"),
    "failed": re.compile(r"failed to reproduce '([^']+)'"),
}
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")
OF_RAY = "raylet|autoscaler|PlacementGroupCleaner"  # the last fails beside a second cluster
WORKER = re.compile(rf"^\((?!{OF_RAY})[\w.:]+ pid=\d+(?:, ip=[\w.:]+)?\)\s?")

CHATTER = re.compile(
    "|".join(
        (
            r"^\s*$",
            r"^> ",  # the command of a stage, by DVC
            r"^Updating lock file |^To track the changes|^To enable auto staging|^\s*git add ",
            r"^Use `dvc push`|^\s*dvc config core\.autostage",
            r"^(?:USDT|STAGE|INFO|WARNING|ERROR):\d{4}-\d\d-\d\d ",  # the profiler of torch
            r"^\[?\d{4}-\d\d-\d\d [\d:,.]+ [DIWEF] \d+ \d+\]",  # C++ of Ray
            r"^\[?\d{4}-\d\d-\d\d [\d:,.]+\]?\s+(?:DEBUG|INFO|WARNING)\s.*\.py:\d+ -- ",  # Ray
            r"^\S+\.py:\d+: \w*Warning: |^\s+warnings\.warn\(",
            rf"^\((?:{OF_RAY})",
            r"^Data and pipelines are up to date",
            r"^[╭├╰│]",  # the box in which Ray Tune describes itself
        )
    )
)


class News(NamedTuple):
    """What DVC says of a stage."""

    stage: str
    what: str


def plain(line: str) -> str:
    """Return a line without colours, and without the name of the Ray worker that printed it."""
    return WORKER.sub("", ESCAPE.sub("", line.rstrip("\n")).rpartition("\r")[2])


def news(line: str) -> News | None:
    """Return what a plain line of DVC says of a stage, None if it says nothing of one."""
    for what, pattern in NEWS.items():
        if found := pattern.search(line):
            return News(found[1], what)
    return None


def is_chatter(line: str) -> bool:
    """Say whether a plain line is a warning or a notice of others, which only the log keeps."""
    return CHATTER.search(line) is not None
