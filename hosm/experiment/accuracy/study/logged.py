"""What MLflow holds of each estimate of the sweep, so that its pages compare the estimates.

All methods have one error of one name, ERROR: of s2 itself where there is one, else of the
Hessian that automatic differentiation takes from s1. Other names of metrics come after it in the
alphabet, and settings of the training after those of the cell, since the page of comparison opens
with the first metric and the first three settings that differ.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pandas as pd
from matplotlib.figure import Figure

from hosm.experiment.accuracy.study.trial import BEGAN, DIVERGED, ENDED
from hosm.experiment.run.tracking import RunLogger, Tracker
from hosm.experiment.settings import SweepParams
from hosm.experiment.shared.rows import Row

__all__ = [
    "ERROR",
    "Estimate",
    "describe",
    "learning_curve",
    "least_errors",
    "log_estimate",
    "measured",
]

ERROR = "hessian_error"
MEASURED = {  # column of the sweep's table -> metric
    "shrunk_error": "shrunk_hessian_error",
    "share": "shrunk_share",
    "autodiff_error": "s1_hessian_error",
    "s1_error": "s1_error",
    "hutchinson_error": "hutchinson_error",
    "validation_dsm": "validation_dsm",
    "validation_second": "validation_second",
    "steps": "steps",
    "best_step": "steps_to_best",
    "seconds": "seconds",
}
HOW_TO_COMPARE = """\
Each run below this one is one estimate of second-order scores: a data set, a noise scale \
`sigma`, a `target` of training, a `rank` and a `seed`. What Ray counts as one trial may \
give several: a first-order score, and on it a second-order score for each target and rank.

**To compare them:** open [the list of estimates](#/experiments/{experiment_id}/runs?\
viewStateShareKey=estimates), which is also the view *Estimates* of the experiment's runs; \
search there for one data set, target and sigma; tick what is left, press *Compare*, and look at \
the *Parallel Coordinates Plot* by the parameter `rank` and the metric `hessian_error`. Each line \
is an estimate; lines that end low are good.

`hessian_error` is the squared error of the estimated Hessian of the log-density, summed over its \
entries (over the diagonal for diagonal models), as a mean over test points; less is better. It \
means the same for every method. Where `target` is `dsm`, `dsm-vr` or `plain`, the Hessian comes \
from differentiating the first-order score: rank 0 stands there for no rank. Otherwise it is the \
learned second-order score, and `s1_hessian_error` tells what differentiating its first-order \
score would have given.

Each estimate holds the picture of its learning curve and its numbers as a table under \
*Artifacts*, and lasted from the start to the end of its training. An estimate whose training \
diverged has the status FAILED; a sweep that was interrupted has KILLED, and its tag `ended` says \
why. Estimates of several sweeps stand in one list; their tag `sweep` says when theirs began. To \
see those of this one alone, search for ``tags.`mlflow.parentRunId` = "{run_id}"``.
"""
LEAST = """
**The least `hessian_error` of this sweep, with the target that has it** (as a mean over seeds). \
Other sweeps are not in it; `python examples/compare_runs.py` prints the estimates of all together.

