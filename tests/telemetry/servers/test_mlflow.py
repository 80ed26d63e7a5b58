"""What an operator finds in MLflow."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.server, pytest.mark.timeout(600)]


@pytest.mark.parametrize("preset", ["otel", "mlflow"])
def test_traces_are_found_by_their_session(sent: Any, preset: str) -> None:
    """A search for the metadata `mlflow.trace.session` finds the traces of that session."""
    found = sent("mlflow") if preset == "otel" else sent("mlflow", "--preset", "mlflow")

    assert found.answer["searched"] == found.answer["sessions"]
