"""The table and the claims of local dimension, on made-up numbers."""

from dataclasses import replace

import pandas as pd
import pytest

from hosm.experiment.dimension.claims import dimension_claims
from hosm.experiment.dimension.figures import dimension_drawings, errors_figure
from hosm.experiment.dimension.results import EVERYWHERE, Dimension, load_dimension
from hosm.experiment.dimension.tables import dimension_tables

ERRORS = {"hosm": (0.5, 0.6, 0.7, 0.5), "ESS": (1.0, 1.2, 1.1, 0.4), "MLE": (3.0, 3.1, 2.9, 3.3)}


def found():
    """Four surfaces, the first three of which ours is best on, and one method of one dimension."""
    methods = {**ERRORS, EVERYWHERE: (0.0, 0.0, 0.0, 0.0)}
    rows = [
        {"surface": f"M{k}", "D": 9, "n": 100, "seed": 1, "method": method, "d": 2.0 + k}
        | {"error": errors[k], "seconds": 5.0 if method == "ESS" else 0.1}
        for k in range(4)
        for method, errors in methods.items()
    ]
    summary = [
        {"n": 100, "method": name, "error": sum(errors) / 4, "relative": 0.1 + sum(errors)}
        | {"median_relative": sum(errors), "seconds": 0.4}
        for name, errors in methods.items()
    ]
    return Dimension(pd.DataFrame(rows), pd.DataFrame(summary))


def judged(study):
    return {claim.name: claim for claim in dimension_claims(study)}


def changed(of, **values):
    surfaces = found().surfaces.copy()
    for name, value in values.items():
        surfaces.loc[surfaces.eval(of), name] = value
    return replace(found(), surfaces=surfaces)


def test_all_hold_where_ours_errs_least():
    claims = judged(found())
    assert {claim.verdict for claim in claims.values()} == {"holds"} and len(claims) == 4
    assert "ours 0.57; the best of the others, ESS" in claims["dimension-error"].evidence
    assert claims["dimension-most-surfaces"].evidence.startswith("surfaces on which")
    assert not any(claim.paper for claim in claims.values())


@pytest.mark.parametrize(
    ("name", "of", "values"),
    [
        ("dimension-error", "method == 'MLE'", {"error": 0.2}),
        ("dimension-relative-error", "method == 'MLE'", {"error": 0.2}),
        ("dimension-most-surfaces", "method == 'ESS' and surface != 'M0'", {"error": 0.2}),
        ("dimension-seconds", "method == 'hosm'", {"seconds": 6.0}),
    ],
)
def test_each_fails_where_ours_is_worse(name, of, values):
    assert judged(changed(of, **values))[name].verdict == "does not hold"


def test_bars_are_as_long_as_the_errors_and_the_least_comes_first():
    ax = errors_figure(found().summary).axes[0]
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == [*ERRORS]  # which leaves out the one that gives all points one dimension
    lengths = [sum(errors) / 4 for errors in ERRORS.values()]
    assert [bar.get_width() for bar in ax.patches] == pytest.approx(lengths)
    assert dimension_drawings(None) == {} and [*dimension_drawings(found())] == ["dimension"]


def test_a_difference_within_that_of_surfaces_decides_nothing():
    study = changed("method == 'ESS' and surface != 'M0'", error=0.55)
    assert judged(study)["dimension-error"].verdict == "undecided"


def test_the_least_errors_are_marked_and_the_file_is_read(tmp_path):
    table = dimension_tables(found())["dimension"]
    assert list(table["Estimator"]) == [*ERRORS, EVERYWHERE]
    assert table["Mean absolute error"][3] == "**0**" and table["Points"][0] == "100"
    assert load_dimension(tmp_path) is None and dimension_tables(None) == {}
    assert not list(dimension_claims(None))
    folder = tmp_path / "dimension"
    folder.mkdir()
    found().surfaces.to_csv(folder / "surfaces.csv", index=False)
    found().summary.to_csv(folder / "summary.csv", index=False)
    read = load_dimension(tmp_path)
    pd.testing.assert_frame_equal(read.surfaces, found().surfaces)
