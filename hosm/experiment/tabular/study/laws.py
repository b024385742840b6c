r"""Laws of tables: draws, and exact scores and Hessians of their log-densities.

They are what tables are like that people bring: clusters, heavy tails, curved and thin supports,
skewness, bounded variables, dependence through a copula, variables that follow from others, and
steps. A law is stated by a log-density of one point, up to a constant, and by how it is drawn;
derivatives are those of automatic differentiation in float64, exact to rounding. What is random in
a law, such as the places of clusters, is drawn once from a seed of its name and dimension.

Every law has about unit scale in each coordinate; none is standardised further, which is the
estimators' business.
"""

import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Generator, Tensor
from torch.func import grad, hessian, vmap

from hosm.distributions import GaussianMixture

__all__ = ["LAWS", "TabularLaw", "tabular_law"]

DOUBLE = torch.float64
ROWS = 256  # points whose Hessians are computed at once

LogDensity = Callable[[Tensor], Tensor]
Draw = Callable[[int, Generator], Tensor]


@dataclass(frozen=True)
class TabularLaw:
    """A law on R^D with exact derivatives; points have shape (n, D) and dtype float64.

    Attributes:
        name: which of `LAWS`.
        dimension: D.
        log_density: of one point, shape (D,), up to a constant.
        draw: n and a source of randomness -> points.
        is_mixture: whether it is a mixture of a few Gaussians, one of them included.
    """

    name: str
    dimension: int
    log_density: LogDensity
    draw: Draw
    is_mixture: bool = False

    def sample(self, n: int, seed: int) -> Tensor:
        """Return n independent points, shape (n, D), the same ones for a seed."""
        return self.draw(n, torch.Generator().manual_seed(seed))

    def score(self, x: Tensor) -> Tensor:
        """Return s1 = grad log p, shape (n, D)."""
        return vmap(grad(self.log_density), chunk_size=ROWS)(x)

    def hessian(self, x: Tensor) -> Tensor:
        """Return s2 = grad^2 log p, shape (n, D, D)."""
        return vmap(hessian(self.log_density), chunk_size=ROWS)(x)


def _normal(n: int, dimension: int, generator: Generator) -> Tensor:
    return torch.randn(n, dimension, generator=generator, dtype=DOUBLE)


def _uniform(n: int, dimension: int, generator: Generator) -> Tensor:
    """Return uniform numbers strictly between 0 and 1, shape (n, D)."""
    u = torch.rand(n, dimension, generator=generator, dtype=DOUBLE)
    return u.clamp(1e-15, 1 - 1e-15)


def _logistic(u: Tensor) -> Tensor:
    """Return the log-density of the standard logistic law at numbers u."""
    return -u.abs() - 2 * (-u.abs()).exp().log1p()


def _rotation(dimension: int, generator: Generator) -> Tensor:
    """Return a random orthogonal matrix, shape (D, D)."""
    q, r = torch.linalg.qr(_normal(dimension, dimension, generator))
    return q * r.diagonal().sign()


def _covariance(values: Tensor, generator: Generator) -> Tensor:
    """Return a covariance of these eigenvalues in random directions, shape (D, D)."""
    turn = _rotation(len(values), generator)
    return turn @ (values.unsqueeze(1) * turn.mT)


def _mixture(
    dimension: int, generator: Generator, terms: int, spread: float
) -> tuple[LogDensity, Draw]:
    """Return a mixture of Gaussians of unequal weights, in random places and of random shapes."""
    weights = torch.linspace(1.0, 2.0, terms, dtype=DOUBLE)
    means = spread * _normal(terms, dimension, generator)
    shapes = [
        _covariance(
            0.2 + 0.8 * torch.rand(dimension, generator=generator, dtype=DOUBLE), generator
        )
        for _ in range(terms)
    ]
    law = GaussianMixture(weights / weights.sum(), means, torch.stack(shapes))
    factors = torch.linalg.cholesky(law.covariances)
    scales = law.weights.log() - factors.diagonal(dim1=1, dim2=2).log().sum(1)
    inverses = torch.linalg.inv(factors)

    def log_density(x: Tensor) -> Tensor:
        u = (inverses @ (x - means).unsqueeze(2)).squeeze(2)
        return (scales - u.square().sum(1) / 2).logsumexp(0)

    return log_density, law.sample


def mixture3(dimension: int, generator: Generator) -> tuple[LogDensity, Draw]:
    """Three Gaussian clusters, well apart."""
    return _mixture(dimension, generator, 3, 2.0)


def mixture4(dimension: int, generator: Generator) -> tuple[LogDensity, Draw]:
    """Four Gaussian clusters that overlap."""
    return _mixture(dimension, generator, 4, 1.0)


def thin(dimension: int, generator: Generator) -> tuple[LogDensity, Draw]:
    """A Gaussian whose covariance is nearly singular: eigenvalues from 1 to 1e-4."""
    values = torch.logspace(0, -4, dimension, dtype=DOUBLE) if dimension > 1 else torch.ones(1)
    covariance = _covariance(values.to(DOUBLE), generator)
    factor = torch.linalg.cholesky(covariance)
    precision = torch.cholesky_inverse(factor)
    return lambda x: -x @ precision @ x / 2, lambda n, g: _normal(n, dimension, g) @ factor.mT