"""
CURVE = "hessian_error_on_the_way"
VIEW = "Estimates"
COLUMNS = (
    *("metrics.hessian_error", "params.dataset", "params.rank", "params.sigma", "params.target"),
    *("tags.sweep", "tags.profile"),
)


def least_errors(trials: pd.DataFrame) -> str:
    """Return a Markdown table of the least error by data set, regime and rank, and by sigma.

    Args:
        trials: the sweep's table, a row for each estimate that is finished.
    """
    rows = (dict(zip(trials.columns, row, strict=True)) for row in trials.to_numpy())
    errors = trials.assign(error=[measured(row)[ERROR] for row in rows])
    cell = ["dataset", "regime", "rank", "sigma"]
    means = errors.groupby([*cell, "target"])["error"].mean().reset_index("target")
    least = means.sort_values("error").groupby(cell).first()
    words = least["error"].map("{:.4g}".format) + " (" + least["target"] + ")"
    table = words.unstack("sigma", fill_value="").rename(columns="sigma {:g}".format)
    return str(table.reset_index().to_markdown(index=False, disable_numparse=True))


def describe(tracker: Tracker, run: RunLogger, trials: pd.DataFrame | None = None) -> None:
    """Say in the pages of a sweep's run how to compare, and save the view of its estimates.

    Args:
        tracker: of the experiment.
        run: of the sweep.
        trials: its table once it is finished, whose least errors are then shown.
    """
    ids = {"run_id": run.run_id, "experiment_id": tracker.experiment_id}
    least = "" if trials is None or trials.empty else LEAST + least_errors(trials)
    run.set_tags({"mlflow.note.content": HOW_TO_COMPARE.format(**ids) + least})
    tracker.save_view(VIEW, "tags.stage = 'trial'", COLUMNS)


class Estimate(NamedTuple):
    """A cell of table 1, its row of the sweep's table, how it ended, and its learning curve.

    The row is empty if the trial crashed; `curve` has a row for each validation.
    """

    cell: Row
    row: Row
    status: str
    curve: list[Row]

    @property
    def name(self) -> str:
        """The values of the cell."""
        return "-".join(str(value) for value in self.cell.values())


def measured(row: Row) -> dict[str, float]:
    """Return the metrics of an estimate, ERROR first.

    Args:
        row: of the sweep's table; one that diverged has no errors.
    """
    own = row.get("s2_error")
    errors = {ERROR: row.get("autodiff_error") if pd.isna(own) else own}
    found = errors | {name: row.get(column) for column, name in MEASURED.items()}
    return {name: value for name, value in found.items() if not pd.isna(value)}


def settings(sweep: SweepParams, cell: Row) -> dict[str, Any]:
    """Return the settings that estimates are compared by: the cell and those of its training."""
    spec = sweep.model(cell)
    own = 0 if spec.first_order else spec.backbone.second_width  # of a head, if it has one
    training = {"learning_rate": spec.learning_rate, "batch_size": spec.batch_size}
    training |= {"max_steps": spec.max_steps, "width": own or spec.backbone.width}
    return {**cell, "training": training}


def learning_curve(estimate: Estimate) -> Figure:
    """Draw the error of an estimate against the steps of its training."""
    figure = Figure(figsize=(5, 3.2), layout="constrained")
    ax = figure.subplots()
    steps, errors = ([point[key] for point in estimate.curve] for key in ("step", "error"))
    ax.plot(steps, errors, marker="o", markersize=3)
    cell = estimate.cell
    title = f"{cell['dataset']}, {cell['regime']}, σ = {cell['sigma']:g}, {cell['target']}"
    ax.set_title(f"{title}, r = {cell['rank']}, seed {cell['seed']}", fontsize=9)
    ax.set(xlabel="step of training", ylabel="squared error of the Hessian")
    if errors and min(errors) > 0:
        ax.set_yscale("log")
    ax.grid(True, linewidth=0.4)
    return figure


def _note(estimate: Estimate) -> str:
    cell = estimate.cell
    alone = "s2_error" not in estimate.row
    what = "The Hessian from differentiating s1" if alone else "The learned second-order score"
    return (
        f"{what} of `{cell['dataset']}` at sigma {cell['sigma']:g}, target `{cell['target']}`, "
        f"rank {cell['rank']}, seed {cell['seed']}. Its training is drawn in `learning_curve.png` "
        "under *Artifacts*; the run above this one says how to compare."
    )


def _log_more(run: RunLogger, estimate: Estimate) -> None:
    """Log the learning curve as a metric, a table and a picture, and the row as a table."""
    if estimate.row:
        run.log_table([estimate.row], "estimate.json")
    for point in estimate.curve:
        run.log_metrics({CURVE: point["error"]}, point["step"])
    if estimate.curve:
        run.log_table(estimate.curve, "learning_curve.json")
        run.log_figure(learning_curve(estimate), "learning_curve.png")


def log_estimate(
    tracker: Tracker,
    parent: RunLogger,
    sweep: SweepParams,
    key: str,
    tags: Mapping[str, str],
    estimate: Estimate,
) -> None:
    """Log an estimate as a run below that of its sweep, from the start to the end of its training.

    Args:
        tracker: where to.
        parent: the sweep's run.
        sweep: its settings.
        key: of the sweep; a sweep that is started again shows each estimate once.
        tags: of every run, such as the commit.
        estimate: what is logged.
    """
    row, own = estimate.row, {"stage": "trial", "mlflow.note.content": _note(estimate)}
    if DIVERGED in row:
        own |= {"diverged": row[DIVERGED], "ended": f"failed: {row[DIVERGED]}"}
    tracker.finished_child(
        parent,
        estimate.name,
        settings(sweep, estimate.cell),
        measured(row),
        {**tags, **own},
        estimate.status,
        f"{key}/{estimate.name}",
        (row[BEGAN], row[ENDED]) if BEGAN in row else None,
        lambda run: _log_more(run, estimate),
    )
