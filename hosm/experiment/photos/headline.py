"""The headline numbers of the denoiser of photographs."""

from collections.abc import Iterator

from hosm.experiment.photos.results import OURS, PhotosRun
from hosm.experiment.presenting.headline import Finding
from hosm.experiment.shared.rows import groups

__all__ = ["photos_findings", "photos_sentence"]

USUAL = 25.0  # noise scale, of 255


def _means(run: PhotosRun) -> Iterator[tuple[str, float, int, dict[str, float]]]:
    """Yield kind, noise scale, number of pictures, and mean PSNR by method, at one noise scale."""
    usual = min(run.quality["sigma"].unique(), key=lambda sigma: abs(sigma - USUAL))
    for kind, part in groups(run.quality[run.quality["sigma"] == usual], "kind"):
        means = part.groupby("method", sort=False)["psnr"].mean()
        yield kind, usual, part["picture"].nunique(), {str(k): v for k, v in means.items()}


def photos_sentence(run: PhotosRun) -> str:
    """Return mean PSNR at one noise scale, ours beside that of the best rival, in a sentence."""
    parts = []
    for kind, sigma, count, means in _means(run):
        own = means.pop(OURS)
        best = max(means, key=lambda name: means[name])
        rival = f"{best}: {means[best]:.1f} dB"
        place = f"{count} {kind} photographs under noise of {sigma:g} of 255 levels"
        parts.append(f"{own:.1f} dB ({rival}) on {place}")
    return (
        "The denoiser of photographs reaches a peak signal-to-noise ratio, of which more is "
        f"better, of {' and '.join(parts)}, none of which it has seen."
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
