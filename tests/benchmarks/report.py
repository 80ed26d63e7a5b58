"""What was measured, as tables in a terminal and as a page."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from measuring import ROUNDS, Table, version_of
from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "benchmarks.md"
FIGURES = ROOT / "docs" / "benchmarks"


@dataclass
class Results:
    """What one run saw on one Python.

    Args:
        python: its version, as 3.11.
        machine: what it ran on, in words.
        seconds: of each table, of each way, the least time of one run.
        versions: of the distributions that were measured beside.
        absent: the ways that could not be run, and what they need.
    """

    python: str
    machine: str
    seconds: dict[str, dict[str, float]] = field(default_factory=dict[str, dict[str, float]])
    versions: dict[str, str] = field(default_factory=dict[str, str])
    absent: dict[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def here(cls) -> Results:
        """Return what is to be filled in a run on this Python."""
        return cls(".".join(platform.python_version_tuple()[:2]), described())

    @classmethod
    def all(cls) -> list[Results]:
        """Return what runs have left, the oldest Python first."""
        found = [cls(**json.loads(path.read_text())) for path in FIGURES.glob("3.*.json")]
        return sorted(found, key=lambda results: [int(part) for part in results.python.split(".")])

    def note(self, table: Table, seconds: Mapping[str, float]) -> None:
        """Keep what was seen of a table."""
        self.seconds[table.name] = dict(seconds)
        for way in table.ways:
            for name in way.missing():
                self.absent[f"{table.name}: {way.name}"] = name
            self.versions |= {name: found for name in way.needs if (found := version_of(name)) is not None}

    def save(self) -> None:
        """Leave it for the page; tables that were not run now stay as they were."""
        FIGURES.mkdir(exist_ok=True)
        path = FIGURES / f"{self.python}.json"
        before: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        kept = asdict(self)
        for name in ("seconds", "versions"):
            kept[name] = before.get(name, {}) | kept[name]
        path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")

    def ratio(self, table: Table, way: str, base: str) -> float | None:
        """Return how many times another way one costs; None if either was not run."""
        seconds = self.seconds.get(table.name, {})
        return seconds[way] / seconds[base] if way in seconds and base in seconds else None


def described() -> str:
    """Return which machine this is, as far as it decides the figures."""
    models = [line.partition(":")[2] for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    model = models[0].strip() if models else platform.processor()
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return f"{python}, {os.cpu_count()} cores of {model}, {platform.system()}"


def shown(table: Table, results: Results) -> Grid:
    """Return the grid of a table for a terminal."""
    if table.sizes:
        return by_size(table, results)
    grid = Grid(title=Text(table.title, style="bold"), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    grid.add_column("way", overflow="fold")
    grid.add_column("time", justify="right")
    grid.add_column(f"x {table.ways[0].name.partition(':')[0]}", justify="right")
    base = table.ways[0].name
    for way, seconds in ranked(table, results):
        style = "bold" if "ctxruntime" in way else ""
        grid.add_row(Text(way, style=style), unit(seconds), times(results.ratio(table, way, base)))
    for way in table.ways:
        if way.missing():
            grid.add_row(Text(way.name, style="dim"), "", Text(f"not run: no {', '.join(way.missing())}", style="dim"))
    return grid


def by_size(table: Table, results: Results) -> Grid:
    """Return the grid of a table of sizes: a line for each step, a column for each size."""
    grid = Grid(title=Text(table.title, style="bold"), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    heading, *lines = pivoted(table, results)
    for name in heading:
        grid.add_column(name, justify="left" if name == "step" else "right")
    for line in lines:
        grid.add_row(*line)
    return grid


def pivoted(table: Table, results: Results) -> list[list[str]]:
    """Return the lines of a table of sizes, the heading first."""
    seconds = results.seconds.get(table.name, {})
    steps = dict.fromkeys(way.name.partition(", ")[0] for way in table.ways)
    lines = [["step", *(f"{size:,}" for size in table.sizes)]]
    for step in steps:
        found = (seconds.get(f"{step}, {size:,}") for size in table.sizes)
        lines.append([step, *("not run" if taken is None else unit(taken) for taken in found)])
    return lines


def kept(tables: Iterable[Table], runs: list[Results]) -> list[tuple[str, str, float, list[float | None]]]:
    """Return each promise: what is done, which, at most, and the ratio of each run."""
    return [
        (table.title, f"{promise.way} / {promise.base}", promise.most,
         [results.ratio(table, promise.way, promise.base) for results in runs])
        for table in tables for promise in table.promises
    ]  # fmt: skip


def promises(tables: Iterable[Table], runs: list[Results]) -> Grid:
    """Return the grid of what is promised, for a terminal."""
    grid = Grid(title=Text("Promises", style="bold"), title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    grid.add_column("what", overflow="fold")
    for name in ("at most", *(results.python for results in runs)):
        grid.add_column(name, justify="right")
    for _, what, most, ratios in kept(tables, runs):
        cells = [Text(times(ratio), style="" if ratio is None or ratio <= most else "bold red") for ratio in ratios]
        grid.add_row(what, times(most), *cells)
    return grid


def ranked(table: Table, results: Results) -> list[tuple[str, float]]:
    """Return the ways that were run, the fastest first behind the limit."""
    seconds = results.seconds.get(table.name, {})
    base = table.ways[0].name
    return sorted(seconds.items(), key=lambda item: (item[0] != base, item[1]))


def unit(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    for size, name in ((1e-3, "ms"), (1e-6, "us")):
        if seconds >= size:
            return f"{seconds / size:.2f} {name}"
    return f"{seconds / 1e-9:.0f} ns"


def times(ratio: float | None) -> str:
    """Return a ratio with as many digits as it means something."""
    if ratio is None:
        return "not run"
    return f"{ratio:.2f}" if ratio < 10 else f"{ratio:.0f}"


METHOD = f"""\
# Benchmarks

