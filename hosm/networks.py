"""Backbones: plain networks that know nothing of scores.

A backbone maps points x (n, D) to `outputs` numbers for each coordinate, (n, outputs, D).
The paper uses a 3-layer MLP with Tanh for vectors (Meng, Song, Li and Ermon, "Estimating High
Order Gradients of the Data Distribution by Denoising", NeurIPS 2021, appendix C) and a U-Net
for images (see `hosm.unet`, which needs the `images` extra).
"""

from torch import Tensor, nn

__all__ = ["MLP", "parameter_count"]


class MLP(nn.Module):
    """A multilayer perceptron with Tanh between its layers.

    Args:
        dimension: coordinates D of a point.
        outputs: numbers returned for each coordinate.
        width: units of each hidden layer.
        depth: number of linear layers, at least 2; the paper's is 3.

    Raises:
        ValueError: a size is below its least legal value.
    """

    def __init__(self, dimension: int, outputs: int, width: int = 128, depth: int = 3) -> None:
        super().__init__()
        least = {"dimension": (dimension, 1), "outputs": (outputs, 1), "width": (width, 1)}
        for name, (value, bound) in {**least, "depth": (depth, 2)}.items():
            if value < bound:
                raise ValueError(f"{name} must be at least {bound}, got {value}")
        self.dimension, self.outputs = dimension, outputs
        sizes = [dimension, *[width] * (depth - 1)]
        hidden: list[nn.Module] = []
        for fan_in, fan_out in zip(sizes, sizes[1:], strict=False):
            hidden += [nn.Linear(fan_in, fan_out), nn.Tanh()]
        self.layers = nn.Sequential(*hidden, nn.Linear(sizes[-1], outputs * dimension))

    def forward(self, x: Tensor) -> Tensor:
        """Map points x, shape (n, D), to outputs of shape (n, outputs, D)."""
        return self.layers(x).view(x.shape[0], self.outputs, self.dimension)


def parameter_count(module: nn.Module) -> int:
    """Return how many trainable numbers a module holds."""
    return sum(p.numel() for p in module.parameters() if p.requires_grad)
