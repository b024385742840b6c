"""The figures of accuracy, on made-up results."""

import math

import pandas as pd
import pytest

from hosm.experiment.accuracy import figures
from hosm.experiment.presenting import style


def test_accuracy_has_a_line_for_each_law_and_tells_ours_from_the_papers(results, words):
    figure = figures.accuracy_figure(results.accuracy.table1)
    (ax,) = figure.axes
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == [
        "gaussian100, r = 30\nstreaming: fresh points",
        "logistic50, diagonal\nstreaming: fresh points",
    ]
    found = set(words(figure))
    assert {"derivative of s1", "s2, our default", "the paper’s numbers", "← better"} <= found
    assert "squared error of the Hessian at σ = 0.05, summed over entries" in found
    assert ax.get_xscale() == "log"


def test_accuracy_draws_the_papers_values_where_there_are_any(results):
    ax = figures.accuracy_figure(results.accuracy.table1).axes[0]
    hollow = [line.get_xdata()[0] for line in ax.lines if line.get_marker() == "D"]
    found = sorted(x for x in hollow if not math.isnan(x))
    assert found == [2.05, 9.39, 18.50, 26.13]  # at the largest rank


def test_accuracy_shows_the_middle_sigma_alone(results):
    table1 = results.accuracy.table1
    more = pd.concat([table1.assign(sigma=0.5, mean=77.0), table1])
    ax = figures.accuracy_figure(more).axes[0]
    assert 77.0 not in [line.get_xdata()[0] for line in ax.lines]
    assert len(ax.get_yticks()) == 2


def test_accuracy_leaves_out_a_constant_that_is_exact(results):
    (ax,) = figures.accuracy_figure(results.accuracy.table1).axes
    bars = [line for line in ax.lines if line.get_color() == style.GREY]
    (constant,) = [line for line in bars if line.get_linewidth() == 3]
    assert list(constant.get_xdata()) == [17.8, 17.8]


def test_joint_training_stands_beside_training_alone(results):
    (ax,) = figures.joint_figure(results.accuracy.table1).axes
    joined = next(line for line in ax.lines if line.get_color() == "#bbbbbb")
    assert list(joined.get_xdata()) == [6.52, 6.9]
    assert [text.get_text() for text in ax.get_yticklabels()] == [
        "gaussian100, streaming: fresh points, σ = 0.05"
    ]


def test_targets_show_error_against_seconds_with_the_references(results, words):
    figure = figures.targets_figure(results.accuracy.learning, results.accuracy.table1)
    gaussian, logistic = figure.axes
    found = words(figure)
    assert "gaussian100, streaming, σ = 0.05, r = 30\nends lowest: s2, jacobian" in found
    assert {"s2, jacobian", "s2, moment (the paper's)", "constant Hessian"} <= set(found)
    curve = next(line for line in gaussian.lines if line.get_color() == style.BLUE)
    assert list(curve.get_xdata()) == pytest.approx([30.5, 40.5, 50.5])  # the mean over seeds
    levels = [line.get_ydata()[0] for ax in figure.axes for line in ax.lines[-1:]]
    assert levels == [1.76, 17.8]  # the floor of rank 30, the constant
