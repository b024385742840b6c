r"""The front door for pictures: learn a denoiser from pictures, and denoise pictures of any size.

    denoiser = PictureDenoiser().fit(pictures)         # arrays (height, width) or (.., 3)
    denoiser = PictureDenoiser().fit(few, start="photos")     # go on from the shipped model
    denoiser = PictureDenoiser().fit(seen, noise=25)   # where no clean picture is known
    found = denoiser.denoise(noisy, sigma=25)
    found.mean, found.std, found.interval(0.9), found.directions((0, 0, 32, 32), 3)

One model serves a range of noise scales. Since it is homogeneous (see
`hosm.networks.picture_unet`), the units of a noisy picture need not be those of the training
pictures: what must lie in the range is sigma over the largest value that a picture may have. The
model is that of Meng, Song, Li and Ermon ("Estimating High Order Gradients of the Data
Distribution by Denoising", NeurIPS 2021), made for pictures of any size (`hosm.pictures.model`).
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, cast

import numpy as np
import torch
from torch import Tensor

from hosm import __version__
from hosm.checks import check_choice, check_count
from hosm.io import (
    Array,
    of_a_saved_model,
    open_pages,
    page_shapes,
    read_archive,
    write_archive,
)
from hosm.noise import check_scales, check_sigma
from hosm.parameters import shown
from hosm.pictures.calibration import conformal_factors
from hosm.pictures.clipping import Ends, clipped_ends, with_whole_noise
from hosm.pictures.crops import Crops
from hosm.pictures.denoised import DenoisedPicture
from hosm.pictures.model import PictureModel
from hosm.pictures.noise_level import (
    estimate_poisson_gaussian,
    estimate_sigma,
    stabilised,
    unstabilised,
)
from hosm.pictures.noisy_only import (
    A_OF_PAIRS,
    A_OF_SINGLE,
    NoisyOnlyObjective,
    means_of_pairs,
    range_above,
)
from hosm.pictures.objective import PictureObjective
from hosm.pictures.tiles import Tile, margin, part, tiles
from hosm.progress import ProgressBar
from hosm.training import Progress, Settings, TrainingResult, fit, load_checkpoint, save_checkpoint

__all__ = ["PictureDenoiser"]

USUAL_RANGE = (2 / 255, 60 / 255)  # of noise scales, over the largest value
PHOTOS = {1: "photos-grey.hosm", 3: "photos-colour.hosm"}  # channels -> the shipped model
KIND = "pictures"  # of the models of an archive
TILE = 512  # pixels along a side of what goes through the network at once, without its margin
FEWEST_WHOLE = 5  # pictures of which some are held out; of fewer, a part of each is
HELD_OF = 10  # one picture of so many is held out
HELD_CROPS = 128
SYMMETRIES = 8  # flips and quarter turns of a picture
BATCHES_PER_EPOCH = 50
VALIDATE_EVERY = 250  # steps

Pictures = Sequence[Array] | str | os.PathLike[str]
"""Arrays of shape (height, width), or all of (height, width, 3); or a file or folder of them."""


class PictureDenoiser:
    """A denoiser of pictures of any size, with the covariance of its errors.

    Args:
        sigma: range (low, high) of the noise scales, in the units of the training pictures; None
            for 2 to 60 parts in 255 of their largest value, or, of noisy pictures, for scales
            just above their noise.
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
        verbose: show the progress of `fit` as a bar on stderr, which moves at each validation.

    Attributes:
        model_: the trained `hosm.pictures.model.PictureModel`, of pictures over `unit_`.
        unit_: the largest value of the training pictures.
        sigma_: the range of noise scales that it was trained at, in their units.
        noise_: noise scale of the training pictures, in their units; None if they were clean.
        pairs_: whether it had two noisy versions of each.
        history_: losses at each validation.
        factors_: what `calibrate` found; None without it.
    """

    model_: PictureModel
    history_: list[dict[str, float]]
    factors_: dict[float, float] | None

    def __init__(
        self,
        sigma: tuple[float, float] | None = None,
        *,
        rank: int = 8,
        widths: tuple[int, ...] = (48, 64, 80),
        blocks: int = 2,
        crop: int = 64,
        batch_size: int = 16,
        max_steps: int = 4000,
        learning_rate: float = 1e-3,
        random_state: int = 0,
        device: str = "cpu",
        callback: Callable[[dict[str, Any]], None] | None = None,
        verbose: bool = False,
    ) -> None:
        self.sigma, self.rank, self.widths, self.blocks = sigma, rank, widths, blocks
        self.crop, self.batch_size, self.max_steps = crop, batch_size, max_steps
        self.learning_rate, self.random_state = learning_rate, random_state
        self.device, self.callback, self.verbose = device, callback, verbose

    def __repr__(self) -> str:
        return shown(self)

    def fit(
        self,
        pictures: Pictures,
        checkpoint: str | os.PathLike[str] | None = None,
        *,
        noise: float | Literal["auto"] | None = None,
        pairs: Pictures | None = None,
        start: PictureDenoiser | str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn from clean pictures, or from noisy ones alone.

        Of noisy pictures the noise must be Gaussian, independent from pixel to pixel, and of the
        scale that is stated: pictures that were clipped, compressed or filtered are not so.
        Mean and variances are of the clean picture all the same (see
        `hosm.pictures.noisy_only`), but slower to learn, since targets are noisy: for a small
        grey network at noise 25 of 255, .8 dB of PSNR was lost against clean pictures after 400
        steps, .4 dB after 1,000, and with pairs .15 dB after 400. The model is for the noise
        scale of its pictures: it has seen none below, nor any far above.

        Args:
            pictures: arrays of shape (height, width), or all of (height, width, 3), of any sizes
                no smaller than a crop; or the path of a file or folder of pictures.
            checkpoint: a file that the state of the training is written to at each validation,
                and that a run which was interrupted goes on from; it is removed at the end.
            noise: noise scale of the pictures, in their units; None if they are clean; `auto` for
                the median of what `hosm.pictures.noise_level` estimates of each.
            pairs: a second noisy version of each picture, whose noise is independent of that in
                the first and of the same scale.
            start: a trained denoiser, its file, or `photos` for the one that comes with the
                package, whose network the training goes on from, in fewer steps than from
                nothing. Its channels, `rank`, `widths` and `blocks` must be these.

        Raises:
            ValueError: pictures of several kinds, too small, not finite, or without contrast;
                pairs or a start that do not fit; an argument out of range; another checkpoint.
            FloatingPointError: the training diverged.
        """
        pages = self._seen(pictures, noise, pairs)
        check_count("crop", self.crop, 16)
        channels = _channels(page_shapes(pages), self.crop)
        self.unit_ = _largest(pages)
        low, high = map(float, self.sigma or self._usual_range())
        self.sigma_ = cast("tuple[float, float]", check_scales((low, high)))
        train, held = _divided(pages, self.crop)
        model, seen = self._begin(channels, start)
        settings = self._settings(model.sigma)
        kept = _Checkpoint(checkpoint, f"{settings} {page_shapes(pages)} {seen}")
        with ProgressBar(self.verbose) as bar:
            result = fit(
                model,
                settings,
                self._crops(train, self.batch_size * BATCHES_PER_EPOCH),
                self._crops(held, HELD_CROPS)(-1),
                objective=self._objective(),
                report=lambda progress: self._report(progress, kept, bar),
                state=kept.state(),
            )
        kept.remove()
        self._finish(model, result)
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

    def _seen(
        self, pictures: Pictures, noise: float | str | None, pairs: Pictures | None
    ) -> Sequence[Array]:
        """Return the pictures to learn from, of pairs the means, and keep what noise they have."""
        if pairs is not None and noise is None:
            raise ValueError("pairs must come with the noise of the pictures, got None")
        pages = _opened(pictures)
        if isinstance(noise, str):
            check_choice("noise", noise, ("auto",))
            noise = float(np.median([estimate_sigma(page) for page in pages]))
        self.noise_ = None if noise is None else check_sigma(noise)
        self.pairs_ = pairs is not None
        return pages if pairs is None else means_of_pairs(pages, _opened(pairs))

    def _noise_seen(self) -> float | None:
        """Return the noise scale of what is learned from: pictures, or the means of pairs."""
        if self.noise_ is None or not self.pairs_:
            return self.noise_
        return self.noise_ / math.sqrt(2)

    def _usual_range(self) -> tuple[float, float]:
        seen = self._noise_seen()
        if seen is not None:
            return range_above(seen, A_OF_PAIRS if self.pairs_ else A_OF_SINGLE)
        low, high = USUAL_RANGE
        return self.unit_ * low, self.unit_ * high

    def _objective(self) -> Callable[[Any, Settings], PictureObjective]:
        seen = self._noise_seen()
        if seen is None:
            return PictureObjective
        return partial(NoisyOnlyObjective, noise=seen / self.unit_)

    def _model(self, channels: int, device: str | None = None) -> PictureModel:
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
        return model.to(device or self.device, memory_format=torch.channels_last)  # type: ignore[call-overload]

    def _begin(
        self, channels: int, start: PictureDenoiser | str | os.PathLike[str] | None
    ) -> tuple[PictureModel, object]:
        """Return the model that a training begins with, and what tells its origin from others."""
        model = self._model(channels)
        if start is None:
            return model, None
        if not isinstance(start, PictureDenoiser):
            start = self.pretrained(channels) if start == "photos" else self.load(start)
        shapes = [
            (each.rank, each.widths, each.blocks, own)
            for each, own in ((start, start.model_.channels), (self, channels))
        ]
        if shapes[0] != shapes[1]:
            found, own = ("rank {}, widths {}, blocks {}, channels {}".format(*s) for s in shapes)
            raise ValueError(f"start must be a network of {own}, got {found}")
        model.load_state_dict(start.model_.state_dict())
        return model, (start.model_.sigma, start.history_[-1])

    def _finish(self, model: PictureModel, result: TrainingResult) -> None:
        """Take over what was learned."""
        model.load_state_dict(result.weights)
        self.model_ = model.eval().requires_grad_(False)
        self.history_ = result.history
        self.factors_ = None

    def _settings(self, sigma: Any) -> Settings:  # noqa: ANN401
        return Settings(
            sigma=sigma,
            target="likelihood",
            optimizer="muon",
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            max_steps=self.max_steps,
            clip_norm=1.0,
            second_order_share=0.5,
            validate_every=min(self.max_steps, VALIDATE_EVERY),
            seed=self.random_state,
        )

    def _crops(self, pictures: Sequence[Array], count: int) -> Callable[[int], Tensor]:
        crops = Crops(pictures, self.crop, count, self.unit_, self.random_state)
        return lambda epoch: crops(epoch).to(self.device)

    def _report(self, progress: Progress, kept: _Checkpoint, bar: ProgressBar) -> None:
        kept.write(progress)
        error = progress.metrics.get("validation_dsm", math.nan)
        words = f"held-out squared error {error:.4f} of the noise's"
        bar.move("denoiser", progress.step, self.max_steps, words)
        if self.callback is not None:
            self.callback({"step": progress.step, **progress.metrics})

    def denoise(
        self,
        picture: Array,
        sigma: float | Array | Literal["auto"] = "auto",
        gain: float | Literal["auto"] = 0.0,
        symmetries: int = 1,
        clipping: Literal["mend", "ignore"] = "mend",
    ) -> DenoisedPicture:
        """Return the posterior of the clean picture.

        Args:
            picture: noisy, shape (height, width), or (height, width, 3) for a model of colour, of
                any size and units.
            sigma: standard deviation of the noise, in the picture's units; a number, or one for
                each pixel, shape (height, width); `auto` estimates it from the picture.
            gain: units of the picture for one count of light, for a noise of the variance gain x
                + sigma^2 (Poisson and Gaussian noise); `auto` estimates it and sigma. The picture
                is then brought to a noise of one scale and back (`hosm.pictures.noise_level`).
            symmetries: of the eight flips and quarter turns of the picture, how many are denoised
                and turned back for their mean, which takes so many times as long. With 8 the
                shipped model gains .1 dB of PSNR; variances stay those of one pass, 2 to 3 per
                cent above the error that is left.
            clipping: what to do where the noise is cut off at the ends of the picture's scale, as
                by a file of 8 bits: `mend` denoises twice, the second time with noise put back
                (`hosm.pictures.clipping`); `ignore` does not. With a gain it is ignored.

        Warns:
            UserWarning: the noise is cut off; that of whole numbers is beyond what was trained.

        Raises:
            ValueError: another shape, values that are not finite, sigma not above 0, gain below
                0, noise that cannot be estimated, symmetries not from 1 to 8, unknown clipping.
        """
        picture = self._checked(picture)
        check_count("symmetries", symmetries, 1, SYMMETRIES)
        check_choice("clipping", clipping, ("mend", "ignore"))
        if gain == "auto":
            gain, sigma = estimate_poisson_gaussian(picture)
        if isinstance(sigma, str):
            check_choice("sigma", sigma, ("auto",))
            sigma = estimate_sigma(picture)
        if gain == 0:
            self._warn_of_scale(picture, sigma)
            return self._of_one_scale(picture, _scale(sigma, picture), symmetries, clipping)
        if np.ndim(sigma) or not (np.isfinite(gain) and gain > 0):
            raise ValueError(f"gain must be 0, or above 0 with one sigma, got {gain}")
        even = stabilised(picture, gain, float(sigma))
        found = self._denoise(even, np.ones((), np.float32), symmetries)
        mean, variance = unstabilised(found.mean, found.variance, gain, float(sigma))
        slope = np.sqrt(variance / found.variance).astype(np.float32)
        return replace(
            found.through(slope), mean=mean.astype(np.float32), sigma=float(sigma), gain=gain
        )

    def _of_one_scale(
        self, picture: Array, scale: Array, symmetries: int, clipping: str
    ) -> DenoisedPicture:
        """Return the posterior under white noise, whole or cut off at the ends of the scale."""
        ends = clipped_ends(picture)
        if ends is None:
            return self._denoise(picture, scale, symmetries)
        _warn_of_clipping(ends, clipping)
        if clipping == "ignore":
            return self._denoise(picture, scale, symmetries)
        first = self._denoise(picture, scale, 1).mean
        found = self._denoise(with_whole_noise(picture, first, scale, ends), scale, symmetries)
        return replace(found, mean=np.clip(found.mean, ends.low, ends.high))

    def _warn_of_scale(self, picture: Array, sigma: float | Array) -> None:
        """Warn of noise beyond what was trained, where the picture's type tells its largest value.

        Of fractions nothing tells it; a denoiser of noisy pictures is one of their noise alone.
        """
        if not np.issubdtype(picture.dtype, np.integer) or self.noise_ is not None:
            return
        largest = float(np.iinfo(picture.dtype).max)
        low, high = (largest * each / self.unit_ for each in self.sigma_)
        if (np.asarray(sigma) < low / 2).any() or (np.asarray(sigma) > high).any():
            warnings.warn(
                f"the denoiser was trained at noise of {low:.3g} to {high:.3g} in pictures of "
                f"this type, got {np.mean(sigma):.3g}: mean and variances may be wrong",
                stacklevel=3,
            )

    def _checked(self, picture: Array) -> Array:
        """Return a noisy picture that the model can denoise."""
        picture, channels = np.asarray(picture), self.model_.channels
        wanted = "(height, width)" if channels == 1 else "(height, width, 3)"
        if picture.ndim != (2 if channels == 1 else 3) or picture.shape[2:] not in ((), (3,)):
            raise ValueError(f"picture must have shape {wanted}, got {picture.shape}")
        if not np.isfinite(picture).all():
            raise ValueError("picture must hold finite numbers, got NaN or infinite ones")
        return picture

    def _denoise(self, picture: Array, scale: Array, symmetries: int) -> DenoisedPicture:
        height, width = picture.shape[:2]
        pixels = picture.reshape(height, width, -1)
        scales = np.broadcast_to(scale, (height, width))[..., None]
        mean, variance = self._whole(pixels, scales)
        for turn in range(1, symmetries):
            mean += _back(self._whole(_turned(pixels, turn), _turned(scales, turn))[0], turn)
        return DenoisedPicture(
            (mean / np.float32(symmetries)).reshape(picture.shape),
            variance.reshape(picture.shape),
            float(scale) if scale.ndim == 0 else scale,
            lambda tile: self._moments(pixels, scales, tile)[1:],
            factors=self.factors_,
        )

    def _whole(self, pixels: Array, scales: Array) -> tuple[Array, Array]:
        """Return mean and variances of a picture, both (height, width, channels), tile by tile."""
        mean = np.empty(pixels.shape, np.float32)
        variance, (height, width) = np.empty_like(mean), pixels.shape[:2]
        for tile in tiles(height, width, TILE):
            rows = slice(tile.top, tile.top + tile.height)
            columns = slice(tile.left, tile.left + tile.width)
            found, own, shared = self._moments(pixels, scales, tile)
            mean[rows, columns] = found.movedim(0, -1).numpy()
            variance[rows, columns] = (own + shared.square().sum(0)).movedim(0, -1).numpy()
        return mean, variance

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

    def save(self, path: str | os.PathLike[str], half: bool = False) -> None:
        """Write the model into one file, in which nothing can execute code.

        Args:
            path: the file.
            half: keep the weights in half precision, three digits, which halves the file.

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
            "noise": self.noise_,
            "pairs": self.pairs_,
            "history": self.history_,
            "factors": [*(self.factors_ or {}).items()],
            "parameters": {name: getattr(self, name) for name in (*names, "random_state")},
        }
        weights = self.model_.state_dict()
        write_archive(path, {n: w.half() if half else w for n, w in weights.items()}, card)

    @classmethod
    def pretrained(cls, channels: int, device: str = "cpu") -> Self:
        """Return the denoiser of photographs that comes with the package.

        It was learned from 38 wallpapers of Debian's packages, for noise of 2 to 60 parts in 255
        of the largest value (`hosm.experiment.photos.training`).

        Args:
            channels: 1 for grey pictures, 3 for colour.
            device: torch device.

        Raises:
            ValueError: another number of channels.
        """
        check_choice("channels", channels, PHOTOS)
        return cls.load(Path(__file__).with_name(PHOTOS[channels]), device)

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
        with of_a_saved_model(path):
            return cls._of_archive(tensors, card, device)

    @classmethod
    def _of_archive(cls, tensors: dict[str, Tensor], card: dict[str, Any], device: str) -> Self:
        """Return the denoiser of an archive's contents.

        The network is first made without memory: a card may claim one of any size.
        """
        parameters = {**card["parameters"], "widths": tuple(card["parameters"]["widths"])}
        own = cls(tuple(card["sigma"]), device=device, **parameters)
        if own.blocks * len(own.widths) > len(tensors):
            raise ValueError(f"blocks must be of {len(tensors)} tensors at most, got {own.blocks}")
        own.unit_, own.sigma_, own.history_ = card["unit"], tuple(card["sigma"]), card["history"]
        own.noise_, own.pairs_ = card.get("noise"), card.get("pairs", False)
        own.factors_ = dict(card["factors"]) if card.get("factors") else None
        with torch.device("meta"):
            needed = own._model(card["channels"], "meta").state_dict()
        shapes = {name: each.shape for name, each in needed.items()}
        if shapes != {name: each.shape for name, each in tensors.items()}:
            raise ValueError("its tensors are not those of the network in its card")
        model = own._model(card["channels"])
        model.load_state_dict({name: value.float() for name, value in tensors.items()})
        own.model_ = model.eval().requires_grad_(False)
        return own


class _Checkpoint:
    """The state of a training in a file, if there is one, and what run it belongs to."""

    def __init__(self, path: str | os.PathLike[str] | None, run: str) -> None:
        self.path, self.run = None if path is None else Path(path), run

    def state(self) -> dict[str, Any] | None:
        """Return the state to go on from.

        Raises:
            ValueError: the file holds that of another run, or is damaged.
        """
        if self.path is None or not self.path.exists():
            return None
        state = load_checkpoint(self.path)
        if state["run"] != self.run:
            raise ValueError(f"{self.path} must be of this run; remove it to begin a new one")
        return state

    def write(self, progress: Progress) -> None:
        """Keep the state of a run."""
        if self.path is not None:
            save_checkpoint({**progress.state(), "run": self.run}, self.path)

    def remove(self) -> None:
        """Remove the file of a run that has ended."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)


