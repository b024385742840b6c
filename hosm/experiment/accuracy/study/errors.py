"""Table 1: errors of second-order scores against exact Hessians.

Protocol: squared Frobenius error summed over entries (over the diagonal for a diagonal model),
averaged over test points of the clean data, against the exact Hessian of the clean law (Meng,
Song, Li and Ermon, NeurIPS 2021, section 4.3).
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from hosm import metrics
from hosm.experiment.data.datasets import law
from hosm.experiment.settings import ALONE
from hosm.scores import ScoreModel, autodiff_hessian, hutchinson_diagonal

__all__ = [
    "autodiff_error",
    "constant_error",
    "headline",
    "hutchinson_error",
    "middle_curves",
    "rank_floor",
    "reference_rows",
    "s1_error",
    "s2_error",
    "table1",
    "training_cost",
]

BLOCK = 250  # test points whose D x D Hessians are held at once
PROBES = 10  # of Hutchinson's estimator
MIDDLE = 0.05  # the middle one of the paper's noise scales
PLAIN = ", plain MLP"  # ends the name of a method whose s1 is another network
NAMES = {"dsm": "DSM", "dsm-vr": "DSM-VR", "plain": f"DSM-VR{PLAIN}"}  # of an s1 alone


def _mean_error(
    estimate: Callable[[Tensor], Tensor], truth: Callable[[Tensor], Tensor], x: Tensor
) -> float:
    """Average the squared error over points, a block at a time."""
    total = sum(
        float(metrics.hessian_error(estimate(part), truth(part))) * len(part)
        for part in x.split(BLOCK)
    )
    return total / len(x)


def autodiff_error(model: ScoreModel, dataset: str, test: np.ndarray, diagonal: bool) -> float:
    """Return the error of the Hessian that automatic differentiation takes from s1.

    Args:
        model: a trained model.
        dataset: name of the law.
        test: clean test points, shape (n, D).
        diagonal: compare diagonals only.
    """
    exact = law(dataset)
    truth = exact.hessian_diag if diagonal else exact.hessian

    def autodiff(part: Tensor) -> Tensor:
        hessian = autodiff_hessian(model.score, part, mode="forward")
        return hessian.diagonal(dim1=1, dim2=2) if diagonal else hessian

    return _mean_error(autodiff, truth, torch.tensor(test))


def hutchinson_error(model: ScoreModel, dataset: str, test: np.ndarray) -> float:
    """Return the error of the diagonal by Hutchinson's estimator of PROBES probes; as above."""
    probes = torch.Generator().manual_seed(0)

    def estimate(part: Tensor) -> Tensor:
        return hutchinson_diagonal(model.score, part, PROBES, probes)

    return _mean_error(estimate, law(dataset).hessian_diag, torch.tensor(test))


@torch.no_grad()
def s1_error(model: ScoreModel, dataset: str, test: np.ndarray) -> float:
    """Return the squared error of s1 against the clean law's; arguments as above."""
    x = torch.tensor(test)
    return float(metrics.score_error(model.score(x), law(dataset).score(x)))


@torch.no_grad()
def s2_error(model: ScoreModel, dataset: str, test: np.ndarray, diagonal: bool) -> float:
    """Return the error of the model's own s2; arguments as above.

    Raises:
        ValueError: the model has none.
    """
    exact = law(dataset)
    truth = exact.hessian_diag if diagonal else exact.hessian

    def direct(part: Tensor) -> Tensor:
        second = model.second_order(part)
        if second is None:
            raise ValueError("the model must have a second-order score, got one of first order")
        return second.diagonal() if diagonal else second.to_dense()

    return _mean_error(direct, truth, torch.tensor(test))


def constant_error(dataset: str, train: np.ndarray, test: np.ndarray, diagonal: bool) -> float:
    """Return the error of the best constant: the mean Hessian over training points."""
    exact = law(dataset)
    truth = exact.hessian_diag if diagonal else exact.hessian
    points = torch.tensor(train)
    parts = [truth(part).sum(0) for part in points.split(BLOCK)]
    mean = torch.stack(parts).sum(0) / len(points)
    x = torch.tensor(test)
    return _mean_error(lambda part: mean.expand(len(part), *mean.shape), truth, x)


