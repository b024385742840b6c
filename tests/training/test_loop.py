"""The plain loop: order and noise by key, shards, early stopping, resume, checkpoints."""

import math

import pytest
import torch

from hosm.networks import MLP, ConditionalMLP
from hosm.scores import ScoreModel
from hosm.training import (
    Diverged,
    JointObjective,
    Settings,
    Shard,
    TrainingResult,
    batches,
    fit,
    load_checkpoint,
    save_checkpoint,
)
from hosm.training import loop as training
from hosm.training.optimizers import MATRIX_RATE, Optimizers, linear_decay
from tests.tolerances import FLOAT32

DATA = torch.randn(64, 3, generator=torch.Generator().manual_seed(0))
VALIDATION = torch.randn(40, 3, generator=torch.Generator().manual_seed(1))


def settings(**changes):
    base = {"sigma": 0.5, "batch_size": 16, "max_steps": 40, "validate_every": 10, "seed": 5}
    return Settings(**{**base, **changes})


def model(rank=1):
    torch.manual_seed(2)
    return ScoreModel(MLP(3, 2 + rank, width=16), sigma=0.5, rank=rank)


def run(net=None, **options):
    chosen = options.pop("settings", settings())
    return fit(net or model(), chosen, lambda epoch: DATA, VALIDATION, **options)


@pytest.mark.parametrize("target", ["jacobian", "residual", "moment", "dsm"])
def test_training_lowers_the_validation_loss(target):
    chosen = settings(target=target, max_steps=200, validate_every=5, learning_rate=1e-2)
    validation = torch.randn(1000, 3, generator=torch.Generator().manual_seed(7))
    draw = torch.Generator().manual_seed(3)
    fresh = lambda epoch: torch.randn(64, 3, generator=draw)  # noqa: E731
    history = fit(model(), chosen, fresh, validation).history
    assert history[-1]["validation_dsm"] < history[0]["validation_dsm"] - 0.1


def test_each_epoch_visits_every_sample_once_with_fresh_noise():
    source = batches(lambda epoch: DATA, 16, 5, Shard(), 0)
    epochs = [[next(source) for _ in range(4)] for _ in range(2)]
    orders = []
    for epoch in epochs:
        x = torch.cat([part[0] for part in epoch])
        assert torch.equal(x.sort(0).values, DATA.sort(0).values)
        orders.append(x)
    assert not torch.equal(*orders)
    noise = [torch.cat([part[1] for part in epoch]) for epoch in epochs]
    assert not torch.equal(noise[0].sort(0).values, noise[1].sort(0).values)


def test_shards_partition_the_global_batch_with_the_same_noise():
    whole = next(batches(lambda epoch: DATA, 16, 5, Shard(), 3))
    parts = [next(batches(lambda e: DATA, 16, 5, Shard(r, 2), 3)) for r in range(2)]
    for full, *halves in zip(whole, *parts, strict=True):
        assert torch.equal(full[0::2], halves[0]) and torch.equal(full[1::2], halves[1])


def test_orthogonal_noise_belongs_to_the_global_batch_however_it_is_split():
    whole = next(batches(lambda e: DATA, 16, 5, Shard(), 3, orthogonal=True))
    plain = next(batches(lambda e: DATA, 16, 5, Shard(), 3))
    gram = whole.z[:3] @ whole.z[:3].T
    torch.testing.assert_close(gram, torch.diag(plain.z[:3].square().sum(1)))
    for rank in range(2):
        part = next(batches(lambda e: DATA, 16, 5, Shard(rank, 2), 3, orthogonal=True))
        for full, half in zip(whole, part, strict=True):
            assert torch.equal(full[rank::2], half)
    assert torch.equal(whole.v, plain.v) and torch.equal(whole.x, plain.x)
    chosen = settings(orthogonal_noise=True)
    assert run(settings=chosen).history != run().history  # the setting reaches the batches


def test_streaming_asks_for_each_epoch_once():
    asked = []

    def points(epoch):
        asked.append(epoch)
        return DATA + epoch

    source = batches(points, 16, 5, Shard(), 0)
    for _ in range(9):
        next(source)
    assert sorted(set(asked)) == [0, 1, 2]


