"""Backbones: plain networks that know nothing of scores.

A backbone maps points x (n, D) to `outputs` numbers for each coordinate, (n, outputs, D). A
conditional one covers a range of noise scales, and reads the `clock` of each point, shape (n,):
the position of its scale on a logarithmic axis, from -1 at the least scale to 1 at the largest.
The paper uses a 3-layer MLP with Tanh for vectors (Meng, Song, Li and Ermon, "Estimating High
Order Gradients of the Data Distribution by Denoising", NeurIPS 2021, appendix C) and a U-Net
for images (see `hosm.networks.unet`, which needs the `images` extra).
"""

import copy
import math

import torch
from torch import Tensor, nn

__all__ = ["MLP", "ConditionalMLP", "narrowed", "parameter_count"]


def narrowed(layer: nn.Linear | nn.Conv2d, outputs: int) -> nn.Linear | nn.Conv2d:
    """Return a copy of a layer that has the first outputs alone.

    Args:
        layer: a layer with at least so many outputs.
        outputs: number of outputs (units or channels) that are kept.
    """
    kept = copy.deepcopy(layer)
    bias = None if layer.bias is None else nn.Parameter(layer.bias[:outputs].detach().clone())
    kept.weight, kept.bias = nn.Parameter(layer.weight[:outputs].detach().clone()), bias
    setattr(kept, "out_features" if isinstance(layer, nn.Linear) else "out_channels", outputs)
    return kept


class MLP(nn.Module):
    """A multilayer perceptron with Tanh between its layers.

    Args:
        dimension: coordinates D of a point.
        outputs: numbers returned for each coordinate.
        width: units of each hidden layer.
        depth: number of linear layers, at least 2; the paper's is 3.
        skip: add a linear map of x, which starts at zero, to the first output. The score of a
            density is often near that of a Gaussian, which is linear; saturating units learn a
            linear map slowly, and their derivatives slower still.
        frequencies: append cos(w . x) and sin(w . x) to x for so many fixed, random w: Tancik et
            al., "Fourier Features Let Networks Learn High Frequency Functions in Low Dimensional
            Domains", NeurIPS 2020. For data in few dimensions with fine structure.
        bandwidth: standard deviation of the entries of w, over the units of x.

    Raises:
        ValueError: a size is below its least value, or the bandwidth not positive.
    """

    conditional = False

    def __init__(
        self,
        dimension: int,
        outputs: int,
        width: int = 128,
        depth: int = 3,
        *,
        skip: bool = False,
        frequencies: int = 0,
        bandwidth: float = 3.0,
    ) -> None:
        super().__init__()
        sizes = _sizes(dimension, outputs, width, depth)
        if frequencies < 0 or not (0 < bandwidth < math.inf):
            raise ValueError(
                f"frequencies must be at least 0 and bandwidth finite and above 0, got "
                f"{frequencies} and {bandwidth}"
            )
        self.dimension, self.outputs = dimension, outputs
        self.frequencies: Tensor | None
        drawn = bandwidth * torch.randn(dimension, frequencies) if frequencies else None
        self.register_buffer("frequencies", drawn)
        sizes[0] += 2 * frequencies
        self.skip = nn.Linear(dimension, dimension, bias=False) if skip else None
        if self.skip is not None:
            nn.init.zeros_(self.skip.weight)
        hidden: list[nn.Module] = []
        for fan_in, fan_out in zip(sizes, sizes[1:], strict=False):
            hidden += [nn.Linear(fan_in, fan_out), nn.Tanh()]
        self.layers = nn.Sequential(*hidden, nn.Linear(width, outputs * dimension))

    def forward(self, x: Tensor) -> Tensor:
        """Map points x, shape (n, D), to outputs of shape (n, outputs, D)."""
        out = self.layers(self._features(x)).view(x.shape[0], self.outputs, self.dimension)
        if self.skip is None:
            return out
        return torch.cat([out[:, :1] + self.skip(x).unsqueeze(1), out[:, 1:]], 1)

    def _features(self, x: Tensor) -> Tensor:
        if self.frequencies is None:
            return x
        phase = x @ self.frequencies
        return torch.cat([x, phase.cos(), phase.sin()], 1)

    def first(self, outputs: int) -> "MLP":
        """Return the same network without its other outputs for each coordinate, 1 to all."""
        narrow = copy.deepcopy(self)
        narrow.outputs, count = outputs, outputs * self.dimension
        narrow.layers[-1] = narrowed(self.layers[-1], count)  # type: ignore[arg-type]
        return narrow

    def begin_as(self, other: "MLP") -> None:
        """Take over the frequencies and the hidden layers of a network of equal sizes.

        Args:
            other: of the same dimension, width, depth and number of frequencies.
        """
        if self.frequencies is not None and other.frequencies is not None:
            self.frequencies.copy_(other.frequencies)
        self.layers[:-1].load_state_dict(other.layers[:-1].state_dict())


