"""Stage `scales`: models of one noise scale each, which the model of the range is judged by."""

import sys

from hosm.experiment.cluster import connection
from hosm.experiment.cluster import train as cluster
from hosm.experiment.data import datasets
from hosm.experiment.run.process import PROJECT, main
from hosm.experiment.run.stage import open_stage, storage_path
from hosm.experiment.run.tags import standard_tags
from hosm.experiment.train import models
from hosm.experiment.train.training_task import TrainingTask


def scales(name: str) -> None:
    """Write data/scales/<name>: a folder for each model.

    Args:
        name: one of `images` in params.yaml, which is also a section of `train`.
    """
    with open_stage("scales", name) as (params, run, tracker):
        data = datasets.load(PROJECT / "data" / "prepared" / name)
        shape, std = data.card["shape"], data.card["std"]
        run.log_params(params.scales.model_dump())
        run.set_tags({"data_hash": data.card["sha256"]})
        compared = len(params.uncertainty.sigmas)
        specs = params.scales.models(params.trained(name), compared)
        with connection.connect(params.cluster):
            for (label, kind), spec in specs.items():
                print(f"{name}, {label}", flush=True)
                task = TrainingTask.of(data, spec, shape, std)
                result = cluster.train_on_cluster(task, params.cluster, storage_path("scales"))
                folder = PROJECT / "data" / "scales" / name / label
                facts = {"data": name, "data_sha256": data.card["sha256"]}
                facts |= {"best_step": result.best_step, "kind": kind}
                models.save_model(result.weights, spec, shape, std, folder, **facts)
                numbers = {k: v for k, v in result.metrics.items() if k.startswith("validation")}
                key = f"{run.run_id}/{label}"
                tags = standard_tags(PROJECT, params.profile, None) | {"stage": "model"}
                settings = {"model": label, **spec.model_dump()}
                tracker.finished_child(run, label, settings, numbers, tags, "FINISHED", key)


if __name__ == "__main__":
    main(scales, *sys.argv[1:])
