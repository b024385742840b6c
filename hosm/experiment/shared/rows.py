"""Rows of results: how they are taken from frames, and grouped."""

from typing import Any

import pandas as pd

__all__ = ["Row", "groups", "records"]

Row = dict[str, Any]


def records(frame: pd.DataFrame) -> list[Row]:
    """Return the rows of a frame as dictionaries."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def groups(frame: pd.DataFrame, *by: str) -> list[tuple[Any, pd.DataFrame]]:
    """Return the parts of a frame by the values of some columns, in order of appearance."""
    return list(frame.groupby(list(by) if len(by) > 1 else by[0], sort=False))
