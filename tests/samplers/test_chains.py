"""Running chains: interrupted and resumed bit for bit, diverging ones named, annealed starts."""

import pytest
import torch

from hosm.distributions import GaussianMixture
from hosm.distributions import named_laws as energies
from hosm.operators import DiagonalPlusLowRank
from hosm.samplers import (
    FORMS,
    GUARDS,
    ChainInfo,
    anneal,
    langevin,
    ozaki,
    sample_chain,
)
from hosm.samplers.metropolis import ChainState, gaussian_kernel

LAW = energies.two_modes()
TARGETS = ("two_modes", "ring6", "ring8", "mog2", "mog6", "ring2d")
STEP_SIZES = torch.tensor([1e-6, 1e-3, 0.5, 30.0, 1e3])


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def both(x):
    return LAW.score(x), LAW.hessian(x)


KERNELS = {
    "langevin": langevin(LAW.score, 0.3),
    "mala": langevin(LAW.score, 0.8, LAW.log_prob),
    "ozaki": ozaki(both, 1.0),
    "full, adjusted": ozaki(both, 1.0, form="full", log_prob=LAW.log_prob),
}


class Stopped(Exception):
    """Stands for a kill: it leaves the run between two transitions."""


def stop_at(number):
    def progress(i, info):
        if i == number:
            raise Stopped

    return progress


@pytest.mark.parametrize("stop", [1, 7, 13, 20, 29])
@pytest.mark.parametrize("name", KERNELS)
def test_an_interrupted_chain_goes_on_bit_for_bit(name, stop, tmp_path):
    x0, file = LAW.sample(5, generator(1)), tmp_path / "folder" / "chain.safetensors"
    options = {"steps": 8, "burn_in": 5, "thin": 3}
    whole = sample_chain(KERNELS[name], x0, generator=generator(2), **options)
    options |= {"checkpoint": file, "checkpoint_every": 4}
    with pytest.raises(Stopped):
        sample_chain(KERNELS[name], x0, generator=generator(2), progress=stop_at(stop), **options)
    assert file.exists() == (stop > 4)
    seen = []
    resumed = (
        sample_chain(
            KERNELS[name],
            x0,
            generator=generator(99),  # the file's is taken
            progress=lambda i, info: seen.append(i),
            **options,
        )
        if stop > 4
        else whole
    )
    assert torch.equal(resumed, whole)
    assert seen[:1] == ([(stop - 1) // 4 * 4 + 1] if stop > 4 else [])
    assert [path.name for path in file.parent.glob("*")] == ([file.name] if stop > 4 else [])


def test_a_finished_run_is_read_and_not_run_again(tmp_path):
    calls = []

    def score(x):
        calls.append(1)
        return LAW.score(x)

    options = {"checkpoint": tmp_path / "chain.safetensors", "generator": generator()}
    first = sample_chain(langevin(score, 0.3), torch.zeros(3, 2), 10, **options)
    ended = len(calls)
    assert torch.equal(first, sample_chain(langevin(score, 0.3), torch.zeros(3, 2), 10, **options))
    assert len(calls) == ended + 1  # where it stands, not a transition


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 11}, "checkpoint must be a new file or one of the run"),
        ({"burn_in": 1}, "checkpoint must be a new file or one of the run"),
        ({"thin": 2}, "checkpoint must be a new file or one of the run"),
        ({"x0": torch.ones(3, 2)}, "checkpoint must be a new file or one of the run"),
        ({"x0": torch.zeros(3, 2).double()}, "checkpoint must be a new file or one of the run"),
        ({"generator": None}, "generator must be given"),
        ({"checkpoint_every": 0}, "checkpoint_every must be .*got 0"),
        ({"diverged": "drop"}, "diverged must be one of raise, keep, got 'drop'"),
    ],
)
def test_the_checkpoint_of_another_run_is_refused(changes, message, tmp_path):
    options = {"x0": torch.zeros(3, 2), "steps": 10, "checkpoint": tmp_path / "file"}
    kernel = langevin(torch.neg, 0.3)
    sample_chain(kernel, generator=generator(), **options)
    before = (tmp_path / "file").read_bytes()
    with pytest.raises(ValueError, match=message):
        sample_chain(kernel, **{"generator": generator(), **options, **changes})
    assert (tmp_path / "file").read_bytes() == before


