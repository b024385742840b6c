"""Run the checks: `python -m hosm.experiment.doctor`."""

import sys

from hosm.experiment.doctor.checklist import doctor
from hosm.experiment.run.process import main

main(doctor, *sys.argv[1:])
