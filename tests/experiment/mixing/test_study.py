"""The mixing study: one search for all samplers, bounds on bias, known laws of convergence."""

import math

import pytest
import torch

from hosm.experiment.data.datasets import law
from hosm.experiment.mixing.study import convergence, iteration_cost
from hosm.experiment.mixing.study import samplers as methods
from hosm.experiment.mixing.study import tuning as mixing
from hosm.experiment.mixing.study.draws_quality import bias, within
from hosm.experiment.run.machine_load import Load
from hosm.experiment.settings import MixingParams
from hosm.experiment.shared.stopwatch import Times
from tests.tolerances import monte_carlo

SETTINGS = {
    "chains": 8,
    "runs": 2,
    "burn_in": 5,
    "steps": 40,
    "paper_steps": 60,
    "tuning_chains": 4,
    "tuning_steps": 20,
    "drift_chains": 50,
    "drift_iterations": 10,
    "step_sizes": (0.05, 20.0),
    "guards": ("none", "floor", "abs", "langevin"),
    "tries": 4,
    "bias_bound": 0.5,
    "variance_bound": 2.0,
    "floor": 0.1,
    "equal_step": 0.01,
    "repeats": 2,
    "timed_iterations": 3,
    "compiled": (),
    "bias_chains": 200,
    "picture_chains": 40,
    "longest": 60,
    "seed": 0,
}
PARAMS = MixingParams(**SETTINGS)
ROW = {"target": "ring6", "ess_bulk": 45.0, "draws": 40}  # of iteration_cost


def with_settings(**changes):
    return MixingParams(**{**SETTINGS, **changes})


def row(step_size, kolmogorov, ess_bulk, variance_ratio=1.0):
    return {
        "step_size": step_size,
        "kolmogorov": kolmogorov,
        "ess_bulk": ess_bulk,
        "variance_ratio": variance_ratio,
    }


def test_tuning_takes_the_most_samples_within_both_bounds():
    tried = [row(1.0, 0.05, 10), row(2.0, 0.07, 30), row(3.0, 0.05, 500, 1.3)]
    tried += [row(2.5, 0.09, 800), row(4.0, 0.3, 900)]  # within the margin, and beyond

    def best(**bounds):
        params = with_settings(**bounds)
        judged = [
            {**each, "sure": within(each, params.bias_bound, params.variance_bound, mixing.MARGIN)}
            for each in tried
        ]
        found, sound = mixing._best(judged)
        return found["step_size"], sound

    assert best(bias_bound=0.1, variance_bound=1.25) == (2.0, True)
    assert best(bias_bound=0.1, variance_bound=1.5) == (3.0, True)
    assert best(bias_bound=0.01, variance_bound=1.25) == (1.0, False)


@pytest.mark.parametrize(
    ("ratio", "sound"), [(1.24, True), (1.26, False), (1 / 1.24, True), (1 / 1.26, False)]
)
def test_the_variance_bound_holds_either_way(ratio, sound):
    assert within(row(1.0, 0.0, 1.0, ratio), 0.1, 1.25) == sound


@pytest.mark.parametrize("ratio", [math.nan, 0.0, math.inf])
def test_a_variance_that_is_no_number_is_beyond_the_bound(ratio):
    assert not within(row(1.0, 0.0, 1.0, ratio), 0.5, 2.0)


def test_bias_sees_a_blob_and_modes_of_double_variance():
    exact = law("ring6")
    draw = torch.Generator().manual_seed(0)
    reference, fresh = exact.sample(20_000, draw), exact.sample(20_000, draw)
    blob = exact.mean + exact.variance.sqrt() * torch.randn(20_000, 2, generator=draw)
    nearest = exact.means[torch.cdist(fresh, exact.means).argmin(1)]
    wide = nearest + math.sqrt(2) * (fresh - nearest)
    assert bias(fresh, exact, reference)["kolmogorov"] < 0.02
    two = monte_carlo(20_000 / 2, 2**0.5)  # of the variances of two samples
    assert bias(fresh, exact, reference)["variance_ratio"] == pytest.approx(1, rel=two)  # as said
    assert bias(blob, exact, reference)["kolmogorov"] > 0.2
    assert bias(wide, exact, reference)["variance_ratio"] > 1.7
    assert bias(fresh * float("nan"), exact, reference)["kolmogorov"] == 1.0


