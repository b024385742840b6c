"""Results of the stages: files -> frames, read in one place and checked on reading.

Layout below the project's `data/results`: `sweep/`, `accuracy/`, `speed/`, `scaling/`, `mixing/`,
`uncertainty/` and `training/`, each written by the stage of that name (`training/` by `train`).
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hosm.experiment.params import load_params

__all__ = [
    "BASELINE",
    "Results",
    "Row",
    "Whole",
    "groups",
    "is_exact",
    "is_reference",
    "load_results",
    "lowest",
    "margin",
    "method_order",
    "radial_distance",
    "records",
]

Arrays = dict[str, NDArray[Any]]
Row = dict[str, Any]

BASELINE = "autodiff, DSM-VR"
ORDER = ("autodiff, DSM", BASELINE, "autodiff", "Hutchinson", "s2", "floor", "constant")
OBJECTIVES = ("joint moment", "moment", "residual", "jacobian")
REDUCTION = "sigma reduction seed target step train_second least_second s1_error s2_error"
COST = "dataset regime target fits seconds"
LEARNING = "dataset regime sigma target rank seed step seconds error"
STEP, COSTS = "device batch dimension method rank", "seconds seconds_low seconds_high allocated"
TABLE1 = (
    "dataset regime sigma method rank mean seeds standard_error seconds steps paper "
    "paper_deviation"
)
ROUNDING = 1e-3  # an error that float32 leaves of zero, summed over entries
FRAMES = {  # field of Results -> file, and the columns that a report needs
    "trials": ("sweep/trials.csv", "dataset regime sigma target rank seed s1_error seconds steps"),
    "learning": ("accuracy/curves.csv", LEARNING),
    "cost": ("accuracy/cost.csv", COST),
    "accuracy": ("accuracy/table1.csv", TABLE1),
    "reduction": ("reduction/curves.csv", REDUCTION),
    "estimates": (
        "reduction/estimates.csv",
        "sigma reduction seed target u s1 s2 exact_s1 exact_s2",
    ),
    "reduction_errors": (
        "reduction/numbers.csv",
        "sigma reduction target seeds diverged s1_error s1_standard_error s2_error "
        "s2_standard_error",
    ),
    "speed": (
        "speed/table2.csv",
        "device dimension batch backbone method rank seconds seconds_low seconds_high repeats "
        "paper_seconds rows_timed parameters threads",
    ),
    "training_cost": ("speed/training.csv", f"part {STEP} target variance_reduction {COSTS}"),
    "growth": ("speed/growth.csv", f"{STEP} {COSTS}"),
    "slopes": ("speed/slopes.csv", "device method rank variable time memory late_time"),
    "workers": ("scaling/steps.csv", "loop workers run seconds_per_step batch steps"),
    "plan": ("scaling/plan.csv", "network numbers link workers volume seconds compute_for_90"),
    "mixing": (
        "mixing/table3.csv",
        "target scores method setting step_size ess_nice ess_bulk r_hat kolmogorov "
        "finite_share ess_bulk_per_second within_bound tuning_within_bound paper_ess",
    ),
    "tuning": ("mixing/tuning.csv", "target scores method step_size ess_bulk kolmogorov"),
    "curves": ("mixing/curves.csv", "target scores method iterations kolmogorov"),
    "reliability": ("uncertainty/reliability.csv", "predicted observed standard_error entries"),
}
TRAINING = "step train_dsm train_second validation_dsm validation_second"
PICTURES = "clean noisy mean variance squared_error eigenvalues directions"


@dataclass(frozen=True, eq=False)
class Whole:
    """Table 1 at the paper's sizes, kept from the last run of them: see `make table1`."""

    accuracy: pd.DataFrame
    learning: pd.DataFrame
    cost: pd.DataFrame
    card: dict[str, Any]


