r"""The front door for pictures: learn a denoiser from pictures, and denoise pictures of any size.

    denoiser = PictureDenoiser().fit(pictures)         # arrays (height, width) or (.., 3)
    found = denoiser.denoise(noisy, sigma=25)
    found.mean, found.std, found.interval(0.9), found.directions((0, 0, 32, 32), 3)

One model serves a range of noise scales. Since it is homogeneous (see
`hosm.networks.picture_unet`), the units of a noisy picture need not be those of the training
pictures: what must lie in the range is sigma over the largest value that a picture may have.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor

from hosm import __version__
from hosm.checks import check_count
from hosm.io import Array, read_archive, read_pages, write_archive
from hosm.noise import check_scales
from hosm.pictures.calibration import conformal_factors
from hosm.pictures.crops import Crops
from hosm.pictures.denoised import DenoisedPicture
from hosm.pictures.model import PictureModel
from hosm.pictures.objective import PictureObjective
from hosm.pictures.tiles import Tile, margin, part, tiles
from hosm.training import Progress, Settings, fit

__all__ = ["PictureDenoiser"]

USUAL_RANGE = (2 / 255, 60 / 255)  # of noise scales, over the largest value
KIND = "pictures"  # of the models of an archive
TILE = 512  # pixels along a side of what goes through the network at once, without its margin
FEWEST_WHOLE = 5  # pictures of which some are held out; of fewer, a part of each is
HELD_SHARE = 0.1  # of the pictures, or of the rows of each
HELD_CROPS = 128
BATCHES_PER_EPOCH = 50


class PictureDenoiser:
    """A denoiser of pictures of any size, with the covariance of its errors.

    Args:
        sigma: range (low, high) of the noise scales, in the units of the training pictures; None
            for 2 to 60 parts in 255 of their largest value.
        rank: pictures b_k of which the covariance is made (see `hosm.pictures.covariance`).
        widths: feature maps of the network at each resolution, from a half of the picture's on.
        blocks: residual blocks at each resolution.
        crop: side of the training crops, in pixels, a multiple of 16.
        batch_size: crops of a step.
        max_steps: steps of the training.
        learning_rate: of Adam in its first step.
        random_state: seed of all random numbers.
        device: torch device.
        callback: called with a dictionary of `step`, `validation_dsm`, ... at each validation.

    Attributes:
        model_: the trained `hosm.pictures.model.PictureModel`, of pictures over `unit_`.
        unit_: the largest value of the training pictures.
        sigma_: the range of noise scales, in their units.
        history_: losses at each validation.
        factors_: what `calibrate` found; None without it.
    """

    def __init__(
        self,
        sigma: tuple[float, float] | None = None,
        *,
        rank: int = 8,
        widths: tuple[int, ...] = (48, 96, 128),
        blocks: int = 2,
        crop: int = 64,
        batch_size: int = 16,
        max_steps: int = 4000,
        learning_rate: float = 1e-3,
        random_state: int = 0,
        device: str = "cpu",
        callback: Callable[[dict[str, Any]], None] | None = None,
    ) -> None:
        self.sigma, self.rank, self.widths, self.blocks = sigma, rank, widths, blocks
        self.crop, self.batch_size, self.max_steps = crop, batch_size, max_steps
        self.learning_rate, self.random_state = learning_rate, random_state
        self.device, self.callback = device, callback

    def fit(self, pictures: Sequence[Array] | str | os.PathLike[str]) -> Self:
        """Learn from clean pictures.

        Args:
            pictures: arrays of shape (height, width), or all of (height, width, 3), of any sizes
                no smaller than a crop; or the path of a file or folder of pictures.

        Raises:
            ValueError: pictures of several kinds, too small, not finite, or without contrast; or
                an argument of the constructor out of its range.
            FloatingPointError: the training diverged.
        """
        held_all = self._read(pictures)
        check_count("crop", self.crop, 16)
        shapes = [_checked(picture, self.crop, k) for k, picture in enumerate(held_all)]
        kinds = sorted({shape[2:] for shape in shapes})
        if len(kinds) != 1:
            raise ValueError("pictures must all be grey or all be colour, got both")
        self.unit_ = max(float(np.max(picture)) for picture in held_all)
        low, high = self.sigma or tuple(self.unit_ * each for each in USUAL_RANGE)
        self.sigma_ = cast("tuple[float, float]", check_scales((float(low), float(high))))
        train, held = _divided(held_all, self.crop)
        result_model = self._model(3 if kinds[0] else 1)
        settings = self._settings(result_model.sigma)
        result = fit(
            result_model,
            settings,
            self._crops(train, self.batch_size * BATCHES_PER_EPOCH),
            self._crops(held, HELD_CROPS)(-1),
            objective=PictureObjective,
            report=self._report,
        )
        result_model.load_state_dict(result.weights)
        self.model_ = result_model.eval().requires_grad_(False)
        self.history_ = result.history
        self.factors_: dict[float, float] | None = None
        return self

    def calibrate(
        self,
        pictures: Sequence[Array],
        sigma: float,
        levels: Sequence[float] = (0.5, 0.8, 0.9, 0.95),
        random_state: int = 0,
    ) -> Self:
        """Have intervals of later answers hold the truth as often as they state.

        The pictures get noise of scale sigma, and what their pixels say stands for those of
        other pictures under like noise: see `hosm.pictures.calibration` for what is guaranteed,
        and for a guarantee by picture.

        Args:
            pictures: clean, used in no training, in the units of those to come, of one kind with
                the training pictures.
            sigma: scale of the noise, in their units.
            levels: probabilities of the intervals that can be asked for afterwards.
            random_state: seed of the noise.

        Raises:
            ValueError: no picture, one of another kind, a level out of range, or sigma not above
                0.
        """
        if not len(pictures):
            raise ValueError("pictures must hold one picture or more, got none")
        rng = np.random.default_rng(random_state)
        noisy = [each + sigma * rng.standard_normal(np.shape(each)) for each in pictures]
        found = [self.denoise(each, sigma) for each in noisy]
        self.factors_ = conformal_factors(found, pictures, levels)
        return self

    def _read(self, pictures: Sequence[Array] | str | os.PathLike[str]) -> Sequence[Array]:
        if isinstance(pictures, str | os.PathLike):
            return read_pages(pictures)
        if not len(pictures):
            raise ValueError("pictures must hold one picture or more, got none")
        return pictures

    def _model(self, channels: int) -> PictureModel:
        low, high = (each / self.unit_ for each in self.sigma_)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.random_state)
            model = PictureModel(
                channels,
                sigma=(low, high),
                rank=self.rank,
                widths=self.widths,
                blocks=self.blocks,
            )
        return model.to(self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]

    def _settings(self, sigma: Any) -> Settings:  # noqa: ANN401
        return Settings(
            sigma=sigma,
            target="likelihood",
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            max_steps=self.max_steps,
            clip_norm=1.0,
            validate_every=min(self.max_steps, 250),
            seed=self.random_state,
        )

    def _crops(self, pictures: Sequence[Array], count: int) -> Callable[[int], Tensor]:
        shapes = [picture.shape[:2] for picture in pictures]
        crops = Crops(pictures, shapes, self.crop, count, self.unit_, self.random_state)
        return lambda epoch: crops(epoch).to(self.device)

    def _report(self, progress: Progress) -> None:
        if self.callback is not None and progress.metrics:
            self.callback({"step": progress.step, **progress.metrics})

    def denoise(self, picture: Array, sigma: float | Array) -> DenoisedPicture:
        """Return the posterior of the clean picture.

        Args:
            picture: noisy, shape (height, width), or (height, width, 3) for a model of colour, of
                any size and units.
            sigma: standard deviation of the noise, in the picture's units; a number, or one for
                each pixel, shape (height, width).

        Raises:
            ValueError: another shape, values that are not finite, or sigma not above 0.
        """
        channels = self.model_.channels
        picture = np.asarray(picture)
        wanted = "(height, width)" if channels == 1 else "(height, width, 3)"
        if picture.ndim != (2 if channels == 1 else 3) or picture.shape[2:] not in ((), (3,)):
            raise ValueError(f"picture must have shape {wanted}, got {picture.shape}")
        if not np.isfinite(picture).all():
            raise ValueError("picture must hold finite numbers, got NaN or infinite ones")
        scale = np.asarray(sigma, np.float32)
        if not (np.isfinite(scale) & (scale > 0)).all():
            raise ValueError(f"sigma must be a finite number above 0, got {sigma}")
        if scale.shape not in ((), picture.shape[:2]):
            raise ValueError(
                f"sigma must be a number or have shape {picture.shape[:2]}, got {scale.shape}"
            )
        return self._denoise(picture, sigma, scale)

    def _denoise(self, picture: Array, sigma: float | Array, scale: Array) -> DenoisedPicture:
        height, width = picture.shape[:2]
        pixels = picture.reshape(height, width, -1)
        scales = np.broadcast_to(scale, (height, width))[..., None]
        mean = np.empty(pixels.shape, np.float32)
        variance = np.empty_like(mean)
        for tile in tiles(height, width, TILE):
            rows = slice(tile.top, tile.top + tile.height)
            columns = slice(tile.left, tile.left + tile.width)
            found, own, shared = self._moments(pixels, scales, tile)
            mean[rows, columns] = found.movedim(0, -1).numpy()
            variance[rows, columns] = (own + shared.square().sum(0)).movedim(0, -1).numpy()
        return DenoisedPicture(
            mean.reshape(picture.shape),
            variance.reshape(picture.shape),
            sigma,
            lambda tile: self._moments(pixels, scales, tile)[1:],
            factors=self.factors_,
        )

    @torch.no_grad()
    def _moments(self, pixels: Array, scales: Array, tile: Tile) -> tuple[Tensor, Tensor, Tensor]:
        """Return the mean, own variances and b_k of a tile, channels first."""
        trunk = self.model_.trunk

        def network(parts: list[Array]) -> list[Array]:
            y, scale = (
                torch.from_numpy(np.moveaxis(each, 2, 0)[None].astype(np.float32)).to(self.device)
                for each in parts
            )
            found = self.model_(y.contiguous(memory_format=torch.channels_last), scale)
            return [np.moveaxis(each[0].cpu().numpy(), (-2, -1), (0, 1)) for each in found]

        edge = margin(self.model_.reach, trunk.multiple)
        found = part((pixels, scales), tile, edge, trunk.multiple, network)
        mean, own, shared = (
            torch.from_numpy(np.moveaxis(each, (0, 1), (-2, -1))) for each in found
        )
        return mean, own, shared

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model into one file, in which nothing can execute code.

        Raises:
            OSError: the folder is missing or cannot be written to.
        """
        names = ("rank", "widths", "blocks", "crop", "batch_size", "max_steps", "learning_rate")
        card = {
            "kind": KIND,
            "version": __version__,
            "channels": self.model_.channels,
            "unit": self.unit_,
            "sigma": self.sigma_,
            "history": self.history_,
            "factors": [*(self.factors_ or {}).items()],
            "parameters": {name: getattr(self, name) for name in (*names, "random_state")},
        }
        write_archive(path, self.model_.state_dict(), card)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str = "cpu") -> Self:
        """Return what `save` wrote.

        Args:
            path: the file.
            device: torch device.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: the file is damaged, or holds another kind of model.
        """
        tensors, card = read_archive(path)
        if card.get("kind") != KIND:
            raise ValueError(f"{path} must hold a denoiser of pictures, got another model")
        parameters = {**card["parameters"], "widths": tuple(card["parameters"]["widths"])}
        own = cls(tuple(card["sigma"]), device=device, **parameters)
        own.unit_, own.sigma_, own.history_ = card["unit"], tuple(card["sigma"]), card["history"]
        own.factors_ = dict(card.get("factors", [])) or None
        model = own._model(card["channels"])
        model.load_state_dict({name: value.float() for name, value in tensors.items()})
        own.model_ = model.eval().requires_grad_(False)
        return own


