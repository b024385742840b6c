"""Stage `speed`: table 2, time of s2 against automatic differentiation."""

import sys

from hosm.experiment import timing
from hosm.experiment.process import PROJECT, main
from hosm.experiment.stage import open_stage, write_csv, write_json


def speed() -> None:
    """Write data/results/speed/table2.csv and the headline ratios."""
    with open_stage("speed") as (params, run, _):
        run.log_params(params.speed.model_dump())
        times = timing.time_second_order_scores(params.speed)
        path = PROJECT / "data" / "results" / "speed" / "table2.csv"
        write_csv(times, path)
        numbers = timing.headline(times)
        write_json(numbers, PROJECT / "reports" / "metrics" / "speed.json")
        run.log_metrics(numbers)
        run.log_artifact(path)


if __name__ == "__main__":
    main(speed, *sys.argv[1:])