@dataclass(frozen=True, eq=False)
class Results:
    """Everything that a report shows, as the stages measured it.

    `draws` maps 'target|scores|method' to points, shape (n, 2). `pictures` holds images, shape
    (n, D), and directions, shape (n, D, k). `training` maps a model to its losses, and
    `bias_bound` is the largest Kolmogorov distance that the tuning of step sizes accepts.
    """

    trials: pd.DataFrame
    learning: pd.DataFrame
    cost: pd.DataFrame
    accuracy: pd.DataFrame
    whole: Whole
    reduction: pd.DataFrame
    estimates: pd.DataFrame
    reduction_errors: pd.DataFrame
    speed: pd.DataFrame
    training_cost: pd.DataFrame
    growth: pd.DataFrame
    slopes: pd.DataFrame
    workers: pd.DataFrame
    plan: pd.DataFrame
    mixing: pd.DataFrame
    tuning: pd.DataFrame
    curves: pd.DataFrame
    draws: Arrays
    reliability: pd.DataFrame
    calibration: dict[str, float]
    pictures: Arrays
    card: dict[str, Any]
    training: dict[str, pd.DataFrame]
    bias_bound: float


def _existing(path: Path) -> Path:
    if not path.is_file():
        raise FileNotFoundError(f"{path} does not exist; run the stage that writes it")
    return path


def _check_names(path: Path, there: list[str], wanted: str) -> None:
    missing = [name for name in wanted.split() if name not in there]
    if missing:
        raise ValueError(f"{path} lacks {', '.join(missing)}; it has {', '.join(there)}")


def _frame(path: Path, columns: str) -> pd.DataFrame:
    frame = pd.read_csv(_existing(path))
    _check_names(path, list(map(str, frame.columns)), columns)
    if frame.empty:
        raise ValueError(f"{path} holds no rows")
    return frame


def _arrays(path: Path, names: str = "") -> Arrays:
    with np.load(_existing(path), allow_pickle=False) as archive:
        _check_names(path, archive.files, names)
        return {name: archive[name] for name in archive.files}


def _json(path: Path, names: str = "") -> dict[str, Any]:
    content = json.loads(_existing(path).read_text())
    _check_names(path, list(content), names)
    return content


def _with_references(accuracy: pd.DataFrame) -> pd.DataFrame:
    """Repeat references, which hold for every regime and sigma of their data set, for each."""
    known = accuracy["sigma"].isna()
    cells = accuracy.loc[~known, ["dataset", "regime", "sigma"]].drop_duplicates()
    references = accuracy[known].drop(columns=["regime", "sigma"]).merge(cells, on="dataset")
    return pd.concat([accuracy[~known], references[accuracy.columns]], ignore_index=True)


def radial_distance(draws: NDArray[Any], exact: NDArray[Any]) -> float:
    """Return the Kolmogorov distance of |x - mean| of draws to that of exact draws; 1 if NaN.

    Coordinates alone cannot tell a ring of modes from a blob of the same width; this can.

    Args:
        draws: shape (n, D).
        exact: shape (m, D).
    """
    if not np.isfinite(draws).all():
        return 1.0
    first, second = (
        np.sort(np.linalg.norm(points - exact.mean(0), axis=1)) for points in (draws, exact)
    )
    grid = np.concatenate([first, second])
    shares = [np.searchsorted(part, grid, side="right") / len(part) for part in (first, second)]
    return float(np.abs(shares[0] - shares[1]).max())


def _with_radius(mixing: pd.DataFrame, draws: Arrays, bound: float) -> pd.DataFrame:
    """Add the distance of the radius, where draws were kept, and judge the larger distance."""
    radial = []
    for row in records(mixing):
        place = f"{row['target']}|{row['scores']}|"
        kept, exact = draws.get(place + row["method"]), draws.get(f"{place}exact draws")
        if row["setting"] != "tuned" or kept is None or exact is None:
            radial.append(math.nan)
        else:
            radial.append(radial_distance(kept, exact))
    distance = np.fmax(mixing["kolmogorov"], radial)
    return mixing.assign(radial=radial, distance=distance, sound=distance <= bound)