What ctxruntime costs, beside the same by hand and beside the libraries that do parts of it. To run it again:

    pip install -e ".[bench]" && python tests/benchmarks --write

All ways of a table are run in one go: in slices of some hundred microseconds, in shuffled order, over {ROUNDS} rounds,
and of each way the least time of all its slices counts. What the machine does besides hits all of them alike, so that
ratios hold where times do not. What patches Python has a process of its own, and slices go round among the processes.
All processes are started anew twice on the way, as where one's memory lies by chance decides up to a seventh of a call.
Each peer is set up as its own documentation says. A ratio is that of the least times in one run; figures of separate
runs are never compared. In CI each promise is measured up to four times, and fails if it is missed by a tenth in all.
"""


def page(tables: Iterable[Table]) -> str:
    """Return the page of all that runs have left."""
    tables, runs = list(tables), Results.all()
    lines = [METHOD, *(f"- {results.machine}" for results in runs), "", "## Promises", ""]
    lines += row("what", "at most", *(results.python for results in runs))
    lines.append("|---|" + "--:|" * (len(runs) + 1))
    for title, what, most, ratios in kept(tables, runs):
        cells = (times(ratio) if ratio is None or ratio <= most else f"**{times(ratio)}**" for ratio in ratios)
        lines += row(f"{title}: {what}", times(most), *cells)
    lines.append("\nA figure in bold type misses its promise.")
    for table in tables:
        lines += section(table, runs)
    versions: dict[str, str] = {}
    for results in runs:
        versions |= results.versions
    lines += ["", "## What was measured beside", ""]
    lines += [", ".join(f"{name} {found}" for name, found in sorted(versions.items())) + "."]
    return "\n".join(lines) + "\n"


def section(table: Table, runs: list[Results]) -> list[str]:
    """Return a table's part of the page: of each way how many times the first of them it costs."""
    base = table.ways[0].name
    latest = runs[0] if runs else Results.here()
    plot = ["", f"![{table.title}](benchmarks/{table.name}.svg)"]
    lines = ["", f"## {table.title}", ""]
    if table.sizes:
        heading, *rest = pivoted(table, latest)
        return [*lines, *row(*heading), "|---|" + "--:|" * len(table.sizes), *(row(*cells)[0] for cells in rest), *plot]
    lines += row("way", f"time on {latest.python}", *(f"x on {results.python}" for results in runs))
    lines.append("|---|" + "--:|" * (len(runs) + 1))
    for way, seconds in ranked(table, latest):
        name = f"**{way}**" if "ctxruntime" in way else way
        lines += row(name, unit(seconds), *(times(results.ratio(table, way, base)) for results in runs))
    return [*lines, *plot]


def row(*cells: str) -> list[str]:
    return ["| " + " | ".join(cells) + " |"]


def show(console: Console, tables: Iterable[Table], results: Results) -> None:
    """Print what was seen in this run."""
    for table in tables:
        console.print(shown(table, results))
    console.print(promises(tables, [results]))
    console.print(Text(results.machine, style="dim"))
