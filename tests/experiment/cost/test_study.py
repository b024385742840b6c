"""What is timed: the right works, against naive twins; how times become slopes and plans."""

import pandas as pd
import pytest
import torch

from hosm.experiment.cost.study import dimension as dimension_cost
from hosm.experiment.cost.study import second_order as timing
from hosm.experiment.cost.study import training as training_cost
from hosm.experiment.cost.study.communication import communication_plan, fit_link
from hosm.experiment.run.machine_load import Counters, Load
from hosm.experiment.run.process import keep_freed_memory
from hosm.experiment.settings import Backbone, SpeedParams
from hosm.experiment.shared import stopwatch
from hosm.experiment.train.models import build_model
from hosm.objectives import jacobian, moment
from hosm.operators import DiagonalPlusLowRank

CPU = torch.device("cpu")
A_MILLION = pytest.approx(4e6, rel=1e-3)  # bytes of float32, with a scalar or so beside them
SMALL = SpeedParams(
    batch=2,
    ranks=(3,),
    repeats=2,
    threads=1,
    loop_rows=2,
    compiled=False,
    dense=((5, 3),),
    images=((1, 8), (1, 12), (1, 16)),
    image_batch=1,
    image_ranks=(2, 3, 4),
)


# ---------------------------------------------------------------- the stopwatch


def test_works_are_timed_in_turn_and_warmed_up():
    calls = []
    works = {name: lambda name=name: calls.append(name) for name in "ab"}
    times = stopwatch.timed_in_turn(works, 3, CPU, shortest=0.0)
    assert calls == ["a", "a", "b", "b", *"ababab"]
    assert {name: len(each.seconds) for name, each in times.items()} == {"a": 3, "b": 3}
    assert all(value >= 0 for each in times.values() for value in each.seconds)


def test_a_short_work_fills_its_round():
    calls = []
    stopwatch.timed_in_turn({"a": lambda: calls.append(0)}, 1, CPU, shortest=1e-3)
    assert len(calls) > 20


def test_summary_is_median_and_range_and_tells_of_the_machine():
    loads = [Load(0.01, 0.0), Load(0.04, 0.02), Load(0.02, 0.0)]
    with stopwatch.threads(1):
        found = stopwatch.summary(stopwatch.Times([3.0, 1.0, 2.0], loads))
    measured = {"seconds": 2, "seconds_low": 1, "seconds_high": 3, "repeats": 3, "left_out": 0}
    assert measured.items() <= found.items()
    assert (found["others"], found["stolen"], found["threads"]) == (0.04, 0.02, 1)
    assert set(found) == {*measured, *stopwatch.CIRCUMSTANCES}
    assert "core" in found["machine"]


def test_disturbed_rounds_are_left_out_if_most_are_quiet_and_else_all_count():
    quiet, busy = Load(0.02, 0.0), Load(0.5, 0.0)
    some = stopwatch.summary(stopwatch.Times([1.0, 9.0, 2.0], [quiet, busy, quiet]))
    assert (some["seconds"], some["left_out"], some["others"]) == (1.5, 1, 0.02)
    most = stopwatch.summary(stopwatch.Times([1.0, 9.0, 8.0], [quiet, busy, busy]))
    assert (most["seconds"], most["left_out"], most["others"]) == (8.0, 0, 0.5)


def test_works_in_turn_share_the_load_of_their_round():
    """A second passes between two readings; in that of the second round others use a core."""
    used = iter([0.0, 0.1, 1.1, 1.2])
    clock = iter(range(4))

    def read():
        return Counters(next(clock), 2, next(used), 0.0, 0.0)

    works = {"a": lambda: None, "b": lambda: None}
    times = stopwatch.timed_in_turn(works, 3, CPU, shortest=0.0, read=read)
    for each in times.values():
        assert [load.busy for load in each.loads] == [False, True, False]
        assert len(each.counted) == 2


def test_peak_is_what_the_allocator_held_at_once():
    def work():
        first = torch.empty(1000, 1000)
        del first
        return torch.empty(500, 1000), torch.empty(500, 1000)

    peak = stopwatch.peak_bytes(work, CPU)
    assert peak["allocated"] == A_MILLION
    assert peak["process"] > 4e6


def test_peak_counts_beyond_what_was_there_before():
    held = [torch.ones(1000, 1000)]
    peak = stopwatch.peak_bytes(lambda: held[0] + 1, CPU)
    assert peak["allocated"] == A_MILLION


def test_peak_leaves_out_what_an_earlier_measurement_left():
    held = []
    stopwatch.peak_bytes(lambda: held.append(torch.ones(1000, 1000)), CPU)
    peak = stopwatch.peak_bytes(lambda: held[-1] + 1, CPU)
    assert peak["allocated"] == A_MILLION


def test_threads_are_given_back():
    before = torch.get_num_threads()
    with stopwatch.threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


