"""Stage `classifier`: a classifier of images, for the classes that chains of them reach."""

import sys
import time

import torch

from hosm.experiment.data import datasets
from hosm.experiment.diversity.study import classifier as study
from hosm.experiment.run.process import PROJECT, main
from hosm.experiment.run.stage import open_stage, write_json


def classifier(name: str) -> None:
    """Write data/classifiers/<name>.

    Args:
        name: one of `images` in params.yaml.
    """
    with open_stage("classifier", name) as (params, run, _):
        settings = params.classifier
        run.log_params(settings.model_dump())
        data = datasets.load(PROJECT / "data" / "prepared" / name)
        run.set_tags({"data_hash": data.card["sha256"]})
        begun = time.perf_counter()
        model = study.fit(data, settings)
        numbers = {"seconds": time.perf_counter() - begun}
        for split in ("validation", "test"):
            images, labels = torch.as_tensor(getattr(data, split)), study.labels_of(data, split)
            found = study.accuracy(model, images, labels)
            numbers |= {f"{split}_{key}": value for key, value in found.items()}
            share, error = found["accuracy"], found["standard_error"]
            print(f"{name}: {split} accuracy {share:.2%} ± {error:.2%}", flush=True)
        folder = PROJECT / "data" / "classifiers" / name
        facts = {"data": name, "data_sha256": data.card["sha256"], "measured": numbers}
        study.save_classifier(model, folder, settings=settings.model_dump(), **facts)
        write_json(numbers, PROJECT / "reports" / "metrics" / f"classifier-{name}.json")
        run.log_metrics(numbers)
        run.log_artifact(folder, "classifier")


if __name__ == "__main__":
    main(classifier, *sys.argv[1:])
