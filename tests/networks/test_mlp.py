"""Backbones: shapes, sizes, illegal settings."""

import pytest
import torch

from hosm.networks import MLP, ConditionalMLP, parameter_count
from hosm.networks.unet import UNet
from tests.tolerances import FLOAT32, monte_carlo


def test_mlp_has_the_papers_three_layers():
    net = MLP(100, 1, width=128)
    assert parameter_count(net) == 100 * 128 + 128 + 128 * 128 + 128 + 128 * 100 + 100
    assert net(torch.zeros(7, 100)).shape == (7, 1, 100)


def test_mlp_acts_on_each_point_alone():
    net, x = MLP(3, 2, width=8), torch.randn(6, 3, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(net(x)[2:4], net(x[2:4]))


def test_skip_adds_a_linear_map_to_the_first_output_alone():
    torch.manual_seed(0)
    net, plain = MLP(3, 2, width=8, skip=True), MLP(3, 2, width=8)
    plain.layers.load_state_dict(net.layers.state_dict())
    x, slope = torch.randn(6, 3), torch.randn(3, 3)
    assert torch.equal(net(x), plain(x))  # it starts at zero
    net.skip.weight.data.copy_(slope)
    torch.testing.assert_close(net(x)[:, 0], plain(x)[:, 0] + x @ slope.T)
    assert torch.equal(net(x)[:, 1], plain(x)[:, 1])


@pytest.mark.parametrize("sizes", [(0, 1, 8, 3), (3, 0, 8, 3), (3, 1, 0, 3), (3, 1, 8, 1)])
def test_mlp_names_illegal_sizes(sizes):
    with pytest.raises(ValueError, match="must be at least"):
        MLP(*sizes)


def test_unet_maps_flat_images_channel_by_channel():
    net = UNet((3, 8, 8), 2, (8, 8, 8)).eval()
    x = torch.randn(2, 192, generator=torch.Generator().manual_seed(0))
    out = net(x)
    assert out.shape == (2, 2, 192)
    torch.testing.assert_close(net(x[1:]), out[1:], **FLOAT32)


def test_unet_names_illegal_shapes():
    with pytest.raises(ValueError, match="divisible by 4, got 9 x 8"):
        UNet((1, 9, 8), 1)
    with pytest.raises(ValueError, match="multiples of 8"):
        UNet((1, 8, 8), 1, (8, 8, 12))


def test_conditional_mlp_starts_as_the_plain_one_whatever_the_clock():
    net, plain = ConditionalMLP(3, 2, width=8), MLP(3, 2, width=8)
    linears = [layer for layer in plain.layers if isinstance(layer, torch.nn.Linear)]
    for ours, theirs in zip([*net.hidden, net.last], linears, strict=True):
        theirs.load_state_dict(ours.state_dict())
    x, clock = torch.randn(6, 3), torch.linspace(-1, 1, 6)
    torch.testing.assert_close(net(x, clock), plain(x))


def test_clock_reaches_the_outputs_and_the_gradient_its_weights():
    net, x = ConditionalMLP(3, 2, width=8), torch.randn(6, 3)
    net(x, torch.ones(6)).square().sum().backward()
    with torch.no_grad():
        for layer in net.modulation:
            assert layer.weight.grad.abs().max() > 0
            layer.weight.normal_()
        low, high = net(x, -torch.ones(6)), net(x, torch.ones(6))
        both = net(
            torch.cat([x, x]), torch.ones(12) * torch.tensor([-1.0, 1.0]).repeat_interleave(6)
        )
    assert (low - high).abs().max() > 0.1
    torch.testing.assert_close(both, torch.cat([low, high]))


def test_a_clock_of_another_shape_is_named():
    with pytest.raises(ValueError, match=r"clock must have shape \(6,\), got \(1,\)"):
        ConditionalMLP(3, 2, width=8)(torch.zeros(6, 3), torch.zeros(1))


def test_conditional_unet_takes_a_clock_and_the_plain_one_none():
    net, x = UNet((1, 8, 8), 2, (8, 8, 8), conditional=True).eval(), torch.randn(2, 64)
    with torch.no_grad():
        low, high = net(x, torch.full((2,), -1.0)), net(x, torch.ones(2))
    assert low.shape == (2, 2, 64)
    assert (low - high).abs().max() > 1e-3  # rounding is some 1e-6
    with pytest.raises(
        ValueError, match="clock must be given where conditional is True, got None"
    ):
        net(x)
    with pytest.raises(
        ValueError, match="clock must be None where conditional is False, got a tensor"
    ):
        UNet((1, 8, 8), 2, (8, 8, 8))(x, torch.ones(2))


def test_a_head_is_one_more_convolution_before_the_outputs():
    plain, headed = UNet((1, 8, 8), 5, (8, 8, 8)), UNet((1, 8, 8), 5, (8, 8, 8), head=12)
    first, _, last = headed.network.conv_out
    assert (first.in_channels, first.out_channels) == (8, 12)
    assert (last.in_channels, last.out_channels) == (12, plain.network.conv_out.out_channels)
    assert headed(torch.randn(2, 64)).shape == (2, 5, 64)
    with pytest.raises(ValueError, match="head must be .*, got -1"):
        UNet((1, 8, 8), 5, (8, 8, 8), head=-1)


@pytest.mark.parametrize("head", [0, 12])
def test_the_first_outputs_of_a_network_are_the_same_without_the_others(head):
    whole = UNet((3, 8, 8), 5, (8, 8, 8), head=head)
    narrow, x = whole.first(2), torch.randn(2, 192)
    torch.testing.assert_close(narrow(x), whole(x)[:, :2])
    assert whole(x).shape == (2, 5, 192)
    with pytest.raises(ValueError, match="outputs must be .*, got 6"):
        whole.first(6)


def test_fourier_features_are_fixed_and_stand_beside_the_points():
    torch.manual_seed(0)
    network = MLP(2, 3, width=8, frequencies=5, bandwidth=2.0)
    assert network.layers[0].in_features == 2 + 2 * 5
    assert "frequencies" in network.state_dict()
    assert "frequencies" not in dict(network.named_parameters())
    x = torch.randn(4, 2)
    phase = x @ network.frequencies
    features = torch.cat([x, phase.cos(), phase.sin()], 1)
    torch.testing.assert_close(network(x), network.layers(features).view(4, 3, 2))
    wide = MLP(2, 3, frequencies=4000, bandwidth=2.0).frequencies
    assert float(wide.std()) == pytest.approx(2.0, rel=monte_carlo(2 * wide.numel()))


def test_a_network_begins_as_another_of_its_kind():
    first, second = (MLP(2, outputs, width=8, frequencies=5) for outputs in (1, 4))
    second.begin_as(first)
    x = torch.randn(4, 2)
    hidden = [each.layers[:-1](each._features(x)) for each in (first, second)]
    torch.testing.assert_close(*hidden)


@pytest.mark.parametrize(("frequencies", "bandwidth"), [(-1, 1.0), (3, 0.0), (3, float("nan"))])
def test_illegal_features_are_named(frequencies, bandwidth):
    with pytest.raises(ValueError, match="frequencies must be at least 0 and bandwidth"):
        MLP(2, 3, frequencies=frequencies, bandwidth=bandwidth)
