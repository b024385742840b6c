"""Chains of images: Stein's identities, the search for steps, curves, and the stages."""

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from hosm.distributions import FiniteData, Gaussian
from hosm.experiment.data.datasets import prepare, save
from hosm.experiment.diversity.study import chains as diversity
from hosm.experiment.diversity.study import samplers as chain_samplers
from hosm.experiment.diversity.study import step_search
from hosm.experiment.diversity.study import summary as diversity_summary
from hosm.experiment.diversity.study.methods import METHODS
from hosm.experiment.diversity.study.samplers import BLOCK, DenoiserScores, Sampler
from hosm.experiment.settings import DiversityParams, SettingsError, load_params
from hosm.experiment.shared.finished_parts import NOTHING_FINISHED, FinishedParts
from hosm.experiment.train.models import build_model, save_model
from hosm.noise import standard_normal
from pipeline import classifier as classifier_stage
from pipeline import diversity as diversity_stage
from tests.tolerances import FLOAT32, FLOAT64, monte_carlo

SIGMA, D, CLASSES = 0.5, 16, 4
DOUBLE = torch.float64
PARAMS = DiversityParams(
    sigma=SIGMA,
    noise_step=0.02,
    noise_iterations=20,
    step=0.03,
    chains=30,
    iterations=20,
    records=5,
    times=(0.015, 0.06, 0.25),
    bias_bound=0.1,
    bias_chains=150,
    bias_time=1.0,
    repeats=2,
    seed=0,
)


def scores_of(law):
    """Exact scores of a law of noisy points."""
    return DenoiserScores(law.score, lambda x: (law.score(x), law.hessian_diag(x)), SIGMA)


def patterns(scale=0.35):
    """One image for each class, near enough to the others that chains change."""
    generator = torch.Generator().manual_seed(3)
    return scale * torch.randn(CLASSES, D, generator=generator, dtype=DOUBLE)


class Nearest(torch.nn.Module):
    """A classifier that knows the images of the classes."""

    classes = CLASSES

    def probabilities(self, x):
        return (-torch.cdist(x, patterns()).square() / 0.02).softmax(1)


LAW = FiniteData(patterns()).smoothed(SIGMA)
SCORES = scores_of(LAW)
STARTS = patterns(), torch.arange(CLASSES)
COST = pd.DataFrame({"method": ["langevin", "ozaki", "fixed"], "seconds": [0.2, 0.21, 0.2]})
COST = COST.assign(ratio=COST["seconds"] / 0.2)


# Stein's identities ------------------------------------------------------------------------------


def parts_of(law, noisy, control):
    """The parts by the exact scores of exact draws, with a control."""
    m = noisy + SIGMA**2 * law.score(noisy)
    trace = D * SIGMA**2 + SIGMA**4 * law.hessian_diag(noisy).sum(1)
    noise = noisy - m
    energy = m.square().sum(1)
    columns = [noise.square().sum(1), (m * noise).sum(1), trace, energy, control, energy]
    return torch.stack(columns, 1)


def test_exact_draws_satisfy_both_identities_and_a_control_narrows_them():
    for law in (FiniteData(patterns()), SPREAD):
        clean = law.sample(20_000, torch.Generator().manual_seed(1))
        z = torch.randn(clean.shape, generator=torch.Generator().manual_seed(2), dtype=DOUBLE)
        noisy, smooth = clean + SIGMA * z, law.smoothed(SIGMA)
        useless = torch.randn(len(clean), generator=torch.Generator().manual_seed(3), dtype=DOUBLE)
        errors = []
        for control in (useless, (clean * SIGMA * z).sum(1)):
            parts = parts_of(smooth, noisy, control)
            found = step_search.ratios(parts, D * SIGMA**2)
            for name in ("noise", "image"):
                error = found[f"{name}_standard_error"]
                assert abs(found[f"{name}_ratio"] - 1) < 4 * error < 0.1, name
            errors.append(found["image_standard_error"])
        assert errors[1] < 0.97 * errors[0]


def covariance():
    """Of images that differ in two directions, and a little everywhere."""
    U = torch.randn(D, 2, generator=torch.Generator().manual_seed(2), dtype=DOUBLE)
    return U @ U.mT / 16 + 0.02 * torch.eye(D, dtype=DOUBLE)


SPREAD = Gaussian(torch.zeros(D, dtype=DOUBLE), covariance())