def student3(dimension: int, generator: Generator) -> tuple[LogDensity, Draw]:
    """Student's t with three degrees of freedom, of correlated coordinates."""
    values = 0.3 + 0.7 * torch.rand(dimension, generator=generator, dtype=DOUBLE)
    factor = torch.linalg.cholesky(_covariance(values, generator))
    precision, freedom = torch.cholesky_inverse(factor), 3

    def log_density(x: Tensor) -> Tensor:
        return -(freedom + dimension) / 2 * torch.log1p(x @ precision @ x / freedom)

    def draw(n: int, g: Generator) -> Tensor:
        chi = _normal(n * freedom, 1, g).view(n, freedom).square().sum(1, keepdim=True)
        return _normal(n, dimension, g) @ factor.mT * (freedom / chi).sqrt()

    return log_density, draw


def banana(dimension: int, generator: Generator) -> tuple[LogDensity, Draw]:
    """Pairs of coordinates of which the second follows the square of the first."""
    width, pairs = 0.4, dimension // 2

    def log_density(x: Tensor) -> Tensor:
        first, second, rest = x[:pairs], x[pairs : 2 * pairs], x[2 * pairs :]
        bent = (second - (first.square() - 1) / 2) / width
        return -(first.square().sum() + bent.square().sum() + rest.square().sum()) / 2

    def draw(n: int, g: Generator) -> Tensor:
        x = _normal(n, dimension, g)
        first = x[:, :pairs]
        x[:, pairs : 2 * pairs] = (first.square() - 1) / 2 + width * x[:, pairs : 2 * pairs]
        return x

    return log_density, draw


def ring(dimension: int, generator: Generator) -> tuple[LogDensity, Draw]:
    """A thin shell: the distance from the origin is near sqrt(D), every direction alike."""
    radius, width = math.sqrt(dimension), 0.3

    def log_density(x: Tensor) -> Tensor:
        return -(((x.norm() - radius) / width) ** 2) / 2

    def draw(n: int, g: Generator) -> Tensor:
        grid = torch.linspace(1e-3, radius + 12 * width, 20001, dtype=DOUBLE)
        logs = (dimension - 1) * grid.log() - ((grid - radius) / width).square() / 2
        mass = (logs - logs.max()).exp().cumsum(0)
        r = grid[torch.searchsorted(mass / mass[-1], _uniform(n, 1, g)).clamp_max(20000)]
        step = grid[1] - grid[0]
        direction = _normal(n, dimension, g)
        r = r + step * (_uniform(n, 1, g) - 0.5)
        return r * direction / direction.norm(dim=1, keepdim=True)

    return log_density, draw


def funnel(dimension: int, generator: Generator) -> tuple[LogDensity, Draw]:
    """Neal's funnel: the first coordinate sets the scale of the others."""
    spread = 0.5  # of the logarithm of their variance, over the first coordinate

    def log_density(x: Tensor) -> Tensor:
        rest = x[1:].square().sum() * (-spread * x[0]).exp()
        return -(x[0].square() + rest + (dimension - 1) * spread * x[0]) / 2

    def draw(n: int, g: Generator) -> Tensor:
        x = _normal(n, dimension, g)
        x[:, 1:] *= (spread * x[:, :1] / 2).exp()
        return x

    return log_density, draw


def skew(dimension: int, generator: Generator) -> tuple[LogDensity, Draw]:
    """Skew-normal variables (Azzalini, 1985), mixed by a rotation."""
    turn, slant = _rotation(dimension, generator), 4.0
    share = slant / math.sqrt(1 + slant**2)

    def log_density(x: Tensor) -> Tensor:
        u = turn @ x
        return -u.square().sum() / 2 + torch.special.log_ndtr(slant * u).sum()

    def draw(n: int, g: Generator) -> Tensor:
        folded = _normal(n, dimension, g).abs()
        u = share * folded + math.sqrt(1 - share**2) * _normal(n, dimension, g)
        return u @ turn

    return log_density, draw


def gamma(dimension: int, generator: Generator) -> tuple[LogDensity, Draw]:
    """Independent gamma variables of shape 6 and unit variance: positive and skewed."""
    shape, rate = 6, math.sqrt(6.0)

    def log_density(x: Tensor) -> Tensor:
        return ((shape - 1) * x.log() - rate * x).sum()

    def draw(n: int, g: Generator) -> Tensor:
        logs = -_uniform(n * shape, dimension, g).log().view(n, shape, dimension)
        return logs.sum(1) / rate

    return log_density, draw