def test_memory_is_kept_or_given_back():
    sizes = {}
    for keep in (True, False):
        keep_freed_memory(keep)
        block = torch.ones(50_000_000)
        del block
        sizes[keep] = stopwatch._process_size("VmRSS")
    assert sizes[True] - sizes[False] > 1e8  # of the 2e8 bytes


# ---------------------------------------------------------------- dense twins


@pytest.mark.parametrize("antithetic", [False, True])
def test_the_dense_moment_is_the_structured_one(antithetic):
    n, size, points = 4, 6, 3 if antithetic else 1
    draw = torch.Generator().manual_seed(1)
    z, s1 = torch.randn(n, size, generator=draw), torch.randn(points * n, size, generator=draw)
    alpha = torch.randn(points * n, size, generator=draw)
    beta = torch.randn(points * n, size, 2, generator=draw)
    s2 = DiagonalPlusLowRank(alpha, beta)
    dense = training_cost.dense_moment(s1, s2.to_dense(), z, 0.5, antithetic)
    reduction = "antithetic" if antithetic else None
    torch.testing.assert_close(dense, moment(s1, s2, z, 0.5, reduction, False).mean())


def test_the_dense_jacobian_is_the_structured_one():
    draw = torch.Generator().manual_seed(2)
    alpha, v, product = (torch.randn(4, 6, generator=draw) for _ in range(3))
    s2 = DiagonalPlusLowRank(alpha, torch.randn(4, 6, 2, generator=draw))
    dense = training_cost.dense_jacobian(s2.to_dense(), v, product)
    torch.testing.assert_close(dense, jacobian(s2, v, product, False).mean())


def test_losses_are_timed_with_equal_work_and_less_memory():
    found = pd.DataFrame(list(training_cost._time_losses(SMALL, CPU)))
    assert set(found["target"]) == {"jacobian", "moment"}
    assert (found.groupby(["target", "variance_reduction"])["method"].nunique() == 2).all()
    large = SMALL.model_copy(update={"dense": ((400, 4),), "repeats": 1})
    peaks = pd.DataFrame(list(training_cost._time_losses(large, CPU)))
    by = peaks.pivot_table("allocated", ["target", "variance_reduction"], "method")
    assert (by["dense"] > 2 * by["structured"]).all()


def test_autocast_reaches_the_model_from_its_settings():
    for autocast in (False, True):
        backbone = Backbone(kind="mlp", shared=True, width=8, autocast=autocast)
        spec = training_cost.model_params(backbone, 2, "jacobian")
        assert build_model(spec, (4,), 1.0).autocast is autocast


def test_variants_have_the_layout_and_the_precision_that_they_name(monkeypatch):
    built = {}

    def step(spec, shape, size, device, layout):
        built[spec.backbone.autocast, layout] = True
        return lambda: None

    monkeypatch.setattr(training_cost, "step_of", step)
    names = [row["method"] for row in training_cost._time_variants(SMALL, CPU)]
    assert names == ["float32", "bfloat16", "channels-last"]
    plain = torch.contiguous_format
    assert list(built) == [(False, plain), (True, plain), (False, torch.channels_last)]


def test_a_step_keeps_the_layout_that_it_is_given():
    spec = training_cost.model_params(Backbone(kind="unet", shared=True), 2, "jacobian")
    step = training_cost.step_of(spec, (1, 8, 8), 2, CPU, torch.channels_last)
    closure = [cell.cell_contents for cell in step.__closure__]
    objective = next(part for part in closure if hasattr(part, "model"))
    weights = [p for p in objective.parameters() if p.ndim == 4]
    assert all(p.is_contiguous(memory_format=torch.channels_last) for p in weights)


def test_a_timed_step_trains_the_model():
    backbone = Backbone(kind="mlp", shared=True, width=8)
    spec = training_cost.model_params(backbone, 2, "jacobian")
    step = training_cost.step_of(spec, (4,), 3, CPU)
    objective = next(
        c.cell_contents for c in step.__closure__ if hasattr(c.cell_contents, "model")
    )
    before = [p.detach().clone() for p in objective.parameters()]
    step()
    assert any(not torch.equal(a, b) for a, b in zip(before, objective.parameters(), strict=True))


# ---------------------------------------------------------------- table 2


def test_table2_has_every_method_and_scales_partial_rows():
    backbone = Backbone(kind="mlp", shared=False, width=8)
    rows = pd.DataFrame(timing._time_backbone(backbone, (10,), 2, SMALL, CPU))
    methods = ["s1", "autodiff loop", "autodiff reverse, chunked", "autodiff forward, chunked"]
    assert list(rows["method"]) == [*methods, "s2", "s1 and s2, shared trunk"]
    assert list(rows["rows_timed"]) == [10, 2, 2, 2, 10, 10]
    assert (rows["seconds_low"] <= rows["seconds"]).all()
    assert (rows["seconds"] <= rows["seconds_high"]).all()
    numbers = timing.headline(rows)
    s2 = rows[rows["method"] == "s2"]["seconds"].iloc[0]
    loop = rows[rows["method"] == "autodiff loop"]["seconds"].iloc[0]
    assert numbers["cpu.mlp.r3.loop_over_s2"] == pytest.approx(loop / s2)


