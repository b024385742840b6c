"""What a job prints, by a client that passes on a part of it and then stops."""

import pytest
from ray.job_submission import JobStatus

from hosm.experiment.cluster.submit import _ended

WHOLE = "step 1\nstep 2\nerror: it diverged\n"


class Client:
    """Passes on so many characters of what the job printed, and perhaps breaks off."""

    def __init__(self, passed_on, breaks=False):
        self.passed_on, self.breaks = passed_on, breaks

    async def tail_job_logs(self, job):
        yield WHOLE[: self.passed_on]
        if self.breaks:
            raise RuntimeError("the connection was closed")

    def get_job_status(self, job):
        return JobStatus.FAILED

    def get_job_logs(self, job):
        return WHOLE


@pytest.mark.parametrize("passed_on", [0, 7, len(WHOLE)])
@pytest.mark.parametrize("breaks", [False, True])
def test_all_that_a_job_printed_is_shown_once(capsys, passed_on, breaks):
    assert _ended(Client(passed_on, breaks), "job") == JobStatus.FAILED
    shown = capsys.readouterr()
    assert shown.out == WHOLE
    assert ("the connection was closed" in shown.err) == breaks
