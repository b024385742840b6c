"""The figures of costs, on made-up results."""

from hosm.experiment.cost import figures


def test_speed_states_ratios_units_and_the_time_of_s1(results, words):
    figure = figures.speed_figure(results.cost.speed)
    texts = words(figure)
    found = "24.0× the time of s2 by the loop, 6.00× by the fastest chunked autodiff"
    assert f"MLP, D = 100\nat r = 20: {found}" in texts
    assert "time for the whole batch (ms), less is better" in texts
    assert {"the paper's (TITAN Xp)", "our s1 alone"} <= set(texts)
    labels = [label.get_text() for label in figure.axes[1].get_yticklabels()]
    assert labels[-1] == "s1" and labels[:2] == ["s2, r = 200", "s2, r = 20"]


def test_figures_name_what_they_found(results):
    growth = figures.growth_figure(results.cost.growth, results.cost.slopes)
    assert "1.00 and 1.00" in growth.axes[0].get_title(loc="left")
    losses = figures.loss_figure(results.cost.training)
    assert losses.axes[0].get_title(loc="left") == "Dense over ours at D = 784: 784× to 784×"
