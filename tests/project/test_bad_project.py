"""Bad input to the experiment ends in one line that names it and what is legal or what to do.

One table: settings, data files, models and checkpoints, commands, the estimator. Each case is an
action and the fragments that its message holds. Commands run as `python -m` would run them, in
this process, in a project whose earlier results must stay as they were.
"""

import hashlib
import json
import pickle
import runpy
import shutil
import signal
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml

import hosm
from hosm.experiment.data import datasets
from hosm.experiment.run import process, stage
from hosm.experiment.run.process import StageError
from hosm.experiment.settings import Backbone, ModelParams, load_params
from hosm.experiment.train.models import build_model, load_model, save_model
from hosm.training import load_checkpoint, save_checkpoint

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "params.yaml").read_text()
NAMED = (ValueError, OSError, ImportError, StageError, TypeError)
SIZES = {"train_points": 60, "validation_points": 20, "test_points": 20}
tried, named = [], []


# Settings -----------------------------------------------------------------------------------


def setting(*keys, value):
    """Set a value in params.yaml and read it."""

    def act(place):
        raw = yaml.safe_load(TEXT)
        section = raw
        for key in keys[:-1]:
            section = section[key]
        section[keys[-1]] = value
        (place / "params.yaml").write_text(yaml.safe_dump(raw))
        return load_params(place / "params.yaml")

    return act


def without(*keys):
    def act(place):
        raw = yaml.safe_load(TEXT)
        section = raw
        for key in keys[:-1]:
            section = section[key]
        del section[keys[-1]]
        (place / "params.yaml").write_text(yaml.safe_dump(raw))
        return load_params(place / "params.yaml")

    return act


def content(text):
    """Read a params.yaml that holds this text, or these bytes."""

    def act(place):
        data = text if isinstance(text, bytes) else text.encode()
        (place / "params.yaml").write_bytes(data)
        return load_params(place / "params.yaml")

    return act


