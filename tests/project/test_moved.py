"""Old import paths: each imports, warns, is the module at the new path, and has its old names."""

import importlib
import sys

import pytest

from hosm.moved import MOVED, RENAMED

EXPORTED = {  # what the documented modules exported before they moved, internals apart
    "hosm.batches": "Batch Points Shard batches keyed_batch",
    "hosm.calibration": "Reliability coverage direction_z_scores fitted_scale interval_coverage",
    "hosm.chains": "anneal sample_chain",
    "hosm.checkpoints": "load_checkpoint packed save_checkpoint unpacked",
    "hosm.conventions": "NotFittedError",
    "hosm.eigen": "Structured leading_eigenvectors",
    "hosm.energies": "Ring gaussian2 gaussian100 logistic_mixture mog2 mog6 ring6 two_modes",
    "hosm.ess": "ess_bulk ess_nice r_hat",
    "hosm.files": "Rows check_place is_pictures read_pages read_rows write",
    "hosm.finite_data": "FiniteData SmoothedData",
    "hosm.fitted": "Fitted",
    "hosm.frozen": "Denoiser FrozenDenoiser frozen_model learn_covariance spread",
    "hosm.heads": "HeadsObjective head_term",
    "hosm.high_order": "HighOrderModel HighOrderObjective order_k",
    "hosm.implicit": "implicit_loss",
    "hosm.joint": "JointObjective",
    "hosm.lanczos": "lanczos_function",
    "hosm.laws": "Law Mixture",
    "hosm.novelty": "ORDERS Novelty novelty score_features",
    "hosm.patches": "cut drawn places",
    "hosm.products": "Products factor_image factor_products",
    "hosm.proposals": "ChainInfo ChainState Kernel Noise compiled gaussian_kernel",
    "hosm.recipes": "Reshaped first_model gaussian_start learn_first learn_second with_head",
    "hosm.settings": "Settings",
    "hosm.targets": "dsm_value jacobian likelihood moment residual",
    "hosm.tensors": "DiagonalPlusCP",
    "hosm.unet": "UNet",
    "hosm.writing": "write_whole",
}


@pytest.fixture
def not_imported(monkeypatch):
    """Forget the old path, so that importing it is a first import."""

    def forget(old):
        monkeypatch.delitem(sys.modules, old, raising=False)
        return old

    return forget


@pytest.mark.parametrize("old", MOVED)
def test_an_old_path_warns_and_is_the_module_at_the_new_one(not_imported, old):
    with pytest.warns(FutureWarning, match=f"{old} is now {MOVED[old]}"):
        module = importlib.import_module(not_imported(old))
    assert module is importlib.import_module(MOVED[old])
    assert module.__spec__.name == MOVED[old]


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("old", EXPORTED)
def test_an_old_path_has_the_names_it_had(not_imported, old):
    module = importlib.import_module(not_imported(old))
    for name in EXPORTED[old].split():
        assert hasattr(module, name), name
    for name, new in RENAMED.get(old, {}).items():
        assert getattr(module, name) is getattr(module, new)


def test_every_library_module_that_moved_is_listed():
    assert {old for old in MOVED if not old.startswith("hosm.experiment")} == {*EXPORTED}
    assert {*RENAMED} <= {*MOVED}
