"""The words of the page that lie beside its template, read and checked.

`captions.yaml` holds the captions of the figures. `paper.yaml` holds the paper's claims, with the
names of the claims that decide them, and its errata. `own.yaml` holds the project's own statements
by subject, with the names of their claims.
"""

from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

__all__ = [
    "Caption",
    "Erratum",
    "OtherPoint",
    "Paper",
    "PaperClaim",
    "Subject",
    "captions",
    "own",
    "paper",
]

Content = TypeVar("Content")

FOLDER = Path(__file__).parent

Words = Annotated[str, Field(min_length=1)]


class Text(BaseModel):
    """An entry of a file of texts: its keys are the fields, and no others."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Caption(Text):
    """What stands below a figure, and what it shows to those who cannot see it."""

    caption: Words
    alt: Words


class OtherPoint(Text):
    """Another point of data, network, budget or regime, at which a claim is judged again.

    `point` says in words what differs, `settings` are entries of params.yaml by their dotted
    names, and `stages` what runs with them: a stage's name, then its arguments.
    """

    point: Words
    stages: list[Words] = Field(min_length=1)
    settings: dict[str, Any] = Field(min_length=1)


class PaperClaim(Text):
    """A claim of the paper, and the names of the claims that decide it or stand beside it.

    `missing` says what of the paper's evidence is not reproduced, `would_change` what would change
    the verdict, and `elsewhere` is a point at which that was tried. `tables` are the titles
    of tables to show with the places, by the files' names, `appendix` the section of the appendix
    that has the rest.
    """

    claim: Words
    source: Words
    figure: Words
    decides: list[Words] = Field(min_length=1)
    beside: list[Words] = []
    missing: str = ""
    would_change: Words
    elsewhere: OtherPoint
    tables: dict[str, Words] = {}
    appendix: Words


class Subject(Text):
    """A subject of the project's own statements: what it is about, and its claims by name."""

    title: Words
    about: Words
    figure: Words
    claims: list[Words] = Field(min_length=1)
    tables: dict[str, Words] = {}
    appendix: Words


class Erratum(Text):
    """What the paper prints, what is right, and how that is known."""

    place: Words
    printed: Words
    right: Words
    known_by: Words


class Paper(Text):
    """What the page says of the paper: its claims, in its order, and its errata."""

    claims: list[PaperClaim]
    errata: list[Erratum]


@cache
def captions() -> dict[str, Caption]:
    """Return the captions by the name of their figure.

    Raises:
        ValueError: an entry of captions.yaml lacks a text, or has a key that has no meaning.
    """
    return _read("captions.yaml", TypeAdapter(dict[str, Caption]))


@cache
def paper() -> Paper:
    """Return the paper's claims and its errata.

    Raises:
        ValueError: an entry of paper.yaml lacks a text, has a key that has no meaning, or names
            a figure that has no caption.
    """
    found = _read("paper.yaml", TypeAdapter(Paper))
    _check_figures("paper.yaml", [claim.figure for claim in found.claims])
    return found


@cache
def own() -> list[Subject]:
    """Return the subjects of the project's own statements.

    Raises:
        ValueError: an entry of own.yaml lacks a text, has a key that has no meaning, or names a
            figure that has no caption.
    """
    found = _read("own.yaml", TypeAdapter(list[Subject]))
    _check_figures("own.yaml", [subject.figure for subject in found])
    return found


def _check_figures(name: str, figures: list[str]) -> None:
    """Refuse the name of a figure that has no caption."""
    for figure in figures:
        if figure not in captions():
            known = ", ".join(captions())
            raise ValueError(f"{name}: figure must be one of {known}, got {figure}")


def _read(name: str, shape: TypeAdapter[Content]) -> Content:
    """Return the content of a file of texts, checked against its shape."""
    raw = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    try:
        return shape.validate_python(raw)
    except ValidationError as error:
        raise ValueError(f"{name}: {error}") from error
