"""Pictures as patches: places, draws, and maps that are means."""

import numpy as np
import pytest

from hosm.io import cut_patches, patch_corners, random_patches

RNG = np.random.default_rng(0)
PAGE, COLOURS = RNG.normal(size=(11, 13)), RNG.normal(size=(11, 13, 3))


def test_places_cover_the_page_and_end_at_its_edge():
    corners = patch_corners(PAGE, (4, 4), 3)
    assert corners[:, 0].max() == 7 and corners[:, 1].max() == 9
    held = np.zeros(PAGE.shape, int)
    for i, j in corners:
        held[i : i + 4, j : j + 4] += 1
    assert held.min() == 1
    assert patch_corners(PAGE, PAGE.shape, 1).tolist() == [[0, 0]]
    np.testing.assert_array_equal(cut_patches(PAGE, (4, 4), corners)[-1], PAGE[7:, 9:].ravel())


def test_draws_are_patches_of_all_pages_without_repetition():
    pages = [PAGE, PAGE[:4, :5] + 100]
    everything = random_patches(pages, (3, 3), 10**6, np.random.default_rng(0))
    assert len(everything) == 9 * 11 + 2 * 3 == len(np.unique(everything, axis=0))
    some = random_patches(pages, (3, 3), 50, np.random.default_rng(0))
    assert len(some) == 50
    assert {tuple(each) for each in some} <= {tuple(each) for each in everything}
    share = np.mean([random_patches(pages, (3, 3), 50, RNG)[:, 0].max() > 50 for _ in range(200)])
    assert share > 0.9  # 1 - (99 / 105 choose ..) = .99: the small page is drawn from too


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"must fit into a picture of \(11, 13\), got \(12, 2\)"):
        patch_corners(PAGE, (12, 2), 1)
    with pytest.raises(
        ValueError, match=r"must fit into a picture of \(11, 13, 3\), got \(2, 2\)"
    ):
        random_patches([COLOURS], (2, 2), 1, RNG)
    with pytest.raises(ValueError, match="stride must be a whole number from 1 to 2, got 3"):
        patch_corners(PAGE, (2, 4), 3)
    with pytest.raises(ValueError, match="count must be a whole number of 1 or more, got 0"):
        random_patches([PAGE], (2, 2), 0, RNG)