def stationary_ratios(method, t):
    """The ratios that the linear chain of a Gaussian has, from its dense Lyapunov equation."""
    eye = torch.eye(D, dtype=DOUBLE)
    P = torch.linalg.inv(covariance() + SIGMA**2 * eye)
    h = {"langevin": 0 * P.diagonal(), "ozaki": -P.diagonal(), "fixed": -eye.diagonal() / SIGMA**2}
    h = h[method]
    M, S = t * torch.ones(D, dtype=DOUBLE), 2 * t * torch.ones(D, dtype=DOUBLE)
    if method != "langevin":
        M, S = torch.expm1(t * h) / h, torch.expm1(2 * t * h) / h
    F = eye - M.diag() @ P
    big = torch.eye(D * D, dtype=DOUBLE) - torch.kron(F, F)
    V = torch.linalg.solve(big, S.diag().flatten()).view(D, D)
    A = eye - SIGMA**2 * P  # m = A x, C = sigma^2 A
    trace = SIGMA**2 * A.trace()
    noise = ((eye - A) @ V @ (eye - A)).trace() / (D * SIGMA**2 - trace)
    energy = (A @ V @ A).trace() / (A @ torch.linalg.inv(P) @ A).trace()
    return float(noise), float((A @ V @ (eye - A)).trace() / trace), float(energy)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("t", [0.03, 0.2])
def test_the_bias_of_a_chain_is_that_of_its_stationary_law(method, t):
    generator = torch.Generator().manual_seed(4)
    noisy = SPREAD.smoothed(SIGMA).sample(1000, generator)
    scores, length = scores_of(SPREAD.smoothed(SIGMA)), math.ceil(1.5 / t)
    parts = step_search.judged(scores, Sampler.at(method, t), noisy, length, generator)
    found = step_search.ratios(parts, D * SIGMA**2)
    control = parts[:, 4]
    assert abs(control.mean()) < monte_carlo(1000) * control.std()
    for name, expected in zip(step_search.PARTS, stationary_ratios(method, t), strict=True):
        error = found[f"{name}_standard_error"]
        assert error < 0.06
        assert abs(found[f"{name}_ratio"] - expected) < 4 * error, name


def test_each_sampler_errs_where_theory_says():
    """Langevin in the noise, by t / 2 sigma^2; the diagonal steps along the images' directions."""
    t = 0.05
    noise, image, energy = stationary_ratios("langevin", t)
    # the images' own .02 beside .25 of noise makes it 1 / (1 - t / .54), which is 1 % less
    assert noise == pytest.approx(1 / (1 - t / (2 * SIGMA**2)), rel=0.02)
    assert 1 < energy < image < noise
    for method, least in (("ozaki", 0.05), ("fixed", 0.07)):
        noise, image, energy = stationary_ratios(method, t)
        assert abs(noise - 1) < 0.02 < 1 - image < 1 - energy and 1 - energy > least
    assert stationary_ratios("ozaki", 50.0)[2] < 0.6


def test_a_chain_that_diverges_has_an_infinite_bias():
    scores = scores_of(LAW.to(torch.float32).tolerant())
    params = PARAMS.model_copy(update={"times": (5.0, 6.0), "bias_time": 2000.0})
    tried = step_search.search(scores, patterns().float(), params).set_index("method")
    assert tried.loc["langevin", "bias"] == math.inf  # and 6.0 was not tried
    assert tried.loc["langevin", "time"] == 5.0
    chosen = step_search.largest(tried.reset_index(), "langevin", 0.1)
    assert (chosen[0].time, chosen[1]) == (5.0, False)


