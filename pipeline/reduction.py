"""Stage `reduction`: figure 1, training with and without variance reduction."""

import shutil

from hosm.experiment.reduction import study as figure1
from hosm.experiment.run import provenance
from hosm.experiment.run.process import PROJECT, main
from hosm.experiment.run.stage import open_stage, write_json, write_tables


def reduction() -> None:
    """Write data/results/reduction: learning curves, estimates, final errors, where from.

    Runs that are finished lie in runs/reduction until all are, so that a stop costs one of them.
    """
    folder = PROJECT / "data" / "results" / "reduction"
    with open_stage("reduction") as (params, run, _):
        run.log_params(params.reduction.model_dump())
        names = ("curves", "estimates", "numbers")
        finished = PROJECT / "runs" / "reduction"
        frames = dict(zip(names, figure1.study(params.reduction, finished), strict=True))
        write_tables(frames, folder, run)
        write_json(provenance.facts(PROJECT, params.profile, params), folder / "card.json")
        headline = figure1.headline(frames["numbers"])
        write_json(headline, PROJECT / "reports" / "metrics" / "reduction.json")
        run.log_metrics(headline)
        shutil.rmtree(finished)  # what follows, perhaps by other code, trains anew


if __name__ == "__main__":
    main(reduction)
