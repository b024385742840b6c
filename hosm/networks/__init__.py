"""Backbones: plain networks that know nothing of scores.

`mlp` has multilayer perceptrons for points, with or without a noise scale as input; `picture_unet`
a U-Net without biases for pictures of any size; `unet` the U-Net for images of one size, which
needs the extra `images` and is imported only when it is asked for.
"""

from hosm.networks.mlp import (
    MLP,
    ConditionalMLP,
    narrowed,
    parameter_count,
)

__all__ = [
    "ConditionalMLP",
    "MLP",
    "narrowed",
    "parameter_count",
]
