"""The modules that training minimises: the joint objective, and heads on a frozen s1.

**Joint objective.** Equation 12 of Meng, Song, Li and Ermon, "Estimating High Order Gradients of
the Data Distribution by Denoising" (NeurIPS 2021): gamma times the DSM loss of s1 plus a
second-order term, see `hosm.objectives`. One model learns s1 and s2 at once.

**Heads.** Many s2 of one s1, trained side by side once s1 is learned. A second-order target needs
of s1 only its values on the stencil and its products J^T v, so that one s1, learned by denoising
score matching and then frozen, serves heads of every rank, which share its evaluation. Heads
share no weights and Adam treats each weight alone: training them side by side equals training
each apart, up to rounding. A head then follows an s1 that has converged, and not the noise of its
training. The same objective trains a head on top of a denoiser that was learned elsewhere; with
the target `moment` and diagonals, that is the method of Bao et al., "Estimating the Optimal
Covariance with Imperfect Mean in Diffusion Probabilistic Models", ICML 2022.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from hosm import noise
from hosm.autodiff import vector_jacobian_product
from hosm.objectives import JointTerms, dsm, joint_terms, stencil
from hosm.objectives.targets import NOT_COMPUTED, TargetInputs, find_target
from hosm.training.settings import Settings

__all__ = [
    "HeadsObjective",
    "JointObjective",
    "head_term",
]


class JointObjective(nn.Module):
    """The model and its loss in one forward pass, so that DDP can wrap both.

    An objective names its terms, and the weights of their sum, which is minimised. Early stopping
    watches the first term. An objective whose terms train separate parts of the model may list
    terms in `watched` instead, each with the prefix that the names of its weights share: each part
    then keeps the weights of its own best validation, and a run stops once none of the watched
    terms has improved for `patience` validations. `model` is what is trained.

    Raises:
        ValueError: the model has another sigma than the settings.
    """

    model: Any
    names = ("dsm", "second")

    def __init__(self, model: nn.Module, settings: Settings) -> None:
        super().__init__()
        own = getattr(model, "sigma", settings.sigma)
        if own != settings.sigma:
            raise ValueError(
                f"sigma of the settings must be the model's, {own}, got {settings.sigma}"
            )
        self.model, self.settings = model, settings
        self.weights = (settings.gamma, 1.0)

    def forward(self, x: Tensor, z: Tensor, v: Tensor, t: Tensor) -> Tensor:
        """Return the terms, shape (2,), of a batch (see `hosm.training.keyed_batches.Batch`)."""
        s = self.settings
        sigma = noise.noise_scales(t, s.sigma) if isinstance(s.sigma, tuple) else s.sigma
        count = 0 if s.target == "dsm" else math.ceil(s.second_order_share * len(x))
        first, second = x.new_zeros(()), x.new_zeros(())
        if count:
            part = slice(None, count)
            first, second = self._joint(x[part], noise.slice_scale(sigma, part), z[part], v[part])
        if count < len(x):
            part = slice(count, None)
            rest, reduction = noise.slice_scale(sigma, part), s.variance_reduction
            other = dsm(self.model.score, x[part], rest, reduction, z=z[part])
            first = (first * count + other * (len(x) - count)) / len(x)
        return torch.stack([first, second])

    def _joint(self, x: Tensor, sigma: float | Tensor, z: Tensor, v: Tensor) -> JointTerms:
        s = self.settings
        return joint_terms(
            self.model,
            x,
            sigma,
            target=s.target,
            variance_reduction=s.variance_reduction,
            diagonal=s.diagonal,
            z=z,
            v=v,
        )


def head_term(
    model: Any,  # noqa: ANN401
    target: str,
    *,
    points: Tensor,
    s1: Tensor,
    product: Tensor,
    z: Tensor,
    v: Tensor,
    settings: Settings,
) -> Tensor:
    """Return the second-order term of one head, a scalar, given what it needs of s1.

    Args:
        model: a `ScoreModel` with a second-order network of its own.
        target: name of a second-order target (see `hosm.objectives.targets.Target`, which says
            what of the following it needs).
        points: the k points of the stencil one after another, shape (k n, D).
        s1: first-order scores there, without gradient.
        product: J^T v at the first n points, shape (n, D).
        z: standard normal noise, shape (n, D).
        v: fair signs, shape (n, D).
        settings: sigma, variance_reduction and diagonal are those of the term.
    """
    chosen, sigma = find_target(target), settings.sigma
    assert not isinstance(sigma, tuple)  # heads are trained at one noise scale
    count = len(points) if chosen.whole_stencil else len(z)
    inputs = TargetInputs(
        s1=s1[:count],
        s2=model.second_order(points[:count]),
        z=z,
        v=v,
        product=product,
        sigma=sigma,
        reduction=settings.variance_reduction,
        diagonal=settings.diagonal,
    )
    return chosen.integrand(inputs).mean()


class HeadsObjective(nn.Module):
    """The second-order terms of several score models that share a frozen s1, for `training.fit`.

    Its terms carry the names of the models. Early stopping watches each of them, so that the
    weights kept of a head are those that it would have kept alone, or later and better ones.

    Args:
        model: a ModuleDict of `ScoreModel`s with one and the same trunk, which is frozen here,
            and each with a second-order network of its own.
        settings: sigma, target, diagonal, and variance_reduction are those of the term.

    Raises:
        ValueError: no ModuleDict, no models, models without a second network or of different
            trunks or noise scales, a range of scales, the target `dsm`, or `likelihood` for
            models that are not positive by construction.
    """

    def __init__(self, model: nn.ModuleDict, settings: Settings) -> None:
        super().__init__()
        if not isinstance(model, nn.ModuleDict):
            raise ValueError(f"heads must be a ModuleDict of models, got {type(model).__name__}")
        self.models: list[Any] = list(model.values())
        trunks = {id(each.trunk) for each in self.models}
        if len(trunks) != 1 or any(each.second is None for each in self.models):
            raise ValueError(
                f"heads must share one trunk and have a second network each, got {len(trunks)} "
                f"trunks for {len(self.models)} models"
            )
        if isinstance(settings.sigma, tuple) or settings.target == "dsm":
            raise ValueError(
                f"heads must have one sigma and a second-order target, got {settings.sigma} and "
                f"{settings.target}"
            )
        target = find_target(settings.target)
        if not target.trains_heads:
            raise ValueError(f"heads must have a target that trains heads, got {target.name}")
        if target.psd and not all(each.psd for each in self.models):
            raise ValueError(
                f"heads must have psd=True for the target `{target.name}`, got psd=False"
            )
        if other := {each.sigma for each in self.models} - {settings.sigma}:
            raise ValueError(
                f"sigma of the settings must be that of all models, got {settings.sigma} and "
                f"{sorted(other)}"
            )
        self.model, self.settings = model, settings
        self.names, self.weights = tuple(model), (1.0,) * len(model)
        self.watched = {name: f"{name}." for name in model}
        self.models[0].trunk.requires_grad_(False)

    def forward(self, x: Tensor, z: Tensor, v: Tensor, t: Tensor) -> Tensor:
        """Return the terms, one for each model, of a batch (see `hosm.training.Batch`)."""
        s, score = self.settings, self.models[0].score
        sigma: Any = s.sigma
        points = torch.cat(stencil(x, sigma, z, s.variance_reduction))
        target, product, s1 = find_target(s.target), NOT_COMPUTED, NOT_COMPUTED
        if target.product:
            product = vector_jacobian_product(score, points[: len(x)], v)
        if target.values:
            s1 = score(points if target.whole_stencil else points[: len(x)])
        terms = [
            head_term(each, s.target, points=points, s1=s1, product=product, z=z, v=v, settings=s)
            for each in self.models
        ]
        return torch.stack(terms)
