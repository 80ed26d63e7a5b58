"""Measure what ctxruntime costs, beside its peers.

python tests/benchmarks [TABLE ...] [--write]     # all tables; --write renews docs/benchmarks.md
"""

from __future__ import annotations

import argparse
import sys

from counting import repeat
from tables import TABLES
from workers import measured, serve


def main(arguments: list[str]) -> None:
    """Measure, print, and write if asked to."""
    if arguments[:1] == ["serve"]:
        serve(TABLES[arguments[1]], arguments[2:])
        return
    if arguments[:1] == ["repeat"]:
        repeat(TABLES[arguments[1]], arguments[2], int(arguments[3]))
        return
    parser = argparse.ArgumentParser(prog="python tests/benchmarks", description=__doc__.splitlines()[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=f"which to measure: {', '.join(TABLES)}")
    parser.add_argument("--write", action="store_true", help="renew docs/benchmarks.md with what is measured")
    given = parser.parse_args(arguments)
    unknown = [name for name in given.tables if name not in TABLES]
    if unknown:
        parser.error(f"no table is called {unknown[0]!r}: there are {', '.join(TABLES)}")
    from report import PAGE, Results, page, show
    from rich.console import Console

    console, results = Console(), Results.here()
    chosen = [TABLES[name] for name in given.tables or TABLES]
    for table in chosen:
        with console.status(f"measuring: {table.title}"):
            results.note(table, measured(table, [way for way in table.ways if not way.missing()]))
    show(console, chosen, results)
    if given.write:
        from plots import draw

        results.save()
        draw(TABLES.values(), Results.all()[0])
        PAGE.write_text(page(TABLES.values()))
        console.print(f"written: {PAGE.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
