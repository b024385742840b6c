"""What the report says of the samplers: comparisons, table 3, verdicts, charts and pictures."""

import math

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

from hosm.experiment.mixing import figures as sampling_figures
from hosm.experiment.mixing import pictures as sampling_pictures
from hosm.experiment.mixing.claims import sampling_claims
from hosm.experiment.mixing.comparisons import comparisons
from hosm.experiment.mixing.results import load_sampling
from hosm.experiment.mixing.tables import comparison_table, mixing_table, peer_table, why
from hosm.experiment.presenting import formats, style
from hosm.experiment.shared.files import read_arrays, read_frame
from tests.experiment.report.report_inputs import write_inputs


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return write_inputs(tmp_path_factory.mktemp("sampling"))


@pytest.fixture(scope="module")
def found(root):
    return load_sampling(root / "data" / "results")


def changed(found, **columns):
    """The results with some columns of the tuned rows of ring6 with exact scores replaced."""
    final = found.final.copy()
    for method, values in columns.items():
        here = (final["target"] == "ring6") & (final["scores"] == "exact")
        here &= (final["method"] == method.replace("_", " ")) & (final["setting"] == "tuned")
        for name, value in values.items():
            final.loc[here, name] = value
    return with_final(found, final)


def with_final(found, final):
    return type(found)(**{**vars(found), "final": final})


def of_ring6(found):
    return next(each for each in comparisons(found) if (each.target, each.scores) == RING6)


RING6 = ("ring6", "exact")


def test_the_best_guard_is_the_fastest_within_the_bounds(found):
    each = of_ring6(found)
    assert each.ozaki["method"] == "ozaki floor" and each.per_iteration == pytest.approx(3.0)
    assert each.ratio == pytest.approx(2.0)  # three times the samples at 1.5 times the time
    assert each.error == pytest.approx(2.0 * math.hypot(0.1, 0.1))
    assert each.adjusted["method"] == "mala" and each.peer["method"] == "NUTS"
    beyond = of_ring6(changed(found, ozaki_floor={"within_bound": False}))
    assert beyond.ozaki["method"] == "ozaki none"
    learned = [each for each in comparisons(found) if each.scores == "learned"]
    assert all(each.adjusted is None and each.peer is None for each in learned)


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({}, "3.00× the samples an iteration, which takes 1.50× as long"),
        ({"langevin": {"within_bound": False}}, "Langevin did not end within the bounds"),
        (
            {"langevin": {"r_hat": 1.7}, "ozaki_floor": {"r_hat": 1.6}},
            "neither crosses between the modes (R-hat 1.70 and 1.60)",
        ),
        (
            {name: {"within_bound": False} for name in ("ozaki_floor", "ozaki_none", "ozaki_abs")},
            "no guard of Ozaki ended within the bounds",
        ),
    ],
)
def test_a_comparison_says_why(found, columns, words):
    assert why(of_ring6(changed(found, **columns))) == words


def test_the_comparison_is_a_table_with_a_line_for_each_target_and_scores(found):
    table = comparison_table(found)
    assert len(table) == 4
    row = table[(table["Target"] == "ring6") & (table["Scores"] == "exact")].iloc[0]
    assert row["Ozaki / Langevin"] == "2.00 ± 0.28" and row["Best Ozaki"] == "Ozaki, floor"
    assert row["Langevin: ε, ESS / s"] == "0.4: 364" and row["Best peer, ESS / s"] == "NUTS: 818"
    none = {name: {"within_bound": False} for name in ("ozaki_floor", "ozaki_none", "ozaki_abs")}
    table = comparison_table(changed(found, **none))
    assert "–" in set(table["Best Ozaki"]) and "–" in set(table["Ozaki / Langevin"])


