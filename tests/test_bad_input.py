"""Bad input is named: a ValueError holds both shapes, or the value, and what is legal.

One table for the whole library. Each case is a call and the fragments that its message holds.
"""

import math
from types import SimpleNamespace

import pytest
import torch

from hosm import autodiff, metrics, noise, scores, tweedie, uncertainty
from hosm import metrics as ess
from hosm.distributions import mixtures as distributions
from hosm.distributions import named_laws as energies
from hosm.distributions.base import probabilities
from hosm.networks import mlp as networks
from hosm.networks.unet import UNet
from hosm.objectives import denoising_score_matching as objectives
from hosm.objectives import high_order
from hosm.operators import DiagonalPlusLowRank
from hosm.operators import diagonal_plus_cp as tensors
from hosm.samplers import langevin_ozaki as samplers
from hosm.training import keyed_batches as batches
from hosm.training import loop as training
from hosm.training import settings
from hosm.uncertainty import calibration

NAN, INF = math.nan, math.inf
X, M, V = torch.zeros(5, 3), torch.eye(3).expand(5, 3, 3), torch.ones(3)
INTEGERS, EMPTY = X.long(), X[:0]
HOLED = torch.where(torch.arange(15).view(5, 3) == 7, NAN, X)
SKEW = M + torch.tensor([[0, 1.0, 0], [0, 0, 0], [0, 0, 0]])
LAW = distributions.Gaussian(torch.zeros(3), torch.eye(3))
DATA = distributions.FiniteData(X)
A = DiagonalPlusLowRank(X + 1, torch.ones(5, 3, 2))
ELSEWHERE = SimpleNamespace(device=torch.device("cuda"))
LAWS = {
    "mean": (lambda: distributions.Gaussian(M[0], M[0]), "(3, 3)", "(D,)"),
    "mean of integers": (lambda: distributions.Gaussian(V.long(), M[0]), "torch.int64"),
    "mean with NaN": (lambda: distributions.Gaussian(V * NAN, M[0]), "nan"),
    "covariance": (lambda: distributions.Gaussian(V, M[0, :, :1]), "(3, 1)", "(3, 3)"),
    "covariance with infinity": (lambda: distributions.Gaussian(V, M[0] * 1e39), "inf"),
    "covariance askew": (lambda: distributions.Gaussian(V, SKEW[0]), "symmetric", "by 1"),
    "one small covariance askew": (
        lambda: distributions.GaussianMixture(
            V[:2] / 2, X[:2], torch.stack([1e6 * M[0], SKEW[0]])
        ),
        "must be symmetric",
    ),
    "covariance of zeros": (lambda: distributions.Gaussian(V, 0 * M[0]), "eigenvalue 0"),
    "weights of another length": (
        lambda: distributions.GaussianMixture(V / 3, X, M),
        "(3,)",
        "(5,)",
    ),
    "a negative weight": (lambda: probabilities(V - torch.arange(3), 3), "-1.0"),
    "weights of sum 3": (lambda: probabilities(V, 3), "3.0"),
    "weights with NaN": (lambda: probabilities(V * NAN, 3), "nan"),
    "scales of shape (D,)": (
        lambda: distributions.LogisticMixture(torch.full((5,), 0.2), X, V),
        "(3,)",
        "(5, 3)",
    ),
    "a negative scale": (lambda: distributions.LogisticMixture(V[:1], X[:1], -0.5), "-0.5"),
    "sigma as a vector": (lambda: LAW.smoothed(V), "(3,)", "a finite number"),
    "sigma of 0": (lambda: LAW.smoothed(0.0), "0.0"),
    "sigma of data as a vector": (lambda: distributions.SmoothedData(X, V), "(3,)"),
    "sigma NaN": (lambda: DATA.smoothed(NAN), "nan"),
    "sigma a text": (lambda: DATA.smoothed("0.1"), "'0.1'"),
    "data of integers": (lambda: distributions.FiniteData(INTEGERS), "torch.int64"),
    "no data": (lambda: distributions.FiniteData(EMPTY), "(0, 3)"),
    "no draws of data": (lambda: DATA.sample(0), "n must be", "got 0"),
    "draws in part": (lambda: LAW.sample(2.5), "n must be", "got 2.5"),
    "draws from a generator elsewhere": (lambda: LAW.sample(2, ELSEWHERE), "cuda", "cpu"),
    "data from a generator elsewhere": (lambda: DATA.sample(2, ELSEWHERE), "cuda", "cpu"),
    "points as a column": (lambda: LAW.score(X[:, :1]), "(5, 1)", "(n, 3)"),
    "points as a list": (lambda: LAW.score([[0.0] * 3]), "list", "tensor"),
    "responsibilities at a column": (
        lambda: DATA.smoothed(1.0).responsibilities(X[:, :1]),
        "(5, 1)",
        "(n, 3)",
    ),
    "deviations of no point": (lambda: DATA.smoothed(1.0).deviations(EMPTY), "(0, 3)"),
    "two devices": (lambda: distributions.Gaussian(V, M[0].to("meta")), "meta", "cpu"),
    "no scales": (lambda: distributions.LogisticMixture(V[:1], X[:1], V[:0]), "(0,)"),
    "a dtype of integers": (lambda: LAW.to(torch.int64), "torch.int64"),
    "ring of a vector": (lambda: energies.Ring(V[:1], V[0]), "(1,)"),
    "ring of integers": (lambda: energies.Ring(V[0].long(), V[0]), "torch.int64"),
    "ring of width 0": (lambda: energies.Ring(V[0], 0 * V[0]), "width must be", "got 0.0"),
    "modes": (lambda: energies.ring_of_gaussians(2.5, 1.0, 1.0), "modes must be", "got 2.5"),
}
NOISE = {
    "sigma True": (lambda: noise.check_sigma(True), "True"),
    "sigma a tensor": (lambda: noise.check_sigma(V), "tensor"),
    "perturb, one row": (lambda: noise.perturb(X, 1.0, X[:1]), "(5, 3)", "(1, 3)"),
    "perturb, integers": (lambda: noise.perturb(INTEGERS, 1.0, INTEGERS), "torch.int64"),
    "perturb, empty": (lambda: noise.perturb(EMPTY, 1.0, EMPTY), "(0, 3)"),
    "normal like integers": (lambda: noise.standard_normal(INTEGERS), "torch.int64"),
    "normal like nothing": (lambda: noise.standard_normal(EMPTY), "(0, 3)"),
    "normal from elsewhere": (lambda: noise.standard_normal(X, ELSEWHERE), "cuda", "cpu"),
    "index of floats": (lambda: noise.keyed_normal(V, 3, seed=0, epoch=0), "torch.float32"),
    "index as a column": (
        lambda: noise.keyed_normal(INTEGERS[:, :1], 3, seed=0, epoch=0),
        "(5, 1)",
    ),
    "no index": (lambda: noise.keyed_rademacher(INTEGERS[:0, 0], 3, seed=0, epoch=0), "(0,)"),
    "index of truths": (lambda: noise.keyed_normal(V > 0, 3, seed=0, epoch=0), "torch.bool"),
    "dimension 0": (
        lambda: noise.keyed_normal(INTEGERS[:, 0], 0, seed=0, epoch=0),
        "dimension must be",
        "got 0",
    ),
    "normal of integers": (
        lambda: noise.keyed_normal(INTEGERS[:, 0], 3, seed=0, epoch=0, dtype=torch.int64),
        "torch.int64",
    ),
    "order of nothing": (
        lambda: noise.keyed_permutation(0, seed=0, epoch=0),
        "size must be",
        "got 0",
    ),
    "scales, range": (lambda: noise.noise_scales(V, (2.0, 1.0)), "(2.0, 1.0)"),
    "orthogonal, empty": (lambda: noise.orthogonalised(EMPTY), "(0, 3)"),
    "orthogonal, integers": (lambda: noise.orthogonalised(INTEGERS), "torch.int64"),
    "range of sigma": (lambda: noise.check_scales((1.0, 0.5)), "(1.0, 0.5)"),
}
OPERATORS = {
    "diag of integers": (lambda: DiagonalPlusLowRank.from_diagonal(INTEGERS), "torch.int64"),
    "diag empty": (lambda: DiagonalPlusLowRank.from_diagonal(EMPTY), "(0, 3)"),
    "two dtypes": (lambda: DiagonalPlusLowRank(X, torch.ones(5, 3, 1).double()), "float64"),
    "factor of one row": (lambda: DiagonalPlusLowRank(X, torch.ones(1, 3, 2)), "(1, 3, 2)"),
    "signs, one for two": (lambda: DiagonalPlusLowRank(X, A.factor, V[:1]), "(1,)", "(5, 3, 2)"),
    "signs of 2": (lambda: DiagonalPlusLowRank(X, A.factor, 2 * V[:2]), "2.0"),
    "signs, true": (lambda: DiagonalPlusLowRank(X, A.factor, V[:2] > 0), "True"),
    "selected nothing": (lambda: A[V.new_zeros(5) > 0], "(0, 3)"),
    "another size": (lambda: A + DiagonalPlusLowRank.from_diagonal(X[:, :1]), "(5, 1)", "(5, 3)"),
    "another batch": (lambda: A + A[:1], "(1, 3)", "(5, 3)"),
    "difference": (lambda: A - A[:2], "(2, 3)", "(5, 3)"),
    "inner, another batch": (lambda: A.inner(A[:1]), "(1, 3)", "(5, 3)"),
    "shift as a column": (lambda: A.add_diagonal(X[:, :1]), "(5, 1)", "(5, 3)"),
    "times one of a batch": (lambda: A * V[:1], "(1,)", "(5,)"),
    "scaled by a column": (lambda: A.scaled(X[:, :1]), "(5, 1)", "(5,)"),
    "scaled by integers": (lambda: A.scaled(INTEGERS[:, 0]), "torch.int64"),
    "times NaN": (lambda: NAN * A, "nan"),
    "times NaN in a tensor": (lambda: A * HOLED[:, 1], "nan"),
    "A v of one row": (lambda: A @ X[:1], "(1, 3)", "(5, 3)"),
    "A v of a column": (lambda: A @ X[:, :1], "(5, 1)", "(5, 3)"),
    "A v of integers": (lambda: A @ INTEGERS, "torch.int64"),
    "solve, one row": (lambda: A.solve(X[:1]), "(1, 3)", "(5, 3)"),
    "square root, one row": (lambda: A.square_root_matvec(X[:1]), "(1, 3)", "(5, 3)"),
    "function, one row": (lambda: A.function_matvec(torch.exp, X[:1]), "(1, 3)", "(5, 3)"),
    "floor of 1": (lambda: A.clip_to_psd(1.0), "floor must be", "got 1.0"),
    "clip NaN": (lambda: DiagonalPlusLowRank.from_diagonal(HOLED).clip_to_psd(), "nan"),
    "four pairs of three": (lambda: A.eigenpairs(4), "k must be", "got 4", "from 1 to 3"),
    "half a pair": (lambda: A.eigenpairs(0.5), "k must be", "got 0.5"),
    "diagonal of 0": (lambda: DiagonalPlusLowRank.outer(X).solve(X), "diag must have no zero"),
}
TWEEDIE = {
    "mean, one row": (lambda: tweedie.posterior_mean(X, X[:1], 1.0), "(1, 3)", "(5, 3)"),
    "mean, integers": (lambda: tweedie.posterior_mean(X, INTEGERS, 1.0), "torch.int64"),
    "mean, empty": (lambda: tweedie.posterior_mean(EMPTY, EMPTY, 1.0), "(0, 3)"),
    "mean, one sigma of five": (lambda: tweedie.posterior_mean(X, X, V[:1]), "(1,)", "(5,)"),
    "mean, a sigma below 0": (lambda: tweedie.posterior_mean(X, X, X[:, 0] - 2), "-2.0"),
    "covariance, one sigma": (lambda: tweedie.posterior_covariance(A, V[:1]), "(1,)", "(5,)"),
    "covariance, sigma": (lambda: tweedie.posterior_covariance(M, INF), "inf"),
    "covariance, a diagonal": (lambda: tweedie.posterior_covariance(X, 1.0), "(5, 3)"),
    "cumulants, order": (lambda: tweedie.posterior_cumulants(X, [X, X], 1.0), "(5, 3, 3)"),
    "moment, order": (
        lambda: tweedie.posterior_moment(2, X, [X], 1.0),
        "order must be",
        "got 2",
        "from 1 to 1",
    ),
    "scores, sigma": (lambda: tweedie.scores_from_moments(X, [X], 0), "0"),
}


