"""All tables are written, in both formats."""

from hosm.experiment.report import tables


def test_tables_are_written_as_csv_without_marks_and_as_markdown(results, tmp_path):
    tables.write_all(results, tmp_path / "tables")
    names = {path.stem for path in (tmp_path / "tables").glob("*.csv")}
    assert names == set(tables.display_tables(results))
    assert names == {path.stem for path in (tmp_path / "tables").glob("*.md")}
    csv = (tmp_path / "tables" / "table1-accuracy.csv").read_text()
    markdown = (tmp_path / "tables" / "table1-accuracy.md").read_text()
    assert "2.100 ± 0.031" in csv and "**" not in csv
    assert "**2.100 ± 0.031**" in markdown
    assert all(line.startswith("|") for line in markdown.splitlines())
    timed = (tmp_path / "tables" / "cost-losses.md").read_text()
    assert timed.endswith("|\n\nWhat other processes did while this was timed is unknown.\n")
