"""Stage `inverse`: posterior samples of linear inverse problems, beside other methods."""

import sys

import pandas as pd

from hosm.experiment.inverse.study import study
from hosm.experiment.run import provenance
from hosm.experiment.run.process import PROJECT, main
from hosm.experiment.run.stage import open_stage, write_json, write_tables


def inverse() -> None:
    """Write data/results/inverse: a row for each task, model and method."""
    folder = PROJECT / "data" / "results" / "inverse"
    with open_stage("inverse") as (params, run, _):
        run.log_params(params.inverse.model_dump())
        frame = pd.DataFrame(study.run_study(params.inverse))
        write_tables({"methods": frame}, folder, run)
        made = provenance.facts(PROJECT, params.profile, params)
        write_json({**made, "settings": params.inverse.model_dump()}, folder / "card.json")
        numbers = study.headline(frame)
        write_json(numbers, PROJECT / "reports" / "metrics" / "inverse.json")
        run.log_metrics(numbers)


if __name__ == "__main__":
    main(inverse, *sys.argv[1:])
