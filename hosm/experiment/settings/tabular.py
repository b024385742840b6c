"""Settings of the benchmark of tables of few rows."""

from pydantic import Field

from hosm.experiment.settings.model import Count, Section

__all__ = ["TabularParams"]


class TabularParams(Section):
    """Laws, dimensions, numbers of rows and seeds of the benchmark; real tables, and draws."""

    laws: tuple[str, ...] = Field(min_length=1)
    dimensions: tuple[Count, ...] = Field(min_length=1)
    sizes: tuple[int, ...] = Field(min_length=1)
    seeds: tuple[int, ...] = Field(min_length=1)
    test_points: int = Field(ge=2)
    tables: tuple[str, ...]
    splits: tuple[int, ...] = Field(min_length=1)
    drawn_from: int = Field(ge=20)
