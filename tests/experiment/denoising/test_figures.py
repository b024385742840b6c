"""The figure of points in the plane, on made-up results."""

from hosm.experiment.denoising.figures import plane_figure


def test_plane_has_a_line_for_each_set_of_points_on_the_clean_ones_axes(results, words):
    figure = plane_figure(results.denoising.points, results.denoising.posteriors)
    assert len(figure.axes) == 2 * 5
    assert {ax.get_xlim() for ax in figure.axes[:5]} == {figure.axes[0].get_xlim()}
    assert any("error of C: 6.0 %" in text for text in words(figure))
