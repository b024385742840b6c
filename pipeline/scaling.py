"""Stage `scaling`: Ray Train against the plain loop, and several workers against one."""

import sys

from hosm.experiment.cost.study import communication, workers
from hosm.experiment.run.process import PROJECT, main
from hosm.experiment.run.stage import open_stage, write_csv


def scale_out() -> None:
    """Write data/results/scaling: steps by workers, all-reduces, the communication plan."""
    with open_stage("scaling") as (params, run, _):
        run.log_params(params.scaling.model_dump())
        steps, reduced = workers.time_workers(params.scaling, params.cluster)
        folder = PROJECT / "data" / "results" / "scaling"
        write_csv(steps, folder / "steps.csv")
        write_csv(reduced, folder / "all-reduce.csv")
        write_csv(communication.communication_plan(reduced), folder / "plan.csv")
        run.log_artifact(folder)


if __name__ == "__main__":
    main(scale_out, *sys.argv[1:])
