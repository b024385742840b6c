"""What a job prints, by a client that passes on a part of it and then stops."""

import pytest
from ray.job_submission import JobStatus

from hosm.experiment.cluster.submit import _ended

WHOLE = "step 1\nstep 2\nerror: it diverged\n"


class Client:
    """Passes on so many characters of what the job printed, and perhaps breaks off."""

    def __init__(self, passed_on, breaks=False, forgets=False):
        self.passed_on, self.breaks, self.forgets = passed_on, breaks, forgets

    async def tail_job_logs(self, job):
        yield WHOLE[: self.passed_on]
        if self.breaks:
            raise RuntimeError("the connection was closed")

    def get_job_status(self, job):
        return JobStatus.FAILED

    def get_job_logs(self, job):
        if self.forgets:
            raise RuntimeError("no agent has the file")
        return WHOLE


@pytest.mark.parametrize("passed_on", [0, 7, len(WHOLE)])
@pytest.mark.parametrize("breaks", [False, True])
def test_all_that_a_job_printed_is_shown_once(capsys, passed_on, breaks):
    assert _ended(Client(passed_on, breaks), "job") == JobStatus.FAILED
    shown = capsys.readouterr()
    assert shown.out == WHOLE
    assert ("the connection was closed" in shown.err) == breaks


def test_output_that_is_gone_does_not_change_how_the_job_ended(capsys):
    assert _ended(Client(7, forgets=True), "job") == JobStatus.FAILED
    shown = capsys.readouterr()
    assert shown.out == WHOLE[:7]
    assert shown.err == "the rest of the job's output is lost: no agent has the file\n"