def test_the_search_has_a_row_for_each_step_and_keeps_those_within_the_bound():
    clean = SPREAD.sample(2000, torch.Generator().manual_seed(5))
    params = PARAMS.model_copy(update={"bias_chains": 1500})
    tried = step_search.search(scores_of(SPREAD.smoothed(SIGMA)), clean, params)
    counts = tried["method"].value_counts().to_dict()
    assert counts == {"langevin": 3, "ozaki": 3, "fixed": 3, "draws": 1}
    draws = tried.iloc[0]
    assert abs(draws["image_ratio"] - 1) < 4 * draws["image_standard_error"] < 0.06
    assert draws["chains"] == 2000
    langevin = tried[tried["method"] == "langevin"].set_index("time")
    assert (langevin["step"] == 2 * langevin.index).all()
    assert langevin["noise_ratio"].is_monotonic_increasing
    assert langevin["iterations"].tolist() == [72, 24, 16]  # a time of 1 at least
    assert langevin["chains"].tolist() == [333, 1000, 1500]
    names = [f"{name}_ratio" for name in step_search.PARTS]
    expected = (langevin[names] / draws[names].astype(float) - 1).abs().max(axis=1)
    np.testing.assert_allclose(langevin["bias"], expected)
    chosen, within = step_search.largest(tried, "langevin", 0.1)
    assert within and chosen.step == 2 * langevin.index[langevin["bias"] <= 0.1].max()
    every = step_search.largest_of_each(tried, params)
    assert list(every) == [f"{name}, largest step" for name in METHODS.values()]


@pytest.mark.parametrize(
    ("biases", "expected"),
    [
        ((0.01, 0.05, 0.2), (0.2, True)),
        ((0.05, 0.2, 0.05), (0.4, True)),
        ((0.2, 0.15, 0.3), (0.2, False)),
        ((math.inf, math.inf, math.inf), (0.1, False)),
    ],
)
def test_the_largest_step_is_within_or_else_the_least_biased(biases, expected):
    tried = pd.DataFrame({"method": "ozaki", "time": (0.1, 0.2, 0.4), "bias": biases})
    sampler, within = step_search.largest(tried.iloc[::-1], "ozaki", 0.1)
    assert (sampler.time, within) == expected and sampler.clock == "paper"


# Samplers and their cost -------------------------------------------------------------------------


def test_clocks_are_those_of_the_samplers():
    equal = diversity.samplers_of(PARAMS)
    assert [sampler.time for sampler in equal.values()] == [0.015, 0.03, 0.015]
    assert {sampler.step for sampler in equal.values()} == {0.03}
    for method in METHODS:
        assert Sampler.at(method, 0.07).time == 0.07


def test_on_langevins_clock_ozaki_tends_to_langevin():
    """One step apart by O(eps^1.5) with the same noise; on the paper's clock by O(eps^.5)."""
    x, gaps = LAW.sample(50, torch.Generator().manual_seed(6)), {"langevin": [], "paper": []}
    for clock, found in gaps.items():
        for eps in (1e-3, 1e-4):
            ends = []
            for sampler in (Sampler("langevin", eps, "langevin"), Sampler("ozaki", eps, clock)):
                kernel = sampler.kernel(SCORES)
                generator = torch.Generator().manual_seed(7)
                ends.append(kernel.step(kernel.init(x), generator)[0].x)
            found.append(float((ends[0] - ends[1]).norm()))
    rates = {clock: math.log10(a / b) for clock, (a, b) in gaps.items()}
    # of the next order is a share of eps^(1/2), 3 % and 1 %: log10 1.02 = .009 of a rate
    assert list(rates.values()) == pytest.approx([1.5, 0.5], abs=0.02)


def test_the_fixed_curvature_forgets_all_but_the_image_in_a_long_step():
    """x' = m + sigma z as t grows, whatever the data."""
    kernel, x = Sampler.at("fixed", 100.0).kernel(SCORES), LAW.sample(3)
    moved = kernel.step(kernel.init(x), torch.Generator().manual_seed(8))[0].x
    z = torch.randn(x.shape, generator=torch.Generator().manual_seed(8), dtype=DOUBLE)
    torch.testing.assert_close(moved, SCORES.denoised(x, LAW.score(x)) + SIGMA * z)


def test_costs_are_ratios_to_langevin_of_the_same_round():
    x = LAW.sample(5, torch.Generator().manual_seed(0))
    cost = chain_samplers.costs(SCORES, SCORES.both, x, 3).set_index("method")
    assert list(cost.index) == ["langevin", "ozaki", "fixed", "whole"]
    assert (cost.loc["langevin", ["ratio", "ratio_low", "ratio_high"]] == 1).all()
    assert (cost["seconds"] > 0).all() and (cost["repeats"] == 3).all()
    assert (cost["ratio_low"] <= cost["ratio"]).all()
    assert (cost["ratio"] <= cost["ratio_high"]).all()