def logistic(dimension: int, generator: Generator) -> tuple[LogDensity, Draw]:
    """A mixture of three product-logistic laws, whose coordinates a matrix correlates."""
    turn = _rotation(dimension, generator)
    mixing = turn * (0.5 + torch.rand(dimension, generator=generator, dtype=DOUBLE))
    inverse, places = torch.linalg.inv(mixing), 2 * _normal(3, dimension, generator)
    scale = 0.5

    def log_density(x: Tensor) -> Tensor:
        u = (inverse @ x - places) / scale
        logs = _logistic(u)
        return logs.sum(1).logsumexp(0)

    def draw(n: int, g: Generator) -> Tensor:
        labels = torch.randint(3, (n,), generator=g)
        u = _uniform(n, dimension, g).logit()
        return (places[labels] + scale * u) @ mixing.mT

    return log_density, draw


def graph(dimension: int, generator: Generator) -> tuple[LogDensity, Draw]:
    """An additive-noise model: each variable is a function of two before it, plus noise."""
    noise = 0.6
    parents = [
        [] if j == 0 else torch.randint(j, (2,), generator=generator).tolist()
        for j in range(dimension)
    ]
    slopes = _normal(dimension, 2, generator)

    def mean(before: Tensor, j: int) -> Tensor:
        """Return the mean of variable j from those before it, shape (*, j)."""
        if not parents[j]:
            return before.new_zeros(before.shape[:-1])
        terms = [torch.sin(2 * before[..., i] + slopes[j, k]) for k, i in enumerate(parents[j])]
        return torch.stack(terms, -1).sum(-1) / math.sqrt(2)

    def log_density(x: Tensor) -> Tensor:
        means = torch.stack([mean(x[:j], j) for j in range(dimension)])
        return -((x - means) / noise).square().sum() / 2

    def draw(n: int, g: Generator) -> Tensor:
        x = noise * _normal(n, dimension, g)
        for j in range(1, dimension):
            x[:, j] += mean(x[:, :j], j)
        return x

    return log_density, draw


def copula(dimension: int, generator: Generator) -> tuple[LogDensity, Draw]:
    """Logistic variables whose ranks depend as those of a Gaussian do, neighbours by .6."""
    place = torch.arange(dimension, dtype=DOUBLE)
    correlation = 0.6 ** (place.unsqueeze(1) - place).abs()
    factor = torch.linalg.cholesky(correlation)
    precision, scale = torch.cholesky_inverse(factor), math.sqrt(3) / math.pi

    def log_density(x: Tensor) -> Tensor:
        u = x / scale
        logs = _logistic(u)
        z = _normal_quantile(u)
        return logs.sum() + (z.square().sum() - z @ precision @ z) / 2

    def draw(n: int, g: Generator) -> Tensor:
        z = _normal(n, dimension, g) @ factor.mT
        return scale * (torch.special.log_ndtr(z) - torch.special.log_ndtr(-z))

    return log_density, draw


def _normal_quantile(logit: Tensor) -> Tensor:
    """Return z with P(N(0, 1) < z) = 1 / (1 + e^-logit), symmetric in its tails."""
    return -torch.special.ndtri(torch.sigmoid(-logit.abs())) * logit.sign()


def steps(dimension: int, generator: Generator) -> tuple[LogDensity, Draw]:
    """Whole numbers from 0 to 4 of unequal chances, each measured with an error of .2."""
    chances = torch.tensor([0.1, 0.25, 0.3, 0.25, 0.1], dtype=DOUBLE)
    levels, error = torch.arange(5, dtype=DOUBLE), 0.2

    def log_density(x: Tensor) -> Tensor:
        logs = chances.log() - ((x.unsqueeze(1) - levels) / error).square() / 2
        return logs.logsumexp(1).sum()

    def draw(n: int, g: Generator) -> Tensor:
        labels = torch.multinomial(chances, n * dimension, replacement=True, generator=g)
        return levels[labels].view(n, dimension) + error * _normal(n, dimension, g)

    return log_density, draw


Build = Callable[[int, Generator], tuple[LogDensity, Draw]]
LAWS: dict[str, tuple[Build, int]] = {  # name -> how it is built, and the least D
    "mixture3": (mixture3, 1),
    "mixture4": (mixture4, 1),
    "thin": (thin, 2),
    "student3": (student3, 1),
    "banana": (banana, 2),
    "ring": (ring, 2),
    "funnel": (funnel, 2),
    "skew": (skew, 1),
    "gamma": (gamma, 1),
    "logistic": (logistic, 1),
    "graph": (graph, 2),
    "copula": (copula, 1),
    "steps": (steps, 1),
}
MIXTURES = ("mixture3", "mixture4", "thin")


def tabular_law(name: str, dimension: int) -> TabularLaw:
    """Return one of the laws.

    Args:
        name: one of `LAWS`.
        dimension: D; banana, ring, funnel, graph and thin need two coordinates.

    Raises:
        ValueError: the name is unknown, or the dimension too small.
    """
    if name not in LAWS:
        raise ValueError(f"name must be one of {', '.join(LAWS)}, got {name!r}")
    build, least = LAWS[name]
    if dimension < least:
        raise ValueError(f"dimension of {name} must be at least {least}, got {dimension}")
    seed = zlib.crc32(f"{name} {dimension}".encode())
    log_density, draw = build(dimension, torch.Generator().manual_seed(seed))
    return TabularLaw(name, dimension, log_density, draw, name in MIXTURES)
