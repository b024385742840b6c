"""Linear operators: each against its matrix, and pairs of functions that are no such thing."""

import pytest
import torch

from hosm.inverse import LinearOperator, blur, inpainting, projections, super_resolution
from tests.tolerances import FLOAT64

DOUBLE = torch.float64
KERNEL = torch.tensor([[0.1, 0.2, 0.0], [0.3, 1.0, -0.4], [0.0, 0.5, 0.6]], dtype=DOUBLE)


def line_matrix(kernel, length):
    """The matrix of a convolution on a line, (A x)_i = sum_j k_j x_(i - j)."""
    rows = torch.zeros(length, length, dtype=DOUBLE)
    for j, value in enumerate(kernel.tolist(), -(len(kernel) // 2)):
        rows += value * torch.diag(torch.ones(length - abs(j), dtype=DOUBLE), -j)
    return rows


def coarse_matrix():
    """Averages over blocks of 2 x 2 of a grid of 4 x 6."""
    ones = torch.full((1, 2), 0.5, dtype=DOUBLE)
    sides = [torch.kron(torch.eye(size, dtype=DOUBLE), ones) for size in (2, 3)]
    return torch.kron(*sides)


def picture_matrix():
    """The convolution of a picture of 4 x 5, entry by entry."""
    rows = torch.zeros(4, 5, 4, 5, dtype=DOUBLE)
    for a, b in torch.cartesian_prod(torch.arange(-1, 2), torch.arange(-1, 2)).tolist():
        for i, j in torch.cartesian_prod(torch.arange(4), torch.arange(5)).tolist():
            if 0 <= i - a < 4 and 0 <= j - b < 5:
                rows[i, j, i - a, j - b] = KERNEL[a + 1, b + 1]
    return rows.reshape(20, 20)


KNOWN = torch.tensor([True, False, True, True, False])
MATRIX = torch.randn(3, 7, generator=torch.Generator().manual_seed(1), dtype=DOUBLE)
CASES = {
    "inpainting": (inpainting(KNOWN), torch.eye(5, dtype=DOUBLE)[KNOWN]),
    "super-resolution": (super_resolution((4, 6), 2), coarse_matrix()),
    "blur of a line": (blur((8,), KERNEL[1]), line_matrix(KERNEL[1], 8)),
    "blur of a picture": (blur((4, 5), KERNEL), picture_matrix()),
    "projections": (projections(MATRIX), MATRIX),
}


@pytest.mark.parametrize(("operator", "matrix"), CASES.values(), ids=CASES)
def test_products_are_those_of_the_matrix(operator, matrix):
    m, dimension = matrix.shape
    assert (operator.measurements, operator.dimension) == (m, dimension)
    eye = torch.eye(dimension, dtype=DOUBLE)
    torch.testing.assert_close(operator.forward(eye).mT, matrix, **FLOAT64)
    torch.testing.assert_close(operator.adjoint(torch.eye(m, dtype=DOUBLE)), matrix, **FLOAT64)
    d = torch.rand(4, dimension, dtype=DOUBLE)
    torch.testing.assert_close(operator.squares(d), d @ matrix.square().mT, **FLOAT64)
    factor = torch.randn(2, dimension, 3, dtype=DOUBLE)
    torch.testing.assert_close(operator.columns(factor), matrix @ factor, **FLOAT64)
    assert operator.columns(factor[..., :0]).shape == (2, m, 0)


@pytest.mark.parametrize("operator", [case[0] for case in CASES.values()], ids=CASES)
def test_products_keep_the_precision_of_the_points(operator):
    x = torch.ones(2, operator.dimension)
    assert operator.forward(x).dtype == operator.adjoint(operator.forward(x)).dtype == x.dtype


def test_a_pair_of_functions_has_the_mean_of_its_squares():
    pair = LinearOperator(lambda x: x @ MATRIX.mT, lambda u: u @ MATRIX, 7)
    d = torch.ones(2, 7, dtype=DOUBLE)
    found = pair.squares(d)
    assert found.shape == (2, 3) and torch.equal(found, found[:1, :1].expand(2, 3))
    # the mean of |A^T u|^2 / |u|^2 over 8 directions, whose values differ by some 2 times
    torch.testing.assert_close(found[0, 0], MATRIX.square().sum(1).mean(), rtol=0.5, atol=0)


@pytest.mark.parametrize(
    ("forward", "adjoint", "words"),
    [
        (lambda x: x @ MATRIX.mT, lambda u: 2 * u @ MATRIX, "adjoint must be the transpose"),
        (lambda x: x @ MATRIX.mT, lambda u: (u @ MATRIX).roll(1, 1), "adjoint must be the transp"),
        (lambda x: x @ MATRIX.mT + 1, lambda u: u @ MATRIX, "forward must be linear"),
        (lambda x: (x @ MATRIX.mT).abs(), lambda u: u @ MATRIX, "forward must be linear"),
        (lambda x: x @ MATRIX.mT, lambda u: u, r"adjoint\(u\) must have shape \(8, 7\)"),
        (lambda x: x.sum(1), lambda u: u, r"forward\(x\) must have shape \(8, m\)"),
    ],
)
def test_what_is_no_linear_map_with_its_transpose_is_told(forward, adjoint, words):
    with pytest.raises(ValueError, match=words):
        LinearOperator(forward, adjoint, 7)


def test_other_bad_operators_are_told():
    with pytest.raises(ValueError, match="known must be truth values .* got 0 of torch.bool"):
        inpainting(torch.zeros(4, dtype=torch.bool))
    with pytest.raises(ValueError, match="factor must divide each size of the grid, got 4 for 6"):
        super_resolution((8, 6), 4)
    with pytest.raises(ValueError, match="kernel must have odd sizes"):
        blur((8,), torch.ones(4))
    with pytest.raises(ValueError, match=r"kernel must have shape \(h, w\)"):
        blur((8, 8), torch.ones(3))


class Physics:
    """The interface of other packages: pictures in, pictures out."""

    def A(self, x):
        return torch.nn.functional.avg_pool2d(x, 2)

    def A_adjoint(self, u):
        return u.repeat_interleave(2, 2).repeat_interleave(2, 3) / 4


def test_operators_of_pictures_are_taken_as_they_are():
    ours, theirs = super_resolution((4, 6), 2), LinearOperator.of(Physics(), (1, 4, 6))
    x, u = torch.randn(3, 24), torch.randn(3, 6)
    torch.testing.assert_close(theirs.forward(x), ours.forward(x))
    torch.testing.assert_close(theirs.adjoint(u), ours.adjoint(u))