def _opened(pictures: Pictures) -> Sequence[Array]:
    """Return pictures, those of a path as they are needed."""
    return open_pages(pictures) if isinstance(pictures, str | os.PathLike) else pictures


def _turned(pixels: Array, turn: int) -> Array:
    """Return a picture after one of the eight flips and quarter turns, 0 to 7; 0 leaves it."""
    return np.rot90(pixels[:, ::-1] if turn % 2 else pixels, turn // 2)


def _back(pixels: Array, turn: int) -> Array:
    """Return a picture before a flip or turn."""
    upright = np.rot90(pixels, -(turn // 2))
    return upright[:, ::-1] if turn % 2 else upright


def _warn_of_clipping(ends: Ends, clipping: str) -> None:
    """Say how much of the noise is cut off, and what became of it."""
    done = "it was put back around a first estimate, and the picture was denoised twice"
    if clipping == "ignore":
        done = "black and white areas come out too grey there, and their variances too small"
    warnings.warn(f"{ends}, where noise is cut off: {done}", stacklevel=4)


def _scale(sigma: float | Array, picture: Array) -> Array:
    """Return a noise scale as a number or a map of a picture."""
    scale = np.asarray(sigma, np.float32)
    if not (np.isfinite(scale) & (scale > 0)).all():
        raise ValueError(f"sigma must be a finite number above 0, got {sigma}")
    if scale.shape not in ((), picture.shape[:2]):
        raise ValueError(
            f"sigma must be a number or have shape {picture.shape[:2]}, got {scale.shape}"
        )
    return scale


def _channels(shapes: Sequence[tuple[int, ...]], crop: int) -> int:
    """Return the number of channels of training pictures, given their shapes."""
    if not shapes:
        raise ValueError("pictures must hold one picture or more, got none")
    for number, shape in enumerate(shapes, 1):
        if len(shape) not in (2, 3) or shape[2:] not in ((), (3,)) or min(shape[:2]) < crop:
            raise ValueError(
                f"pictures must have shape (height, width) or (height, width, 3), sides no "
                f"smaller than a crop of {crop}, got {shape} for picture {number}"
            )
    if len({shape[2:] for shape in shapes}) > 1:
        raise ValueError("pictures must all be grey or all be colour, got both")
    return 3 if shapes[0][2:] else 1


def _largest(pages: Sequence[Array]) -> float:
    """Return the largest value of the pictures' number type, or of fractions that they hold.

    A folder is read through for it only if it holds fractions.
    """
    if np.issubdtype(pages[0].dtype, np.integer):
        return float(np.iinfo(pages[0].dtype).max)
    largest = 0.0
    for number, page in enumerate(pages, 1):
        if not np.isfinite(page).all() or np.ptp(page) == 0:
            raise ValueError(
                f"pictures must hold finite numbers that differ, picture {number} does not"
            )
        largest = max(largest, float(np.abs(page).max()))
    return largest


class _Chosen(Sequence[Array]):
    """Some of a sequence of pictures, read when they are asked for."""

    def __init__(self, pages: Sequence[Array], numbers: Sequence[int]) -> None:
        self.pages, self.numbers = pages, numbers
        shapes = page_shapes(pages)
        self.shapes = [shapes[number] for number in numbers]

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, number: Any) -> Any:  # noqa: ANN401
        return self.pages[self.numbers[number]]


def _divided(pages: Sequence[Array], crop: int) -> tuple[Sequence[Array], Sequence[Array]]:
    """Return pictures to learn from and held-out ones, or of few pictures parts of each.

    One in ten is held out, or one. Of fewer than five pictures the last rows of each are, a fifth
    of them, no fewer than a crop; a picture too low for that is in both.
    """
    if len(pages) >= FEWEST_WHOLE:
        step = min(HELD_OF, len(pages))
        held = [k for k in range(len(pages)) if k % step == step - 1]
        kept = [k for k in range(len(pages)) if k % step != step - 1]
        return _Chosen(pages, kept), _Chosen(pages, held)
    train, held_parts = [], []
    for picture in pages:
        rows = max(crop, len(picture) // 5)
        train.append(picture[:-rows] if len(picture) >= rows + crop else picture)
        held_parts.append(picture[-rows:])
    return train, held_parts
