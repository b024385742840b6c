"""The headline numbers of a run, paper beside ours, in Markdown for the README."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from hosm.experiment.cost import tables as cost_tables
from hosm.experiment.cost.study.ratios import speed_ratios
from hosm.experiment.mixing.comparisons import SAMPLERS, comparisons
from hosm.experiment.mixing.results import Sampling
from hosm.experiment.presenting import number_formats as cells
from hosm.experiment.presenting.longer_runs import LONGER
from hosm.experiment.report.results import Results
from hosm.experiment.shared.rows import BASELINE, Row, groups, records

__all__ = ["headline", "headline_table", "readme_block", "replace_between_markers"]

OVER = "Time over DSM"
Line = tuple[str, str, str, str]  # what was measured, by what, the paper's number, ours

COLUMNS = ("Measured", "By", "Paper", "Ours ± s.e.")

PAPER_SIGMA = 0.05  # the middle one of table 1
PAPER_RANK = 20  # stands in both columns of table 2, and needs no more than D = 100
SHOWN_SIGMA = 0.5  # of the likelihoods
SHOWN_TARGETS = ("two-modes", "ring6", "ring8")  # of the samplers
PAPER_OBJECTIVE = "s2, moment"


def _cells(accuracy: pd.DataFrame) -> Iterator[tuple[str, list[Row]]]:
    """Yield one cell of table 1 for each data set: fresh draws and the middle sigma, if there."""
    for dataset, group in groups(accuracy, "dataset"):
        rows = records(group)
        regimes = [row["regime"] for row in rows]
        regime = "streaming" if "streaming" in regimes else regimes[0]
        rows = [row for row in rows if row["regime"] == regime]
        sigma = min((row["sigma"] for row in rows), key=lambda value: abs(value - PAPER_SIGMA))
        yield f"{dataset}, σ = {sigma:g}", [row for row in rows if row["sigma"] == sigma]


def _reference(cell: list[Row], rank: float) -> str:
    """Return the error to compare with: the floor at a rank, else the constant predictor."""
    for row in cell:
        if row["method"].startswith("floor") and row["rank"] == rank:
            return f"floor {cells.number(row['mean'])}"
    constant = [row["mean"] for row in cell if row["method"].startswith("constant")]
    return f"constant {cells.number(constant[0])}" if constant else ""


def _error_line(where: str, cell: list[Row], row: Row, note: str = "") -> Line:
    rank = f", r = {row['rank']:.0f}" if row["rank"] > 0 else ""
    beside = _reference(cell, row["rank"]) if row["method"].startswith("s2") else ""
    notes = "; ".join(filter(None, [note, beside]))
    method = f"{row['method']}{rank}" + (f" ({notes})" if notes else "")
    ours = cells.plus_minus(row["mean"], row["standard_error"])
    paper = cells.paper_value(row["paper"], row["paper_deviation"])
    return f"squared error of the Hessian, {where}", method, paper, ours


def _accuracy_lines(accuracy: pd.DataFrame) -> Iterator[Line]:
    """Yield the baseline, the paper's objective and the best objective of each data set."""
    for where, cell in _cells(accuracy):
        second = sorted(
            (row for row in cell if row["method"].startswith("s2")), key=lambda row: row["mean"]
        )
        published = [row for row in second if row["method"] == PAPER_OBJECTIVE]
        for row in cell:
            if row["method"] == BASELINE:
                yield _error_line(where, cell, row)
        for row in published[:1]:
            yield _error_line(where, cell, row, "the paper's objective")
        for row in second[:1]:
            if row["method"] != PAPER_OBJECTIVE:
                yield _error_line(where, cell, row, "the best objective here")