def test_table3_marks_the_fastest_within_the_bounds_and_says_what_diverged(found):
    table = mixing_table(found.final)
    there = table[(table["Target"] == "ring6") & (table["Scores"] == "exact")]
    marked = there[there["ESS bulk / s"].map(formats.is_bold)]
    assert list(marked["Method"]) == ["Ozaki, floor"] and list(marked["Step"]) == ["tuned"]
    paper = there[there["Step"] == "paper's step"].set_index("Method")
    assert paper.loc["Ozaki, as printed", "Distance"] == "diverged"
    assert paper.loc["Ozaki, as printed", "ESS nice per chain, paper"] == "28.89"
    assert paper.loc["Langevin", "Within both?"] == "no"
    assert set(there[there["Step"] == "tuned"]["ESS nice per chain, paper"]) == {"–"}
    accepted = there[there["Step"] == "tuned"].set_index("Method")["Accepted"]
    assert accepted["Langevin, adjusted"] == "0.60" and accepted["Langevin"] == "–"
    nothing = mixing_table(found.final.assign(tuning_within_bound=False, within_bound=False))
    assert "tuned, none within the bounds" in set(nothing["Step"])
    assert not nothing["ESS bulk / s"].map(formats.is_bold).any()
    assert len(peer_table(found.peers)) == 4


def claim_of(found, where, name):
    claims = [each for each in sampling_claims(found) if each.where.startswith(where)]
    (claim,) = [each for each in claims if each.name == name]
    return claim


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({}, "holds"),
        ({"ozaki_floor": {"ess_bulk_per_second": 410.0}}, "undecided"),  # within two errors
        (
            {
                name: {"ess_bulk_per_second": 90.0}
                for name in ("ozaki_floor", "ozaki_none", "ozaki_abs")
            },
            "does not hold",
        ),
        ({"langevin": {"within_bound": False}}, "vacuous"),
        ({"langevin": {"r_hat": 1.7}, "ozaki_floor": {"r_hat": 1.6}}, "vacuous"),  # none crosses
        ({"langevin": {"r_hat": 1.7}}, "holds"),  # Ozaki does
        (
            {name: {"within_bound": False} for name in ("ozaki_floor", "ozaki_none", "ozaki_abs")},
            "vacuous",
        ),
    ],
)
def test_ozaki_is_judged_by_two_standard_errors(found, columns, expected):
    claim = claim_of(changed(found, **columns), "ring6, exact", "tuned-ozaki-faster")
    assert claim.verdict == expected and claim.paper


@pytest.mark.parametrize(
    ("times", "expected"),
    [
        ((1.0e-4, 1.06e-4), "holds"),  # 1.03 ± 0.03
        ((1.1e-4, 1.2e-4), "undecided"),
        ((1.3e-4, 1.4e-4), "does not hold"),
    ],
)
def test_the_cost_of_a_compiled_iteration_is_judged_over_the_laws(found, times, expected):
    final = found.final.copy()
    for target, seconds in zip(("ring6", "two-modes"), times, strict=True):
        final.loc[
            final.eval("method == 'ozaki floor'") & (final["target"] == target),
            ["seconds_compiled"],
        ] = seconds
    claim = claim_of(
        with_final(found, final), "2 laws in the plane, exact", "compiled-iteration-cheap"
    )
    assert claim.verdict == expected
    assert claim.evidence.endswith("1.50 ± 0 without compilation")
    final.loc[final["target"] == "ring6", "seconds_compiled"] = math.nan
    one = claim_of(with_final(found, final), "two-modes, exact", "compiled-iteration-cheap")
    assert one.verdict == ("holds" if times[1] < 1.15e-4 else "does not hold")  # without an error
    nowhere = with_final(found, found.final.assign(seconds_compiled=math.nan))
    assert not [each for each in sampling_claims(nowhere) if "compiled" in each.name]


def test_the_papers_steps_are_judged_as_printed_and_guarded(found):
    printed = claim_of(found, "ring6, exact scores, as printed", "printed-ess-higher")
    assert printed.verdict == "does not hold" and "diverged" in printed.evidence
    guarded = claim_of(found, "ring6, exact scores, with a guard", "guarded-ess-higher")
    assert guarded.verdict == "vacuous" and "Langevin 21.7 (ε = 0.5, biased)" in guarded.evidence
    within = claim_of(found, "ring6, exact", "paper-steps-unbiased")
    assert within.verdict == "does not hold" and within.evidence.count("biased") == 2


