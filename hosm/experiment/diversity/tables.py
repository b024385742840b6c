"""Tables of chains of images: what they reached, and the search for the largest steps."""

import pandas as pd

from hosm.experiment.diversity.results import Diversity
from hosm.experiment.diversity.study.methods import METHODS
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.timing import marked, with_machine
from hosm.experiment.shared.rows import Row, records

__all__ = ["classes_table", "diversity_tables", "steps_table"]


def _share(row: Row, name: str) -> str:
    """Return a share and its standard error over starts, in per cent."""
    return formats.plus_minus(100 * row[name], 100 * row[f"{name}_standard_error"])


def classes_table(summary: pd.DataFrame) -> pd.DataFrame:
    """Return what the chains of each sampler reached, and what an iteration costs.

    Args:
        summary: a row for each sampler.
    """
    rows = [
        {
            "Sampler": row["sampler"],
            "ε": f"{row['step']:g}",
            "Time of an iteration": f"{row['iteration_time']:g}",
            "Cost of an iteration": marked(formats.ratio(row["iteration_ratio"]), row),
            "Changed class (%)": _share(row, "changed"),
            "More than Langevin, same ε (%)": _share(row, "gain"),
            "The same at equal time (%)": _share(row, "equal_time_gain")
            if "largest" not in row["sampler"]
            else formats.DASH,
            "Entropy of classes (nats)": formats.plus_minus(
                row["entropy"], row["entropy_standard_error"]
            ),
            "Classes": formats.plus_minus(row["classes"], row["classes_standard_error"]),
            "Confidence": formats.number(row["confidence"], 2),
            "Mean pixel": formats.number(row["brightness"]),
        }
        for row in records(summary)
    ]
    return pd.DataFrame(rows)


def steps_table(tried: pd.DataFrame) -> pd.DataFrame:
    """Return the ratios of Stein's identities for each step that the search tried.

    Args:
        tried: a row for each method and time, and one of exact draws.
    """
    rows = [
        {
            "Sampler": METHODS.get(row["method"], "exact draws"),
            "Time of an iteration": f"{row['time']:g}" if row["time"] else formats.DASH,
            "ε": f"{row['step']:g}" if row["step"] > 0 else formats.DASH,
            "Chains": formats.count(row["chains"]),
            "Iterations": formats.count(row["iterations"]),
            "Noise, measured / expected": formats.plus_minus(
                row["noise_ratio"], row["noise_standard_error"]
            ),
            "Image, measured / expected": formats.plus_minus(
                row["image_ratio"], row["image_standard_error"]
            ),
            "Energy, over the start's": formats.plus_minus(
                row["energy_ratio"], row["energy_standard_error"]
            ),
            "Bias (%)": formats.number(100 * row["bias"], 2),
        }
        for row in records(tried)
    ]
    return pd.DataFrame(rows)


def diversity_tables(name: str, found: Diversity) -> dict[str, pd.DataFrame]:
    """Return the tables of chains of one set of images, by their files' names."""
    return {
        f"classes-{name}": with_machine(classes_table(found.summary), found.cost),
        f"steps-{name}": steps_table(found.search),
    }
