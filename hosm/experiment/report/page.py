"""The report as one HTML file: tables, figures, what holds and what does not, how it was made.

Nothing in the page is fetched: pictures are inline, the style sheet is part of the file, and
there are no scripts. Every number and every verdict on it comes from the results.
"""

import base64
import io
import re
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd
from PIL import Image

from hosm.experiment.diversity.results import Diversity
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.judge import VERDICTS
from hosm.experiment.presenting.longer_runs import LONGER, is_longer, short_name
from hosm.experiment.presenting.timing import NOTE
from hosm.experiment.report.claims import claims
from hosm.experiment.report.replication import Replicated, replication, summary
from hosm.experiment.report.results import Results
from hosm.experiment.report.tables import display_tables
from hosm.experiment.report.texts import captions, paper
from hosm.experiment.run.provenance import facts
from hosm.experiment.uncertainty.results import Denoiser
from hosm.io import write_whole

__all__ = ["facts", "page_context", "render_page", "write"]

TEMPLATE = Path(__file__).with_name("page.html.jinja")
SPLIT = {  # table -> columns whose values become the captions of its parts
    "table1-accuracy": ["Data set", "Regime"],
    "table1-first-order": ["Data set", "Regime"],
    "table1-whole": ["Data set", "Regime"],
    "table1-budgets": ["Data set", "Regime"],
    "table1-whole-budgets": ["Data set", "Regime"],
    "table2-speed": ["Network"],
    "table3-mixing": ["Target", "Scores"],
    "table3-whole": ["Target", "Scores"],
    "table3-peers": ["Target"],
    **{
        f"tabular-{kind}{ending}": ["Columns", "Rows"]
        for kind in ("diagonal", "hessian", "score")
        for ending in ("", LONGER)
    },
    **{f"inverse{ending}": ["Model", "Task"] for ending in ("", LONGER)},
    "figure1-errors": ["Target of s2"],
    "figure1-errors-whole": ["Target of s2"],
}
SPACE = "\N{NO-BREAK SPACE}"
THUMBNAIL = (340, 240)  # pixels, at most, of a picture beside a claim
NUMERIC = re.compile(r"[-~]?\d.*|–")


def _cell(text: str) -> dict[str, Any]:
    shown = formats.plain(text)
    for joint in (" = ", " ± "):
        shown = shown.replace(joint, f"{SPACE}{joint.strip()}{SPACE}")
    return {"text": shown, "best": formats.is_bold(text), "number": bool(NUMERIC.fullmatch(shown))}


def _table(frame: pd.DataFrame, caption: str = "") -> dict[str, Any]:
    """Return a table as the template reads it."""
    columns = list(map(str, frame.columns))
    rows = [[_cell(str(text)) for text in row] for row in frame.itertuples(index=False)]
    numeric = [all(row[i]["number"] for row in rows) for i in range(len(columns))]
    heads = [{"text": text, "number": flag} for text, flag in zip(columns, numeric, strict=True)]
    return {"caption": caption, "columns": heads, "rows": rows, "note": ""}


def _parts(name: str, frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Split a table at the columns that head its parts; its note stands below the last."""
    by = SPLIT.get(name)
    if by is None:
        parts = [_table(frame)]
    else:
        groups = frame.groupby(by, sort=False)
        parts = [_table(part.drop(columns=by), ", ".join(map(str, key))) for key, part in groups]
    parts[-1]["note"] = frame.attrs.get(NOTE, "")
    return parts


def _inline(content: bytes) -> str:
    return f"data:image/png;base64,{base64.b64encode(content).decode()}"


def _picture(name: str, path: Path) -> dict[str, str]:
    known = captions()
    names = name, short_name(name), name.partition("-")[0]  # the rest names the images
    text = next(known[each] for each in names if each in known)
    return {"src": _inline(path.read_bytes()), "caption": text.caption, "alt": text.alt}


def _thumbnail(path: Path) -> str:
    """Return a small copy of a picture, inline."""
    with Image.open(path) as image:
        small = image.convert("RGB")
    small.thumbnail(THUMBNAIL, Image.Resampling.LANCZOS)
    stream = io.BytesIO()
    small.quantize(64).save(stream, "PNG", optimize=True)
    return _inline(stream.getvalue())


def _replicated(found: Replicated, figures: dict[str, Path]) -> dict[str, Any]:
    """Return a claim of the paper as the template reads it, with its picture."""
    wanted = found.paper.figure
    name = next(each for each in figures if each == wanted or each.startswith(f"{wanted}-"))
    return {
        "places": found.places,
        "paper": found.paper,
        "verdict": found.verdict,
        "beside": found.beside,
        "elsewhere": found.elsewhere,
        "tally": found.tally,
        "figure": name,
        "src": _thumbnail(figures[name]),
        "alt": _picture(name, figures[name])["alt"],
    }


def _denoiser(name: str, found: Denoiser) -> dict[str, Any]:
    """Return what the page says of one denoiser, beside its tables and figures."""
    settings, made = found.card["settings"], found.card["made"]
    most = found.numbers.sort_values("draws").iloc[-1]
    return {
        "title": short_name(name),
        "whole": is_longer(name),
        "draws": int(most["draws"]),
        "mapped": int(most["mapped"]),
        "images": int(most["images"]),
        "steps": f"{settings['max_steps']:,}",
        "rank": settings["rank"],
        "made": made,
    }


def _diversity(name: str, found: Diversity) -> dict[str, Any]:
    """Return what the page says of chains of images, beside their tables and figures."""
    card = found.card
    percent = {
        kind: f"{card['accuracies'][f'{kind}_accuracy']:.1%}" for kind in ("clean", "denoised")
    }
    settings, starts = card["settings"], found.curves["start"].nunique()
    numbers = {"starts": starts, "images": int(card["accuracies"]["clean_images"])}
    origin = {"whole": is_longer(name), "title": short_name(name)}
    origin |= {"made": card["made"], "baseline": f"{_baseline(found.curves):.1%}"}
    return {**settings, **percent, **numbers, **origin}


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
    replicated = replication(judged, results.opinions)
    return {
        "entries": [_replicated(found, figures) for found in replicated],
        "summary": summary(replicated),
        "judged": {name: [each for each in judged if each.verdict == name] for name in VERDICTS},
        "errata": paper().errata,
        "facts": facts,
        "denoisers": {name: _denoiser(name, found) for name, found in results.denoisers.items()},
        "diversity": {name: _diversity(name, found) for name, found in results.diversity.items()},
        "bias_bound": results.mixing.bias_bound,
        "whole": results.accuracy.whole.card,
        "tabular_whole": results.tabular.whole,
        "photos_whole": results.photos.whole,
        "diffusion_whole": results.diffusion.whole,
        "inverse_whole": results.inverse.whole,
        "reduction_whole": results.reduction.whole,
        "sampling_whole": results.mixing.whole and results.mixing.whole.card,
        "tables": {name: _parts(name, frame) for name, frame in display_tables(results).items()},
        "figures": {name: _picture(name, path) for name, path in figures.items()},
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
    text = render_page(page_context(results, figures, facts))
    write_whole((text.rstrip() + "\n").encode(), path)
