"""The figures of accuracy, on made-up results."""

import math

from hosm.experiment.accuracy import figures
from hosm.experiment.presenting import style


def test_accuracy_names_the_lowest_error_and_tells_ours_from_the_papers(results, words):
    figure = figures.accuracy_figure(results.accuracy.table1)
    found = words(figure)
    assert "gaussian100, streaming, σ = 0.05\nlowest: s2, jacobian, r = 30, 2.10" in found
    assert {"ours, r = 30", "the paper's", "floor of a rank", "constant Hessian"} <= set(found)
    assert "squared Frobenius error, summed over entries" in found
    assert all(ax.get_xscale() == "log" for ax in figure.axes)


def test_accuracy_draws_the_papers_values_where_there_are_any(results):
    ax = figures.accuracy_figure(results.accuracy.table1).axes[0]
    hollow = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "D"]
    assert sorted(x for x in hollow if not math.isnan(x)) == [
        2.05,
        5.07,
        6.91,
        6.91,
        9.39,
        9.39,  # of both networks of s1
        43.76,  # 6.91 of both ways to train by the moment target
    ]


def test_targets_show_error_against_seconds_with_the_references(results, words):
    figure = figures.targets_figure(results.accuracy.learning, results.accuracy.table1)
    gaussian, logistic = figure.axes
    found = words(figure)
    assert "gaussian100, streaming, σ = 0.05, r = 30\nends lowest: s2, jacobian, 2.00" in found
    assert {"s2, jacobian", "s2, moment (the paper's)", "constant Hessian"} <= set(found)
    curve = next(line for line in gaussian.lines if line.get_color() == style.BLUE)
    assert list(curve.get_xdata()) == [30.5, 40.5, 50.5]  # the mean over seeds
    levels = [line.get_ydata()[0] for ax in figure.axes for line in ax.lines[-1:]]
    assert levels == [1.76, 17.8]  # the floor of rank 30, the constant


def test_accuracy_leaves_out_a_constant_that_is_exact(results):
    gaussian, logistic = figures.accuracy_figure(results.accuracy.table1).axes
    dashed = [
        [line for line in ax.lines if line.get_linestyle() == "--"] for ax in (gaussian, logistic)
    ]
    assert [len(lines) for lines in dashed] == [0, 1]
    assert dashed[1][0].get_xdata()[0] == 17.8