def test_resumed_run_ends_bit_for_bit_like_the_uninterrupted_one(tmp_path):
    whole, states = run(), []
    run(report=lambda progress: states.append(progress.state()) if progress.step == 20 else None)
    save_checkpoint(states[0], tmp_path / "state.pt")
    torch.manual_seed(99)
    again = run(model(), state=load_checkpoint(tmp_path / "state.pt"))
    assert again.history == whole.history
    for name, value in whole.weights.items():
        assert torch.equal(again.weights[name], value)


@pytest.mark.parametrize("step", [1, 7, 20, 33, 39])
def test_a_run_resumed_between_validations_ends_bit_for_bit_alike(step):
    whole, reports = run(), []

    def report(progress):
        reports.append((progress.step, progress.metrics, progress.state()))

    run(report=report, due=lambda now: now == step)
    between = [now for now, metrics, _ in reports if not metrics]
    assert between == ([step] if step % 10 else [])
    (state,) = [state for now, _, state in reports if now == step]
    torch.manual_seed(99)
    again = run(model(), state=state)
    assert again.history == whole.history  # the means of the training losses among it
    for name, value in whole.weights.items():
        assert torch.equal(again.weights[name], value)


def test_metrics_of_training_are_means_over_all_workers():
    """As if the first of two workers were told the sums of the second: twice its own."""
    alone = run(settings=settings(max_steps=10), shard=Shard(0, 2)).metrics
    doubled = run(settings=settings(max_steps=10), shard=Shard(0, 2), reduce=lambda sums: 2 * sums)
    for name, value in doubled.metrics.items():
        expected = value / 2 if name.startswith("train") else value
        assert alone[name] == pytest.approx(expected)


def test_the_pace_is_that_of_the_steps_taken(monkeypatch):
    clock = iter((10.0, 29.0))  # after the first of 20 steps, and at the end
    monkeypatch.setattr(training.time, "perf_counter", lambda: next(clock))
    assert run(settings=settings(max_steps=20)).seconds_per_step == 1.0
    assert math.isnan(TrainingResult({}, 0, 0, {}).seconds_per_step)


def test_early_stopping_keeps_the_best_average():
    chosen = settings(max_steps=2000, learning_rate=0.05, patience=2, validate_every=20)
    small = DATA[:16]
    result = fit(model(), chosen, lambda epoch: small, VALIDATION)
    losses = [entry["validation_dsm"] for entry in result.history]
    assert result.step < 2000
    assert result.metrics["validation_dsm"] == min(losses)
    assert result.best_step == result.history[losses.index(min(losses))]["step"]


def test_second_order_share_sees_part_of_the_batch_and_dsm_all_of_it():
    batch = [part.double() for part in next(batches(lambda epoch: DATA, 16, 5, Shard(), 0))]
    net = model().double()
    whole = JointObjective(net, settings())(*batch)
    part = JointObjective(net, settings(second_order_share=0.25))(*batch)
    four = JointObjective(net, settings())(*(each[:4] for each in batch))
    torch.testing.assert_close(part[0], whole[0])
    torch.testing.assert_close(part[1], four[1])


def range_model():
    torch.manual_seed(2)
    net = ConditionalMLP(3, 3, width=16)
    return ScoreModel(net, sigma=(0.1, 1.0), rank=1, parametrisation="denoiser")


def test_a_range_of_scales_is_trained_resumed_and_split_like_one_scale():
    chosen, states = settings(sigma=(0.1, 1.0), second_order_share=0.5), []
    whole = run(range_model(), settings=chosen, report=lambda p: states.append(p.state()))
    again = run(range_model(), settings=chosen, state=states[1])
    assert again.history == whole.history
    x, z, v, t = next(batches(lambda epoch: DATA, 16, 5, Shard(), 0))
    objective = JointObjective(range_model(), chosen)
    halves = objective(x[:8], z[:8], v[:8], t[:8]), objective(x[8:], z[8:], v[8:], t[8:])
    torch.testing.assert_close(objective(x, z, v, t)[0], (halves[0][0] + halves[1][0]) / 2)
    for sigma in (0.5, (0.05, 1.0)):
        with pytest.raises(ValueError, match=r"the model's, \(0.1, 1.0\)"):
            run(range_model(), settings=settings(sigma=sigma))


