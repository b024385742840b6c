r"""A convolutional network for pictures of any size, under noise of any scale.

A U-Net without biases, whose inputs are the noisy picture and the map of its noise scale (Zhang,
Li, Zuo, Zhang, Van Gool and Timofte, "Plug-and-Play Image Restoration with Deep Denoiser Prior",
TPAMI 2021, who call theirs DRUNet). Convolutions without biases and rectifiers commute with
positive factors, so that for a > 0

$$r(a y, a \sigma) = a\, r(y, \sigma):$$

a picture in 0 to 1 and the same picture in 0 to 255 are denoised alike (Mohan, Kadkhodaie,
Simoncelli and Fernandez-Granda, "Robust and Interpretable Blind Image Denoising via Bias-Free
Convolutional Neural Networks", ICLR 2020). Pixels are first folded into channels, 2 x 2 of them
(Zhang, Zuo and Zhang, "FFDNet", TIP 2018), which makes a step four times as cheap.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from hosm.checks import check_count

__all__ = ["PictureUNet"]

FOLD = 2  # pixels along each axis that are folded into channels


class _Convolution(nn.Module):
    """A convolution without bias, whose weights are one matrix, as the optimiser Muon needs them.

    Args:
        inputs: channels of what it reads.
        outputs: channels of what it returns.
        size: side of the kernel, odd; sizes of pictures stay.
    """

    def __init__(self, inputs: int, outputs: int, size: int = 3) -> None:
        super().__init__()
        self.shape = (outputs, inputs, size, size)
        bound = (inputs * size**2) ** -0.5
        self.weight = nn.Parameter(torch.empty(outputs, inputs * size**2).uniform_(-bound, bound))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.conv2d(x, self.weight.view(self.shape), padding=self.shape[2] // 2)


class _Residual(nn.Module):
    """x plus two convolutions of x, which begin at zero."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.inner, self.outer = _Convolution(width, width), _Convolution(width, width)
        nn.init.zeros_(self.outer.weight)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.outer(torch.relu(self.inner(x)))


def _blocks(width: int, count: int) -> nn.Sequential:
    return nn.Sequential(*[_Residual(width) for _ in range(count)])


class PictureUNet(nn.Module):
    """What noise adds to a picture, and features of each 2 x 2 pixels.

    Args:
        channels: 1 for grey pictures, 3 for colour.
        widths: feature maps at each resolution, from a half of the picture's on.
        blocks: residual blocks at each resolution, on the way down and on the way up.

    Raises:
        ValueError: a number below 1, or no width.
    """

    def __init__(
        self, channels: int, widths: Sequence[int] = (48, 96, 128), blocks: int = 2
    ) -> None:
        super().__init__()
        if not widths:
            raise ValueError("widths must hold a number for each resolution, got none")
        for name, size in (("channels", channels), ("blocks", blocks)):
            check_count(name, size)
        for width in widths:
            check_count("widths", width)
        self.channels, self.widths, self.blocks = channels, tuple(widths), blocks
        folded, pairs = channels * FOLD**2, list(zip(widths, widths[1:], strict=False))
        self.first = nn.Conv2d(folded + 1, widths[0], 3, padding=1, bias=False)
        self.down = nn.ModuleList([_blocks(fine, blocks) for fine, _ in pairs])
        self.shrink = nn.ModuleList([_Convolution(FOLD**2 * a, b, 1) for a, b in pairs])
        self.middle = _blocks(widths[-1], blocks)
        self.grow = nn.ModuleList([_Convolution(b, FOLD**2 * a, 1) for a, b in pairs])
        self.up = nn.ModuleList([_blocks(fine, blocks) for fine, _ in pairs])
        self.last = nn.Conv2d(widths[0], folded, 3, padding=1, bias=False)
        nn.init.zeros_(self.last.weight)

    @property
    def multiple(self) -> int:
        """What both sides of a picture must be divisible by."""
        return FOLD * 2 ** (len(self.widths) - 1)

    @property
    def reach(self) -> int:
        """How far the outputs of a pixel look in any direction, in pixels, at most."""
        inner = sum(2 * 2 * self.blocks * FOLD * 2**level for level in range(len(self.down)))
        deepest = 2 * self.blocks * FOLD * 2 ** len(self.down)
        return inner + deepest + 2 * FOLD + self.multiple

    def forward(self, y: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        """Return the noise in y, of its shape, and features, (n, widths[0], height/2, width/2).

        Args:
            y: noisy pictures, shape (n, channels, height, width); both sides divisible by
                `multiple`; values unchecked.
            sigma: noise scale of each picture, shape (n,), or of each pixel, shape
                (n, 1, height, width).

        Raises:
            ValueError: another shape.
        """
        fits = y.ndim == 4 and y.shape[1] == self.channels
        if not fits or any(side % self.multiple for side in y.shape[2:]):
            wanted = f"(n, {self.channels}, height, width), sides divisible by {self.multiple}"
            raise ValueError(f"y must have shape {wanted}, got {tuple(y.shape)}")
        folded = nn.functional.pixel_unshuffle(y, FOLD)
        begin = self.first(torch.cat([folded, _folded_scale(sigma, y)], 1))
        x, skips = begin, []
        for blocks, shrink in zip(self.down, self.shrink, strict=True):
            x = blocks(x)
            skips.append(x)
            x = shrink(nn.functional.pixel_unshuffle(x, FOLD))
        x = self.middle(x)
        for grow, blocks, skip in reversed(list(zip(self.grow, self.up, skips, strict=True))):
            x = blocks(nn.functional.pixel_shuffle(grow(x), FOLD) + skip)
        x = x + begin
        return nn.functional.pixel_shuffle(self.last(x), FOLD), x


def _folded_scale(sigma: Tensor, y: Tensor) -> Tensor:
    """Return the noise scale of each 2 x 2 pixels, shape (n, 1, height/2, width/2)."""
    count, _, height, width = y.shape
    if sigma.shape == (count,):
        return sigma.to(y).view(-1, 1, 1, 1).expand(count, 1, height // FOLD, width // FOLD)
    if sigma.shape != (count, 1, height, width):
        shapes = f"({count},) or {(count, 1, height, width)}"
        raise ValueError(f"sigma must have shape {shapes}, got {tuple(sigma.shape)}")
    return nn.functional.avg_pool2d(sigma.to(y), FOLD)
