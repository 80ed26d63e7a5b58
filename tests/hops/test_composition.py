"""Ours beside the patches of OpenTelemetry, Sentry and ddtrace, which replace the same functions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
# ddtrace has wheels for a new CPython last; pyproject.toml says for which it is asked.
NAMES = ["otel", "sentry", "ddtrace", "otel,sentry,ddtrace"]
if sys.version_info >= (3, 15):
    NAMES = ["otel", "sentry", "otel,sentry"]
AT_HOME = {
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
    "DD_TRACE_AGENT_URL": "http://127.0.0.1:9",
}
"""What keeps ddtrace from calling anybody."""


@pytest.mark.peers
@pytest.mark.parametrize("undone", ["ours", "theirs"])
@pytest.mark.parametrize("order", ["before", "after"])
@pytest.mark.parametrize("names", NAMES)
def test_both_carry_in_any_order(names: str, order: str, undone: str) -> None:
    """Ours and theirs both carry, whoever was there first, and until each is undone, whoever is undone first."""
    command = [sys.executable, str(HERE / "composing.py"), names, order, undone]
    run = subprocess.run(command, capture_output=True, text=True, timeout=100, env=os.environ | AT_HOME)

    assert run.returncode == 0, run.stderr[-3000:]
