"""What is shown of a run: recorded lines of DVC, Ray and torch, and made-up seconds."""

import io

import pytest

from hosm.experiment.repro.expected import TRUSTED, pace
from hosm.experiment.repro.lines import is_chatter, news, plain
from hosm.experiment.repro.plan import Step
from hosm.experiment.repro.view import View

STEP = "\x1b[36m(RayTrainWorker pid=5016)\x1b[0m step 500/2500  train_dsm -1.7600\n"
CHATTER = [
    "> python -m pipeline.train two-modes",
    "Updating lock file 'dvc.lock'",
    "2026-11-30 06:10:44,007\tWARNING authentication_token_setup.py:85 -- Token authentication",
    "\x1b[36m(TrainController pid=4900)\x1b[0m [2026-11-30 06:11:05,055 E 4900 4940] "
    "core_worker.cc:2465: Actor with class name: 'PreemptionWatcher' and ID: 'x' has constructor "
    "arguments in the object store and max_restarts > 0.",
    "USDT:2026-11-30 05:19:12 31607:31607 SyncActivityProfilerHandler.cpp:39] profiler_start",
    "/lib/torch/jit/_script.py:12: FutureWarning: `torch.jit.script` is deprecated.",
    "  warnings.warn(",
    "│ Number of trials                 6                     │",
    "(PlacementGroupCleaner pid=21354) ConnectionError: Found multiple active Ray instances: {}.",
    "Data and pipelines are up to date.",
    "",
]
USEFUL = [
    STEP,
    "ring6: {'train': 10000}, sha256 c42eaf48e4f1",
    "error: cluster.workers must be at most 1, got 2",
    "ERROR: failed to reproduce 'sweep': failed to run",
    "RuntimeError: 2026 went wrong",
    "2026-11-30 06:10:44,007\tERROR worker.py:85 -- the trial failed",
    "sigma 0.1, none, seed 0, 3.1 s: errors of s2 0.1",
]


@pytest.mark.parametrize("line", CHATTER)
def test_chatter_of_others_is_kept_out(line):
    assert is_chatter(plain(line)) and news(plain(line)) is None


@pytest.mark.parametrize("line", USEFUL)
def test_what_a_stage_says_is_no_chatter(line):
    assert not is_chatter(plain(line))


def test_a_worker_is_not_named():
    assert plain(STEP) == "step 500/2500  train_dsm -1.7600"


def test_what_dvc_says_of_a_stage():
    assert news("Running stage 'train@ring6':") == ("train@ring6", "runs")
    assert news("Stage 'x' didn't change, skipping") == ("x", "did not change")
    assert news("'data.dvc' didn't change, skipping") == ("data.dvc", "did not change")
    cached = "Stage 'x' is cached - skipping run, checking out outputs"
    assert news(cached) == ("x", "from the cache of runs")
    assert news("ERROR: failed to reproduce 'x': exited with 1") == ("x", "failed")


def test_the_pace_is_that_of_long_stages():
    expected = {"a": 10.0, "b": 20.0, "c": 30.0}
    assert pace(expected, {}) == 1
    slow = (20 + TRUSTED) / (10 + TRUSTED)  # a took twice as long as expected, of ten seconds
    assert pace(expected, {"a": 20.0}) == slow == pace(expected, {"a": 20.0, "new": 500.0})
    assert pace({"a": 10 * TRUSTED, "b": 1.0}, {"a": 20 * TRUSTED}) == 21 / 11


def shown(lines, status=0, terminal=False, expected=None):
    """What is shown of lines that come ten seconds apart, and the view."""
    out, now = io.StringIO(), [0.0]
    out.isatty = lambda: terminal
    known = {"a": 5.0, "b": 100.0, "c": 200.0} if expected is None else expected
    view = View([Step(name) for name in "abc"], known, out, clock=lambda: now[0])
    for line in lines:
        view.read(line)
        now[0] += 10
    view.close(status)
    return out.getvalue(), view


def test_a_run_has_a_line_for_each_stage_and_a_table():
    lines = ["Running stage 'a':\n", "> python a\n", STEP, "Stage 'b' didn't change, skipping\n"]
    text, view = shown([*lines, "Running stage 'c':\n", "done\n"])
    rows = text.splitlines()
    assert rows[0] == "stage 1 of 3, a, about 5 min left"
    assert rows[1] == "  step 500/2500  train_dsm -1.7600"
    # Stage a took 30 s instead of 5, so 200 s become 1,200.
    assert rows[2] == "stage 3 of 3, c, about 3 min left"
    assert [row.split() for row in rows[-4:]] == [
        ["a", "30", "ran"],
        ["b", "did", "not", "change"],
        ["c", "20", "ran"],
        ["all", "60"],
    ]
    assert view.took == {"a": 30.0, "c": 20.0}


def test_a_stage_of_unknown_length_is_not_guessed():
    assert "stage 1 of 3, a, time left unknown" in shown(["Running stage 'a':"], expected={})[0]


def test_a_terminal_keeps_the_last_progress():
    text, _ = shown(["Running stage 'a':", "step 1", "step 2"], terminal=True)
    assert "\r\x1b[2K  step 1\r\x1b[2K  step 2\n" in text


def test_a_failure_shows_the_last_twenty_lines_of_its_stage():
    lines = [
        "Running stage 'a':",
        *(f"line {n}" for n in range(30)),
        "ERROR: failed to reproduce 'a'",
    ]
    text, view = shown(lines, status=255)
    rows = text[text.index("stage a failed") :].splitlines()
    assert rows[1:21] == [f"  line {n}" for n in range(10, 30)]
    assert view.outcomes == {"a": "failed"}
    assert ["b", "not", "reached"] in [row.split() for row in rows]


def test_stages_beside_each_other_are_told_apart():
    out, now = io.StringIO(), [0.0]
    expected = {"a": 100.0, "b": 60.0, "c": 200.0}
    steps = [Step("a"), Step("b"), Step("c", frozenset("ab"), alone=True)]
    view = View(steps, expected, out, 2, lambda: now[0])
    view.begin("a")
    view.begin("b")
    view.read("Running stage 'b':\n", "b")
    view.read("step 1\n", "b")
    now[0] = 50.0
    view.read("Stage 'a' is cached - skipping run, checking out outputs\n", "a")
    view.end("a")
    view.end("b")
    view.begin("c")
    view.end("c", 3)
    view.close(3)
    rows = out.getvalue().splitlines()
    assert rows[:3] == [
        "stage 1 of 3, a, about 5 min left",
        "stage 2 of 3, b, about 5 min left",
        "  b: step 1",
    ]
    # Stage b took 50 s instead of 60, which scales 200 s.
    assert rows[3] == "stage 3 of 3, c, about 3 min left"
    assert view.outcomes == {"a": "from the cache of runs", "b": "ran", "c": "failed"}
    assert view.took == {"b": 50.0, "c": 0.0}


def test_a_run_with_nothing_to_do_says_so():
    out = io.StringIO()
    view = View([Step("a"), Step("b")], {}, out, 2)
    view.skip({"a", "b"})
    view.close(0)
    assert out.getvalue().endswith("Data and pipelines are up to date.\n")
