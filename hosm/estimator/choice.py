r"""Which law fits: a simple one, or one corrected by bumps, chosen on rows that were held out.

The rows are dealt to five folds, equal rows to one fold, and what is fitted to four of them is
judged on the fifth. Two measures judge, both without the true derivatives.

- Of first order: the loss of score matching, E[|s|^2 / 2 + tr grad s]
  (`hosm.estimator.implicit_score_matching`). For bumps it is known for all lambda at once, and
  names the lambda near which the second measure looks.
- Of second order: for h_i = d s_i / dx_i, the estimated second derivatives,

      E[ sum_i h_i^2 / 2 - h_i ((z_i / tau + r_i)^2 - 1 / tau^2) ],                          (1)

  at x + tau z, where r is the score that is best by the first measure, one for all candidates.
  Given the noisy point, the bracket has the mean of the true second derivative plus
  (r_i - true s_i)^2: the target of Lu et al. ("Maximum Likelihood Training for Score-Based
  Diffusion ODEs by High-Order Denoising Score Matching", ICML 2022). So (1) is half of the squared
  error of the second derivatives, up to a constant of the data and that square. Noise z and -z
  are paired and the value at x is subtracted, as the paper does (Meng, Song, Li and Ermon, NeurIPS
  2021, section 4.2): what is left stays bounded as tau -> 0.

The first measure is the sharper one, but scores that follow their own sample too closely look
better by it long after their derivatives are worse. So it only says what is out of the question:
candidates that are worse than the best by more than two standard errors. Of the others, beginning
with the simplest, the incumbent gives way to the candidate with the least sum of the mean and the
standard error of the difference between both by the second measure, if that sum is negative; until
none is. Where nothing is certainly better than the Gaussian, the Gaussian stays.

What was chosen is at last compared with itself shrunk towards its mean, m + a (h - m): second
derivatives that vary a great deal may be worse than their mean even where the scores are good.

All points are standardised, of shape (n, D), float64.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Generator, Tensor

from hosm.distributions import GaussianMixture
from hosm.estimator.closed_form import ClosedFormModel
from hosm.estimator.kernel_correction import (
    Bumps,
    bumps_at,
    gradient_products,
    linear_terms,
    quadratic,
)
from hosm.estimator.simple_laws import SimpleLaw, simple_laws

__all__ = [
    "Candidate",
    "Choice",
    "HeldOut",
    "best_of",
    "choose",
    "deal",
    "warn_of_choice",
]

FOLDS = 5
WORSE = 2.0  # standard errors beyond which a candidate is out by the first measure
WIDTHS = (0.35, 0.5, 0.7, 1.0, 1.5, 2.2, 3.3)  # of the kernels, in median distances of points
SCALES = (0.3, 1.0, 3.0)  # of the kernels of single coordinates
PENALTIES = 10.0 ** torch.arange(-8, 3.1, 0.5, dtype=torch.float64)
LARGER = 5  # penalties above the best by the first measure that the second one judges too
NOISY_ROWS = 3000  # about so many noisy points are fitted to; more where there are more rows
MOST_DRAWS = 20  # noisy points of a row
JUDGED = 2000  # rows of a fold that the second measure looks at, at most
MOST_PROMISING = 4  # laws and widths that the second measure judges
SHARES = (0.0, 0.25, 0.5, 0.75)  # a of the module
MOST_PAIRS = 10  # pairs of noise of each of them, at most
SEARCHED = 0.05  # sigma at which laws and kernels are compared, if sigma is to be chosen


def deal(x: Tensor, folds: int = FOLDS, seed: int = 0) -> Tensor:
    """Return the fold of each row of x, shape (n,), equal rows in one fold."""
    _, group = torch.unique(x, dim=0, return_inverse=True)
    count = int(group.max()) + 1
    order = torch.randperm(count, generator=Generator().manual_seed(seed))
    return (order % folds)[group]


class HeldOut:
    """Rows that were held out, and what measure (1) needs: them and pairs of noisy ones.

    Args:
        x: clean points, shape (m, D).
        tau: noise scale of the measure.
        pairs: of noisy points, for each row.
        seed: of the noise.
    """

    def __init__(self, x: Tensor, tau: float, pairs: int, seed: int) -> None:
        self.tau, self.pairs = tau, pairs
        generator = Generator().manual_seed(seed)
        z = torch.randn((pairs, *x.shape), generator=generator, dtype=x.dtype).to(x.device)
        self.z = z.unsqueeze(-1)
        self.points = torch.cat([x.unsqueeze(0), x + tau * z, x - tau * z]).flatten(0, 1)

    def first(self, s: Tensor, h: Tensor) -> Tensor:
        """Return the loss of score matching at each row's noisy points, for L models, (m, L).

        Args:
            s: scores at `points`, shape ((1 + 2 pairs) m, D, L).
            h: second derivatives there, of the same shape.
        """
        loss = s.square().sum(1) / 2 + h.sum(1)
        return loss.view(1 + 2 * self.pairs, -1, h.shape[2])[1:].mean(0)

    def second(self, r: Tensor, h: Tensor) -> Tensor:
        """Return measure (1) at each row, the mean over pairs, for L models: shape (m, L).

        Args:
            r: the score of all models at `points`, shape ((1 + 2 pairs) m, D).
            h: second derivatives there, shape ((1 + 2 pairs) m, D, L).
        """
        count, size = 1 + 2 * self.pairs, h.shape[1]
        r, h = r.view(count, -1, size, 1)[1:], h.view(count, -1, *h.shape[1:])
        middle, up, down = h[:1], h[1 : 1 + self.pairs], h[1 + self.pairs :]
        r, t = r[: self.pairs], r[self.pairs :]
        bent = ((up + down) / 2 - middle) * (self.z.square() - 1) / self.tau**2
        slope = (up * r - down * t) * self.z / self.tau
        square = (up * (up / 2 - r.square()) + down * (down / 2 - t.square())) / 2
        return (square - bent - slope).sum(2).mean(0)


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
        first: loss of first order at each row, shape (n,), of the model fitted without its fold.
        second: measure (1) there, likewise.
        models: these models, one for each fold.
    """

    law: SimpleLaw
    width: float | None
    scale: float
    penalty: float | None
    sigma: float
    share: float
    first: Tensor
    second: Tensor
    models: list[ClosedFormModel]

    def __str__(self) -> str:
        words = str(self.law)
        if self.width is not None:
            words += f", corrected by kernels of width {self.width:g} median distances"
        if self.scale:
            words += " and by kernels of single columns"
        if self.share < 1:
            words += f", its second derivatives shrunk to {self.share:g} of their variation"
        return f"{words}, at sigma = {self.sigma:g} standard deviations"

    def against(self, other: Candidate) -> tuple[float, float]:
        """Return the mean of (1) less that of another candidate, and its standard error."""
        return _mean_and_error(self.second - other.second)


