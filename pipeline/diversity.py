"""Stage `diversity`: figures 7 and 8, classes that chains of images reach."""

import shutil
import sys
from typing import Any

import numpy as np
import torch

from hosm.experiment.data import datasets
from hosm.experiment.diversity.study import chains, samplers, step_search
from hosm.experiment.diversity.study.classifier import labels_of, load_classifier
from hosm.experiment.diversity.study.summary import headline, summarised
from hosm.experiment.run import provenance
from hosm.experiment.run.process import PROJECT, main
from hosm.experiment.run.stage import open_stage, write_json, write_tables
from hosm.experiment.shared.finished_parts import FinishedParts
from hosm.experiment.shared.stopwatch import devices
from hosm.experiment.train.models import load_model
from hosm.experiment.train.weights import HASH


def diversity(name: str) -> None:
    """Write data/results/diversity/<name>: search, costs, curves, a summary and pictures.

    Blocks of chains that are finished lie below runs/diversity until all are, so that a stop
    costs one of them.

    Args:
        name: one of `images` in params.yaml.
    """
    place, device = PROJECT / "data", devices()[-1]
    folder = place / "results" / "diversity" / name
    with open_stage("diversity", name) as (params, run, _):
        settings = params.diversity
        run.log_params(settings.model_dump())
        data = datasets.load(place / "prepared" / name)
        test = torch.as_tensor(data.test).to(device), labels_of(data, "test").to(device)
        classifier, about = load_classifier(place / "classifiers" / name)
        classifier = classifier.to(device)
        denoiser, card = load_model(place / "models" / name)
        model = denoiser.to(device).at(settings.sigma)
        scores = samplers.DenoiserScores.of(model)
        found = chains.accuracies(*test, classifier, scores, settings.seed)
        cost = samplers.costs(scores, model, test[0][: samplers.BLOCK], settings.repeats)
        tried = step_search.search(scores, test[0], settings)
        chosen = chains.samplers_of(settings) | step_search.largest_of_each(tried, settings)
        starts = chains.starts_of(*test, classifier)
        hashes = [data.card["sha256"], about[HASH], card[HASH]]
        depends = {"hashes": hashes, "settings": settings.model_dump(mode="json")}
        runs = PROJECT / "runs" / "diversity" / name
        finished = FinishedParts(runs, depends)
        curves, arrays = chains.curves(
            chosen, starts, classifier, scores, cost, settings, finished
        )
        arrays |= chains.from_noise(scores, test[0][:1], settings)
        summary = summarised(curves, tried, cost, settings)
        frames = {"curves": curves, "summary": summary, "search": tried, "cost": cost}
        write_tables(frames, folder, run)
        kept: dict[str, Any] = dict(arrays)
        np.savez_compressed(folder / "pictures.npz", **kept)
        made = provenance.facts(PROJECT, params.profile, params)
        facts = {"shape": card["shape"], "settings": settings.model_dump(), "made": made}
        write_json({**facts, "device": device.type, "accuracies": found}, folder / "card.json")
        numbers = headline(summary, found)
        write_json(numbers, PROJECT / "reports" / "metrics" / f"diversity-{name}.json")
        run.log_metrics(numbers)
        shutil.rmtree(runs)  # what follows, perhaps by other code, runs anew


if __name__ == "__main__":
    main(diversity, *sys.argv[1:])
