"""Stage `peers`: ESS of BlackJAX's NUTS and MALA on the exact laws, beside table 3."""

import pandas as pd

from hosm.experiment.mixing.study import peers as study
from hosm.experiment.run.process import PROJECT, main
from hosm.experiment.run.stage import open_stage, write_json, write_tables


def peers() -> None:
    """Write data/results/peers: a row for each law and method, and the search of step sizes."""
    folder = PROJECT / "data" / "results" / "peers"
    with open_stage("peers") as (params, run, _):
        run.log_params(params.mixing.model_dump())
        rows, tuning = study.study(params.laws, params.mixing)
        tables = {"peers": pd.DataFrame(rows), "tuning": pd.DataFrame(tuning)}
        write_tables(tables, folder, run)
        numbers = study.headline(tables["peers"])
        write_json(numbers, PROJECT / "reports" / "metrics" / "peers.json")
        run.log_metrics(numbers)


if __name__ == "__main__":
    main(peers)
