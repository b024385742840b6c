"""The denoiser of photographs on pictures that it has not seen, part by part.

A part is one kind of pictures under one noise scale: our denoiser with its error bars and theirs
of dropout and an ensemble, or one rival. Each is kept under a hash of the code, ours also under
one of the models' files, until all are finished.
"""

import hashlib
import math
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import hosm.networks
import hosm.pictures
from hosm.experiment.data import photographs
from hosm.experiment.photos.study import rivals, spreads
from hosm.experiment.photos.study.error_bars import (
    LEVELS,
    Answer,
    covered,
    error_bars,
    gaussian_reaches,
    tenths,
)
from hosm.experiment.photos.study.held_out import Array, held_out, middle, noisy, psnr, tuning
from hosm.experiment.settings import PhotosParams
from hosm.experiment.shared.finished_parts import FinishedParts, code_hash
from hosm.experiment.shared.rows import Row, groups
from hosm.pictures import DenoisedPicture, PictureDenoiser, conformal_factors, variance_ratio

__all__ = [
    "OURS",
    "calibrated",
    "gallery",
    "headline",
    "judge_ours",
    "judge_rival",
    "model_files",
    "run_study",
]

OURS, DROPOUT, ENSEMBLE = "ours", "Monte Carlo dropout", "deep ensemble"
CONFIDENCE = 0.8  # that a picture's coverage is what is stated
SHOWN, SHOWN_SIDE, SHOWN_SIGMA = 4, 144, 25.0  # pictures of the gallery, pixels, noise scale
Rows = dict[str, list[Row]]


class Place(NamedTuple):
    """Grey or colour, and the noise scale."""

    kind: str
    sigma: float

    @property
    def row(self) -> Row:
        """What its rows begin with."""
        return {"kind": self.kind, "sigma": self.sigma}


