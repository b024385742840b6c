"""The report as two HTML files: what was found, claim by claim, and an appendix with the rest.

Nothing in them is fetched: pictures are inline, the style sheet is part of each file, and there
are no scripts. Every number and every verdict on them comes from the results.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jinja2
import pandas as pd

from hosm.experiment.diversity.results import Diversity
from hosm.experiment.presenting.judge import VERDICTS, Claim
from hosm.experiment.presenting.longer_runs import is_longer, short_name
from hosm.experiment.report import blocks
from hosm.experiment.report.claims import claims
from hosm.experiment.report.figures import run_of_figure
from hosm.experiment.report.headline import findings
from hosm.experiment.report.replication import Replicated, replication, summary, told, verdict_of
from hosm.experiment.report.results import Results
from hosm.experiment.report.tables import display_tables
from hosm.experiment.report.texts import Subject, own, paper
from hosm.experiment.run.provenance import facts
from hosm.experiment.uncertainty.results import Denoiser
from hosm.io import write_whole

__all__ = ["APPENDIX", "PAGE", "facts", "page_context", "render_page", "write"]

PAGE, APPENDIX = "page.html.jinja", "appendix.html.jinja"


def _places(judged: Sequence[Claim]) -> list[dict[str, Any]]:
    """Return the places of each statement, with verdicts and what was measured there."""
    ordered = sorted(judged, key=lambda claim: VERDICTS.index(claim.verdict))
    statements = list(dict.fromkeys(claim.statement for claim in judged))
    return [
        {"statement": each, "places": [claim for claim in ordered if claim.statement == each]}
        for each in statements
    ]


def _runs(judged: Sequence[Claim]) -> str:
    """Return the runs that a verdict rests on, in words."""
    return " and ".join(dict.fromkeys(claim.run for claim in judged))


def _tables(titles: dict[str, str], tables: dict[str, pd.DataFrame]) -> dict[str, str]:
    """Return the titles of tables by the names of the longest runs of them."""
    return {blocks.chosen(name, tables): title for name, title in titles.items()}


def _sentence(statement: str) -> str:
    """Return a statement as a sentence; symbols such as s1 keep their small letter."""
    first = statement.split()[0]
    small = any(letter.isdigit() for letter in first)
    return f"{statement if small else statement[0].upper() + statement[1:]}."


def _replicated(
    found: Replicated, shown: dict[str, pd.DataFrame], there: Sequence[str]
) -> dict[str, Any]:
    """Return a claim of the paper as the template reads it, with its figure."""
    deciding = [claim for places in found.places.values() for claim in places]
    return {
        "paper": found.paper,
        "verdict": found.verdict,
        "told": told(deciding),
        "runs": _runs(deciding),
        "places": _places(deciding),
        "beside": _places(found.beside),
        "tally": found.tally,
        "elsewhere": found.elsewhere,
        "figure": blocks.chosen(found.paper.figure, there),
        "tables": _tables(found.paper.tables, shown),
    }


def _subject(
    subject: Subject, judged: Sequence[Claim], shown: dict[str, pd.DataFrame], there: Sequence[str]
) -> dict[str, Any]:
    """Return a subject of the project's own statements as the template reads it."""
    own_claims = [claim for name in subject.claims for claim in judged if claim.name == name]
    places = _places(own_claims)
    for each in places:
        each["verdict"] = verdict_of(each["places"])
        each["told"] = told(each["places"]) if len(each["places"]) > 1 else ""
    return {
        "subject": subject,
        "runs": _runs(own_claims),
        "places": places,
        "figure": blocks.chosen(subject.figure, there),
        "tables": _tables(subject.tables, shown),
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


def _long_runs(results: Results) -> list[dict[str, Any]]:
    """Return what is kept of longer runs: of what, how it is made again, and where it was made."""
    found = {
        "errors of second-order scores (table 1)": ("table1", results.accuracy.whole.card),
        "variance reduction (figure 1)": ("figure1", _card(results.reduction.whole)),
        "samplers (table 3)": ("mixing", _card(results.mixing.whole)),
        "tables of few rows": ("tabular", _card(results.tabular.whole)),
        "photographs": ("photos", _card(results.photos.whole)),
        "diffusion in few steps": ("diffusion", _card(results.diffusion.whole)),
        "linear inverse problems": ("inverse", _card(results.inverse.whole)),
    }
    for name, denoiser in results.denoisers.items():
        if is_longer(name):
            about = f"denoiser of {short_name(name)} (figures 3 and 4)"
            found[about] = "denoisers", denoiser.card["made"]
    for name, chains in results.diversity.items():
        if is_longer(name):
            about = f"chains of {short_name(name)} (figures 7 and 8)"
            found[about] = "classes", chains.card["made"]
    kept = [(what, target, card) for what, (target, card) in found.items() if card]
    return [{"what": what, "target": target, **card} for what, target, card in kept]


def _card(whole: Any) -> dict[str, Any]:  # noqa: ANN401 - a study of any kind
    """Return the card of a longer run, empty where none is kept."""
    return whole.card if whole else {}


def page_context(
    results: Results, figures: dict[str, Path], facts: dict[str, Any]
) -> dict[str, Any]:
    """Return everything that the templates show.

    Args:
        results: what the stages measured.
        figures: files by name, as `figures.write_all` returns them.
        facts: as `facts` returns them.
    """
    judged, tables = claims(results), display_tables(results)
    replicated, there = replication(judged, results.opinions), list(figures)
    entries = [_replicated(found, tables, there) for found in replicated]
    names = {claim.name for claim in judged}
    subjects = [
        _subject(subject, judged, tables, there)
        for subject in own()
        if names.intersection(subject.claims)
    ]
    return {
        "findings": findings(results),
        "entries": entries,
        "subjects": subjects,
        "on_page": {each["figure"] for each in [*entries, *subjects]},
        "summary": summary(replicated),
        "errata": paper().errata,
        "facts": facts,
        "long_runs": _long_runs(results),
        "denoisers": {name: _denoiser(name, found) for name, found in results.denoisers.items()},
        "diversity": {name: _diversity(name, found) for name, found in results.diversity.items()},
        "bias_bound": results.mixing.bias_bound,
        "whole": results.accuracy.whole.card,
        "kept": {
            name: bool(getattr(results, name).whole)
            for name in ("reduction", "mixing", "tabular", "photos", "diffusion", "inverse")
        },
        "has_dimension": results.dimension is not None,
        "tables": {name: blocks.parts(name, frame) for name, frame in tables.items()},
        "table_runs": {name: blocks.run_of_table(name) for name in tables},
        "figures": {
            name: blocks.picture(name, path, run_of_figure(name, results))
            for name, path in figures.items()
        },
    }


def render_page(context: dict[str, Any], template: str = PAGE) -> str:
    """Return one of the two pages as HTML.

    Args:
        context: as `page_context` returns it.
        template: `PAGE` or `APPENDIX`.

    Raises:
        jinja2.UndefinedError: the context lacks something that the page shows.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["sentence"] = _sentence
    return environment.get_template(template).render(context)


def write(results: Results, figures: dict[str, Path], facts: dict[str, Any], folder: Path) -> None:
    """Write `index.html` and `appendix.html`.

    Args:
        results: what the stages measured.
        figures: files by name, as `figures.write_all` returns them.
        facts: as `facts` returns them.
        folder: where to; made if it is missing.
    """
    context = page_context(results, figures, facts)
    for name, template in (("index.html", PAGE), ("appendix.html", APPENDIX)):
        text = render_page(context, template)
        write_whole((text.rstrip() + "\n").encode(), folder / name)