BOMB = "a: &a [x, x]\n" + "".join(
    f"{after}: &{after} [*{before}, *{before}, *{before}]\n"
    for before, after in zip("abcdefghijklmnopqrstuvw", "bcdefghijklmnopqrstuvwx", strict=True)
)
SETTINGS = {
    "unknown section": (setting("trian", value={}), "unknown key trian", "known: ", "train"),
    "unknown key": (setting("sweep", "rnks", value=[1]), "sweep.rnks", "ranks"),
    "unknown key of a model": (
        setting("train", "planar", "lerning_rate", value=1),
        "train.planar.lerning_rate",
        "learning_rate",
    ),
    "unknown key of a backbone": (
        setting("train", "planar", "backbone", "widht", value=1),
        "train.planar.backbone.widht",
        "known: ",
        "width",
    ),
    "unknown profile": (setting("profile", value="tablet"), "'tablet'", "smoke, laptop, paper"),
    "no profile": (without("profile"), "got None", "smoke, laptop, paper"),
    "profile a list": (setting("profile", value=["smoke"]), "['smoke']", "smoke, laptop, paper"),
    "sigma of 0": (
        setting("train", "planar", "sigma", value=0.0),
        "train.planar.sigma must be above 0",
        "got 0.0",
    ),
    "sigma NaN": (
        setting("train", "planar", "sigma", value=float("nan")),
        "sigma must be finite, got nan",
    ),
    "sigma infinite": (
        setting("train", "planar", "sigma", value=float("inf")),
        "sigma must be finite, got inf",
    ),
    "sigma a text": (setting("train", "planar", "sigma", value="small"), "'small'"),
    "sigma a truth": (
        setting("train", "planar", "sigma", value=True),
        "sigma must not be true or false, got True",
    ),
    "sigmas that hold a truth": (
        setting("sweep", "sigmas", value=[True]),
        "sigmas must not be true or false, got [True]",
    ),
    "sigma a mapping": (
        setting("train", "planar", "sigma", value={"low": 1}),
        "train.planar.sigma",
    ),
    "range reversed": (
        setting("train", "mnist5k", "sigma", value=[1.0, 0.1]),
        "[1.0, 0.1]",
        "low < high",
    ),
    "rank below 0": (
        setting("train", "planar", "rank", value=-1),
        "train.planar.rank must be at least 0, got -1",
    ),
    "no steps": (
        setting("train", "planar", "max_steps", value=0),
        "max_steps must be at least 1, got 0",
    ),
    "half a batch": (
        setting("train", "planar", "batch_size", value=2.5),
        "batch_size must be a whole number, got 2.5",
    ),
    "unknown target": (setting("train", "planar", "target", value="best"), "'best'", "'jacobian'"),
    "psd with scores": (
        setting("train", "planar", "psd", value=True),
        "train.planar",
        "parametrisation must be denoiser",
    ),
    "a section missing": (without("mixing"), "mixing is missing"),
    "a key missing": (without("cluster", "workers"), "cluster.workers is missing"),
    "a section empty": (
        setting("sweep", value=None),
        "sweep must be a mapping of settings, got None",
    ),
    "a profile missing": (
        setting("prepare", "train_points", value={"smoke": 1}),
        "prepare.train_points lacks a value for laptop",
        "it has smoke",
    ),
    "a model that is a number": (
        setting("train", "planar", value=5),
        "train.planar must be a mapping of settings, got 5",
    ),
    "common as a list": (
        setting("train", "common", value=[1]),
        "train.common must be a mapping of settings, got [1]",
    ),
    "a layer that is a number": (
        setting("sweep", "gaussian100", "first", value=5),
        "sweep.gaussian100.first must be a mapping of settings, got 5",
    ),
    "data sets as a text": (
        setting("sweep", "datasets", value="ring6"),
        "sweep.datasets must be a list, got 'ring6'",
    ),
    "data sets nested": (
        setting("sweep", "datasets", value=[["ring6"]]),
        "must be among",
        "['ring6']",
    ),
    "unknown data set": (
        setting("sweep", "datasets", value=["gausian100"]),
        "'gausian100'",
        "gaussian100",
    ),
    "images as a text": (
        setting("images", value="mnist5k"),
        "images must be a list, got 'mnist5k'",
    ),
    "unknown laws": (setting("laws", value=["ring7"]), "'ring7'", "ring6"),
    "no laws": (setting("laws", value=[]), "laws must", "got none"),
    "images among laws": (setting("laws", value=["ring6", "mnist5k"]), "'mnist5k'", "plane"),
    "a law twice": (setting("laws", value=["ring6", "ring6"]), "'ring6' twice"),
    "unknown images": (setting("images", value=["mnist6k"]), "'mnist6k'", "mnist5k"),
    "too many workers": (
        setting("cluster", "workers", value=64),
        "must be at most local_cpus",
        "got 64 x 1 = 64",
    ),
    "unknown backend": (setting("cluster", "backend", value="mpi"), "'mpi'", "'gloo'"),
    "restarts below 0": (
        setting("cluster", "max_failures", value=-1),
        "max_failures must be at least 0, got -1",
    ),
    "a small object store": (
        setting("cluster", "object_store_mb", value=10),
        "at least 80",
        "got 10",
    ),
    "image sides": (setting("speed", "images", value=[[1, 30]]), "[1, 30]", "divisible by 4"),
    "step sizes reversed": (
        setting("mixing", "step_sizes", value=[1.0, 0.1]),
        "[1.0, 0.1]",
        "low < high",
    ),
    "no points": (
        setting("prepare", "train_points", value=0),
        "prepare.train_points must be at least 1, got 0",
    ),
    "sigma beyond what is learned": (
        setting("uncertainty", "sigmas", value=[3.0]),
        "must lie in [0.1, 1.0], the range of train.mnist5k",
        "got 3.0",
    ),
    "planar data unknown": (
        setting("denoising", "model", "target", value="best"),
        "denoising.model.target",
        "'best'",
    ),
    "a long text": (
        setting("prepare", "seed", value="x" * 10**6),
        "prepare.seed must be a whole number, got 'xxx",
        "...",
    ),
    "no file": (lambda place: load_params(place / "none.yaml"), "none.yaml", "No such file"),
    "an empty file": (content(""), "must hold a mapping"),
    "a list": (content("- laptop"), "must hold a mapping"),
    "a tab": (content("profile: laptop\ncluster:\n\tworkers: 1"), "line 3", r"'\t'"),
    "an open bracket": (content("profile: [laptop"), "cannot read", "line 1"),
    "an alias": (
        content("profile: &p laptop\nagain: *p"),
        "line 2",
        "alias *p",
        "values must be plain",
    ),
    "a bomb of aliases": (content(BOMB), "line 2", "alias *a"),
    "too deep": (content("profile: " + "[" * 10**5), "cannot read", "recursion"),
    "a key twice": (content(TEXT + "\nprofile: smoke\n"), "must appear once", "profile twice"),
    "a key that is no text": (
        content("profile: laptop\non: 1"),
        "a key must be a text",
        "got True",
    ),
    "bytes that are no text": (content(b"profile: \xff"), "params.yaml", "utf-8"),
    "an object of Python": (
        content("profile: !!python/object:os.system {}"),
        "could not determine",
    ),
    "two documents": (content("profile: laptop\n---\nprofile: smoke"), "cannot read", "document"),
}

