r"""The plan of communication: what data-parallel workers send in a step, and when it hurts.

With P workers a step adds up gradients of N numbers over all of them, a volume of

$$V = 2 (P - 1) / P \cdot 4 N \text{ bytes}$$

for each, so that a step of t seconds of computation takes t + V / B + 2 (P - 1) l with a bandwidth
B and a latency l, if nothing overlaps: a bound, since DistributedDataParallel sends while it
computes. B and l of this machine are fitted to all-reduces of several lengths; those of clusters
are the makers' figures, and say so.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

__all__ = ["communication_plan", "fit_link"]

LINKS = {  # workers -> what joins them, bytes per second of an all-reduce, seconds of latency
    8: ("8 GPUs of one node, NVLink, 200 GB/s", 200e9, 5e-6),
    64: ("64 GPUs of 8 nodes, 400 Gbit/s each, 40 GB/s", 40e9, 10e-6),
}
NETWORKS = {  # numbers to add up, float32
    "U-Net, channels 16 32 32, r = 50": 270_420,
    "a U-Net of 16 million numbers": 16_000_000,
    "a U-Net of 100 million numbers": 100_000_000,
}


def fit_link(lengths: Sequence[int], seconds: Sequence[float]) -> tuple[float, float]:
    """Return bandwidth (bytes a second) and latency (seconds) of all-reduces between two workers.

    Args:
        lengths: numbers in float32 that were added up.
        seconds: what it took, for each.
    """
    volume = 4.0 * np.asarray(lengths)  # 2 (P - 1) / P is 1
    weights = 1 / np.asarray(seconds)  # relative errors count alike
    design = np.stack([volume, np.ones_like(volume)], 1) * weights[:, None]
    slope, constant = np.linalg.lstsq(design, np.ones_like(volume), rcond=None)[0]
    return float(1 / slope), float(max(constant, 0.0) / 2)


def communication_plan(reduced: pd.DataFrame) -> pd.DataFrame:
    """Return, for networks and links, the volume and time of a step's communication.

    `compute_for_90` is the least computation in a step, in seconds, at which 90 % of the time
    goes into it, if nothing overlaps: below it, adding workers breaks down.

    Args:
        reduced: all-reduces that were timed here, as of `time_workers`.
    """
    links = dict(LINKS)
    if len(reduced):
        bandwidth, latency = fit_link(list(reduced["length"]), list(reduced["seconds"]))
        links = {2: (f"2 workers here, {bandwidth / 1e9:.2g} GB/s", bandwidth, latency)} | links
    rows = []
    for network, numbers in NETWORKS.items():
        for workers, (link, bandwidth, latency) in links.items():
            volume = 2 * (workers - 1) / workers * 4 * numbers
            seconds = volume / bandwidth + 2 * (workers - 1) * latency
            facts = {"network": network, "numbers": numbers, "link": link, "workers": workers}
            times = {"volume": volume, "seconds": seconds, "compute_for_90": 9 * seconds}
            rows.append({**facts, **times})
    return pd.DataFrame(rows)
