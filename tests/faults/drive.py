"""The driver of a run that is struck: trains in a folder, and writes what is learned there."""

import json
import os
import sys
from pathlib import Path

import numpy as np

from hosm.experiment.cluster import train as cluster
from hosm.experiment.cluster.connection import connect
from hosm.experiment.run.process import main
from tests.faults.injected import settings, task


def drive(folder, faults, workers, failures, fewest):
    """Train in a folder; the weights go to weights.npz, the losses to history.json."""
    log = f"{folder}/steps.log"
    struck = tuple((int(step), kind) for step, kind in json.loads(faults))
    params = settings(int(workers), int(failures), int(fewest))
    with connect(params):
        run = task(struck, log, os.getpid())
        result = cluster.train_on_cluster(run, params, f"{folder}/runs")
    weights = {name: value.numpy() for name, value in result.weights.items()}
    np.savez(f"{folder}/weights.npz", **weights)
    Path(folder, "history.json").write_text(json.dumps(result.history))


if __name__ == "__main__":
    main(drive, *sys.argv[1:])