def chain(score=torch.neg, x0=X, **options):
    return samplers.sample_chain(samplers.langevin(score, 1.0), x0, 2, **options)


def ozaki(second, **options):
    kernel = samplers.ozaki(lambda x: (-x, second), 1.0, **options)
    return kernel.step(kernel.init(X), None)


SAMPLERS = {
    "start of integers": (lambda: chain(x0=INTEGERS), "torch.int64"),
    "start with NaN": (lambda: chain(x0=HOLED), "nan"),
    "no start": (lambda: chain(x0=EMPTY), "(0, 3)"),
    "start as a vector": (lambda: chain(x0=V), "(3,)"),
    "half a step": (lambda: chain(thin=1.5), "thin must be", "got 1.5"),
    "chain from elsewhere": (lambda: chain(generator=ELSEWHERE), "cuda", "cpu"),
    "score as a column": (lambda: chain(lambda x: x[:, :1]), "(5, 1)", "(5, 3)"),
    "score of integers": (lambda: chain(lambda x: x.long()), "torch.int64"),
    "step size of another number of chains": (
        lambda: samplers.langevin(torch.neg, V.abs() + 1).init(X),
        "3",
    ),
    "step sizes below 0": (
        lambda: samplers.langevin(torch.neg, -V.abs()),
        "step_size must be",
        "got -",
    ),
    "step sizes in a matrix": (lambda: samplers.ozaki(torch.neg, X), "(5, 3)"),
    "step size infinite": (lambda: samplers.ozaki(torch.neg, INF), "inf"),
    "log_prob as a column": (
        lambda: samplers.langevin(torch.neg, 1.0, lambda x: x[:, :1]).init(X),
        "(5, 1)",
        "(5,)",
    ),
    "no s2": (lambda: ozaki(None), "None"),
    "s2 as a column": (lambda: ozaki(X[:, :1]), "(5, 1)", "(5, 3)"),
    "s2 of one point": (lambda: ozaki(M[:1]), "(1, 3, 3)", "(5, 3, 3)"),
    "s2 of one operator": (lambda: ozaki(A[:1]), "(1, 3)", "(5, 3)"),
    "full s2 a diagonal": (lambda: ozaki(X, form="full"), "(5, 3)", "(5, 3, 3)"),
    "unknown form": (lambda: ozaki(X, form="dense"), "'dense'", "diagonal, low-rank, full"),
    "adjusted low-rank step": (
        lambda: ozaki(A, form="low-rank", log_prob=torch.neg),
        "'low-rank'",
        "diagonal or full",
    ),
    "s1 of one point": (
        lambda: samplers.ozaki(lambda x: (x[:1], x), 1.0).init(X),
        "(1, 3)",
        "(5, 3)",
    ),
}
C = torch.zeros(2, 5, 3)
METRICS = {
    "estimate with NaN": (lambda: metrics.score_error(HOLED, X), "estimate must be", "got nan"),
    "truth with NaN": (lambda: metrics.score_error(X, HOLED), "truth must be", "got nan"),
    "operator with NaN": (
        lambda: metrics.hessian_error(DiagonalPlusLowRank.from_diagonal(HOLED), M),
        "estimate must be",
        "got nan",
    ),
    "error of integers": (lambda: metrics.score_error(INTEGERS, INTEGERS), "torch.int64"),
    "error, one row": (lambda: metrics.score_error(X, X[:1]), "(5, 3)", "(1, 3)"),
    "standard error of integers": (lambda: metrics.standard_error(INTEGERS), "torch.int64"),
    "standard error of NaN": (lambda: metrics.standard_error(HOLED), "nan"),
    "standard error of a number": (lambda: metrics.standard_error(V[0]), "()"),
    "ratio of a number": (lambda: metrics.variance_ratio(V[0], V), "()"),
    "ratio of integers": (lambda: metrics.variance_ratio(INTEGERS, X), "torch.int64"),
    "ratio, columns": (lambda: metrics.variance_ratio(X, X[:, :1]), "(5, 3)", "(5, 1)"),
    "ESS, mean NaN": (lambda: ess.ess_nice(C, V * NAN, V), "mean must be", "got nan"),
    "ESS, variance infinite": (lambda: ess.ess_nice(C, V, V * INF), "variance must be", "got inf"),
    "ESS, one mean": (lambda: ess.ess_nice(C, V[:1], V), "(1,)", "(3,)"),
    "ESS, integers": (lambda: ess.ess_bulk(C.long()), "torch.int64"),
    "R-hat, no chain": (lambda: ess.r_hat(C[:0]), "(0, 5, 3)"),
    "distance of vectors": (lambda: metrics.kolmogorov_distance(V, V), "(3,)"),
    "distance of integers": (lambda: metrics.kolmogorov_distance(INTEGERS, X), "torch.int64"),
    "distance, columns": (lambda: metrics.kolmogorov_distance(X, X[:, :1]), "(5, 3)", "(5, 1)"),
    "coverage of nothing": (lambda: metrics.coverage(EMPTY, EMPTY, M[:0], 0.5), "(0, 3)"),
    "coverage, infinity": (lambda: metrics.coverage(X + INF, X, M, 0.5), "inf"),
    "coverage, askew": (lambda: metrics.coverage(X, X, SKEW, 0.5), "must be symmetric"),
    "coverage, indefinite": (
        lambda: metrics.coverage(X, X, DiagonalPlusLowRank.from_diagonal(V - 2 * M[:, 0]), 0.5),
        "1 negative",
    ),
    "coverage, p NaN": (lambda: metrics.coverage(X, X, M, NAN), "nan"),
}
LAW_AT = uncertainty.posterior(lambda x: (-x, -0.5 * M), X, 1.0)


