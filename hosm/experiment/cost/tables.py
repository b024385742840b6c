"""Table 2, and what training costs: losses, steps, growth with D and r, more workers.

Table 2 marks the fastest method of second-order scores.
"""

import pandas as pd

from hosm.experiment.cost.results import Cost
from hosm.experiment.cost.study.ratios import speed_ratios
from hosm.experiment.presenting import formats
from hosm.experiment.presenting.timing import marked, with_machine
from hosm.experiment.shared.rows import Row, groups, records

__all__ = [
    "cost_tables",
    "growth_table",
    "loss_table",
    "plan_table",
    "rank_table",
    "ratio_table",
    "speed_table",
    "step_table",
    "variant_table",
    "workers_table",
]


def _network(row: Row) -> str:
    device = "" if row["device"] == "cpu" else f", {row['device'].upper()}"
    sizes = f"D = {row['dimension']:.0f}, batch {row['batch']:.0f}"
    return f"{formats.network(row['backbone'])}, {sizes}{device}"


def _rows_timed(row: Row) -> str:
    timed, total = row["rows_timed"], row["dimension"]
    return "all" if timed >= total else f"scaled from {timed:.0f} of {total:.0f} rows"


def speed_table(speed: pd.DataFrame) -> pd.DataFrame:
    """Return table 2: times of second-order scores, and of s1 alone, for a whole batch."""
    rows = []
    for _, group in groups(speed, "device", "backbone", "dimension", "batch"):
        times = records(group)
        s1 = next(row["seconds"] for row in times if row["method"] == "s1")
        second = [row["seconds"] for row in times if not row["method"].startswith("s1")]
        rows += [_time_row(row, s1, min(second)) for row in times]
    return pd.DataFrame(rows)


def _time_row(row: Row, s1: float, fastest: float) -> Row:
    ours, low, high = (
        formats.milliseconds(row[name]) for name in ("seconds", "seconds_low", "seconds_high")
    )
    ours = marked(ours, row)
    best = row["seconds"] == fastest and not row["method"].startswith("s1")
    return {
        "Network": _network(row),
        "Method": row["method"],
        "Rank": f"{row['rank']:.0f}" if row["rank"] else formats.DASH,
        "Paper, TITAN Xp (ms)": formats.milliseconds(row["paper_seconds"]),
        "Ours, median (ms)": formats.bold(ours) if best else ours,
        "Least to largest (ms)": f"{low} to {high}",
        "Time over s1": formats.ratio(row["seconds"] / s1),
        "Parameters": formats.count(row["parameters"]),
        "Jacobian rows timed": _rows_timed(row),
    }


def ratio_table(speed: pd.DataFrame) -> pd.DataFrame:
    """Return the ratios of table 2: autodiff over s2, ours beside the paper's, and s2 over s1."""
    rows = [
        {
            "Network": _network(row),
            "Rank": f"{row['rank']:.0f}" + (", compiled" if row["compiled"] else ""),
            "Loop / s2, paper": formats.ratio(row["paper"]),
            "Loop / s2, ours (range)": formats.ratio(
                row["loop"], row["loop_low"], row["loop_high"]
            ),
            "Fastest chunked autodiff / s2, ours (range)": formats.ratio(
                row["chunked"], row["chunked_low"], row["chunked_high"]
            ),
            "s2 / s1, ours": formats.ratio(row["s1"]),
            "s1 and s2 of a shared trunk / s1, ours": formats.ratio(row["joint"]),
        }
        for row in speed_ratios(speed)
    ]
    return pd.DataFrame(rows)


def _megabytes(size: float) -> str:
    return formats.number(size / 1e6)


def _spread(row: Row) -> str:
    low, high = (formats.milliseconds(row[name]) for name in ("seconds_low", "seconds_high"))
    return f"{low} to {high}"


def _place(row: Row) -> Row:
    return {"Device": str(row["device"]).upper(), "D": formats.count(row["dimension"])}


def _part(training: pd.DataFrame, name: str) -> pd.DataFrame:
    return training[training["part"] == name]


def loss_table(training: pd.DataFrame) -> pd.DataFrame:
    """Return the losses with their gradients in the scores, structured beside dense."""
    rows = []
    losses = _part(training, "loss")
    for _, pair in groups(losses, "device", "dimension", "target", "variance_reduction"):
        by = {row["method"]: row for row in records(pair)}
        ours, dense = by["structured"], by["dense"]
        times, memory = (dense[name] / ours[name] for name in ("seconds", "allocated"))
        rows.append(
            {
                **_place(ours),
                "Batch": formats.count(ours["batch"]),
                "r": formats.count(ours["rank"]),
                "Target": ours["target"],
                "Variance reduction": ours["variance_reduction"],
                "Dense (ms)": formats.milliseconds(dense["seconds"]),
                "Ours (ms)": formats.milliseconds(ours["seconds"]),
                "Dense / ours": marked(formats.ratio(times), ours, dense),
                "Dense (MB)": _megabytes(dense["allocated"]),
                "Ours (MB)": _megabytes(ours["allocated"]),
                "Dense / ours, memory": formats.ratio(memory),
            }
        )
    return pd.DataFrame(rows)


def step_table(training: pd.DataFrame) -> pd.DataFrame:
    """Return whole optimiser steps of the U-Net, over the DSM step of the same reduction."""
    rows = []
    for _, part in groups(_part(training, "step"), "device", "variance_reduction"):
        steps = records(part)
        alone = next(row for row in steps if row["target"] == "dsm")
        rows += [
            {
                **_place(row),
                "Batch": formats.count(row["batch"]),
                "Variance reduction": row["variance_reduction"],
                "Step": "s1 alone (DSM)" if row is alone else f"s1 and s2, {row['target']}",
                "r": formats.DASH if row is alone else formats.count(row["rank"]),
                "Median (ms)": formats.milliseconds(row["seconds"]),
                "Least to largest (ms)": _spread(row),
                "Time over DSM": marked(
                    formats.ratio(row["seconds"] / alone["seconds"]), row, alone
                ),
                "Memory (MB)": _megabytes(row["allocated"]),
            }
            for row in steps
        ]
    return pd.DataFrame(rows)


