"""Score models, against exact laws and dense twins."""

import pytest
import torch
from torch import nn

from hosm.distributions import Gaussian
from hosm.networks import MLP, ConditionalMLP
from hosm.networks.unet import UNet
from hosm.scores import LEAST_RELATIVE_VARIANCE, ScoreModel
from tests.tolerances import FLOAT32, FLOAT64

DOUBLE = torch.float64


def points(n=5, dimension=3):
    return torch.randn(n, dimension, generator=torch.Generator().manual_seed(1), dtype=DOUBLE)


def model(rank=2, shared=True, **options):
    outputs = 2 + rank if shared else 1
    second = None if shared else MLP(3, 1 + rank, width=8)
    return ScoreModel(MLP(3, outputs, width=8), second, rank=rank, **options)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("rank", [0, 2])
def test_model_returns_s1_and_a_structured_s2(shared, rank):
    net = model(rank, shared, sigma=0.1)
    x = points().float()
    s1, s2 = net(x)
    assert s1.shape == (5, 3) and s2.diag.shape == (5, 3) and s2.factor.shape == (5, 3, rank)
    torch.testing.assert_close(net.score(x), s1)


def test_a_first_order_model_has_no_s2():
    net = ScoreModel(MLP(3, 1, width=8), sigma=0.1)
    assert net(points().float())[1] is None


@pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0])
def test_psd_head_gives_a_covariance_whatever_the_network_says(sigma):
    net = model(parametrisation="denoiser", psd=True, sigma=sigma).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.mul_(20)
        s2 = net(3 * points(50))[1].to_dense()
    precision = s2 + torch.eye(3, dtype=DOUBLE) / sigma**2
    assert torch.linalg.eigvalsh(precision).min() > -FLOAT64["rtol"] * precision.abs().max()


def test_psd_outputs_are_variances_and_the_correlations_of_a_factor_model():
    """S_ij = (u_i u_j)^(1/2) w_i . w_j and S_ii = v_i, w = F / r^(1/2), u = v / (1 + |w|^2)."""
    net = model(parametrisation="denoiser", psd=True, sigma=0.5).double()
    x = points(4)
    first, *rest = net.trunk(x / (1 + 0.5**2) ** 0.5)[:, 1:].unbind(1)
    prior = torch.tensor(1 / (1 + 0.5**2), dtype=DOUBLE)
    v = nn.functional.softplus(first + (prior - LEAST_RELATIVE_VARIANCE).expm1().log())
    w = torch.stack(rest, 2) / 2**0.5
    u = v / (1 + w.square().sum(2))
    expected = (u.sqrt().unsqueeze(2) * w) @ (u.sqrt().unsqueeze(2) * w).mT
    expected.diagonal(dim1=1, dim2=2).copy_(LEAST_RELATIVE_VARIANCE + v)
    S = torch.eye(3, dtype=DOUBLE) + 0.5**2 * net(x)[1].to_dense()
    torch.testing.assert_close(S, expected)


@pytest.mark.parametrize("psd", [False, True])
def test_denoiser_is_exact_on_a_gaussian_when_its_network_returns_zero(psd):
    """The preconditioning's skip is the posterior of N(0, data_std^2 I)."""
    options = {"parametrisation": "denoiser", "data_std": 1.3, "psd": psd}
    net = ScoreModel(MLP(3, 3, width=4), sigma=0.7, rank=1, **options)
    nn.init.zeros_(net.trunk.layers[-1].weight)
    nn.init.zeros_(net.trunk.layers[-1].bias)
    law = Gaussian(torch.zeros(3), 1.3**2 * torch.eye(3)).smoothed(0.7)
    x = points().float()
    torch.testing.assert_close(net.score(x), law.score(x))
    torch.testing.assert_close(net(x)[1].to_dense(), law.hessian(x))


# A range of noise scales ------------------------------------------------------------------------


def range_model(shared=True, rank=1, zero=False, **options):
    torch.manual_seed(0)
    outputs = 2 + rank if shared else 1
    second = None if shared else ConditionalMLP(3, 1 + rank, width=8)
    options = {"sigma": (0.1, 1.0), "parametrisation": "denoiser", "data_std": 1.3, **options}
    net = ScoreModel(ConditionalMLP(3, outputs, width=8), second, rank=rank, **options)
    for name, parameter in net.named_parameters():
        if zero and "last" in name:
            nn.init.zeros_(parameter)
        elif "modulation" in name:
            nn.init.normal_(parameter)
    return net


@pytest.mark.parametrize("psd", [False, True])
@pytest.mark.parametrize("shared", [True, False])
def test_each_point_has_its_own_scale(shared, psd):
    net, x = range_model(shared, psd=psd), points(4).float()
    scales = torch.tensor([0.1, 0.3, 0.3, 1.0])
    s1, s2 = net(x, scales)
    assert not torch.allclose(*net(x[:1].expand(2, 3), torch.tensor([0.1, 1.0]))[0])
    for i, sigma in enumerate(scales.tolist()):
        alone = net.at(sigma)(x[i : i + 1])
        score, dense = net.at(sigma).score(x[i : i + 1]), s2[i : i + 1].to_dense()
        torch.testing.assert_close(alone[0], s1[i : i + 1], **FLOAT32)
        torch.testing.assert_close(alone[1].to_dense(), dense, **FLOAT32)
        torch.testing.assert_close(score, s1[i : i + 1], **FLOAT32)


