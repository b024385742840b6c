"""Settings: the file as it stands, profiles, and one clear line for each bad input."""

import re
from pathlib import Path

import pytest
import yaml

from hosm.experiment.settings import CELL, SettingsError, check_rank, load_params

FILE = Path(__file__).resolve().parents[3] / "params.yaml"


def write(tmp_path, change):
    """Write the project's settings with one change and return the path."""
    raw = yaml.safe_load(FILE.read_text())
    change(raw)
    path = tmp_path / "params.yaml"
    path.write_text(yaml.safe_dump(raw))
    return path


@pytest.mark.parametrize("profile", ["smoke", "laptop", "paper"])
def test_the_file_is_legal_under_every_profile(tmp_path, profile):
    params = load_params(write(tmp_path, lambda raw: raw.update(profile=profile)))
    assert params.profile == profile
    assert params.train["mnist5k"].rank == {"smoke": 4, "laptop": 30, "paper": 50}[profile]


@pytest.mark.parametrize("profile", ["laptop", "paper"])
def test_grid_fills_every_cell_of_table_1_once(tmp_path, profile):
    sweep = load_params(write(tmp_path, lambda raw: raw.update(profile=profile))).sweep
    cells = [cell for trial in sweep.grid() for cell in sweep.estimates(trial)]
    assert len({tuple(cell[key] for key in CELL) for cell in cells}) == len(cells)
    per_seed = len(sweep.sigmas) * len(sweep.regimes) * len(sweep.seeds)
    heads = {name: len(sweep.targets) * len(sweep.ranks_of(name)) for name in sweep.datasets}
    baselines = 2 + len(sweep.joint)  # on gaussian100 alone
    assert len(cells) == per_seed * (sum(heads.values()) + len(sweep.datasets) + baselines)
    ranks = {name: sweep.ranks_of(name) for name in sweep.datasets}
    assert ranks.pop("gaussian100") == (15, 20, 30) and set(ranks.values()) == {(0,)}


def test_a_cell_takes_what_its_data_set_says_of_its_kind():
    sweep = load_params(FILE).sweep
    cell = {"dataset": "gaussian100", "regime": "finite", "sigma": 0.1, "rank": 15, "seed": 3}
    jacobian = sweep.model({**cell, "target": "jacobian"})
    joint = sweep.model({**cell, "target": "joint-moment"})
    assert (jacobian.batch_size, joint.batch_size) == (200, 200)
    few, many, dsm = (
        sweep.model({**cell, "regime": regime, "target": target})
        for regime, target in (("finite", "dsm-vr"), ("streaming", "dsm-vr"), ("finite", "dsm"))
    )
    assert few.weight_decay > many.weight_decay == jacobian.weight_decay == 0
    assert dsm == few.model_copy(update={"target": "dsm"})
    assert joint.target == "moment" and joint.regime == "finite" and joint.sigma == 0.1


def test_a_plain_value_replaces_one_that_depends_on_the_profile(tmp_path):
    params = load_params(
        write(tmp_path, lambda raw: raw["sweep"].update(seeds=[7], ranks=[15, 20]))
    )
    assert params.sweep.seeds == (7,) and params.sweep.ranks == (15, 20)


def test_the_settings_of_a_data_set_prevail_over_those_that_it_shares(tmp_path):
    def change(raw):
        raw["train"]["common"].update(gamma=2.0, seed=5)
        raw["train"]["denoisers"].update(gamma=3.0, patience=4)
        raw["train"]["mnist5k"].update(patience=6)

    train = load_params(write(tmp_path, change)).train
    ring, digits = train["ring6"], train["mnist5k"]
    assert (ring.regime, ring.gamma, ring.seed, ring.patience) == ("streaming", 2.0, 5, 0)
    assert (digits.regime, digits.gamma, digits.seed, digits.patience) == ("finite", 3.0, 5, 6)
    assert train["mnist"].patience == 4 and not {"common", "planar", "denoisers"} & set(train)


def test_the_section_that_a_bad_setting_is_written_in_is_named(tmp_path):
    for section in ("common", "denoisers", "mnist5k"):
        change = setter("train", section, "gamma", value=-1.0)
        with pytest.raises(
            SettingsError, match=f"train.{section}.gamma must be at least 0.0, got -1.0"
        ):
            load_params(write(tmp_path, change))


