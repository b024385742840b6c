"""How numbers look in a table: significant digits, standard errors, ratios, marks."""

import math

__all__ = [
    "DASH",
    "at_each",
    "bold",
    "count",
    "is_bold",
    "milliseconds",
    "network",
    "number",
    "paper_value",
    "plain",
    "plus_minus",
    "ratio",
]

DASH = "–"
MARK = "**"


def number(value: float, digits: int = 3) -> str:
    """Return a value with so many significant digits; a dash where there is none."""
    if not math.isfinite(value):
        return DASH if math.isnan(value) else "∞"
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    if magnitude < -4:
        return f"{value:.{digits - 1}e}"
    return f"{value:,.{max(0, digits - 1 - magnitude)}f}"


def plus_minus(mean: float, standard_error: float) -> str:
    """Return mean ± standard error, to two digits of the latter; the mean alone without one."""
    if not math.isfinite(mean) or not math.isfinite(standard_error):
        return number(mean)
    if standard_error == 0:
        return f"{number(mean)} ± 0"
    decimals = min(7, max(0, 1 - math.floor(math.log10(standard_error))))
    return f"{mean:,.{decimals}f} ± {standard_error:,.{decimals}f}"


def paper_value(mean: float, deviation: float) -> str:
    """Return a mean and its deviation as the paper prints them."""
    if not math.isfinite(mean):
        return DASH
    return f"{mean:.2f} ± {deviation:g}" if math.isfinite(deviation) else f"{mean:.2f}"


def milliseconds(seconds: float) -> str:
    """Return a time in milliseconds, without the unit."""
    return number(1000 * seconds)


def ratio(middle: float, low: float = math.nan, high: float = math.nan) -> str:
    """Return a ratio as 84×, with its range where there is one."""
    if not math.isfinite(middle):
        return DASH
    text = f"{number(middle)}×"
    return f"{text} ({number(low)} to {number(high)})" if math.isfinite(low + high) else text


def count(value: float) -> str:
    """Return a whole number with thousands separated; a dash where there is none."""
    return f"{value:,.0f}" if math.isfinite(value) else DASH


def at_each(values: dict[str, float], digits: int = 3) -> str:
    """Return values with the names of their places, as `σ = 0.1: 3.20; σ = 0.5: 4.10`."""
    return "; ".join(f"{name}: {number(value, digits)}" for name, value in values.items())


def network(backbone: str) -> str:
    """Return the name of a backbone."""
    return {"mlp": "MLP", "unet": "U-Net"}.get(backbone, backbone)


def bold(text: str) -> str:
    """Mark the text of a cell as the best."""
    return f"{MARK}{text}{MARK}"


def is_bold(text: str) -> bool:
    """Say whether a cell is marked as the best."""
    return len(text) > 2 * len(MARK) and text.startswith(MARK) and text.endswith(MARK)


def plain(text: str) -> str:
    """Return the text of a cell without its mark."""
    return text[len(MARK) : -len(MARK)] if is_bold(text) else text
