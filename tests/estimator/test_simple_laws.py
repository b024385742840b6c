"""The simple laws of a table: as scikit-learn fits them, of as many terms as there are."""

import numpy as np
import pytest
import torch

from hosm.estimator.elliptical_law import SCALES
from hosm.estimator.simple_laws import SimpleLaw, simple_laws
from tests.tolerances import FLOAT64

RNG = np.random.default_rng(0)
ELLIPTICAL = SimpleLaw(len(SCALES), "multiples")
TWO = torch.from_numpy(np.r_[RNG.normal(size=(300, 2)), RNG.normal(size=(300, 2)) * 0.5 + 5])


def test_the_first_law_is_the_shrunk_gaussian_and_clusters_are_found():
    laws = simple_laws(TWO)
    assert laws[0] == SimpleLaw(1, "shrunk")
    assert SimpleLaw(2, "diag") in laws


@pytest.mark.parametrize(("freedom", "tried"), [(3, True), (None, False)])
def test_the_elliptical_law_is_tried_where_tails_are_heavy(freedom, tried):
    x = RNG.normal(size=(300, 3))
    if freedom:
        x *= np.sqrt(freedom / RNG.chisquare(freedom, size=(300, 1)))
    assert (ELLIPTICAL in simple_laws(torch.from_numpy(x))) == tried


@pytest.mark.parametrize("kind", ["full", "tied", "diag"])
def test_a_mixture_has_the_clusters_of_the_data(kind):
    law = SimpleLaw(2, kind).fit(TWO)
    means = law.means[law.means[:, 0].argsort()]
    np.testing.assert_allclose(means, [[0, 0], [5, 5]], atol=4 / 300**0.5)  # four standard errors
    assert law.covariances.shape == (2, 2, 2)


def test_laws_have_no_more_numbers_than_the_data_bear():
    few = torch.from_numpy(RNG.normal(size=(12, 40)))
    assert all(law.covariance in ("shrunk", "multiples", "diag") for law in simple_laws(few))


def test_a_law_says_what_it_is():
    assert str(SimpleLaw(3, "tied")) == "a mixture of 3 Gaussians with shared covariances"
    assert str(ELLIPTICAL) == "an elliptical law with the tails of the data"


def test_a_prior_draws_covariances_towards_their_target():
    x = torch.cat(
        [
            torch.randn(30, 2, generator=torch.Generator().manual_seed(k)).double() * s + 6 * k
            for k, s in ((0, 1.0), (1, 0.2))
        ]
    )
    plain, shrunk = (SimpleLaw(2, "full", prior).fit(x) for prior in (0.0, 3.0))
    pooled = sum(w * c for w, c in zip(plain.weights, plain.covariances, strict=True))
    for k, (weight, own) in enumerate(zip(plain.weights, plain.covariances, strict=True)):
        share = 6 / (6 + 60 * weight)  # of a prior of 3 rows for each of 2 columns
        expected = (1 - share) * own + share * (pooled + own.diagonal().diag()) / 2
        torch.testing.assert_close(shrunk.covariances[k], expected, **FLOAT64)


def test_rows_that_fill_no_volume_have_simple_laws():
    x = torch.from_numpy(RNG.standard_t(3, size=(200, 2)))
    laws = simple_laws(torch.cat([x, x[:, :1], torch.zeros(200, 1, dtype=torch.float64)], 1))
    assert laws[0] == SimpleLaw(1, "shrunk")