class Regression(torch.nn.Module):
    """Another objective: a linear map of x fitted to z, watched by its own loss."""

    names, weights = ("square", "unused"), (1.0, 0.0)

    def __init__(self, model, chosen):
        super().__init__()
        self.model, self.frozen = model, torch.nn.Linear(3, 3).requires_grad_(False)

    def forward(self, x, z, v, t):
        square = (self.model(x) - z).square().mean()
        return torch.stack([square, self.frozen(x).square().mean()])


def test_fit_takes_any_objective_and_leaves_frozen_weights_alone():
    torch.manual_seed(0)
    net, chosen = torch.nn.Linear(3, 3), settings(learning_rate=0.05, max_steps=200)
    result = run(net, settings=chosen, objective=Regression)
    assert set(result.weights) == {"weight", "bias"}
    names = {"train_square", "train_unused", "validation_square", "validation_unused"}
    assert set(result.metrics) == names
    history = [entry["validation_square"] for entry in result.history]
    assert history[-1] < history[0]
    # the mean of 120 squares of normal noise has a standard error of .13; its draws are fixed
    assert history[-1] == pytest.approx(1.0, abs=0.2)
    unused = {entry["validation_unused"] for entry in result.history}
    assert len(unused) == 1


def test_validation_is_the_mean_over_points_however_they_are_split():
    objective = JointObjective(model(), settings())
    whole = training.validate(objective, VALIDATION, settings(), Shard())
    halves = [training.validate(objective, VALIDATION, settings(), Shard(r, 2)) for r in range(2)]
    # means of float32 losses, whose products a block of another size may round otherwise
    torch.testing.assert_close(whole, halves[0] + halves[1], **FLOAT32)
    assert whole[2] == len(VALIDATION)


def test_divergence_is_an_error_not_a_result():
    with pytest.raises(Diverged, match="diverged at step 10") as caught:
        run(settings=settings(learning_rate=1e30, target="moment"))
    assert caught.value.last == {} and isinstance(caught.value, FloatingPointError)


def test_divergence_tells_the_last_metrics_that_were_finite():
    calls = []

    class Breaking(JointObjective):
        def forward(self, *batch):
            calls.append(len(calls))
            return super().forward(*batch) * (math.nan if len(calls) > 27 else 1.0)

    with pytest.raises(Diverged, match="diverged at step 30") as caught:
        run(objective=Breaking)  # after 20 steps and two validations of three blocks each
    assert caught.value.last == run().history[1]


def test_weight_decay_shrinks_all_weights_but_a_linear_skip():
    """Without a loss, a step of rate a takes the share a * decay off each weight."""

    class Nothing(torch.nn.Module):
        names, weights = ("none",), (0.0,)

        def __init__(self, model, chosen):
            super().__init__()
            self.model = model

        def forward(self, x, z, v, t):
            return 0 * self.model.score(x).sum().reshape(1)

    torch.manual_seed(0)
    trunk = MLP(3, 1, width=4, skip=True)
    torch.nn.init.ones_(trunk.skip.weight)
    net = ScoreModel(trunk, sigma=0.5)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    chosen = settings(weight_decay=2.0, learning_rate=0.1, max_steps=1, validate_every=1)
    after = run(net, settings=chosen, objective=Nothing).weights
    for name, value in before.items():
        left = 1.0 if "skip" in name else 0.8
        torch.testing.assert_close(after[name], left * value)


def test_muon_moves_every_direction_of_a_matrix_alike_and_adam_each_weight():
    module = torch.nn.Linear(4, 3)
    torch.nn.init.zeros_(module.weight)
    torch.nn.init.zeros_(module.bias)
    chosen = settings(optimizer="muon", learning_rate=1e-3, max_steps=2)
    both = Optimizers(module, chosen)
    module.weight.grad = torch.diag(torch.tensor([5.0, 0.5, 0.05]))[:, [0, 1, 2, 2]]
    module.bias.grad = torch.tensor([5.0, -0.5, 0.05])
    both.step()
    values = torch.linalg.svdvals(module.weight.detach()) / (MATRIX_RATE * 1e-3)
    assert (values > 0.5).all() and (values < 1.5).all()
    assert torch.allclose(module.bias.sign(), torch.tensor([-1.0, 1.0, -1.0]))
    # the first step of Adam is its rate, but for the epsilon beside gradients of .05
    assert torch.allclose(module.bias.abs(), torch.full((3,), 1e-3), rtol=1e-4)


