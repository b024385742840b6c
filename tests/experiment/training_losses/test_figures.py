"""The figure of the losses, on made-up results."""

from hosm.experiment.training_losses.figures import training_figure


def test_training_has_a_column_for_each_model(results):
    figure = training_figure(results.training)
    assert [ax.get_title(loc="left").splitlines()[0] for ax in figure.axes[:3]] == [
        "mnist5k",
        "ring6",
        "two-modes",
    ]
    assert "lowest at step 500" in figure.axes[0].get_title(loc="left")
