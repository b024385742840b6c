"""The headline numbers of denoisers of images."""

from collections.abc import Iterator, Mapping

from hosm.experiment.presenting import formats
from hosm.experiment.presenting.headline import Finding
from hosm.experiment.presenting.longer_runs import short_name
from hosm.experiment.shared.rows import Row, records
from hosm.experiment.uncertainty.results import Denoiser

__all__ = ["uncertainty_findings", "uncertainty_sentence"]

SHOWN_SIGMA = 0.5  # of the likelihoods


def _rows(denoisers: Mapping[str, Denoiser]) -> dict[str, list[Row]]:
    """Return the numbers of the models of a range of noise, the longer run where there is one."""
    longest = {short_name(name): found.numbers for name, found in denoisers.items()}
    return {name: records(rows[rows["model"] == "range"]) for name, rows in longest.items()}


def _shown(rows: list[Row]) -> Row:
    return min(rows, key=lambda each: abs(each["sigma"] - SHOWN_SIGMA))


def uncertainty_sentence(denoisers: Mapping[str, Denoiser]) -> str:
    """Return the correlation and the likelihood at one noise scale, in a sentence."""
    parts = []
    for name, rows in _rows(denoisers).items():
        row = _shown(rows)
        learned, one = (formats.number(row[f"nll_{k}"], 4) for k in ("low_rank", "isotropic"))
        parts.append(
            f"on images of {name} the correlation of the predicted variance of a pixel with its "
            f"squared error is {formats.number(row['correlation'], 2)}, and the negative "
            f"log-likelihood of clean images is {learned} nats, where one variance for all "
            f"pixels has {one} "
            f"(less is better; noise {row['sigma']:g})"
        )
    return f"When images are denoised, {'; '.join(parts)}."


def uncertainty_findings(denoisers: Mapping[str, Denoiser]) -> Iterator[Finding]:
    """Yield the likelihood and the correlation at one noise scale, of each data set."""
    for name, rows in _rows(denoisers).items():
        row = _shown(rows)
        where = f"of denoised images (`{name}`, sigma {row['sigma']:g})"
        yield Finding(
            f"Negative log-likelihood {where} in nats: the learned Gaussian of the clean image "
            "given the noisy one; less is better.",
            formats.number(row["nll_low_rank"], 4),
            f"{formats.number(row['nll_isotropic'], 4)} by one variance for all pixels",
        )
        yield Finding(
            f"Correlation of predicted variance and squared error over pixels {where}.",
            formats.number(row["correlation"], 2),
            "1 at most",
        )
