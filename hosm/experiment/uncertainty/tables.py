"""Tables of denoisers: calibration, likelihoods, directions."""

import pandas as pd

from hosm.experiment.presenting import formats
from hosm.experiment.presenting.coverage import coverage
from hosm.experiment.presenting.timing import marked, with_machine
from hosm.experiment.shared.rows import Row, groups, records
from hosm.experiment.uncertainty.results import Denoiser

__all__ = [
    "calibration_table",
    "direction_table",
    "likelihood_table",
    "reliability_table",
    "uncertainty_tables",
]

KINDS = {
    "range": "range of σ",
    "one scale, equal steps": "one σ, equal steps",
    "one scale, equal total": "one σ, equal steps in total",
    "unconstrained": "one σ, jacobian, no psd",
}
SHOWN = (1, 3, 5, 10)  # numbers of directions


def calibration_table(numbers: pd.DataFrame) -> pd.DataFrame:
    """Return how well the variance of the model of a range tells the error, by noise scale."""
    rows = [
        {
            "σ": f"{row['sigma']:g}",
            "Squared error (pixel²)": formats.number(row["error_per_pixel"]),
            "Variance (pixel²)": formats.number(row["predicted_variance_per_pixel"]),
            "Correlation": formats.number(row["correlation"]),
            "Variance at edges / elsewhere (pixel²)": (
                f"{formats.number(row['edge_variance'])} / "
                f"{formats.number(row['background_variance'], 2)}"
            ),
            "Scale": formats.number(row["scale"]),
            "Coverage of 50 / 80 / 95 %, scaled": coverage(row),
        }
        for row in records(numbers[numbers["model"] == "range"])
    ]
    return pd.DataFrame(rows)


def _likelihood(row: Row, column: str) -> str:
    """Return a negative log-likelihood under C, and whether the floor of clipping decides it."""
    clipped = " (clip floor)" if row["clipped_share"] > 0 else ""
    return f"{formats.number(row[column], 4)}{clipped}"


def likelihood_table(numbers: pd.DataFrame) -> pd.DataFrame:
    """Return negative log-likelihoods of clean images by noise scale, model and covariance.

    Where C has negative variances these are clipped to a small floor, against which any error of
    the mean is huge: its likelihood is then that of the floor, and is marked so.
    """
    rows = []
    for sigma, group in groups(numbers.sort_values("sigma", kind="stable"), "sigma"):
        for row in records(group):
            rows.append(
                {
                    "σ": f"{sigma:g}",
                    "Model": KINDS[row["model"]],
                    "C": _likelihood(row, "nll_low_rank"),
                    "Its diagonal": formats.number(row["nll_diagonal"], 4),
                    "One variance": formats.number(row["nll_isotropic"], 4),
                    "C, scaled": _likelihood(row, "nll_scaled"),
                    "Clipped share": f"{row['clipped_share']:.1%}",
                }
            )
    return pd.DataFrame(rows)


def reliability_table(reliability: pd.DataFrame) -> pd.DataFrame:
    """Return measured over predicted variance, scaled, in bins of the prediction, by scale."""
    rows: dict[int, Row] = {}
    for row in records(reliability[reliability["model"] == "range"]):
        gap = row["observed"] / (row["scale"] * row["predicted"])
        line = rows.setdefault(row["bin"], {"Tenth of the pixels": formats.count(row["bin"])})
        line[f"σ = {row['sigma']:g}: variance (pixel²)"] = formats.number(row["predicted"], 2)
        line["Error / scaled, " + f"σ = {row['sigma']:g}"] = formats.ratio(gap)
    return pd.DataFrame(list(rows.values()))


def direction_table(directions: pd.DataFrame) -> pd.DataFrame:
    """Return the share of the error that k directions hold, and the time to find them."""
    rows = []
    for method, group in groups(directions, "method"):
        shares = group.set_index("k")["share"]
        first = records(group)[0]
        per_image = first["seconds"] / first["images"]
        rows.append(
            {
                "Directions by": method,
                **{f"k = {k}": f"{shares[k]:.1%}" for k in SHOWN if k in shares.index},
                "Time per image (ms)": formats.DASH
                if method.startswith("PCA")
                else marked(formats.milliseconds(per_image), first),
            }
        )
    return pd.DataFrame(rows)


def uncertainty_tables(name: str, found: Denoiser) -> dict[str, pd.DataFrame]:
    """Return the tables of one set of images, by their files' names."""
    return {
        f"calibration-{name}": calibration_table(found.numbers),
        f"likelihood-{name}": likelihood_table(found.numbers),
        f"reliability-{name}": reliability_table(found.reliability),
        f"directions-{name}": with_machine(direction_table(found.directions), found.directions),
    }
