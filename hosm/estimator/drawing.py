r"""Chains whose draws have the law that was learned, and a comparison of draws with the rows.

A law in closed form is q(x) = q_0(x) e^B(x) / Z: q_0 = sum_k w_k N(mu_k, S_k) is the simple law
and B the sum of kernels. A transition of its chains replaces a share s of a point, one s after
another. For s < 1 the Gaussian k is drawn by its responsibility for x, and the proposal is
mu_k + (1 - s^2)^(1/2) (x - mu_k) + s S_k^(1/2) z; for s = 1 it is a draw of q_0 wherever x is;
and x' is accepted with probability min(1, e^(B(x') - B(x))). The first is the proposal of
Cotter, Roberts, Stuart and White ("MCMC Methods for Functions", Statistical Science 2013), which
leaves N(mu_k, S_k) as it is, so that what remains of the rule of Metropolis and Hastings is B; k
is an exact draw given x, as in Gibbs' sampler. So q is invariant whatever s is, thin directions of
S_k cost nothing, and proposals of q_0 give far modes the weights that q gives them.

That is the law that was learned, which need not be that of the data. Score matching judges
derivatives, where the rows are; how much probability each region has, it hardly sees (Wenliang and
Kanagawa, "Blindness of score-based methods to isolated components and mixing proportions", 2020).
So draws are compared with the rows, and what differs is told.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Generator, Tensor

from hosm.estimator.closed_form import ClosedFormModel
from hosm.estimator.data_checks import named
from hosm.progress import ProgressBar

__all__ = ["LEARNED_LAW", "differences", "metropolis_draws", "warn_of_differences"]

LEARNED_LAW = (  # why draws of a law in closed form may be unlike the rows
    "; they have the law that was learned, whose derivatives are fitted where the rows are and "
    "which need not give each region its probability. Draw with law='clean' to imitate the table"
)

SHARES = (1.0, 0.5, 0.25, 0.1, 0.05)  # of a point that a transition replaces
CHAINS = 4096  # run at once
OFF = 0.2  # standard deviations of means and standard deviations, or correlation, that matter
ERRORS = 4.0  # standard errors that chance explains
FEWEST = 30  # draws that can be told from rows
FEW = 25  # rows with all of a column's variance: its correlations are then left to chance


def metropolis_draws(
    model: ClosedFormModel,
    start: Tensor,
    steps: int,
    generator: Generator,
    bar: ProgressBar | None = None,
) -> Tensor:
    """Return the ends of chains that leave exp(log_density) of a model invariant.

    Args:
        model: a law in closed form of standardised points.
        start: where chains start, shape (n, D), float64.
        steps: transitions of each chain, 0 or more.
        generator: source of randomness, on the device of the model.
        bar: moves with the transitions; None for no bar.

    Returns:
        One point of each chain, shape (n, D). Without kernels it is an independent draw of the
        simple law if there is one step or more.
    """
    if steps and model.bumps is None:
        return model.law.sample(len(start), generator)
    parts, shown = start.split(CHAINS), bar or ProgressBar(False)
    ends = []
    for number, part in enumerate(parts):
        told = partial(_tell, shown, number * steps, len(parts) * steps)
        ends.append(_chains(model, part, steps, generator, told))
    return torch.cat(ends)


def _tell(bar: ProgressBar, done: int, total: int, step: int) -> None:
    """Move the bar to a step of chains before which so many steps of a total were done."""
    bar.move("chains", done + step, total)


def _chains(
    model: ClosedFormModel,
    x: Tensor,
    steps: int,
    generator: Generator,
    told: Callable[[int], None],
) -> Tensor:
    roots, b = torch.linalg.cholesky(model.law.covariances), model.correction(x)
    for step in range(steps):
        y = _proposal(model, roots, x, SHARES[step % len(SHARES)], generator)
        changed = model.correction(y)
        threshold = torch.empty_like(b).exponential_(generator=generator).neg_()
        accepted = changed - b > threshold
        x, b = torch.where(accepted.unsqueeze(1), y, x), torch.where(accepted, changed, b)
        told(step + 1)
    return x


def _proposal(
    model: ClosedFormModel, roots: Tensor, x: Tensor, share: float, generator: Generator
) -> Tensor:
    """Return proposals from points x, both of shape (n, D); roots of covariances, (K, D, D)."""
    law = model.law
    if share == 1.0:
        return law.sample(len(x), generator)
    own = torch.multinomial(law.responsibilities(x), 1, generator=generator).squeeze(1)
    z = torch.randn(x.shape, generator=generator, dtype=x.dtype, device=x.device)
    for k, root in enumerate(roots):
        z[own == k] = z[own == k] @ root.mT
    mean = law.means[own]
    return mean + math.sqrt(1 - share**2) * (x - mean) + share * z


def _standardised(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return x (n, D) less its means over its standard deviations, and these, (D,)."""
    std = x.std(0, correction=0)
    return (x - x.mean(0)) / torch.where(std > 0, std, 1.0), std


