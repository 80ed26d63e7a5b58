"""Arrows point down: a module imports from its own floor or from those below it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import ctxruntime

PACKAGE = Path(ctxruntime.__file__).parent
FLOORS = [
    {"errors", "references"},
    {"layers"},
    {"generators", "guarding", "keys", "values", "subscriptions"},
    {"decorating"},
    {"scope", "amending", "doors", "binds", "effective", "handlers"},
    {"conversation", "wire"},
    {"hops"},
    {"demo", "telemetry"},
    {"running"},
    {"cli", "__main__"},
]
FLOOR_OF = {name: number for number, floor in enumerate(FLOORS) for name in floor}
MODULES = sorted(PACKAGE.rglob("*.py"))


def imported(path: Path) -> set[str]:
    """Return the parts of ctxruntime that a module imports from, itself left out."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name.split(".")[1] for name in names if name.startswith("ctxruntime.")}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_module_imports_nothing_from_above(path: Path) -> None:
    """Nothing is imported from a higher floor, nor from an integration; the face may import all but the top."""
    part = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    floor = FLOOR_OF["telemetry"] if part == "__init__" else FLOOR_OF[part]

    assert {name for name in imported(path) if FLOOR_OF[name] > floor} == set()
    assert "ctxruntime_integrations" not in path.read_text(encoding="utf-8") or part == "demo"