def _whole(folder: Path) -> Whole:
    accuracy = _with_references(_frame(folder / "table1.csv", TABLE1))
    learning, cost = _frame(folder / "curves.csv", LEARNING), _frame(folder / "cost.csv", COST)
    card = _json(folder / "card.json", "profile seeds commit hardware protocol")
    return Whole(accuracy, learning, cost, card)


def load_results(root: Path) -> Results:
    """Read what the stages wrote.

    References of table 1 are repeated for each regime and sigma. Table 3 gains `radial`, the
    distance of the tuned draws' radius, `distance`, the larger one of that and the worst
    coordinate's, and `sound`: whether that is within the bias bound.

    Args:
        root: the project's folder, with `params.yaml` and `data/results`.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file lacks a column or an entry, or holds no rows.
    """
    folder = root / "data" / "results"
    frames: dict[str, Any] = {
        field: _frame(folder / file, names) for field, (file, names) in FRAMES.items()
    }
    draws = _arrays(folder / "mixing" / "samples.npz")
    bound = load_params(root / "params.yaml").mixing.bias_bound
    frames["mixing"] = _with_radius(frames["mixing"], draws, bound)
    frames["accuracy"] = _with_references(frames["accuracy"])
    losses = sorted((folder / "training").glob("*.csv"))
    if not losses:
        raise FileNotFoundError(f"{folder / 'training'} holds no losses; run the stage train")
    return Results(
        **frames,
        whole=_whole(root / "reports" / "whole"),
        draws=draws,
        calibration=_json(folder / "uncertainty" / "numbers.json"),
        pictures=_arrays(folder / "uncertainty" / "pictures.npz", PICTURES),
        card=_json(folder / "uncertainty" / "card.json", "shape"),
        training={path.stem: _frame(path, TRAINING) for path in losses},
        bias_bound=bound,
    )


def records(frame: pd.DataFrame) -> list[Row]:
    """Return the rows of a frame as dictionaries."""
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def groups(frame: pd.DataFrame, *by: str) -> list[tuple[Any, pd.DataFrame]]:
    """Return the parts of a frame by the values of some columns, in order of appearance."""
    return list(frame.groupby(list(by) if len(by) > 1 else by[0], sort=False))


def is_reference(row: Row) -> bool:
    """Say whether a row of table 1 is a reference (floor, constant) and no estimate."""
    return str(row["method"]).startswith(("floor", "constant"))


def method_order(row: Row) -> tuple[Any, ...]:
    """Return where a row of table 1 stands: baselines, estimates, references."""
    method = str(row["method"])
    place = next(i for i, start in enumerate((*ORDER, "")) if method.startswith(start))
    if method in ORDER:
        place = ORDER.index(method)
    objective = [i for i, name in enumerate(OBJECTIVES) if name in method]
    return place, objective, 0 if math.isnan(row["rank"]) else row["rank"]


def is_exact(row: Row) -> bool:
    """Say whether an error is zero up to rounding: a constant Hessian is, for a Gaussian law."""
    return bool(row["mean"] < ROUNDING)


def lowest(cell: list[Row]) -> list[bool]:
    """Mark the estimate with the lowest error, and those within two of its standard errors.

    Args:
        cell: rows of table 1 of one data set, regime and sigma.
    """
    estimates = [row for row in cell if not is_reference(row) and math.isfinite(row["mean"])]
    if not estimates:
        return [False] * len(cell)
    best = min(estimates, key=lambda row: row["mean"])
    error = 0.0 if math.isnan(best["standard_error"]) else best["standard_error"]
    return [row in estimates and row["mean"] - best["mean"] <= 2 * error for row in cell]


def margin(first: Row, second: Row) -> float:
    """Return two standard errors of the difference of two rows of table 1."""
    errors = [row["standard_error"] for row in (first, second)]
    return 2 * math.hypot(*(0.0 if math.isnan(error) else error for error in errors))
