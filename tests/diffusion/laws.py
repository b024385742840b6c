"""Laws that the tests of diffusion share, with models that are exact."""

import torch

from hosm.distributions import Gaussian, GaussianMixture

F64 = torch.float64


def gaussian(dimension=4):
    """A Gaussian with correlations and a mean away from 0."""
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(dimension, dimension, generator=generator, dtype=F64)
    covariance = root @ root.mT / dimension + 0.05 * torch.eye(dimension, dtype=F64)
    return Gaussian(torch.arange(dimension, dtype=F64) / 2, covariance)


def mixture(dimension=4, terms=3):
    """A mixture of Gaussians that overlap."""
    generator = torch.Generator().manual_seed(1)
    means = 1.5 * torch.randn(terms, dimension, generator=generator, dtype=F64)
    roots = torch.randn(terms, dimension, dimension, generator=generator, dtype=F64)
    covariances = roots @ roots.mT / dimension + 0.05 * torch.eye(dimension, dtype=F64)
    return GaussianMixture(torch.tensor([0.2, 0.3, 0.5], dtype=F64), means, covariances)


def seeded(seed=0):
    """A generator."""
    return torch.Generator().manual_seed(seed)