def _variance_of_std(z: Tensor) -> Tensor:
    """Return squared relative standard errors of standard deviations, for z standardised."""
    return (z.pow(4).mean(0) - 1).clamp_min(0) / (4 * len(z))


def _variance_of_correlations(z: Tensor, r: Tensor) -> Tensor:
    """Return squared standard errors of correlations r, (D, D), of standardised rows z, (n, D)."""
    squares, cubes = z.square(), z.pow(3).mT @ z / len(z)
    products, fourth = squares.mT @ squares / len(z), z.pow(4).mean(0)
    ends = (fourth.unsqueeze(0) + fourth.unsqueeze(1) + 2 * products) / 4
    return (products - r * (cubes + cubes.mT) + r.square() * ends).clamp_min(0) / len(z)


def differences(draws: Tensor, rows: Tensor, noise: float = 0.0) -> dict[str, list[int]]:
    """Return the columns in which draws differ from rows by more than chance and a fifth.

    A mean and a standard deviation differ if they do so by .2 standard deviations of the rows
    and four standard errors, and a correlation by .2 and four standard errors. What does not
    vary in the rows is measured in units of 1; what varies in few has no correlation.

    Args:
        draws: shape (n, D), at least 2.
        rows: shape (m, D), at least 2.
        noise: standard deviation of the noise that the draws have and the rows lack.

    Returns:
        `means`, `standard deviations` and `correlations` -> columns from 0; without those that
        have none.
    """
    (z, std), (own, clean) = _standardised(draws.double()), _standardised(rows.double())
    spread = (clean.square() + noise**2).sqrt()
    unit = torch.where(spread > max(noise, 1e-6), spread, 1.0)
    shift = (draws.double().mean(0) - rows.double().mean(0)).abs() / unit
    errors = _variance_of_std(z) * (std / unit).square() + _variance_of_std(own)
    far = {
        "means": shift > OFF + ERRORS * std / unit / math.sqrt(len(draws)),
        "standard deviations": (std - spread).abs() / unit > OFF + ERRORS * errors.sqrt(),
        "correlations": _different_correlations(z, own * clean / unit),
    }
    found = {name: torch.nonzero(each).flatten().tolist() for name, each in far.items()}
    return {name: columns for name, columns in found.items() if columns}


def _different_correlations(z: Tensor, own: Tensor) -> Tensor:
    """Return whether any correlation of a column differs, shape (D,)."""
    r, expected = z.mT @ z / len(z), own.mT @ own / len(own)
    error = _variance_of_correlations(z, r) + _variance_of_correlations(own, expected)
    far = (r - expected).abs() > OFF + ERRORS * error.sqrt()
    told = _by_many_rows(z) & _by_many_rows(own)
    return (far & told & told.unsqueeze(1)).fill_diagonal_(False).any(0)


def _by_many_rows(z: Tensor) -> Tensor:
    """Return whether a column's variance is that of more than a few rows of z, shape (D,)."""
    return len(z) * z.square().mean(0).square() > FEW * z.pow(4).mean(0)


def warn_of_differences(
    draws: Tensor,
    rows: Tensor,
    noise: float = 0.0,
    names: Sequence[str] = (),
    advice: str = "",
) -> None:
    """Warn in one sentence of the columns in which draws differ from rows.

    Args:
        draws: shape (n, D); of fewer than 30 nothing is said.
        rows: shape (m, D).
        noise: as in `differences`.
        names: of the columns, shape (D,), or none.
        advice: what ends the sentence: why that is so, and what to do.
    """
    if len(draws) < FEWEST or len(rows) < 2:
        return
    found = differences(draws, rows, noise)
    if found:
        told = [f"the {what} of {named(columns, names)}" for what, columns in found.items()]
        words = " and ".join([", ".join(told[:-1]), told[-1]] if told[1:] else told)
        warnings.warn(
            f"the draws are not like the training rows: they differ in {words}{advice}",
            UserWarning,
            stacklevel=5,  # of who called the estimator
        )
