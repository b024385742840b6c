"""The words of the page that lie beside its template, read and checked.

`captions.yaml` holds the captions of the figures. `paper.yaml` holds the paper's claims, with the
names of the claims that decide them, and its errata.
"""

from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

__all__ = ["Caption", "Erratum", "OtherPoint", "Paper", "PaperClaim", "captions", "paper"]

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
    the verdict, and `elsewhere` is a point at which that was tried.
    """

    claim: Words
    source: Words
    figure: Words
    decides: list[Words] = Field(min_length=1)
    beside: list[Words] = []
    missing: str = ""
    would_change: Words
    elsewhere: OtherPoint


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
    for claim in found.claims:
        if claim.figure not in captions():
            known = ", ".join(captions())
            raise ValueError(f"paper.yaml: figure must be one of {known}, got {claim.figure}")
    return found


def _read(name: str, shape: TypeAdapter[Content]) -> Content:
    """Return the content of a file of texts, checked against its shape."""
    raw = yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))
    try:
        return shape.validate_python(raw)
    except ValidationError as error:
        raise ValueError(f"{name}: {error}") from error