def test_the_bias_of_a_step_is_known_even_where_chains_never_cross():
    """Langevin on modes of variance v, far apart, has the variance v / (1 - eps / 4v) in each."""
    params = with_settings(drift_chains=4000, drift_iterations=100)
    exact, scores = law("mog2"), methods.exact_scores("mog2")
    reference = exact.sample(20_000, torch.Generator().manual_seed(1))
    sizes = torch.tensor([0.01, 0.2, 0.5])
    at = mixing.kernel_of(scores, "langevin", params)
    found = mixing._drifts(at, sizes, exact, reference, params)
    ratios = [each["variance_ratio"] for each in found]
    least = 1 / (1 / 4000 + 1 / 20_000)  # the ten points of a chain may say the same
    sampling = monte_carlo(least, 2**0.5)
    exactly = [1 / (1 - eps) for eps in sizes.tolist()]  # 4 v = 1
    assert ratios == pytest.approx(exactly, rel=sampling)  # as said
    adjusted = mixing.kernel_of(scores, "mala", params)
    for each in mixing._drifts(adjusted, sizes, exact, reference, params):
        assert each["variance_ratio"] == pytest.approx(1, rel=sampling)  # as above
        assert each["within_bound"]


def test_a_bias_is_told_by_ten_draws_of_the_second_half_of_each_chain(monkeypatch):
    seen = {}

    def sample_chain(kernel, start, steps, burn_in, generator, *, thin, diverged):
        seen.update(steps=steps, burn_in=burn_in, thin=thin)
        return start.unsqueeze(1).expand(-1, steps, -1)

    monkeypatch.setattr(mixing.samplers, "sample_chain", sample_chain)
    exact, scores = law("mog2"), methods.exact_scores("mog2")
    reference = exact.sample(1000, torch.Generator().manual_seed(1))
    for iterations, expected in {200: (10, 100, 10), 8: (4, 4, 1)}.items():
        params = with_settings(drift_iterations=iterations)
        at = mixing.kernel_of(scores, "langevin", params)
        mixing._drifts(at, torch.tensor([0.1]), exact, reference, params)
        assert tuple(seen.values()) == expected


def test_the_search_nears_the_step_of_the_known_optimum():
    """MALA on N(0, I) in the plane has its most effective samples at eps about 2.6 to 3.6."""
    params = with_settings(
        tuning_chains=32,
        tuning_steps=400,
        burn_in=50,
        tries=8,
        drift_chains=2000,
    )
    scores, exact = methods.exact_scores("gaussian2"), law("gaussian2")
    reference = exact.sample(20_000, torch.Generator().manual_seed(1))
    tried, best, sound = mixing._search(scores, "mala", exact, reference, params)
    assert sound and len(tried) == 12
    assert [each["step_size"] for each in tried] == sorted(each["step_size"] for each in tried)
    assert 1.8 < best < 4.5
    spacing = math.log(params.step_sizes[1] / params.step_sizes[0]) / 7
    near = [each for each in tried if abs(math.log(each["step_size"] / best)) < spacing]
    assert len(near) >= 4  # the second pass closes in


