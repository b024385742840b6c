"""U-Nets of the sizes that papers use, built without their weights (on the device `meta`)."""

import pytest
import torch

from hosm.networks import parameter_count
from hosm.networks.unet import UNet

LARGE = {"channels": (128, 256, 256, 256), "blocks": 2, "attention": True, "dropout": 0.1}


def test_the_large_one_has_the_weights_of_ddpm():
    """35.7 million, by Ho, Jain and Abbeel (2020, appendix B), for images of 32 x 32."""
    with torch.device("meta"):
        net = UNet((3, 32, 32), 1, **LARGE)
        assert net(torch.empty(2, 3072)).shape == (2, 1, 3072)
    assert round(parameter_count(net) / 1e5) == 357


@pytest.mark.parametrize("outputs", [1, 22])
def test_the_large_one_gives_any_number_of_outputs_at_any_scale(outputs):
    with torch.device("meta"):
        net = UNet((1, 32, 32), outputs, conditional=True, head=256, **LARGE)
        found = net(torch.empty(3, 1024), torch.empty(3))
    assert found.shape == (3, outputs, 1024)


def test_two_resolutions_do_for_sides_that_are_even():
    with torch.device("meta"):
        assert UNet((1, 6, 10), 1, (8, 8))(torch.empty(2, 60)).shape == (2, 1, 60)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"channels": (8, 8, 8, 8)}, "divisible by 8, got 28 x 28"),
        ({"channels": (8,)}, "number of channels must be"),
        ({"blocks": 0}, "blocks must be"),
        ({"dropout": 1.0}, "dropout must be at least 0 and below 1, got 1.0"),
    ],
)
def test_what_cannot_be_built_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        UNet((1, 28, 28), 1, **options)


def test_attention_is_at_the_second_resolution_and_the_last():
    with torch.device("meta"):
        net, plain = (UNet((1, 32, 32), 1, (8,) * 4, attention=each) for each in (True, False))
    held = {name.split(".attentions.")[0] for name, _ in net.named_parameters() if "to_q" in name}
    assert held == {f"network.{place}" for place in ("down_blocks.1", "mid_block", "up_blocks.2")}
    assert not any("to_q" in name for name, _ in plain.named_parameters())
