"""Made images: the same for each file number, of many kinds, and no file is made twice."""

import numpy as np

from hosm.experiment.data.made_images import made_images, make_folder
from hosm.experiment.data.shards import ShardedRows


def test_images_depend_on_their_seed_alone_and_differ():
    one, other = made_images(20, 16, 3), made_images(20, 16, 3)
    assert one.dtype == np.uint8 and one.shape == (20, 3, 16, 16)
    assert np.array_equal(one, other)
    assert not np.array_equal(one, made_images(20, 16, 4))
    assert len({image.tobytes() for image in one}) == 20
    spread = one.astype(float).std((1, 2, 3))
    assert spread.min() > 1 and spread.max() > 2 * spread.min()  # of the contrasts


def test_neighbouring_pixels_are_alike():
    images = made_images(50, 32, 0).astype(float)
    steps = np.diff(images, axis=3).std()
    assert steps < 2**0.5 * images.std() / 2  # half of what independent pixels have


def test_a_folder_that_is_half_made_is_gone_on_with(tmp_path):
    make_folder(tmp_path, 1, 4, 8)
    first = (tmp_path / "000000.npy").stat()
    told = []
    make_folder(tmp_path, 3, 4, 8, told.append)
    assert told == [1, 2, 3]
    assert (tmp_path / "000000.npy").stat().st_mtime_ns == first.st_mtime_ns
    assert len(ShardedRows(tmp_path, unit=127.5, low=-1.0)) == 12
    assert np.array_equal(np.load(tmp_path / "000002.npy"), made_images(4, 8, 2))
