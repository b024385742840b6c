"""Run the checks: `python -m hosm.experiment.doctor`."""

import sys

from hosm.experiment.doctor.checklist import doctor
from hosm.experiment.run.process import main
from hosm.standard_output import a_reader_may_leave

with a_reader_may_leave():
    main(doctor, *sys.argv[1:])
