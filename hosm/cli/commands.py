"""The subcommands of `hosm`: each reads files, writes files, and returns facts to be printed.

Each function takes the parsed command line (see `hosm.cli.arguments`) and returns a dictionary of
types that JSON has. A model of patches is one of D = height x width (x colours) coordinates:
patches are square, so D and the picture's colours tell their side, and a picture of D numbers is
one point itself.
"""

from __future__ import annotations

import math
import time
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hosm.cli import pictures
from hosm.estimator import ScoreEstimator, out_of_distribution_scores
from hosm.estimator.local_dimension import local_dimension
from hosm.io import (
    Array,
    check_output,
    check_png,
    cut_patches,
    is_pictures,
    open_pages,
    page_shapes,
    patch_corners,
    random_patches,
    read_archive,
    read_rows,
    write,
)

__all__ = ["denoise", "dimension", "fit", "hessian", "info", "ood", "sample"]

DEFAULT_PATCHES, DEFAULT_STEPS = 50_000, 3000
OF_COLUMNS = ("columns", "drop", "header", "decimal")
OF_TABLES = (*OF_COLUMNS, "method", "target", "weight_decay", "points")
OF_PICTURES = ("interval", "window", "directions", "draws", "gain", "sigma", "symmetries")
OF_LEARNING_PICTURES = ("noise", "pairs", "start")
POINTS_PER_CHUNK = 4096  # points whose posteriors are held at once
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


def _listed(text: str | None) -> list[str] | None:
    """Return names that stand with commas between them; None if there are none."""
    return None if text is None else [name.strip() for name in text.split(",")]


def _table(path: str, options: Namespace) -> Any:  # noqa: ANN401
    """Return the points of a file, (n, D), and the names of their columns if it has any."""
    rows = read_rows(
        path,
        columns=_listed(options.columns),
        drop=_listed(options.drop) or (),
        header=None if options.header is None else options.header == "yes",
        decimal=options.decimal,
    )
    points = rows.values.reshape(len(rows.values), -1)
    for i, j in np.argwhere(~np.isfinite(points))[:1]:
        where = f"in row {i + 1}, column {rows.names[j] if rows.names else j}"
        raise ValueError(f"{path} must hold finite numbers, got {points[i, j]} {where}")
    return _NamedPoints(points, rows.names) if rows.names else points


def _training_points(options: Namespace) -> tuple[Any, Facts]:
    """Return clean points (n, D), and what they are."""
    if not (options.patch or options.whole):
        return _table(options.data, options), {}
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


class _NamedPoints:
    """Points with names of their columns: the part of a data frame that an estimator uses."""

    def __init__(self, values: Array, names: list[str]) -> None:
        self.values, self.columns = values, names

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: slice) -> _NamedPoints:
        return _NamedPoints(self.values[rows], self.columns)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:  # noqa: ANN401
        return np.asarray(self.values, dtype=dtype)


def _about(estimator: ScoreEstimator) -> Facts:
    """Return the facts about a fitted estimator that commands print."""
    noise = estimator.noise_std_
    facts: Facts = {"dimension": estimator.n_features_in_, "rank": estimator.model_.rank}
    facts |= {"sigma": estimator.sigma_, "standardise": estimator.standardise}
    facts["noise_std"] = [float(noise.min()), float(noise.max())]
    if estimator.search_:
        facts["search"] = {f"{sigma:g}": score for sigma, score in estimator.search_.items()}
    losses = {name: _kept(each) for name, each in estimator.history_.items() if each}
    return facts | ({"losses": losses} if losses else {}) | {"report": estimator.report_}


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
    estimator = ScoreEstimator.load(options.model, device=options.device)
    return estimator.set_params(verbose=not options.quiet)


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


def _points(estimator: ScoreEstimator, options: Namespace, path: str) -> tuple[Any, Array | None]:
    """Return points as a model takes them, and page, row and column of each that is a patch."""
    if not is_pictures(path):
        return _table(path, options), None
    _check_absent(options, OF_COLUMNS, "tables", "pictures")
    parts, where = [], []
    for number, page in enumerate(open_pages(path)):
        shape = _patch(estimator, page)
        corners = patch_corners(page, shape, _stride(options, min(shape[:2])))
        parts.append(cut_patches(page, shape, corners).astype(np.float64))
        where.append(np.insert(corners, 0, number, axis=1))
    return np.concatenate(parts), np.concatenate(where)


def _names(estimator: ScoreEstimator) -> list[str]:
    own = getattr(estimator, "feature_names_in_", [])
    return [*own] or [f"x{j}" for j in range(estimator.n_features_in_)]


def _written(
    options: Namespace,
    arrays: dict[str, Array],
    names: list[str] | None = None,
    pixels: Any = None,  # noqa: ANN401
) -> Facts:
    files = write(options.out, arrays, names, pixels)
    return {"files": [str(file) for file in files]}


