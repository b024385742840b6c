"""How time and memory grow with the dimension D and with the rank r, up to large colour images.

One U-Net with a shared trunk, the same batch for all sizes: a DSM step, a joint step (`jacobian`)
with a diagonal and with a low-rank head, and what users then ask of the model: the map of
posterior variances, the leading directions of the posterior covariance, and posterior samples.
Growth is stated as the slope of log time, or log bytes, against log D or log r: 1 is linear.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import torch

from hosm.experiment.cost.study.training import SIGMA, model_params, step_of
from hosm.experiment.settings import Backbone, SpeedParams
from hosm.experiment.shared.stopwatch import (
    Work,
    devices,
    peak_bytes,
    summary,
    threads,
    timed_in_turn,
)
from hosm.experiment.train.models import build_model
from hosm.operators import DiagonalPlusLowRank
from hosm.uncertainty import Posterior, leading_directions, posterior

__all__ = ["slopes", "time_dimensions"]

DIRECTIONS = 5
DRAWS = 16
BACKBONE = Backbone(kind="unet", shared=True)


def _uses(shape: tuple[int, ...], rank: int, size: int, device: torch.device) -> dict[str, Work]:
    """Return the uses of a learned model that are timed at one noisy batch, by name."""
    model = build_model(model_params(BACKBONE, rank, "jacobian"), shape, 1.0).to(device).eval()
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(size, int(torch.Size(shape).numel()), generator=draw).to(device)
    law = posterior(model, x, SIGMA)
    # untrained, C is all but diagonal: give it the spread of a learned one
    factor = 0.1 * torch.randn(law.covariance.factor.shape, generator=draw).to(device)
    covariance = DiagonalPlusLowRank(law.covariance.diag, factor)
    law = Posterior(law.mean, covariance, law.clipped_share)
    return {
        "variance map": lambda: posterior(model, x, SIGMA).variance,
        f"{DIRECTIONS} directions": lambda: leading_directions(covariance, DIRECTIONS),
        f"{DRAWS} samples": lambda: law.sample(DRAWS),
    }


def _works(
    shape: tuple[int, ...], ranks: tuple[int, ...], size: int, device: torch.device
) -> dict[tuple[str, int], Work]:
    """Return what to time for one image shape, by method and rank: uses at the first rank."""
    works = {}
    for target, rank in (("dsm", 0), ("jacobian", 0), *(("jacobian", rank) for rank in ranks)):
        name = "DSM step" if target == "dsm" else "joint step"
        works[name, rank] = step_of(model_params(BACKBONE, rank, target), shape, size, device)
    uses = _uses(shape, ranks[0], size, device)
    return works | {(name, ranks[0]): work for name, work in uses.items()}


def _rows(params: SpeedParams, device: torch.device) -> Iterator[dict[str, Any]]:
    several = params.images[min(2, len(params.images) - 1)]  # where all ranks are timed
    for channels, side in params.images:
        facts = {"channels": channels, "side": side, "dimension": channels * side**2}
        ranks = params.image_ranks[: None if (channels, side) == several else 1]
        works = _works((channels, side, side), ranks, params.image_batch, device)
        times = timed_in_turn(works, params.repeats, device)
        for (name, rank), work in works.items():
            row = {**facts, "method": name, "rank": rank, **summary(times[name, rank])}
            yield {**row, **peak_bytes(work, device)}


def time_dimensions(params: SpeedParams) -> pd.DataFrame:
    """Return times in seconds and peak memory in bytes by image size, method and rank."""
    rows: list[dict[str, Any]] = []
    with threads(params.threads):
        for device in devices():
            for row in _rows(params, device):
                label = f"D = {row['dimension']} {row['method']} r = {row['rank']}"
                memory = f"{row['allocated'] / 1e6:.0f} MB"
                print(f"{label}: {row['seconds']:.3g} s, {memory}", flush=True)
                rows.append({"device": device.type, "batch": params.image_batch, **row})
    return pd.DataFrame(rows)


def _slope(x: pd.Series, y: pd.Series) -> float:
    """Return the least-squares slope of log y against log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def slopes(times: pd.DataFrame) -> pd.DataFrame:
    """Return how time and allocated memory grow: slopes on logarithmic axes.

    Args:
        times: as returned by `time_dimensions`.

    Returns:
        For each device, method and rank the slope with D; for the joint step also that with r,
        at the one size where several ranks were timed. `from` and `to` are the ends of the fit;
        `late_time` and `late_memory` are the slopes between its two largest sizes, where no
        overhead flattens them.
    """
    out = []
    for (device, method, rank), rows in times.groupby(["device", "method", "rank"]):
        if rows["dimension"].nunique() > 1:
            fit = {"device": device, "method": method, "rank": rank, "variable": "D"}
            out.append((fit, rows["dimension"], rows))
    for (device, size), rows in times[times["method"] == "joint step"].groupby(
        ["device", "dimension"]
    ):
        rows = rows[rows["rank"] > 0]
        if rows["rank"].nunique() > 2:
            fit = {"device": device, "method": f"joint step, D = {size}", "variable": "r"}
            out.append((fit, rows["rank"], rows))
    found = []
    for fit, x, rows in out:
        last = x.isin(sorted(set(x))[-2:])
        ends: dict[str, float] = {"from": int(x.min()), "to": int(x.max())}
        for name, column in (("time", "seconds"), ("memory", "allocated")):
            ends[name] = _slope(x, rows[column])
            ends[f"late_{name}"] = _slope(x[last], rows[column][last])
        found.append({**fit, **ends})
    return pd.DataFrame(found)