def test_rows_are_scaled_beyond_the_one_evaluation_that_they_share(monkeypatch):
    clock = {"s1": 2.0, "autodiff loop": 5.0, "s2": 1.0}

    def timed(works, repeats, device, shortest=0.0):
        names = {key: key[0] if isinstance(key, tuple) else "s1" for key in works}
        loads = [Load(0.0, 0.0)] * repeats
        return {
            key: stopwatch.Times([clock.get(name, 1.0)] * repeats, loads)
            for key, name in names.items()
        }

    monkeypatch.setattr(timing, "timed_in_turn", timed)
    backbone = Backbone(kind="mlp", shared=False, width=8)
    rows = timing._time_backbone(backbone, (10,), 2, SMALL, CPU)
    seconds = {row["method"]: row["seconds"] for row in rows}
    assert seconds["s1"] == 2.0 and seconds["s2"] == 1.0
    assert seconds["autodiff loop"] == 2.0 + (5.0 - 2.0) * 10 / 2


def test_both_networks_of_table2_are_timed():
    times = timing.time_second_order_scores(SMALL.model_copy(update={"loop_rows": 4}))
    loops = times[times["method"] == "autodiff loop"].set_index("backbone")
    assert loops.loc["mlp", "rows_timed"] == 100 and loops.loc["unet", "rows_timed"] == 4
    assert set(times["threads"]) == {1}
    assert "cpu.unet.r3.best_chunked_over_s2" in timing.headline(times)


@pytest.mark.slow
def test_compiled_modules_give_the_same_numbers(monkeypatch):
    compiled, x = [], torch.randn(2, 10)
    spec = training_cost.model_params(Backbone(kind="mlp", shared=True, width=8), 3, "jacobian")
    model = build_model(spec, (10,), 1.0).eval()
    monkeypatch.setattr(timing, "_no_grad", lambda function, x: compiled.append(function(x)))
    with torch.no_grad():
        for module in (timing._Jacobian(model), model.trunk):
            timing._compiled(module, x)
            torch.testing.assert_close(compiled[-1], module(x))


# ---------------------------------------------------------------- growth


def test_slopes_are_those_of_power_laws():
    rows = [
        {"device": "cpu", "dimension": d, "method": "joint step", "rank": 10}
        | {"seconds": 3 * d**1.5, "allocated": 5 * d}
        for d in (10, 100, 1000)
    ]
    rows += [{**rows[0], "rank": r, "seconds": r**0.5, "allocated": r**2} for r in (20, 40)]
    rows[0] |= {"seconds": 3 * 10**1.5}
    found = dimension_cost.slopes(pd.DataFrame(rows))
    with_d = found[(found["variable"] == "D") & (found["rank"] == 10)].iloc[0]
    assert with_d["time"] == pytest.approx(1.5) and with_d["memory"] == pytest.approx(1)
    assert list(found["variable"]) == ["D", "r"]


def test_every_size_is_timed_for_steps_and_uses():
    times = dimension_cost.time_dimensions(SMALL)
    assert set(times["dimension"]) == {64, 144, 256}
    each = times[times["dimension"] == 64]
    methods = ["DSM step", "joint step", "joint step", "variance map"]
    assert list(each["method"]) == [*methods, "5 directions", "16 samples"]
    ranks = times[(times["dimension"] == 256) & (times["method"] == "joint step")]["rank"]
    assert sorted(ranks) == [0, 2, 3, 4]
    assert (times["allocated"] > 0).all()


# ---------------------------------------------------------------- communication


def test_a_link_is_recovered_from_its_own_times():
    lengths = (1000, 100_000, 10_000_000)
    seconds = [4 * n / 2e9 + 2 * 3e-6 for n in lengths]
    bandwidth, latency = fit_link(lengths, seconds)
    assert bandwidth == pytest.approx(2e9) and latency == pytest.approx(3e-6)


def test_the_plan_counts_what_a_ring_sends():
    plan = communication_plan(pd.DataFrame({"length": [1000, 10**6], "seconds": [1e-4, 4e-3]}))
    assert sorted(set(plan["workers"])) == [2, 8, 64]
    row = plan[plan["workers"] == 8].iloc[0]
    assert row["volume"] == pytest.approx(2 * 7 / 8 * 4 * row["numbers"])
    assert row["compute_for_90"] == pytest.approx(9 * row["seconds"])
    without = communication_plan(pd.DataFrame({"length": [], "seconds": []}))
    assert sorted(set(without["workers"])) == [8, 64]