# Data ---------------------------------------------------------------------------------------


def prepared(damage):
    """Damage the prepared data set and load it."""

    def act(place):
        folder = place / "data/prepared/two-modes"
        damage(folder)
        return datasets.load(folder)

    return act


def array(name, values, **options):
    return lambda folder: np.save(folder / name, values, **options)


def truncated(path):
    path.write_bytes(path.read_bytes()[:-9])


def card(**entries):
    def damage(folder):
        path = folder / "card.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | entries))

    return damage


def own(name, write):
    """Write a user's file and read it."""

    def act(place):
        write(place / name)
        return datasets.prepare(name, **SIZES, seed=0, folder=place)

    return act


POINTS = np.random.default_rng(0).normal(size=(100, 2)).astype(np.float32)
OBJECTS = np.array([{"a": 1}], dtype=object)
DATA = {
    "no folder": (
        lambda place: datasets.load(place / "data/prepared/none"),
        "prepared/none does not exist",
        "dvc repro prepare",
    ),
    "a file missing": (prepared(lambda f: (f / "train.npy").unlink()), "train.npy does not exist"),
    "a card missing": (prepared(lambda f: (f / "card.json").unlink()), "card.json does not exist"),
    "an empty file": (
        prepared(lambda f: (f / "train.npy").write_bytes(b"")),
        "train.npy is truncated",
    ),
    "a truncated file": (prepared(lambda f: truncated(f / "test.npy")), "test.npy is truncated"),
    "a truncated card": (prepared(lambda f: truncated(f / "card.json")), "card.json is truncated"),
    "another dtype": (
        prepared(array("train.npy", POINTS[:60].astype(int))),
        "train.npy",
        "float32",
    ),
    "NaN": (
        prepared(array("train.npy", POINTS[:60] * np.nan)),
        "train.npy must hold finite float32 numbers",
    ),
    "objects": (
        prepared(array("train.npy", OBJECTS, allow_pickle=True)),
        "train.npy",
        "allow_pickle=False",
    ),
    "another shape": (
        prepared(array("train.npy", POINTS[:59])),
        "train.npy",
        "(59, 2)",
        "(60, 2)",
    ),
    "other values": (prepared(array("train.npy", POINTS[:60])), "train.npy was altered", "hash"),
    "a card of another hash": (prepared(card(sha256="0")), "card.json", "sha256"),
    "a card of other files": (
        prepared(card(files={"../x.npy": ""})),
        "'../x.npy'",
        "must be among",
    ),
    "a card that is a list": (
        prepared(lambda f: (f / "card.json").write_text("[]")),
        "card.json",
        "must be a",
    ),
    "a foreign folder": (
        lambda place: datasets.save(datasets.load(place / "data/prepared/two-modes"), place),
        "must hold a data set or nothing",
        "holds other files",
    ),
    "unknown name": (lambda place: datasets.prepare("ring7", **SIZES, seed=0), "'ring7'", "ring6"),
    "no points": (
        lambda place: datasets.prepare("ring6", **SIZES | {"test_points": 0}, seed=0),
        "test_points must be at least 1",
        "got 0",
    ),
    "no file": (
        lambda place: datasets.prepare("x.npy", **SIZES, seed=0, folder=place),
        "x.npy does not exist",
    ),
    "too few rows": (
        own("x.npy", lambda p: np.save(p, POINTS[:99])),
        "at most 99 points",
        "got 100",
    ),
    "a vector": (
        own("x.npy", lambda p: np.save(p, POINTS[:, 0])),
        "(100,)",
        "must hold an array of shape (n, D)",
    ),
    "texts": (
        own("x.npy", lambda p: np.save(p, POINTS.astype(str))),
        "<U",
        "must hold real numbers",
    ),
    "infinite values": (own("x.npy", lambda p: np.save(p, np.inf * POINTS)), "finite numbers"),
    "an object array": (
        own("x.npy", lambda p: np.save(p, OBJECTS, allow_pickle=True)),
        "x.npy",
        "pickle",
    ),
    "a pickled archive": (own("x.npz", lambda p: np.savez(p, x=OBJECTS)), "x.npz", "pickle"),
    "a pickle by the name of an archive": (
        own("x.npz", lambda p: p.write_bytes(pickle.dumps({}))),
        "x.npz",
        "pickle",
    ),
    "two arrays": (
        own("x.npz", lambda p: np.savez(p, a=POINTS, b=POINTS)),
        "['a', 'b']",
        "must hold one array",
    ),
    "a truncated archive": (
        own("x.npz", lambda p: (np.savez(p, a=POINTS), truncated(p))),
        "x.npz cannot be read: ",
    ),
    "a column of texts": (
        own("x.csv", lambda p: p.write_text("a,b\n1,red\n2,blue\n")),
        "the column 'b' must hold numbers, got 'red' in row 1",
        "cannot be read",
    ),
    "a hole in a table": (
        own("x.csv", lambda p: p.write_text("a,b\n1,2\n3,\n")),
        "got a missing cell or NaN in 1 of 2 rows, first in line 3, column b",
        "cannot be read",
    ),
    "an empty table": (own("x.csv", lambda p: p.write_text("")), "x.csv"),
    "no parquet": (own("x.parquet", lambda p: p.write_text("none")), "x.parquet"),
}