def test_a_run_of_muon_resumes_bit_for_bit():
    chosen, states = settings(optimizer="muon", max_steps=20), []

    def keep(progress):
        states.append(progress.state())

    straight = run(settings=chosen, report=keep).weights
    resumed = run(settings=chosen, state=states[0]).weights
    assert all(torch.equal(straight[name], resumed[name]) for name in straight)


def test_an_optimizer_is_one_of_two():
    with pytest.raises(ValueError, match="optimizer must be one of adam, muon, got 'sgd'"):
        settings(optimizer="sgd")


def test_schedule_falls_from_one_to_zero():
    factor = linear_decay(settings())
    assert [factor(step) for step in (0, 20, 40)] == pytest.approx([1.0, 0.5, 0.0])


@pytest.mark.parametrize("width", [0.05, 0.1, 0.2])
def test_the_average_is_of_late_steps_with_the_width_asked_for(width):
    steps = 2000
    newest, shares = training._share_of_newest(width), torch.zeros(steps, dtype=torch.float64)
    for step in range(1, steps + 1):
        shares *= 1 - newest(step)
        shares[step - 1] = newest(step)
    assert newest(1) == 1.0  # the start is forgotten at once
    time = torch.arange(1, steps + 1) / steps
    assert float(shares.sum()) == pytest.approx(1.0)
    mean = (shares * time).sum()
    spread = float((shares * (time - mean).square()).sum().sqrt())
    assert spread == pytest.approx(width, rel=1e-3)  # 2,000 steps stand for a continuous time
    assert float(mean) > 0.7


def test_no_average_is_the_last_step():
    assert [training._share_of_newest(0.0)(step) for step in (1, 5, 500)] == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("part", [0, 1, 65, 700, -7])
def test_damaged_checkpoint_is_refused(tmp_path, part):
    path = tmp_path / "state.pt"
    save_checkpoint({"step": 1, "weights": torch.ones(300)}, path)
    assert load_checkpoint(path)["step"] == 1
    whole = path.read_bytes()
    path.write_bytes(whole[:part])
    with pytest.raises(ValueError, match="state.pt is damaged"):
        load_checkpoint(path)
    flipped = bytearray(whole)
    flipped[part] ^= 16
    path.write_bytes(flipped)
    with pytest.raises(ValueError, match="state.pt is damaged"):
        load_checkpoint(path)
    assert [each.name for each in tmp_path.iterdir()] == ["state.pt"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sigma": 0.0}, "sigma"),
        ({"sigma": math.inf}, "sigma"),
        ({"target": "best"}, "target must be one of"),
        ({"learning_rate": 0.0}, "learning_rate must be above 0, got 0.0"),
        ({"gamma": -1.0}, "gamma must be finite and at least 0, got -1.0"),
        ({"weight_decay": -1.0}, "weight_decay must be finite and at least 0, got -1.0"),
        ({"average_width": 0.29}, r"average_width must lie in \[0, 0.28\], got 0.29"),
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"clip_norm": 0.0}, "clip_norm must be above 0 or None, got 0.0"),
        ({"patience": 0}, "patience must be at least 1 or None, got 0"),
        ({"second_order_share": 0.0}, r"\(0, 1\], got 0.0"),
    ],
)
def test_illegal_settings_are_named(change, message):
    with pytest.raises(ValueError, match=message):
        settings(**change)


def test_data_that_do_not_fit_are_named():
    with pytest.raises(ValueError, match="at most the 64 points, got 65"):
        run(settings=settings(batch_size=65))
    with pytest.raises(ValueError, match="at least 1 for each of 3 workers, got 2"):
        run(settings=settings(batch_size=2), shard=Shard(0, 3))
    with pytest.raises(ValueError, match=r"0\.\.1, got 2"):
        Shard(2, 2)
    with pytest.raises(ValueError, match="validation points must be finite"):
        fit(model(), settings(), lambda epoch: DATA, VALIDATION * math.nan)
    with pytest.raises(ValueError, match="each of 8 workers"):
        fit(model(), settings(), lambda epoch: DATA, VALIDATION[:7], shard=Shard(0, 8))
    with pytest.raises(ValueError, match="points must be finite"):
        fit(model(), settings(), lambda epoch: DATA * math.nan, VALIDATION)
    with pytest.raises(ValueError, match="int64"):
        fit(model(), settings(), lambda epoch: DATA.long(), VALIDATION)
