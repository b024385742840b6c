"""What a user of the denoiser of photographs relies on: its answers, and its error bars.

None of this is the paper's. Means are over pictures, compared picture by picture; their standard
errors take the pictures for a sample of photographs. Tenths and coverages are of all pixels
together, of which nothing is known of chance: any difference decides.
"""

import math
from collections.abc import Iterator, Mapping

import pandas as pd

from hosm.experiment.photos.results import BM3D, OURS, PhotosRun
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.judge import Claim, Pair, decisive
from hosm.experiment.shared.rows import groups

__all__ = ["photos_claims"]

ABOVE_BM3D = 0.3  # dB
TENTHS = (0.8, 1.25)  # measured over predicted variance
COVERAGE = 3.0  # points, without calibration
CALIBRATED = 1.0  # points, calibrated on other pictures

Place = tuple[str, float]


def _named(place: Place) -> str:
    return f"{place[0]}, noise {place[1]:g}"


def _pair(differences: pd.Series, bound: float) -> Pair:
    """Return a mean over pictures beside a bound, with its standard error."""
    error = float(differences.std()) / math.sqrt(len(differences))
    return Pair(float(differences.mean()), bound, error)


def _claim(name: str, run: PhotosRun, statement: str, pairs: Mapping[Place, Pair]) -> Claim:
    """Return the claim that left is at least right at every place."""
    worst = decisive(">=", [*pairs.values()])
    found = {_named(place): pair.left for place, pair in pairs.items()}
    return Claim(
        f"photos-{name}",
        f"{run.quality['picture'].nunique()} photographs",
        statement,
        worst.left,
        ">=",
        worst.right,
        formats.at_each(found),
        error=worst.error,
    )


def _against(run: PhotosRun, method: str, bound: float, name: str, statement: str) -> Claim:
    pairs = {}
    for place, part in groups(run.quality, "kind", "sigma"):
        by_method = part.pivot(index="picture", columns="method", values="psnr")
        pairs[place] = _pair(by_method[OURS] - by_method[method], bound)
    return _claim(name, run, statement, pairs)


def _against_free(run: PhotosRun) -> Claim:
    """Return the claim about the best of the methods that are free to use, by picture."""
    pairs = {}
    for place, part in groups(run.quality, "kind", "sigma"):
        by_method = part.pivot(index="picture", columns="method", values="psnr")
        others = by_method.drop(columns=[OURS, BM3D, "deep ensemble"], errors="ignore")
        pairs[place] = _pair(by_method[OURS] - others.max(axis=1), ABOVE_BM3D)
    statement = (
        f"PSNR is at least {ABOVE_BM3D:g} dB above that of the best, picture by picture, of "
        "non-local means, total variation and wavelets, on average"
    )
    return _claim("beats-scikit-image", run, statement, pairs)


def _tenths(run: PhotosRun) -> Claim:
    own, (low, high) = run.tenths[run.tenths["method"] == OURS], TENTHS
    ranges = {}
    for place, part in groups(own, "kind", "sigma"):
        ranges[_named(place)] = f"{part['ratio'].min():.2f} to {part['ratio'].max():.2f}"
    worst = float(pd.concat([low / own["ratio"], own["ratio"] / high]).max())
    return Claim(
        "photos-calibrated",
        f"{run.quality['picture'].nunique()} photographs",
        f"in each tenth of the pixels by predicted variance, the squared error is {low:g} to "
        f"{high:g} times what is predicted",
        worst,
        "<=",
        1.0,
        "; ".join(f"{name}: {text}" for name, text in ranges.items()),
    )


def _coverage(run: PhotosRun, column: str, points: float, name: str, how: str) -> Claim:
    off = 100 * (run.coverage[column] - run.coverage["level"])
    gaps = {}
    for place, part in groups(run.coverage.assign(off=off), "kind", "sigma"):
        gaps[_named(place)] = ", ".join(f"{gap:+.1f}" for gap in part["off"])
    levels = ", ".join(f"{100 * level:g}" for level in run.coverage["level"].unique())
    return Claim(
        f"photos-{name}",
        f"{run.quality['picture'].nunique()} photographs",
        f"intervals of {levels} %{how} hold the truth as often as they state, within "
        f"{points:g} point{'s' if points > 1 else ''}",
        float(off.abs().max()),
        "<=",
        points,
        "points off: " + "; ".join(f"{place}: {text}" for place, text in gaps.items()),
    )


def _correlation(run: PhotosRun) -> Claim:
    own = run.error_bars[run.error_bars["method"] == OURS]
    pairs = {
        place: _pair(part["correlation"] - part["local_correlation"], 0.0)
        for place, part in groups(own, "kind", "sigma")
    }
    return _claim(
        "tells-where",
        run,
        "over squares of 8 x 8 pixels, predicted variance correlates better with squared error "
        "than the local variance of the denoised picture does; differences are means",
        pairs,
    )


def photos_claims(run: PhotosRun) -> Iterator[Claim]:
    """Yield what the study of photographs says of the denoiser.

    Args:
        run: what was measured.
    """
    if BM3D in set(run.quality["method"]):
        statement = f"mean PSNR is at least {ABOVE_BM3D:g} dB above that of BM3D"
        yield _against(run, BM3D, ABOVE_BM3D, "beats-bm3d", statement)
    yield _against_free(run)
    yield _tenths(run)
    yield _coverage(run, "plain", COVERAGE, "coverage", "")
    yield _coverage(run, "calibrated", CALIBRATED, "conformal", ", calibrated on other pictures,")
    yield _correlation(run)
