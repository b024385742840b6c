"""Entry point: `python -m hosm.experiment.repro [arguments of dvc repro]`."""

import sys

from hosm.experiment.repro.command import reproduce
from hosm.experiment.run.process import PROJECT
from hosm.standard_output import a_reader_may_leave

if __name__ == "__main__":
    with a_reader_may_leave():
        try:
            raise SystemExit(reproduce(PROJECT, sys.argv[1:]))
        except BrokenPipeError:
            raise
        except OSError as error:
            raise SystemExit(f"error: {error}") from error
