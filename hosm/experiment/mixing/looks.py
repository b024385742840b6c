"""What tables and figures call the samplers, and how figures draw them."""

from hosm.experiment.presenting.style import COLOURS

__all__ = ["MARKERS", "SAMPLERS", "look"]

SAMPLERS = {  # as tables and figures call them; those of other libraries keep their names
    "langevin": "Langevin",
    "ozaki none": "Ozaki, as printed",
    "ozaki floor": "Ozaki, floor",
    "ozaki abs": "Ozaki, abs",
    "ozaki langevin": "Ozaki, langevin",
    "ozaki full": "Ozaki, full s2",
    "ozaki floor, Langevin's clock": "Ozaki, floor, Langevin’s clock",
    "mala": "Langevin, adjusted",
    "ozaki adjusted": "Ozaki, floor, adjusted",
    "ozaki full adjusted": "Ozaki, full s2, adjusted",
}
MARKERS = {
    "langevin": "o",
    "ozaki floor": "s",
    "ozaki full": "^",
    "mala": "D",
    "ozaki floor, Langevin's clock": "v",
}


def look(method: str) -> tuple[str, str]:
    """Return the colour and the marker of a sampler; those of Ozaki's guards share one."""
    name = method if method in MARKERS else "ozaki floor"
    return COLOURS[list(MARKERS).index(name)], MARKERS[name]
