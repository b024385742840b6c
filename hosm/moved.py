"""Old import paths, kept for one release: a line for each documented module that moved.

`import hosm.energies` still works, and warns with the new path; names that changed are there under
the old name too. Version 0.2 removes this file.
"""

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType

__all__ = ["MOVED", "RENAMED"]

MOVED = {
    "hosm.batches": "hosm.training.keyed_batches",
    "hosm.calibration": "hosm.uncertainty.calibration",
    "hosm.chains": "hosm.samplers.chains",
    "hosm.checkpoints": "hosm.training.checkpoints",
    "hosm.conventions": "hosm.estimator",
    "hosm.eigen": "hosm.operators.spectra",
    "hosm.energies": "hosm.distributions.named_laws",
    "hosm.ess": "hosm.metrics",
    "hosm.experiment.datasets": "hosm.experiment.data.datasets",
    "hosm.experiment.exchange": "hosm.experiment.run.exchange",
    "hosm.experiment.models": "hosm.experiment.train.models",
    "hosm.experiment.submit": "hosm.experiment.cluster.submit",
    "hosm.files": "hosm.io",
    "hosm.finite_data": "hosm.distributions.finite_data",
    "hosm.fitted": "hosm.estimator.score_estimator",
    "hosm.frozen": "hosm.estimator.frozen_denoiser",
    "hosm.heads": "hosm.training.modules",
    "hosm.high_order": "hosm.objectives.high_order",
    "hosm.implicit": "hosm.estimator.implicit_score_matching",
    "hosm.joint": "hosm.training.modules",
    "hosm.lanczos": "hosm.operators.spectra",
    "hosm.laws": "hosm.distributions.base",
    "hosm.novelty": "hosm.estimator.out_of_distribution",
    "hosm.patches": "hosm.io.patches",
    "hosm.products": "hosm.operators.differentiable_products",
    "hosm.proposals": "hosm.samplers.metropolis",
    "hosm.recipes": "hosm.estimator.recipe",
    "hosm.settings": "hosm.training.settings",
    "hosm.targets": "hosm.objectives.targets",
    "hosm.tensors": "hosm.operators.diagonal_plus_cp",
    "hosm.unet": "hosm.networks.unet",
    "hosm.writing": "hosm.io",
}
RENAMED = {  # old path -> old name -> new name, of what such a module exported
    "hosm.files": {"Rows": "Table", "check_place": "check_output"},
    "hosm.fitted": {"Fitted": "ScoreEstimator"},
    "hosm.novelty": {
        "Novelty": "OutOfDistributionScores",
        "novelty": "out_of_distribution_scores",
    },
    "hosm.patches": {
        "cut": "cut_patches",
        "drawn": "random_patches",
        "places": "patch_corners",
    },
}


class _Alias(Loader):
    """Loads the module at its new path under its old name."""

    def __init__(self, new: str) -> None:
        self.new = new

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the module itself, so that old and new names are one object."""
        warnings.warn(f"{spec.name} is now {self.new}", FutureWarning, stacklevel=2)
        module = importlib.import_module(self.new)
        self.spec = module.__spec__
        for old, new in RENAMED.get(spec.name, {}).items():
            setattr(module, old, getattr(module, new))
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Give the module its own spec back: it has been executed under its new name."""
        module.__spec__ = self.spec

    def get_code(self, name: str) -> CodeType | None:
        """Return the code that `python -m` with the old name runs."""
        spec = importlib.util.find_spec(self.new)
        return spec.loader.get_code(self.new) if spec and spec.loader else None  # type: ignore[attr-defined]


class _Finder(MetaPathFinder):
    """Finds the modules that moved, once nothing else has found them."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return how to load a module that moved, or None for any other name."""
        return ModuleSpec(name, _Alias(MOVED[name])) if name in MOVED else None


if not any(type(finder).__name__ == "_Finder" for finder in sys.meta_path):
    sys.meta_path.append(_Finder())