def setter(*keys, value):
    def change(raw):
        section = raw
        for key in keys[:-1]:
            section = section[key]
        section[keys[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            setter("profile", value="tablet"),
            "profile must be one of smoke, laptop, paper, got 'tablet'",
        ),
        (setter("sweep", "rnks", value=[1]), "unknown key sweep.rnks; known: .*ranks"),
        (
            setter("train", "planar", "lerning_rate", value=1),
            r"unknown key .*lerning_rate; known: .*learning_rate",
        ),
        (
            setter("train", "planar", "datasets", value="ring6"),
            "train.planar.datasets must be a list",
        ),
        (
            setter("train", "planar", "datasets", value=["ring6", "mnist"]),
            "train must list mnist once, got it in (planar|denoisers) and in ",
        ),
        (setter("trian", value={}), "unknown key trian; known: .*train"),
        (  # of a regime and a data set that this profile leaves out
            setter("sweep", "logistic", "finite", "weight_decay", value=-1.0),
            "sweep.logistic.finite.weight_decay must be at least 0.0, got -1.0",
        ),
        (
            setter("sweep", "logistic50", "first", "max_stepz", value=1),
            "unknown key sweep.logistic50.first.max_stepz; known: .*max_steps",
        ),
        (
            setter("train", "planar", "sigma", value=0.0),
            r"train.planar.sigma must be above 0.0, got 0.0",
        ),
        (
            setter("train", "planar", "sigma", value=float("nan")),
            "train.planar.sigma must be finite, got nan",
        ),
        (
            setter("train", "planar", "sigma", value=float("inf")),
            "train.planar.sigma must be finite, got inf",
        ),
        (
            setter("train", "planar", "sigma", value="1e-3x"),
            "train.planar.sigma must be a number, got '1e-3x'",
        ),
        (
            setter("train", "planar", "target", value="best"),
            "target must be one of .*'jacobian'.*, got 'best'",
        ),
        (setter("sweep", "ranks", value=[0]), "rank.* must be at least 1, got 0"),
        (setter("sweep", "sigmas", value=[-0.1]), "sigma.* must be above 0.0, got -0.1"),
        (
            setter("sweep", "datasets", value=["gausian100"]),
            "must be among .*gaussian100.*, got 'gausian100'",
        ),
        (
            setter("cluster", "workers", value=64),
            "must be at most local_cpus = 2, got 64 x 1 = 64",
        ),
        (
            setter("cluster", "checkpoint_every", value=-1),
            "cluster.checkpoint_every must be at least 0, got -1",
        ),
        (
            setter("cluster", "checkpoints_kept", value=1),
            "cluster.checkpoints_kept must be at least 2, got 1",
        ),
        (setter("speed", "repeats", value=0), "speed.repeats must be at least 1, got 0"),
        (setter("speed", "images", value=[[1, 30]]), r"divisible by 4.*\[1, 30\]"),
        (setter("speed", "image_ranks", value=[5000]), "at most its dimension 784, got .*5000"),
        (lambda raw: raw.pop("mixing"), "mixing is missing"),
    ],
)
def test_bad_input_ends_in_one_line_that_names_it(tmp_path, monkeypatch, change, message):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(SettingsError) as caught:
        load_params(write(tmp_path, change))
    assert re.search(message, str(caught.value)), str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_misspelt_key_is_named_rather_than_the_one_it_leaves_missing(tmp_path):
    def misspell(raw):
        raw["sweep"]["rnks"] = raw["sweep"].pop("ranks")

    with pytest.raises(SettingsError, match="unknown key sweep.rnks; known: .*ranks"):
        load_params(write(tmp_path, misspell))


def test_a_missing_or_broken_file_is_named(tmp_path):
    with pytest.raises(SettingsError, match="cannot read .*params.yaml"):
        load_params(tmp_path / "params.yaml")
    (tmp_path / "params.yaml").write_text("profile: [laptop")
    with pytest.raises(SettingsError, match="cannot read"):
        load_params(tmp_path / "params.yaml")
    (tmp_path / "params.yaml").write_text("- laptop")
    with pytest.raises(SettingsError, match="mapping of sections"):
        load_params(tmp_path / "params.yaml")


def test_rank_is_checked_against_the_data():
    check_rank(3, 3)
    with pytest.raises(
        SettingsError, match=r"rank must lie in \[0, 100\] for these data, got 101"
    ):
        check_rank(101, 100)


def test_an_unknown_model_is_named():
    with pytest.raises(SettingsError, match="must be one of .*ring6.*, got 'ring7'"):
        load_params(FILE).trained("ring7")
