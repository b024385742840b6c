"""Stage `speed`: table 2, the cost of training, and how both grow with the dimension."""

import sys

from hosm.experiment.cost.study import dimension, second_order, training
from hosm.experiment.run.process import PROJECT, main
from hosm.experiment.run.stage import open_stage, write_csv, write_json


def speed() -> None:
    """Write the tables of data/results/speed and the headline ratios."""
    with open_stage("speed") as (params, run, _):
        run.log_params(params.speed.model_dump())
        folder = PROJECT / "data" / "results" / "speed"
        times = second_order.time_second_order_scores(params.speed)
        write_csv(times, folder / "table2.csv")
        write_csv(training.time_training(params.speed), folder / "training.csv")
        growth = dimension.time_dimensions(params.speed)
        write_csv(growth, folder / "growth.csv")
        write_csv(dimension.slopes(growth), folder / "slopes.csv")
        numbers = second_order.headline(times)
        write_json(numbers, PROJECT / "reports" / "metrics" / "speed.json")
        run.log_metrics(numbers)
        run.log_artifact(folder)


if __name__ == "__main__":
    main(speed, *sys.argv[1:])
