r"""A measurement added to the posterior of a noisy point: N(m, C) given y = A x + s e.

Both scores at a noisy point x~ = x + sigma z give the first two moments m and C of x given x~
(`hosm.uncertainty.gaussian_posterior`). In the Gaussian approximation N(m, C), exact where the
data are Gaussian, a linear measurement with noise e ~ N(0, I) gives

$$p(y \mid \tilde x) = N(A m, V), \quad V = A C A^T + s^2 I, \qquad
  E[x \mid \tilde x, y] = m + C A^T V^{-1} (y - A m),$$

and draws of x given both come from draws x' of N(m, C) with a measurement y' = A x' + s e' each,
corrected by the same map: x' + C A^T V^-1 (y - y') has the right mean and covariance (Papandreou
and Yuille, "Gaussian Sampling by Local Perturbations", NeurIPS 2010).

Guidance. The likelihood's score is (dm/dx~)^T A^T V^-1 (y - A m), where others take a
vector-Jacobian product of the network. Tweedie's formula m = x~ + sigma^2 s1(x~) gives

$$\frac{\partial m}{\partial \tilde x} = I + \sigma^2 s_2(\tilde x) = C / \sigma^2 :$$

the Jacobian of the denoiser *is* the covariance over sigma^2. With s2 from the network's own
outputs the score is C A^T V^-1 (y - A m) / sigma^2, without differentiation; and x~ + sigma^2
times the scores of p(x~) and of p(y | x~) together is the conditional mean above. That V needs
the covariance is known (TMPD: Boys et al., "Tweedie Moment Projected Diffusions for Inverse
Problems", 2023; Peng et al., "Improving Diffusion Models for Inverse Problems Using Optimal
Posterior Covariance", ICML 2024; MMPS: Rozet et al., "Learning Diffusion Priors from Observations
by Expectation Maximization", NeurIPS 2024; Rissanen et al., "Free Hunch", ICLR 2025); there it is
the diagonal of a product with the Jacobian, a constant of training, products with the Jacobian in
each iteration of a solver, or an estimate along the path.

Solving. With C = diag(d) + U U^T, V = A diag(d) A^T + s^2 I + (A U)(A U)^T. Conjugate gradients
take its products, preconditioned by the same sum with the diagonal of A diag(d) A^T in place of
the whole, which is inverted as in `hosm.operators.inverses`, safely in float32. Where the rows of
A share no coordinate (inpainting, averages over blocks) this is V itself.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Generator, Tensor

from hosm.checks import check_number, check_one_shape, checked
from hosm.inverse.linear_operators import LinearOperator
from hosm.inverse.solver import conjugate_gradients
from hosm.noise import standard_normal
from hosm.operators import DiagonalPlusLowRank, positive_inverse
from hosm.tweedie import posterior_covariance, posterior_mean
from hosm.uncertainty import Posterior, posterior

__all__ = ["Measured", "denoised", "measured"]


@dataclass(frozen=True)
class Measured:
    """The law of x given a noisy point and a measurement of x, for each of n noisy points.

    Attributes:
        prior: N(m, C), the law given the noisy point alone.
        operator: A.
        y: measurements, shape (n, m).
        noise: s, standard deviation of the measurement's noise, above 0.
        gain: returns C A^T V^-1 r, shape (n, D), for r of shape (n, m).
    """

    prior: Posterior
    operator: LinearOperator
    y: Tensor
    noise: float
    gain: Callable[[Tensor], Tensor]

    def mean(self) -> Tensor:
        """Return E[x | x~, y], shape (n, D)."""
        m = self.prior.mean
        return m + self.gain(self.y - self.operator.forward(m))

    def draw(self, generator: Generator | None = None) -> Tensor:
        """Return one draw of x given x~ and y for each noisy point, shape (n, D).

        Args:
            generator: source of the noise, on the device of the points.
        """
        x = self.prior.sample(1, generator)[0]
        seen = self.operator.forward(x) + self.noise * standard_normal(self.y, generator)
        return x + self.gain(self.y - seen)


def measured(prior: Posterior, operator: LinearOperator, y: Tensor, noise: float) -> Measured:
    """Return the law of x, which is N(m, C) at each of n noisy points, given y = A x + s e.

    Args:
        prior: the posterior at n noisy points, with C >= 0 and diagonal d >= 0.
        operator: A.
        y: measurements, shape (n, m).
        noise: s, above 0.

    Raises:
        ValueError: shapes that do not fit, or a noise that is not above 0.
    """
    check_number("noise", noise)
    checked("y", y, len(prior.mean), operator.measurements, finite=False)
    checked("mean", prior.mean, "n", operator.dimension, finite=False)
    C = prior.covariance
    seen = operator.columns(C.factor)
    preconditioner = positive_inverse(operator.squares(C.diag) + noise**2, seen)

    def product(u: Tensor) -> Tensor:
        return operator.forward(C @ operator.adjoint(u)) + noise**2 * u

    def precondition(r: Tensor) -> Tensor:
        return preconditioner.solve(r.unsqueeze(1)).squeeze(1)

    def gain(r: Tensor) -> Tensor:
        solution = conjugate_gradients(product, r, precondition)
        if not solution.converged:
            found = f"{solution.residual:.2g} after {solution.iterations} iterations"
            message = f"conjugate gradients must converge, got a residual of {found}"
            warnings.warn(message, stacklevel=3)
        return C @ operator.adjoint(solution.values)

    return Measured(prior, operator, y, float(noise), gain)


def denoised(x_noisy: Tensor, s1: Tensor, s2: Any, sigma: float) -> Posterior:  # noqa: ANN401
    """Return N(m, C) of the clean points, given the scores at noisy ones.

    Args:
        x_noisy: noisy points, shape (n, D).
        s1: first-order scores there, shape (n, D).
        s2: second-order scores there, a `DiagonalPlusLowRank`, or dense, shape (n, D, D), whose
            covariance then is kept as its Cholesky factor.
        sigma: noise scale.

    Raises:
        ValueError: shapes that do not fit, or no s2.
    """
    check_one_shape("(n, D)", x_noisy=x_noisy, s1=s1)
    if isinstance(s2, Tensor):
        factor, wrong = torch.linalg.cholesky_ex(posterior_covariance(s2, sigma))
        if not bool(wrong.any()):
            C = DiagonalPlusLowRank(torch.zeros_like(x_noisy), factor)
            mean = posterior_mean(x_noisy, s1, sigma)
            return Posterior(mean, C, x_noisy.new_zeros(len(x_noisy)))
    return posterior(lambda _: (s1, s2), x_noisy, sigma)