def _mean_and_error(values: Tensor) -> tuple[float, float]:
    return float(values.mean()), float(values.std()) / math.sqrt(len(values))


def plausible(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates that are not certainly worse than the best by the first measure."""
    best = min(candidates, key=lambda each: float(each.first.mean()))
    found = []
    for each in candidates:
        worse, error = _mean_and_error(each.first - best.first)
        if worse <= WORSE * error:
            found.append(each)
    return found


def best_of(candidates: Sequence[Candidate]) -> Candidate:
    """Return the plausible candidate that no other is certainly better than, from the first on."""
    left = plausible(candidates)
    incumbent = left[0]
    for _ in left:
        challenger = min(left, key=lambda each: sum(each.against(incumbent)))
        if sum(challenger.against(incumbent)) >= 0:
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

    model: ClosedFormModel
    law: GaussianMixture
    chosen: Candidate
    judged: list[Candidate]

    @property
    def gaussian(self) -> Candidate:
        """The Gaussian that everything is compared with."""
        return self.judged[0]

    @property
    def constant(self) -> bool:
        """Whether s2 is the same at all points."""
        return (self.chosen.law.terms == 1 and self.chosen.width is None) or not self.chosen.share

    def words(self) -> str:
        """Return what was chosen and why."""
        mean, error = self.chosen.against(self.gaussian)
        lines = [f"Chosen of {len(self.judged)} candidates: {self.chosen}."]
        if self.chosen is self.gaussian:
            lines.append("Nothing was certainly better than it on rows that were held out.")
        else:
            lines.append(
                "On rows that were held out, half of the squared error of its second derivatives "
                f"is {-mean:.3g} ± {error:.2g} smaller than that of {self.gaussian.law} (summed "
                "over columns, in units of their variances; ± one standard error)."
            )
        return "\n".join(lines)


def warn_of_choice(choice: Choice, sigmas: Sequence[float]) -> None:
    """Warn where the Hessian is the same at all points, or sigma is at an end of its range."""
    if choice.constant:
        warnings.warn(
            "no law whose Hessian differs between points was certainly better than one whose "
            "Hessian is constant, which is what you get",
            UserWarning,
            stacklevel=4,
        )
    if len(sigmas) > 1 and choice.chosen.sigma == max(sigmas):
        warnings.warn(
            f"the largest sigma of those to choose from, {max(sigmas):g}, was the best: larger "
            "ones may be better",
            UserWarning,
            stacklevel=4,
        )


class _Rows:
    """The rows by folds, with noise.

    `reference` holds r of measure (1) at the points of each fold, once it is known.
    """

    reference: list[Tensor]

    def __init__(self, x: Tensor, fold: Tensor, sigma: float, tau: float, seed: int) -> None:
        self.x, self.fold, self.sigma = x, fold, sigma
        draws = max(1, min(MOST_DRAWS, round(NOISY_ROWS / len(x))))
        pairs = max(1, min(MOST_PAIRS, round(NOISY_ROWS / len(x))))
        generator = Generator().manual_seed(seed)
        self.noisy, self.held = [], []
        for k in range(FOLDS):
            y = x[fold == k].repeat(draws, 1)
            z = torch.randn(y.shape, generator=generator, dtype=x.dtype).to(x.device)
            self.noisy.append(y + sigma * z)
            self.held.append(HeldOut(x[fold == k][:JUDGED], tau, pairs, k))

    def without(self, k: int) -> Tensor:
        """Return the clean rows outside a fold."""
        return self.x[self.fold != k]

    def measures(self, k: int, s: Tensor, h: Tensor) -> Tensor:
        """Return both measures at the rows of fold k of L models, shape (2, m, L).

        Args:
            k: the fold.
            s: scores at the points of `HeldOut`, shape (N, D, L).
            h: second derivatives there, of the same shape.
        """
        held = self.held[k]
        return torch.stack([held.first(s, h), held.second(self.reference[k], h)])


class _Base:
    """A simple law fitted without each fold, and its values where they are needed."""

    def __init__(self, law: SimpleLaw, rows: _Rows) -> None:
        self.law = law
        self.models = [
            ClosedFormModel(law.fit(rows.without(k)).smoothed(rows.sigma), None, rows.sigma)
            for k in range(FOLDS)
        ]
        self.scores = [[model.score(y) for model in self.models] for y in rows.noisy]
        self.held = [
            (model.score(held.points), model.diagonal(held.points).unsqueeze(2))
            for model, held in zip(self.models, rows.held, strict=True)
        ]
        pairs = enumerate(zip(self.models, rows.noisy, strict=True))
        losses = [
            (self.scores[k][k].square().sum(1) / 2 + model.diagonal(y).sum(1)).mean()
            for k, (model, y) in pairs
        ]
        self.first = float(torch.stack(losses).mean())

    def alone(self, rows: _Rows) -> Candidate:
        """Judge the law without correction."""
        parts = [rows.measures(k, s[..., None], h) for k, (s, h) in enumerate(self.held)]
        first, second = torch.cat(parts, 1).squeeze(2)
        return Candidate(
            law=self.law,
            width=None,
            scale=0.0,
            penalty=None,
            sigma=rows.sigma,
            share=1.0,
            first=first,
            second=second,
            models=self.models,
        )


class _Correction:
    """Kernels, with the loss of each penalty on each held-out fold, whatever the simple law."""

    def __init__(self, rows: _Rows, width: float, scale: float) -> None:
        self.bumps = bumps_at(rows.x, width, scale)
        self.width, self.scale, self.rows = width, scale, rows
        self.products = [gradient_products(self.bumps, y) for y in rows.noisy]
        total = torch.stack(self.products).sum(0)
        self.unit = float(total.diagonal().mean()) / FOLDS
        self.spectra = [torch.linalg.eigh((total - A) / (FOLDS - 1)) for A in self.products]

    def linear(self, base: _Base) -> list[tuple[Tensor, Tensor]]:
        """Return b of the rows outside and inside of each fold, for a simple law."""
        b = torch.stack(
            [
                linear_terms(self.bumps, y, torch.stack(scores))
                for y, scores in zip(self.rows.noisy, base.scores, strict=True)
            ]
        )  # fold of the points, fold left out of the law
        return [((b[:, k].sum(0) - b[k, k]) / (FOLDS - 1), b[k, k]) for k in range(FOLDS)]

    def weights(self, outside: Tensor, penalties: Tensor, k: int) -> Tensor:
        """Return the weights that all folds but one give, for L penalties, shape (F, L)."""
        values, vectors = self.spectra[k]
        shrunk = values.clamp_min(0).unsqueeze(1) + penalties.to(values) * self.unit
        return -vectors @ ((vectors.mT @ outside).unsqueeze(1) / shrunk)

    def gains(self, linear: list[tuple[Tensor, Tensor]]) -> Tensor:
        """Return the change of the first-order loss on held-out folds, for each penalty, (L,)."""
        gains = []
        for k, (A, (outside, held)) in enumerate(zip(self.products, linear, strict=True)):
            w = self.weights(outside, PENALTIES, k)
            gains.append((w * (A @ w)).sum(0) / 2 + held @ w)
        return torch.stack(gains).mean(0)

    def candidates(self, base: _Base) -> list[Candidate]:
        """Judge the penalties near and above the best by the first measure, by the second."""
        linear = self.linear(base)
        gains = self.gains(linear)
        best = int(gains.argmin())
        near = slice(max(0, best - 1), best + 1 + LARGER)
        weights = [self.weights(b, PENALTIES[near], k) for k, (b, _) in enumerate(linear)]
        first, second = torch.cat([self._judged(base, w, k) for k, w in enumerate(weights)], 1)
        return [
            Candidate(
                law=base.law,
                width=self.width,
                scale=self.scale,
                penalty=float(penalty),
                sigma=self.rows.sigma,
                share=1.0,
                first=first[:, j],
                second=second[:, j],
                models=[
                    replace(model, bumps=self.bumps.with_weights(w[:, j]))
                    for model, w in zip(base.models, weights, strict=True)
                ],
            )
            for j, penalty in enumerate(PENALTIES[near])
        ]

    def _judged(self, base: _Base, weights: Tensor, k: int) -> Tensor:
        """Return both measures at the rows of a fold for L vectors of weights, (2, m, L)."""
        first, second = self.bumps.derivatives(self.rows.held[k].points, weights)
        s, h = base.held[k]
        return self.rows.measures(k, s[..., None] + first, h + second)

    def reference(self, base: _Base) -> list[Tensor]:
        """Return the scores at held-out points that are best by the first measure."""
        linear = self.linear(base)
        gains = self.gains(linear)
        if float(gains.min()) >= 0:
            return [s for s, _ in base.held]
        best = PENALTIES[int(gains.argmin())].reshape(1)
        scores = []
        for k, ((b, _), (s, _)) in enumerate(zip(linear, base.held, strict=True)):
            points, weights = self.rows.held[k].points, self.weights(b, best, k)
            scores.append(s + self.bumps.derivatives(points, weights)[0].squeeze(2))
        return scores


def _search(rows: _Rows, laws: Sequence[SimpleLaw], say: Callable[[str], None]) -> list[Candidate]:
    """Return the candidates that the second measure judged at one sigma; the Gaussian first."""
    bases = [_Base(law, rows) for law in laws]
    promising = []
    for width in WIDTHS:
        correction = _Correction(rows, width, 0.0)
        for base in bases:
            least = base.first + min(0.0, float(correction.gains(correction.linear(base)).min()))
            promising.append((least, width, base))
        say(f"kernels of width {width:g}")
    promising.sort(key=lambda each: each[0])
    _, width, base = promising[0]
    rows.reference = _Correction(rows, width, 0.0).reference(base)
    found = [each.alone(rows) for each in bases]
    for _, width, base in promising[:MOST_PROMISING]:
        found += _Correction(rows, width, 0.0).candidates(base)
    _, width, base = promising[0]
    for scale in SCALES:
        correction = _Correction(rows, width, scale)
        for each in {id(b): b for b in (base, bases[0])}.values():
            found += correction.candidates(each)
        say(f"kernels of single columns, factor {scale:g}")
    return found


def _shrunk(rows: _Rows, chosen: Candidate) -> list[Candidate]:
    """Judge a candidate shrunk towards the mean of its second derivatives."""
    means = [m.matrices(rows.without(k)[:JUDGED]).mean(0) for k, m in enumerate(chosen.models)]
    found = []
    for share in SHARES:
        models = [
            replace(model, share=share, mean=mean)
            for model, mean in zip(chosen.models, means, strict=True)
        ]
        parts = []
        for k, model in enumerate(models):
            s, h = model.score_and_diagonal(rows.held[k].points)
            parts.append(rows.measures(k, s[..., None], h[..., None])[1])
        second = torch.cat(parts).squeeze(1)
        found.append(replace(chosen, share=share, models=models, second=second))
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
    searched = SEARCHED if len(sigmas) > 1 else sigmas[0]
    rows = _Rows(x, fold, searched, searched, seed)
    judged = _search(rows, simple_laws(x), say)
    chosen = best_of(judged)
    if len(sigmas) > 1:
        each = [_Rows(x, fold, sigma, min(sigmas), seed) for sigma in sorted(sigmas)]
        candidates = _at_sigmas(each, chosen)
        judged += candidates
        least = best_of([c for c in candidates if c.sigma == min(sigmas)])
        chosen = best_of([least, *candidates])  # a larger sigma is a bias
        rows = next(part for part in each if part.sigma == chosen.sigma)
    shrunk = _shrunk(rows, chosen)
    chosen = best_of([chosen, *shrunk])
    law = chosen.law.fit(x)
    bumps = _fitted_bumps(rows, chosen, law)
    model = ClosedFormModel(law.smoothed(chosen.sigma), bumps, chosen.sigma)
    if chosen.share < 1:
        model = replace(model, share=chosen.share, mean=model.matrices(x).mean(0))
    return Choice(model, law, chosen, judged + shrunk)


def _at_sigmas(each: Sequence[_Rows], chosen: Candidate) -> list[Candidate]:
    """Judge a law, alone and with its kernels, at each sigma, the smallest first."""
    bases = [_Base(chosen.law, rows) for rows in each]
    if chosen.width is None:
        corrections, reference = [], [s for s, _ in bases[0].held]
    else:
        corrections = [_Correction(rows, chosen.width, chosen.scale) for rows in each]
        reference = corrections[0].reference(bases[0])
    for rows in each:
        rows.reference = reference
    found = [base.alone(rows) for base, rows in zip(bases, each, strict=True)]
    for base, correction in zip(bases, corrections, strict=False):
        found += correction.candidates(base)
    return found


def _fitted_bumps(rows: _Rows, chosen: Candidate, law: GaussianMixture) -> Bumps | None:
    """Return the correction that was chosen, fitted to all rows."""
    if chosen.width is None or chosen.penalty is None:
        return None
    bumps = bumps_at(rows.x, chosen.width, chosen.scale)
    noisy, smooth = torch.cat(rows.noisy), law.smoothed(rows.sigma)
    loss = quadratic(bumps, noisy, smooth.score(noisy))
    ridge = chosen.penalty * float(loss.A.diagonal().mean())
    eye = torch.eye(len(loss.b), dtype=loss.b.dtype, device=loss.b.device)
    return bumps.with_weights(-torch.linalg.solve(loss.A + ridge * eye, loss.b))
