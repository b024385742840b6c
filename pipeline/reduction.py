"""Stage `reduction`: figure 1, training with and without variance reduction."""

from hosm.experiment.reduction import study as figure1
from hosm.experiment.run.process import PROJECT, main
from hosm.experiment.run.stage import open_stage, write_json, write_tables


def reduction() -> None:
    """Write data/results/reduction: learning curves, estimates, final errors."""
    folder = PROJECT / "data" / "results" / "reduction"
    with open_stage("reduction") as (params, run, _):
        run.log_params(params.reduction.model_dump())
        names = ("curves", "estimates", "numbers")
        frames = dict(zip(names, figure1.study(params.reduction), strict=True))
        write_tables(frames, folder, run)
        headline = figure1.headline(frames["numbers"])
        write_json(headline, PROJECT / "reports" / "metrics" / "reduction.json")
        run.log_metrics(headline)


if __name__ == "__main__":
    main(reduction)
