"""Stage `uncertainty`: figures 3 and 4, variance maps, directions, calibration."""

import sys
from typing import Any

import numpy as np
import torch

from hosm.experiment.data import datasets
from hosm.experiment.run import provenance
from hosm.experiment.run.process import PROJECT, main
from hosm.experiment.run.stage import open_stage, write_json, write_tables
from hosm.experiment.train.models import folders, load_model
from hosm.experiment.uncertainty.study import calibration, directions


def uncertainty(name: str) -> None:
    """Write data/results/uncertainty/<name>: numbers, reliability, directions, pictures.

    Args:
        name: one of `images` in params.yaml.
    """
    data_folder = PROJECT / "data"
    folder = data_folder / "results" / "uncertainty" / name
    with open_stage("uncertainty", name) as (params, run, _):
        settings, sigmas = params.uncertainty, params.uncertainty.sigmas
        run.log_params(settings.model_dump())
        data = datasets.load(data_folder / "prepared" / name)
        validation, test = torch.as_tensor(data.validation), torch.as_tensor(data.test)
        whole, card = load_model(data_folder / "models" / name)
        models = {("range", sigma): whole.at(sigma) for sigma in sigmas}
        for place in folders(data_folder / "scales" / name):
            model, about = load_model(place)
            own = about["settings"]["sigma"]
            models[about["kind"], own] = model.at(own)
        shape, chosen = data.card["shape"], calibration.one_of_each(data, settings.shown)
        rows, bins = calibration.study(models, validation, test, shape, settings)
        middle = whole.at(settings.direction_sigma)
        ways = directions.compare(middle, validation, test, settings)
        arrays = directions.pictures(middle, test[chosen], settings.seed)
        for sigma in sigmas:
            maps = calibration.variance_maps(whole.at(sigma), test[chosen], settings)
            arrays |= {f"{key}|{sigma:g}": value for key, value in maps.items()}
        tables = {"numbers": rows, "reliability": bins, "directions": ways}
        write_tables(tables, folder, run)
        kept: dict[str, Any] = {key: value.numpy() for key, value in arrays.items()}
        np.savez_compressed(folder / "pictures.npz", **kept)
        made = provenance.facts(PROJECT, params.profile, params)
        write_json({**card, "made": made}, folder / "card.json")
        numbers = calibration.headline(rows)
        write_json(numbers, PROJECT / "reports" / "metrics" / f"uncertainty-{name}.json")
        run.log_metrics(numbers)


if __name__ == "__main__":
    main(uncertainty, *sys.argv[1:])
