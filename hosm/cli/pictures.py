"""What the subcommands `fit` and `denoise` do with pictures (see `hosm.pictures`)."""

from __future__ import annotations

import io
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from hosm.io import (
    Array,
    check_output,
    check_png,
    open_pages,
    page_shapes,
    read_archive,
    write,
    write_whole,
)
from hosm.pictures import DenoisedPicture, PictureDenoiser
from hosm.plot import VarianceMapDisplay
from hosm.plot.axes import pyplot
from hosm.progress import ProgressBar

__all__ = ["SHIPPED", "denoise", "describe", "fit", "is_picture_model"]

SHIPPED = "photos"  # name of the denoisers that come with the package
DEFAULT_STEPS = 4000
MAPS = (".png", ".pdf", ".svg")
UNITS = "in the units of the input"
CONTENTS = {  # of each array, what its numbers are
    "mean": f"the denoised picture, {UNITS}",
    "std": f"how far each pixel is expected to be off, a standard deviation, {UNITS}",
    "variance": "how far each pixel is expected to be off, squared: a variance, in the units of "
    "the input squared",
    "low": f"the lower ends of the intervals, {UNITS}",
    "high": f"the upper ends of the intervals, {UNITS}",
    "directions": f"how pixels err together, times the standard deviation, {UNITS}",
    "draws": f"clean pictures that agree with the noisy one, {UNITS}",
}
FLOATS = "; float32, which few viewers show"
OF_A_MAP = "a picture of mean and standard deviation, to look at"
Facts = dict[str, Any]


def is_picture_model(path: str) -> bool:
    """Return whether a model is one of pictures of any size. Errors as in `read_archive`."""
    if path != SHIPPED and not Path(path).exists():
        raise FileNotFoundError(
            f"{path} does not exist; the model that comes with hosm is `{SHIPPED}`"
        )
    return path == SHIPPED or read_archive(path)[1].get("kind") == "pictures"


def fit(options: Namespace) -> Facts:
    """Learn a denoiser from pictures and save it; errors as in `hosm.cli.commands.fit`."""
    start = time.perf_counter()
    steps = DEFAULT_STEPS if options.steps is None else options.steps

    denoiser = PictureDenoiser(
        _range(options.sigma),
        rank=8 if options.rank is None else options.rank,
        max_steps=steps,
        random_state=options.seed,
        device=options.device,
        verbose=not options.quiet,
    )
    pages = open_pages(options.data)
    noise = None if options.noise is None else _number("noise", options.noise)
    denoiser.fit(pages, noise=noise, pairs=options.pairs, start=options.start)
    denoiser.save(options.out)
    facts = {"pictures": len(pages), **about(denoiser)}
    facts["seconds"] = round(time.perf_counter() - start, 1)
    return facts | {"files": [options.out]}


def describe(model: str) -> Facts:
    """Return what a saved denoiser of pictures is, or the two that come with the package."""
    if model != SHIPPED:
        return {"version": read_archive(model)[1]["version"], **about(PictureDenoiser.load(model))}
    own = {"grey": PictureDenoiser.pretrained(1), "colour": PictureDenoiser.pretrained(3)}
    return {name: about(denoiser) for name, denoiser in own.items()}


def _range(sigma: list[float | str] | None) -> tuple[float, float] | None:
    """Return the range of noise scales that --sigma gives."""
    if sigma is None or sigma == ["auto"]:
        return None
    if len(sigma) != 2:
        given = ",".join(map(str, sigma))
        raise ValueError(f"--sigma must be LOW,HIGH for pictures, got {given}")
    return float(sigma[0]), float(sigma[1])


def about(denoiser: PictureDenoiser) -> Facts:
    """Return the facts about a denoiser that commands print."""
    last = denoiser.history_[-1]
    return {
        "channels": denoiser.model_.channels,
        "sigma": [*denoiser.sigma_],
        "largest_value": denoiser.unit_,
        "rank": denoiser.model_.rank,
        "held_out_error": last["validation_dsm"],
    }


def _denoisers(options: Namespace) -> Callable[[int], PictureDenoiser]:
    """Return channels -> the denoiser of such pictures."""
    if options.model == SHIPPED:
        return lambda channels: PictureDenoiser.pretrained(channels, options.device)
    denoiser = PictureDenoiser.load(options.model, options.device)
    return lambda channels: denoiser


def _number(name: str, text: str) -> Any:  # noqa: ANN401
    """Return a number that an option gives, or `auto`."""
    if text == "auto":
        return text
    try:
        return float(text)
    except ValueError as error:
        raise ValueError(f"--{name} must be a number or auto, got {text}") from error


