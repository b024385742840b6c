"""The conventions of scikit-learn's estimators, kept without scikit-learn.

Parameters are the constructor's arguments, stored unchanged under their names; what `fit` learns
ends in an underscore. So `sklearn.base.clone`, `GridSearchCV` and pipelines take an estimator,
and without scikit-learn nothing is missing.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any, Self

__all__ = ["Conventions", "NotFittedError"]


class NotFittedError(ValueError, AttributeError):
    """What an estimator raises when it is asked for results before `fit`."""


class Conventions:
    """Parameters by name, for a class whose constructor only stores its arguments."""

    @classmethod
    def _parameters(cls) -> dict[str, inspect.Parameter]:
        parameters = dict(inspect.signature(cls.__init__).parameters)
        del parameters["self"]
        return parameters

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name.

        Args:
            deep: taken for scikit-learn's sake; no parameter has parameters of its own.
        """
        return {name: getattr(self, name) for name in self._parameters()}

    def set_params(self, **parameters: Any) -> Self:  # noqa: ANN401
        """Change parameters; return the estimator itself.

        Args:
            parameters: new values by name.

        Raises:
            ValueError: a name is not that of a parameter.
        """
        legal = self._parameters()
        for name, value in parameters.items():
            if name not in legal:
                raise ValueError(f"{name!r} is no parameter; legal are {', '.join(legal)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        given = [
            f"{name}={getattr(self, name)!r}"
            for name, parameter in self._parameters().items()
            if repr(getattr(self, name)) != repr(parameter.default)
        ]
        return f"{type(self).__name__}({', '.join(given)})"

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401
        """Return scikit-learn's description of the estimator; it alone asks, and is there then."""
        utils = importlib.import_module("sklearn.utils")
        target = utils.TargetTags(required=False)
        return utils.Tags(estimator_type=None, target_tags=target)

    def _check_fitted(self) -> None:
        """Raise NotFittedError before `fit`."""
        if not any(name.endswith("_") and not name.startswith("_") for name in vars(self)):
            name = type(self).__name__
            raise NotFittedError(f"this {name} is not fitted; legal is after fit(X) or load(path)")
