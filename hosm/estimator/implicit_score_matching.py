r"""Implicit score matching: how near a score is to that of a law of which there are only points.

By parts, for a score s of which the law p knows nothing,

$$E_p \| s - \nabla \log p \|^2 / 2 = E_p [\mathrm{tr}\, \nabla s + \| s \|^2 / 2] + const$$

(Hyvarinen, "Estimation of Non-Normalized Statistical Models by Score Matching", JMLR 2005, theorem
1; p is smooth and falls off), and the constant is that of p. So held-out clean points judge scores
that were learned at different sigma by one measure. A denoising loss does not: it judges s against
the score of q_sigma, and each sigma has a constant of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from hosm.noise import rademacher

__all__ = ["implicit_loss"]

PROBES = 64  # products that the trace of a Jacobian takes, at most
ROWS = 2000  # points in a chunk of them


@torch.no_grad()
def implicit_loss(score: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Return tr J + |s|^2 / 2 at each of n points, shape (n,), J being the Jacobian of s.

    Its mean over points of p is E_p |s - grad log p|^2 / 2 up to a constant of p: less is better.
    Up to 64 coordinates the trace is exact; beyond, 64 vectors of random signs estimate it
    (Hutchinson, 1990), the same at each call.

    Args:
        score: s, (n, D) -> (n, D), acting on each point alone.
        x: clean points that s was not learned from, shape (n, D).
    """
    size = x.shape[1]
    probes = torch.eye(size)
    if size > PROBES:
        signs = rademacher(torch.empty(PROBES, size), torch.Generator().manual_seed(0))
        probes = signs / PROBES**0.5
    losses = []
    for part in x.split(ROWS):
        pair = torch.func.vjp(score, part)
        s, pullback = pair[:2]
        trace = s.new_zeros(len(part))
        for v in probes.to(part):
            trace += pullback(v.expand_as(part))[0] @ v
        losses.append(trace + s.square().sum(1) / 2)
    return torch.cat(losses)
