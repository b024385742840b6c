"""Inverses of thin matrices in float32, against dense twins in float64 of the same parts.

The unit of an error is what the parts themselves are worth: the change of the exact value where
d, U and b are multiplied by 1 + eps times fair signs, as their rounding to float32 does.
"""

import math

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from hosm.objectives.targets import likelihood
from hosm.operators import DiagonalPlusLowRank, positive_inverse

F32, F64 = torch.float32, torch.float64
EPS = torch.finfo(F32).eps
RATIOS = (1.0, 1e-2, 1e-4, 1e-6, 1e-8)  # of d to the squares of the entries of U
# Whitening rounds each part once, the factorisation a few times more, and the largest of three
# changes is less than the largest possible one. Woodbury's formula needs more than 10^4 of them.
ROUNDINGS = 10
SHAPES = {  # D, k, n, what is done to U
    "plain": (50, 10, 20, lambda U: U),
    "many": (50, 10, 200, lambda U: U),
    "one column": (50, 1, 20, lambda U: U),
    "no column": (50, 0, 20, lambda U: U),
    "one row": (1, 3, 20, lambda U: U),
    "square": (6, 6, 20, lambda U: U),
    "nearly square": (6, 5, 20, lambda U: U),
    "wide": (6, 9, 20, lambda U: U),
    "zero column": (50, 10, 20, lambda U: U * (torch.arange(10) != 3)),
    "equal columns": (50, 10, 20, lambda U: U[..., :5].repeat(1, 1, 2)),
    "square, of rank 3": (6, 6, 20, lambda U: U[..., :3].repeat(1, 1, 2)),
    "graded columns": (50, 10, 20, lambda U: U * torch.logspace(0, -4, 10)),
}


def thin(shape, ratio, seed=0):
    """Parts d (n, D) and U (n, D, k) of float32, and a draw b of N(0, A), shape (n, D)."""
    D, k, n, change = SHAPES[shape]
    g = torch.Generator().manual_seed(seed)
    d = ratio * (0.5 + torch.rand(n, D, generator=g))
    U = change(torch.randn(n, D, k, generator=g))
    b = (U @ torch.randn(n, k, 1, generator=g)).squeeze(-1)
    return d, U, b + d.sqrt() * torch.randn(n, D, generator=g)


def values(solve, distance, log_density, *parts):
    """A^-1 b, b^T A^-1 b, log N(b; 0, A), and the gradients of its sum."""
    parts = [part.detach().requires_grad_() for part in parts]
    density = log_density(*parts)
    grads = torch.autograd.grad(density.sum(), parts, materialize_grads=True)
    names = ("solution", "distance", "density", "by d", "by U", "by b")
    found = (solve(*parts), distance(*parts), density, *grads)
    return {name: value.detach().double() for name, value in zip(names, found, strict=True)}


def of_operator(*parts):
    make = DiagonalPlusLowRank
    return values(
        lambda d, U, b: make(d, U).solve(b),
        lambda d, U, b: make(d, U).squared_distance(b),
        lambda d, U, b: make(d, U).log_density(b),
        *parts,
    )


def of_dense(*parts):
    """The same in float64, with the Cholesky factor of the D x D matrix."""

    def root(d, U):
        return torch.linalg.cholesky(torch.diag_embed(d) + U @ U.mT)

    def half(d, U, b):
        return torch.linalg.solve_triangular(root(d, U), b.unsqueeze(-1), upper=False)

    def density(d, U, b):
        logs = root(d, U).diagonal(dim1=-2, dim2=-1).log().sum(-1)
        constant = d.shape[-1] * math.log(2 * math.pi) / 2
        return -half(d, U, b).square().sum((-2, -1)) / 2 - logs - constant

    return values(
        lambda d, U, b: torch.cholesky_solve(b.unsqueeze(-1), root(d, U)).squeeze(-1),
        lambda d, U, b: half(d, U, b).square().sum((-2, -1)),
        density,
        *(part.double() for part in parts),
    )


def rounded(parts, seed):
    """The parts, in float64, off by one rounding of float32 each."""
    g = torch.Generator().manual_seed(seed)
    return [p.double() * (1 + EPS * torch.randn(p.shape, generator=g).sign()) for p in parts]


