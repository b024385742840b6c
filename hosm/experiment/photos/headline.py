"""The headline numbers of the denoiser of photographs."""

from collections.abc import Iterator

from hosm.experiment.photos.results import OURS, PhotosRun
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.headline import Finding, HeadlineLine
from hosm.experiment.shared.rows import groups

__all__ = ["photos_findings", "photos_lines"]

USUAL = 25.0  # noise scale, of 255


def _means(run: PhotosRun) -> Iterator[tuple[str, float, int, dict[str, float]]]:
    """Yield kind, noise scale, number of pictures, and mean PSNR by method, at one noise scale."""
    usual = min(run.quality["sigma"].unique(), key=lambda sigma: abs(sigma - USUAL))
    for kind, part in groups(run.quality[run.quality["sigma"] == usual], "kind"):
        means = part.groupby("method", sort=False)["psnr"].mean()
        yield kind, usual, part["picture"].nunique(), {str(k): v for k, v in means.items()}


def photos_lines(run: PhotosRun) -> Iterator[HeadlineLine]:
    """Yield mean PSNR at one noise scale, ours beside the rivals', for each kind of pictures."""
    for kind, sigma, count, means in _means(run):
        rivals = [name for name in means if name != OURS]
        yield HeadlineLine(
            f"mean PSNR of {count} {kind} photographs under noise {sigma:g} of 255, dB",
            f"`PictureDenoiser`; {', '.join(rivals)}",
            formats.DASH,
            "; ".join(f"{means[name]:.2f}" for name in (OURS, *rivals)),
        )


def photos_findings(run: PhotosRun) -> Iterator[Finding]:
    """Yield mean PSNR at one noise scale, ours beside that of the best rival."""
    for kind, sigma, count, means in _means(run):
        own = means.pop(OURS)
        best = max(means, key=lambda name: means[name])
        yield Finding(
            f"Mean peak signal-to-noise ratio of {count} {kind} photographs that the denoiser has "
            f"not seen, under noise {sigma:g} of 255.",
            f"{own:.1f} dB",
            f"{means[best]:.1f} dB by {best}",
        )
