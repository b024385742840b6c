"""Objectives: what training minimises so that a model learns scores.

`denoising_score_matching` has the objectives of first and second order (Meng, Song, Li and Ermon,
NeurIPS 2021, section 2 and theorem 2), `targets` what each sample contributes to them and the
registry of second-order targets, and `high_order` the objectives of order three and above.
"""

from hosm.noise import Scale
from hosm.objectives.denoising_score_matching import (
    JointTerms,
    dsm,
    joint,
    joint_terms,
    second_order,
)
from hosm.objectives.high_order import HighOrderModel, HighOrderObjective, order_k
from hosm.objectives.targets import (
    TARGETS,
    Target,
    TargetInputs,
    VarianceReduction,
    dsm_value,
    jacobian,
    likelihood,
    moment,
    register_target,
    residual,
    stencil,
)

__all__ = [
    "HighOrderModel",
    "HighOrderObjective",
    "JointTerms",
    "Scale",
    "TARGETS",
    "Target",
    "TargetInputs",
    "VarianceReduction",
    "dsm",
    "dsm_value",
    "jacobian",
    "joint",
    "joint_terms",
    "likelihood",
    "moment",
    "order_k",
    "register_target",
    "residual",
    "second_order",
    "stencil",
]