# Curves ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ((10, 0, 0, 0), 0.0),
        ((5, 5, 0, 0), math.log(2)),
        ((3, 3, 3, 3), math.log(4)),
        ((3, 1, 0, 0), 0.75 * math.log(4 / 3) + 0.25 * math.log(4)),
    ],
)
def test_entropy_of_known_counts(counts, expected):
    assert float(diversity.entropy(torch.tensor(counts).double())) == pytest.approx(expected)


def test_records_hold_both_ends_and_the_equal_time():
    assert diversity.records(PARAMS, 0.015)[-1] == 20
    assert {0, 1, 10, 20} <= set(diversity.records(PARAMS, 0.03))
    assert {0, 1, 5, 20} <= set(diversity.records(PARAMS, 0.06))
    assert diversity.records(PARAMS, 99.0)[:2] == [0, 1]
    short = PARAMS.model_copy(update={"iterations": 1})
    assert diversity.records(short, 0.015) == [0, 1]


def test_starts_are_the_first_of_each_class_that_is_recognised():
    images = patterns()[[1, 0, 2, 0, 1]]
    labels = torch.tensor([3, 0, 2, 0, 1])  # the first is none of class 3
    starts, own = diversity.starts_of(images, labels, Nearest())
    assert own.tolist() == [0, 1, 2]
    assert torch.equal(starts, images[[1, 4, 2]])
    with pytest.raises(ValueError, match="at least one test image right"):
        diversity.starts_of(images[:1], labels[:1], Nearest())


def test_accuracies_are_of_clean_and_of_denoised_images():
    images, labels = patterns().repeat(100, 1), torch.arange(CLASSES).repeat(100)
    found = diversity.accuracies(images, labels, Nearest(), SCORES, 0)
    assert found["clean_accuracy"] == 1 and found["denoised_images"] == 400
    z = torch.randn(images.shape, generator=torch.Generator().manual_seed(0), dtype=DOUBLE)
    noisy = images + SIGMA * z
    weights = FiniteData(patterns()).posterior_weights(noisy, SIGMA)
    nearest = (weights @ patterns()).unsqueeze(1).sub(patterns()).norm(dim=2).argmin(1)
    assert found["denoised_accuracy"] == float((nearest == labels).double().mean()) < 1


def curves(model=None, finished=NOTHING_FINISHED, **changes):
    params = PARAMS.model_copy(update=changes)
    chosen = diversity.samplers_of(params)
    return diversity.curves(chosen, STARTS, model or Nearest(), SCORES, COST, params, finished)


class Stopped(Nearest):
    """A classifier that is stopped after so many calls."""

    def __init__(self, calls):
        super().__init__()
        self.calls = calls

    def probabilities(self, x):
        if self.calls == 0:
            raise KeyboardInterrupt
        self.calls -= 1
        return super().probabilities(x)


def test_chains_that_are_stopped_go_on_with_the_blocks_that_are_missing(tmp_path):
    finished = FinishedParts(tmp_path, {"weights": "abc"})
    with pytest.raises(KeyboardInterrupt):
        curves(Stopped(20), finished)
    there = len(list(tmp_path.iterdir()))
    calls = Stopped(10**6)
    frame, arrays = curves(calls, finished)
    blocks = len(list(tmp_path.iterdir()))
    assert 0 < there < blocks == 3 * math.ceil(CLASSES * PARAMS.chains / BLOCK)
    assert (10**6 - calls.calls) / frame["iterations"].nunique() < blocks  # the rest alone
    again, same = curves(Stopped(0), finished)  # from what is kept, without a single call
    alone, apart = curves()
    for other, pictures in ((again, same), (alone, apart)):
        pd.testing.assert_frame_equal(frame, other)
        assert all(np.array_equal(arrays[name], pictures[name]) for name in arrays)


@pytest.mark.parametrize("chains", [7, 12, 73])
def test_pictures_are_those_of_the_first_chains_of_their_start(chains):
    """Whatever block they are in: the last images of chains that all stand still."""
    frame, arrays = curves(step=1e-14, iterations=1, chains=chains)
    count = min(12, chains)
    assert arrays["chains|Langevin"].shape == (2, count, D)
    generator = torch.Generator().manual_seed(PARAMS.seed + 2)
    clean = patterns().repeat_interleave(chains, 0)
    noisy = clean + SIGMA * standard_normal(clean, generator)
    m = SCORES.denoised(noisy, LAW.score(noisy)).view(CLASSES, chains, D)[[1, 3], :count]
    np.testing.assert_allclose(arrays["chains|Langevin"], m, **FLOAT32)
    labels = Nearest().probabilities(m.flatten(0, 1)).argmax(1).view(2, count)
    assert arrays["labels|Langevin"].tolist() == labels.tolist()


