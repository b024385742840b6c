"""Results are checked on reading."""

import pandas as pd
import pytest

from hosm.experiment.report.results import load_results
from tests.experiment.report import report_inputs
from tests.experiment.report.report_inputs import write_inputs


@pytest.mark.parametrize(
    ("file", "column"),
    [("mixing/table3.csv", "kolmogorov"), ("uncertainty/mnist5k/reliability.csv", "observed")],
)
def test_a_missing_column_is_named(tmp_path, file, column):
    path = write_inputs(tmp_path) / "data" / "results" / file
    pd.read_csv(path).drop(columns=column).to_csv(path, index=False)
    with pytest.raises(ValueError, match=rf"{path.name} lacks {column}; it has"):
        load_results(tmp_path)


def test_missing_files_entries_and_rows_are_named(tmp_path):
    folder = write_inputs(tmp_path) / "data" / "results"
    (folder / "uncertainty" / "mnist5k" / "card.json").write_text("{}")
    with pytest.raises(ValueError, match="card.json lacks shape"):
        load_results(tmp_path)
    (folder / "speed" / "table2.csv").unlink()
    with pytest.raises(FileNotFoundError, match="table2.csv does not exist; run the stage"):
        load_results(tmp_path)
    report_inputs.speed().iloc[:0].to_csv(folder / "speed" / "table2.csv", index=False)
    with pytest.raises(ValueError, match="table2.csv holds no rows"):
        load_results(tmp_path)
