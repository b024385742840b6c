r"""Which law fits: a simple one, or one corrected by bumps, chosen on rows that were held out.

The rows are dealt to five folds, equal rows to one fold, and what is fitted to four of them is
judged on the fifth. Two measures judge, both without the true derivatives.

- Of first order: the loss of score matching, E[|s|^2 / 2 + tr grad s]
  (`hosm.estimator.implicit_score_matching`). For bumps it is known for all lambda at once, and
  names the lambda near which the second measure looks.
- Of second order: for h_i = d s_i / dx_i, the estimated second derivatives,

      E[ sum_i h_i^2 / 2 - h_i ((z_i / tau + s_i)^2 - 1 / tau^2) ],                          (1)

  at x + tau z. Given the noisy point, the bracket has the mean of the true second derivative plus
  (s_i - true s_i)^2: the target of Lu et al. ("Maximum Likelihood Training for Score-Based
  Diffusion ODEs by High-Order Denoising Score Matching", ICML 2022). So (1) is half of the squared
  error of the second derivatives, up to a constant of the data and that square. Noise z and -z
  are paired and the value at x is subtracted, as the paper does (Meng, Song, Li and Ermon, NeurIPS
  2021, section 4.2): what is left stays bounded as tau -> 0.

Scores that follow their own sample too closely look better by the first measure long after their
derivatives are worse. They give themselves away by the spread of the second measure between rows.
So the Gaussian is the first incumbent, and the candidate with the least sum of the mean and the
standard error of the difference to the incumbent takes its place, if that sum is negative; until
none does. Where nothing is certainly better than the Gaussian, the Gaussian stays.

What was chosen is at last compared with itself shrunk towards its mean, m + a (h - m): second
derivatives that vary a great deal may be worse than their mean even where the scores are good.

All points are standardised, of shape (n, D), float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from hosm.distributions import GaussianMixture
from hosm.estimator.kernel_correction import Bumps, bumps_at, gradient_products, linear_term
from hosm.estimator.simple_laws import SimpleLaw, simple_laws

__all__ = ["Candidate", "Choice", "Model", "best_of", "choose", "deal", "second_order_loss"]

FOLDS = 5
WIDTHS = (0.35, 0.5, 0.7, 1.0, 1.5, 2.2, 3.3)  # of the kernels, in median distances of points
SCALES = (0.3, 1.0, 3.0)  # of the kernels of single coordinates
PENALTIES = 10.0 ** torch.arange(-8, 3.1, 0.5, dtype=torch.float64)
LARGER = 5  # penalties above the best by the first measure that the second one judges too
NOISY_ROWS = 3000  # about so many noisy points are fitted to; more where there are more rows
MOST_DRAWS = 20  # noisy points of a row
JUDGED = 2000  # rows of a fold that the second measure looks at, at most
MOST_PROMISING = 4  # laws and widths that the second measure judges
SHARES = (0.0, 0.25, 0.5, 0.75)  # a of the module
PAIRS = 10  # pairs of noise of each of them, at most
SEARCHED = 0.05  # sigma at which laws and kernels are compared, if sigma is to be chosen
FINEST = 0.01  # tau of the second measure, if sigma is to be chosen


def deal(x: Tensor, folds: int = FOLDS, seed: int = 0) -> Tensor:
    """Return the fold of each row of x, shape (n,), equal rows in one fold."""
    _, group = torch.unique(x, dim=0, return_inverse=True)
    count = int(group.max()) + 1
    order = torch.randperm(count, generator=Generator().manual_seed(seed))
    return (order % folds)[group]


@dataclass(frozen=True)
class Model:
    """log q, up to a constant: a law that is smoothed already, and bumps, or none.

    Attributes:
        law: smoothed.
        bumps: its correction.
        share: a of the module, for second derivatives.
        mean: m, the mean of the second derivatives, shape (D,); needed where a < 1.
    """

    law: GaussianMixture
    bumps: Bumps | None = None
    share: float = 1.0
    mean: Tensor | None = None

    def score(self, x: Tensor) -> Tensor:
        """Return grad log q at x, both (n, D)."""
        s = self.law.score(x)
        return s if self.bumps is None else s + self.bumps.score(x)

    def hessian_diagonal(self, x: Tensor) -> Tensor:
        """Return d^2 log q / dx_i^2 at x, both (n, D)."""
        h = self.law.hessian_diag(x)
        if self.bumps is not None:
            h = h + self.bumps.hessian_diagonal(x)
        return h if self.mean is None else self.mean + self.share * (h - self.mean)


def second_order_loss(model: Model, x: Tensor, tau: float, pairs: int, seed: int = 0) -> Tensor:
    """Return measure (1) at each of n clean points x, the mean over pairs of noise, shape (n,)."""
    total = x.new_zeros(len(x))
    middle = model.hessian_diagonal(x)
    generator = Generator().manual_seed(seed)
    for _ in range(pairs):
        z = torch.randn(x.shape, generator=generator, dtype=x.dtype)
        up, down = x + tau * z, x - tau * z
        h, k, s, t = *map(model.hessian_diagonal, (up, down)), *map(model.score, (up, down))
        bent = ((h + k) / 2 - middle) * (z.square() - 1) / tau**2
        slope = (h * s - k * t) * z / tau + (h * s.square() + k * t.square()) / 2
        total += ((h.square() + k.square()) / 4 - bent - slope).sum(1)
    return total / pairs


@dataclass(frozen=True)
class Candidate:
    """A law, its kernels, and what held-out rows say of it.

    Attributes:
        law: the simple law.
        width: of the kernels, in median distances; None without kernels.
        scale: factor on the kernels of single coordinates; 0 for none.
        penalty: lambda, over the mean of A's diagonal; None without kernels.
        sigma: noise scale that the candidate is fitted at.
        share: a of the module.
        first: loss of first order at noisy held-out points.
        second: measure (1) at each row, shape (n,), of the model fitted without its fold.
        models: these models, one for each fold.
    """

    law: SimpleLaw
    width: float | None
    scale: float
    penalty: float | None
    sigma: float
    share: float
    first: float
    second: Tensor
    models: list[Model]

    def against(self, other: Candidate) -> tuple[float, float]:
        """Return the mean of (1) less that of another candidate, and its standard error."""
        change = self.second - other.second
        return float(change.mean()), float(change.std()) / math.sqrt(len(change))


def best_of(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate that no other is certainly better than, from the first one on."""
    incumbent = candidates[0]
    for _ in candidates:
        bound, challenger = min(
            ((sum(each.against(incumbent)), each) for each in candidates), key=lambda pair: pair[0]
        )
        if bound >= 0:
            break
        incumbent = challenger
    return incumbent


