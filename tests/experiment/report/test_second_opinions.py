"""Second opinions: other points that are settings of the stages named, run in a copy, judged."""

import subprocess
from pathlib import Path

import pytest
import yaml

from hosm.experiment.report.claims import claims
from hosm.experiment.report.replication import replication, second_opinions
from hosm.experiment.report.results import load_results
from hosm.experiment.report.second_opinions import change_settings, judged_at
from hosm.experiment.report.texts import OtherPoint, paper
from hosm.experiment.run.process import StageError
from hosm.experiment.settings import load_params
from tests.experiment.report.report_inputs import write_inputs

ROOT = Path(__file__).resolve().parents[3]
POINTS = [pytest.param(each.elsewhere, id=each.decides[0]) for each in paper().claims]
STAGE = """
import sys
import pandas as pd

path = "data/results/reduction/curves.csv"
frame = pd.read_csv(path)
frame.loc[frame["reduction"] == "none", ["s1_error", "s2_error"]] = float(sys.argv[1])
frame.to_csv(path, index=False)
"""


def stages():
    """Name of a stage's module -> names of its sections of params.yaml, by dvc.yaml."""
    found = {}
    for stage in yaml.safe_load((ROOT / "dvc.yaml").read_text())["stages"].values():
        stage = stage.get("do", stage)
        module = stage["cmd"].split()[2].removeprefix("pipeline.")
        found.setdefault(module, set()).update(name.split(".")[0] for name in stage["params"])
    return found


@pytest.mark.parametrize("point", POINTS)
def test_a_point_is_of_settings_that_its_stages_read(point, tmp_path):
    there = stages()
    names = [stage.split()[0] for stage in point.stages]
    assert set(names) <= set(there)
    read = set().union(*(there[name] for name in names))
    assert {name.split(".")[0] for name in point.settings} <= read
    changed = tmp_path / "params.yaml"
    changed.write_text((ROOT / "params.yaml").read_text())
    change_settings(changed, point.settings)
    assert load_params(changed) != load_params(ROOT / "params.yaml")


def test_a_setting_without_its_section_is_named(tmp_path):
    path = tmp_path / "params.yaml"
    path.write_text("speed: {batch: 10}\n")
    change_settings(path, {"speed.batch": 20})
    assert yaml.safe_load(path.read_text()) == {"speed": {"batch": 20}}
    with pytest.raises(ValueError, match="quickness.batch must name an entry of params.yaml"):
        change_settings(path, {"quickness.batch": 20})
    with pytest.raises(ValueError, match="speed.batch.size must name an entry"):
        change_settings(path, {"speed.batch.size": 20})


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A project with results, one stage that changes them, and one that fails."""
    root = write_inputs(tmp_path_factory.mktemp("project"))
    (root / "pipeline").mkdir()
    (root / "pipeline" / "toy.py").write_text(STAGE)
    (root / ".gitignore").write_text("data\n")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-qm", "all"]):
        subprocess.run([*git, *command], cwd=root, check=True)
    return root


def first(rows):
    """The verdicts on the paper's first claim, by the names of the claims that decide it."""
    return {
        row["name"]: row["verdict"] for row in rows if row["name"] in paper().claims[0].decides
    }


def test_claims_are_judged_by_what_the_copy_measured(project, tmp_path):
    for error, expected in (("1000", "holds"), ("1e-9", "does not hold")):
        point = OtherPoint(
            point="elsewhere", stages=[f"toy {error}"], settings={"reduction.seeds": [0]}
        )
        rows = judged_at(project, point, tmp_path / "copy")
        assert first(rows)["plain-fails-at-small-sigma"] == expected
        assert all(row["seconds"] > 0 for row in rows)
        assert load_params(tmp_path / "copy" / "params.yaml").reduction.seeds == (0,)
    kept = {name for name in (row["where"] for row in rows) if "at length" in name}
    assert not kept  # longer runs say nothing of the other point
    assert load_params(project / "params.yaml").reduction.seeds != (0,)


def test_a_stage_that_fails_is_an_error(project, tmp_path):
    point = OtherPoint(point="elsewhere", stages=["toy"], settings={"reduction.seeds": [0]})
    with pytest.raises(StageError, match="stage toy in .*copy ended with status 1"):
        judged_at(project, point, tmp_path / "copy")


def test_a_project_without_results_is_told_what_to_run(tmp_path):
    point = OtherPoint(point="elsewhere", stages=["toy"], settings={"reduction.seeds": [0]})
    with pytest.raises(FileNotFoundError, match="results does not exist; run dvc repro first"):
        judged_at(tmp_path, point, tmp_path / "copy")
    assert not (tmp_path / "copy").exists()


def test_a_claim_stands_beside_its_verdict_elsewhere(project):
    results = load_results(project)
    judged, opinions = claims(results), results.opinions
    found = [each for each in replication(judged, opinions) if each.elsewhere]
    assert [each.elsewhere.verdict for each in found] == ["holds only in part"]
    assert all(each.elsewhere is None for each in replication(judged))
    (row,) = second_opinions(judged, opinions).to_dict("records")
    assert row["Verdict there"] == "holds only in part" and row["Minutes"] == "1.5"
    assert row["Other point"] == found[0].paper.elsewhere.point
