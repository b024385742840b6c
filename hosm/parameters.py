"""Parameters of estimators: what constructors take, and how an estimator is shown by them."""

from __future__ import annotations

import inspect
from typing import Any

__all__ = ["defaults", "shown"]


def defaults(kind: type) -> dict[str, Any]:
    """Return the defaults of the constructor's arguments by name."""
    arguments = [*inspect.signature(kind.__init__).parameters.values()][1:]  # type: ignore[misc]
    return {each.name: each.default for each in arguments}


def shown(estimator: Any) -> str:  # noqa: ANN401
    """Return an estimator as the call that makes it, with the arguments that are no defaults."""
    given = [
        f"{name}={getattr(estimator, name)!r}"
        for name, default in defaults(type(estimator)).items()
        if repr(getattr(estimator, name)) != repr(default)
    ]
    return f"{type(estimator).__name__}({', '.join(given)})"
