"""High-order scores by denoising.

Estimates first-, second- and higher-order gradients of a data distribution's
log-density from samples (Meng, Song, Li and Ermon, "Estimating High Order Gradients of
the Data Distribution by Denoising", NeurIPS 2021), and uses them.

Read the folders in this order: `distributions`, `noise`, `operators`, `tweedie`, `networks`,
`autodiff`, `scores`, `objectives`, `training`, `uncertainty`, `samplers`, `metrics`; then
`estimator`, the front door; `pictures`, that of pictures; `inverse`, linear inverse problems;
`causal`, the causal graph of variables; `plot`, displays; `io` and `cli`, files and the command
`hosm`; and `experiment`, which reproduces the paper.
"""

import importlib
from typing import TYPE_CHECKING, Any

import hosm.moved  # noqa: F401  old import paths, for one release

if TYPE_CHECKING:
    from hosm.estimator.local_dimension import local_dimension
    from hosm.estimator.outlier_detector import OutlierDetector
    from hosm.estimator.score_estimator import ScoreEstimator
    from hosm.pictures.picture_denoiser import PictureDenoiser

__all__ = ["OutlierDetector", "PictureDenoiser", "ScoreEstimator", "local_dimension"]
__version__ = "0.1.0"

PLACES = {
    "OutlierDetector": "estimator.outlier_detector",
    "PictureDenoiser": "pictures.picture_denoiser",
    "ScoreEstimator": "estimator.score_estimator",
    "local_dimension": "estimator.local_dimension",
}


SECTIONS = (
    *("autodiff", "causal", "diffusion", "distributions", "estimator", "exact_scores", "inverse"),
    *("io", "metrics", "networks", "noise", "objectives", "operators", "pictures", "plot"),
    *("samplers", "scores", "training", "tweedie", "uncertainty"),
)


def __getattr__(name: str) -> Any:  # noqa: ANN401
    """Import a public name or a section at its first use: importing hosm alone stays fast."""
    if name in PLACES:
        return getattr(importlib.import_module(f"hosm.{PLACES[name]}"), name)
    if name in SECTIONS:
        return importlib.import_module(f"hosm.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return what there is to use, without what has to be there for Python."""
    return sorted([*__all__, *SECTIONS, "__version__"])
