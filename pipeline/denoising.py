"""Stage `denoising`: figure 2, points in the plane against their exact posteriors."""

from typing import Any

import numpy as np
import pandas as pd

from hosm.experiment.denoising import study as figure2
from hosm.experiment.run.process import PROJECT, main
from hosm.experiment.run.stage import open_stage, write_csv, write_json


def denoising() -> None:
    """Write data/results/denoising: a row for each data set, and the points of the picture."""
    folder = PROJECT / "data" / "results" / "denoising"
    with open_stage("denoising") as (params, run, _):
        run.log_params(params.denoising.model_dump())
        rows: list[dict[str, Any]] = []
        points: dict[str, Any] = {}
        for name in params.denoising.datasets:
            row, arrays = figure2.study(name, params.denoising)
            rows.append(row)
            points |= {f"{name}|{key}": value.numpy() for key, value in arrays.items()}
            error, seconds = row["covariance_error"], row["seconds"]
            print(f"{name}: error of the covariance {error:.1%}, {seconds:.0f} s", flush=True)
        write_csv(pd.DataFrame(rows), folder / "posteriors.csv")
        np.savez_compressed(folder / "points.npz", **points)
        numbers = figure2.headline(rows)
        write_json(numbers, PROJECT / "reports" / "metrics" / "denoising.json")
        run.log_metrics(numbers)
        run.log_artifact(folder / "posteriors.csv")


if __name__ == "__main__":
    main(denoising)