def variant_table(training: pd.DataFrame) -> pd.DataFrame:
    """Return the U-Net's joint step in other precisions and layouts, over float32."""
    rows = []
    for _, part in groups(_part(training, "variant"), "device"):
        steps = records(part)
        plain = steps[0]["seconds"]
        rows += [
            {
                **_place(row),
                "Joint step": row["method"],
                "Median (ms)": formats.milliseconds(row["seconds"]),
                "Least to largest (ms)": _spread(row),
                "Time over float32": marked(formats.ratio(row["seconds"] / plain), row),
                "Memory (MB)": _megabytes(row["allocated"]),
            }
            for row in steps
        ]
    return pd.DataFrame(rows)


def growth_table(growth: pd.DataFrame, slopes: pd.DataFrame) -> pd.DataFrame:
    """Return time and memory by D for one rank, with their slopes on logarithmic axes."""
    rows = []
    fits = records(slopes[slopes["variable"] == "D"])
    for fit in fits:
        part = growth[(growth["device"] == fit["device"]) & (growth["method"] == fit["method"])]
        sizes = records(part[part["rank"] == fit["rank"]].sort_values("dimension"))
        shown = {
            f"D = {row['dimension']:,.0f}": (
                f"{marked(formats.milliseconds(row['seconds']) + ' ms', row)}, "
                f"{_megabytes(row['allocated'])} MB"
            )
            for row in sizes
        }
        name = (
            fit["method"]
            if fit["method"] == "DSM step"
            else f"{fit['method']}, r = {fit['rank']:.0f}"
        )
        slope = {
            f"Slope of {name} (last two)": f"{fit[name]:.2f} ({fit[f'late_{name}']:.2f})"
            for name in ("time", "memory")
        }
        rows.append({"Device": str(fit["device"]).upper(), "What": name, **shown, **slope})
    return pd.DataFrame(rows).fillna(formats.DASH)


def rank_table(growth: pd.DataFrame, slopes: pd.DataFrame) -> pd.DataFrame:
    """Return the joint step by rank at the size where several were timed."""
    rows = []
    counts = growth[growth["method"] == "joint step"].groupby("dimension")["rank"].nunique()
    size = counts.idxmax()
    steps = growth[(growth["method"] == "joint step") & (growth["dimension"] == size)]
    for device, part in groups(steps.sort_values("rank"), "device"):
        fit = slopes[(slopes["variable"] == "r") & (slopes["device"] == device)]
        found = [
            f"{fit[name].iloc[0]:.2f}" if len(fit) else formats.DASH for name in ("time", "memory")
        ]
        for row in records(part):
            rows.append(
                {
                    **_place(row),
                    "r": formats.count(row["rank"]),
                    "Joint step (ms)": marked(formats.milliseconds(row["seconds"]), row),
                    "Least to largest (ms)": _spread(row),
                    "Memory (MB)": _megabytes(row["allocated"]),
                    "Slope with r, time": found[0],
                    "Slope with r, memory": found[1],
                }
            )
    return pd.DataFrame(rows)


def workers_table(steps: pd.DataFrame) -> pd.DataFrame:
    """Return the time of a step by loop and workers, over that of the plain loop."""
    rows = []
    medians = steps.groupby(["loop", "workers"], sort=False)["seconds_per_step"].median()
    alone = medians["plain loop", 1]
    for (loop, workers), part in groups(steps, "loop", "workers"):
        seconds = medians[loop, workers]
        first = records(part)[0]
        rows.append(
            {
                "Loop": loop,
                "Workers": formats.count(workers),
                "Batch, in all": formats.count(first["batch"] * workers),
                "Steps": formats.count(first["steps"]),
                "Runs": formats.count(len(part)),
                "Step, median (ms)": formats.milliseconds(seconds),
                "Time over the plain loop": marked(formats.ratio(seconds / alone), *records(part)),
                "Points a second": formats.number(first["batch"] * workers / seconds),
            }
        )
    return pd.DataFrame(rows)


def plan_table(plan: pd.DataFrame) -> pd.DataFrame:
    """Return what a step has to send, how long that takes, and what hides it."""
    rows = [
        {
            "Network": row["network"],
            "Numbers": formats.count(row["numbers"]),
            "Workers and link": row["link"],
            "Sent by each (MB a step)": _megabytes(row["volume"]),
            "Communication (ms a step)": formats.milliseconds(row["seconds"]),
            "Computation for 90 % (ms a step)": formats.milliseconds(row["compute_for_90"]),
        }
        for row in records(plan)
    ]
    return pd.DataFrame(rows)


def cost_tables(found: Cost) -> dict[str, pd.DataFrame]:
    """Return the tables of times and memory, by their files' names."""
    training = found.training
    return {
        "table2-speed": with_machine(speed_table(found.speed), found.speed),
        "table2-ratios": ratio_table(found.speed),
        "cost-losses": with_machine(loss_table(training), _part(training, "loss")),
        "cost-steps": with_machine(step_table(training), _part(training, "step")),
        "cost-variants": with_machine(variant_table(training), _part(training, "variant")),
        "cost-dimension": with_machine(growth_table(found.growth, found.slopes), found.growth),
        "cost-rank": rank_table(found.growth, found.slopes),
        "scaling-workers": with_machine(workers_table(found.workers), found.workers),
        "scaling-plan": plan_table(found.plan),
    }
