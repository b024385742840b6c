"""One contract for diag + low-rank operators, judged against their dense twins.

A case supplies the shapes and the signs; every check is inherited by every case.
"""

import time
from typing import ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hosm.operators import DiagonalPlusLowRank
from hosm.operators import spectra as eigen
from hosm.operators.diagonal_plus_low_rank import DENSE_SIZE
from tests.tolerances import ROUNDING


def assert_near(actual, expected, times=1.0):
    """Compare at the tolerance of the dtype, relative to the largest expected entry."""
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    bound = times * ROUNDING[actual.dtype]["rtol"] * max(1.0, float(expected.abs().max()))
    assert float((actual - expected).abs().max()) <= bound


def dense(operator):
    """Return the matrices that an operator means, built entry by entry from the definition."""
    d, u, c = operator.diag, operator.factor, operator.signs
    return torch.diag_embed(d) + torch.einsum("...ik,k,...jk->...ij", u, c, u)


def random_operator(batch, size, rank, signs=None, seed=0, positive=False, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    diag = torch.randn(*batch, size, generator=generator, dtype=dtype)
    diag = diag.abs() + 0.5 if positive else diag + 0.3 * diag.sign()
    factor = torch.randn(*batch, size, rank, generator=generator, dtype=dtype)
    signs = None if signs is None else torch.tensor(signs, dtype=dtype)
    return DiagonalPlusLowRank(diag, factor, signs)


def positive_definite(operator):
    """Shrink the low-rank part until |W| < 1 on the scale of d > 0: A > 0 for any signs."""
    diag = operator.diag.abs()
    norm = torch.linalg.matrix_norm(operator.factor / diag.sqrt().unsqueeze(-1), ord="fro")
    factor = operator.factor * (0.9 / norm.clamp_min(0.9))[..., None, None]
    return DiagonalPlusLowRank(diag, factor, operator.signs)


class OperatorContract:
    """What every operator satisfies; a case sets batch, size, rank, signs and dtype."""

    batch: ClassVar[tuple[int, ...]] = ()
    size = 6
    rank = 3
    signs: ClassVar[list[float] | None] = None
    dtype = torch.float64

    @pytest.fixture
    def A(self):
        return random_operator(self.batch, self.size, self.rank, self.signs, 0, False, self.dtype)

    @pytest.fixture
    def B(self):
        return random_operator(self.batch, self.size, 2, [1.0, -1.0], 1, False, self.dtype)

    def randn(self, *shape, seed=7):
        generator = torch.Generator().manual_seed(seed)
        return torch.randn(shape, generator=generator, dtype=self.dtype)

    def test_dense_diagonal_and_trace(self, A):
        assert_near(A.to_dense(), dense(A))
        assert_near(A.diagonal(), dense(A).diagonal(dim1=-2, dim2=-1))
        assert_near(A.trace(), dense(A).diagonal(dim1=-2, dim2=-1).sum(-1))

    def test_matvec_and_matmul(self, A):
        v, m = self.randn(*self.batch, self.size), self.randn(*self.batch, self.size, 4)
        assert_near(A @ v, torch.einsum("...ij,...j->...i", dense(A), v))
        assert_near(A @ m, dense(A) @ m)

    def test_sums_and_multiples(self, A, B):
        assert_near((A + B).to_dense(), dense(A) + dense(B))
        assert_near((A - B).to_dense(), dense(A) - dense(B))
        assert_near((-A).to_dense(), -dense(A))
        for scale in (2.5, -3.0, 0, np.float32(-0.5), torch.tensor(-1.5, dtype=self.dtype)):
            assert_near((scale * A).to_dense(), float(scale) * dense(A))
            assert_near((A * scale).to_dense(), float(scale) * dense(A))
        assert set((-2.0 * A).signs.tolist()) <= {1.0, -1.0}
        assert_near(A.add_diagonal(2.0).to_dense(), dense(A) + 2 * torch.eye(self.size))

    @pytest.mark.parametrize("kind", ["positive", "negative", "mixed"])
    def test_multiple_per_member(self, A, kind):
        scale = self.randn(*self.batch) + 0.1
        scale = {"positive": scale.abs(), "negative": -scale.abs(), "mixed": scale}[kind]
        assert_near((scale * A).to_dense(), scale[..., None, None] * dense(A))
        assert (scale * A).rank in ({A.rank} if kind != "mixed" else {A.rank, 2 * A.rank})

    def test_inner_and_norm(self, A, B):
        assert_near(A.inner(B), (dense(A) * dense(B)).sum((-2, -1)))
        assert_near(A.frobenius_norm_squared(), dense(A).square().sum((-2, -1)))
        assert_near(A.inner(A), A.frobenius_norm_squared())

    def test_solve_inverts_an_indefinite_matrix(self, A):
        v, m = self.randn(*self.batch, self.size), self.randn(*self.batch, self.size, 4)
        exact = torch.linalg.solve(dense(A).double(), m.double()).to(self.dtype)
        condition = float(torch.linalg.cond(dense(A)).max())
        assert_near(A.solve(m), exact, times=condition)
        assert_near(A @ A.solve(v), v, times=condition)

    def test_log_determinant(self, A):
        A = positive_definite(A)
        assert_near(A.log_determinant(), torch.logdet(dense(A).double()).to(self.dtype), times=10)

    def test_log_determinant_refuses_what_is_not_positive(self, A):
        with pytest.raises(ValueError, match="negative eigenvalues"):
            A.add_diagonal(-1.0 - torch.linalg.eigvalsh(dense(A)).amin()).log_determinant()

    def test_square_root(self, A):
        A = positive_definite(A)
        eye = torch.eye(self.size, dtype=self.dtype).expand(dense(A).shape)
        root = A.square_root_matvec(eye)
        assert_near(root @ root.mT, dense(A))
        assert_near(A.square_root_matvec(eye[..., 0]), root[..., 0])

    def test_clip_keeps_a_positive_matrix(self, A):
        A = positive_definite(A)
        clipped, share = A.clip_to_psd()
        assert_near(clipped.to_dense(), dense(A))
        assert share.shape == self.batch and float(share.max()) == 0

    def test_clip_raises_an_indefinite_one(self, A):
        A = A.add_diagonal(-1.0) - DiagonalPlusLowRank.outer(A.diag)
        clipped, share = A.clip_to_psd()
        added = clipped.to_dense() - dense(A)
        scale = float(dense(A).abs().max())
        for matrix in (clipped.to_dense(), added):
            assert float(torch.linalg.eigvalsh(matrix).min()) >= -1e3 * scale * self.epsilon
        traces = [m.diagonal(dim1=-2, dim2=-1).sum(-1) for m in (added, clipped.to_dense())]
        expected = traces[0] / (traces[0] + traces[1])
        # up to the floor under d, 1e-6 of its mean, which counts as kept
        torch.testing.assert_close(share, expected, rtol=1e-4, atol=1e-4)
        assert bool(((share > 0) & (share < 1)).all()) and bool((clipped.diag > 0).all())

    @property
    def epsilon(self):
        return torch.finfo(self.dtype).eps

    def test_eigenpairs(self, A):
        values, vectors = A.eigenpairs(4)
        assert_near(values, torch.linalg.eigvalsh(dense(A))[..., -4:].flip(-1), times=10)
        assert_near(A @ vectors, vectors * values.unsqueeze(-2), times=10)
        eye = torch.eye(4, dtype=self.dtype).expand(*self.batch, 4, 4)
        assert_near(vectors.mT @ vectors, eye)

    def test_functions(self, A):
        v = self.randn(*self.batch, self.size)
        constant = DiagonalPlusLowRank(torch.full_like(A.diag, -0.7), A.factor, A.signs)
        for operator in (0.2 * A, 0.2 * constant):
            exact = torch.linalg.matrix_exp(dense(operator).double()).to(self.dtype)
            expected = torch.einsum("...ij,...j->...i", exact, v)
            assert_near(operator.function_matvec(torch.exp, v), expected, times=10)

    def test_constructors_and_dtype(self, A):
        assert_near(DiagonalPlusLowRank.from_diagonal(A.diag).to_dense(), torch.diag_embed(A.diag))
        product = A.diag.unsqueeze(-1) * A.diag.unsqueeze(-2)
        assert_near(DiagonalPlusLowRank.outer(A.diag).to_dense(), product)
        other = torch.float32 if self.dtype == torch.float64 else torch.float64
        assert A.to(other).to_dense().dtype == other

    def test_gradients(self, A):
        v = self.randn(*self.batch, self.size).double()
        A, signs = positive_definite(A.to(torch.float64)), A.signs.double()

        def every_number(diag, factor):
            B = DiagonalPlusLowRank(diag, factor, signs)
            C = -2.0 * (B + DiagonalPlusLowRank.outer(v)) - B.add_diagonal(1.0)
            return (
                C @ v,
                C.frobenius_norm_squared() + C.inner(B) + C.trace(),
                B.solve(v) + C.diagonal(),
                B.log_determinant(),
                B.eigenpairs(2)[0],
                B.scaled(diag.square().sum(-1)).factor,
            )

        inputs = (A.diag.detach().requires_grad_(), A.factor.detach().requires_grad_())
        assert torch.autograd.gradcheck(every_number, inputs)


class TestSingle(OperatorContract):
    pass


class TestBatch(OperatorContract):
    batch: ClassVar = (5,)
    signs: ClassVar = [1.0, 1.0, -1.0]


class TestMultiBatch(OperatorContract):
    batch: ClassVar = (2, 3)
    signs: ClassVar = [-1.0, 1.0, 1.0]

    def test_indexing(self, A):
        assert_near(A[1].to_dense(), dense(A)[1])
        assert_near(A[:, 2].to_dense(), dense(A)[:, 2])
        assert_near(A[torch.tensor([1, 0])].to_dense(), dense(A)[[1, 0]])

    def test_sum_broadcasts_over_the_batch(self, A, B):
        assert_near((A + B[0]).to_dense(), dense(A) + dense(B)[0])
        assert_near((A[0] + B).to_dense(), dense(A)[0] + dense(B))


class TestNegative(OperatorContract):
    batch: ClassVar = (5,)
    signs: ClassVar = [-1.0, -1.0, -1.0]


class TestRankZero(OperatorContract):
    batch: ClassVar = (4,)
    rank = 0


class TestRankOfFullSize(OperatorContract):
    batch: ClassVar = (4,)
    rank = 6
    signs: ClassVar = [1.0, -1.0, 1.0, 1.0, -1.0, 1.0]


class TestMoreColumnsThanRows(OperatorContract):
    batch: ClassVar = (4,)
    rank = 8
    signs: ClassVar = [1.0, -1.0] * 4


class TestSinglePrecision(OperatorContract):
    batch: ClassVar = (5,)
    signs: ClassVar = [1.0, -1.0, 1.0]
    dtype = torch.float32


shapes = {
    "batch": st.lists(st.integers(1, 3), max_size=2).map(tuple),
    "size": st.integers(1, 7),
    "signs": st.lists(st.sampled_from([1.0, -1.0]), max_size=9),
    "seed": st.integers(0, 1000),
}


@settings(max_examples=40, deadline=None, derandomize=True)
@given(**shapes)
def test_algebra_over_shapes(batch, size, signs, seed):
    A = random_operator(batch, size, len(signs), signs, seed)
    B = random_operator(batch, size, 1, [-1.0], seed + 1)
    C = 2.0 * A - B
    assert_near(C.to_dense(), 2 * dense(A) - dense(B))
    assert_near(C.frobenius_norm_squared(), dense(C).square().sum((-2, -1)))
    assert_near(A.inner(B), (dense(A) * dense(B)).sum((-2, -1)))
    assert_near(C @ A.diag, torch.einsum("...ij,...j->...i", dense(C), A.diag))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(**shapes)
def test_clipping_over_shapes(batch, size, signs, seed):
    A = random_operator(batch, size, len(signs), signs, seed)
    clipped, share = A.clip_to_psd()
    scale = 1 + float(dense(A).abs().max())
    # d may be raised to 1e-6 of its mean, which costs the whitened eigenvalues six digits
    assert float(torch.linalg.eigvalsh(clipped.to_dense()).min()) >= -1e-9 * scale
    assert bool(((share >= 0) & (share <= 1)).all())


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_singular_matrix_has_a_square_root(dtype):
    """Rounding of its zero eigenvalue is no negative one."""
    u = torch.nn.functional.normalize(random_operator((4,), 6, 0, dtype=dtype).diag, dim=-1)
    A = DiagonalPlusLowRank.from_diagonal(torch.ones_like(u)) - DiagonalPlusLowRank.outer(u)
    S = A.square_root_matvec(torch.eye(6, dtype=dtype).expand(4, 6, 6))
    torch.testing.assert_close(S @ S.mT, dense(A), **ROUNDING[dtype])
    # the zero is off by some roundings, of which a root is taken
    assert float(A.square_root_matvec(u).abs().max()) < (50 * torch.finfo(dtype).eps) ** 0.5


def test_clipped_share_of_a_diagonal():
    A = DiagonalPlusLowRank.from_diagonal(torch.tensor([3.0, -1.0, 0.0, -2.0]))
    clipped, share = A.clip_to_psd()
    floor = 1e-6 * 6 / 4  # of the mean of |d|
    assert share.item() == pytest.approx(3 / (6 + 3 * floor))
    assert clipped.diag.tolist() == pytest.approx([3, floor, floor, floor])


@pytest.mark.parametrize("case", ["spread", "constant", "signed", "sparse", "ties", "diagonal"])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_leading_eigenpairs_of_a_large_matrix(case, dtype):
    """Without D x D, the same pairs as a dense solver finds, also where d has ties."""
    size, rank, k = DENSE_SIZE + 44, 10, 12
    A = random_operator((3,), size, rank, seed=3, positive=True, dtype=dtype)
    diag, factor, signs = A.diag, A.factor * torch.linspace(0.05, 0.3, rank, dtype=dtype), A.signs
    if case == "constant":
        diag = torch.full_like(diag, 0.8)
    if case == "signed":
        signs = torch.tensor([1.0, -1.0], dtype=dtype).repeat(rank // 2)
    if case == "sparse":  # exact eigenvectors e_i with eigenvalue d_i, among the leading ones
        factor = factor * (torch.arange(size) % 2).unsqueeze(-1)
    if case == "ties":
        diag = diag.round()
    A = DiagonalPlusLowRank(
        diag,
        factor[..., : 0 if case == "diagonal" else rank],
        signs[: 0 if case == "diagonal" else rank],
    )
    values, vectors = A.eigenpairs(k)
    exact = torch.linalg.eigvalsh(dense(A).double())[..., -k:].flip(-1).to(dtype)
    assert_near(values, exact)
    assert_near(A @ vectors, vectors * values.unsqueeze(-2))
    assert_near(vectors.mT @ vectors, torch.eye(k, dtype=dtype).expand(3, k, k))


@pytest.mark.parametrize("seed", [6, 10, 11, 13, 20, 22])
@pytest.mark.parametrize("k", [1, 2])
def test_no_leading_eigenvalue_is_missed(seed, k):
    """Many equal d, single precision: on these seeds, no guard pairs find a wrong one."""
    A = random_operator((8,), DENSE_SIZE + 44, 10, seed=seed, dtype=torch.float32)
    A = DiagonalPlusLowRank(A.diag.round(), 0.03 * A.factor)
    exact = torch.linalg.eigvalsh(dense(A))[..., -k:].flip(-1)
    assert_near(A.eigenpairs(k)[0], exact)


def test_rounding_over_many_dimensions_does_not_keep_the_iteration_going(monkeypatch):
    steps, solve = [], eigen._shifted_inverse

    def counted(*arguments):
        steps.append(0)
        return solve(*arguments)

    monkeypatch.setattr(eigen, "_shifted_inverse", counted)
    draw, size = torch.Generator().manual_seed(0), 200_000
    factor = 0.1 * torch.randn(1, size, 6, generator=draw)
    A = DiagonalPlusLowRank(0.02 + 0.05 * torch.rand(1, size, generator=draw), factor)
    values, vectors = A.eigenpairs(3)
    residual = (A @ vectors - vectors * values.unsqueeze(-2)).norm(dim=-2)
    # the iteration ends at D^(1/2) roundings, 5e-5
    assert float((residual / values).max()) < 1e-4
    assert len(steps) <= 2 * 7  # of 3 pairs and 4 guards


def test_many_eigenpairs_are_left_to_the_dense_solver(monkeypatch):
    A = random_operator((), DENSE_SIZE + 4, 3, positive=True)
    values, vectors = A.eigenpairs(DENSE_SIZE)
    assert_near(A @ vectors, vectors * values)
    monkeypatch.setattr(DiagonalPlusLowRank, "to_dense", None)
    assert_near(A.eigenpairs(5)[0], values[:5])


def test_gradient_of_a_large_eigenvalue():
    A = random_operator((), DENSE_SIZE + 4, 3, seed=3, positive=True)
    diag = A.diag.clone().requires_grad_()
    values, vectors = DiagonalPlusLowRank(diag, A.factor, A.signs).eigenpairs(2)
    values[1].backward()
    assert_near(diag.grad, vectors[:, 1].square())


def test_norm_of_a_large_matrix_needs_no_large_matrix():
    """D = 100,000: the dense form would take 40 GB."""
    A = random_operator((), 100_000, 5, seed=0, dtype=torch.float32)
    start = time.perf_counter()
    norm = (A - A.add_diagonal(10.0)).frobenius_norm_squared()
    assert time.perf_counter() - start < 5
    # the two low-rank parts cancel, up to rounding at the size of their own squared norm
    assert abs(float(norm) - 1e7) < 1e-6 * float(2 * A.frobenius_norm_squared())  # 1e5


@pytest.mark.parametrize(
    ("diag", "factor", "signs"),
    [((3,), (4, 2), None), ((2, 3), (3, 2), None), ((3,), (3, 2), (3,)), ((), (2,), None)],
)
def test_shapes_that_do_not_fit(diag, factor, signs):
    signs = None if signs is None else torch.ones(signs)
    with pytest.raises(ValueError, match=r"must have shapes \(\*, D\)") as error:
        DiagonalPlusLowRank(torch.ones(diag), torch.ones(factor), signs)
    assert str(diag) in str(error.value) and str(factor) in str(error.value)


def test_bad_input_is_named():
    A = random_operator((2,), 4, 2, positive=True)
    with pytest.raises(ValueError, match=r"\(4,\)"):
        A @ torch.ones(4)
    for k in (0, 5):
        with pytest.raises(ValueError, match=f"k must be .*, got {k}"):
            A.eigenpairs(k)
    with pytest.raises(ValueError, match="diag must be above 0"):
        (-A).square_root_matvec(A.diag)
    with pytest.raises(ValueError, match="no negative eigenvalue"):
        (A - DiagonalPlusLowRank.outer(9 * A.diag)).square_root_matvec(A.diag)
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        DiagonalPlusLowRank(torch.ones(2), torch.eye(2), torch.tensor([-1.0, 1.0])).solve(
            torch.ones(2)
        )
    with pytest.raises(ValueError, match="diag must have no zero"):
        DiagonalPlusLowRank.outer(A.diag).solve(A.diag)


@pytest.mark.parametrize("other", ["2", None, [1.0], object()])
def test_unknown_operands_are_refused(other):
    A = random_operator((), 4, 2)
    for operation in (lambda: A + other, lambda: A - other, lambda: A * other, lambda: A @ other):
        with pytest.raises(TypeError):
            operation()
