"""Pictures of any size: a denoiser that says how sure it is about each pixel.

`model` has the law of a clean picture given a noisy one, `covariance` how its windows join,
`objective` what it is trained by, `crops` and `tiles` how pictures of any size go through it, and
`picture_denoiser` the front door, whose answers are in `denoised`; `calibration` has intervals and
variances judged, and mended, by pictures whose truth is known or by the noisy picture alone.
"""

from hosm.pictures.calibration import conformal_factors, variance_ratio
from hosm.pictures.denoised import DenoisedPicture
from hosm.pictures.picture_denoiser import PictureDenoiser

__all__ = ["DenoisedPicture", "PictureDenoiser", "conformal_factors", "variance_ratio"]