def _speed_lines(speed: pd.DataFrame) -> Iterator[Line]:
    """Yield the speed-ups over autodiff at one rank, over the fastest one at the largest D."""
    ratios = speed_ratios(speed[speed["device"] == "cpu"])
    largest = max(row["dimension"] for row in ratios)
    for backbone in dict.fromkeys(row["backbone"] for row in ratios):
        rows = [row for row in ratios if row["backbone"] == backbone]
        row = next((row for row in rows if row["rank"] == PAPER_RANK), rows[0])
        name = cells.network(backbone)
        where = f"time over that of s2, {name}, D = {row['dimension']:.0f}, r = {row['rank']:.0f}"
        loop = cells.ratio(row["loop"], row["loop_low"], row["loop_high"])
        yield where, "autodiff, one coordinate after another", cells.ratio(row["paper"]), loop
        for fast in (each for each in rows if each["compiled"]):
            loop = cells.ratio(fast["loop"], fast["loop_low"], fast["loop_high"])
            yield f"{where}, compiled", "autodiff, one coordinate after another", cells.DASH, loop
        if row["dimension"] == largest:
            chunked = cells.ratio(row["chunked"], row["chunked_low"], row["chunked_high"])
            yield where, row["chunked_method"], cells.DASH, chunked


def _cost_lines(results: Results) -> Iterator[Line]:
    """Yield what training costs beside a dense loss and a first-order step, and its growth."""
    training = results.cost.training[results.cost.training["device"] == "cpu"]
    losses = records(cost_tables.loss_table(training))
    largest = [row for row in losses if row["D"] == losses[-1]["D"]]
    names = ("Target", "Variance reduction", "Dense / ours")
    targets, reductions, gains = (" / ".join(row[name] for row in largest) for name in names)
    where = f"time of a dense D x D loss over ours, D = {largest[0]['D']}, r = {largest[0]['r']}"
    yield where, f"{targets}, variance reduction {reductions}", cells.DASH, gains
    steps = records(cost_tables.step_table(training))
    joint = [row for row in steps if row["Step"].endswith("jacobian") and row["r"] != "0"]
    size = f"D = {joint[0]['D']}, r = {joint[0]['r']}"
    reductions, over = (" / ".join(row[name] for row in joint) for name in (names[1], OVER))
    where = f"time of a step of s1 and s2 over s1 alone, U-Net, {size}"
    yield where, f"jacobian, variance reduction {reductions}", cells.DASH, over
    slopes = results.cost.slopes[results.cost.slopes["device"] == "cpu"]
    fits = slopes[(slopes["method"] == "joint step") & (slopes["variable"] == "D")]
    for fit in records(fits.nlargest(1, "rank")):
        ends = f"{fit['from']:,.0f} to {fit['to']:,.0f}"
        found = f"{fit['time']:.2f}, {fit['memory']:.2f}"
        yield f"slopes of a step with D, {ends}", "log time, log memory", cells.DASH, found


def _ess(row: Row) -> str:
    if row["finite_share"] < 1:
        return "diverged"
    text = f"{cells.number(row['ess_nice'])} at variance ratio {row['variance_ratio']:.2f}"
    return text if row["within_bound"] else f"{text}, beyond the bounds"


def _sampling_lines(found: Sampling) -> Iterator[Line]:
    """Yield effective samples of Langevin / Ozaki, at the paper's steps and tuned alike."""
    there = found.final[(found.final["setting"] != "tuned") & (found.final["scores"] == "learned")]
    for (target, scores), group in groups(there, "target", "scores"):
        rows = {row["method"]: row for row in records(group)}
        paper = f"{rows['langevin']['paper_ess']:.2f} / {rows['ozaki none']['paper_ess']:.2f}"
        ours = " / ".join(_ess(rows[name]) for name in ("langevin", "ozaki floor"))
        where = f"ESS nice per chain, {target}, {scores} scores"
        yield where, "Langevin / Ozaki (floor), at the paper's steps", paper, ours
    for each in comparisons(found):
        if each.ozaki is not None and each.scores == "exact" and each.target in SHOWN_TARGETS:
            where = (
                f"ESS bulk per second over tuned Langevin's, {each.target}, {each.scores} scores"
            )
            name = SAMPLERS[each.ozaki["method"]]
            ratio = cells.plus_minus(each.ratio, each.error)
            yield where, f"{name}, tuned alike within the bounds on bias", cells.DASH, ratio


