"""The samplers that are compared on laws in the plane, and the scores that they are given."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hosm import samplers
from hosm.experiment.data.datasets import law
from hosm.scores import ScoreModel

__all__ = [
    "ADJUSTED",
    "METHODS",
    "TargetScores",
    "exact_scores",
    "learned_scores",
    "starts",
]

METHODS = {  # how a kernel is built: Langevin's, or Ozaki's of a guard and a form
    "langevin": {},
    "ozaki none": {"guard": "none"},
    "ozaki floor": {"guard": "floor"},
    "ozaki abs": {"guard": "abs"},
    "ozaki langevin": {"guard": "langevin"},
    "ozaki full": {"guard": "floor", "form": "full"},
}
ADJUSTED = {
    "mala": "langevin",
    "ozaki adjusted": "ozaki floor",
    "ozaki full adjusted": "ozaki full",
}


@dataclass(frozen=True)
class TargetScores:
    """What a sampler is given: s1, s1 with the diagonal of s2, a dense s2 and log p if known."""

    name: str
    first: Callable[[Tensor], Tensor]
    diagonal: Callable[[Tensor], tuple[Tensor, Tensor]]
    full: Callable[[Tensor], tuple[Tensor, Tensor]] | None = None
    log_prob: Callable[[Tensor], Tensor] | None = None

    def methods(self, guards: Sequence[str]) -> list[str]:
        """Return the samplers that these scores suffice for.

        Args:
            guards: of Ozaki's method that are wanted.
        """
        wanted = [name for name, how in METHODS.items() if how.get("guard", "floor") in guards]
        forms = [name for name in wanted if "form" not in METHODS[name] or self.full]
        return forms + [name for name in ADJUSTED if self.log_prob]

    def kernel(self, method: str, step_size: float | Tensor, floor: float) -> samplers.Kernel:
        """Return a sampler's kernel.

        Args:
            method: one of `methods`.
            step_size: eps, a number or one for each chain, shape (n,).
            floor: h0 of the guard `floor`.
        """
        how = METHODS[ADJUSTED.get(method, method)]
        log_prob = self.log_prob if method in ADJUSTED else None
        if not how:
            return samplers.langevin(self.first, step_size, log_prob)
        model = self.full if how.get("form") == "full" else self.diagonal
        return samplers.ozaki(model, step_size, floor=floor, log_prob=log_prob, **how)  # type: ignore[arg-type]


def exact_scores(target: str) -> TargetScores:
    """Return the exact scores of a law."""
    exact = law(target).tolerant()  # a diverging chain is a result, not an error
    dense = lambda x: (exact.score(x), exact.hessian(x))  # noqa: E731
    return TargetScores("exact", exact.score, exact.score_and_diagonal, dense, exact.log_prob)


def learned_scores(model: ScoreModel) -> TargetScores:
    """Return the scores of a trained model with a diagonal s2."""
    return TargetScores("learned", model.score, model.score_and_diagonal)


def starts(chains: int, dimension: int, generator: torch.Generator) -> Tensor:
    """Return starting points from N(0, 4 I), shape (chains, D)."""
    return 2 * torch.randn(chains, dimension, generator=generator)
