"""The report as one HTML file: tables, figures, what holds and what does not, how it was made.

Nothing in the page is fetched: pictures are inline, the style sheet is part of the file, and
there are no scripts. Every number and every verdict on it comes from the results.
"""

import base64
import re
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from hosm.experiment import cells
from hosm.experiment.claims import claims
from hosm.experiment.provenance import facts
from hosm.experiment.results import WHOLE, Denoiser, Diversity, Results
from hosm.experiment.tables import display_tables

__all__ = ["facts", "page_context", "render_page", "write"]

TEMPLATE = Path(__file__).with_name("page.html.jinja")
SPLIT = {  # table -> columns whose values become the captions of its parts
    "table1-accuracy": ["Data set", "Regime"],
    "table1-first-order": ["Data set", "Regime"],
    "table1-whole": ["Data set", "Regime"],
    "table2-speed": ["Network"],
    "table3-mixing": ["Target"],
    "figure1-errors": ["Target of s2"],
}
SPACE = "\N{NO-BREAK SPACE}"
NUMERIC = re.compile(r"[-~]?\d.*|–")
FIGURES = {  # figure -> caption, and what it shows to those who cannot see it
    "accuracy": (
        "Error of second-order scores by method and rank, on a logarithmic axis. Dotted lines: "
        "the least error that any matrix of the rank can have.",
        "Dot plot of the errors of table 1: a row for each method, a colour and marker for each "
        "rank, the paper's values as hollow diamonds.",
    ),
    "targets": (
        "Which target to use: error against seconds of training on one thread, mean over seeds. "
        "Curves of s2 begin where the s1 that they stand on is finished. Every point is of the "
        "weights as averaged then.",
        "A chart for each data set, both axes logarithmic, a line for each target and for "
        "autodiff; the floor of the rank and the constant Hessian as grey lines.",
    ),
    "whole": (
        "The same at the paper's sizes, every data set and regime. With few data (finite) a curve "
        "may rise again: what is kept is then the best by its validation loss, not the end.",
        "A chart for each data set and regime, both axes logarithmic, a line for each target and "
        "for autodiff; the floor of the rank and the constant Hessian as grey lines.",
    ),
    "reduction": (
        "Training on N(0, I) in the plane, a line for each seed. From top to bottom: distance of "
        "the second-order loss (moment) from its least value (a and b in the paper); squared "
        "error of s2, median over seeds, for each target, with that of s2 = 0 in grey; first "
        "entry of s1 (c) and of s2 (d) at (u, 0). With variance reduction σ makes no difference; "
        "without it the loss drowns in noise as σ falls.",
        "Four rows of charts, a column for each noise scale. Orange curves, without variance "
        "reduction, stay far from the least loss and from the exact scores at σ = 0.001 and "
        "approach them at 0.1; blue curves, with it, lie near the wide grey lines of the exact "
        "scores at every σ.",
    ),
    "speed": (
        "Time of second-order scores by method, on a logarithmic axis.",
        "Dot plot of the times of table 2, with a dashed line at the time of s1 and the paper's "
        "times as hollow diamonds.",
    ),
    "losses": (
        "Second-order losses with their gradients in s1, alpha and beta, for one sample: ours and "
        "as n dense matrices of D x D.",
        "Two charts on logarithmic axes, time and memory against D; dashed lines of the dense "
        "losses rise with the square of D, solid lines of ours in proportion to D.",
    ),
    "growth": (
        "Steps of training, and what is then asked of a model, against D. Batch and network are "
        "the same at every size.",
        "Two charts on logarithmic axes, time and memory against D, a line for each method, all "
        "about as steep as a line in proportion to D or less.",
    ),
    "tuning": (
        "Effective samples against bias for every step size that tuning tried, smallest and "
        "largest labelled. Draws to the right of the bound are biased: their ESS says little. "
        "Runs that diverged are not drawn. The distance is the one that tuning sees.",
        "For each target a chart of the bulk effective sample size against the Kolmogorov "
        "distance to exact draws, a line for each sampler and kind of scores.",
    ),
    "curves": (
        "Distance to exact draws of all draws so far, tuned step sizes, burn-in excluded.",
        "For each target a chart of the Kolmogorov distance against iterations, falling as "
        "chains mix, a line for each sampler and kind of scores.",
    ),
    "draws": (
        "Draws of the tuned samplers beside exact draws, up to a thousand points each, with the "
        "Kolmogorov distance of their radius, the distance from the centre.",
        "Scatter plots in a grid: a row for each target; exact draws first, then Langevin and "
        "Ozaki with exact and with learned scores.",
    ),
    "plane": (
        "Points in the plane at σ = 0.15. From left to right: clean, noisy, the mean of the "
        "posterior alone, a draw of N(m, C) for each noisy point, and a draw of the exact "
        "posterior of the finite set. The mean alone thins the shapes out; draws restore them.",
        "Scatter plots in a grid, a row for each set of points: the draws of N(m, C) look like "
        "the clean points and like the exact posterior, the means are contracted.",
    ),
    "variance": (
        "Test images under noise of each scale: noisy, posterior mean, predicted variance of each "
        "pixel, squared error. The last two are averaged over the same noise draws and share one "
        "scale in each line, which ends at the 99.5th percentile.",
        "A line of images for each noise scale; predicted variance and measured squared error in "
        "colour, both brightest along the strokes, and wider as the noise grows.",
    ),
    "calibration": (
        "Measured squared error against the predicted variance, once scaled by one number fitted "
        "on validation images; pixels in tenths by their prediction. Bars: two standard errors, "
        "for independent images; one odd digit is a large part of the error of dark pixels.",
        "Two charts: error against variance along the diagonal over four decades, and their ratio "
        "by tenth with a grey band of 15 percent around one.",
    ),
    "directions": (
        "Eigenvectors 1 to 19, 30, 80 and 200 of the predicted covariance of two noisy images. "
        "Red and blue are opposite signs; each picture has its own colour scale.",
        "Grids of pictures: the first eigenvectors are smooth strokes along the digit's edges; "
        "beyond the rank of s2 they are single pixels.",
    ),
    "traversals": (
        "Steps of up to two standard deviations from the mean along the first three directions.",
        "Rows of digits: clean, noisy, then five images along each direction, whose strokes "
        "thicken, shift, open or close.",
    ),
    "classes": (
        "Share of chains from one test digit of each class whose denoised image has another class "
        "than the start: mean over the starts, with a band of one standard error. Left: the "
        "paper's comparison. Middle: the same runs against the time that the diffusion has run. "
        "Right: each method at its largest step within the bias bound, against time to compute.",
        "Three line charts of the share against iterations, diffusion time and seconds on "
        "logarithmic axes: at equal eps the curve of Ozaki lies above Langevin's, at equal time "
        "they lie together, and at the largest steps Ozaki leads.",
    ),
    "steps": (
        "The three parts of |x|² in chains from noisy test images, by the time that an iteration "
        "takes: the noise, what it has in common with the image, and the energy of the image. "
        "Bars: one standard error. The search accepts what lies within the band in all three.",
        "Three charts of a ratio against step size: Langevin's noise leaves the band upwards at "
        "small steps; the image of the fixed curvature leaves it downwards; the energy of Ozaki's "
        "images falls at large steps.",
    ),
    "noise": (
        "Chains that start at noise, denoised, two of each sampler with the same noise; numbers "
        "are iterations.",
        "Rows of pictures in which digits emerge from grey: later for Langevin and for Ozaki on "
        "its clock than for Ozaki on the paper's clock.",
    ),
    "chains": (
        "Chains from two test digits, each with noise of its own, denoised after the last "
        "iteration. In the corner the class that the classifier sees.",
        "Rows of digits, one row for each sampler: the first is the start, the others its chains, "
        "some of which have become other digits.",
    ),
    "explained": (
        "Share of the squared error of test images within the span of the first k directions, and "
        "the median time to find ten for an image; for more steps it is scaled from fewer.",
        "A line chart of the share against k: the directions of s2 lie close to those of subspace "
        "iteration, principal components of residuals far below.",
    ),
    "training": (
        "Losses against optimiser steps. Both omit constants, so their level means nothing; their "
        "course and the gap of the two lines do.",
        "Two rows of line charts, first-order and second-order loss, a column for each model, "
        "training and validation as two lines.",
    ),
}


