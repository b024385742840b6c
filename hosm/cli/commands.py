"""The subcommands of `hosm`: each reads files, writes files, and returns facts to be printed.

Each function takes the parsed command line (see `hosm.cli.arguments`) and returns a dictionary of
types that JSON has. A model of patches is one of D = height x width (x colours) coordinates:
patches are square, so D and the picture's colours tell their side, and a picture of D numbers is
one point itself.
"""

from __future__ import annotations

import math
import time
import warnings
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hosm.cli import pictures
from hosm.cli.rows import OF_COLUMNS, Rows, read_table
from hosm.estimator import ScoreEstimator, out_of_distribution_scores
from hosm.estimator.local_dimension import local_dimension
from hosm.io import (
    LABELLED,
    TABLE_SUFFIXES,
    Array,
    Index,
    check_output,
    check_png,
    cut_patches,
    is_pictures,
    open_pages,
    page_shapes,
    patch_corners,
    random_patches,
    read_archive,
    write,
)

__all__ = ["denoise", "dimension", "fit", "hessian", "info", "ood", "sample"]

DEFAULT_PATCHES, DEFAULT_STEPS = 50_000, 3000
HOLD_MATRICES = (".npy", ".npz", ".tif", ".tiff")
OF_TABLES = (*OF_COLUMNS, "method", "target", "weight_decay", "points")
OF_PICTURES = (
    *("map", "interval", "window", "directions", "draws"),
    *("gain", "sigma", "symmetries", "clipping"),
)
OF_LEARNING_PICTURES = ("noise", "pairs", "start")
POINTS_PER_CHUNK = 4096  # points whose posteriors are held at once
MOST_NAMED = 20  # columns whose numbers are printed one by one
Facts = dict[str, Any]


def _stacked(pages: Sequence[Array], path: str) -> Array:
    """Return pictures of one shape as an array, (n, height, width) or with a last axis of 3."""
    _check_one_shape(pages, path)
    return np.stack([*pages])


def _check_one_shape(pages: Sequence[Array], path: str) -> None:
    """Raise ValueError for pictures of several shapes."""
    shapes = sorted(set(page_shapes(pages)))
    if len(shapes) > 1:
        raise ValueError(
            f"{path} must hold pictures of one size, got {shapes[0]} and {shapes[-1]}"
        )


def _training_points(options: Namespace) -> tuple[Any, Facts]:
    """Return clean points (n, D), and what they are."""
    if not (options.patch or options.whole):
        return read_table(options.data, options).points, {}
    _check_absent(options, OF_COLUMNS, "tables", "pictures")
    pages = open_pages(options.data)
    facts: Facts = {"pictures": len(pages)}
    if options.sigma is None:
        largest = max(float(page.max()) for page in pages)
        raise ValueError(
            "--sigma must be given for pictures, in their units (the largest value is "
            f"{largest:g})"
        )
    options.standardise = False
    if options.whole:
        points = _stacked(pages, options.data).astype(np.float64)
        return points.reshape(len(points), -1), facts | {"patch": [*points.shape[1:]]}
    side = options.patch
    colours = sorted({page[2:] for page in page_shapes(pages)})
    if len(colours) > 1:
        raise ValueError(
            f"{options.data} must hold pictures of one kind, got grey and colour ones"
        )
    shape = (side, side, *colours[0])
    rng = np.random.default_rng(options.seed)
    count = DEFAULT_PATCHES if options.points is None else options.points
    patches = random_patches(pages, shape, count, rng).astype(np.float64)
    return patches, facts | {"patch": [*shape]}


def _check_absent(options: Namespace, names: Sequence[str], owner: str, got: str) -> None:
    """Raise ValueError for options that belong to another kind of data."""
    for name in names:
        if getattr(options, name) is not None:
            option = name.replace("_", "-")
            raise ValueError(f"--{option} must be given for {owner} alone, got {got}")


