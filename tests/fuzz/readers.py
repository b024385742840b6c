"""Every reader of files, a small good file for each, and what a bad file may end in: one line.

A reader is a function of a path. Whatever the bytes, it must return, or raise one of `LEGAL` with
one line that names the file.
"""

import gzip
import io
import json
import pickle
import warnings
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from PIL import Image

import hosm
from hosm.experiment.data import sources
from hosm.experiment.settings import load_params
from hosm.experiment.shared.files import read_arrays, read_frame, read_json
from hosm.io import read_pages, read_rows, write, write_archive
from hosm.pictures import PictureDenoiser
from hosm.training.checkpoints import load_checkpoint, packed

ROOT = Path(__file__).resolve().parents[2]
WORK = ROOT / "build" / "fuzz"
CASES = Path(__file__).parent / "cases"
LEGAL = (ValueError, OSError, ImportError, RuntimeError)  # RuntimeError: a StageError alone
ROWS = np.arange(12.0).reshape(4, 3) / 7
PAGE = np.arange(48, dtype=np.uint8).reshape(6, 8)


def _idx(path):
    return sources.read(path, sources._idx)


def _cifar(path):
    return sources.read(path, sources._cifar_batch)


def _npy(path):
    return sources.read(path, sources.read_npy)


def _frame(path):
    return read_frame(path, "")


READERS = {  # suffix of the file, and how it is read
    "npy": (".npy", read_rows),
    "npz": (".npz", read_rows),
    "csv": (".csv", read_rows),
    "txt": (".txt", read_rows),
    "parquet": (".parquet", read_rows),
    "xlsx": (".xlsx", read_rows),
    "png": (".png", read_pages),
    "jpg": (".jpg", read_pages),
    "bmp": (".bmp", read_pages),
    "webp": (".webp", read_pages),
    "tif": (".tif", read_pages),
    "model": (".hosm", hosm.ScoreEstimator.load),
    "denoiser": (".hosm", PictureDenoiser.load),
    "params": (".yaml", load_params),
    "results-csv": (".csv", _frame),
    "results-npz": (".npz", read_arrays),
    "card": (".json", read_json),
    "data-npy": (".npy", _npy),
    "idx": ("", _idx),
    "idx-gz": (".gz", _idx),
    "cifar": ("", _cifar),
    "cifar-binary": (".bin", _cifar),
    "checkpoint": (".pt", load_checkpoint),
}


def ends_well(name, path):
    """Return None if a file is read or refused as it should be, and else what went wrong."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            READERS[name][1](path)
    except LEGAL as error:
        text = str(error)
        if "\n" in text.strip():
            return f"{type(error).__name__} of several lines: {text[:200]}"
        if not text.strip():
            return f"{type(error).__name__} without a word"
        if path.name not in text and name != "params":
            return f"{type(error).__name__} without the file's name: {text[:200]}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    return None


def good_files(folder):
    """Write a small good file for each reader; return the paths by its name."""
    places = {name: folder / f"good-{name}{suffix}" for name, (suffix, _) in READERS.items()}
    for name in ("npy", "npz", "csv", "parquet", "data-npy", "results-npz", "results-csv"):
        write(places[name], {"x": ROWS}, ["a", "b", "c"])
    places["txt"].write_text("# a b c\n1,5 2,25 3,0\n4,5 5,0 6,0\n")
    pd.DataFrame(ROWS, columns=["a", "b", "c"]).to_excel(places["xlsx"], index=False)
    for name in ("png", "jpg", "bmp", "webp"):
        Image.fromarray(PAGE).save(places[name])
    write(places["tif"], {"x": PAGE[None].astype(np.float32)})
    rows = np.random.default_rng(0).normal(size=(60, 2))
    estimator = hosm.ScoreEstimator(sigma=0.5, method="closed-form", random_state=0)
    estimator.fit(rows).save(places["model"])
    _small_denoiser().save(places["denoiser"])
    places["params"].write_text((ROOT / "params.yaml").read_text())
    places["card"].write_text(json.dumps({"name": "x", "numbers": [1, 2.5, None]}))
    _data_files(places)
    places["checkpoint"].write_bytes(packed({"step": 3, "weights": {"w": torch.ones(2, 2)}}))
    return places


def _small_denoiser():
    denoiser = PictureDenoiser((5, 10), widths=(8, 8), blocks=1, rank=1, max_steps=1)
    denoiser.sigma_, denoiser.unit_, denoiser.history_ = (5.0, 10.0), 255.0, []
    denoiser.noise_ = denoiser.factors_ = None
    denoiser.pairs_ = False
    denoiser.model_ = denoiser._model(1)
    return denoiser


def _data_files(places):
    header = b"\0\0\x08\x03" + np.array([2, 28, 28], ">u4").tobytes()
    places["idx"].write_bytes(header + bytes(2 * 784))
    places["idx-gz"].write_bytes(gzip.compress(header + bytes(2 * 784), mtime=0))
    batch = {"data": np.zeros((2, 3072), np.uint8), "labels": [0, 1]}
    places["cifar"].write_bytes(pickle.dumps(batch, protocol=2))
    places["cifar-binary"].write_bytes(bytes(2 * 3073))


def plain_archive(path, card):
    """Write an archive of one small tensor with any card."""
    write_archive(path, {"mean": torch.zeros(2)}, card)


def zipped(members):
    """Return a zip archive of texts or bytes by name, as bytes."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return stream.getvalue()
