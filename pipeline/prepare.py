"""Stage `prepare`: draw or load one data set, split it, hash it, write its card."""

import sys

from hosm.experiment import datasets
from hosm.experiment.process import PROJECT, main
from hosm.experiment.stage import open_stage


def prepare(name: str) -> None:
    """Write data/prepared/<name>.

    Args:
        name: a data set of `datasets`.
    """
    with open_stage("prepare", name) as (params, run, _):
        settings = params.prepare
        data = datasets.prepare(
            name,
            train_points=settings.train_points,
            validation_points=settings.validation_points,
            test_points=settings.test_points,
            seed=settings.seed,
            folder=settings.folder or None,
        )
        folder = PROJECT / "data" / "prepared" / name
        datasets.save(data, folder)
        run.log_params(settings.model_dump())
        run.set_tags({"data_hash": data.card["sha256"]})
        run.log_artifact(folder / "card.json")
        print(f"{name}: {data.card['counts']}, sha256 {data.card['sha256'][:12]}")


if __name__ == "__main__":
    main(prepare, *sys.argv[1:])
