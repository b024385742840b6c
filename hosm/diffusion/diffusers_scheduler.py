r"""A scheduler of `diffusers` whose noise has a learned covariance (extra `images`).

`diffusers.DDPMScheduler` takes what a U-Net predicts at x_t = a_t (x + sigma_t z), with a_t^2 the
product of 1 - beta up to t and sigma_t^2 = a_t^-2 - 1, and draws x_s by the mean of Ho, Jain and
Abbeel, "Denoising Diffusion Probabilistic Models", NeurIPS 2020, equation 7, and a constant. This
one keeps its schedule, its mean and its clipping, and draws with the covariance a_s^2 (v I + v^2
s2) of `hosm.diffusion.covariances`, for any s2 of the noisy point x_t / a_t at sigma_t: that of a
`hosm.scores.ScoreModel` of a range, or one learned on the frozen U-Net by `hosm.estimator`.

    scheduler = CovarianceScheduler.from_config(pipeline.scheduler.config)
    scheduler.second_order = model.second_order
    pipeline.scheduler = scheduler
    pictures = pipeline(num_inference_steps=25).images
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from diffusers import DDPMScheduler
from diffusers.schedulers.scheduling_ddpm import DDPMSchedulerOutput
from torch import Generator, Tensor

from hosm.diffusion.covariances import reverse_covariance
from hosm.diffusion.gaussian_steps import GaussianStep, Matrix

__all__ = ["CovarianceScheduler", "SecondOrder"]

SecondOrder = Callable[[Tensor, float], Matrix | None]  # x_noisy (n, D), sigma -> s2


class CovarianceScheduler(DDPMScheduler):
    """DDPM's scheduler with a covariance of its steps: set `second_order` before sampling.

    It is made by `from_config` of another scheduler's configuration, or with the arguments of
    `diffusers.DDPMScheduler`, of which `variance_type` is without effect.

    Attributes:
        second_order: (x_noisy, sigma) -> s2 for noisy points in the units of the pictures,
            float32, shape (n, D), and one noise scale; operators or a tensor (n, D, D).
    """

    second_order: SecondOrder | None = None

    def sigma(self, t: int) -> float:
        """Return the noise scale sigma_t of a step of the schedule; 0 below the first."""
        if t < 0:
            return 0.0
        product = float(cast(Any, self).alphas_cumprod[t])
        return (1 / product - 1) ** 0.5

    def _clean(self, output: Tensor, x_noisy: Tensor, sigma: float) -> Tensor:
        """Return the mean of the clean pictures, clipped as the configuration says."""
        config = cast(Any, self).config
        scale = (1 + sigma**2) ** -0.5  # a_t
        if config.prediction_type == "epsilon":
            mean = x_noisy - sigma * output
        elif config.prediction_type == "sample":
            mean = output
        else:  # v = a_t z - a_t sigma_t x
            mean = scale**2 * x_noisy - scale * sigma * output
        if config.thresholding:
            return cast(Any, self)._threshold_sample(mean)
        bound = config.clip_sample_range
        return mean.clamp(-bound, bound) if config.clip_sample else mean

    def _step_law(self, mean: Tensor, x_noisy: Tensor, sigma: float, after: float) -> GaussianStep:
        """Return the law of x_s / a_s at flat points, shape (n, D)."""
        if self.second_order is None:
            raise ValueError("second_order must be set before sampling, got None")
        s2 = self.second_order(x_noisy, sigma)
        if s2 is None:
            raise ValueError("second_order must return s2, got None: the model is of first order")
        share = 1 - (after / sigma) ** 2
        return GaussianStep(
            x_noisy + share * (mean - x_noisy), reverse_covariance(s2, sigma, after)
        )

    def step(  # type: ignore[override]
        self,
        model_output: Tensor,
        timestep: int,
        sample: Tensor,
        generator: Generator | None = None,
        return_dict: bool = True,
    ) -> DDPMSchedulerOutput | tuple[Tensor, ...]:
        """Return x_s, drawn from its Gaussian law given x_t, and the mean of the clean pictures.

        Args:
            model_output: what the U-Net predicts, shape (n, *).
            timestep: t, a step of the schedule.
            sample: x_t, shape (n, *).
            generator: source of the noise.
            return_dict: whether to return an object with `prev_sample` and
                `pred_original_sample`, or a tuple of them.

        Raises:
            ValueError: `second_order` is not set or returns none, or there is a list of
                generators.
        """
        if isinstance(generator, list):
            raise ValueError(f"generator must be one generator or None, got {len(generator)}")
        t = int(timestep)
        before = int(cast(Any, self).previous_timestep(t))
        sigma, after = self.sigma(t), self.sigma(before)
        x_noisy = (1 + sigma**2) ** 0.5 * sample.float()
        mean = self._clean(model_output.float(), x_noisy, sigma)
        if after == 0:  # the last step returns its mean, as that of DDPM
            drawn = mean
        else:
            law = self._step_law(mean.flatten(1), x_noisy.flatten(1), sigma, after)
            drawn = (1 + after**2) ** -0.5 * law.sample(generator).view_as(sample)
        found = drawn.to(sample.dtype), mean.to(sample.dtype)
        if not return_dict:
            return found
        return DDPMSchedulerOutput(prev_sample=found[0], pred_original_sample=found[1])