def fit(options: Namespace) -> Facts:
    """Learn a model from a file and save it; return what was learned.

    Raises:
        ValueError: the file or an option is invalid.
        OSError: a file cannot be read or written.
        FloatingPointError: training diverged.
    """
    start = time.perf_counter()
    _check_device(options)
    check_output(options.out, ())
    if not (options.patch or options.whole) and (options.pictures or is_pictures(options.data)):
        _check_absent(options, OF_TABLES, "tables", "pictures")
        return pictures.fit(options)
    _check_absent(options, OF_LEARNING_PICTURES, "a denoiser of pictures", "another model")
    points, facts = _training_points(options)
    sigma = options.sigma or ["auto"]
    estimator = ScoreEstimator(
        sigma[0] if len(sigma) == 1 else sigma,
        method=options.method or ("auto" if options.standardise else "network"),
        rank=options.rank,
        target=options.target or "jacobian",
        standardise=options.standardise,
        weight_decay=0.1 if options.weight_decay is None else options.weight_decay,
        max_steps=DEFAULT_STEPS if options.steps is None else options.steps,
        random_state=options.seed,
        device=options.device,
        verbose=not options.quiet,
    ).fit(points)
    estimator.save(options.out)
    facts = {"points": len(points), **facts, **_about(estimator)}
    facts["seconds"] = round(time.perf_counter() - start, 1)
    return facts | {"files": [options.out]}


def _about(estimator: ScoreEstimator) -> Facts:
    """Return the facts about a fitted estimator that commands print."""
    noise = estimator.noise_std_
    facts: Facts = {"dimension": estimator.n_features_in_}
    if estimator.history_:  # networks: a law in closed form has no rank
        facts["rank"] = estimator.model_.rank
    facts |= {"sigma": estimator.sigma_, "standardise": estimator.standardise}
    facts["report"] = estimator.report_
    facts["noise_std"] = _by_column(noise, _names(estimator))
    if estimator.search_:
        facts["search"] = {f"{sigma:g}": score for sigma, score in estimator.search_.items()}
    losses = {name: _kept(each) for name, each in estimator.history_.items() if each}
    return facts | ({"losses": losses} if losses else {})


def _kept(history: list[dict[str, float]]) -> dict[str, float]:
    """Return the validation whose weights a network kept: that of the least held-out loss."""

    def loss(each: dict[str, float]) -> float:
        return next((v for k, v in each.items() if k.startswith("validation")), math.inf)

    return min(history, key=loss)


def _check_device(options: Namespace) -> None:
    """Raise ValueError for a device that torch does not find."""
    try:
        torch.zeros(1, device=options.device)
    except (RuntimeError, AssertionError) as error:  # which torch raises, by the kind of device
        reason = str(error).splitlines()[0]
        raise ValueError(
            f"--device must be one that torch finds here, got {options.device!r}: {reason}"
        ) from error


def _stride(options: Namespace, default: int) -> int:
    return default if options.stride is None else int(options.stride)


def _load(options: Namespace) -> ScoreEstimator:
    """Return the model, after checks that the device and the folder of the results exist."""
    _check_device(options)
    if getattr(options, "out", None):
        check_output(options.out)
    with _expecting_a_model(options):
        estimator = ScoreEstimator.load(options.model, device=options.device)
    return estimator.set_params(verbose=not options.quiet)


@contextmanager
def _expecting_a_model(options: Namespace) -> Iterator[None]:
    """Say which comes first, where what should be a model is a table or a picture."""
    try:
        yield
    except (ValueError, OSError) as error:
        path = options.model
        is_data = Path(path).suffix.lower() in TABLE_SUFFIXES or is_pictures(path)
        if not is_data or not Path(path).exists():
            raise
        last = "; the model comes first, then the data" if hasattr(options, "data") else ""
        raise ValueError(f"{path} is no model{last}") from error


