"""Stage `prepare`: draw or load data sets, split them, hash them, write their cards."""

import sys

from hosm.experiment.data import datasets
from hosm.experiment.data.sources import IMAGES, SPLITS
from hosm.experiment.run.process import PROJECT, main
from hosm.experiment.run.stage import open_stage
from hosm.experiment.settings import PrepareParams


def sizes_of(name: str, settings: PrepareParams) -> dict[str, int]:
    """Return the sizes of the splits: of an image data set all that there are, up to a bound.

    Args:
        name: a data set of `datasets`.
        settings: sizes of drawn data sets, and the bound.
    """
    if name in IMAGES:
        return {split: min(settings.images, IMAGES[name].sizes[split]) for split in SPLITS}
    return {split: getattr(settings, f"{split}_points") for split in SPLITS}


def prepare(name: str, *more: str) -> None:
    """Write data/prepared/<name> of each data set, one after another in one process.

    Args:
        name: a data set of `datasets`.
        more: further ones.
    """
    for each in (name, *more):
        _prepare(each)


def _prepare(name: str) -> None:
    with open_stage("prepare", name) as (params, run, _):
        settings = params.prepare
        sizes = sizes_of(name, settings)
        data = datasets.prepare(
            name,
            seed=settings.seed,
            folder=settings.folder or None,
            **{f"{split}_points": size for split, size in sizes.items()},
        )
        folder = PROJECT / "data" / "prepared" / name
        datasets.save(data, folder)
        run.log_params(settings.model_dump())
        run.set_tags({"data_hash": data.card["sha256"]})
        run.log_artifact(folder / "card.json")
        print(f"{name}: {data.card['counts']}, sha256 {data.card['sha256'][:12]}")


if __name__ == "__main__":
    main(prepare, *sys.argv[1:])
