"""Figures 3 and 4: calibration and directions of denoisers whose truth is known."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from hosm.distributions import Gaussian
from hosm.experiment.settings import UncertaintyParams
from hosm.experiment.uncertainty.study import calibration, directions
from hosm.operators import DiagonalPlusLowRank
from tests.tolerances import FLOAT32, monte_carlo

SHAPE, D, SIGMA, RANK = [1, 8, 8], 64, 0.5, 3
PARAMS = UncertaintyParams(
    sigmas=(SIGMA,),
    shown=4,
    images=200,
    mapped=120,
    draws=3,
    likelihood_draws=2,
    direction_images=100,
    direction_sigma=SIGMA,
    iterations=(5, 30),
    repeats=2,
    seed=0,
)


def covariance():
    """Of the clean images: a few strong directions and pixels of unlike variance."""
    U = torch.randn(D, RANK, generator=torch.Generator().manual_seed(0)) / 2
    return DiagonalPlusLowRank(torch.logspace(-4, -1, D), U * torch.tensor([3.0, 2.0, 1.0]))


LAW = Gaussian(torch.zeros(D), covariance().to_dense())


def images(n, seed=1):
    return LAW.sample(n, torch.Generator().manual_seed(seed)).float()


class Exact:
    """The exact model of a Gaussian; its C may be scaled, and without its off-diagonal."""

    sigma = SIGMA

    def __init__(self, scale=1.0):
        eye = torch.eye(D)
        self.hessian = -torch.linalg.inv((covariance().to_dense() + SIGMA**2 * eye).double())
        C = SIGMA**4 * self.hessian + SIGMA**2 * eye.double()
        values, vectors = torch.linalg.eigh(C)
        least = values[0] * 0.99
        factor = vectors * (values - least).sqrt()
        self.C = DiagonalPlusLowRank(least.expand(D), factor).to(torch.float32)
        self.scale = scale

    def dense(self):
        return self.scale * self.C.to_dense()

    def first_order(self):
        return self

    def score(self, x):
        return x @ self.hessian.float()

    def __call__(self, x):
        n = len(x)
        d = (self.scale * self.C.diag - SIGMA**2) / SIGMA**4
        factor = math.sqrt(self.scale) * self.C.factor / SIGMA**2
        return self.score(x), DiagonalPlusLowRank(d.expand(n, D), factor.expand(n, -1, -1))


@pytest.fixture(scope="module")
def judged():
    return calibration.judge(Exact(), images(400), images(200, 2), SHAPE, 3, PARAMS)


def test_a_right_covariance_is_judged_right(judged):
    """Of means over images, which are independent; pixels and draws of one go with each other."""
    row, bins = judged
    C = Exact().C.to_dense()
    correlation = C / (C.diagonal().sqrt().outer(C.diagonal().sqrt()))
    of_ratio = float(2**0.5 * correlation.norm() / D)  # of e_i^2 / C_ii: .51
    of_error = float(2**0.5 * C.norm() / C.trace())  # of e_i^2, in units of its mean: .43
    assert row["scale"] == pytest.approx(1, rel=monte_carlo(400, of_ratio))
    independent = monte_carlo(200 * D, 2**0.5)  # e^T C^-1 e is a sum of D squares
    assert row["squared_distance_per_pixel"] == pytest.approx(1, rel=independent)  # as said
    predicted = row["predicted_variance_per_pixel"]
    assert row["error_per_pixel"] == pytest.approx(predicted, rel=monte_carlo(120, of_error))
    assert row["nll_low_rank"] < row["nll_diagonal"] < row["nll_isotropic"]
    for level in calibration.LEVELS:
        # .13 is the largest spread of a share of 64 pixels; the scale adds some
        assert row[f"coverage_{level:g}"] == pytest.approx(level, abs=monte_carlo(200, 0.15))
    assert row["least_variance"] > 0 and row["clipped_share"] == 0
    assert (row["draws"], row["images"], row["mapped"]) == (3, 200, 120)
    assert ((bins["observed"] / bins["predicted"]) - 1).abs().max() < 0.2
    assert list(bins["bin"]) == list(range(1, 11))


def test_likelihoods_are_those_of_the_dense_law(judged):
    """E -log N(e; 0, S) = (log det 2 pi S + tr B) / 2 for B = S^-1 C, of variance tr B^2 / 2."""
    row, C = judged[0], Exact().C.to_dense().double()
    for name, S in (
        ("low_rank", C),
        ("diagonal", C.diagonal().diag()),
        ("isotropic", row["isotropic_variance"] * torch.eye(D).double()),
    ):
        B = torch.linalg.solve(S, C)
        expected = float((2 * math.pi * S).logdet() + B.trace()) / 2
        sampling = monte_carlo(200, float((B @ B).trace() / 2) ** 0.5)
        assert row[f"nll_{name}"] == pytest.approx(expected, abs=sampling), name  # as said


@pytest.mark.parametrize("wrong", [0.25, 4.0])
def test_a_wrong_size_is_found_by_the_scale_and_mended_by_it(judged, wrong):
    row, _ = calibration.judge(Exact(wrong), images(400), images(200, 2), SHAPE, 3, PARAMS)
    right, rounding = judged[0], FLOAT32["rtol"]  # of the same images and draws
    assert row["scale"] == pytest.approx(right["scale"] / wrong, rel=rounding)  # in float32
    for name in ("nll_scaled", "correlation"):
        assert row[name] == pytest.approx(right[name], rel=rounding), name  # in float32
    assert row["nll_low_rank"] > row["nll_scaled"] + 5


def test_a_study_has_a_row_for_each_model_and_fewer_draws_for_one_scale():
    models = {("range", SIGMA): Exact(), ("one scale", SIGMA): Exact(2.0)}
    rows, bins = calibration.study(models, images(100), images(50, 2), SHAPE, PARAMS)
    assert list(rows["model"]) == ["range", "one scale"]
    assert list(rows["draws"]) == [PARAMS.draws, PARAMS.likelihood_draws]
    assert len(bins) == 2 * 10 and set(bins["model"]) == {"range", "one scale"}
    numbers = calibration.headline(rows)
    assert numbers["0.5.nll_low_rank"] == rows["nll_low_rank"][0]
    assert all(math.isfinite(value) for value in numbers.values())


def test_pairs_are_grouped_by_image_whatever_the_blocks():
    """Two draws of three images in blocks of two; an entry says its image, draw and pixel."""
    judged = calibration._Judged(torch.zeros(3, 2), 1.0, 1.0)
    for draw in range(2):
        for images in ([0, 1], [2]):
            entry = [[100 * i + 10 * draw + pixel for pixel in range(2)] for i in images]
            judged.pairs.append(torch.stack([torch.tensor(entry), -torch.tensor(entry)], 1))
    variance, error = judged.by_image(3)
    assert variance.tolist() == [
        [100 * i, 100 * i + 1, 100 * i + 10, 100 * i + 11] for i in range(3)
    ]
    assert torch.equal(error, -variance)


def test_edges_are_where_ink_changes():
    image = torch.zeros(1, 8, 8)
    image[:, 2:6, 2:6] = 1
    near = calibration.edges(image.view(1, D), SHAPE).view(8, 8)
    assert near[2, 2] and near[1, 3] and near[3, 2]
    assert not near[0].any() and not near[4, 4] and not near[3:5, 3:5].any()
    colour = calibration.edges(image.expand(3, 8, 8).reshape(1, 3 * D), [3, 8, 8])
    assert torch.equal(colour.view(3, 8, 8)[1], near)


def test_variance_maps_are_averages_over_draws():
    clean = images(3)
    maps = calibration.variance_maps(Exact(), clean, PARAMS)
    assert {name: value.shape for name, value in maps.items()} == dict.fromkeys(
        ("noisy", "mean", "variance", "expected", "squared_error"), (3, D)
    )
    torch.testing.assert_close(maps["expected"], maps["variance"])  # constant for a Gaussian
    assert (maps["squared_error"] >= 0).all()


def test_one_of_each_class_comes_first():
    labels = {"test": np.array([2, 2, 0, 1, 0, 1])}
    data = SimpleNamespace(labels=labels, test=np.zeros((6, D)))
    assert calibration.one_of_each(data, 4) == [2, 3, 0, 4]
    unlabelled = SimpleNamespace(labels=None, test=np.zeros((6, D)))
    assert calibration.one_of_each(unlabelled, 4) == [0, 1, 2, 3]


# Directions --------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [directions.autodiff, directions.differences])
def test_products_are_those_of_the_posterior_covariance(make):
    model, x = Exact(), images(4)
    V = torch.randn(4, D, 5, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(make(model, x)(V), model.dense() @ V, **FLOAT32)


@pytest.mark.parametrize("make", [directions.autodiff, directions.differences])
def test_subspace_iteration_converges_to_the_span_of_the_leading_eigenvectors(make):
    model, x = Exact(), images(4)
    generator = torch.Generator().manual_seed(2)
    V = directions.subspace_iteration(make(model, x), x, RANK, 60, generator)
    torch.testing.assert_close(V.mT @ V, torch.eye(RANK).expand(4, -1, -1), **FLOAT32)
    values, vectors = torch.linalg.eigh(model.dense())
    assert values[-RANK] > 2 * values[-RANK - 1]  # apart from the rest, near to each other
    assert torch.linalg.svdvals(V.mT @ vectors[:, -RANK:]).min() > 0.999


def test_shares_add_up_to_one_over_a_whole_basis():
    residual = images(6)
    basis = torch.linalg.qr(torch.randn(6, D, D, generator=torch.Generator().manual_seed(0)))[0]
    shares = directions.explained(basis, residual)
    assert shares.shape == (D,) and (shares.diff() >= 0).all()
    assert float(shares[-1]) == pytest.approx(1, rel=FLOAT32["rtol"])
    first = (basis[..., 0] * residual).sum(1).square().sum() / residual.square().sum()
    assert float(shares[0]) == pytest.approx(float(first), rel=FLOAT32["rtol"])


def test_the_three_ways_agree_where_the_model_is_exact():
    frame = directions.compare(Exact(), images(400), images(150, 3), PARAMS)
    last = frame[frame["k"] == directions.COUNT].set_index("method")
    s2 = last.loc["s2", "share"]
    for steps in (5, 30):
        method = f"{directions.ITERATED}, autodiff, {steps} steps"
        # 10 directions, where eigenvalues fall slowly from the fourth on: 5 steps lose .005
        assert last.loc[method, "share"] == pytest.approx(s2, abs=0.02)
        assert last.loc[method, "seconds"] > 0 and last.loc[method, "repeats"] == 2
    # a Gaussian's covariance is the same for all images, so that PCA finds it as well; the last
    # of the 10 directions are uncertain after 400 images, which costs .008
    assert last.loc["PCA of residuals", "share"] == pytest.approx(s2, abs=0.05)
    assert math.isnan(last.loc["PCA of residuals", "seconds"])
    assert f"{directions.ITERATED}, differences, 5 steps" in last.index
    times = [last.loc[f"{directions.ITERATED}, autodiff, {n} steps", "seconds"] for n in (5, 30)]
    assert times[1] == pytest.approx(6 * times[0])  # scaled, and said so
    assert set(last["timed_steps"]) == {0, 5}
    assert set(frame["sigma"]) == {SIGMA}


def test_pictures_hold_the_papers_eigenvectors_that_there_are():
    arrays = directions.pictures(Exact(), images(3), seed=0)
    assert arrays["which"].tolist() == [*range(1, 20), 30]
    assert arrays["directions"].shape == (3, D, 20) and arrays["eigenvalues"].shape == (3, 20)
    assert (arrays["eigenvalues"].diff(dim=1) <= 0).all()
    exact = torch.linalg.eigvalsh(Exact().C.to_dense()).flip(-1)
    # an eigenvalue of .005 to the roundings of the largest, .25
    torch.testing.assert_close(arrays["eigenvalues"][0, -1], exact[29], rtol=0, atol=2e-6)
    torch.testing.assert_close(arrays["trace"], exact.sum().expand(3), **FLOAT32)
