"""Pictures of any size: a denoiser that says how sure it is about each pixel.

`model` has the law of a clean picture given a noisy one, `covariance` how its windows join,
`objective` what it is trained by, and `noisy_only` by what where no clean picture is known,
`crops` and `tiles` how pictures of any size go through it. `noise_level` estimates the noise of a
picture, and `clipping` puts back what was cut off of it at the ends of its scale.
`picture_denoiser` is the front door, and `denoised` has its answers. `calibration` judges and
mends intervals and variances.
"""

from hosm.pictures.calibration import conformal_factors, variance_ratio
from hosm.pictures.denoised import DenoisedPicture
from hosm.pictures.picture_denoiser import PictureDenoiser

__all__ = ["DenoisedPicture", "PictureDenoiser", "conformal_factors", "variance_ratio"]
