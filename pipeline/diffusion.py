"""Stage `diffusion`: few steps with each covariance, and likelihoods by the flow."""

import sys

from hosm.experiment.diffusion.study import study
from hosm.experiment.run import provenance
from hosm.experiment.run.process import PROJECT, main
from hosm.experiment.run.stage import open_stage, write_json, write_tables


def diffusion() -> None:
    """Write data/results/diffusion: steps, seconds and likelihoods on a mixture of Gaussians."""
    folder = PROJECT / "data" / "results" / "diffusion"
    with open_stage("diffusion") as (params, run, _):
        run.log_params(params.diffusion.model_dump())
        frames = study.run_study(params.diffusion)
        write_tables(frames, folder, run)
        made = provenance.facts(PROJECT, params.profile, params)
        about = {"settings": params.diffusion.model_dump()}
        write_json({**made, **about}, folder / "card.json")
        numbers = study.headline(frames["steps"])
        write_json(numbers, PROJECT / "reports" / "metrics" / "diffusion.json")
        run.log_metrics(numbers)


if __name__ == "__main__":
    main(diffusion, *sys.argv[1:])
