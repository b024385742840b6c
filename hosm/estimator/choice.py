r"""Which law fits: a simple one, or one corrected by kernels, chosen on rows that were held out.

The rows are dealt to five folds, equal rows to one fold, and what is fitted to four of them is
judged on the fifth by the loss of score matching,

    E[ |s|^2 / 2 + tr grad s ],

which is half of the squared error of the score up to a constant of the data (Hyvarinen,
"Estimation of Non-Normalized Statistical Models by Score Matching", JMLR 2005), at points with a
little noise. Scores that follow their own sample too closely look better by this loss somewhat
longer than their derivatives do, so that simple ones are preferred, by the rule of one standard
error of Breiman, Friedman, Olshen and Stone ("Classification and Regression Trees", 1984, section
3.4.3): of the candidates whose loss is within one standard error (of the difference, over rows) of
that of the best one, a Gaussian if there is one, else a mixture without kernels (score matching
hardly sees how much probability each cluster has, and likelihood does), else one whose kernels of
single columns are not narrower than usual, and of several the one whose second derivatives vary
least between points. It says which law and which kernels; of their penalties, the one of the least
loss is taken, since those that smooth more lose more by bias. The best one is that of the least
loss. With heavy tails a mean may be the least by one row: where it is not below the Gaussian's by
a standard error, the best one is that of the least loss among those that are below it by three, or
the Gaussian. What else was tried is in reports/negative-results.md. Where there are no more rows
than columns, the Gaussian of Ledoit and Wolf at the least sigma is all that is fitted: there,
larger ones had smaller errors of the score and larger ones of the Hessian.

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
from hosm.estimator.column_gain import ColumnGain, column_gain
from hosm.estimator.kernel_correction import (
    KNOTS,
    Bumps,
    bumps_at,
    gradient_products,
    linear_terms,
    quadratic,
)
from hosm.estimator.shrunk_covariance import shrunk_covariance
from hosm.estimator.simple_laws import SimpleLaw, simple_laws

__all__ = ["Candidate", "Choice", "best_of", "choose", "deal", "warn_of_choice"]

FOLDS = 5  # or as many as there are different rows
FEWEST_DIFFERENT = 4
WORSE = 1.0  # standard errors that a candidate's loss may be above that of the best one
SURE = 3.0  # standard errors by which it must be below the Gaussian's where the least is unsure
WIDTHS = (0.35, 0.5, 0.7, 1.0, 1.5, 2.2, 3.3, 5.0)  # of the kernels, in median distances of points
COLUMN_FACTORS = (0.3, 1.0, 3.0)  # on the kernels of single columns
# factor and number in each column; narrow ones of the largest factor alone
COLUMN_KERNELS = (*((factor, KNOTS) for factor in COLUMN_FACTORS), (COLUMN_FACTORS[-1], 2 * KNOTS))
PENALTIES = 10.0 ** torch.arange(-10, 3.1, 0.5, dtype=torch.float64)
SMALLER, LARGER = 1, 5  # penalties below and above the best whose rows are looked at
NOISY_ROWS = 3000  # about so many noisy points are fitted to; more where there are more rows
MOST_DRAWS = 20  # noisy points of a row
JUDGED = 4000  # rows of a fold that judge, at most
AWAY, AWAY_POINTS = 0.003, 2000  # weight of points far from the rows, and how many there are
FLOOR = 1e-12
AWAY_SCALE = 2.0  # standard deviations of these points, over those of the rows
MOST_SEARCHED = 2_000_000  # numbers in the rows that choose
AT_ONCE = 2**19  # numbers of derivatives
MOST_PROMISING = 4  # laws and widths whose rows are looked at
STANDARD_ERRORS = (
    "Standard errors of Hessians tell how much they would change with other rows; how far they "
    "are off for all rows alike (their bias) is left out."
)


def deal(x: Tensor, folds: int = FOLDS, seed: int = 0) -> Tensor:
    """Return the fold of each row of x, shape (n,), equal rows in one fold.

    Raises:
        ValueError: less than `FEWEST_DIFFERENT` rows differ.
    """
    _, group = torch.unique(x, dim=0, return_inverse=True)
    count = int(group.max()) + 1
    if count < FEWEST_DIFFERENT:
        raise ValueError(
            f"X must hold {FEWEST_DIFFERENT} or more different rows to choose a law by, "
            f"got {count}"
        )
    order = torch.randperm(count, generator=Generator().manual_seed(seed))
    return (order % min(folds, count))[group]


@dataclass(frozen=True)
class Candidate:
    """A law, its kernels, and what held-out rows say of it.

    Attributes:
        law: the simple law.
        width: of the kernels, in median distances; None without kernels.
        scale: factor on the kernels of single coordinates; 0 for none.
        knots: the number of these in each coordinate.
        penalty: lambda, over the mean of A's diagonal; None without kernels.
        sigma: noise scale that the candidate is fitted at.
        loss: at each row that judges, shape (n,), of the model fitted without its fold.
        variation: variance of the second derivatives between points, summed over columns.
        kernels: of these models, one for each fold; none without kernels.
    """

    law: SimpleLaw
    width: float | None
    scale: float
    knots: int
    penalty: float | None
    sigma: float
    loss: Tensor
    variation: float
    kernels: list[Bumps]

    def __str__(self) -> str:
        words = str(self.law)
        if self.width is not None:
            words += f", corrected by kernels of width {self.width:g} median distances"
        if self.scale:
            words += f" and by {self.knots} kernels of each single column"
        return f"{words}, at sigma = {self.sigma:g} standard deviations"

    @property
    def constant(self) -> bool:
        """Whether s2 is the same at all points."""
        return self.law.terms == 1 and self.width is None

    @property
    def mixture(self) -> bool:
        """Whether it is a mixture, of several means, without kernels."""
        return self.law.means > 1 and self.width is None

    @property
    def kind(self) -> tuple[SimpleLaw, float | None, float, int, float]:
        """All but the penalty: the law, its kernels, and the noise scale."""
        return self.law, self.width, self.scale, self.knots, self.sigma

    def against(self, other: Candidate) -> tuple[float, float]:
        """Return the mean loss less that of another candidate, and the standard error of that."""
        change = self.loss - other.loss
        return float(change.mean()), float(change.std()) / math.sqrt(len(change))


def _best(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate of the least loss, if it is better than the first one beyond chance.

    Else one point with a huge second derivative may have made its mean the least, and its standard
    error so large that anything is within it. Then it is the one of the least loss among those
    that are better than the first by `SURE` standard errors, or the first.
    """
    first = candidates[0]
    best = min(candidates, key=lambda each: float(each.loss.mean()))
    if _is_better(best, first, WORSE):
        return best
    sure = [each for each in candidates if _is_better(each, first, SURE)]
    return min(sure or [first], key=lambda each: float(each.loss.mean()))