@dataclass(frozen=True)
class Choice:
    """What was chosen, fitted to all rows.

    Attributes:
        model: the law, smoothed, and its correction.
        law: the law, not smoothed.
        chosen: the candidate that was chosen.
        judged: all candidates, the Gaussian first.
    """

    model: Model
    law: GaussianMixture
    chosen: Candidate
    judged: list[Candidate]


class _Rows:
    """The rows by folds, with noise."""

    def __init__(self, x: Tensor, fold: Tensor, sigma: float, tau: float, seed: int) -> None:
        self.x, self.fold, self.sigma, self.tau = x, fold, sigma, tau
        draws = max(1, min(MOST_DRAWS, round(NOISY_ROWS / len(x))))
        generator = Generator().manual_seed(seed)
        self.noisy = []
        for k in range(FOLDS):
            y = x[fold == k].repeat(draws, 1)
            self.noisy.append(
                y + sigma * torch.randn(y.shape, generator=generator, dtype=x.dtype)
            )
        self.pairs = max(1, min(PAIRS, round(2 * NOISY_ROWS / len(x))))

    def without(self, k: int) -> Tensor:
        """Return the clean rows outside a fold."""
        return self.x[self.fold != k]

    def second(self, models: Sequence[Model]) -> Tensor:
        """Return measure (1) at the rows of each fold under the model fitted without it, (m,)."""
        parts = []
        for k, model in enumerate(models):
            held = self.x[self.fold == k][:JUDGED]
            parts.append(second_order_loss(model, held, self.tau, self.pairs, seed=k))
        return torch.cat(parts)


