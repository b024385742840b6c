"""Stage `report`: tables, figures, the page, and the README's results."""

import sys

from hosm.experiment.report import figures, headline, page, tables
from hosm.experiment.report.results import load_results
from hosm.experiment.run.process import PROJECT, cpu_count, main
from hosm.experiment.run.stage import open_stage
from hosm.io import write_whole

DRAWING = 2  # processes that draw, at most: the others of the run have ended
BEGIN, END = "<!-- results:begin -->", "<!-- results:end -->"


def report() -> None:
    """Write the tables, the figures and the two pages of reports, and the README's table."""
    with open_stage("report") as (params, run, _):
        results = load_results(PROJECT)
        reports = PROJECT / "reports"
        tables.write_all(results, reports / "tables")
        pictures = figures.write_all(results, reports / "figures", min(DRAWING, cpu_count()))
        facts = page.facts(PROJECT, params.profile, params)
        page.write(results, pictures, facts, reports)
        readme, block = PROJECT / "README.md", headline.readme_block(results, facts)
        text = headline.replace_between_markers(
            readme.read_text(encoding="utf-8"), BEGIN, END, block
        )
        write_whole(text.encode(), readme)
        run.log_artifact(reports / "tables", "tables")
        run.log_artifact(reports / "figures", "figures")
        for name in ("index.html", "appendix.html"):
            run.log_artifact(reports / name)


if __name__ == "__main__":
    main(report, *sys.argv[1:])
