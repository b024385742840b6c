"""What the tests of tables, figures and claims share: made-up results, read once."""

import matplotlib as mpl
import pytest

from hosm.experiment.report.results import load_results
from tests.experiment.report.report_inputs import write_inputs


@pytest.fixture(scope="session")
def results(tmp_path_factory):
    return load_results(write_inputs(tmp_path_factory.mktemp("results")))


@pytest.fixture(scope="session")
def words():
    """Return the texts of a figure."""
    return lambda figure: [t.get_text() for t in figure.findobj(mpl.text.Text) if t.get_text()]


@pytest.fixture(scope="session")
def only():
    """Return the one row of a table with these values."""

    def chosen(frame, **values):
        for column, value in values.items():
            frame = frame[frame[column] == value]
        assert len(frame) == 1
        return frame.iloc[0]

    return chosen
