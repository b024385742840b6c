"""Entry point: `python -m hosm.experiment.repro [arguments of dvc repro]`.

`--keep-as-reference` alone runs nothing: the seconds of the last run, if it was whole, become
those that other machines are told to expect.
"""

import sys

from hosm.experiment.repro.command import reproduce
from hosm.experiment.repro.expected import keep_as_reference
from hosm.experiment.run.process import PROJECT
from hosm.standard_output import a_reader_may_leave

if __name__ == "__main__":
    with a_reader_may_leave():
        try:
            if sys.argv[1:] == ["--keep-as-reference"]:
                print(f"{keep_as_reference(PROJECT) / 60:.1f} minutes kept", flush=True)
                raise SystemExit(0)
            raise SystemExit(reproduce(PROJECT, sys.argv[1:]))
        except BrokenPipeError:
            raise
        except (OSError, ValueError) as error:
            raise SystemExit(f"error: {error}") from error