def test_chains_that_cannot_move_stay_at_the_baseline():
    frame, arrays = curves(step=1e-14)
    changed = frame.pivot_table(index=["sampler", "start"], columns="iterations", values="changed")
    moved = changed.sub(changed[0], axis=0).abs()  # not every sampler is recorded everywhere
    assert moved.max().max() == 0 and moved[20].notna().all()
    assert 0 < changed[0].mean() < 0.5  # what noise and denoising alone change
    assert arrays["chains|Ozaki"].shape == (2, 12, D) and arrays["labels|Ozaki"].shape == (2, 12)
    assert arrays["own"].tolist() == [1, 3]
    assert np.array_equal(arrays["starts"], patterns()[[1, 3]].numpy())


def test_chains_reach_the_classes_of_the_law_in_the_long_run():
    """Four patterns of equal weight: three of four chains change, and the entropy is log 4."""
    frame, _ = curves(step=0.2, iterations=60, chains=200)
    base, end = (frame[frame["iterations"] == t] for t in (0, 60))
    assert base.groupby("sampler")["changed"].mean().nunique() == 1  # the same noisy starts
    exact = diversity.accuracies(*long_run(), Nearest(), SCORES, 0)["clean_accuracy"]
    spread = (exact * (1 - exact)) ** 0.5
    for _, part in end.groupby("sampler"):
        assert part["changed"].mean() == pytest.approx(1 - exact, abs=monte_carlo(800, spread))
        # 200 chains in four classes: 3 / 400 less on average, and .006 from start to start
        assert part["entropy"].mean() == pytest.approx(math.log(4), abs=0.04)
        assert (part["classes"] == 4).all() and part["confidence"].between(0.3, 1).all()
    langevin = end[end["sampler"] == "Langevin"]
    assert langevin["time"].iloc[0] == pytest.approx(60 * 0.1)
    assert langevin["seconds"].iloc[0] == pytest.approx(60 * 0.2)


def long_run():
    """Denoised exact draws with labels that are drawn apart from them."""
    noisy = LAW.sample(4000, torch.Generator().manual_seed(9))
    labels = torch.arange(CLASSES).repeat(1000)
    return SCORES.denoised(noisy, LAW.score(noisy)), labels


def test_chains_do_not_depend_on_who_runs_beside_them(monkeypatch):
    monkeypatch.setattr("hosm.experiment.diversity.study.chains.BLOCK", 7)
    x0, wanted = LAW.sample(14, torch.Generator().manual_seed(0)), [0, 2, 3]
    sampler, shown = Sampler.at("ozaki", 0.1), range(14)
    both = diversity.run_chains(sampler, x0, wanted, Nearest(), SCORES, 5, shown)
    alone = diversity.run_chains(sampler, x0[:7], wanted, Nearest(), SCORES, 5, shown)
    assert both.labels.shape == (3, 14) and both.last.shape == (14, D)
    assert torch.equal(both.labels[:, :7], alone.labels)
    assert torch.equal(both.last[:7], alone.last)
    assert not torch.equal(both.last[7:], both.last[:7])


def test_chains_from_noise_become_images():
    arrays = diversity.from_noise(
        SCORES, patterns(), PARAMS.model_copy(update={"noise_step": 0.2})
    )
    wanted, found = arrays["noise_iterations"], arrays["noise|Ozaki"]
    assert wanted[0] == 0 and wanted[-1] == 20 and found.shape == (len(wanted), 3, D)
    assert np.array_equal(found[0], arrays["noise|Langevin"][0])
    hull = np.abs(patterns().numpy()).max()
    # a denoised point is a mean of patterns
    assert np.abs(found).max() <= hull + FLOAT64["atol"]


