"""The face of the package: what `import ctxruntime as ctx` promises."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import pytest

import ctxruntime as ctx

FACE = Path(inspect.getfile(ctx))


def kind_then_name(name: str) -> tuple[int, str]:
    """Sort as isort does: constants, classes, all else."""
    if name.isupper():
        return 0, name
    return (1 if name[0].isupper() else 2), name


def test_all_is_sorted() -> None:
    """`__all__` is in isort's order: constants, classes, functions, each by name, none twice."""
    assert ctx.__all__ == sorted(set(ctx.__all__), key=kind_then_name)


@pytest.mark.parametrize("name", ctx.__all__)
def test_public_name_can_be_imported(name: str) -> None:
    """Each name of `__all__` is there, and `from ctxruntime import *` would find it."""
    namespace: dict[str, object] = {}
    exec(f"from ctxruntime import {name}", namespace)

    assert namespace[name] is getattr(ctx, name)
    assert name in dir(ctx)


def documented_constants() -> set[str]:
    """Return the constants that a string follows, which is how they are documented."""
    found: set[str] = set()
    for path in FACE.parent.rglob("*.py"):
        body = ast.parse(path.read_text(encoding="utf-8")).body
        for statement, after in pairwise(body):
            is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            if is_text and isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                found.add(statement.target.id)
    return found


@pytest.mark.parametrize("name", [name for name in ctx.__all__ if not name.isupper()])
def test_public_function_or_class_is_documented(name: str) -> None:
    """Each public function and class has a docstring of its own, whose first line is one sentence."""
    thing = getattr(ctx, name)
    first, *rest = (inspect.getdoc(thing) or "").splitlines()

    assert "__doc__" in vars(thing) or not isinstance(thing, type)
    assert first.endswith((".", ":"))
    assert len(first) <= 115
    assert not rest or rest[0] == ""


@pytest.mark.parametrize("name", [name for name in ctx.__all__ if name.isupper()])
def test_public_constant_is_documented(name: str) -> None:
    """Each public constant is a Key, or says in its module or by its type what it is."""
    thing = getattr(ctx, name)

    assert isinstance(thing, ctx.Key) or name in documented_constants() or inspect.getdoc(type(thing))


def test_no_name_leaks() -> None:
    """Nothing public is in the face but `__all__` and the modules of the package."""
    program = "import ctxruntime; print(*vars(ctxruntime))"
    names = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    leaked = [name for name in names if not name.startswith("_") and name not in ctx.__all__]
    modules = {path.stem for path in FACE.parent.iterdir()}
    assert set(leaked) - modules <= {"annotations", "TYPE_CHECKING"}


def test_names_that_load_later_are_there_at_once_after() -> None:
    """A name that is loaded on first use costs nothing on the second."""
    assert ctx.inject is vars(ctx)["inject"]


def test_unknown_name_is_an_attribute_error() -> None:
    """A name that is not there is refused as any module refuses it."""
    with pytest.raises(AttributeError, match="module 'ctxruntime' has no attribute 'nope'"):
        ctx.nope  # noqa: B018


def test_star_import_gives_the_face() -> None:
    """`from ctxruntime import *` gives `__all__` and nothing else."""
    namespace: dict[str, object] = {}
    exec("from ctxruntime import *", namespace)

    assert set(namespace) - {"__builtins__"} == set(ctx.__all__)
    assert not any(isinstance(thing, ModuleType) for name, thing in namespace.items() if name != "__builtins__")


def test_face_stays_small() -> None:
    """The face has about 25 names; everything else is in its module."""
    assert len(ctx.__all__) <= 33
