"""Functions of matrices times vectors by Lanczos' recursion, against dense eigenvectors."""

import pytest
import torch

from hosm.operators import DiagonalPlusLowRank, lanczos_function
from hosm.operators.diagonal_plus_low_rank import DENSE_SIZE
from tests.tolerances import ROUNDING

FUNCTIONS = {
    "exp": torch.exp,
    "root": lambda h: (1.5 + h.clamp_min(-1)).sqrt(),
    "phi": lambda h: torch.expm1(3 * h.clamp(max=-0.1)) / h.clamp(max=-0.1),
    "identity": lambda h: h,
    "one": torch.ones_like,
}

SIZES = [(300, 5, (3,)), (40, 0, ()), (60, 60, (2, 2))]


def operator(size, rank, batch=(3,), dtype=torch.float64, seed=0):
    g = torch.Generator().manual_seed(seed)
    diag = -0.2 - torch.rand(*batch, size, generator=g, dtype=dtype)
    factor = torch.randn(*batch, size, rank, generator=g, dtype=dtype) / size**0.5
    return DiagonalPlusLowRank(diag, factor)


def dense_function(A, function, v):
    values, vectors = torch.linalg.eigh(A.to_dense())
    inner = function(values) * (vectors.mT @ v.unsqueeze(-1)).squeeze(-1)
    return (vectors @ inner.unsqueeze(-1)).squeeze(-1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("size", "rank", "batch"), [(300, 5, (3,)), (40, 0, ()), (60, 60, (2, 2))]
)
def test_products_are_those_of_the_dense_matrix(name, size, rank, batch, dtype):
    A = operator(size, rank, batch, dtype)
    v = torch.randn(*batch, size, generator=torch.Generator().manual_seed(1), dtype=dtype)
    exact = dense_function(A, FUNCTIONS[name], v)
    error = (lanczos_function(A, FUNCTIONS[name], v) - exact).norm(dim=-1) / exact.norm(dim=-1)
    kinked = name in ("phi", "root") and rank > 0  # a clamp within the spectrum
    # the polynomials of 200 steps are 1.4e-5 from a kink
    assert float(error.max()) < (1e-4 if kinked else ROUNDING[dtype]["rtol"])


def test_a_looser_tolerance_takes_fewer_products():
    A, v = operator(500, 8), torch.ones(3, 500, dtype=torch.float64)
    counts = []

    class Counted:
        def __matmul__(self, q):
            counts[-1] += 1
            return A @ q

    for tolerance in (1e-2, 1e-12):
        counts.append(0)
        lanczos_function(Counted(), torch.exp, v, tolerance)
    assert counts[0] < counts[1] < 100


def test_an_invariant_span_ends_and_zero_stays_zero():
    A = DiagonalPlusLowRank.from_diagonal(torch.full((2, 300), -0.5, dtype=torch.float64))
    v = torch.stack([torch.zeros(300), torch.ones(300)]).double()
    out = lanczos_function(A, torch.exp, v)
    torch.testing.assert_close(out, v * torch.tensor(-0.5).double().exp())


def test_values_that_are_not_finite_end_the_recursion():
    A = operator(300, 2)
    v = torch.ones(3, 300, dtype=torch.float64)
    v[1] = torch.nan
    out = lanczos_function(A, torch.exp, v)
    assert not bool(out[1].isfinite().any())
    torch.testing.assert_close(out[0], dense_function(A, torch.exp, v.nan_to_num())[0])


def test_operators_use_it_beyond_the_dense_size():
    A = operator(DENSE_SIZE + 40, 6)
    v = torch.randn(3, DENSE_SIZE + 40, 2, generator=torch.Generator().manual_seed(2)).double()
    out = A.function_matvec(torch.exp, v)
    for j in range(2):
        exact = dense_function(A, torch.exp, v[..., j])
        # what Lanczos is asked for
        assert float((out[..., j] - exact).norm() / exact.norm()) < 1e-4
