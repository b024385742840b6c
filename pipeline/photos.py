"""Stage `photos`: the denoiser of photographs on pictures that it has not seen."""

import shutil
import sys

import numpy as np

from hosm.experiment.photos.study import study
from hosm.experiment.photos.study.held_out import sources
from hosm.experiment.run import provenance
from hosm.experiment.run.process import PROJECT, main
from hosm.experiment.run.stage import open_stage, write_json, write_tables


def photos() -> None:
    """Write data/results/photos: quality, error bars, and pictures to show.

    Parts that are finished lie in runs/photos until all are, so that a stop costs the one at work.
    """
    folder, finished = PROJECT / "data" / "results" / "photos", PROJECT / "runs" / "photos"
    with open_stage("photos") as (params, run, _):
        run.log_params(params.photos.model_dump())
        frames, shown = study.run_study(params.photos, PROJECT, finished)
        write_tables(frames, folder, run)
        np.savez_compressed(folder / "pictures.npz", **shown)  # type: ignore[arg-type]
        names = dict.fromkeys(frames["quality"]["picture"])
        about = {"settings": params.photos.model_dump(), "pictures": sources(names)}
        made = provenance.facts(PROJECT, params.profile, params)
        write_json({**made, **about}, folder / "card.json")
        numbers = study.headline(frames["quality"])
        write_json(numbers, PROJECT / "reports" / "metrics" / "photos.json")
        run.log_metrics(numbers)
        shutil.rmtree(finished)  # what follows, perhaps by other code, runs anew


if __name__ == "__main__":
    main(photos, *sys.argv[1:])