# Models and checkpoints ---------------------------------------------------------------------

SPEC = ModelParams(
    backbone=Backbone(kind="mlp", shared=False, width=8, second_width=8),
    sigma=0.5,
    rank=1,
    learning_rate=1e-3,
    batch_size=8,
    max_steps=1,
    average_width=0.0,
    validate_every=1,
)


def model(damage):
    """Damage the saved model and load it."""

    def act(place):
        folder = place / "data/models/planar/two-modes"
        damage(folder)
        return load_model(folder)

    return act


def bent(folder):
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-3] ^= 1
    path.write_bytes(data)


def settings_of(**changes):
    def damage(folder):
        path = folder / "card.json"
        inside = json.loads(path.read_text())
        inside["settings"] |= changes
        path.write_text(json.dumps(inside))

    return damage


def checkpoint(damage):
    """Damage a checkpoint and load it."""

    def act(place):
        path = place / "state.pt"
        save_checkpoint({"step": 1, "x": torch.ones(9)}, path)
        damage(path)
        return load_checkpoint(path)

    return act


def rewritten(data):
    """Replace a checkpoint by other bytes, with their right checksum."""

    def damage(path):
        path.write_bytes(hashlib.sha256(data).hexdigest().encode() + b"\n" + data)

    return damage


MODELS = {
    "no folder": (
        lambda place: load_model(place / "none"),
        "none does not exist",
        "run the stage",
    ),
    "no weights": (
        model(lambda f: (f / "model.safetensors").unlink()),
        "no complete model",
        "train it anew",
    ),
    "no card": (model(lambda f: (f / "card.json").unlink()), "no complete model", "train it anew"),
    "truncated weights": (
        model(lambda f: truncated(f / "model.safetensors")),
        "no complete model",
    ),
    "weights of one other bit": (model(bent), "model.safetensors was altered", "card.json"),
    "a pickle for weights": (
        model(lambda f: (f / "model.safetensors").write_bytes(pickle.dumps({"a": 1}))),
        "no complete model",
    ),
    "a card that is a list": (
        model(lambda f: (f / "card.json").write_text("[]")),
        "must hold an object",
    ),
    "a truncated card": (model(lambda f: truncated(f / "card.json")), "no complete model"),
    "a card of another width": (
        model(settings_of(backbone={"kind": "mlp", "shared": False, "width": 9})),
        "do not fit its card",
        "size mismatch",
    ),
    "a card of an unknown target": (model(settings_of(target="best")), "card.json", "'jacobian'"),
    "a card of an unknown key": (model(settings_of(lerning_rate=1)), "card.json", "lerning_rate"),
    "a card without settings": (model(lambda f: card(settings=None)(f)), "no complete model"),
    "a card of another dimension": (model(lambda f: card(shape=[7])(f)), "do not fit its card"),
    "no checkpoint": (lambda place: load_checkpoint(place / "none.pt"), "none.pt"),
    "a checkpoint without checksum": (
        checkpoint(lambda p: p.write_bytes(p.read_bytes().partition(b"\n")[2])),
        "state.pt is damaged",
    ),
    "a truncated checkpoint": (checkpoint(truncated), "state.pt is damaged", "checksum"),
    "an altered checkpoint": (checkpoint(lambda p: p.write_bytes(b"x")), "state.pt is damaged"),
    "a checkpoint that would run code": (
        checkpoint(rewritten(pickle.dumps(print))),
        "state.pt",
        "no checkpoint of tensors",
    ),
    "a checkpoint of text": (
        checkpoint(rewritten(b"text")),
        "state.pt",
        "no checkpoint of tensors",
    ),
}

