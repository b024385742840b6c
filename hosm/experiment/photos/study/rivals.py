"""What a user would reach for to denoise a photograph, each tuned on other pictures.

Non-local means (Buades, Coll and Morel, CVPR 2005), total variation (Rudin, Osher and Fatemi,
1992; Chambolle, 2004) and wavelet thresholds over shifts (Chang, Yu and Vetterli, 2000; Coifman
and Donoho, 1995) are those of scikit-image. BM3D (Dabov, Foi, Katkovnik and Egiazarian, 2007;
Makinen, Azzari and Foi, 2020) is the authors' package, which is free for non-commercial use only:
nothing depends on it, and it takes part where someone has installed it.
"""

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from skimage.restoration import (
    cycle_spin,
    denoise_nl_means,
    denoise_tv_chambolle,
    denoise_wavelet,
)

from hosm.experiment.photos.study.held_out import WHITE, Array, noisy, psnr

__all__ = ["BM3D", "CANDIDATES", "METHODS", "denoise", "installed", "tuned"]

BM3D = "BM3D"
SHIFTS = 3  # that wavelets are averaged over, along each axis beyond none
Options = Mapping[str, Any]


def _axis(picture: Array) -> int | None:
    return 2 if picture.ndim == 3 else None


def _non_local_means(picture: Array, sigma: float, patch: int, strength: float) -> Array:
    return denoise_nl_means(
        picture,
        patch_size=patch,
        patch_distance=7,
        h=strength * sigma,
        sigma=sigma,
        fast_mode=True,
        preserve_range=True,
        channel_axis=_axis(picture),
    )


def _total_variation(picture: Array, sigma: float, weight: float) -> Array:
    return denoise_tv_chambolle(
        picture, weight=weight * sigma, max_num_iter=300, channel_axis=_axis(picture)
    )


def _wavelets(picture: Array, sigma: float, wavelet: str, method: str, factor: float) -> Array:
    axis = _axis(picture)
    options: dict[str, Any] = {"wavelet": wavelet, "method": method, "channel_axis": axis}
    options |= {"sigma": factor * sigma / WHITE, "mode": "soft", "convert2ycbcr": axis is not None}
    found = cycle_spin(
        picture / WHITE,
        denoise_wavelet,
        max_shifts=SHIFTS,
        func_kw=options,
        workers=1,
        channel_axis=axis,
    )
    return WHITE * np.asarray(found)


def _bm3d(picture: Array, sigma: float) -> Array:
    package: Any = importlib.import_module("bm3d")
    profile = package.BM3DProfile()
    profile.num_threads = 1
    return (package.bm3d if picture.ndim == 2 else package.bm3d_rgb)(picture, sigma, profile)


METHODS: dict[str, Callable[..., Array]] = {
    "non-local means": _non_local_means,
    "total variation": _total_variation,
    "wavelets": _wavelets,
    BM3D: _bm3d,
}
CANDIDATES: dict[str, list[Options]] = {
    "non-local means": [
        {"patch": patch, "strength": strength}
        for patch in (3, 5, 7)
        for strength in (0.25, 0.4, 0.6, 0.8)
    ],
    "total variation": [{"weight": weight} for weight in (0.6, 0.8, 1.0, 1.25, 1.6)],
    "wavelets": [
        *({"wavelet": w, "method": "BayesShrink", "factor": 1.0} for w in ("db1", "db2", "db4")),
        *({"wavelet": "db2", "method": "VisuShrink", "factor": f} for f in (0.25, 0.4)),
    ],
    BM3D: [{}],
}


def installed() -> list[str]:
    """Return the methods that can run here."""
    return [each for each in METHODS if each != BM3D or importlib.util.find_spec("bm3d")]


def denoise(method: str, picture: Array, sigma: float, options: Options) -> Array:
    """Return a denoised picture.

    Args:
        method: one of `METHODS`.
        picture: shape (height, width) or (height, width, 3), in 0 to 255.
        sigma: noise scale, in the same units.
        options: of the method, such as one of its `CANDIDATES`.
    """
    return np.asarray(METHODS[method](picture, sigma, **options))


def tuned(
    method: str, pictures: Mapping[str, Array], sigma: float, seed: int
) -> tuple[Options, Sequence[float]]:
    """Return the candidate with the best mean PSNR on pictures with known truth, and all means.

    Args:
        method: one of `METHODS`.
        pictures: clean ones, by their names.
        sigma: noise scale.
        seed: of the noise.
    """
    candidates = CANDIDATES[method]
    if len(candidates) == 1:
        return candidates[0], []
    means = []
    for options in candidates:
        found = [
            psnr(denoise(method, noisy(clean, name, sigma, seed), sigma, options), clean)
            for name, clean in pictures.items()
        ]
        means.append(float(np.mean(found)))
    return candidates[int(np.argmax(means))], means