@pytest.mark.parametrize("psd", [False, True])
def test_outputs_of_zero_are_exact_on_a_gaussian_at_every_scale(psd):
    net, x = range_model(zero=True, psd=psd), points().float()
    for sigma in (0.1, 0.4, 1.0):
        law = Gaussian(torch.zeros(3), 1.3**2 * torch.eye(3)).smoothed(sigma)
        s1, s2 = net(x, sigma)
        torch.testing.assert_close(s1, law.score(x), **FLOAT32)
        torch.testing.assert_close(s2.to_dense(), law.hessian(x), **FLOAT32)


class Recorder(nn.Module):
    """A conditional backbone of constant outputs that keeps what it was given."""

    dimension, conditional = 3, True

    def forward(self, x, clock):
        self.given = (x, clock)
        return torch.full((len(x), 3, 3), 0.7, dtype=x.dtype)


def test_preconditioning_and_clock_are_those_of_the_formulas():
    """Karras et al., table 1: m = c_skip x + c_out F(c_in x); the clock runs from -1 to 1."""
    trunk, std = Recorder(), 1.3
    net = ScoreModel(trunk, sigma=(0.1, 1.0), rank=1, parametrisation="denoiser", data_std=std)
    x, scales = points(3), torch.tensor([0.1, 0.1**0.5, 1.0], dtype=DOUBLE)
    s1, s2 = net(x, scales)
    sigma = scales.unsqueeze(1)
    total = sigma**2 + std**2
    scaled, clock = trunk.given
    torch.testing.assert_close(clock, torch.tensor([-1.0, 0.0, 1.0], dtype=DOUBLE))
    torch.testing.assert_close(scaled, x / total.sqrt())
    mean = std**2 / total * x + sigma * std / total.sqrt() * 0.7
    torch.testing.assert_close(x + sigma**2 * s1, mean)
    relative = torch.diag_embed((0.7 + std**2 / total).expand(3, 3)) + 0.7**2 / 3
    covariance = sigma[..., None] ** 4 * s2.to_dense() + sigma[..., None] ** 2 * torch.eye(3)
    torch.testing.assert_close(covariance, sigma[..., None] ** 2 * relative)


@pytest.mark.parametrize(
    ("sigma", "message"),
    [
        (None, "sigma must be given, from 0.1 to 1.0"),
        (0.05, "sigma must be 0.1 to 1.0, as in training, got 0.05"),
        (float("nan"), "got nan"),
        (torch.tensor([0.1, 2.0]), "sigma must be 0.1 to 1.0, as in training"),
        (torch.tensor([0.1, 0.2, 0.3]), r"\(3,\) for x_noisy \(2, 3\)"),
    ],
)
def test_a_scale_that_the_model_does_not_cover_is_named(sigma, message):
    with pytest.raises(ValueError, match=message):
        range_model()(torch.zeros(2, 3), sigma)


def test_a_range_needs_its_kind_of_network():
    with pytest.raises(ValueError, match="a backbone must be conditional for a range of sigma"):
        model(parametrisation="denoiser", sigma=(0.1, 1.0))
    with pytest.raises(ValueError, match="got ConditionalMLP for sigma 0.1"):
        range_model(sigma=0.1)
    with pytest.raises(ValueError, match="parametrisation must be denoiser for a range of sigma"):
        range_model(parametrisation="score")
    with pytest.raises(ValueError, match="low < high"):
        range_model(sigma=(1.0, 0.1))


def test_illegal_use_is_named():
    net = model(sigma=0.1)
    with pytest.raises(ValueError, match="floating .*int64"):
        net(torch.zeros(5, 3, dtype=torch.int64))
    with pytest.raises(ValueError, match="must be 2 at rank 1, got 3"):
        ScoreModel(MLP(3, 4), sigma=0.1, rank=1)(torch.zeros(5, 3))
    with pytest.raises(ValueError, match="must be 2 at rank 1, got 3"):
        ScoreModel(MLP(3, 1), MLP(3, 3), sigma=0.1, rank=1)(torch.zeros(5, 3))
    with pytest.raises(ValueError, match=r"\(n, 3\), got \(5, 2\)"):
        net(torch.zeros(5, 2))
    with pytest.raises(ValueError, match="sigma must be 0.1, as in training, got 0.2"):
        net(torch.zeros(5, 3), 0.2)
    with pytest.raises(ValueError, match="from 0 to 3, got 4"):
        model(4, sigma=0.1)
    with pytest.raises(ValueError, match="parametrisation must be denoiser for psd=True"):
        model(sigma=0.1, psd=True)
    with pytest.raises(ValueError, match="parametrisation must be"):
        model(sigma=0.1, parametrisation="both")
    with pytest.raises(ValueError, match="data_std"):
        model(sigma=0.1, data_std=0.0)


