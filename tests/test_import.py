"""What `import ctxruntime` costs those who import it: no heavy module, and next to no time."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

HEAVY = ("wrapt", "inspect", "opentelemetry", "dataclasses", "pytest", "rich", "typer")

LOADED = """
import json, sys
before = set(sys.modules)
import ctxruntime
print(json.dumps(sorted(set(sys.modules) - before)))
"""


def run(program: str, *options: str) -> str:
    command = [sys.executable, *options, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.fixture(scope="module")
def loaded() -> list[str]:
    return list(json.loads(run(LOADED)))


@pytest.mark.parametrize("heavy", HEAVY)
def test_import_loads_nothing_heavy(loaded: list[str], heavy: str) -> None:
    """Importing the package loads none of what comes with the first use."""
    assert "ctxruntime" in loaded
    assert [name for name in loaded if name.split(".")[0] == heavy] == []


def test_import_loads_only_the_core(loaded: list[str]) -> None:
    """Handlers, hops and telemetry are loaded when they are used."""
    parts = {name.split(".")[1] for name in loaded if name.startswith("ctxruntime.")}

    assert "scope" in parts
    assert parts.isdisjoint({"handlers", "hops", "telemetry", "conversation", "wire", "demo", "cli"})


def test_reading_and_entering_load_nothing_heavy() -> None:
    """A turn with reads, a bind and an amend needs no more than the import."""
    program = LOADED.replace(
        "import ctxruntime",
        "import ctxruntime as ctx\n"
        "with ctx.session(session_id='s1'), ctx.bind(user_id='u1'):\n"
        "    ctx.amend(session_id='s2'); ctx.SESSION_ID.get(); ctx.current()",
    )

    assert not {name.split(".")[0] for name in json.loads(run(program))} & set(HEAVY)


def test_handlers_load_no_telemetry() -> None:
    """Injecting needs wrapt and inspect, and no OpenTelemetry."""
    names = json.loads(run(LOADED.replace("import ctxruntime", "import ctxruntime; ctxruntime.inject")))

    assert "wrapt" in names
    assert not [name for name in names if name.startswith("opentelemetry")]
