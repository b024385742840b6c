"""PSNR by method, error bars and their coverage, and whose the pictures are."""

from collections.abc import Sequence

import pandas as pd

from hosm.experiment.photos.results import OURS, Photos, PhotosRun
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.coverage import LEVELS
from hosm.experiment.shared.rows import Row, groups

__all__ = ["bars_table", "coverage_table", "photos_tables", "psnr_table", "published_table"]

NAMES = {OURS: "PictureDenoiser"}
PUBLISHED = {  # DRUNet by Zhang, Li, Zuo, Zhang, Van Gool and Timofte, TPAMI 2021
    ("grey", "BSD68"): {15: 31.91, 25: 29.48, 50: 26.59},
    ("colour", "CBSD68"): {15: 34.30, 25: 31.69, 50: 28.51},
}


def _named(method: object) -> str:
    return NAMES.get(str(method), str(method))


def psnr_table(quality: pd.DataFrame) -> pd.DataFrame:
    """Return the mean PSNR over pictures by kind, noise scale and method, in dB.

    Args:
        quality: as in `results.PhotosRun`.
    """
    rows = []
    for (kind, sigma), part in groups(quality, "kind", "sigma"):
        means = part.groupby("method", sort=False)["psnr"].mean()
        texts = {_named(name): f"{value:.2f}" for name, value in means.items()}
        best = _named(means.idxmax())
        about = {"Pictures": f"{part['picture'].nunique()} {kind}", "Noise": f"{sigma:g} of 255"}
        rows.append({**about, **texts, best: formats.bold(texts[best])})
    return pd.DataFrame(rows).fillna(formats.DASH)


def seconds_table(quality: pd.DataFrame) -> pd.DataFrame:
    """Return the median seconds of a picture by kind and method."""
    rows = []
    for kind, part in groups(quality, "kind"):
        medians = part.groupby("method", sort=False)["seconds"].median()
        texts = {_named(name): formats.number(value, 2) for name, value in medians.items()}
        rows.append({"Pictures": kind, **texts})
    return pd.DataFrame(rows).fillna(formats.DASH)


def published_table() -> pd.DataFrame:
    """Return what is published of a large network on other pictures, in dB."""
    rows = []
    for (kind, pictures), values in PUBLISHED.items():
        texts = {f"Noise {sigma} of 255": f"{value:.2f}" for sigma, value in values.items()}
        rows.append({"Other pictures": f"{pictures}, {kind}", "Method": "DRUNet, 2021", **texts})
    return pd.DataFrame(rows)


def _bars_row(kind: str, sigma: float, method: str, part: pd.DataFrame) -> Row:
    coverages = [100 * part[f"coverage_{level:g}"].mean() for level in LEVELS]
    return {
        "Pictures": kind,
        "Noise": f"{sigma:g} of 255",
        "Error bars": _named(method),
        "Measured over predicted variance": formats.number(float(part["ratio"].mean())),
        "Least to most of a picture": f"{part['ratio'].min():.2f} to {part['ratio'].max():.2f}",
        "The same without the truth": formats.number(float(part["known"].mean())),
        "Coverage of 50 / 80 / 95 %": " / ".join(f"{each:.1f}" for each in coverages),
        "Correlation with the error": f"{part['correlation'].mean():.2f}",
        "Local variance’s": f"{part['local_correlation'].mean():.2f}",
    }


def bars_table(error_bars: pd.DataFrame) -> pd.DataFrame:
    """Return what is measured of error bars, means over pictures.

    Args:
        error_bars: as in `results.PhotosRun`.
    """
    found = groups(error_bars, "kind", "sigma", "method")
    return pd.DataFrame(
        [_bars_row(kind, sigma, name, part) for (kind, sigma, name), part in found]
    )


def coverage_table(coverage: pd.DataFrame) -> pd.DataFrame:
    """Return the coverage of intervals before and after calibration on other pictures.

    Args:
        coverage: as in `results.PhotosRun`.
    """
    rows = []
    for (kind, sigma), part in groups(coverage, "kind", "sigma"):
        for row in part.to_dict("records"):
            spread = f"{100 * row['least']:.1f} to {100 * row['most']:.1f}"
            held = row["pictures"]
            rows.append(
                {
                    "Pictures": kind,
                    "Noise": f"{sigma:g} of 255",
                    "Stated": f"{100 * row['level']:g} %",
                    "Held": f"{100 * row['plain']:.1f} %",
                    "Held, calibrated": f"{100 * row['calibrated']:.1f} %",
                    "In a picture": spread,
                    "Pictures that hold as much, calibrated by picture": formats.DASH
                    if pd.isna(held)
                    else f"{held:.0%}",
                }
            )
    return pd.DataFrame(rows)


def _sources(run: PhotosRun) -> pd.DataFrame:
    heads = {"picture": "Picture", "package": "Package", "source": "Source", "licence": "Licence"}
    return pd.DataFrame(run.card["pictures"]).rename(columns=heads)


def _of_run(run: PhotosRun, names: Sequence[str]) -> dict[str, pd.DataFrame]:
    tables = [
        psnr_table(run.quality),
        seconds_table(run.quality),
        bars_table(run.error_bars),
        coverage_table(run.coverage),
        _sources(run),
    ]
    return dict(zip(names, tables, strict=True))


def photos_tables(found: Photos) -> dict[str, pd.DataFrame]:
    """Return the tables of the study, by their files' names."""
    parts = ("psnr", "seconds", "bars", "coverage", "sources")
    tables = _of_run(found.run, [f"photos-{part}" for part in parts])
    tables["photos-published"] = published_table()
    if found.whole is not None:
        tables |= _of_run(found.whole, [f"photos-{part}-whole" for part in parts])
    return tables
