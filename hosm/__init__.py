"""High-order scores by denoising.

Estimates first-, second- and higher-order gradients of a data distribution's
log-density from samples (Meng, Song, Li and Ermon, "Estimating High Order Gradients of
the Data Distribution by Denoising", NeurIPS 2021), and uses them.

Read the modules in this order: checks, laws, distributions, finite_data, energies, noise,
operands, operators, eigen, tweedie, networks, autodiff, scores, targets, objectives, tensors,
high_order, batches, settings, training, heads, checkpoints, uncertainty, proposals, samplers,
ess, metrics; then recipes, frozen, implicit, arrays, conventions, fitted, stored, estimator: the
front door, `hosm.ScoreEstimator`; novelty; and files, patches, commands, cli: the command `hosm`.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hosm.estimator import ScoreEstimator

__all__ = ["ScoreEstimator"]
__version__ = "0.1.0"


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Import the front door when it is first asked for: stages that do without never do."""
    if name == "ScoreEstimator":
        return importlib.import_module("hosm.estimator").ScoreEstimator
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