def test_study_tunes_every_method_and_runs_the_papers_steps():
    scores = methods.exact_scores("ring6")
    found = mixing.study("ring6", scores, PARAMS)
    tuned = [each["method"] for each in found.final if each["setting"] == "tuned"]
    assert tuned == [*methods.METHODS, *methods.ADJUSTED]
    paper = {each["method"]: each for each in found.final if each["setting"] == "paper's step"}
    assert {name: each["step_size"] for name, each in paper.items()} == mixing.PAPER_STEPS["ring6"]
    assert paper["langevin"]["paper_ess"] == 21.81 and paper["ozaki none"]["paper_ess"] == 28.89
    assert len(found.tuning) == len(tuned) * (4 + 2)
    assert all(each["draws"] == 60 for each in paper.values())
    assert set(found.draws) == {*tuned, "exact draws"}
    assert all("ess_bulk_standard_error" in each for each in found.final)  # over the runs
    for each in found.final:
        adjusted = each["method"] in methods.ADJUSTED
        assert (each["acceptance"] == 1.0) == (not adjusted), each["method"]


def test_each_form_is_timed_and_counts_at_the_faster_of_its_two_times(monkeypatch):
    times, seen = {}, []
    names = ["langevin", "ozaki floor", "ozaki abs", "ozaki full", "mala", "ozaki adjusted"]

    def timed(works, repeats, device, shortest):
        seen.extend(works)
        loads = [Load(0.3, 0.0)] * 3
        spread = (3, 1, 0.5)
        return {key: Times([each * times[key] for each in spread], loads) for key in works}

    monkeypatch.setattr(iteration_cost, "timed_in_turn", timed)
    for key, seconds in {("langevin", False): 6.0, ("langevin", True): 3.0}.items():
        times[key] = seconds
    times |= {("ozaki floor", False): 9.0, ("ozaki floor", True): 12.0, ("mala", False): 15.0}
    times |= {("ozaki full", False): 15.0, ("mala", True): 6.0}
    times |= {("ozaki adjusted", False): 21.0}
    rows = [{"method": name, **ROW} for name in names]
    scores, params = methods.exact_scores("ring6"), with_settings(compiled=("ring6",))
    iteration_cost.timed(rows, scores, params)
    assert set(seen) == set(times)  # guards of one form share a time
    per_iteration = [row["seconds_per_iteration"] for row in rows]
    assert per_iteration == [1.0, 3.0, 3.0, 5.0, 2.0, 7.0]  # of three iterations
    assert math.isnan(rows[-1]["seconds_compiled"]) and rows[2]["seconds_compiled"] == 4.0
    assert all(row["others"] == 0.3 for row in rows)
    assert rows[0]["ess_bulk_per_second"] == pytest.approx(45.0 / (params.steps + params.burn_in))


def test_times_are_of_real_chains():
    rows = [{"method": name, **ROW} for name in methods.METHODS]
    other = with_settings(compiled=("ring8",))
    iteration_cost.timed(rows, methods.exact_scores("ring6"), other)
    for row in rows:
        assert 0 < row["seconds_per_iteration"] == row["seconds_eager"] < 0.1
        assert math.isnan(row["seconds_compiled"])


def test_learned_scores_are_not_adjusted_and_have_no_dense_form():
    scores = methods.TargetScores("learned", torch.neg, lambda x: (-x, -torch.ones_like(x)))
    every = [name for name in methods.METHODS if name != "ozaki full"]
    assert scores.methods(PARAMS.guards) == every


def test_guards_that_are_not_wanted_are_not_tuned():
    left = methods.exact_scores("ring6").methods(("none", "floor"))
    every = [*methods.METHODS, *methods.ADJUSTED]
    assert left == [name for name in every if name not in ("ozaki abs", "ozaki langevin")]
    with pytest.raises(ValueError, match="guards must contain none and floor, .*, got floor, abs"):
        with_settings(guards=("floor", "abs"))


@pytest.mark.parametrize(
    ("distances", "expected"),
    [([0.3, 0.2, 0.05, 0.04], 3), ([0.05, 0.3, 0.05], 3), ([0.05], 1), ([0.05, 0.3], math.nan)],
)
def test_iterations_to_the_bound_are_those_after_which_it_is_kept(distances, expected):
    curve = [{"iterations": i + 1, "kolmogorov": d} for i, d in enumerate(distances)]
    found = mixing._iterations_to(curve, 0.1)
    assert found == expected or (math.isnan(expected) and math.isnan(found))


