r"""Calibration: intervals with the coverage that they state, and variances checked without truth.

**Conformal intervals.** Let r_i = |x_i - m_i| / C_ii^(1/2) be the errors of pixels whose truth is
known, over what was predicted. With n of them, the factor of a level is the ceil((n + 1) level)-th
smallest, and the interval of a new pixel is m +- factor C_ii^(1/2). If the new pixel and the n
are exchangeable, it holds the truth with probability level to level + 1 / (n + 1), whatever the
model (split conformal prediction: Angelopoulos and Bates, "A Gentle Introduction to Conformal
Prediction and Distribution-Free Uncertainty Quantification", 2021, sections 1 and 2.3; scaled
residuals beside other scores: Romano, Patterson and Candes, "Conformalized Quantile Regression",
NeurIPS 2019).

Pixels drawn at random from the pictures of the calibration are exchangeable; those of one more
picture are not, since pixels of a picture are alike. There, pictures may be exchangeable: the
factor of a picture is the least that covers `level` of its pixels, and of n pictures the
ceil((n + 1) confidence)-th smallest of their factors covers `level` of the pixels of one more
picture with probability `confidence` or more. It takes n >= confidence / (1 - confidence).

Neither speaks of a single pixel, an edge or a kind of picture: a guarantee is of pixels or
pictures as they come. Nor is it one under another noise than that of the calibration.

**Without truth.** With y = x + sigma z and w ~ N(0, I) drawn anew, y + a sigma w and
y - sigma w / a are independent given x, so that one may be denoised and the other judge it, and

$$E|m(y + a \sigma w) - x|^2 = E|m(y + a \sigma w) - y + \sigma w / a|^2
    - E|\sigma w / a|^2 - D \sigma^2$$

(Oliveira, Lei and Tibshirani, "Unbiased Risk Estimation in the Normal Means Problem via Coupled
Bootstrap Techniques", 2021). The mean squared error of a denoiser at the scale
(1 + a^2)^(1/2) sigma is thus known from a noisy picture alone, as is its ratio to the predicted
variance. What follows is not known: the ratio at sigma itself, which it is close to as far as
calibration changes slowly with the scale; and the coverage of intervals, since only sums of
squared errors are free of the judge's noise. To take the denoised picture for the truth, to add
noise to it and to compare, is not valid: it lacks what the denoiser removes, and errors come out
too small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from hosm.checks import check_count, check_number, check_probabilities
from hosm.io import Array
from hosm.pictures.denoised import DenoisedPicture

__all__ = ["conformal_factors", "variance_ratio"]

OWN_NUMBERS = 20211  # keys draws, so that they are not those of noise made with the same seed


def conformal_factors(
    found: DenoisedPicture | Sequence[DenoisedPicture],
    clean: Array | Sequence[Array],
    levels: Sequence[float],
    by: Literal["pixels", "pictures"] = "pixels",
    confidence: float = 0.9,
) -> dict[float, float]:
    """Return by how many standard deviations an interval must reach to hold what it states.

    The assumptions stand at the top of this module: under `pixels` those of new pictures must be
    exchangeable with those of the calibration, under `pictures` pictures must.

    Args:
        found: pictures that were denoised, none of them used in training.
        clean: the truth of each, of its shape.
        levels: probabilities of the intervals, between 0 and 1.
        by: what the guarantee is of: a pixel, with probability level; or level of the pixels of
            a picture, with probability `confidence`.
        confidence: of `pictures`, between 0 and 1.

    Returns:
        The factor of each level.

    Raises:
        ValueError: shapes differ, a level is out of range, there are fewer pixels or pictures
            than a level needs, or `by` is something else.
    """
    check_probabilities("levels", levels)
    one = isinstance(found, DenoisedPicture)
    pairs = [(found, clean)] if one else list(zip(found, clean, strict=True))  # type: ignore[arg-type]
    ratios = [_over_std(each, np.asarray(truth)) for each, truth in pairs]  # type: ignore[arg-type]
    if by == "pixels":
        together = np.concatenate(ratios)
        return {level: _ranked(together, level, "pixels") for level in levels}
    if by != "pictures":
        raise ValueError(f"by must be pixels or pictures, got {by}")
    check_probabilities("confidence", [confidence])
    own = {level: np.array([_covering(each, level) for each in ratios]) for level in levels}
    return {level: _ranked(own[level], confidence, "pictures") for level in levels}


def _over_std(found: DenoisedPicture, clean: Array) -> Array:
    """Return errors over standard deviations, of all numbers of a picture."""
    if clean.shape != found.mean.shape:
        raise ValueError(f"clean must have shape {found.mean.shape}, got {clean.shape}")
    return (np.abs(clean - found.mean) / found.std).ravel()


def _ranked(values: Array, level: float, kind: str) -> float:
    """Return the ceil((n + 1) level)-th smallest of n values."""
    rank = math.ceil((len(values) + 1) * level - 1e-9)
    if rank > len(values):
        least = math.ceil(level / (1 - level) - 1e-9)
        raise ValueError(f"a level of {level:g} needs {least} {kind} or more, got {len(values)}")
    return float(np.partition(values, rank - 1)[rank - 1])


def _covering(values: Array, level: float) -> float:
    """Return the least number that a share `level` of the values does not exceed."""
    rank = max(1, math.ceil(len(values) * level - 1e-9))
    return float(np.partition(values, rank - 1)[rank - 1])


def variance_ratio(
    denoise: Callable[[Array, float], DenoisedPicture],
    noisy: Array,
    sigma: float,
    *,
    added: float = 0.5,
    draws: int = 1,
    random_state: int = 0,
) -> float:
    """Return an estimate of squared error over predicted variance, from a noisy picture alone.

    It is of the mean over the picture, at the scale (1 + added^2)^(1/2) sigma, and its squared
    error is unbiased if the noise is Gaussian, independent and of scale sigma; see the top of
    this module, also for what it does not tell. Its standard error is about
    sigma^2 (2 + 4 / added^2)^(1/2) / D^(1/2) over the mean predicted variance. The covariances of
    a picture times this number, `DenoisedPicture.scaled`, have the right mean.

    Args:
        denoise: such as `PictureDenoiser.denoise`.
        noisy: the picture, D numbers.
        sigma: standard deviation of its noise.
        added: a, the scale of the noise that is added, over sigma: a small one leaves the picture
            nearly as it is, and estimates less well.
        draws: of the added noise, averaged over.
        random_state: seed of these.

    Raises:
        ValueError: a number is not positive and finite.
    """
    check_number("sigma", sigma)
    check_number("added", added)
    check_count("draws", draws)
    rng = np.random.default_rng([OWN_NUMBERS, random_state])
    error = predicted = 0.0
    for _ in range(draws):
        w = sigma * rng.standard_normal(noisy.shape)
        found = denoise(noisy + added * w, sigma * math.sqrt(1 + added**2))
        judge = noisy - w / added - found.mean
        error += float(np.mean(judge**2 - (w / added) ** 2)) - sigma**2
        predicted += float(np.mean(found.variance, dtype=float))
    return error / predicted