def test_the_summary_pairs_starts_and_matches_times():
    frame, _ = curves()
    tried = pd.DataFrame(
        [("langevin", 0.015, 1.03, 1.0, 1.0, 0.03), ("ozaki", 0.03, 1.0, 0.94, 0.99, 0.06)],
        columns=["method", "time", "noise_ratio", "image_ratio", "energy_ratio", "bias"],
    )
    summary = diversity_summary.summarised(frame, tried, COST, PARAMS).set_index("sampler")
    assert list(summary.index) == list(diversity.samplers_of(PARAMS))
    assert summary["equal_time_iterations"].tolist() == [20, 10, 20]
    wide = frame[frame["iterations"] == 20].pivot_table(
        index="start", columns="sampler", values="changed"
    )
    gain = wide["Ozaki"] - wide["Langevin"]
    assert summary.loc["Ozaki", "gain"] == pytest.approx(gain.mean())
    assert summary.loc["Ozaki", "gain_standard_error"] == pytest.approx(gain.std() / 2)
    assert summary.loc["Langevin", "gain"] == 0
    assert summary.loc["Ozaki", "changed"] == pytest.approx(wide["Ozaki"].mean())
    assert summary.loc["Ozaki", "changed_standard_error"] == pytest.approx(wide["Ozaki"].std() / 2)
    assert summary.loc["Ozaki", "bias"] == 0.06 and summary.loc["Langevin", "bias"] == 0.03
    assert math.isnan(summary.loc["Ozaki, Langevin's clock", "bias"])  # t = .015 was not tried
    numbers = diversity_summary.headline(summary.reset_index(), {"clean_accuracy": 0.9})
    assert numbers["clean_accuracy"] == 0.9 and numbers["Ozaki.step"] == 0.03
    assert numbers["Ozaki.iteration_ratio"] == pytest.approx(1.05)


# Settings and stages -----------------------------------------------------------------------------


def settings(tmp_path, **changes):
    raw = yaml.safe_load((Path(__file__).parents[3] / "params.yaml").read_text())
    raw["train"]["digits8"] = {
        **raw["train"]["mnist5k"],
        "backbone": {"kind": "unet", "channels": [8, 8, 8], "head": 8, "shared": True},
    }
    raw["train"]["denoisers"]["datasets"].append("digits8")
    raw |= {"profile": "smoke", "images": ["digits8"]}
    raw["diversity"] |= changes
    (tmp_path / "params.yaml").write_text(
        yaml.safe_dump(json.loads(json.dumps(raw)))
    )  # no aliases
    return tmp_path / "params.yaml"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"sigma": 2.0}, r"diversity must lie in .*, got 2.0"),
        ({"bias_bound": 1.0}, "bias_bound must be below 1.0, got 1.0"),
        ({"times": []}, "diversity.times"),
        ({"chains": 1}, "diversity.chains must be at least 2, got 1"),
        ({"chians": 3}, "unknown key diversity.chians"),
    ],
)
def test_settings_that_are_not_legal_end_in_one_line(tmp_path, changes, message):
    with pytest.raises(SettingsError, match=message) as caught:
        load_params(settings(tmp_path, **changes))
    assert "\n" not in str(caught.value)


def test_the_stages_run_from_data_to_results(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "off")
    params = load_params(settings(tmp_path))
    for module in (classifier_stage, diversity_stage):
        monkeypatch.setattr(module, "PROJECT", tmp_path)
    monkeypatch.setattr("hosm.experiment.run.stage.PROJECT", tmp_path)
    data = prepare("digits8", train_points=100, validation_points=20, test_points=30, seed=0)
    save(data, tmp_path / "data" / "prepared" / "digits8")
    spec, std = params.trained("digits8"), data.card["std"]
    weights = build_model(spec, [1, 8, 8], std).state_dict()
    save_model(weights, spec, [1, 8, 8], std, tmp_path / "data" / "models" / "digits8")
    classifier_stage.classifier("digits8")
    diversity_stage.diversity("digits8")
    metrics = tmp_path / "reports" / "metrics"
    accuracy = json.loads((metrics / "classifier-digits8.json").read_text())
    assert 0 <= accuracy["test_accuracy"] <= 1 and accuracy["test_images"] == 30
    numbers = json.loads((metrics / "diversity-digits8.json").read_text())
    assert numbers["clean_accuracy"] == pytest.approx(accuracy["test_accuracy"])
    folder = tmp_path / "data" / "results" / "diversity" / "digits8"
    summary = pd.read_csv(folder / "summary.csv")
    assert len(summary) == 6 and summary["changed"].between(0, 1).all()
    assert set(pd.read_csv(folder / "search.csv")["method"]) == {"draws", *METHODS}
    card = json.loads((folder / "card.json").read_text())
    assert card["made"]["profile"] == "smoke" and card["shape"] == [1, 8, 8]