def _denoiser_lines(results: Results) -> Iterator[Line]:
    """Yield errors in the plane; likelihoods and correlation of images, at length if there."""
    errors = {
        row["dataset"]: row["covariance_error"] for row in records(results.denoising.posteriors)
    }
    where = "error of the posterior covariance, " + " / ".join(errors)
    values = " / ".join(f"{100 * error:.1f} %" for error in errors.values())
    yield where, "s2, jacobian, against the exact posterior", cells.DASH, values
    longest = {name.removesuffix(LONGER): found for name, found in results.denoisers.items()}
    for name, found in longest.items():
        whole = found.numbers[found.numbers["model"] == "range"]
        rows = records(whole)
        row = min(rows, key=lambda each: abs(each["sigma"] - SHOWN_SIGMA))
        parts = ("nll_low_rank", "nll_diagonal", "nll_isotropic")
        values = " / ".join(cells.number(row[part], 4) for part in parts)
        where = f"NLL of clean images, nats, {name}, σ = {row['sigma']:g}"
        yield where, "C / its diagonal / one variance", cells.DASH, values
        values = " / ".join(cells.number(each["correlation"], 2) for each in rows)
        where = f"correlation of variance and squared error, {name}"
        scales = " / ".join(f"{each['sigma']:g}" for each in rows)
        yield where, f"one model, σ = {scales}", cells.DASH, values


def headline(results: Results) -> list[Line]:
    """Return the numbers to show first: what was measured, by what, the paper's, ours.

    Errors are those of the whole of table 1, the rest those of this run.
    """
    lines = [*_accuracy_lines(results.accuracy.whole.table1), *_speed_lines(results.cost.speed)]
    lines += _cost_lines(results)
    lines += _sampling_lines(results.mixing.longest)
    return [*lines, *_denoiser_lines(results)]


def headline_table(results: Results) -> pd.DataFrame:
    """Return the headline numbers as a table."""
    return pd.DataFrame(headline(results), columns=list(COLUMNS))


def readme_block(results: Results, facts: dict[str, Any]) -> str:
    """Return the table of results for the README, with a line that says where it comes from.

    Args:
        results: what the stages measured.
        facts: as `page.facts` returns them.
    """
    frame = headline_table(results)
    seeds, counts = facts["seeds"], results.accuracy.whole.table1["seeds"].dropna()
    few, many = int(counts.min()), int(counts.max())
    whole = f"{few} to {many}" if few < many else f"{few}"
    named = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
    notes = [
        "Errors are squared Frobenius norms summed over entries,",
        f"means over {whole} seeds (`make table1`).",
        f"The rest is of profile `{facts['profile']}`, {named}, on {facts['hardware']};",
        "ranges are least to largest.",
    ]
    return f"{frame.to_markdown(index=False, disable_numparse=True)}\n\n{' '.join(notes)}"


def replace_between_markers(text: str, begin: str, end: str, block: str) -> str:
    """Return a text with what stands between two markers replaced.

    Args:
        text: the whole text.
        begin: the marker before the block; stays.
        end: the marker after it; stays.
        block: what stands on the lines between.

    Raises:
        ValueError: a marker is missing or repeated, or `end` comes first.
    """
    for marker in (begin, end):
        if text.count(marker) != 1:
            raise ValueError(f"marker {marker!r} occurs {text.count(marker)} times; legal is once")
    before, rest = text.split(begin)
    if end not in rest:
        raise ValueError(f"marker {end!r} stands before {begin!r}")
    return f"{before}{begin}\n{block.strip()}\n{end}{rest.split(end)[1]}"