def _patch(estimator: ScoreEstimator, page: Array) -> tuple[int, ...]:
    """Return the shape of the patches of a page that a model is of."""
    size = estimator.n_features_in_
    if page.size == size:
        return page.shape
    colours = page.shape[2] if page.ndim == 3 else 1
    side = math.isqrt(size // colours)
    if side * side * colours != size or not 2 <= side <= min(page.shape[:2]):
        raise ValueError(
            f"the picture must have square patches of {size} numbers, as the model needs, "
            f"got {page.shape}"
        )
    return (side, side, *page.shape[2:])


def _rows(estimator: ScoreEstimator, options: Namespace, path: str) -> Rows:
    """Return the rows of a table, or the patches of pictures, as a model takes them."""
    if not is_pictures(path):
        return read_table(path, options, [*getattr(estimator, "feature_names_in_", [])])
    _check_absent(options, OF_COLUMNS, "tables", "pictures")
    parts, where = [], []
    for number, page in enumerate(open_pages(path)):
        shape = _patch(estimator, page)
        corners = patch_corners(page, shape, _stride(options, min(shape[:2])))
        parts.append(cut_patches(page, shape, corners).astype(np.float64))
        where.append(np.insert(corners, 0, number, axis=1))
    places = dict(zip(("page", "row", "column"), np.concatenate(where).T, strict=True))
    return Rows(np.concatenate(parts), places)


def _names(estimator: ScoreEstimator) -> list[str]:
    own = getattr(estimator, "feature_names_in_", [])
    return [*own] or [f"x{j}" for j in range(estimator.n_features_in_)]


def _written(
    options: Namespace,
    arrays: dict[str, Array],
    names: list[str] | None = None,
    pixels: Any = None,  # noqa: ANN401
    index: Index | None = None,
) -> Facts:
    files = write(options.out, arrays, names, pixels, index)
    return {"files": [str(file) for file in files]}


def hessian(options: Namespace) -> Facts:
    """Write second derivatives of the log-density at points. Errors as in `fit`."""
    suffix = check_output(options.out)
    if options.dense and suffix not in HOLD_MATRICES:
        raise ValueError(f"--dense needs -o FILE.npz or FILE.npy, got {options.out}")
    if options.std and (options.dense or options.column is not None):
        other = "--dense" if options.dense else "--column"
        raise ValueError(f"standard errors are known for the diagonal only; leave out {other}")
    estimator = _load(options)
    _tell_doubt(estimator)
    rows = _rows(estimator, options, options.data)
    names = None if options.dense else _names(estimator)
    arrays = {name: rows.aligned(each) for name, each in _second(estimator, rows, options).items()}
    facts: Facts = {"points": len(rows.points), "shape": [*arrays["hessian"].shape]}
    if "std" in arrays and suffix in LABELLED:
        names = [each for name in _names(estimator) for each in (name, f"{name}.std")]
        pairs = np.stack([arrays["hessian"], arrays["std"]], 2)
        arrays = {"hessian": pairs.reshape(len(pairs), -1)}
    return facts | _written(options, arrays, names, index=rows.index)


def _tell_doubt(estimator: ScoreEstimator) -> None:
    """Note in which columns no gain over a Gaussian could be shown."""
    gain = estimator.fitted_.gain
    doubt = "" if gain is None else gain.doubt([*getattr(estimator, "feature_names_in_", ())])
    if doubt:
        warnings.warn(doubt.rstrip("."), stacklevel=2)


def _second(estimator: ScoreEstimator, rows: Rows, options: Namespace) -> dict[str, Array]:
    """Return the second derivatives that the options ask for, and their standard errors."""
    if options.dense:
        return {"hessian": np.asarray(estimator.hessian(rows.points, dense=True))}
    if options.std:
        found, error = estimator.hessian_diag(rows.points, return_std=True)
        return {"hessian": found, "std": error}
    if options.column is None:
        return {"hessian": np.asarray(estimator.hessian_diag(rows.points))}
    names = _names(estimator)
    known = options.column in names
    number = names.index(options.column) if known else _integer(options.column, names)
    return {"hessian": estimator.hessian_column(rows.points, number)}


def _integer(column: str, names: list[str]) -> int:
    if not column.isdecimal():
        raise ValueError(
            f"--column must be one of {', '.join(names)}, or a number, got {column!r}"
        )
    return int(column)


def denoise(options: Namespace) -> Facts:
    """Write posterior means and variances of noisy points or pictures. Errors as in `fit`."""
    options.model, options.data = _model_and_data(options)
    with _expecting_a_model(options):
        of_pictures = pictures.is_picture_model(options.model)
    if of_pictures:
        _check_absent(options, OF_COLUMNS, "tables", "pictures")
        _check_device(options)
        options.sigma, options.gain = options.sigma or "auto", options.gain or "0"
        return pictures.denoise(options)
    _check_absent(options, OF_PICTURES, "a denoiser of pictures", "another model")
    estimator = _load(options)
    shape, pixels = None, None
    if is_pictures(options.data):
        points, shape, pixels = _whole_pictures(estimator, options)
        rows = Rows(points)
    else:
        rows = _rows(estimator, options, options.data)
        points = rows.points
    parts = [
        estimator.posterior(points[i : i + POINTS_PER_CHUNK])
        for i in range(0, len(points), POINTS_PER_CHUNK)
    ]
    arrays = {
        name: rows.aligned(np.concatenate([getattr(part, name) for part in parts]))
        for name in ("mean", "variance")
    }
    facts: Facts = {"points" if shape is None else "pictures": len(points)}
    errors = np.sqrt(np.nanmean(arrays["variance"], 0))
    facts["predicted_rmse"] = (
        _by_column(errors, _names(estimator))
        if shape is None
        else float(np.sqrt(np.mean(np.square(errors))))
    )
    facts["clipped_share"] = float(np.concatenate([part.clipped_share for part in parts]).mean())
    if shape is not None:
        arrays = {n: each.reshape(shape).astype(np.float32) for n, each in arrays.items()}
    return facts | _written(options, arrays, _names(estimator), pixels, rows.index)


def _by_column(values: Array, names: Sequence[str]) -> dict[str, float]:
    """Return numbers (D,) by the names of the columns; of many, the least and the largest."""
    if len(names) <= MOST_NAMED:
        return dict(zip(names, values.tolist(), strict=True))
    return {"least": float(values.min()), "largest": float(values.max())}


def _model_and_data(options: Namespace) -> tuple[str, str]:
    """Return the paths of the model and the data, which `--model` may tell apart."""
    paths = [*options.paths] if options.model is None else [options.model, *options.paths]
    if len(paths) != 2:
        raise ValueError(f"give MODEL and DATA, or DATA and --model, got {' '.join(paths)}")
    return paths[0], paths[1]


def _whole_pictures(
    estimator: ScoreEstimator, options: Namespace
) -> tuple[Array, tuple[int, ...], Any]:
    """Return pictures as points of a model of whole ones, their shape, and their number type."""
    _check_absent(options, OF_COLUMNS, "tables", "pictures")
    pages = open_pages(options.data)
    if Path(options.out).suffix.lower() == ".png":
        check_png(pages[0].dtype, pages[0].shape, len(pages))
    stacked = _stacked(pages, options.data)
    if stacked[0].size != estimator.n_features_in_:
        raise ValueError(
            f"pictures must have {estimator.n_features_in_} numbers, as those of the model, got "
            f"{stacked.shape[1:]}; `hosm fit` without --patch makes a denoiser of any size"
        )
    shape = stacked.shape if len(stacked) > 1 else stacked.shape[1:]
    return stacked.reshape(len(stacked), -1).astype(np.float64), shape, pages[0].dtype


def sample(options: Namespace) -> Facts:
    """Write draws; return how many. Errors as in `fit`."""
    estimator = _load(options)
    side = _side(estimator, options) if is_pictures(options.out) else 0
    given = {"law": options.law, "steps": options.steps}
    draws = estimator.sample(options.number, options.seed, **given)
    draws = np.asarray(draws)
    draws = draws.reshape(-1, side, side) if side else draws
    return {"draws": len(draws)} | _written(options, {"draws": draws}, _names(estimator))


def _side(estimator: ScoreEstimator, options: Namespace) -> int:
    """Return the side of square draws, or raise ValueError if a file cannot hold them."""
    size = estimator.n_features_in_
    side = math.isqrt(size)
    if side * side != size:
        raise ValueError(f"draws must be square to be written as pictures, got {size} numbers")
    if Path(options.out).suffix.lower() == ".png":  # a model knows no whole numbers
        check_png(np.float64, (side, side), options.number)
    return side


def ood(options: Namespace) -> Facts:
    """Write or return how unlike the reference points are. Errors as in `fit`."""
    estimator = _load(options)
    rows = _rows(estimator, options, options.data)
    known = _rows(estimator, options, options.reference).points if options.reference else None
    found = out_of_distribution_scores(estimator, rows.points, known, order=options.order)
    scores = {"deviation": found.deviation, "tail": found.tail, **found.features}
    facts: Facts = {
        "points": len(found.tail),
        "reference": options.reference or _unseen(estimator),
    }
    facts["share_beyond_95_percent"] = float((found.tail <= 0.05).mean())
    labels = rows.labels
    if options.out is None:
        first = {name: each.tolist() for name, each in rows.places.items()}
        if labels is not None:
            first = {labels.name or "index": labels.labels}
        return facts | {"scores": first | {name: each.tolist() for name, each in scores.items()}}
    if labels is None or check_output(options.out) not in LABELLED:
        scores, labels = rows.places | scores, None
    table = np.stack([*scores.values()], 1)
    return facts | _written(options, {"scores": table}, [*scores], index=labels)


def _unseen(estimator: ScoreEstimator) -> str:
    """Return what rows a model judges by where no reference is given."""
    fitted = estimator.fitted_
    how = "left out in turn" if fitted.folds else "held out of training"
    return f"{len(fitted.unseen)} training rows, {how}"


def dimension(options: Namespace) -> Facts:
    """Write or sum up the local dimension of a table. Errors as in `fit`."""
    if options.out:
        check_output(options.out)
    rows = read_table(options.data, options)
    points = rows.points
    found, error = local_dimension(points, neighbours=options.neighbours, return_std=True)
    low, middle, high = np.quantile(found, (0.1, 0.5, 0.9)).tolist()
    facts: Facts = {"points": len(found), "columns": np.shape(points)[1]}
    facts |= {"dimension": middle, "tenth_to_ninth_tenth": [low, high]}
    facts["standard_error"] = float(np.median(error))
    if options.out is None:
        return facts
    table = rows.aligned(np.stack([found, error], 1))
    names = ["dimension", "standard_error"]
    return facts | _written(options, {"dimension": table}, names, index=rows.index)


def _gains(estimator: ScoreEstimator) -> dict[str, dict[str, float]]:
    """Return what is gained over a Gaussian in each column, and its standard error."""
    pairs = zip(estimator.column_gain_, estimator.column_gain_error_, strict=True)
    return {
        name: {"gain": float(gain), "standard_error": float(error)}
        for name, (gain, error) in zip(_names(estimator), pairs, strict=True)
    }


def info(options: Namespace) -> Facts:
    """Return what a saved model is. Errors as in `fit`."""
    with _expecting_a_model(options):
        of_pictures = pictures.is_picture_model(options.model)
    if of_pictures:
        return pictures.describe(options.model)
    card = read_archive(options.model)[1]
    estimator = _load(options)
    facts: Facts = {"version": card["version"], **_about(estimator)}
    if estimator.fitted_.gain is not None:
        facts["column_gain"] = _gains(estimator)
    facts["names"] = _names(estimator)
    facts["training_points_held"] = len(estimator.fitted_.rows)
    return facts | {"parameters": card["parameters"]}