@pytest.mark.parametrize(
    ("sizes", "within", "expected"),
    [
        ((60.0, 20.0), (True, True), "holds"),
        ((60.0, 20.0), (True, False), "holds"),  # the loser may be biased
        ((60.0, 20.0), (False, True), "vacuous"),
        ((24.0, 20.0), (True, True), "undecided"),  # 24 ± 2.4 against 20 ± 2
        ((20.0, 60.0), (False, True), "does not hold"),
        ((20.0, 60.0), (True, False), "vacuous"),
        ((math.nan, 60.0), (False, False), "does not hold"),  # it diverged
    ],
)
def test_more_samples_of_the_wrong_law_are_vacuous(found, sizes, within, expected):
    final = found.final.copy()
    here = (final["target"] == "ring6") & (final["setting"] != "tuned")
    for method, size, sound in zip(("ozaki floor", "langevin"), sizes, within, strict=True):
        final.loc[here & (final["method"] == method), ["ess_nice", "within_bound"]] = size, sound
    claim = claim_of(with_final(found, final), "ring6, exact", "guarded-ess-higher")
    assert claim.verdict == expected and claim.paper


def test_the_clock_explains_the_gain_at_equal_steps(found):
    where = "two-modes, learned scores"
    assert claim_of(found, where, "faster-at-equal-steps").verdict == "holds"
    clock = claim_of(found, where, "clock-explains-approach")
    assert clock.verdict == "holds" and "ε = 0.01" in clock.evidence and not clock.paper
    approach = found.approach.copy()
    both = approach["method"].str.startswith("ozaki floor") & (approach["target"] == "two-modes")
    approach.loc[both, "kolmogorov"] = 0.01  # ahead on either clock
    ahead = type(found)(**{**vars(found), "approach": approach})
    assert claim_of(ahead, where, "clock-explains-approach").verdict == "does not hold"
    same = approach["target"] == "two-modes"
    approach.loc[same, "kolmogorov"] = 0.1 + 0.02 * (approach["method"] == "langevin")
    near = type(found)(**{**vars(found), "approach": approach})
    assert claim_of(near, where, "faster-at-equal-steps").verdict == "undecided"


def test_the_order_of_the_bias_is_judged(found):
    linear = claim_of(found, "ring6", "bias-of-first-order")
    assert linear.verdict == "holds" and linear.evidence.startswith("slope 1.00")
    bent = found.bias.assign(bias=found.bias["bias"] * found.bias["relative"])
    other = type(found)(**{**vars(found), "bias": bent})
    assert claim_of(other, "ring6", "bias-of-first-order").verdict == "does not hold"
    unsure = type(found)(**{**vars(found), "bias": found.bias.assign(standard_error=0.009)})
    assert claim_of(unsure, "ring6", "bias-of-first-order").verdict == "undecided"
    off = found.bias.assign(bias=found.bias["bias"] + 0.03)
    other = type(found)(**{**vars(found), "bias": off})
    assert claim_of(other, "ring6", "adjusted-unbiased").verdict == "does not hold"


def words(figure):
    return [text.get_text() for text in figure.findobj(mpl.text.Text) if text.get_text()]


def test_tuning_draws_the_bounds_and_no_diverged_chains(found):
    figure = sampling_figures.tuning_figure(found.tuning, 0.1)
    assert "distance beyond 0.1" in words(figure)
    assert "ring6\nmost within: Langevin" in words(figure)
    assert max(max(line.get_xdata()) for line in figure.axes[1].lines) < 0.2
    hollow = [line for line in figure.axes[1].lines if line.get_markerfacecolor() == "white"]
    assert len(hollow) == 3  # the largest step of each sampler


def test_tuning_survives_chains_that_all_diverged(found, tmp_path):
    diverged = found.tuning.assign(ess_bulk=math.nan, kolmogorov=1.0, within_bound=False)
    figure = sampling_figures.tuning_figure(diverged, 0.1)
    style.save_figure(figure, tmp_path / "empty.png")
    assert "ring6\nno step size within the bounds" in words(figure)


