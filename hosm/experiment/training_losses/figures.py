"""The losses of each model against optimiser steps."""

import pandas as pd
from matplotlib.figure import Figure

from hosm.experiment.presenting.style import BLUE, ORANGE, Drawings, grid, key, legend, styled
from hosm.experiment.shared.rows import records

__all__ = ["training_drawings", "training_figure"]

MODELS_ACROSS = 5
LOSSES = {"dsm": "first-order loss (DSM)", "second": "second-order loss"}


@styled
def training_figure(training: dict[str, pd.DataFrame]) -> Figure:
    """Draw the losses of each model against optimiser steps.

    Args:
        training: model -> its losses.
    """
    columns = min(len(training), MODELS_ACROSS)
    bands = -(-len(training) // columns)
    figure, axes = grid(bands * len(LOSSES), columns, 4.4 * bands)
    for place in range(len(training), bands * columns):  # beyond the last model
        for line in axes[-len(LOSSES) :]:
            line[place % columns].set_visible(False)
    for place, (model, frame) in enumerate(training.items()):
        band, column = divmod(place, columns)
        own = [line[column] for line in axes[band * len(LOSSES) :][: len(LOSSES)]]
        for ax, (loss, label) in zip(own, LOSSES.items(), strict=True):
            ax.plot(frame["step"], frame[f"train_{loss}"], color=BLUE, marker=".")
            ax.plot(frame["step"], frame[f"validation_{loss}"], "--", color=ORANGE, marker=".")
            ax.set_ylabel("" if column else label)
        best = min(records(frame), key=lambda row: row["validation_dsm"])["step"]
        own[0].set_title(f"{model}\nlowest at step {best:,}")
        own[-1].set_xlabel("optimiser steps")
    ours = key(".", BLUE, "training, mean since the point before", linestyle="-")
    legend(figure, [ours, key(".", ORANGE, "validation, averaged weights", linestyle="--")])
    return figure


def training_drawings(training: dict[str, pd.DataFrame]) -> Drawings:
    """Return what draws the figure of the losses, by its name."""
    return {"training": lambda: training_figure(training)}