# Commands -----------------------------------------------------------------------------------


def command(module, *arguments, **environment):
    """Run `python -m module arguments` with these variables set, in the project."""

    def act(place):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(process, "PROJECT", place)
            patch.setattr(stage, "PROJECT", place)
            patch.setattr(sys, "argv", [module, *arguments])
            patch.setenv("MLFLOW_TRACKING_URI", "off")
            patch.delenv("DVC_STAGE", raising=False)
            for name in ("RAY_ADDRESS", "RAY_API_SERVER_ADDRESS", "HOSM_STORAGE"):
                patch.delenv(name, raising=False)
            for name, value in environment.items():
                patch.setenv(name, value)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)  # of what is imported already
                runpy.run_module(module, run_name="__main__")

    return act


EXCHANGE, SUBMIT = "hosm.experiment.run.exchange", "hosm.experiment.cluster.submit"
COMMANDS = {
    "train an unknown model": (
        command("pipeline.train", "nosuch"),
        "'nosuch'",
        "must be one of",
        "ring6",
    ),
    "train without a name": (command("pipeline.train"), "the arguments of", "'name'"),
    "train with two names": (
        command("pipeline.train", "a", "b"),
        "the arguments of",
        "too many",
    ),
    "train before the data": (
        command("pipeline.train", "ring6"),
        "data/prepared/ring6 does not exist",
        "dvc repro prepare",
    ),
    "prepare unknown data": (
        command("pipeline.prepare", "nosuch"),
        "'nosuch'",
        "must be one of",
        "ring6",
    ),
    "sweep with a name": (command("pipeline.sweep", "ring6"), "the arguments of", "too many"),
    "sweep before the data": (command("pipeline.sweep"), "does not exist", "dvc repro prepare"),
    "accuracy before the sweep": (
        command("pipeline.accuracy"),
        "trials.csv does not exist",
        "run the stage",
    ),
    "mixing of an unknown model": (
        command("pipeline.mixing", "nosuch"),
        "models/planar/nosuch does not exist",
    ),
    "scales of unknown images": (
        command("pipeline.scales", "nosuch"),
        "prepared/nosuch does not exist",
    ),
    "uncertainty of unknown images": (
        command("pipeline.uncertainty", "nosuch"),
        "prepared/nosuch",
    ),
    "classifier of unknown images": (command("pipeline.classifier", "nosuch"), "prepared/nosuch"),
    "diversity of unknown images": (command("pipeline.diversity", "nosuch"), "prepared/nosuch"),
    "a cluster that is away": (
        command("pipeline.train", "two-modes", RAY_ADDRESS="127.0.0.1:9"),
        "no Ray cluster answers at RAY_ADDRESS=127.0.0.1:9",
        "ray start --head",
    ),
    "a cluster's address of another kind": (
        command("pipeline.train", "two-modes", RAY_ADDRESS="http://host:8265"),
        "got 'http://host:8265'",
        "must be host:port",
    ),
    "report before anything": (command("pipeline.report"), "does not exist", "run the stage"),
    "an unknown stage": (command("pipeline.nosuch"), "pipeline.nosuch"),
    "submit an unknown stage": (
        command(SUBMIT, "train@nosuch", HOSM_STORAGE="/shared"),
        "'train@nosuch'",
        "train@ring6",
    ),
    "submit without a name": (command(SUBMIT), "the arguments of"),
    "submit without a place": (
        command(SUBMIT, "sweep"),
        "HOSM_STORAGE must be a folder or URI",
        "is not set",
    ),
    "submit to a relative place": (
        command(SUBMIT, "sweep", HOSM_STORAGE="shared"),
        "'shared'",
        "must be an absolute path",
    ),
    "submit to an unknown kind of place": (
        command(SUBMIT, "sweep", HOSM_STORAGE="s4://ada:word@bucket"),
        "s4://***@bucket",
        "Protocol not known",
    ),
    "submit to a place whose package is missing": (
        command(SUBMIT, "sweep", HOSM_STORAGE="s3://bucket"),
        "s3fs",
    ),
    "submit to no dashboard": (
        command(
            SUBMIT,
            "prepare@ring6",
            HOSM_STORAGE="/tmp",
            RAY_API_SERVER_ADDRESS="http://127.0.0.1:9",
        ),
        "http://127.0.0.1:9",
        "set RAY_API_SERVER_ADDRESS",
    ),
    "push before the data": (
        command(EXCHANGE, "push", "train@ring6", HOSM_STORAGE="/tmp"),
        "data/prepared/ring6 does not exist",
        "run the stage before",
    ),
    "pull what is not there": (
        command(EXCHANGE, "pull", "train@ring6", HOSM_STORAGE="memory://none"),
        "holds no data/models/planar/ring6",
    ),
    "exchange in an unknown direction": (
        command(EXCHANGE, "fetch", "sweep", HOSM_STORAGE="/tmp"),
        "'fetch'",
        "must be push or pull",
    ),
    "a doctor of an unknown option": (
        command("hosm.experiment.doctor", "--js"),
        "'--js'",
        "must be --json",
    ),
}

