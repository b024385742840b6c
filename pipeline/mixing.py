"""Stage `mixing`: table 3, figures 5 and 6: Langevin and Ozaki sampling at a stated bias."""

import sys
from typing import Any

import numpy as np
import pandas as pd

from hosm.experiment.cluster import connection
from hosm.experiment.cluster.parallel import map_on_cluster
from hosm.experiment.mixing.study import convergence, iteration_cost, samplers, tuning
from hosm.experiment.run import provenance
from hosm.experiment.run.process import PROJECT, main
from hosm.experiment.run.stage import open_stage, write_json, write_tables
from hosm.experiment.train.models import load_model


def mixing(*targets: str) -> None:
    """Write data/results/mixing: final rows, tuning, curves, bias by step size, draws.

    Args:
        targets: names of laws that models were trained on; those of `laws` in params.yaml if none
            is given.
    """
    data = PROJECT / "data"
    folder, models = data / "results" / "mixing", data / "models" / "planar"
    with open_stage("mixing") as (params, run, _):
        settings, laws = params.mixing, targets or params.laws
        run.log_params(settings.model_dump())
        learned = {name: samplers.learned_scores(load_model(models / name)[0]) for name in laws}
        exact = {name: samplers.exact_scores(name) for name in laws}
        cells = [(name, each[name], settings) for name in laws for each in (exact, learned)]
        shown = [(name, learned[name], settings) for name in laws if name in convergence.SHOWN]
        with connection.connect(params.cluster, dashboard=False):
            found, drifts, approaches, singles = map_on_cluster(
                (tuning.study, cells),
                (convergence.step_size_bias, [(each, settings) for each in laws]),
                (convergence.approach, shown),
                (convergence.single_chains, shown),
            )
        draws: dict[str, Any] = {}
        for study, (name, scores, _) in zip(found, cells, strict=True):
            iteration_cost.timed(study.final, scores, settings)
            draws |= {f"{name}|{scores.name}|{method}": x for method, x in study.draws.items()}
        for points in (*(points for _, points in approaches), *singles):
            draws |= points
        tables = {
            "table3": [row for study in found for row in study.final],
            "tuning": [row for study in found for row in study.tuning],
            "curves": [row for study in found for row in study.curves],
            "approach": [row for rows, _ in approaches for row in rows],
            "bias": [row for rows in drifts for row in rows],
        }
        frames = {table: pd.DataFrame(rows) for table, rows in tables.items()}
        write_tables(frames, folder, run)
        write_json(provenance.facts(PROJECT, params.profile, params), folder / "card.json")
        np.savez_compressed(folder / "samples.npz", **{key: x.numpy() for key, x in draws.items()})
        numbers = tuning.headline(frames["table3"])
        write_json(numbers, PROJECT / "reports" / "metrics" / "mixing.json")
        run.log_metrics(numbers)


if __name__ == "__main__":
    main(mixing, *sys.argv[1:])
