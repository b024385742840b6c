"""Pictures of any size: a denoiser that says how sure it is about each pixel.

`model` has the law of a clean picture given a noisy one, `covariance` how its windows join,
`objective` what it is trained by, and `noisy_only` by what where no clean picture is known,
`crops` and `tiles` how pictures of any size go through it, and `picture_denoiser` the front door,
whose answers are in `denoised`.
"""

from hosm.pictures.denoised import DenoisedPicture
from hosm.pictures.picture_denoiser import PictureDenoiser

__all__ = ["DenoisedPicture", "PictureDenoiser"]