# The estimator ------------------------------------------------------------------------------


def fit(X=POINTS, **parameters):
    return lambda place: hosm.ScoreEstimator(**{"max_steps": 1, "rank": 1} | parameters).fit(X)


FITTED = []


def fitted(action):
    """Do something with an estimator that is fitted once."""

    def act(place):
        if not FITTED:
            FITTED.append(fit(random_state=0)(place))
        return action(FITTED[0], place)

    return act


def file(write):
    """Write an estimator's file otherwise, and load it."""

    def act(est, place):
        est.save(place / "e.safetensors")
        write(place / "e.safetensors")
        return hosm.ScoreEstimator.load(place / "e.safetensors")

    return fitted(act)


ESTIMATOR = {
    "X a vector": (fit(POINTS[:, 0]), "(100,)", "must have shape (n, D)"),
    "X with NaN": (fit(POINTS * np.nan), "X must hold finite numbers", "got NaN"),
    "X of texts": (fit(POINTS.astype(str)), "X must hold real numbers", "got <U"),
    "X complex": (fit(POINTS * 1j), "Complex data not supported"),
    "X of three points": (fit(POINTS[:3]), "3 sample(s)", "minimum of 4"),
    "X without columns": (fit(POINTS[:, :0]), "0 feature(s)"),
    "sigma below 0": (fit(sigma=-1.0), "-1.0"),
    "sigma a word": (fit(sigma="best"), "'best'", "'auto'"),
    "no sigma": (fit(sigma=[]), "sigma must hold at least one number"),
    "rank above D": (fit(rank=3), "rank must be", "from 0 to 2, got 3"),
    "unknown target": (fit(target="best"), "'best'", "jacobian, residual, moment"),
    "no steps": (fit(max_steps=0), "max_steps must be", "1 or more, got 0"),
    "half a batch": (fit(batch_size=0.5), "batch_size must be", "got 0.5"),
    "validation of all": (
        fit(validation_fraction=1.0),
        "validation_fraction must be",
        "between 0 and 1, got 1.0",
    ),
    "random state a text": (fit(random_state="a"), "random_state must be", "got a"),
    "a question before fit": (lambda place: hosm.ScoreEstimator().hessian(POINTS), "not fitted"),
    "saving before fit": (lambda place: hosm.ScoreEstimator().save(place / "e"), "not fitted"),
    "other columns": (fitted(lambda est, _: est.score_function(POINTS[:, :1])), "1 features", "2"),
    "saving into no folder": (fitted(lambda est, place: est.save(place / "none/e")), "none"),
    "loading no file": (lambda place: hosm.ScoreEstimator.load(place / "none"), "none"),
    "loading text": (file(lambda path: path.write_text("text")), "e.safetensors", "damaged"),
    "loading half a file": (file(truncated), "e.safetensors", "damaged"),
    "loading a pickle": (file(lambda path: path.write_bytes(pickle.dumps({}))), "damaged"),
    "loading with parts": (
        fitted(
            lambda est, place: (
                est.save(place / "e"),
                hosm.ScoreEstimator.load(place / "e", head=torch.nn.Linear(2, 4)),
            )
        ),
        "must be loaded with no module",
        "head",
    ),
}

