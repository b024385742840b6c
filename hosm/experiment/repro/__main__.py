"""Entry point: `python -m hosm.experiment.repro [arguments of dvc repro]`."""

import sys

from hosm.experiment.repro.command import reproduce
from hosm.experiment.run.process import PROJECT

if __name__ == "__main__":
    try:
        raise SystemExit(reproduce(PROJECT, sys.argv[1:]))
    except OSError as error:
        raise SystemExit(f"error: {error}") from error
