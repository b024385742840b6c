"""Laws of tables: derivatives against differences, draws against Stein's identities."""

import pytest
import torch

from hosm.experiment.tabular.study.laws import LAWS, tabular_law

PLACES = [(name, d) for name, (_, least) in LAWS.items() for d in (1, 2, 5) if d >= least]


@pytest.mark.parametrize(("name", "dimension"), PLACES)
def test_derivatives_are_those_of_the_log_density(name, dimension):
    law = tabular_law(name, dimension)
    x, h = law.sample(20, 1), 1e-5
    score, hessian = law.score(x), law.hessian(x)
    for j in range(dimension):
        step = h * torch.eye(dimension, dtype=x.dtype)[j]
        up, down = (torch.stack([law.log_density(p) for p in x + s * step]) for s in (1, -1))
        # central differences err by h^2 times third derivatives, and by rounding over h
        torch.testing.assert_close((up - down) / (2 * h), score[:, j], rtol=1e-4, atol=1e-5)
        change = (law.score(x + step) - law.score(x - step)) / (2 * h)
        # likewise, of one derivative more
        torch.testing.assert_close(change, hessian[:, j], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("name", "dimension"), PLACES)
def test_draws_are_of_the_density(name, dimension):
    """E s = 0, E x_i s_j = -[i = j] and E s_i^2 = -E H_ii, within five standard errors."""
    law = tabular_law(name, dimension)
    x = law.sample(20_000, 2)
    s = law.score(x)
    identities = [s, *(x * s[:, j : j + 1] for j in range(dimension))]
    identities.append(s.square() + law.hessian(x).diagonal(dim1=1, dim2=2))
    eye = torch.eye(dimension, dtype=x.dtype)
    expected = [torch.zeros(dimension), *(-eye), torch.zeros(dimension)]
    for values, mean in zip(identities, expected, strict=True):
        error = values.std(0) / len(values) ** 0.5
        assert ((values.mean(0) - mean).abs() <= 5 * error + 1e-9).all()  # 1e-9: rounding


def test_a_law_and_its_draws_are_the_same_each_time():
    first, again = tabular_law("mixture3", 3), tabular_law("mixture3", 3)
    x = first.sample(5, 0)
    assert torch.equal(x, again.sample(5, 0)) and torch.equal(first.score(x), again.score(x))
    assert not torch.equal(x, first.sample(5, 1))


@pytest.mark.parametrize(
    ("name", "dimension", "words"),
    [("bananas", 2, "name must be one of"), ("ring", 1, "dimension of ring must be at least 2")],
)
def test_bad_laws_are_named(name, dimension, words):
    with pytest.raises(ValueError, match=words):
        tabular_law(name, dimension)