TABLES = {
    "settings": SETTINGS,
    "data": DATA,
    "models": MODELS,
    "commands": COMMANDS,
    "estimator": ESTIMATOR,
}
CASES = [
    pytest.param(action, fragments, id=f"{kind}: {name}")
    for kind, table in TABLES.items()
    for name, (action, *fragments) in table.items()
]


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    """A project with settings, one prepared data set and one saved model."""
    root = tmp_path_factory.mktemp("template")
    for name in ("params.yaml", "dvc.yaml"):
        shutil.copy(ROOT / name, root / name)
    data = datasets.prepare("two-modes", **SIZES, seed=0)
    datasets.save(data, root / "data/prepared/two-modes")
    weights = build_model(SPEC, (2,), 1.0).state_dict()
    save_model(weights, SPEC, (2,), 1.0, root / "data/models/planar/two-modes")
    return root


@pytest.fixture
def place(template, tmp_path):
    """A copy of the project; the process's handler of SIGTERM, which commands set, is kept."""
    handler = signal.getsignal(signal.SIGTERM)
    yield Path(shutil.copytree(template, tmp_path / "project"))
    signal.signal(signal.SIGTERM, handler)


@pytest.fixture(scope="module", autouse=True)
def summary(request):
    """Print how many cases were tried, and how many of them named."""
    yield
    missed = [name for name in tried if name not in named]
    counts = f"{len(tried)} tried, {len(named)} named, {len(missed)} not named"
    with request.config.pluginmanager.get_plugin("capturemanager").global_and_fixture_disabled():
        print(f"\nbad input: {counts} {missed or ''}")


def message(action, place, capsys):
    """Return the one line in which an action ends."""
    try:
        action(place)
    except NAMED as error:
        return str(error)
    except SystemExit as stop:
        if isinstance(stop.code, str):  # Python prints it, and exits with status 1
            return stop.code
        assert stop.code == 1
        lines = capsys.readouterr().err.splitlines()
        (line,) = [line for line in lines if line.startswith("error: ")]
        assert not any("Traceback" in each for each in lines)
        return line
    raise AssertionError("it was taken for good input")


def tree(folder):
    files = [path for path in (folder / "data").rglob("*") if path.is_file()]
    return {path: path.read_bytes() for path in files}


@pytest.mark.parametrize(("action", "fragments"), CASES)
def test_bad_input_to_the_experiment_is_named(action, fragments, place, capsys, request):
    case = request.node.callspec.id
    tried.append(case)
    before = tree(place)
    text = message(action, place, capsys)
    assert "\n" not in text and len(text) < 2500
    for fragment in fragments:
        assert fragment in text
    if case.startswith("commands"):
        assert tree(place) == before  # what earlier stages wrote
    named.append(case)


def test_the_table_is_as_large_as_it_should_be():
    assert len(CASES) >= 60
