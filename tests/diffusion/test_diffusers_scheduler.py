"""The scheduler of diffusers: DDPM's own draws with its constant, and a pipeline with ours."""

import pytest
import torch
from diffusers import DDPMPipeline, DDPMScheduler, UNet2DModel

from hosm.diffusion.diffusers_scheduler import CovarianceScheduler
from hosm.diffusion.gaussian_steps import GaussianStep
from hosm.networks import ConditionalMLP
from hosm.operators import DiagonalPlusLowRank
from hosm.scores import ScoreModel
from tests.diffusion.laws import seeded
from tests.tolerances import FLOAT32, monte_carlo

SHAPE = (1, 8, 8)


def second_order(rank=3):
    """s2 of a model with random weights, over the noise scales of DDPM's schedule."""
    torch.manual_seed(0)
    trunk = ConditionalMLP(64, 2 + rank, 16)
    model = ScoreModel(
        trunk, sigma=(0.005, 200.0), rank=rank, parametrisation="denoiser", psd=True
    )
    return model.eval().requires_grad_(False).second_order


def point(x, sigma):
    """s2 of a single clean point, for which the covariance is beta-tilde."""
    return DiagonalPlusLowRank.from_diagonal(torch.full_like(x, -1 / sigma**2))


def unet():
    torch.manual_seed(0)
    blocks = {"down_block_types": ("DownBlock2D",) * 2, "up_block_types": ("UpBlock2D",) * 2}
    sizes = {"sample_size": 8, "in_channels": 1, "out_channels": 1, "norm_num_groups": 4}
    options = {"block_out_channels": (8, 8), "layers_per_block": 1, "add_attention": False}
    return UNet2DModel(**sizes, **options, **blocks).eval()


@pytest.mark.parametrize("prediction", ["epsilon", "sample", "v_prediction"])
@pytest.mark.parametrize("clip", [False, True])
def test_with_the_constant_of_ddpm_a_step_is_that_of_ddpm(prediction, clip, monkeypatch):
    """Its mean, from the same prediction, and its constant: the noise is set to one for both."""
    ours = CovarianceScheduler(prediction_type=prediction, clip_sample=clip)
    ours.second_order = point
    theirs = DDPMScheduler.from_config(ours.config)
    for scheduler in (ours, theirs):
        scheduler.set_timesteps(25)
    ones = "diffusers.schedulers.scheduling_ddpm.randn_tensor"
    monkeypatch.setattr(ones, lambda shape, **options: torch.ones(shape))
    monkeypatch.setattr(
        GaussianStep, "sample", lambda step, generator: step.mean + step.covariance.diag.sqrt()
    )
    x, output = (torch.randn(3, *SHAPE, generator=seeded(k)) for k in (0, 1))
    for t in (960, 480, 40, 0):
        pair = [each.step(output, t, x) for each in (ours, theirs)]
        # the noise scale goes up to 150, where a_t^-1 takes two digits of a float32
        torch.testing.assert_close(pair[0].prev_sample, pair[1].prev_sample, rtol=1e-3, atol=1e-3)
        found = [each.pred_original_sample for each in pair]
        # the same
        torch.testing.assert_close(*found, rtol=1e-3, atol=1e-3)


def test_draws_have_the_covariance_of_the_step():
    """In the units of x_s: a_s^2 (v I + v^2 s2)."""
    scheduler, n, t = CovarianceScheduler(clip_sample=False), 40_000, 400
    factor = torch.tensor([[0.9, 0.9, 0.0], [0.0, 0.3, 0.0]]).mT
    sigma, after = scheduler.sigma(t), scheduler.sigma(t - 100)
    s2 = DiagonalPlusLowRank(
        torch.full((n, 3), -1 / sigma**2), (factor / sigma**2).expand(n, 3, 2)
    )
    scheduler.second_order = lambda x, sigma: s2
    scheduler.set_timesteps(10)
    one = torch.zeros(n, 3)
    law = scheduler.step(one, t, one, seeded()).prev_sample
    v = sigma**2 - after**2
    exact = (v * torch.eye(3) + v**2 * s2[0].to_dense()) / (1 + after**2)
    # four standard errors of products of two coordinates
    bound = monte_carlo(n, float(2**0.5 * exact.abs().max()))
    assert (law.mT.cov() - exact).abs().max() < bound


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_the_type_of_the_pictures_stays(dtype):
    scheduler = CovarianceScheduler()
    scheduler.second_order = second_order()
    scheduler.set_timesteps(4)
    x = torch.zeros(2, *SHAPE, dtype=dtype)
    found = scheduler.step(x, 500, x, return_dict=False)
    assert all(each.dtype == dtype and each.shape == x.shape for each in found)


def test_a_pipeline_takes_it_in_five_lines():
    pipeline = DDPMPipeline(unet(), DDPMScheduler(beta_schedule="squaredcos_cap_v2"))
    pipeline.set_progress_bar_config(disable=True)
    scheduler = CovarianceScheduler.from_config(pipeline.scheduler.config)
    scheduler.second_order = second_order()
    pipeline.scheduler = scheduler
    args = {"batch_size": 2, "num_inference_steps": 5, "output_type": "pt"}
    pictures = [pipeline(generator=seeded(), **args).images for _ in range(2)]
    assert pictures[0].shape == (2, *SHAPE)
    assert torch.isfinite(pictures[0]).all()
    torch.testing.assert_close(pictures[0], pictures[1], **FLOAT32)
    scheduler.second_order = point
    assert not torch.equal(pipeline(generator=seeded(), **args).images, pictures[0])


def test_a_configuration_is_kept(tmp_path):
    scheduler = CovarianceScheduler(beta_schedule="squaredcos_cap_v2", num_train_timesteps=77)
    scheduler.save_pretrained(tmp_path)
    again = CovarianceScheduler.from_pretrained(tmp_path)
    assert again.config.num_train_timesteps == 77
    torch.testing.assert_close(again.betas, scheduler.betas, **FLOAT32)


def test_bad_use():
    scheduler, x = CovarianceScheduler(), torch.zeros(2, *SHAPE)
    scheduler.set_timesteps(4)
    with pytest.raises(ValueError, match="second_order must be set before sampling, got None"):
        scheduler.step(x, 500, x)
    scheduler.second_order = lambda x, sigma: None
    with pytest.raises(ValueError, match="second_order must return s2, got None"):
        scheduler.step(x, 500, x)
    with pytest.raises(ValueError, match="generator must be one generator or None, got 2"):
        scheduler.step(x, 500, x, [seeded(), seeded()])
