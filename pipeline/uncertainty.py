"""Stage `uncertainty`: posterior variance maps, leading directions, calibration."""

import shutil
import sys

import numpy as np
import torch

from hosm.experiment import datasets, denoising
from hosm.experiment.models import load_model
from hosm.experiment.process import PROJECT, main
from hosm.experiment.stage import open_stage, write_csv, write_json


def uncertainty(name: str) -> None:
    """Write data/results/uncertainty: reliability, numbers and the figures' arrays.

    Args:
        name: a trained image model, which is also the data set.
    """
    folder = PROJECT / "data" / "results" / "uncertainty"
    with open_stage("uncertainty", name) as (params, run, _):
        settings = params.uncertainty
        run.log_params(settings.model_dump())
        whole, card = load_model(PROJECT / "data" / "models" / name)
        model = whole.at(card["settings"]["sigma"])
        data = datasets.load(PROJECT / "data" / "prepared" / name)
        validation, test = torch.as_tensor(data.validation), torch.as_tensor(data.test)
        with torch.no_grad():
            numbers, bins = denoising.calibration(model, validation, test, card["shape"], settings)
            chosen = denoising.one_of_each((data.labels or {})["test"], settings.images)
            arrays = denoising.pictures(model, test[chosen], settings)
        write_csv(bins, folder / "reliability.csv")
        write_json(numbers, folder / "numbers.json")
        np.savez_compressed(folder / "pictures.npz", **arrays)
        shutil.copy(PROJECT / "data" / "models" / name / "card.json", folder / "card.json")
        write_json(numbers, PROJECT / "reports" / "metrics" / "uncertainty.json")
        run.log_metrics(numbers)
        run.log_artifact(folder / "reliability.csv")


if __name__ == "__main__":
    main(uncertainty, *sys.argv[1:])