def posterior(s1=X, s2=A, x=X, sigma=1.0):
    return uncertainty.posterior(lambda _: (s1, s2), x, sigma)


UNCERTAINTY = {
    "noisy with NaN": (lambda: posterior(x=HOLED), "x_noisy must be", "got nan"),
    "noisy as a vector": (lambda: posterior(x=V), "(3,)"),
    "s1 of one row": (lambda: posterior(X[:1]), "(1, 3)", "(5, 3)"),
    "s1 with NaN": (lambda: posterior(HOLED), "s1 must be", "got nan"),
    "first-order model": (lambda: posterior(s2=None), "None"),
    "s2 askew": (lambda: posterior(s2=SKEW), "must be symmetric"),
    "s2 with NaN": (lambda: posterior(s2=M * NAN), "s2 must be", "got nan"),
    "s2 of another batch": (lambda: posterior(s2=A[:2]), "(2, 3)", "(5, 3)"),
    "dense s2 of another batch": (lambda: posterior(s2=M[:1]), "(1, 3, 3)", "(5, 3, 3)"),
    "sigma of some": (lambda: posterior(sigma=V), "(3,)", "(5,)"),
    "sigma -1": (lambda: posterior(sigma=-1.0), "-1.0"),
    "posterior of parts": (
        lambda: uncertainty.Posterior(X[:1], A, X[:, 0]),
        "(1, 3)",
        "(5, 3)",
    ),
    "share of one": (lambda: uncertainty.Posterior(X, A, V[:1]), "(1,)", "(5,)"),
    "draws below 1": (lambda: LAW_AT.sample(-1), "n must be", "got -1"),
    "draws elsewhere": (lambda: LAW_AT.sample(1, ELSEWHERE), "cuda", "cpu"),
    "density at one row": (lambda: LAW_AT.log_prob(X[:1]), "(1, 3)", "(5, 3)"),
    "density at NaN": (lambda: LAW_AT.log_prob(HOLED), "nan"),
    "directions": (
        lambda: uncertainty.leading_directions(A, 4),
        "k must be",
        "got 4",
        "from 1 to 3",
    ),
    "z-scores at one row": (
        lambda: calibration.direction_z_scores(LAW_AT, X[:1], 1),
        "(1, 3)",
        "(5, 3)",
    ),
    "z-scores at NaN": (lambda: calibration.direction_z_scores(LAW_AT, HOLED, 1), "nan"),
    "table, shapes": (lambda: calibration.reliability(X, X[:, :1]), "(5, 3)", "(5, 1)"),
    "table, a negative variance": (lambda: calibration.reliability(X - 1, X, 2), "-1"),
    "table, NaN": (lambda: calibration.reliability(X, HOLED, 2), "nan"),
    "table, bins": (
        lambda: calibration.reliability(X, X, 8),
        "bins must be",
        "got 8",
        "from 1 to 7",
    ),
}


