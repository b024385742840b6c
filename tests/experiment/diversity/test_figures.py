"""The figure of classes that chains reach, on made-up results."""

from hosm.experiment.diversity.figures import classes_figure


def test_classes_state_the_shares_and_how_many_chains_the_seconds_are_of(results, words):
    chains = results.diversity["mnist5k"]
    figure = classes_figure(chains.curves, chains.summary, chains.cost)
    found = words(figure)
    rows = chains.summary.set_index("sampler")["changed"]
    shares = f"Ozaki {rows['Ozaki']:.0%}, Langevin {rows['Langevin']:.0%}"
    assert f"Equal ε = 0.03\n{shares}" in found
    assert {"iterations", "time of the diffusion", "seconds for 50 chains"} <= set(found)