def largest(error):
    """The largest norm of a member of the batch."""
    return float(error.reshape(len(error), -1).norm(dim=1).max()) if error.numel() else 0.0


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "many"])
def test_errors_are_those_of_rounding_the_parts(shape, ratio):
    parts = thin(shape, ratio)
    found, exact = of_operator(*parts), of_dense(*parts)
    others = [of_dense(*rounded(parts, seed)) for seed in range(3)]
    for name, truth in exact.items():
        unit = max(largest(other[name] - truth) for other in others)
        unit += EPS * largest(truth)  # the result is rounded, too
        assert found[name].isfinite().all(), name
        assert largest(found[name] - truth) <= ROUNDINGS * unit, name
    assert (found["distance"] >= 0).all()


@pytest.mark.parametrize("ratio", RATIOS)
def test_errors_grow_with_the_root_of_the_ratio(ratio):
    """By theory eps (|U|^2 / d)^(1/2), where Woodbury's errors are eps |U|^2 / d: 1 at 10^-6."""
    parts = thin("many", ratio)
    found, exact = of_operator(*parts), of_dense(*parts)
    relative = (found["distance"] / exact["distance"] - 1).abs().max()
    bound = EPS * ratio**-0.5 * 50**0.5  # the norm of U is that of D = 50 entries of size 1
    assert float(relative) <= bound
    # half the distance, which is 50, and as much again for the determinant
    assert float((found["density"] - exact["density"]).abs().max()) <= 50 * bound
    for name in ("by d", "by U", "by b"):  # of products of two numbers with such errors
        assert largest(found[name] - exact[name]) <= 5 * bound * largest(exact[name]), name


@pytest.mark.parametrize("ratio", RATIOS)
def test_mixed_signs_do_as_well(ratio):
    """Columns with -1 take up to .81 of the thinnest variances away; A stays positive."""
    d, U, b = thin("plain", ratio)
    less = thin("plain", 1.0, seed=1)[1][..., :4]
    less = 0.9 * less / torch.linalg.matrix_norm(less)[:, None, None] * d.sqrt().unsqueeze(-1)
    signs = torch.tensor([1.0] * 10 + [-1.0] * 4)
    A = DiagonalPlusLowRank(d, torch.cat([U, less], -1), signs)
    twin = A.to(F64).to_dense()
    bound = EPS * ratio**-0.5 * 50**0.5 * 5  # as above, times 1 / (1 - .81) for what is left
    solution = torch.linalg.solve(twin, b.double())
    distance = (solution * b.double()).sum(-1)
    assert largest(A.solve(b).double() - solution) <= bound * largest(solution)
    assert float((A.squared_distance(b) / distance - 1).abs().max()) <= bound
    assert float((A.log_determinant() - torch.logdet(twin)).abs().max()) <= 50 * bound
    S = A.square_root_matvec(torch.eye(50).expand(20, 50, 50)).double()
    assert largest(S @ S.mT - twin) <= 100 * EPS * largest(twin)


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "many"])
def test_thin_matrices_have_a_square_root(shape):
    d, U, _ = thin(shape, 1e-8)
    A = DiagonalPlusLowRank(d, U)
    S = A.square_root_matvec(torch.eye(d.shape[1]).expand(*d.shape, -1)).double()
    twin = A.to(F64).to_dense()
    assert largest(S @ S.mT - twin) <= 100 * EPS * largest(twin)  # sums over D or k entries


@pytest.mark.parametrize(
    "factor",
    [torch.zeros(1, 3, 2), torch.ones(1, 3, 2), torch.ones(1, 3, 4), torch.eye(3).expand(1, 3, 3)],
    ids=["zero", "equal", "wide", "orthogonal"],
)
def test_gradients_of_degenerate_columns_are_exact(factor):
    """Also the second ones: nothing of the factorisation is kept from differentiation."""
    g = torch.Generator().manual_seed(0)
    d, b = 0.5 + torch.rand(1, 3, generator=g, dtype=F64), torch.randn(1, 3, 2, generator=g)
    parts = tuple(p.detach().double().requires_grad_() for p in (d, factor, b))

    def density(d, U, b):
        return DiagonalPlusLowRank(d, U).log_density(b)

    assert gradcheck(density, parts) and gradgradcheck(density, parts)