class ConditionalMLP(nn.Module):
    """A multilayer perceptron whose hidden layers are scaled and shifted by the clock.

    Scores sharpen as sigma falls, which a clock among the inputs cannot say and a factor on each
    unit can: feature-wise modulation, Perez et al., "FiLM: Visual Reasoning with a General
    Conditioning Layer", AAAI 2018. Factors start at one and shifts at zero.

    Args:
        dimension: coordinates D of a point.
        outputs: numbers returned for each coordinate.
        width: units of each hidden layer.
        depth: number of linear layers, at least 2.

    Raises:
        ValueError: a size is below its least value.
    """

    conditional = True

    def __init__(self, dimension: int, outputs: int, width: int = 128, depth: int = 3) -> None:
        super().__init__()
        sizes = _sizes(dimension, outputs, width, depth)
        self.dimension, self.outputs = dimension, outputs
        pairs = list(zip(sizes, sizes[1:], strict=False))
        self.hidden = nn.ModuleList(nn.Linear(*pair) for pair in pairs)
        modulation = [nn.Linear(4, 2 * pair[1], bias=False) for pair in pairs]
        for layer in modulation:
            nn.init.zeros_(layer.weight)
        self.modulation = nn.ModuleList(modulation)
        self.last = nn.Linear(width, outputs * dimension)

    def first(self, outputs: int) -> "ConditionalMLP":
        """Return the same network without its other outputs for each coordinate, 1 to all."""
        narrow = copy.deepcopy(self)
        narrow.outputs = outputs
        narrow.last = narrowed(self.last, outputs * self.dimension)  # type: ignore[assignment]
        return narrow

    def forward(self, x: Tensor, clock: Tensor) -> Tensor:
        """Map points x, shape (n, D), and their clock, shape (n,), to (n, outputs, D).

        Raises:
            ValueError: the clock has another shape.
        """
        if clock.shape != x.shape[:1]:
            raise ValueError(f"clock must have shape ({len(x)},), got {tuple(clock.shape)}")
        quarter = torch.pi / 2 * clock
        features = torch.stack([clock, quarter.sin(), quarter.cos(), (2 * quarter).cos()], 1)
        for layer, modulation in zip(self.hidden, self.modulation, strict=True):
            factor, shift = modulation(features).chunk(2, 1)
            x = torch.tanh(layer(x) * (1 + factor) + shift)
        return self.last(x).view(x.shape[0], self.outputs, self.dimension)


def _sizes(dimension: int, outputs: int, width: int, depth: int) -> list[int]:
    """Return the units of the input and of each hidden layer."""
    least = {"dimension": (dimension, 1), "outputs": (outputs, 1), "width": (width, 1)}
    for name, (value, bound) in {**least, "depth": (depth, 2)}.items():
        if value < bound:
            raise ValueError(f"{name} must be at least {bound}, got {value}")
    return [dimension, *[width] * (depth - 1)]


def parameter_count(module: nn.Module) -> int:
    """Return how many trainable numbers a module holds."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)