def _checked(picture: Array, crop: int, number: int) -> tuple[int, ...]:
    """Return the shape of a training picture that has one."""
    shape = np.shape(picture)
    if len(shape) not in (2, 3) or shape[2:] not in ((), (3,)) or min(shape[:2]) < crop:
        raise ValueError(
            f"pictures must have shape (height, width) or (height, width, 3), sides no smaller "
            f"than a crop of {crop}, got {shape} for picture {number + 1}"
        )
    if not np.isfinite(picture).all() or np.ptp(picture) == 0:
        raise ValueError(
            f"pictures must hold finite numbers that differ, picture {number + 1} does not"
        )
    return shape


def _divided(pictures: Sequence[Array], crop: int) -> tuple[list[Array], list[Array]]:
    """Return pictures to learn from and held-out ones, or of few pictures parts of each.

    The last rows of each picture, a fifth of them, no fewer than a crop, are held out where there
    are fewer than five pictures; a picture too low for that is in both.
    """
    if len(pictures) >= FEWEST_WHOLE:
        step = max(2, round(1 / HELD_SHARE)) if len(pictures) >= 10 else len(pictures)
        held = [k for k in range(len(pictures)) if k % step == step - 1]
        return [p for k, p in enumerate(pictures) if k not in held], [pictures[k] for k in held]
    train, held_parts = [], []
    for picture in pictures:
        rows = max(crop, len(picture) // 5)
        train.append(picture[:-rows] if len(picture) >= rows + crop else picture)
        held_parts.append(picture[-rows:])
    return train, held_parts
