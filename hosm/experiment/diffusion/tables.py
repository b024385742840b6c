"""Gaps of bounds and distances of draws by steps and covariance, likelihoods, and seconds."""

import math

import pandas as pd

from hosm.experiment.diffusion.results import EXACT, LEARNED, Diffusion, DiffusionRun
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.timing import marked, with_machine
from hosm.experiment.shared.rows import Row, groups, records

__all__ = ["diffusion_tables", "likelihood_table", "seconds_table", "steps_table"]

MEANS = {EXACT: "exact", LEARNED: "the network’s"}


def _text(values: pd.Series) -> str:
    """Return a mean over seeds with its standard error, or a dash where nothing was measured."""
    found = values.dropna()
    if found.empty:
        return formats.DASH
    error = float(found.std()) / math.sqrt(len(found)) if len(found) > 1 else math.nan
    return formats.plus_minus(float(found.mean()), error)


def steps_table(steps: pd.DataFrame, measure: str) -> pd.DataFrame:
    """Return one measure by mean and covariance, a column for each number of steps.

    Args:
        steps: as in `results.DiffusionRun`.
        measure: `gap` or `distance`.
    """
    rows = []
    for (mean, name), part in groups(steps, "mean", "covariance"):
        if part[measure].notna().any():
            row: Row = {"Mean": MEANS[mean], "Covariance or sampler": name}
            rows.append(
                row | {f"{k} steps": _text(each[measure]) for k, each in groups(part, "steps")}
            )
    return pd.DataFrame(rows)


def likelihood_table(likelihood: pd.DataFrame) -> pd.DataFrame:
    """Return errors, noise and seconds of likelihoods by the flow.

    Args:
        likelihood: as in `results.DiffusionRun`.
    """
    return pd.DataFrame(
        [
            {
                "Scores": MEANS[row["mean"]],
                "Trace": row["trace"],
                "Error, nats a dimension": formats.number(row["error"]),
                "Mean of the error with its sign": formats.number(row["bias"]),
                "Noise": formats.number(row["noise"]),
                "Evaluations": formats.count(row["evaluations"]),
                "Seconds": marked(formats.number(row["seconds"]), row),
            }
            for row in records(likelihood)
        ]
    )


def seconds_table(seconds: pd.DataFrame) -> pd.DataFrame:
    """Return the time of a step by covariance, and its ratio to the fastest constant's.

    Args:
        seconds: as in `results.DiffusionRun`.
    """
    by_name = {row["covariance"]: row["seconds"] for row in records(seconds)}
    constant = by_name["beta"]
    return pd.DataFrame(
        [
            {
                "Covariance": row["covariance"],
                "A step": marked(formats.milliseconds(row["seconds"]), row),
                "Over a constant’s": formats.ratio(row["seconds"] / constant),
            }
            for row in records(seconds)
        ]
    )


def _of_run(run: DiffusionRun, end: str) -> dict[str, pd.DataFrame]:
    return {
        f"diffusion-gap{end}": steps_table(run.steps, "gap"),
        f"diffusion-distance{end}": steps_table(run.steps, "distance"),
        f"diffusion-likelihood{end}": with_machine(
            likelihood_table(run.likelihood), run.likelihood
        ),
        f"diffusion-seconds{end}": with_machine(seconds_table(run.seconds), run.seconds),
    }


def diffusion_tables(found: Diffusion) -> dict[str, pd.DataFrame]:
    """Return the tables of the study, by their files' names."""
    whole = {} if found.whole is None else _of_run(found.whole, "-whole")
    return _of_run(found.run, "") | whole