def _cell(text: str) -> dict[str, Any]:
    shown = cells.plain(text)
    for joint in (" = ", " ± "):
        shown = shown.replace(joint, f"{SPACE}{joint.strip()}{SPACE}")
    return {"text": shown, "best": cells.is_bold(text), "number": bool(NUMERIC.fullmatch(shown))}


def _table(frame: pd.DataFrame, caption: str = "") -> dict[str, Any]:
    """Return a table as the template reads it."""
    columns = list(map(str, frame.columns))
    rows = [[_cell(str(text)) for text in row] for row in frame.itertuples(index=False)]
    numeric = [all(row[i]["number"] for row in rows) for i in range(len(columns))]
    heads = [{"text": text, "number": flag} for text, flag in zip(columns, numeric, strict=True)]
    return {"caption": caption, "columns": heads, "rows": rows}


def _parts(name: str, frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Split a table at the columns that head its parts."""
    by = SPLIT.get(name)
    if by is None:
        return [_table(frame)]
    groups = frame.groupby(by, sort=False)
    return [_table(part.drop(columns=by), ", ".join(map(str, key))) for key, part in groups]


def _picture(name: str, path: Path) -> dict[str, str]:
    caption, alt = FIGURES[name.partition("-")[0]]  # the rest names the images
    content = base64.b64encode(path.read_bytes()).decode()
    return {"src": f"data:image/png;base64,{content}", "caption": caption, "alt": alt}


def _denoiser(name: str, found: Denoiser) -> dict[str, Any]:
    """Return what the page says of one denoiser, beside its tables and figures."""
    settings, made = found.card["settings"], found.card["made"]
    most = found.numbers.sort_values("draws").iloc[-1]
    return {
        "title": name.removesuffix(WHOLE),
        "whole": name.endswith(WHOLE),
        "draws": int(most["draws"]),
        "mapped": int(most["mapped"]),
        "images": int(most["images"]),
        "steps": f"{settings['max_steps']:,}",
        "rank": settings["rank"],
        "made": made,
    }


def _diversity(found: Diversity) -> dict[str, Any]:
    """Return what the page says of chains of images, beside their tables and figures."""
    card = found.card
    percent = {
        kind: f"{card['accuracies'][f'{kind}_accuracy']:.1%}" for kind in ("clean", "denoised")
    }
    settings, starts = card["settings"], found.curves["start"].nunique()
    numbers = {"starts": starts, "images": int(card["accuracies"]["clean_images"])}
    return {**settings, **percent, **numbers, "baseline": f"{_baseline(found.curves):.1%}"}


def _baseline(curves: pd.DataFrame) -> float:
    """Return the share that noise and denoising alone change."""
    return float(curves.loc[curves["iterations"] == 0, "changed"].mean())


def page_context(
    results: Results, figures: dict[str, Path], facts: dict[str, Any]
) -> dict[str, Any]:
    """Return everything that the template shows.

    Args:
        results: what the stages measured.
        figures: files by name, as `figures.write_all` returns them.
        facts: as `facts` returns them.
    """
    judged = claims(results)
    return {
        "facts": facts,
        "denoisers": {name: _denoiser(name, found) for name, found in results.denoisers.items()},
        "diversity": {name: _diversity(found) for name, found in results.diversity.items()},
        "bias_bound": results.bias_bound,
        "whole": results.whole.card,
        "tables": {name: _parts(name, frame) for name, frame in display_tables(results).items()},
        "figures": {name: _picture(name, path) for name, path in figures.items()},
        "failing": [claim for claim in judged if claim.verdict == "does not hold"],
        "undecided": [claim for claim in judged if claim.verdict == "undecided"],
        "holding": [claim for claim in judged if claim.verdict == "holds"],
    }


def render_page(context: dict[str, Any]) -> str:
    """Return the page as HTML.

    Args:
        context: as `page_context` returns it.

    Raises:
        jinja2.UndefinedError: the context lacks something that the page shows.
    """
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(TEMPLATE.read_text(encoding="utf-8")).render(context)


def write(results: Results, figures: dict[str, Path], facts: dict[str, Any], path: Path) -> None:
    """Write the page.

    Args:
        results: what the stages measured.
        figures: files by name, as `figures.write_all` returns them.
        facts: as `facts` returns them.
        path: the file; its folder is made if it is missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    text = render_page(page_context(results, figures, facts))
    path.write_text(text.rstrip() + "\n", encoding="utf-8")