@dataclass(frozen=True)
class _Base:
    """A simple law fitted without each fold, and its scores at the noisy points of each."""

    law: SimpleLaw
    models: list[Model]
    scores: list[list[Tensor]]  # [fold left out][fold of the points]
    first: Tensor  # loss of first order at each held-out fold, shape (K,)


def _base(law: SimpleLaw, rows: _Rows) -> _Base:
    models = [Model(law.fit(rows.without(k)).smoothed(rows.sigma)) for k in range(FOLDS)]
    scores = [[model.score(y) for y in rows.noisy] for model in models]
    first = [
        (scores[k][k].square().sum(1) / 2 + model.hessian_diagonal(rows.noisy[k]).sum(1)).mean()
        for k, model in enumerate(models)
    ]
    return _Base(law, models, scores, torch.stack(first))


class _Correction:
    """Bumps on one law or several, with the loss of each penalty on each held-out fold."""

    def __init__(self, rows: _Rows, width: float, scale: float) -> None:
        self.bumps = bumps_at(rows.x, width, scale)
        self.width, self.scale, self.rows = width, scale, rows
        self.products = [gradient_products(self.bumps, y) for y in rows.noisy]
        total = torch.stack(self.products).sum(0)
        self.unit = float(total.diagonal().mean()) / FOLDS
        self.spectra = [torch.linalg.eigh((total - A) / (FOLDS - 1)) for A in self.products]

    def linear(self, base: _Base) -> list[tuple[Tensor, Tensor]]:
        """Return b of the rows outside and inside of each fold, for a simple law."""
        pairs = []
        for k, scores in enumerate(base.scores):
            b = [
                linear_term(self.bumps, y, s)
                for y, s in zip(self.rows.noisy, scores, strict=True)
            ]
            outside = torch.stack([each for j, each in enumerate(b) if j != k]).mean(0)
            pairs.append((outside, b[k]))
        return pairs

    def weights(self, linear: list[tuple[Tensor, Tensor]], penalty: float, k: int) -> Tensor:
        """Return the weights that all folds but one give."""
        values, vectors = self.spectra[k]
        shrunk = values.clamp_min(0) + penalty * self.unit
        return -vectors @ ((vectors.mT @ linear[k][0]) / shrunk)

    def gains(self, linear: list[tuple[Tensor, Tensor]]) -> Tensor:
        """Return the change of the first-order loss on held-out folds, for each penalty, (L,)."""
        gains = torch.zeros(len(PENALTIES), dtype=torch.float64)
        for k, (A, (_, held)) in enumerate(zip(self.products, linear, strict=True)):
            all_weights = torch.stack([self.weights(linear, float(p), k) for p in PENALTIES])
            gains += ((all_weights @ A) * all_weights).sum(1) / 2 + all_weights @ held
        return gains / FOLDS


def _candidates(rows: _Rows, base: _Base, correction: _Correction) -> list[Candidate]:
    """Judge the penalties near and above the best one by the first measure, by the second."""
    linear = correction.linear(base)
    gains = correction.gains(linear)
    best = int(gains.argmin())
    found = []
    for j in range(max(0, best - 1), min(len(PENALTIES), best + 1 + LARGER)):
        penalty = float(PENALTIES[j])
        models = []
        for k, model in enumerate(base.models):
            weights = correction.weights(linear, penalty, k)
            models.append(Model(model.law, correction.bumps.with_weights(weights)))
        found.append(
            Candidate(
                law=base.law,
                width=correction.width,
                scale=correction.scale,
                penalty=penalty,
                sigma=rows.sigma,
                share=1.0,
                first=float(base.first.mean() + gains[j]),
                second=rows.second(models),
                models=models,
            )
        )
    return found


def _alone(rows: _Rows, base: _Base) -> Candidate:
    """Judge a simple law without correction."""
    return Candidate(
        law=base.law,
        width=None,
        scale=0.0,
        penalty=None,
        sigma=rows.sigma,
        share=1.0,
        first=float(base.first.mean()),
        second=rows.second(base.models),
        models=base.models,
    )


