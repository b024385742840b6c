"""The tables of denoisers, on made-up results."""

from hosm.experiment.uncertainty import tables


def test_calibration_names_units_and_the_model_of_the_range_alone(results):
    found = results.denoisers["mnist5k"]
    table = tables.calibration_table(found.numbers)
    assert list(table["σ"]) == ["0.3", "0.5"]
    assert table["Variance at edges / elsewhere (pixel²)"][0] == "0.0310 / 0.0024"
    bins = tables.reliability_table(found.reliability)
    assert len(bins) == 10
    assert set(bins["Error / scaled, σ = 0.5"]) == {"0.880×"}  # 1.1 / 1.25


def test_likelihoods_are_listed_by_scale_and_model(results, only):
    table = tables.likelihood_table(results.denoisers["mnist5k"].numbers)
    assert list(table["σ"]) == ["0.3", *(["0.5"] * 4)]
    free = only(table, Model="one σ, jacobian, no psd")
    assert (free["C"], free["Clipped share"]) == ("-1,300 (clip floor)", "7.0%")
    assert "clip" not in only(table, Model="one σ, equal steps")["C"]  # nothing was clipped


def test_directions_have_shares_and_a_time_for_each_image(results, only):
    table = tables.direction_table(results.denoisers["mnist5k"].directions)
    ours = only(table, **{"Directions by": "s2"})
    assert (ours["k = 10"], ours["Time per image (ms)"]) == ("56.0%", "2.50")
    assert only(table, **{"Directions by": "PCA of residuals"})["Time per image (ms)"] == "–"
