"""The table of posteriors in the plane, on made-up results."""

from hosm.experiment.denoising.tables import posterior_table


def test_posteriors_in_the_plane_stand_beside_the_exact_ones(results, only):
    row = only(posterior_table(results.denoising.posteriors), Points="moons")
    assert row["Error of C, relative ± s.e."] == "0.0600 ± 0.0020"
    assert row["Coverage of 50 / 80 / 95 %"] == "51.0 / 81.0 / 96.0"
    assert row["Of N with exact moments"] == "49.0 / 79.0 / 94.0"