def _search(
    rows: _Rows, laws: Sequence[SimpleLaw], say: Callable[[str], None]
) -> list[Candidate]:
    """Return the candidates that the second measure judged at one sigma; the Gaussian first."""
    bases = [_base(law, rows) for law in laws]
    found = [_alone(rows, base) for base in bases]
    promising = []
    for width in WIDTHS:
        correction = _Correction(rows, width, 0.0)
        for base in bases:
            least = float(base.first.mean() + correction.gains(correction.linear(base)).min())
            promising.append((least, width, base))
        say(f"kernels of width {width:g}")
    promising.sort(key=lambda each: each[0])
    for _, width, base in promising[:MOST_PROMISING]:
        found += _candidates(rows, base, _Correction(rows, width, 0.0))
    _, width, base = promising[0]
    for scale in SCALES:
        correction = _Correction(rows, width, scale)
        for each in {id(b): b for b in (base, bases[0])}.values():
            found += _candidates(rows, each, correction)
        say(f"kernels of single coordinates, factor {scale:g}")
    return found


def _shrunk(rows: _Rows, chosen: Candidate) -> list[Candidate]:
    """Judge a candidate shrunk towards the mean of its second derivatives."""
    means = [
        model.hessian_diagonal(rows.without(k)[:JUDGED]).mean(0)
        for k, model in enumerate(chosen.models)
    ]
    found = []
    for share in SHARES:
        models = [
            replace(model, share=share, mean=mean)
            for model, mean in zip(chosen.models, means, strict=True)
        ]
        found.append(replace(chosen, share=share, models=models, second=rows.second(models)))
    return found


def choose(
    x: Tensor,
    sigmas: Sequence[float],
    seed: int = 0,
    say: Callable[[str], None] = lambda words: None,
) -> Choice:
    """Return what fits points best, fitted to all of them.

    Args:
        x: standardised points, shape (n, D), float64.
        sigmas: noise scales to choose from, each above 0; or one.
        seed: of folds and noise.
        say: called with words on the progress.
    """
    fold = deal(x, seed=seed)
    several = len(sigmas) > 1
    searched, tau = (SEARCHED, FINEST) if several else (sigmas[0], sigmas[0])
    rows = _Rows(x, fold, searched, tau, seed)
    judged = _search(rows, simple_laws(x), say)
    chosen = best_of(judged)
    if several:
        candidates = []
        for sigma in sigmas:
            candidates += _at_sigma(_Rows(x, fold, sigma, tau, seed), chosen)
            say(f"sigma {sigma:g}")
        middle = [each for each in candidates if each.sigma == SEARCHED] or candidates
        chosen = best_of([best_of(middle), *candidates])
        judged += candidates
    rows = _Rows(x, fold, chosen.sigma, tau, seed)
    shrunk = _shrunk(rows, chosen)
    chosen = best_of([chosen, *shrunk])
    law = chosen.law.fit(x)
    model = Model(law.smoothed(chosen.sigma), _fitted_bumps(rows, chosen, law), chosen.share)
    if chosen.share < 1:
        model = replace(model, mean=replace(model, share=1.0).hessian_diagonal(x).mean(0))
    return Choice(model, law, chosen, judged + shrunk)


def _at_sigma(rows: _Rows, chosen: Candidate) -> list[Candidate]:
    """Judge a law, alone and with its kernels, at another sigma."""
    base = _base(chosen.law, rows)
    alone = _alone(rows, base)
    if chosen.width is None:
        return [alone]
    return [alone, *_candidates(rows, base, _Correction(rows, chosen.width, chosen.scale))]


def _fitted_bumps(rows: _Rows, chosen: Candidate, law: GaussianMixture) -> Bumps | None:
    """Return the correction that was chosen, fitted to all rows."""
    if chosen.width is None or chosen.penalty is None:
        return None
    bumps = bumps_at(rows.x, chosen.width, chosen.scale)
    noisy, smooth = torch.cat(rows.noisy), law.smoothed(rows.sigma)
    A, b = gradient_products(bumps, noisy), linear_term(bumps, noisy, smooth.score(noisy))
    ridge = chosen.penalty * float(A.diagonal().mean()) * torch.eye(len(b), dtype=b.dtype)
    return bumps.with_weights(-torch.linalg.solve(A + ridge, b))