def test_equal_steps_on_equal_clocks_approach_alike_and_the_papers_clock_is_twice_as_fast():
    params = with_settings(picture_chains=4000, longest=400)
    rows, points = convergence.approach("two-modes", methods.exact_scores("two-modes"), params)
    curves = {name: {} for name in convergence.EQUAL}
    for each in rows:
        curves[each["method"]][each["iterations"]] = each["kolmogorov"]
    langevin, double, same = (curves[name] for name in convergence.EQUAL)
    for t in (50, 100, 200):
        assert abs(langevin[t] - same[t]) < 0.05  # both within noise of 4,000 chains
        assert double[t] < langevin[t] - 0.05 or langevin[t] < 0.1
    assert abs(double[100] - langevin[200]) < 0.05
    assert points["two-modes|langevin|0.01|400"].shape == (4000, 2)
    assert set(points) >= {f"two-modes|{name}|0.01|50" for name in convergence.EQUAL}


def test_the_equal_step_is_that_of_the_settings():
    params = with_settings(equal_step=0.03)
    rows, _ = convergence.approach("two-modes", methods.exact_scores("two-modes"), params)
    assert {each["step_size"] for each in rows} == {0.03}
    singles = convergence.single_chains("two-modes", methods.exact_scores("two-modes"), params)
    assert set(singles) == {f"two-modes|{name}|0.03|single" for name in convergence.EQUAL}


def test_pictures_keep_finite_points_and_say_how_many():
    rows, points = convergence.approach("ring6", methods.exact_scores("ring6"), PARAMS)
    share = {each["method"]: each["finite_share"] for each in rows}  # the last of each
    assert share["ozaki none"] < 1 and share["ozaki floor"] == 1
    assert all(bool(x.isfinite().all()) for x in points.values())
    lost = points["ring6|ozaki none|5|60"]
    assert len(lost) == round(share["ozaki none"] * 40)
    chains = convergence.single_chains("ring6", methods.exact_scores("ring6"), PARAMS)
    assert chains["ring6|ozaki floor|5|single"].shape == (30, 2)
    assert {key.split("|")[1] for key in chains} == {"ozaki none", "ozaki floor", "langevin"}


def test_pictures_of_a_network_hold_no_graph():
    """Or thousands of iterations would keep every one of their tensors."""
    weight = torch.ones((), requires_grad=True)
    curvature = lambda x: (-weight * x, -weight * torch.ones_like(x))  # noqa: E731
    scores = methods.TargetScores("learned", lambda x: -weight * x, curvature)
    _, points = convergence.approach("ring6", scores, PARAMS)
    assert not any(x.requires_grad for x in points.values())


def test_langevins_bias_is_linear_and_the_adjusted_chain_has_none():
    """On N(0, I) in the plane the energy's bias is (eps/4) / (1 - eps/4), exactly."""
    rows = convergence.step_size_bias("gaussian2", with_settings(bias_chains=20_000))
    by_method = {}
    for each in rows:
        by_method.setdefault(each["method"], []).append(each)
    for each in by_method["langevin"]:
        share = each["step_size"] / 4
        # the unit, D / E |s1|^2 = 1, is of 20,000 draws, whose |s1|^2 is exponential
        assert each["relative"] == pytest.approx(each["step_size"], rel=monte_carlo(20_000))
        assert abs(each["bias"] - share / (1 - share)) < 4 * each["standard_error"]
    for name, found in by_method.items():
        if name != "langevin":  # Ozaki is exact for a Gaussian
            assert all(abs(each["bias"]) < 4 * each["standard_error"] for each in found), name


def test_step_sizes_in_the_wrong_order_are_refused():
    with pytest.raises(ValueError, match=r"step_sizes must be .*, got \[5.0, 0.1\]"):
        with_settings(step_sizes=(5.0, 0.1))
