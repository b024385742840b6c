"""How every figure looks."""

from matplotlib.colors import to_hex

from hosm.experiment.presenting import style


def test_colours_are_those_of_okabe_and_ito():
    assert {to_hex(colour).upper() for colour in style.COLOURS} <= {
        *("#0072B2", "#D55E00", "#009E73", "#CC79A7"),
        *("#56B4E9", "#E69F00", "#F0E442", "#000000"),
    }