def test_the_faster_sampler_is_shown_by_a_ratio_with_its_error(found):
    (ax,) = sampling_figures.faster_figure(found).axes
    points = [line for line in ax.lines if line.get_marker() in ("o", "s")]
    assert [line.get_xdata()[0] for line in points] == pytest.approx([2.0] * 4)
    bars = [segments for each in ax.collections for segments in each.get_segments()]
    assert bars[0][:, 0] == pytest.approx(2.0 + 2 * 2.0 * math.hypot(0.1, 0.1) * np.array([-1, 1]))


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        (
            {"langevin": {"r_hat": 1.7}, "ozaki_floor": {"r_hat": 1.6}},
            "no chain crosses between the modes",
        ),
        ({"langevin": {"within_bound": False}}, "no step size within the bounds on bias"),
    ],
)
def test_a_vacuous_comparison_says_why_in_place_of_a_ratio(found, columns, said):
    figure = sampling_figures.faster_figure(changed(found, **columns))
    assert said in words(figure)
    assert sum(line.get_marker() in ("o", "s") for line in figure.axes[0].lines) == 3


def test_curves_are_against_seconds_and_never_rise(found):
    curves = found.curves.copy()
    last = curves["iterations"] == 1000
    curves.loc[last, "kolmogorov"] = 0.9  # chance
    figure = sampling_figures.curves_figure(type(found)(**{**vars(found), "curves": curves}), 0.1)
    drawn = [line for line in figure.axes[1].lines if len(line.get_xdata()) > 2]
    assert {max(line.get_xdata()) for line in drawn} == {0.1, 0.15, 0.2}  # 1,000 iterations
    assert all(line.get_ydata()[-1] == line.get_ydata()[-2] == 0.2 for line in drawn)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["two-modes", "ring6"]


def test_the_approach_is_against_iterations_and_against_time(found):
    left, right = sampling_figures.approach_figure(found.approach).axes
    ends = [max(line.get_xdata()) for line in left.lines]
    assert ends == [100, 100, 100]
    assert sorted(max(line.get_xdata()) for line in right.lines) == pytest.approx([1, 1, 2])


def test_the_bias_is_a_mean_over_laws_and_names_the_largest(found):
    (ax,) = sampling_figures.bias_figure(found.bias).axes
    assert "Langevin is 0.24 nats (2 laws)" in ax.get_title(loc="left")
    langevin = next(line for line in ax.lines if max(line.get_ydata()) > 0.1)
    assert list(langevin.get_ydata()) == pytest.approx([0.03, 0.06, 0.12, 0.24])


def test_pictures_have_a_panel_for_each_run_on_the_axes_of_exact_draws(found):
    figure = sampling_pictures.snapshots_figure(found)
    assert "70% diverged" in words(figure) and "Langevin\nε = 0.5, 30,000 it." in words(figure)
    assert len({ax.get_xlim() for ax in figure.axes[:3]}) == 1
    figure = sampling_pictures.equal_steps_figure(found)
    assert len(figure.axes) == 6 and "100 iterations" in words(figure)
    assert "distance 0.083" in words(figure)  # of Langevin after 100 iterations
    figure = sampling_pictures.single_chains_figure(found.draws)
    assert "100% in the frame" in words(figure) and "Ozaki, as printed\nε = 6" in words(figure)


def test_a_chain_that_diverged_at_once_says_so(found, tmp_path):
    empty = {**found.draws, "ring6|ozaki none|5|single": found.draws["ring6|exact draws||"][:0]}
    figure = sampling_pictures.single_chains_figure(empty)
    style.save_figure(figure, tmp_path / "empty.png")
    assert "diverged" in words(figure)
    far = {**found.draws, "ring6|ozaki none|5|single": np.full((50, 2), 1e9)}
    assert "diverged" in words(sampling_pictures.single_chains_figure(far))


def test_files_are_checked_on_reading(tmp_path):
    with pytest.raises(FileNotFoundError, match="run the stage that writes it"):
        read_frame(tmp_path / "none.csv", "a")
    pd.DataFrame({"a": [1]}).to_csv(tmp_path / "some.csv", index=False)
    with pytest.raises(ValueError, match=r"some.csv lacks b, c; it has a"):
        read_frame(tmp_path / "some.csv", "a b c")
    with pytest.raises(FileNotFoundError):
        read_arrays(tmp_path / "none.npz")


def test_a_kept_study_says_how_it_was_made(root):
    kept = load_sampling(root / "reports" / "whole" / "sampling", pictured=False)
    assert kept.card["profile"] == "paper" and not kept.draws
