"""A made-up estimate of the sweep: its error falls with the rank and rises with sigma."""

from hosm.experiment.accuracy.study.logged import Estimate

BEGAN = 1_800_000_000.25  # seconds since 1970


def estimate(status="FINISHED", target="jacobian", rank=15, sigma=0.05, **row):
    """An estimate whose training took a minute and a half; `row` adds to its row."""
    cell = {"dataset": "gaussian100", "regime": "streaming", "sigma": sigma, "target": target}
    cell |= {"rank": rank, "seed": 0}
    whole = {**cell, "began": BEGAN, "ended": BEGAN + 90, "steps": 900, **row}
    if "diverged" in row:
        return Estimate(cell, whole, status, [])
    whole |= {"best_step": 800, "seconds": 100.5, "s1_error": 0.3, "autodiff_error": 9.4}
    if rank:
        whole["s2_error"] = round(10 - rank / 5 + 10 * sigma, 6)
    curve = [
        {**cell, "step": step, "seconds": step / 10, "error": 5000 / step}
        for step in (100, 500, 900)
    ]
    return Estimate(cell, whole, status, curve)