def denoise(options: Namespace) -> Facts:
    """Write what is known of clean pictures given noisy ones; errors as in `fit`."""
    suffix = check_output(options.out)
    pages = open_pages(options.data)
    _check_map(options, len(pages))
    shapes = page_shapes(pages)
    if suffix == ".png":
        check_png(pages[0].dtype, shapes[0], len(pages))
    if len({*shapes}) > 1:
        raise ValueError(
            f"{options.data} must hold pictures of one size, got {shapes[0]} and {shapes[-1]}"
        )
    found = [*_found(options, pages)]
    maps = [_maps(each, options, suffix) for each in found]
    arrays = {
        name: maps[0][name] if len(maps) == 1 else np.stack([each[name] for each in maps])
        for name in maps[0]
    }
    files = write(options.out, arrays, None, pages[0].dtype, about=CONTENTS)
    contents = _contents(files, [*arrays], suffix)
    if options.map is not None:
        files.append(_drawn(found[0], Path(options.map)))
        contents[str(files[-1])] = OF_A_MAP
    facts: Facts = {"pictures": len(found), "sigma": [_mean(each.sigma) for each in found]}
    if any(each.gain for each in found):
        facts["gain"] = [each.gain for each in found]
    facts["predicted_rmse"] = float(np.sqrt(np.mean([each.variance.mean() for each in found])))
    return facts | {"files": [str(file) for file in files], "contents": contents}


def _contents(files: Sequence[Path], names: Sequence[str], suffix: str) -> dict[str, str]:
    """Return what each file holds, or each array of a file that holds all, and its unit."""
    ending = FLOATS if suffix in (".tif", ".tiff") else ""
    places = [f"{files[0]}, {name}" for name in names] if len(files) < len(names) else files
    return {str(place): CONTENTS[name] + ending for place, name in zip(places, names, strict=True)}


def _check_map(options: Namespace, count: int) -> None:
    """Raise an error if no map can be drawn, before the work is done."""
    if options.map is None:
        return
    check_output(options.map, MAPS)
    if count != 1:
        raise ValueError(f"--map must be given for one picture, got {count}")
    pyplot()


def _drawn(found: DenoisedPicture, file: Path) -> Path:
    """Draw a denoised picture beside its standard deviation into a file, and return its path."""
    shown = VarianceMapDisplay.from_predictions(found, picture=True)
    stream = io.BytesIO()
    shown.figure_.savefig(stream, format=file.suffix[1:].lower(), dpi=150, bbox_inches="tight")
    pyplot().close(shown.figure_)
    write_whole(stream.getvalue(), file)
    return file


def _mean(sigma: float | Array) -> float:
    return float(np.mean(sigma))


def _found(options: Namespace, pages: Sequence[Array]) -> Iterator[DenoisedPicture]:
    """Yield the posterior of each picture."""
    choose = _denoisers(options)
    sigma, gain = _number("sigma", options.sigma), _number("gain", options.gain)
    count = 1 if options.symmetries is None else options.symmetries
    with ProgressBar(not options.quiet, unit="picture") as bar:
        for number, page in enumerate(pages):
            bar.move("denoise", number, len(pages))
            denoiser = choose(3 if page.ndim == 3 else 1)
            yield denoiser.denoise(page, sigma, gain, count, options.clipping or "mend")
        bar.move("denoise", len(pages), len(pages))


def _maps(found: DenoisedPicture, options: Namespace, suffix: str) -> dict[str, Array]:
    """Return the arrays that are written of a picture, by name."""
    spread = {"std": found.std} if suffix == ".png" else {"variance": found.variance}
    maps = {"mean": found.mean, **spread}
    if options.interval is not None:
        low, high = found.interval(options.interval)
        maps |= {"low": low, "high": high}
    window = _window(options.window)
    if options.directions:
        where = window or (0, 0, *found.mean.shape[:2])
        values, vectors = found.directions(where, options.directions)
        spreads = np.sqrt(values).reshape(-1, *[1] * found.mean.ndim)
        maps["directions"] = (spreads * vectors).astype(np.float32)
    if options.draws:
        maps["draws"] = found.sample(options.draws, window, options.seed)
    return maps


def _window(text: str | None) -> tuple[int, int, int, int] | None:
    """Return the window that --window gives."""
    if text is None:
        return None
    numbers = text.split(",")
    if len(numbers) != 4 or not all(each.strip().isdecimal() for each in numbers):
        raise ValueError(f"--window must be ROW,COLUMN,HEIGHT,WIDTH, got {text}")
    row, column, height, width = map(int, numbers)
    return row, column, height, width
