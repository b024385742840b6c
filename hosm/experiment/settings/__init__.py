"""Settings: params.yaml read into validated models that cannot change."""

from hosm.experiment.settings.accuracy import ALONE, CELL, AccuracyParams, SweepParams
from hosm.experiment.settings.cost import ScalingParams, SpeedParams
from hosm.experiment.settings.diffusion import DiffusionParams
from hosm.experiment.settings.images import (
    ClassifierParams,
    DiversityParams,
    ScalesParams,
    UncertaintyParams,
)
from hosm.experiment.settings.inverse import InverseParams
from hosm.experiment.settings.loading import Params, check_rank, load_params
from hosm.experiment.settings.machines_and_data import ClusterParams, PrepareParams
from hosm.experiment.settings.model import Backbone, ModelParams, Regime, SettingsError
from hosm.experiment.settings.photos import PhotosParams
from hosm.experiment.settings.planar import DenoisingParams, MixingParams, ReductionParams
from hosm.experiment.settings.tabular import TabularParams

__all__ = [
    "ALONE",
    "AccuracyParams",
    "Backbone",
    "CELL",
    "ClassifierParams",
    "ClusterParams",
    "DenoisingParams",
    "DiffusionParams",
    "DiversityParams",
    "MixingParams",
    "ModelParams",
    "Params",
    "InverseParams",
    "PhotosParams",
    "PrepareParams",
    "ReductionParams",
    "Regime",
    "ScalesParams",
    "ScalingParams",
    "SettingsError",
    "SpeedParams",
    "SweepParams",
    "TabularParams",
    "UncertaintyParams",
    "check_rank",
    "load_params",
]