def exact(x):
    return -x, DiagonalPlusLowRank.from_diagonal(-torch.ones_like(x))


MODEL = scores.ScoreModel(networks.MLP(3, 3, width=4), sigma=0.5, rank=1)
CP = tensors.DiagonalPlusCP(X, torch.ones(5, 3, 2), torch.ones(5, 2), 3)
OTHERS = {
    "dsm, integers": (lambda: objectives.dsm(torch.neg, INTEGERS, 1.0), "torch.int64"),
    "dsm, empty": (lambda: objectives.dsm(torch.neg, EMPTY, 1.0), "(0, 3)"),
    "dsm, sigma": (lambda: objectives.dsm(torch.neg, X, 0.0), "0.0"),
    "dsm, sigma of some": (lambda: objectives.dsm(torch.neg, X, V), "(3,)", "(5,)"),
    "joint, noise of one row": (lambda: objectives.joint(exact, X, 1.0, z=X[:1]), "(1, 3)"),
    "joint, target": (lambda: objectives.joint(exact, X, 1.0, target="best"), "'best'"),
    "joint, no second order": (
        lambda: objectives.joint(scores.ScoreModel(networks.MLP(3, 1), sigma=1.0), X, 1.0),
        "NoneType",
        "DiagonalPlusLowRank",
    ),
    "joint, gamma": (lambda: objectives.joint(exact, X, 1.0, NAN), "nan"),
    "model, rank": (
        lambda: scores.ScoreModel(networks.MLP(3, 6), sigma=1.0, rank=4),
        "from 0 to 3",
        "4",
    ),
    "model, shape": (lambda: MODEL(X[:, :1]), "(5, 1)", "(n, 3)"),
    "model, sigma": (lambda: MODEL(X, 0.7), "0.7", "0.5"),
    "network, width": (lambda: networks.MLP(3, 2, width=0), "width", "0"),
    "product, one row": (
        lambda: autodiff.vector_jacobian_product(torch.neg, X, X[:1]),
        "(1, 3)",
    ),
    "autodiff, a vector": (lambda: autodiff.autodiff_hessian(torch.neg, V), "(3,)"),
    "probes": (lambda: autodiff.hutchinson_diagonal(torch.neg, X, 0), "0"),
    "CP, shapes": (lambda: tensors.DiagonalPlusCP(X, A.factor, V, 3), "(3,)", "(5, 3, 2)"),
    "CP, one row": (lambda: CP.contract(X[:1]), "(1, 3)", "(5, 3)"),
    "order k, noise": (lambda: high_order.order_k(lambda x: CP, exact, X, 1.0, z=X[:1]), "(1, 3)"),
    "order k, sigma": (lambda: high_order.order_k(lambda x: CP, exact, X, -1.0), "-1.0"),
    "settings, sigma": (lambda: settings.Settings(sigma=0.0), "0.0"),
    "settings, batch": (lambda: settings.Settings(sigma=1.0, batch_size=0), "0"),
    "shard": (lambda: batches.Shard(2, 2), "0..1", "2"),
    "batch of integers": (
        lambda: next(batches.batches(lambda _: INTEGERS, 2, 0, batches.Shard(), 0)),
        "torch.int64",
    ),
    "batch above the data": (
        lambda: next(batches.batches(lambda _: X, 6, 0, batches.Shard(), 0)),
        "6",
        "5",
    ),
    "validation with NaN": (
        lambda: training.fit(MODEL, settings.Settings(sigma=0.5), lambda _: X, HOLED),
        "(5, 3)",
    ),
    "image sides": (lambda: UNet((1, 6, 8), 1), "6 x 8"),
    "no outputs": (lambda: UNet((1, 8, 8), 0), "outputs must be", "got 0"),
    "narrow maps": (lambda: UNet((1, 8, 8), 1, (8, 12, 8)), "(8, 12, 8)"),
    "images unfolded": (lambda: UNet((1, 4, 4), 1, (8, 8, 8))(torch.ones(2, 1, 4, 4)), "(n, 16)"),
}
TABLES = {
    "laws": LAWS,
    "noise": NOISE,
    "operators": OPERATORS,
    "tweedie": TWEEDIE,
    "samplers": SAMPLERS,
    "metrics": METRICS,
    "uncertainty": UNCERTAINTY,
    "others": OTHERS,
}
CASES = [
    pytest.param(call, fragments, id=f"{module}: {name}")
    for module, table in TABLES.items()
    for name, (call, *fragments) in table.items()
]


