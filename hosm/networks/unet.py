"""The U-Net backbone for images, by `diffusers` (extra `images`).

It is a module of its own because its library takes seconds to import, which a model of vectors
should not cost. The architecture is `diffusers.UNet2DModel`: residual blocks of
group normalisation and SiLU over some resolutions, each half of the one before, in place of the
paper's NCSN U-Net (Meng, Song, Li and Ermon, NeurIPS 2021, appendix D). With `channels` of 128,
256, 256 and 256, two blocks a resolution and attention, it has the 35.7 million weights of the
network of Ho, Jain and Abbeel ("Denoising Diffusion Probabilistic Models", NeurIPS 2020).
"""

import copy
import math
from typing import Any, cast

from diffusers import UNet2DModel
from torch import Tensor, nn

from hosm.checks import check_count, checked
from hosm.networks.mlp import narrowed

__all__ = ["UNet"]


class UNet(nn.Module):
    """A U-Net over images that are held as flat points.

    Args:
        shape: channels, height and width of an image; both sides divisible by 2 as often as the
            resolution is halved (by 4 for three resolutions).
        outputs: numbers returned for each pixel of each channel.
        channels: feature maps at each of two or more resolutions, each a multiple of 8.
        blocks: residual blocks at each resolution, at least 1.
        attention: attend over all pixels at the second resolution and the last.
        dropout: share of features that a block drops in training, at least 0 and below 1.
        head: feature maps of one more convolution before the outputs, so that the columns of a
            factor are not confined to linear maps of the few features at full resolution; 0 (the
            default) for none.
        conditional: take a clock as well as the images (see `hosm.networks.mlp`).

    Raises:
        ValueError: an image side cannot be halved so often, a width is not divisible by 8, or a
            size is out of range.
    """

    def __init__(
        self,
        shape: tuple[int, int, int],
        outputs: int,
        channels: tuple[int, ...] = (16, 32, 32),
        *,
        blocks: int = 1,
        attention: bool = False,
        dropout: float = 0.0,
        head: int = 0,
        conditional: bool = False,
    ) -> None:
        super().__init__()
        for name, size in (("outputs", outputs), *zip("CHW", shape, strict=True)):
            check_count(name, size)
        check_count("head", head, 0)
        check_count("blocks", blocks)
        check_count("the number of channels", len(channels), 2)
        least = 2 ** (len(channels) - 1)
        if shape[1] % least or shape[2] % least:
            raise ValueError(
                f"image sides must be divisible by {least}, got {shape[1]} x {shape[2]}"
            )
        if not 0 <= dropout < 1:
            raise ValueError(f"dropout must be at least 0 and below 1, got {dropout}")
        if any(width < 8 or width % 8 for width in channels):
            raise ValueError(f"channels must be multiples of 8, got {channels}")
        self.shape, self.outputs, self.dimension = shape, outputs, math.prod(shape)
        self.conditional = conditional
        kinds = ["Attn" if attention and level == 1 else "" for level in range(len(channels))]
        network: Any = UNet2DModel(
            sample_size=shape[1:],
            in_channels=shape[0],
            out_channels=shape[0] * outputs,
            block_out_channels=channels,
            down_block_types=tuple(f"{kind}DownBlock2D" for kind in kinds),
            up_block_types=tuple(f"{kind}UpBlock2D" for kind in reversed(kinds)),
            layers_per_block=blocks,
            norm_num_groups=8,
            add_attention=attention,
            dropout=dropout,
            # a shift before the normalisation would be removed by it where groups are small
            resnet_time_scale_shift="scale_shift" if conditional else "default",
        )
        if head:
            network.conv_out = nn.Sequential(
                nn.Conv2d(channels[0], head, 3, padding=1),
                nn.SiLU(),
                nn.Conv2d(head, shape[0] * outputs, 3, padding=1),
            )
        self.network = network

    def first(self, outputs: int) -> "UNet":
        """Return the same network without its other outputs, of copied weights.

        Args:
            outputs: how many stay, 1 to all.

        Raises:
            ValueError: there are fewer.
        """
        check_count("outputs", outputs, 1, self.outputs)
        narrow, count = copy.deepcopy(self), self.shape[0] * outputs
        narrow.outputs, network = outputs, cast(Any, narrow.network)
        last: Any = network.conv_out
        if isinstance(last, nn.Sequential):
            last[-1] = narrowed(cast(nn.Conv2d, last[-1]), count)
        else:
            network.conv_out = narrowed(last, count)
        return narrow

    def forward(self, x: Tensor, clock: Tensor | None = None) -> Tensor:
        """Map flat images x, shape (n, D), and their clock, shape (n,), to (n, outputs, D).

        Args:
            x: images as flat points, shape (n, D), D = channels height width; values unchecked.
            clock: position of each noise scale in its range, -1 to 1, shape (n,).

        Raises:
            ValueError: another shape, or integers; a clock is missing where `conditional`, or
                given where not.
        """
        checked("x", x, "n", self.dimension, finite=False)
        if self.conditional != (clock is not None):
            wanted = "given" if self.conditional else "None"
            found = None if clock is None else "a tensor"
            raise ValueError(
                f"clock must be {wanted} where conditional is {self.conditional}, got {found}"
            )
        if clock is not None:
            checked("clock", clock, len(x), finite=False)
        time = x.new_zeros(x.shape[0]) if clock is None else 500 * (1 + clock)  # 0..1000
        maps = self.network(x.view(-1, *self.shape), time, return_dict=False)[0]
        return maps.reshape(x.shape[0], self.outputs, self.dimension)
