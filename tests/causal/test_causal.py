"""The order and the graph of small additive-noise models that are known."""

import numpy as np
import pytest
import torch

from hosm.causal import graph, order, ordering
from hosm.causal.ordering import stein_hessian_diagonal, subset
from hosm.causal.pruning import additive_parents
from hosm.causal.regression import Kernel, _Evidence, best_kernels, left_out_variances, relevant
from tests.tolerances import FLOAT64, ILL_CONDITIONED


def chain(points=250, seed=0):
    """x0 -> x1 -> x2, curved, with Gaussian noise; shape (n, 3)."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(3, points))
    x0 = noise[0]
    x1 = np.sin(2 * x0) + 0.4 * noise[1]
    return np.stack([x0, x1, x1**2 + 0.4 * noise[2]], 1)


def chain_graph():
    """The graph of the chain."""
    return np.array([[0, 1, 0], [0, 0, 1], [0, 0, 0]], bool)


class Frame:
    """A data frame, as far as a table needs one."""

    def __init__(self, x, columns):
        self.x, self.columns = x, columns

    def __array__(self, dtype=None, copy=None):
        return self.x


def test_the_order_of_a_chain_is_found():
    found = order(chain())
    assert found.columns == [0, 1, 2] and found.names == []
    assert all(a <= b for a, b in zip(found.criteria[1:], found.rivals[1:], strict=True))
    assert np.isnan(found.criteria[0]) and len(found.criteria) == len(found.rivals) == 3


@pytest.mark.parametrize("pruning", ["gaussian_process", "additive"])
def test_the_graph_of_a_chain_is_found(pruning):
    np.testing.assert_array_equal(graph(chain(), pruning=pruning), chain_graph())


def test_the_criterion_with_exact_derivatives_is_zero_for_a_leaf():
    """x0 -> x1 = x0^2 / 2 + noise: h_1 = -1 everywhere, h_0 = -1 - x0^2 + (x1 - x0^2 / 2)."""
    rng = np.random.default_rng(1)
    x0 = rng.normal(size=600)
    x = np.stack([x0, x0**2 / 2 + rng.normal(size=600)], 1)
    exact = np.stack([-1 - x0**2 + (x[:, 1] - x0**2 / 2), -np.ones(600)], 1)
    exact *= x.var(0)
    found = order(x, hessian_diagonal=lambda y: torch.from_numpy(exact))
    assert found.columns == [0, 1] and found.criteria[1] == pytest.approx(0, abs=FLOAT64["atol"])
    y = torch.from_numpy((x - x.mean(0)) / x.std(0))
    rival = -exact[:, 0].mean() * exact[:, 0].var(ddof=1) * float(left_out_variances(y)[0]) ** 2
    assert found.rivals[1] == pytest.approx(rival)


@pytest.mark.parametrize("seed", [0, 1])
def test_permuted_and_scaled_columns_give_the_same_graph(seed):
    x, rng = chain(), np.random.default_rng(seed)
    places = rng.permutation(3)
    moved = 5 + x[:, places] * rng.uniform(0.01, 100, 3)
    assert [int(places[j]) for j in order(moved).columns] == order(x).columns
    np.testing.assert_array_equal(graph(moved), chain_graph()[np.ix_(places, places)])


def test_the_same_seed_gives_the_same_rows_and_criteria():
    x = chain(1200)

    def criteria(seed):
        return order(x, lambda y: -y.square(), random_state=seed).criteria[1:]

    assert criteria(3) == criteria(3) != criteria(4)
    rows = subset(torch.arange(10.0).unsqueeze(1), 4, 0).flatten().tolist()
    assert len(set(rows)) == 4


def test_one_variable_and_two():
    x = chain()
    assert order(x[:, :1]).columns == [0]
    np.testing.assert_array_equal(graph(x[:, :1]), np.zeros((1, 1), bool))
    assert order(x[:, [1, 0]]).columns == [1, 0]
    np.testing.assert_array_equal(graph(x[:, [1, 0]]), [[False, False], [True, False]])


def test_independent_columns_have_no_edges():
    x = np.random.default_rng(2).normal(size=(300, 4))
    for pruning in ("gaussian_process", "additive"):
        assert not graph(x, pruning=pruning).any()


def test_names_of_a_data_frame_and_a_tensor():
    x = chain()[:, [2, 0, 1]]
    found = order(Frame(x, ["c", "a", "b"]))
    assert found.columns == [1, 2, 0] and found.names == ["a", "b", "c"]
    assert order(torch.from_numpy(x)).columns == [1, 2, 0]


@pytest.mark.parametrize("function", [order, graph])
def test_what_cannot_be_ordered_is_refused(function):
    x = chain(50)
    with pytest.raises(ValueError, match="X must hold finite numbers, got NaN"):
        function(np.where(x == x[3, 1], np.nan, x))
    with pytest.raises(ValueError, match="minimum of 20"):
        function(x[:19])
    x[:, 1] = 1e6
    with pytest.raises(ValueError, match="each column of X must vary, got a constant column 1"):
        function(x)


def test_a_wrong_order_or_pruning_is_refused():
    with pytest.raises(ValueError, match="order must name each column from 0 to 2 once, got"):
        graph(chain(50), order=[0, 1, 1])
    with pytest.raises(ValueError, match="pruning must be one of gaussian_process, additive"):
        graph(chain(50), pruning="lasso")


def test_only_gaussian_processes_see_an_interaction():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(300, 4)))
    y = x[:, 0] * x[:, 2] + 0.5 * torch.from_numpy(rng.normal(size=300))
    assert relevant(x, y / y.std(), 3.0) == [0, 2]
    assert additive_parents(x, y / y.std()) == []


def test_many_variables_leave_rows_enough_to_the_additive_model():
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.normal(size=(60, 30)))
    y = torch.sin(2 * x[:, 7]) + 0.3 * torch.from_numpy(rng.normal(size=60))
    assert additive_parents(x, y) == [7]


def test_the_evidence_is_the_density_of_y_and_its_gradient_the_slope():
    rng = np.random.default_rng(0)
    x, y = (torch.from_numpy(rng.normal(size=shape)) for shape in ((30, 2), 30))
    evidence, at = _Evidence(x, y), np.array([0.7, 0.2, -0.4])
    loss, gradient = evidence.loss(at)
    y = y - y.mean()
    root = x * torch.tensor(at[:2]).sqrt()
    C = (torch.cdist(root, root).square() / -2).exp() + np.exp(at[2]) * torch.eye(30).double()
    c = y @ torch.linalg.solve(C, y) / 30  # the best scale
    law = torch.distributions.MultivariateNormal(torch.zeros(30).double(), c * C)
    constant = 15 * (1 + np.log(2 * np.pi) - np.log(30))
    assert loss == pytest.approx(-float(law.log_prob(y)) - constant, rel=ILL_CONDITIONED["rtol"])
    for i, step in enumerate(1e-6 * np.eye(3)):
        slope = (evidence.loss(at + step)[0] - evidence.loss(at - step)[0]) / 2e-6
        # a loss of 50 rounds to 1e-14, its difference over 2e-6 to 1e-8; two digits are left
        assert gradient[i] == pytest.approx(slope, abs=1e-6)


def test_left_out_variances_are_those_of_the_noise():
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    both = torch.from_numpy(np.stack([x, np.sin(2 * x) + 0.3 * rng.normal(size=300)], 1))
    # 300 points: 3 standard errors of the noise's variance, 0.09, and what the curve costs
    assert float(left_out_variances(both)[1]) == pytest.approx(0.095, abs=0.03)


def test_the_best_kernels_predict_best():
    x = torch.from_numpy(chain(120))
    x = (x - x.mean(0)) / x.std(0)
    chosen = best_kernels(x)
    best = left_out_variances(x)
    torch.testing.assert_close(left_out_variances(x, chosen), best)
    for kernel in (Kernel(1.0, 0.2), Kernel(3.0, 1.0), Kernel(9.0, 0.2)):
        assert (left_out_variances(x, [kernel] * 3) >= best).all()
    assert chosen[0].rho == 1.0 and chosen[2] != chosen[0]  # x0 is hardly foretold


def test_each_column_keeps_its_own_kernel_while_others_are_taken(monkeypatch):
    seen = []

    def watched(x, kernels):
        seen.append((x, kernels))
        return left_out_variances(x, kernels)

    monkeypatch.setattr(ordering, "left_out_variances", watched)
    order(chain(120))
    whole, own = seen[0]
    assert own == best_kernels(whole) and len({*own}) > 1
    for x, kernels in seen[1:]:
        places = [next(j for j in range(3) if torch.equal(y, whole[:, j])) for y in x.unbind(1)]
        assert kernels == [own[j] for j in places]


def test_the_stein_kernel_finds_the_curvature_of_a_gaussian():
    x = np.random.default_rng(0).normal(size=(800, 2)) @ np.diag([0.5, 1.0])
    found = stein_hessian_diagonal(torch.from_numpy(x))
    assert found.shape == (800, 2)
    # at 800 points the wide kernel and the ridge lose a fifth of the larger one
    np.testing.assert_allclose(np.median(found, 0), [-4.0, -1.0], rtol=0.25)