@pytest.mark.parametrize(("call", "fragments"), CASES)
def test_bad_input_is_named(call, fragments):
    with pytest.raises(ValueError) as error:  # noqa: PT011
        call()
    for fragment in fragments:
        assert fragment in str(error.value)


def test_an_index_beyond_the_batch_is_refused():
    for index in ((slice(None), 0), (..., 0, 0), 5):
        with pytest.raises(IndexError):
            A[index]


def test_an_ellipsis_stands_for_the_batch_alone():
    B = DiagonalPlusLowRank(torch.randn(2, 3, 3), torch.randn(2, 3, 3, 1))
    assert torch.equal(B[..., 1].to_dense(), B.to_dense()[:, 1])
    assert torch.equal(B[None, :, 1:].to_dense(), B.to_dense()[None, :, 1:])


def test_checks_read_no_value_under_vmap():
    """A chain or a Jacobian by vmap runs the same code, where values cannot be read."""
    sigma = torch.full((5,), 0.5)
    means = torch.func.vmap(lambda s: tweedie.posterior_mean(X, -X, s))(sigma)
    assert means.shape == (5, 5, 3)
    signs = torch.tensor([[1.0, -1.0], [-1.0, 1.0]])
    dense = torch.func.vmap(lambda c: DiagonalPlusLowRank(A.diag, A.factor, c).to_dense())(signs)
    assert dense.shape == (2, 5, 3, 3)


