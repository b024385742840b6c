"""Every claim about second-order scores that this run can judge, from the folders of the studies.

Claims marked `paper` are those of Meng, Song, Li and Ermon (NeurIPS 2021), and decide the entries
of `paper.yaml`; the others are the project's own, what a user would rely on. Accuracy is judged by
the whole of table 1, at the paper's sizes and over several seeds: one seed of this run decides
nothing.
"""

from collections.abc import Iterable
from dataclasses import replace

from hosm.experiment.accuracy.claims import accuracy_claims, first_order_claims
from hosm.experiment.cost.claims import cost_claims, speed_claims
from hosm.experiment.denoising.claims import denoising_claims
from hosm.experiment.diffusion.claims import diffusion_claims
from hosm.experiment.dimension.claims import dimension_claims
from hosm.experiment.diversity.claims import diversity_claims
from hosm.experiment.inverse.claims import inverse_claims
from hosm.experiment.mixing.claims import sampling_claims
from hosm.experiment.photos.claims import photos_claims
from hosm.experiment.presenting.judge import Claim
from hosm.experiment.presenting.longer_runs import LONG_RUN, THIS_RUN, run_name
from hosm.experiment.reduction.claims import reduction_claims
from hosm.experiment.report.results import Results
from hosm.experiment.tabular.claims import tabular_claims
from hosm.experiment.uncertainty.claims import uncertainty_claims

__all__ = ["claims"]


def _by(run: str, judged: Iterable[Claim]) -> list[Claim]:
    """Return claims with the run that measured them."""
    return [replace(claim, run=run) for claim in judged]


def claims(results: Results) -> list[Claim]:
    """Return every claim with the numbers of the longest run of it, and which that is.

    Args:
        results: what the stages measured.
    """
    cost, mixing, photos = results.cost, results.mixing, results.photos
    tabular, steps, solved = results.tabular, results.diffusion, results.inverse
    images, chains = results.denoisers, results.diversity
    return [
        *_by(LONG_RUN, accuracy_claims(results.accuracy.whole.table1)),
        *_by(THIS_RUN, first_order_claims(results.accuracy.trials)),
        *_by(results.reduction.shown, reduction_claims(results.reduction.longest.curves)),
        *_by(THIS_RUN, speed_claims(cost.speed)),
        *_by(THIS_RUN, cost_claims(cost.training, cost.slopes, cost.growth)),
        *_by(mixing.shown, sampling_claims(mixing.longest)),
        *_by(THIS_RUN, denoising_claims(results.denoising.posteriors)),
        *(
            c
            for name in images
            for c in _by(run_name(name), uncertainty_claims({name: images[name]}))
        ),
        *(
            c
            for name in chains
            for c in _by(run_name(name), diversity_claims({name: chains[name]}))
        ),
        *_by(tabular.shown, tabular_claims(tabular.longest)),
        *_by(photos.shown, photos_claims(photos.longest)),
        *_by(steps.shown, diffusion_claims(steps.longest)),
        *_by(solved.shown, inverse_claims(solved.longest)),
        *_by(LONG_RUN, dimension_claims(results.dimension)),
    ]
