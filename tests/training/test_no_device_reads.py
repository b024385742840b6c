"""A training step leaves all values on the device: each one that it read would be a wait."""

import pytest
import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from hosm.networks import MLP, ConditionalMLP
from hosm.scores import ScoreModel
from hosm.training import HeadsObjective, JointObjective, Settings
from hosm.training.keyed_batches import Shard, batches
from hosm.training.loop import RunState

D, RANGE = 4, (0.1, 1.0)
READS = (  # operations that bring values, or sizes that depend on values, to the host
    "_local_scalar_dense",
    "_linalg_check_errors",
    "nonzero",
    "masked_select",
    "unique",
    "equal",
    "is_nonzero",
)


class NoReads(TorchDispatchMode):
    """Raises at every operation that reads a value."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        masked = name.startswith("index") and any(
            each is not None and each.dtype == torch.bool
            for each in (args[1] if isinstance(args[1], (list, tuple)) else [])
        )
        if name.startswith(READS) or masked:
            raise AssertionError(f"a value was read by {name}")
        return func(*args, **(kwargs or {}))


def settings(sigma, **changes):
    base = {"batch_size": 8, "max_steps": 4, "validate_every": 4, "clip_norm": 1.0}
    return Settings(sigma=sigma, **{**base, **changes})


def model(sigma, **options):
    torch.manual_seed(0)
    network = ConditionalMLP if isinstance(sigma, tuple) else MLP
    return ScoreModel(network(D, 3, width=8), sigma=sigma, rank=1, **options)


def heads(sigma, **options):
    torch.manual_seed(0)
    trunk = MLP(D, 1, width=8)
    models = {
        f"r{r}": ScoreModel(trunk, MLP(D, 1 + r, 8), sigma=sigma, rank=r, **options)
        for r in (0, 2)
    }
    return nn.ModuleDict(models)


def take_steps(run, **options):
    """Take two steps: the first may read, while the points of an epoch are checked."""
    points = torch.randn(64, D, generator=torch.Generator().manual_seed(1))
    source = batches(lambda epoch: points, 8, 0, Shard(), start=0, **options)
    run.update(next(source))
    with NoReads():
        run.update(next(source))
    assert run.step == 2


@pytest.mark.parametrize("sigma", [0.5, RANGE])
@pytest.mark.parametrize("reduction", [None, "control", "antithetic"])
@pytest.mark.parametrize("target", ["dsm", "jacobian", "residual", "moment", "likelihood"])
def test_a_step_of_the_joint_objective_reads_nothing(target, reduction, sigma):
    options = {"parametrisation": "denoiser", "psd": True}
    chosen = settings(sigma, target=target, variance_reduction=reduction)
    take_steps(RunState(JointObjective(model(sigma, **options), chosen), chosen, lambda m: m))


@pytest.mark.parametrize("options", [{"second_order_share": 0.5}, {"diagonal": True}])
def test_nor_does_one_of_a_part_or_of_the_diagonal(options):
    chosen = settings(0.5, **options)
    take_steps(RunState(JointObjective(model(0.5), chosen), chosen, lambda m: m))


def test_nor_does_orthogonal_noise():
    chosen = settings(0.5, orthogonal_noise=True)
    run = RunState(JointObjective(model(0.5), chosen), chosen, lambda m: m)
    take_steps(run, orthogonal=True)


@pytest.mark.parametrize("target", ["jacobian", "residual", "moment", "likelihood"])
def test_a_step_of_heads_reads_nothing(target):
    models = heads(0.5, parametrisation="denoiser", psd=True)
    chosen = settings(0.5, target=target)
    take_steps(RunState(HeadsObjective(models, chosen), chosen, lambda m: m))


def test_outside_of_training_a_wrong_scale_is_named():
    net = model(RANGE, parametrisation="denoiser")
    with pytest.raises(ValueError, match=r"sigma must be 0.1 to 1.0, as in training, got"):
        net(torch.zeros(2, D), torch.tensor([0.5, 2.0]))
    with pytest.raises(AssertionError, match="a value was read"), NoReads():
        net(torch.zeros(2, D), torch.tensor([0.5, 0.5]))