def test_the_algebra_and_the_steps_of_a_chain_read_no_value():
    """On the meta device there is none to read: a check of one would raise, and on a GPU wait."""
    B, x = A.to("meta"), X.to("meta")
    assert repr(B) == "DiagonalPlusLowRank(diag=(5, 3), rank=2)"
    v = (B - DiagonalPlusLowRank.outer(x) + 2.0 * B).add_diagonal(x) @ x
    for number in (B.inner(B), B.frobenius_norm_squared(), B.scaled(x[:, 0]).trace()):
        assert number.shape == (5,)
    x = noise.perturb(x, 0.5, noise.standard_normal(v))
    mean = tweedie.posterior_mean(x, v, 0.5)
    objective = objectives.joint(lambda y: (-y, DiagonalPlusLowRank.outer(y)), mean, 0.5)
    assert objective.shape == ()
    model = lambda y: (-y, DiagonalPlusLowRank.outer(y))  # noqa: E731
    for kernel in (
        samplers.langevin(torch.neg, 0.1, lambda y: y.sum(-1)),
        samplers.ozaki(model, 0.1, log_prob=lambda y: y.sum(-1)),
        samplers.ozaki(model, 0.1, form="full"),
    ):
        state, _ = kernel.step(kernel.init(mean), None)
        assert state.x.shape == (5, 3) and state.x.is_meta