def rank_floor(dataset: str, rank: int, points: int = 1, sweeps: int = 200) -> float:
    """Return the least error of diag(alpha) + beta beta^T of a rank, by alternating projections.

    Exact for a law whose Hessian is constant; averages over `points` points otherwise.
    """
    exact = law(dataset)
    x = exact.sample(points, torch.Generator().manual_seed(0))
    target = exact.hessian(x).double()
    alpha = torch.linalg.eigvalsh(target)[:, :1].expand(*x.shape).clone()
    for _ in range(sweeps):
        values, vectors = torch.linalg.eigh(target - torch.diag_embed(alpha))
        top = values[:, -rank:].clamp_min(0).unsqueeze(1)
        low_rank = (vectors[..., -rank:] * top) @ vectors[..., -rank:].mT
        alpha = (target - low_rank).diagonal(dim1=1, dim2=2)
    return float((target - low_rank - torch.diag_embed(alpha)).square().sum((1, 2)).mean())


PAPER = {  # Meng et al., table 1: (data set, method, rank) -> sigma -> (mean, standard deviation)
    ("gaussian100", "autodiff, DSM", 0): {
        0.01: (43.80, 0.012),
        0.05: (43.76, 0.001),
        0.1: (43.75, 0.001),
    },
    ("gaussian100", "autodiff, DSM-VR", 0): {
        0.01: (9.40, 0.049),
        0.05: (9.39, 0.015),
        0.1: (9.21, 0.020),
    },
    ("gaussian100", "s2, moment", 15): {
        0.01: (7.12, 0.319),
        0.05: (6.91, 0.078),
        0.1: (7.03, 0.039),
    },
    ("gaussian100", "s2, moment", 20): {
        0.01: (5.24, 0.065),
        0.05: (5.07, 0.047),
        0.1: (5.13, 0.065),
    },
    ("gaussian100", "s2, moment", 30): {
        0.01: (1.76, 0.038),
        0.05: (2.05, 0.544),
        0.1: (1.76, 0.045),
    },
    ("logistic50", "autodiff, DSM-VR", 0): {
        0.01: (26.41, 0.55),
        0.05: (26.13, 0.53),
        0.1: (25.39, 0.50),
    },
    ("logistic50", "s2, moment", 0): {
        0.01: (18.43, 0.11),
        0.05: (18.50, 0.25),
        0.1: (17.88, 0.15),
    },
    ("logistic80", "autodiff, DSM-VR", 0): {
        0.01: (32.80, 0.34),
        0.05: (32.44, 0.30),
        0.1: (31.51, 0.43),
    },
    ("logistic80", "s2, moment", 0): {
        0.01: (21.68, 0.18),
        0.05: (22.23, 0.08),
        0.1: (22.18, 0.08),
    },
}


