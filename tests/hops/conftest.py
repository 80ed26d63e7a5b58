from __future__ import annotations

from collections.abc import Iterator

import pytest

from ctxruntime.hops.install import Installation, install


@pytest.fixture
def installed() -> Iterator[Installation]:
    """Carrying over every hop while the test runs, and nothing of it left behind."""
    with install() as installation:
        yield installation
    assert not installation.active
