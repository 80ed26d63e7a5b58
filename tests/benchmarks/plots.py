"""What was measured, as pictures: bars beside the limit, lines over the size of a program."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter
from measuring import Table
from report import FIGURES, Results, ranked, unit

OURS, PEER, LIMIT = "#0072b2", "#b3b3b3", "#4d4d4d"
LINES = (OURS, "#d55e00", "#009e73", "#cc79a7")


def draw(tables: Iterable[Table], results: Results) -> None:
    """Leave a picture of each table that was run beside the figures."""
    mpl.rcParams["svg.hashsalt"] = "ctxruntime"  # the same figures are the same file
    for table in tables:
        if table.name in results.seconds:
            figure = sizes(table, results) if table.sizes else bars(table, results)
            figure.savefig(FIGURES / f"{table.name}.svg", bbox_inches="tight", metadata={"Date": None})


def bars(table: Table, results: Results) -> Figure:
    """Return a bar for each way, the fastest on top; on a logarithmic scale, as peers are far apart."""
    found = ranked(table, results)[::-1]
    base = table.ways[0].name
    figure = Figure(figsize=(8, 0.6 + 0.32 * len(found)))
    axes: Any = figure.subplots()
    colours = [OURS if "ctxruntime" in name else LIMIT if name == base else PEER for name, _ in found]
    drawn = axes.barh([name for name, _ in found], [seconds for _, seconds in found], color=colours)
    axes.bar_label(drawn, [f" {unit(seconds)}" for _, seconds in found], fontsize=8)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda seconds, _: unit(seconds))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(min(seconds for _, seconds in found) / 2, max(seconds for _, seconds in found) * 4)
    return bare(figure, axes, table.title)


def sizes(table: Table, results: Results) -> Figure:
    """Return a line for each step, over the size of the program."""
    figure = Figure(figsize=(8, 3))
    axes: Any = figure.subplots()
    seconds = results.seconds[table.name]
    steps = dict.fromkeys(way.name.partition(", ")[0] for way in table.ways)
    for step, colour in zip(steps, LINES, strict=True):
        times = [seconds[f"{step}, {size:,}"] for size in table.sizes]
        axes.plot(table.sizes, times, marker="o", markersize=3, color=colour)
        axes.text(table.sizes[-1] * 1.15, times[-1], step, color=colour, fontsize=8, va="center")
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xticks(table.sizes, [f"{size:,}" for size in table.sizes])
    axes.minorticks_off()
    axes.yaxis.set_major_formatter(lambda seconds, _: unit(seconds))
    return bare(figure, axes, table.title)


def bare(figure: Figure, axes: Any, title: str) -> Figure:
    """Take away what says nothing."""
    axes.set_title(title, loc="left", fontsize=10)
    axes.tick_params(labelsize=8)
    axes.spines[["top", "right"]].set_visible(False)
    return figure
