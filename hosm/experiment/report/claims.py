"""Every claim about second-order scores that this run can judge, from the folders of the studies.

Claims marked `paper` are those of Meng, Song, Li and Ermon (NeurIPS 2021), and decide the entries
of `paper.yaml`; the others are the project's own, what a user would rely on. Accuracy is judged by
the whole of table 1, at the paper's sizes and over several seeds: one seed of this run decides
nothing.
"""

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
from hosm.experiment.reduction.claims import reduction_claims
from hosm.experiment.report.results import Results
from hosm.experiment.tabular.claims import tabular_claims
from hosm.experiment.uncertainty.claims import uncertainty_claims

__all__ = ["claims"]


def claims(results: Results) -> list[Claim]:
    """Return every claim with the numbers of a run.

    Args:
        results: what the stages measured.
    """
    return [
        *accuracy_claims(results.accuracy.whole.table1),
        *first_order_claims(results.accuracy.trials),
        *reduction_claims(results.reduction.longest.curves),
        *speed_claims(results.cost.speed),
        *cost_claims(results.cost.training, results.cost.slopes, results.cost.growth),
        *sampling_claims(results.mixing.longest),
        *denoising_claims(results.denoising.posteriors),
        *uncertainty_claims(results.denoisers),
        *diversity_claims(results.diversity),
        *tabular_claims(results.tabular.longest),
        *photos_claims(results.photos.longest),
        *diffusion_claims(results.diffusion.longest),
        *inverse_claims(results.inverse.longest),
        *dimension_claims(results.dimension),
    ]
