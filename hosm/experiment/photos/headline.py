"""The headline numbers of the denoiser of photographs."""

from collections.abc import Iterator

from hosm.experiment.photos.results import OURS, PhotosRun
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.headline import HeadlineLine
from hosm.experiment.shared.rows import groups

__all__ = ["photos_lines"]

USUAL = 25.0  # noise scale, of 255


def photos_lines(run: PhotosRun) -> Iterator[HeadlineLine]:
    """Yield mean PSNR at one noise scale, ours beside the rivals', for each kind of pictures."""
    usual = min(run.quality["sigma"].unique(), key=lambda sigma: abs(sigma - USUAL))
    for kind, part in groups(run.quality[run.quality["sigma"] == usual], "kind"):
        means = part.groupby("method", sort=False)["psnr"].mean()
        rivals = [name for name in means.index if name != OURS]
        yield HeadlineLine(
            f"mean PSNR of {part['picture'].nunique()} {kind} photographs under noise "
            f"{usual:g} of 255, dB",
            f"`PictureDenoiser`; {', '.join(rivals)}",
            formats.DASH,
            "; ".join(f"{means[name]:.2f}" for name in (OURS, *rivals)),
        )