def _long(sweep: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each estimate: of s2, the same shrunk, and by differentiating s1 once."""
    rows = []
    for trial in sweep.to_dict("records"):
        name = NAMES.get(str(trial["target"]), str(trial["target"]).replace("-", " "))
        estimates = [] if "DSM" in name else [(f"s2, {name}", "s2_error")]
        estimates += [(f"{method}, shrunk", "shrunk_error") for method, _ in estimates]
        if name.startswith(("DSM", "joint")):  # heads share the s1 of DSM-VR
            estimates.append((f"autodiff, {name}", "autodiff_error"))
            estimates.append((f"Hutchinson of {PROBES}, {name}", "hutchinson_error"))
        for method, column in estimates:
            rows.append({**trial, "method": method, "error": trial.get(column)})
    return pd.DataFrame(rows).dropna(subset="error")


def table1(sweep: pd.DataFrame) -> pd.DataFrame:
    """Return mean, standard error and number of seeds for each method, beside the paper's value.

    Args:
        sweep: one row for each model, as the stage `sweep` writes them.
    """
    keys = ["dataset", "regime", "sigma", "method", "rank"]
    groups = _long(sweep).groupby(keys)
    table = groups["error"].agg(["mean", "std", "count"]).reset_index()
    table["standard_error"] = table.pop("std") / np.sqrt(table["count"])
    table["seconds"] = groups["seconds"].mean().to_numpy()
    table["steps"] = groups["steps"].mean().to_numpy()

    def paper(row: dict[Any, Any]) -> tuple[float, float]:
        method = row["method"].replace("joint ", "")  # the paper's is; ours is trained either way
        method = method.removesuffix(PLAIN)  # the paper names no linear map beside its network
        values = PAPER.get((row["dataset"], method, row["rank"]), {})
        return values.get(row["sigma"], (np.nan, np.nan))

    values = [paper(row) for row in table.to_dict("records")]
    table["paper"] = [mean for mean, _ in values]
    table["paper_deviation"] = [deviation for _, deviation in values]
    return table.rename(columns={"count": "seeds"})


def training_cost(sweep: pd.DataFrame) -> pd.DataFrame:
    """Return fits and their seconds, summed, for each data set, regime and target.

    Heads of all ranks are one fit, whose seconds here are without those of its s1.

    Args:
        sweep: one row for each model, as the stage `sweep` writes them.
    """
    trial = ["dataset", "regime", "sigma", "seed"]
    joint = sweep["target"].str.startswith("joint")
    fits = sweep.assign(fit=sweep["rank"].where(joint, 0))
    fits = fits.drop_duplicates([*trial, "target", "fit"])
    first = fits[fits["target"] == "dsm-vr"].set_index(trial)["seconds"].rename("before")
    fits = fits.join(first, on=trial)
    heads = ~(fits["target"].isin(ALONE) | fits["target"].str.startswith("joint"))
    fits["seconds"] -= fits["before"].where(heads, 0.0)
    sums = fits.groupby(["dataset", "regime", "target"], sort=False)["seconds"]
    return sums.agg(fits="count", seconds="sum").reset_index()


def middle_curves(learning: pd.DataFrame) -> pd.DataFrame:
    """Return the learning curves at the middle sigma and the largest rank of each data set.

    Args:
        learning: a row for each validation of each fit, as the stage `sweep` writes them.
    """
    parts = []
    for _, group in learning.groupby(["dataset", "regime"], sort=False):
        sigma = min(group["sigma"], key=lambda value: abs(value - MIDDLE))
        near = group[group["sigma"] == sigma]
        parts.append(near[near["rank"].isin({0, near["rank"].max()})])
    return pd.concat(parts, ignore_index=True)


def reference_rows(
    dataset: str, train: np.ndarray, test: np.ndarray, diagonal: bool, ranks: Sequence[int]
) -> pd.DataFrame:
    """Return the rows that need no training: the constant predictor and the floor of each rank."""
    constant = constant_error(dataset, train, test, diagonal)
    rows: list[dict[str, Any]] = [{"method": "constant predictor", "rank": 0, "mean": constant}]
    rows += [
        {"method": "floor, best diag + rank r", "rank": rank, "mean": rank_floor(dataset, rank)}
        for rank in ranks
    ]
    return pd.DataFrame(rows).assign(dataset=dataset)


def headline(table: pd.DataFrame) -> dict[str, float]:
    """Return the mean error of each trained estimate, by a name that DVC and MLflow accept."""
    numbers = {}
    for row in table[table["regime"].notna()].to_dict("records"):
        method = str(row["method"]).replace(", ", "_").replace(" ", "_")
        rank = f"_r{row['rank']}" if row["rank"] else ""
        name = f"{row['dataset']}.{row['regime']}.sigma{row['sigma']}.{method}{rank}"
        numbers[name] = float(row["mean"])
    return numbers
