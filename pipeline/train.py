"""Stage `train`: joint training of s1 and s2 by Ray Train."""

import sys

import pandas as pd

from hosm.experiment.cluster import connection
from hosm.experiment.cluster import train as cluster
from hosm.experiment.data import datasets
from hosm.experiment.data.sources import IMAGES
from hosm.experiment.run.process import PROJECT, main
from hosm.experiment.run.stage import open_stage, storage_path, write_csv, write_json
from hosm.experiment.train import models
from hosm.experiment.train.training_task import TrainingTask


def train(name: str) -> None:
    """Write the model and the training curves.

    The model of images is data/models/<name>, that of a law is data/models/planar/<name>.

    Args:
        name: a data set that has settings under `train` in params.yaml.
    """
    with open_stage("train", name) as (params, run, _):
        spec = params.trained(name)
        data = datasets.load(PROJECT / "data" / "prepared" / name)
        shape, std = data.card["shape"], data.card["std"]
        run.log_params({**spec.model_dump(), **params.cluster.model_dump()})
        run.set_tags({"data_hash": data.card["sha256"]})
        task = TrainingTask.of(data, spec, shape, std)
        with connection.connect(params.cluster):
            address = (run.uri, run.run_id)
            storage = storage_path("train")
            result = cluster.train_on_cluster(task, params.cluster, storage, tracking=address)
        kind = "" if name in IMAGES else "planar"
        folder = PROJECT / "data" / "models" / kind / name
        facts = {"data": name, "data_sha256": data.card["sha256"], "best_step": result.best_step}
        models.save_model(result.weights, spec, shape, std, folder, **facts)
        curves = PROJECT / "data" / "results" / "training" / f"{name}.csv"
        write_csv(pd.DataFrame(result.history), curves)
        numbers = {k: v for k, v in result.metrics.items() if k.startswith("validation")}
        numbers |= {"steps": result.step, "best_step": result.best_step}
        write_json(numbers, PROJECT / "reports" / "metrics" / f"train-{name}.json")
        run.log_metrics(numbers)
        run.log_artifact(folder, "model")
        run.log_artifact(curves)


if __name__ == "__main__":
    main(train, *sys.argv[1:])