@pytest.mark.parametrize("dtype", [F32, F64])
def test_a_singular_matrix_has_no_determinant(dtype):
    """Its least eigenvalue, 0, is found between -3 and 3 roundings."""
    for seed in range(50):
        g = torch.Generator().manual_seed(seed)
        u = torch.nn.functional.normalize(torch.randn(6, generator=g, dtype=dtype), dim=0)
        one = DiagonalPlusLowRank.from_diagonal(torch.ones_like(u))
        A = one - DiagonalPlusLowRank.outer(u)
        for call in (A.log_determinant, lambda A=A, u=u: A.squared_distance(u)):
            with pytest.raises(ValueError, match=r"got 1 (zero|negative) eigenvalues"):
                call()
    left = 100 * torch.finfo(dtype).eps  # off by a few roundings: by some per cent
    nearly = one - DiagonalPlusLowRank.outer((1 - left) ** 0.5 * u)
    # ten of the hundred roundings may be wrong
    assert float(nearly.log_determinant()) == pytest.approx(math.log(left), abs=0.1)


@pytest.mark.parametrize("rank", [0, 2, 6])
def test_a_zero_on_the_diagonal_is_named_alike(rank):
    d = torch.ones(3, 4)
    d[1, 2] = 0
    A, b = DiagonalPlusLowRank(d, torch.ones(3, 4, rank)), torch.ones(3, 4)
    for call in (
        lambda: A.solve(b),
        lambda: A.squared_distance(b),
        lambda: A.log_density(b),
        A.log_determinant,
    ):
        with pytest.raises(
            ValueError, match=r"diag must have no zero entry .*, got one at \(1, 2"
        ):
            call()


def test_clipping_leaves_what_has_a_density():
    """In float32 the floor 10^-6 is 8 roundings, too few to tell a zero by."""
    g = torch.Generator().manual_seed(0)
    d, U = 0.5 + torch.rand(20, 400, generator=g), torch.randn(20, 400, 6, generator=g)
    clipped, share = DiagonalPlusLowRank(d, U, torch.tensor([1.0, -1.0] * 3)).clip_to_psd(1e-6)
    assert float(share.min()) > 0.1
    twin = clipped.to(F64).log_determinant()
    # three eigenvalues of 64 roundings, each off by a few of them
    assert float((clipped.log_determinant() - twin).abs().max()) < 3 * 0.25


def test_training_reads_no_value():
    """Tensors without values, on the device `meta`, go through the target and its gradient."""
    d, U = torch.empty(5, 7, device="meta"), torch.empty(5, 7, 3, device="meta")
    parts = d.requires_grad_(), U.requires_grad_()
    e = d.detach()
    value = likelihood(e, DiagonalPlusLowRank(*parts), e, e, e, 0.5, False)
    grads = torch.autograd.grad(value.sum(), parts)
    assert value.shape == (5,) and [g.shape for g in grads] == [d.shape, U.shape]
    wide = positive_inverse(d, torch.empty(5, 7, 9, device="meta"))
    assert wide.forms(e.unsqueeze(-2)).shape == (5, 1) and wide.log_determinant().shape == (5,)


@pytest.mark.parametrize("ratio", RATIOS)
def test_likelihood_of_thin_covariances(ratio):
    """S = I + sigma^2 s2 at sigma = 1, with columns far above 1: the dense twin in float64."""
    d, U, e = thin("plain", ratio)
    d, U, e = d / ratio, U / ratio**0.5, e / ratio**0.5
    none = torch.zeros_like(e)

    def target(d, U, s1):
        return likelihood(s1, DiagonalPlusLowRank(d - 1, U), none, none, none, 1.0, False)

    def each(d, U):
        variance = d + U.square().sum(-1)
        return (e.double().square() / variance + variance.log()).sum(1) / 2

    parts, twins = ([x.to(t).requires_grad_() for x in (d, U)] for t in (F32, F64))
    ours, alone, exact = target(*parts, e), each(*twins), of_dense(d, U, e)
    bound = EPS * ratio**-0.5 * 50**0.5
    error = ours - alone + exact["density"] + 25 * math.log(2 * math.pi)
    assert float(error.detach().abs().max()) <= 50 * bound
    found = torch.autograd.grad(ours.sum(), parts)
    for name, mine, rest in zip(
        ("by d", "by U"), found, torch.autograd.grad(alone.sum(), twins), strict=True
    ):
        truth = rest - exact[name]
        assert largest(mine - truth) <= 5 * bound * largest(truth), name


def test_a_matrix_that_is_not_a_number_gives_none():
    d = torch.ones(2, 4)
    d[0, 1] = math.nan
    for A in (
        DiagonalPlusLowRank.outer(d) + DiagonalPlusLowRank.from_diagonal(d / d),
        DiagonalPlusLowRank(d, torch.ones(2, 4, 2)),
    ):
        for value in (A.log_determinant(), A.squared_distance(d / d), A.solve(d / d).sum(-1)):
            assert value.isnan().tolist() == [True, False]