def _is_better(candidate: Candidate, other: Candidate, errors: float) -> bool:
    """Return whether a candidate's loss is below another one's by more than so many errors."""
    worse, error = candidate.against(other)
    return worse < -errors * error


def _may_be_best(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Return the candidates whose loss may well be the least."""
    best = _best(candidates)
    found = []
    for each in candidates:
        worse, error = each.against(best)
        if worse <= WORSE * error:
            found.append(each)
    return found


def _complexity(candidate: Candidate) -> tuple[bool, bool, bool, float]:
    """Return what is less for a simpler candidate; kernels narrower than is usual come last."""
    narrow = candidate.knots > KNOTS
    return not candidate.constant, not candidate.mixture, narrow, candidate.variation


def best_of(candidates: Sequence[Candidate]) -> Candidate:
    """Return the best penalty of the simplest candidate whose loss may well be the least.

    Args:
        candidates: at least one; losses are compared with that of the first.
    """
    simplest = min(_may_be_best(candidates), key=_complexity)
    alike = [each for each in candidates if each.kind == simplest.kind]
    return min(alike, key=lambda each: float(each.loss.mean()))


@dataclass(frozen=True)
class Choice:
    """What was chosen, fitted to all rows.

    Attributes:
        model: the law, smoothed, and its correction.
        law: the law, not smoothed.
        chosen: the candidate that was chosen.
        judged: all candidates, the Gaussian first.
        folds: the candidate that was chosen, fitted without each fold.
        fold: of each row, shape (n,).
        gain: of the candidate that was chosen over the Gaussian, by column.
    """

    model: ClosedFormModel
    law: GaussianMixture
    chosen: Candidate
    judged: list[Candidate]
    folds: list[ClosedFormModel]
    fold: Tensor
    gain: ColumnGain

    @property
    def gaussian(self) -> Candidate:
        """The Gaussian that everything is compared with."""
        return self.judged[0]

    @property
    def constant(self) -> bool:
        """Whether s2 is the same at all points."""
        return self.chosen.constant

    def words(self, names: Sequence[str] = ()) -> str:
        """Return what was chosen and why, and what to make of it.

        Args:
            names: of the columns, shape (D,), or none.
        """
        noun = "candidate" if len(self.judged) == 1 else "candidates"
        lines = [f"Chosen of {len(self.judged)} {noun}: {self.chosen}."]
        mean, error = self.chosen.against(self.gaussian)
        if len(self.judged) == 1:
            lines.append("Nothing else was tried, since there are no more rows than columns.")
        elif self.chosen is self.gaussian:
            lines.append("Nothing was better than it beyond chance on rows that were held out.")
        else:
            lines.append(
                "On rows that were held out, half of the squared error of its score is "
                f"{-mean:.3g} ± {error:.2g} smaller than that of {self.gaussian.law} (summed "
                "over columns, in units of 1 / variance; ± one standard error)."
            )
        if not self.constant:
            lines.append(self.gain.words(names))
        return "\n".join([*lines, STANDARD_ERRORS])


def warn_of_choice(choice: Choice, sigmas: Sequence[float], names: Sequence[str] = ()) -> None:
    """Warn where the Hessian is the same at all points, or sigma is at an end of its range.

    Also of columns in which the choice is clearly worse than a Gaussian; `names` are theirs.
    """
    if choice.constant:
        why = "no law whose Hessian differs between points was better beyond chance"
        if len(choice.judged) == 1:
            why = "there are no more rows than columns, so that no other law was tried"
        warnings.warn(
            f"{why} than one whose Hessian is constant, which is what you get",
            UserWarning,
            stacklevel=4,
        )
    else:
        choice.gain.warn(names)
    if len(sigmas) > 1 and choice.chosen.sigma == max(sigmas):
        warnings.warn(
            f"the largest sigma of those to choose from, {max(sigmas):g}, was the best: larger "
            "ones may be better",
            UserWarning,
            stacklevel=4,
        )


class _Rows:
    """The rows by folds, with noise to learn from, and with noise to be judged on."""

    def __init__(self, x: Tensor, fold: Tensor, sigma: float, tau: float, seed: int) -> None:
        self.x, self.sigma = x, sigma
        self.draws = max(1, min(MOST_DRAWS, round(NOISY_ROWS / len(x))))
        learned, judged = (Generator().manual_seed(seed + k) for k in (0, 1))
        parts = [x[fold == k] for k in range(int(fold.max()) + 1)]
        self.noisy = [self._noisy(part, sigma, learned) for part in parts]
        self.away = _away(x, Generator().manual_seed(seed + 2))
        self.held = [self._noisy(part[:JUDGED], tau, judged) for part in parts]

    def _noisy(self, x: Tensor, sigma: float, generator: Generator) -> Tensor:
        """Return noisy points of rows x, (m, D), one draw after another, (draws m, D)."""
        y = x.repeat(self.draws, 1)
        return y + sigma * torch.randn(y.shape, generator=generator, dtype=x.dtype).to(x.device)

    def over_draws(self, losses: Sequence[Tensor]) -> Tensor:
        """Return the mean loss of each held-out row of a fold, (m, L).

        Args:
            losses: of L models at the held-out points in turn, together of shape (draws m, L).
        """
        loss = torch.cat([*losses])
        return loss.view(self.draws, -1, loss.shape[1]).mean(0)


def _away(x: Tensor, generator: Generator) -> Tensor:
    """Return points about and beyond rows x, (n, D): of a Gaussian as wide as `AWAY_SCALE` says.

    Their number is `AWAY_POINTS`. Kernels that nothing holds there would bend the score at will.
    """
    covariance = shrunk_covariance(x).cpu()
    covariance.diagonal().add_(FLOOR)  # rows that fill no volume
    factor = torch.linalg.cholesky(covariance)
    z = torch.randn(AWAY_POINTS, x.shape[1], generator=generator, dtype=x.dtype)
    return x.mean(0) + AWAY_SCALE * (z @ factor.mT).to(x.device)


class _Fits:
    """Simple laws fitted without each fold; each mixture is fitted once."""

    def __init__(self, x: Tensor, fold: Tensor) -> None:
        self.x, self.fold = x, fold
        self.folds = int(fold.max()) + 1
        self._known: dict[tuple[SimpleLaw, int], GaussianMixture] = {}

    def without(self, law: SimpleLaw, k: int) -> GaussianMixture:
        """Return a law that is fitted to the rows outside fold k."""
        key, outside = (law.plain, k), self.fold != k
        if key not in self._known:
            self._known[key] = law.plain.fit(self.x[outside])
        return law.shrunk(self._known[key], int(outside.sum()))


def _without_folds(law: SimpleLaw, sigma: float, fits: _Fits) -> list[ClosedFormModel]:
    """Return a law smoothed by sigma that is fitted without each fold."""
    laws = [fits.without(law, k) for k in range(fits.folds)]
    return [ClosedFormModel(each.smoothed(sigma), None, sigma) for each in laws]


class _Base:
    """A simple law fitted without each fold. Its values are many, and are not kept."""

    def __init__(self, law: SimpleLaw, rows: _Rows, fits: _Fits) -> None:
        self.law, self.rows = law, rows
        self.models = _without_folds(law, rows.sigma, fits)

    def scores(self, y: Tensor) -> Tensor:
        """Return scores at points y, (n, D), by the model without each fold, (folds, n, D)."""
        return torch.stack([model.score(y) for model in self.models])

    def held(self, k: int) -> tuple[Tensor, Tensor]:
        """Return scores and second derivatives at the held-out points of a fold, both (N, D)."""
        model, y = self.models[k], self.rows.held[k]
        return model.score(y), model.diagonal(y)

    def alone(self) -> Candidate:
        """Judge the law without correction."""
        held = [[each.unsqueeze(2) for each in self.held(k)] for k in range(len(self.models))]
        losses = [self.rows.over_draws([_loss(s, h)])[:, 0] for s, h in held]
        return Candidate(
            law=self.law,
            width=None,
            scale=0.0,
            knots=0,
            penalty=None,
            sigma=self.rows.sigma,
            loss=torch.cat(losses),
            variation=float(_variation([_moments(h) for _, h in held])),
            kernels=[],
        )


def _loss(s: Tensor, h: Tensor) -> Tensor:
    """Return the loss of L models at each point, (N, L), for scores and second derivatives.

    Args:
        s: scores, shape (N, D, L).
        h: second derivatives, of the same shape.
    """
    return s.square().sum(1) / 2 + h.sum(1)


Moments = tuple[int, Tensor, Tensor]


def _moments(h: Tensor) -> Moments:
    """Return the number of points, the mean over them, and the sum of squares about it."""
    mean = h.mean(0)
    return len(h), mean, (h - mean).square().sum(0)


def _variation(parts: Sequence[Moments]) -> Tensor:
    """Return the variance of second derivatives between points, summed over columns, (L,).

    Args:
        parts: `_moments` of the points in turn, shape (N, D, L) each.
    """
    counts, means, squares = zip(*parts, strict=True)
    n = torch.tensor(counts).to(means[0]).view(-1, 1, 1)
    each = torch.stack(means)
    mean = (n * each).sum(0) / n.sum()
    total = torch.stack(squares).sum(0) + (n * (each - mean).square()).sum(0)
    return (total / (n.sum() - 1)).sum(0)


Linear = list[tuple[Tensor, Tensor]]


def _linear(kernels: Sequence[Bumps], base: _Base) -> list[Linear]:
    """Return b of each of several kernels, of the rows outside and inside of each fold.

    Scores of the simple law are many, so that those of one fold at a time are held, and serve all
    kernels.
    """

    def of_rows(y: Tensor, scores: Tensor) -> list[Tensor]:
        return [linear_terms(bumps, y, scores) for bumps in kernels]

    terms = [of_rows(y, base.scores(y)) for y in base.rows.noisy]
    return [_outside_and_inside(torch.stack(each)) for each in zip(*terms, strict=True)]


def _outside_and_inside(b: Tensor) -> Linear:
    """Return b of the rows outside and inside of each fold, by the law without that fold.

    Args:
        b: by the fold of the rows and the one that the law leaves out, shape (folds, folds, F).
    """
    folds = len(b)
    return [((b[:, k].sum(0) - b[k, k]) / (folds - 1), b[k, k]) for k in range(folds)]


class _Correction:
    """Kernels, with the loss of each penalty on each held-out fold, whatever the simple law."""

    def __init__(self, rows: _Rows, width: float, scale: float, knots: int) -> None:
        self.bumps = bumps_at(rows.x, width, scale, knots)
        self.width, self.scale, self.knots, self.rows = width, scale, knots, rows
        self.products = [gradient_products(self.bumps, y) for y in rows.noisy]
        total = torch.stack(self.products).sum(0)
        folds = len(self.products)
        self.unit = float(total.diagonal().mean()) / folds
        away = AWAY * gradient_products(self.bumps, rows.away)
        self.spectra = [torch.linalg.eigh((total - A) / (folds - 1) + away) for A in self.products]

    def weights(self, outside: Tensor, penalties: Tensor, k: int) -> Tensor:
        """Return the weights that all folds but one give, for L penalties, shape (F, L)."""
        values, vectors = self.spectra[k]
        shrunk = values.clamp_min(0).unsqueeze(1) + penalties.to(values) * self.unit
        return -vectors @ ((vectors.mT @ outside).unsqueeze(1) / shrunk)

    def gains(self, linear: Linear) -> Tensor:
        """Return the change of the first-order loss on held-out folds, for each penalty, (L,)."""
        gains = []
        for k, (A, (outside, held)) in enumerate(zip(self.products, linear, strict=True)):
            w = self.weights(outside, PENALTIES, k)
            gains.append((w * (A @ w)).sum(0) / 2 + held @ w)
        return torch.stack(gains).mean(0)

    def candidates(self, base: _Base, linear: Linear) -> list[Candidate]:
        """Judge the penalties near and above the best one; b of the law as `linear` gives it."""
        best = int(self.gains(linear).argmin())
        near = PENALTIES[max(0, best - SMALLER) : best + 1 + LARGER]
        weights = [self.weights(b, near, k) for k, (b, _) in enumerate(linear)]
        judged = [self._judged(base, w, k) for k, w in enumerate(weights)]
        losses = torch.cat([loss for loss, _ in judged])
        variations = _variation([each for _, moments in judged for each in moments])
        return [
            Candidate(
                law=base.law,
                width=self.width,
                scale=self.scale,
                knots=self.knots,
                penalty=float(penalty),
                sigma=self.rows.sigma,
                loss=losses[:, j],
                variation=float(variations[j]),
                kernels=[self.bumps.with_weights(w[:, j]) for w in weights],
            )
            for j, penalty in enumerate(near)
        ]

    def _judged(self, base: _Base, weights: Tensor, k: int) -> tuple[Tensor, list[Moments]]:
        """Return losses of a fold's rows, (m, L), and `_moments` of second derivatives there.

        The derivatives of all L penalties are many, and are taken of some points at a time.
        """
        losses, moments = [], []
        size = max(1, AT_ONCE // (self.rows.x.shape[1] * weights.shape[1]))
        held = (self.rows.held[k], *base.held(k))
        for y, s, h in zip(*(each.split(size) for each in held), strict=True):
            first, second = self.bumps.derivatives(y, weights)
            second += h.unsqueeze(2)
            losses.append(_loss(first.add_(s.unsqueeze(2)), second))
            moments.append(_moments(second))
        return self.rows.over_draws(losses), moments


def _search(
    rows: _Rows, laws: Sequence[SimpleLaw], fits: _Fits, say: Callable[[str], None]
) -> list[Candidate]:
    """Return the candidates at one sigma, the Gaussian first."""
    bases = [_Base(law, rows, fits) for law in laws]
    found = [each.alone() for each in bases]
    corrected, width, best = _with_kernels(rows, bases, found, say)
    found += corrected
    for each in {id(b): b for b in (best, bases[0])}.values():
        found += _with_single_columns(rows, width, each, say)
    return found


def _with_kernels(
    rows: _Rows, bases: Sequence[_Base], alone: Sequence[Candidate], say: Callable[[str], None]
) -> tuple[list[Candidate], float, _Base]:
    """Return candidates of the most promising laws and widths, and the best width and law."""
    promising, found = [], []
    corrections = [_Correction(rows, width, 0.0, 0) for width in WIDTHS]
    for base, candidate in zip(bases, alone, strict=True):
        first = float(candidate.loss.mean())
        terms = _linear([each.bumps for each in corrections], base)
        for correction, linear in zip(corrections, terms, strict=True):
            gain = float(correction.gains(linear).min())
            promising.append((first + gain, correction, base, linear))
        say(f"kernels beside {base.law}")
    promising.sort(key=lambda each: each[0])
    for _, correction, base, linear in promising[:MOST_PROMISING]:
        found += correction.candidates(base, linear)
    _, best, base, _ = promising[0]
    return found, best.width, base


def _with_single_columns(
    rows: _Rows, width: float, base: _Base, say: Callable[[str], None]
) -> list[Candidate]:
    """Return candidates of one law whose kernels include those of single columns.

    With many columns their products are many, so that those of one kind at a time are held.
    """
    found = []
    terms = _linear([bumps_at(rows.x, width, *each) for each in COLUMN_KERNELS], base)
    for (scale, knots), linear in zip(COLUMN_KERNELS, terms, strict=True):
        found += _Correction(rows, width, scale, knots).candidates(base, linear)
        say(f"{knots} kernels of each single column, factor {scale:g}")
    return found


def _searched(x: Tensor, seed: int) -> Tensor:
    """Return which rows of x, (n, D), choose: their places, ascending."""
    count = max(1, min(len(x), MOST_SEARCHED // x.shape[1]))
    order = torch.randperm(len(x), generator=Generator().manual_seed(seed + 3))
    return order[:count].sort().values.to(x.device)


Found = tuple[Candidate, list[Candidate], list[ClosedFormModel], ColumnGain]


def _found(chosen: Candidate, judged: list[Candidate], rows: _Rows, fits: _Fits) -> Found:
    """Return what was chosen, all that was judged, its models of the folds, and its gain.

    Smoothed laws of many columns are large, and candidates do not hold theirs.
    """
    models = _without_folds(chosen.law, chosen.sigma, fits)
    if chosen.kernels:
        both = zip(models, chosen.kernels, strict=True)
        models = [replace(model, bumps=bumps) for model, bumps in both]
    gaussians = _without_folds(judged[0].law, judged[0].sigma, fits)
    return chosen, judged, models, column_gain(models, gaussians, rows.held, rows.draws)


def _choose(
    x: Tensor,
    fold: Tensor,
    sigmas: Sequence[float],
    seed: int,
    say: Callable[[str], None],
) -> Found:
    """Return the candidate that fits points best, and what else `_found` gives."""
    least = min(sigmas)
    rows, fits = _Rows(x, fold, least, least, seed), _Fits(x, fold)
    judged = _search(rows, simple_laws(x, say), fits, say)
    chosen = best_of(judged)
    if len(sigmas) > 1:
        chosen, others = _of_sigmas(x, fold, sigmas, chosen, fits, seed)
        judged += others
    return _found(chosen, judged, rows, fits)


def _gaussian_alone(x: Tensor, fold: Tensor, sigma: float, seed: int) -> Found:
    """Return the Gaussian of Ledoit and Wolf, and it alone as what was judged."""
    rows, fits = _Rows(x, fold, sigma, sigma, seed), _Fits(x, fold)
    gaussian = _Base(SimpleLaw(1, "shrunk"), rows, fits).alone()
    return _found(gaussian, [gaussian], rows, fits)


def choose(
    x: Tensor,
    sigmas: Sequence[float],
    seed: int = 0,
    say: Callable[[str], None] = lambda words: None,
) -> Choice:
    """Return what fits points best, fitted to all of them.

    Of large tables, of more than `MOST_SEARCHED` numbers, only some rows are dealt to folds and
    choose.

    Args:
        x: standardised points, shape (n, D), float64.
        sigmas: noise scales to choose from, each above 0; or one.
        seed: of folds and noise.
        say: called with words on the progress.
    """
    fold, some = deal(x, seed=seed), _searched(x, seed)
    if len(x) <= x.shape[1]:
        chosen, judged, models, gain = _gaussian_alone(x, fold, min(sigmas), seed)
    else:
        chosen, judged, models, gain = _choose(
            x[some], fold[some.to(fold.device)], sigmas, seed, say
        )
    law = chosen.law.fit(x)
    rows = _Rows(x, fold, chosen.sigma, chosen.sigma, seed)
    bumps = _fitted_bumps(rows, chosen, law)
    return Choice(
        model=ClosedFormModel(law.smoothed(chosen.sigma), bumps, chosen.sigma),
        law=law,
        chosen=chosen,
        judged=judged,
        folds=models,
        fold=fold,
        gain=gain,
    )


def _of_sigmas(
    x: Tensor,
    fold: Tensor,
    sigmas: Sequence[float],
    chosen: Candidate,
    fits: _Fits,
    seed: int,
) -> tuple[Candidate, list[Candidate]]:
    """Return the candidate at the smallest sigma that may be best, and all that were judged.

    The points that judge have the smallest noise.
    """
    bests: list[Candidate] = []
    judged: list[Candidate] = []
    for sigma in sigmas:
        rows = _Rows(x, fold, sigma, min(sigmas), seed)
        base = _Base(chosen.law, rows, fits)
        found = [base.alone()]
        if chosen.width is not None:
            found += _corrected(rows, base, chosen.width, chosen.scale, chosen.knots)
        bests.append(best_of(found))
        judged += found
    return min(_may_be_best(bests), key=lambda each: each.sigma), judged


def _corrected(
    rows: _Rows, base: _Base, width: float, scale: float, knots: int
) -> list[Candidate]:
    """Return the candidates of one law and kernels of one width."""
    correction = _Correction(rows, width, scale, knots)
    (linear,) = _linear([correction.bumps], base)
    return correction.candidates(base, linear)


def _fitted_bumps(rows: _Rows, chosen: Candidate, law: GaussianMixture) -> Bumps | None:
    """Return the correction that was chosen, fitted to all rows."""
    if chosen.width is None or chosen.penalty is None:
        return None
    bumps = bumps_at(rows.x, chosen.width, chosen.scale, chosen.knots)
    noisy, smooth = torch.cat(rows.noisy), law.smoothed(rows.sigma)
    scores = ClosedFormModel(smooth, None, rows.sigma).score(noisy)
    loss = quadratic(bumps, noisy, scores)
    ridge = chosen.penalty * float(loss.A.diagonal().mean())
    held = AWAY * gradient_products(bumps, rows.away)
    held.diagonal().add_(ridge)
    return bumps.with_weights(-torch.linalg.solve(loss.A + held, loss.b))
