"""Diagonal plus CP: one contract, judged against dense tensors built entry by entry."""

import itertools
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hosm.operators import DiagonalPlusCP, DiagonalPlusLowRank

TOLERANCE = {torch.float64: 1e-11, torch.float32: 1e-5}  # relative to the sum of sizes of terms
DTYPES = list(TOLERANCE)
BATCHES = [(), (3,), (2, 3)]
ORDERS = [1, 2, 3, 4, 5]


def random_tensor(batch, size, rank, order, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    parts = ((*batch, size), (*batch, size, rank), (*batch, rank))
    return DiagonalPlusCP(
        *(torch.randn(shape, generator=generator, dtype=dtype) for shape in parts), order
    )


def dense(A, size_of_terms=False):
    """The definition, entry by entry; with `size_of_terms` the same of absolute values."""
    d, W, c = (part.abs() if size_of_terms else part for part in (A.diag, A.factor, A.weights))
    out = d.new_zeros(*d.shape[:-1], *(d.shape[-1],) * A.order)
    for index in itertools.product(range(d.shape[-1]), repeat=A.order):
        entry = c.clone()
        for i in index:
            entry = entry * W[..., i, :]
        diagonal = d[..., index[0]] if len(set(index)) == 1 else 0
        out[(..., *index)] = entry.sum(-1) + diagonal
    return out


def absolute(A):
    """The tensor of absolute values, whose contractions bound the size of what is summed."""
    return DiagonalPlusCP(A.diag.abs(), A.factor.abs(), A.weights.abs(), A.order)


def contracted(tensor, v, times):
    """Contract the last `times` indices of a dense tensor with v, shape (*, D)."""
    for left in range(tensor.ndim - v.ndim, tensor.ndim - v.ndim - times, -1):
        tensor = (tensor * v[(..., *(None,) * left, slice(None))]).sum(-1)
    return tensor


def assert_near(actual, expected, bound):
    """Compare at the tolerance of the dtype, relative to the bound on the terms' sizes."""
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    assert ((actual - expected).abs() <= TOLERANCE[actual.dtype] * (1 + bound)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("rank", [0, 1, 3])
@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("order", ORDERS)
class TestDenseTwin:
    """Every method against the dense tensor."""

    size = 3

    @pytest.fixture
    def A(self, batch, rank, order, dtype):
        return random_tensor(batch, self.size, rank, order, 0, dtype)

    @pytest.fixture
    def v(self, batch, dtype):
        generator = torch.Generator().manual_seed(5)
        return torch.randn(*batch, self.size, generator=generator, dtype=dtype)

    def test_dense_and_diagonal(self, A):
        bound = dense(A, size_of_terms=True)
        assert_near(A.to_dense(), dense(A), bound)
        on = [(..., *(i,) * A.order) for i in range(self.size)]
        expected, size = (torch.stack([t[i] for i in on], -1) for t in (dense(A), bound))
        assert_near(A.diagonal(), expected, size)

    def test_contractions(self, A, v, order):
        full, bound = dense(A), dense(A, size_of_terms=True)
        size = contracted(bound, v.abs(), order)
        assert_near(A.contract(v), contracted(full, v, order), size)
        columns = torch.stack([v, -2 * v, v.roll(1, -1)], -1)
        expected = [contracted(full, w, order) for w in columns.unbind(-1)]
        sizes = [contracted(bound, w.abs(), order) for w in columns.unbind(-1)]
        assert_near(A.contract(columns), torch.stack(expected, -1), torch.stack(sizes, -1))
        if order > 1:
            once = A.contract_once(v)
            assert (once.order, once.rank) == (order - 1, A.rank)
            size = contracted(bound, v.abs(), 1)
            assert_near(once.to_dense(), contracted(full, v, 1), size)

    def test_inner_and_norm(self, A, batch, order, dtype):
        B = random_tensor(batch, self.size, 2, order, 1, dtype)
        axes = tuple(range(-order, 0))
        size = absolute(A).inner(absolute(B))
        assert_near(A.inner(B), (dense(A) * dense(B)).sum(axes), size)
        assert_near(A.inner(B), B.inner(A), size)
        size = absolute(A).frobenius_norm_squared()
        assert_near(A.frobenius_norm_squared(), dense(A).square().sum(axes), size)

    def test_arithmetic(self, A, batch, order, dtype):
        B = random_tensor(batch, self.size, 2, order, 1, dtype)
        bound = 4 * (dense(A, size_of_terms=True) + dense(B, size_of_terms=True))
        s = torch.linspace(-1, 2, math.prod(batch), dtype=dtype).reshape(batch)
        scale = s.reshape(*batch, *(1,) * order)
        for ours, theirs in (
            (A + B, dense(A) + dense(B)),
            (A - B, dense(A) - dense(B)),
            (-A, -dense(A)),
            (A * 2, 2 * dense(A)),
            (-1.5 * A, -1.5 * dense(A)),
            (np.float64(0.5) * A, 0.5 * dense(A)),
            (s * A, scale * dense(A)),
            (A * torch.tensor(-3.0, dtype=dtype), -3 * dense(A)),
        ):
            assert_near(ours.to_dense(), theirs, bound)

    def test_type_batch_and_gradient_are_kept(self, A, batch, dtype):
        assert A.to(torch.float32).contract(A.diag.float()).dtype == torch.float32
        if batch:
            assert torch.equal(A[1:].to_dense(), A.to_dense()[1:])
            assert torch.equal(A[0].to_dense(), A.to_dense()[0])
        leaves = DiagonalPlusCP(*(p.requires_grad_() for p in (A.diag, A.factor, A.weights)), 3)
        leaves.frobenius_norm_squared().sum().backward()
        assert A.diag.grad is not None and A.weights.grad.shape == A.weights.shape
        assert not leaves.detach().contract(torch.ones_like(A.diag)).requires_grad


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(0, 3),
    st.integers(2, 4),
    st.lists(st.integers(1, 2), max_size=2),
)
def test_contractions_agree_with_each_other_and_with_the_dense_tensor(size, rank, order, batch):
    A, w = random_tensor(batch, size, rank, order), random_tensor(batch, size, 0, 1, seed=3).diag
    scale = absolute(A).contract(w.abs())
    assert_near(A.contract_once(w).contract(w), A.contract(w), scale)
    assert_near(A.contract(w), contracted(dense(A), w, order), scale)
    power = DiagonalPlusCP(torch.zeros_like(w), w.unsqueeze(-1), w.new_ones(*batch, 1), order)
    assert_near(A.inner(power), A.contract(w), scale)


@pytest.mark.parametrize("order", ORDERS)
def test_gradients_of_every_part_equal_finite_differences(order):
    A, B = random_tensor((2,), 3, 2, order), random_tensor((2,), 3, 1, order, seed=1)
    v = random_tensor((2,), 3, 2, 1, seed=2)

    def values(d, W, c, u, U):
        T = DiagonalPlusCP(d, W, c, order)
        out = [T.contract(u), T.contract(U).sum(-1), T.inner(B), T.frobenius_norm_squared()]
        return torch.stack([*out, *T.diagonal().unbind(-1)])

    inputs = [t.requires_grad_() for t in (A.diag, A.factor, A.weights, v.diag, v.factor)]
    assert torch.autograd.gradcheck(values, inputs)


def test_order_two_is_the_low_rank_operator():
    A, signs = random_tensor((2,), 4, 2, 2), torch.tensor([1.0, -1.0], dtype=torch.float64)
    A = DiagonalPlusCP(A.diag, A.factor, signs.expand(2, 2), 2)
    M = DiagonalPlusLowRank(A.diag, A.factor, signs)
    torch.testing.assert_close(A.to_dense(), M.to_dense())
    torch.testing.assert_close(A.frobenius_norm_squared(), M.frobenius_norm_squared())
    torch.testing.assert_close(A.contract(A.diag), (A.diag * (M @ A.diag)).sum(-1))


def test_no_dense_tensor_is_formed():
    """At D = 3,000 and order 5 a dense tensor would hold 2e17 entries."""
    A = random_tensor((2,), 3000, 4, 5, dtype=torch.float32)
    assert A.contract_once(A.diag).contract(A.diag).shape == (2,)
    assert torch.isfinite((A - A * 0.5).frobenius_norm_squared()).all()
    assert DiagonalPlusCP.from_diagonal(A.diag, 5).rank == 0


def shapes(*sizes):
    return [torch.zeros(size) for size in sizes]


@pytest.mark.parametrize(
    ("parts", "order", "message"),
    [
        (shapes((2, 3), (2, 4, 1), (2, 1)), 3, r"\(2, 3\), \(2, 4, 1\), \(2, 1\)"),
        (shapes((2, 3), (2, 3, 1), (2, 2)), 3, r"\(\*, D\), \(\*, D, R\) and \(\*, R\)"),
        (shapes((2, 3), (2, 3, 1), (1,)), 3, r"\(1,\)"),
        (shapes((), (), ()), 3, r"\(\), \(\), \(\)"),
        (shapes((3,), (3, 1), (1,)), 0, "order must be an integer of at least 1, got 0"),
        (shapes((3,), (3, 1), (1,)), 2.0, "got 2.0"),
    ],
)
def test_illegal_parts_are_named(parts, order, message):
    with pytest.raises(ValueError, match=message):
        DiagonalPlusCP(*parts, order)


def test_illegal_arguments_are_named():
    A, B = random_tensor((2,), 3, 1, 3), random_tensor((2,), 3, 1, 4)
    for v in (torch.zeros(2, 4), torch.zeros(3), torch.zeros(2, 4, 3), torch.zeros(2, 3, 1, 1)):
        with pytest.raises(ValueError, match=r"for diag \(2, 3\)"):
            A.contract(v)
    with pytest.raises(ValueError, match=r"\(2, 4\) for diag \(2, 3\)"):
        A.contract_once(torch.zeros(2, 4))
    with pytest.raises(ValueError, match="order must be .*got 1"):
        random_tensor((), 3, 1, 1).contract_once(torch.zeros(3))
    for act in (A.inner, A.__add__, A.__sub__):
        with pytest.raises(ValueError, match="other must be of order 3, got 4"):
            act(B)
    for act in (lambda: A + 1, lambda: A - "b", lambda: A * "b"):
        with pytest.raises(TypeError):
            act()
    assert repr(A) == "DiagonalPlusCP(diag=(2, 3), rank=1, order=3)"


def test_tensors_that_would_broadcast_are_named():
    one, many = (DiagonalPlusCP.from_diagonal(torch.ones(n, 3), 3) for n in (1, 4))
    for operation in (lambda: one + many, lambda: many - one, lambda: many.inner(one)):
        with pytest.raises(ValueError, match=r"\((1|4), 3\) and \((1|4), 3\)"):
            operation()