def model_files(folder: Path) -> dict[str, Path]:
    """Return where the models of grey and of colour lie.

    Args:
        folder: of the shipped ones, or of others.
    """
    return {kind: folder / f"photos-{kind}.hosm" for kind in ("grey", "colour")}


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what a work returns, and the seconds that the processor spent on it."""
    start = time.process_time()
    return work(), time.process_time() - start


def calibrated(found: Sequence[DenoisedPicture], clean: Sequence[Array]) -> list[Row]:
    """Return the coverage of intervals by level, as they are and calibrated on other pictures.

    Every second picture calibrates the intervals of the others, and these of the first.

    Args:
        found: denoised pictures, two or more.
        clean: their truths.

    Returns:
        Rows with `level`; the shares `plain` and `calibrated` of all numbers that are held; the
        `least` and `most` of the latter in a picture; and the share `pictures` of those of which
        an interval calibrated by picture holds the level or more, which `CONFIDENCE` guarantees;
        not a number where too few pictures calibrate.
    """
    answers = [Answer(f.mean, f.variance, c) for f, c in zip(found, clean, strict=True)]
    before = [covered(each, gaussian_reaches()) for each in answers]
    after: dict[int, dict[float, float]] = {}
    by_picture: dict[int, dict[float, float]] = {}
    for half in (0, 1):
        learned = list(found[half::2]), list(clean[half::2])
        factors = conformal_factors(*learned, LEVELS)
        wide = _by_picture(*learned)
        for number in range(1 - half, len(found), 2):
            after[number] = covered(answers[number], factors)
            by_picture[number] = covered(answers[number], wide)
    sizes = np.array([each.clean.size for each in answers], float)
    rows = []
    for level in LEVELS:
        shares = np.array([after[number][level] for number in range(len(found))])
        wide_shares = np.array(
            [by_picture[number].get(level, math.nan) for number in range(len(found))]
        )
        enough = np.where(np.isnan(wide_shares), np.nan, wide_shares >= level)
        rows.append(
            {
                "level": level,
                "plain": float(np.average([each[level] for each in before], weights=sizes)),
                "calibrated": float(np.average(shares, weights=sizes)),
                "least": float(shares.min()),
                "most": float(shares.max()),
                "pictures": float(enough.mean()),
            }
        )
    return rows


def _by_picture(found: list[DenoisedPicture], clean: list[Array]) -> dict[float, float]:
    """Return factors that are calibrated by picture, none where pictures are too few."""
    if len(found) < math.ceil(CONFIDENCE / (1 - CONFIDENCE) - 1e-9):
        return {}
    return conformal_factors(found, clean, LEVELS, "pictures", CONFIDENCE)


def _spread_rows(
    place: Place, method: str, scaled: spreads.Scaled, clean: Mapping[str, Array], seed: int
) -> Rows:
    """Return the rows of a rival for the error bars."""
    answers, rows = {}, []
    for name, truth in clean.items():
        picture = noisy(truth, name, place.sigma, seed)
        (mean, variance), seconds = _timed(partial(scaled, picture, place.sigma))
        answers[name] = Answer(mean, variance, truth)
        about = {**place.row, "picture": name, "method": method}
        rows.append({**about, **error_bars(answers[name]), "known": math.nan, "seconds": seconds})
    quality = [
        {**place.row, "picture": name, "method": method, "psnr": psnr(each.mean, each.clean)}
        | {"seconds": row["seconds"]}
        for (name, each), row in zip(answers.items(), rows, strict=True)
    ]
    parts = [{**place.row, "method": method, **row} for row in tenths([*answers.values()])]
    bars = {"error_bars": rows, "tenths": parts}
    return bars | {"quality": quality if method == ENSEMBLE else []}


def judge_ours(
    place: Place,
    params: PhotosParams,
    denoiser: PictureDenoiser,
    members: Sequence[PictureDenoiser] = (),
) -> Rows:
    """Return what is measured of our denoiser, and of rivals for its error bars.

    Args:
        place: which pictures, under which noise.
        params: how many pictures, and how much of them.
        denoiser: of their kind.
        members: of a deep ensemble, none or two and more.

    Returns:
        Rows of `quality`, `error_bars`, `tenths` and `coverage`. In the error bars, `known` is
        the ratio that `variance_ratio` tells from the noisy picture alone.
    """
    clean = held_out(place.kind, params.pictures, params.side)
    rows: Rows = {"quality": [], "error_bars": [], "tenths": [], "coverage": []}
    found: dict[str, DenoisedPicture] = {}
    for name, truth in clean.items():
        picture = noisy(truth, name, place.sigma, params.seed)
        found[name], seconds = _timed(partial(denoiser.denoise, picture, place.sigma))
        about = {**place.row, "picture": name, "method": OURS}
        quality = {"psnr": psnr(found[name].mean, truth), "seconds": seconds}
        rows["quality"].append(about | quality)
        measured = error_bars(Answer(found[name].mean, found[name].variance, truth))
        known = variance_ratio(denoiser.denoise, picture, place.sigma, random_state=params.seed)
        rows["error_bars"].append({**about, **measured, "known": known, "seconds": seconds})
    answers = [Answer(f.mean, f.variance, clean[name]) for name, f in found.items()]
    rows["tenths"] = [{**place.row, "method": OURS, **row} for row in tenths(answers)]
    kept = calibrated([*found.values()], [*clean.values()])
    rows["coverage"] = [place.row | row for row in kept]
    others = tuning(place.kind, params.tuning_side)
    fitted = {DROPOUT: spreads.dropout(denoiser, others, place.sigma, params.passes, params.seed)}
    if members:
        fitted[ENSEMBLE] = spreads.ensemble(members, others, place.sigma, params.seed)
    for method, scaled in fitted.items():
        for key, more in _spread_rows(place, method, scaled, clean, params.seed).items():
            rows[key] += more
    return rows


def judge_rival(place: Place, params: PhotosParams, method: str) -> Rows:
    """Return rows of `quality` of a method of `rivals.METHODS`, tuned on other pictures.

    Args:
        place: which pictures, under which noise.
        params: how many pictures, and how much of them.
        method: its name.
    """
    others = tuning(place.kind, params.tuning_side)
    options, _ = rivals.tuned(method, others, place.sigma, params.seed)
    rows = []
    for name, truth in held_out(place.kind, params.pictures, params.side).items():
        picture = noisy(truth, name, place.sigma, params.seed)
        found, seconds = _timed(partial(rivals.denoise, method, picture, place.sigma, options))
        about = {**place.row, "picture": name, "method": method}
        rows.append({**about, "psnr": psnr(found, truth), "seconds": seconds})
    return {"quality": rows}


def gallery(params: PhotosParams, denoiser: PictureDenoiser, kind: str) -> dict[str, Array]:
    """Return parts of pictures as they are shown, float16.

    Args:
        params: how many pictures, and how much of them.
        denoiser: of their kind.
        kind: grey or colour.

    Returns:
        `clean|coffee`, `noisy|coffee`, `mean|coffee`, `std|coffee`, `error|coffee`, and so on.
    """
    shown = {}
    for name, truth in held_out(kind, min(SHOWN, params.pictures), params.side).items():
        picture = noisy(truth, name, SHOWN_SIGMA, params.seed)
        found = denoiser.denoise(picture, SHOWN_SIGMA)
        parts = {"clean": truth, "noisy": picture, "mean": found.mean, "std": found.std}
        parts["error"] = np.abs(found.mean - truth)
        for part, values in parts.items():
            shown[f"{part}|{name}"] = middle(values, SHOWN_SIDE).astype(np.float16)
    return shown


def _rivals_depend(params: PhotosParams) -> dict[str, Any]:
    """Return what every part of a rival depends on: code and settings, not our models."""
    kept = params.model_dump(include={"pictures", "side", "tuning_side", "seed"})
    here = Path(str(photographs.__file__)).parent, Path(__file__).parent
    return {"code": code_hash(*here), **kept}


def _ours_depends(files: Sequence[Path], params: PhotosParams) -> dict[str, Any]:
    """Return what our parts depend on besides: the code and the files of the models."""
    folders = [Path(str(each.__file__)).parent for each in (hosm.networks, hosm.pictures)]
    hashes = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    own = {"library": code_hash(*folders), "models": hashes, "passes": params.passes}
    return _rivals_depend(params) | own


def run_study(
    params: PhotosParams, root: Path, folder: Path | None
) -> tuple[dict[str, pd.DataFrame], dict[str, Array]]:
    """Judge the models on all pictures under all noise, beside their rivals.

    Args:
        params: which.
        root: what the folders of models are relative to.
        folder: where finished parts are kept; None keeps none.

    Returns:
        Frames `quality`, `error_bars`, `tenths` and `coverage`, and the pictures of the gallery.

    Raises:
        FileNotFoundError: a model is missing.
    """
    rows: Rows = {"quality": [], "error_bars": [], "tenths": [], "coverage": []}
    shown: dict[str, Array] = {}
    for kind in params.kinds:
        files = [model_files(root / each)[kind] for each in (params.models, *params.ensemble)]
        denoiser, *members = (PictureDenoiser.load(file) for file in files)
        ours = FinishedParts(folder, _ours_depends(files, params))
        theirs = FinishedParts(folder, _rivals_depend(params))
        works: dict[str, tuple[FinishedParts, Callable[[Place], Rows]]] = {
            OURS: (ours, partial(judge_ours, params=params, denoiser=denoiser, members=members))
        }
        for method in rivals.installed():
            works[method] = theirs, partial(judge_rival, params=params, method=method)
        for sigma, (name, (parts, work)) in product(params.sigmas, works.items()):
            found = parts.part([kind, sigma, name], partial(work, Place(kind, sigma)))
            print(f"{kind}, noise {sigma:g}: {name}", flush=True)
            for key, more in found.items():
                rows[key] += more
        shown = gallery(params, denoiser, kind)  # of the last kind
    return {key: pd.DataFrame(each) for key, each in rows.items()}, shown


def headline(quality: pd.DataFrame) -> dict[str, float]:
    """Return the mean PSNR by kind, noise scale and method."""
    return {
        f"psnr_{kind}_{sigma:g}_{method.replace(' ', '-')}": float(part["psnr"].mean())
        for (kind, sigma, method), part in groups(quality, "kind", "sigma", "method")
    }