@pytest.mark.parametrize("shared", [True, False])
def test_bfloat16_costs_digits_of_the_networks_and_no_more(shared):
    torch.manual_seed(0)
    exact = model(shared=shared, parametrisation="denoiser", psd=True, sigma=0.5)
    short = model(shared=shared, parametrisation="denoiser", psd=True, sigma=0.5, autocast=True)
    short.load_state_dict(exact.state_dict())
    x = points(200).float()
    (s1, s2), (near, near2) = exact(x), short(x)
    assert near.dtype == near2.diag.dtype == near2.factor.dtype == torch.float32
    # 8 bits round to .002 in each of three layers; seen were .0016 and .0024
    assert 0 < (near - s1).norm() < 0.02 * s1.norm()
    difference = (near2.to_dense() - s2.to_dense()).norm()
    assert 0 < difference < 0.02 * s2.to_dense().norm()
    near.sum().backward()
    grads = [p.grad for p in short.trunk.parameters() if p.grad is not None]
    assert grads and all(grad.dtype == torch.float32 for grad in grads)


# s1 alone ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("kind", ["mlp", "features", "conditional", "unet", "headed"])
def test_s1_alone_is_the_same_s1_for_fewer_outputs(kind, shared):
    torch.manual_seed(0)
    sigma = (0.1, 1.0) if kind == "conditional" else 0.4
    networks = {
        "mlp": lambda outputs: MLP(64, outputs, width=8, skip=True),
        "features": lambda outputs: MLP(64, outputs, width=8, frequencies=3),
        "conditional": lambda outputs: ConditionalMLP(64, outputs, width=8),
        "unet": lambda outputs: UNet((1, 8, 8), outputs, (8, 8, 8)),
        "headed": lambda outputs: UNet((1, 8, 8), outputs, (8, 8, 8), head=8),
    }
    make = networks[kind]
    trunk, second = (make(4), None) if shared else (make(1), make(3))
    options = {"parametrisation": "denoiser", "psd": True, "data_std": 0.3}
    net = ScoreModel(trunk, second, sigma=sigma, rank=2, **options).eval()
    alone, x = net.at(0.4).first_order(), points(3, 64).float()
    torch.testing.assert_close(alone.score(x), net.score(x, 0.4))
    s1, s2 = alone(x)
    assert s2 is None and not alone.model.training
    torch.testing.assert_close(s1, net.score(x, 0.4))
    sizes = [sum(p.numel() for p in each.parameters()) for each in (alone.model, net)]
    assert sizes[0] < sizes[1]
    with torch.no_grad():
        next(net.parameters()).add_(1)
    assert not torch.equal(alone.score(x), net.score(x, 0.4))  # copied weights


def test_a_trunk_that_cannot_leave_out_outputs_is_named():
    with pytest.raises(ValueError, match="trunk must have a method `first`, got a Recorder"):
        ScoreModel(Recorder(), sigma=(0.1, 1.0), rank=1, parametrisation="denoiser").first_order()


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("trunk", ["mlp", "unet"])
@pytest.mark.parametrize("psd", [True, False])
def test_the_diagonal_alone_is_that_of_s2(trunk, shared, psd):
    """Under psd without the columns, whose outputs are left out; else all are needed and stay."""

    def backbone(outputs):
        if trunk == "unet":
            return UNet((1, 8, 8), outputs, channels=(8, 8, 8), head=8, conditional=True)
        return ConditionalMLP(64, outputs, width=8)

    parts = (backbone(5), None) if shared else (backbone(1), backbone(4))
    options = {"parametrisation": "denoiser", "psd": psd, "data_std": 0.3}
    net = ScoreModel(*parts, sigma=(0.1, 1.0), rank=3, **options).eval()
    alone, x = net.at(0.4).diagonal_only(), points(3, 64).float()
    (s1, s2), (first, diagonal) = net.at(0.4)(x), alone(x)
    torch.testing.assert_close(first, s1)
    torch.testing.assert_close(diagonal.diagonal(), s2.diagonal())
    assert diagonal.rank == (0 if psd else 3) and not alone.model.training
    counts = [sum(p.numel() for p in part.parameters()) for part in (alone.model, net)]
    assert counts[0] < counts[1] if psd else counts[0] == counts[1]
    with torch.no_grad():
        next(alone.model.parameters()).zero_()  # a copy: the model is untouched
    torch.testing.assert_close(net.at(0.4)(x)[0], s1)


def test_a_trunk_that_leaves_nothing_out_keeps_its_columns():
    net = ScoreModel(Recorder(), sigma=(0.1, 1.0), rank=1, parametrisation="denoiser", psd=True)
    x = points(4).float()
    expected = net(x, 0.3)[1].diagonal()
    torch.testing.assert_close(net.diagonal_only()(x, 0.3)[1].diagonal(), expected)
