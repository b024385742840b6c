"""Stage `mixing`: table 3, ESS of Langevin and Ozaki sampling at a stated bias."""

import sys
from typing import Any

import numpy as np
import pandas as pd

from hosm.experiment import mixing as study
from hosm.experiment.models import load_model
from hosm.experiment.process import PROJECT, main
from hosm.experiment.stage import open_stage, write_csv, write_json


def mixing(*targets: str) -> None:
    """Write data/results/mixing: final rows, tuning, curves and samples.

    Args:
        targets: names of laws that models were trained on.
    """
    folder = PROJECT / "data" / "results" / "mixing"
    with open_stage("mixing") as (params, run, _):
        run.log_params(params.mixing.model_dump())
        parts: dict[str, list[Any]] = {"table3": [], "tuning": [], "curves": []}
        samples: dict[str, Any] = {}
        for target in targets:
            model = load_model(PROJECT / "data" / "models" / target)[0]
            for scores in (study.exact_scores(target), study.learned_scores(model)):
                *frames, draws = study.study(target, scores, params.mixing)
                for rows, new in zip(parts.values(), frames, strict=True):
                    rows.extend(new)
                samples |= {f"{target}|{scores.name}|{k}": v.numpy() for k, v in draws.items()}
        for name, rows in parts.items():
            write_csv(pd.DataFrame(rows), folder / f"{name}.csv")
            run.log_artifact(folder / f"{name}.csv")
        np.savez_compressed(folder / "samples.npz", **samples)
        numbers = study.headline(pd.DataFrame(parts["table3"]))
        write_json(numbers, PROJECT / "reports" / "metrics" / "mixing.json")
        run.log_metrics(numbers)


if __name__ == "__main__":
    main(mixing, *sys.argv[1:])