def hessian(options: Namespace) -> Facts:
    """Write second derivatives of the log-density at points. Errors as in `fit`."""
    estimator, names = _load(options), None
    points, _ = _points(estimator, options, options.data)
    found: Any
    if options.dense:
        found = estimator.hessian(points, dense=True)
    elif options.column is None:
        found, names = estimator.hessian_diag(points), _names(estimator)
    else:
        names = _names(estimator)
        known = options.column in names
        number = names.index(options.column) if known else _integer(options.column, names)
        found = estimator.hessian_column(points, number)
    facts: Facts = {"points": len(found), "shape": [*found.shape]}
    return facts | _written(options, {"hessian": found}, names)


def _integer(column: str, names: list[str]) -> int:
    if not column.isdecimal():
        raise ValueError(
            f"--column must be one of {', '.join(names)}, or a number, got {column!r}"
        )
    return int(column)


def denoise(options: Namespace) -> Facts:
    """Write posterior means and variances of noisy points or pictures. Errors as in `fit`."""
    options.model, options.data = _model_and_data(options)
    if pictures.is_picture_model(options.model):
        _check_absent(options, OF_COLUMNS, "tables", "pictures")
        _check_device(options)
        options.sigma, options.gain = options.sigma or "auto", options.gain or "0"
        return pictures.denoise(options)
    _check_absent(options, OF_PICTURES, "a denoiser of pictures", "another model")
    estimator = _load(options)
    if is_pictures(options.data):
        points, shape, pixels = _whole_pictures(estimator, options)
    else:
        points, shape, pixels = _points(estimator, options, options.data)[0], None, None
    parts = [
        estimator.posterior(points[i : i + POINTS_PER_CHUNK])
        for i in range(0, len(points), POINTS_PER_CHUNK)
    ]
    arrays = {
        name: np.concatenate([getattr(part, name) for part in parts])
        for name in ("mean", "variance")
    }
    facts: Facts = {"points" if shape is None else "pictures": len(points)}
    facts["mean_std"] = float(np.sqrt(arrays["variance"]).mean())
    facts["clipped_share"] = float(np.concatenate([part.clipped_share for part in parts]).mean())
    if shape is not None:
        arrays = {n: each.reshape(shape).astype(np.float32) for n, each in arrays.items()}
    return facts | _written(options, arrays, _names(estimator), pixels)


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
    points, where = _points(estimator, options, options.data)
    known = _points(estimator, options, options.reference)[0] if options.reference else None
    found = out_of_distribution_scores(estimator, points, known, order=options.order)
    columns = {"deviation": found.deviation, "tail": found.tail, **found.features}
    if where is not None:
        columns = dict(zip(("page", "row", "column"), where.T, strict=True)) | columns
    facts: Facts = {
        "points": len(found.tail),
        "reference": options.reference or _unseen(estimator),
    }
    facts["share_beyond_95_percent"] = float((found.tail <= 0.05).mean())
    if options.out is None:
        return facts | {"scores": {name: values.tolist() for name, values in columns.items()}}
    table = np.stack([*columns.values()], 1)
    return facts | _written(options, {"scores": table}, [*columns])


def _unseen(estimator: ScoreEstimator) -> str:
    """Return what rows a model judges by where no reference is given."""
    fitted = estimator.fitted_
    how = "left out in turn" if fitted.folds else "held out of training"
    return f"{len(fitted.unseen)} training rows, {how}"


def dimension(options: Namespace) -> Facts:
    """Write or sum up the local dimension of a table. Errors as in `fit`."""
    if options.out:
        check_output(options.out)
    points = _table(options.data, options)
    found, error = local_dimension(points, neighbours=options.neighbours, return_std=True)
    low, middle, high = np.quantile(found, (0.1, 0.5, 0.9)).tolist()
    facts: Facts = {"points": len(found), "columns": np.shape(points)[1]}
    facts |= {"dimension": middle, "tenth_to_ninth_tenth": [low, high]}
    facts["standard_error"] = float(np.median(error))
    if options.out is None:
        return facts
    table = np.stack([found, error], 1)
    return facts | _written(options, {"dimension": table}, ["dimension", "standard_error"])


def info(options: Namespace) -> Facts:
    """Return what a saved model is. Errors as in `fit`."""
    if pictures.is_picture_model(options.model):
        return pictures.describe(options.model)
    card = read_archive(options.model)[1]
    estimator = _load(options)
    facts: Facts = {"version": card["version"], **_about(estimator)}
    facts["names"] = _names(estimator)
    facts["training_points_held"] = len(estimator.fitted_.rows)
    return facts | {"parameters": card["parameters"]}