@pytest.mark.parametrize("damage", [lambda b: b[:40], lambda b: b"", lambda b: b"{}" + b])
def test_a_damaged_checkpoint_is_refused(damage, tmp_path):
    file = tmp_path / "file"
    options = {"generator": generator(), "checkpoint": file}
    sample_chain(langevin(torch.neg, 0.3), torch.zeros(3, 2), 10, **options)
    file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(ValueError, match=r"checkpoint must be .*file, which is damaged"):
        sample_chain(langevin(torch.neg, 0.3), torch.zeros(3, 2), 10, **options)


def test_a_write_that_fails_leaves_the_checkpoint_before(tmp_path, monkeypatch):
    file, kernel = tmp_path / "file", langevin(torch.neg, 0.3)
    options = {"checkpoint": file, "checkpoint_every": 4}
    with pytest.raises(Stopped):
        sample_chain(kernel, torch.zeros(3, 2), 20, 0, generator(), progress=stop_at(6), **options)
    before = file.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        sample_chain(kernel, torch.zeros(3, 2), 20, 0, generator(), **options)
    assert file.read_bytes() == before and list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("at", [1, 64, 65, 200])
def test_a_chain_that_diverges_is_named_with_the_remedy(at):
    kernel = ozaki(lambda x: (-x, torch.ones_like(x)), 2.0, "none")._replace(
        step=lambda state, g: (count(state), ChainInfo(state.x))
    )
    points = torch.zeros(3, 2)

    def count(state):
        points.add_(1)
        x = points.clone()
        x[1] = torch.where(x[1] >= at, torch.nan, x[1])
        return state._replace(x=x)

    found = min(-(-at // 64) * 64, 200)
    message = (
        rf"1 of 3 chains diverged within {found} transitions.*guard 'floor' instead of 'none'"
    )
    with pytest.raises(FloatingPointError, match=message):
        sample_chain(kernel, torch.zeros(3, 2), 200)


@pytest.mark.parametrize("target", TARGETS)
def test_every_step_size_is_finite_or_names_the_guard(target):
    """Step sizes 1e-6 .. 1e3 in float32: finite draws, or an error that says what to do."""
    law = getattr(energies, target)().tolerant()
    models = {"diagonal": law.score_and_diagonal, "full": lambda x: (law.score(x), law.hessian(x))}
    x0, ended = 2 * torch.randn(8, 2, generator=generator(3)), {}
    for adjusted in (None, law.log_prob):
        for eps in STEP_SIZES.tolist():
            kernels = {"langevin": langevin(law.score, eps, adjusted)}
            for form, model in models.items():
                for guard in GUARDS:
                    options = {"form": form, "log_prob": adjusted}
                    kernels[f"{form} {guard}"] = ozaki(model, eps, guard, **options)
            for name, kernel in kernels.items():
                try:
                    draws = sample_chain(kernel, x0, 70, generator=generator(4))
                    assert bool(draws.isfinite().all()), (name, eps)
                except FloatingPointError as error:
                    ended[name, eps, adjusted is None] = str(error)
    assert all("take a smaller step size, or " in text for text in ended.values())
    assert all(unadjusted for _, _, unadjusted in ended)  # a proposal too far is rejected
    assert not [name for name, *_ in ended if "abs" in name or "floor" in name]
    for name in ("langevin", "diagonal none"):
        assert "'floor'" in ended[name, STEP_SIZES[-1].item(), True]


@pytest.mark.parametrize("curvature", [-torch.inf, torch.inf, torch.nan])
@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("form", FORMS)
def test_a_curvature_that_is_not_finite_makes_its_chain_diverge(form, guard, curvature):
    """And no other: phi(-inf, t) = 0 would leave the chain where it is, as if it had converged."""

    def model(x):
        h = torch.full_like(x, -1.0)
        h[0, 1] = curvature
        if form == "low-rank":
            return -x, DiagonalPlusLowRank(h, 0.1 * torch.ones(*x.shape, 1))
        return -x, torch.diag_embed(h) if form == "full" else h

    kernel, x0 = ozaki(model, 0.1, guard, form=form), torch.ones(3, 9)
    draws = sample_chain(kernel, x0, 70, generator=generator(0), diverged="keep")
    assert draws[:, -1].isfinite().all(-1).tolist() == [False, True, True]
    assert bool((draws[1:, -1] != 1).all())
    with pytest.raises(FloatingPointError, match="1 of 3 chains diverged"):
        sample_chain(kernel, x0, 70, generator=generator(0))


@pytest.mark.parametrize("far", ["singular", "infinite", "not a number", "dense"])
@pytest.mark.parametrize("ndim", [1, 2])
def test_proposals_without_a_density_are_rejected(far, ndim):
    """A spread that is singular, infinite or not a number far out: chains stay, and never fail."""

    def propose(x):
        away = (x.square().sum(1) > 1).reshape(-1, *[1] * ndim)
        bad = {"singular": 0.0, "infinite": torch.inf, "not a number": torch.nan, "dense": 1.0}
        near = torch.ones(len(x), 2) if ndim == 1 else torch.eye(2).repeat(len(x), 1, 1)
        return ChainState(x, -x, x, torch.where(away, torch.full_like(near, bad[far]), near))

    def log_prob(x):
        return -0.5 * x.square().sum(1) + (x.square().sum(1) > 1)

    kernel = gaussian_kernel(propose, log_prob)
    draws = sample_chain(kernel, torch.zeros(500, 2), 20, generator=generator(5))
    assert bool(draws.isfinite().all())
    if far == "dense" and ndim == 1:  # a proper spread of ones
        assert bool((draws.square().sum(-1) > 1).any())
    else:
        assert bool((draws.square().sum(-1) <= 1).all())
        at = kernel.init(torch.zeros(500, 2))
        noise = kernel.draw(at.x, generator(6))
        outside = (at.mean + noise.z).square().sum(1) > 1
        acceptance = kernel.advance(at, noise)[1].acceptance
        assert bool((acceptance[outside] == 0).all()) and bool((acceptance[~outside] > 0).all())
    assert draws.unique(dim=0).shape[0] > 400  # steps within are taken


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: anneal(lambda s: None, [], torch.zeros(1, 1), 5), "sigmas must be .*, got .]"),
        (lambda: anneal(lambda s: None, [1.0, 1.0], torch.zeros(1, 1), 5), "each below the last"),
        (
            lambda: anneal(lambda s: None, [1.0, -1.0], torch.zeros(1, 1), 5),
            "sigma must be .*got -1.0",
        ),
    ],
)
def test_bad_input_is_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_annealed_starts_find_modes_in_proportion_where_a_plain_start_does_not():
    """Of modes 10 apart with std .5 and weights .8 and .2, all from one point in the second."""
    means = torch.tensor([[-5.0, 0.0], [5.0, 0.0]])
    law = GaussianMixture(torch.tensor([0.8, 0.2]), means, 0.25 * torch.eye(2).repeat(2, 1, 1))
    x0, n = torch.tensor([[5.0, 0.0]]).repeat(2000, 1), 2000

    def kernel_at(sigma):
        return langevin(law.smoothed(sigma).score, 0.3 * (sigma**2 + 0.25))

    sigmas = [8.0, 5.0, 3.5, 2.5, 1.8, 1.2, 0.8, 0.5, 0.2]
    x = anneal(kernel_at, sigmas, x0, 60, generator(5))
    plain = sample_chain(langevin(law.score, 0.1), x0, 1, 9 * 60, generator(5))[:, 0]
    assert x.shape == x0.shape
    share = float((x[:, 0] < 0).double().mean())
    assert abs(share - 0.8) < 0.05  # modes that part early keep a little of the wider law's share
    assert float((plain[:, 0] < 0).double().mean()) < 0.01
    nearest = torch.cdist(x, means).min(1).values
    assert abs(float(nearest.square().mean()) / (2 * (0.25 + 0.04)) - 1) < 0.15
    assert abs(n - len(x)) == 0


def test_forms_and_guards_are_all_tried():
    assert FORMS == ("diagonal", "low-rank", "full") and len(GUARDS) == 4
