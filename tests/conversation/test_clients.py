"""A store whose client library is missing says which extra brings it."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
sys.modules[sys.argv[1]] = None
from ctxruntime.conversation.stores import open_store
try:
    open_store(sys.argv[2])
except ImportError as error:
    print(error)
"""


@pytest.mark.parametrize(
    ("module", "url", "said"),
    [
        ("redis", "redis://127.0.0.1/0", "this store needs redis-py, which is not installed"),
        ("psycopg", "postgresql://127.0.0.1/x", "this store needs psycopg 3 and libpq (psycopg[binary] brings it), wh"),
    ],
)
def test_a_missing_client_is_named_with_its_extra(module: str, url: str, said: str) -> None:
    """Opening a store without its client library is an ImportError that gives the command to install it."""
    run = subprocess.run([sys.executable, "-c", PROGRAM, module, url], capture_output=True, text=True, timeout=60)

    assert run.stdout.startswith(said)
    assert run.stdout.endswith(f"pip install 'ctxruntime[{ {'redis': 'redis', 'psycopg': 'postgres'}[module] }]'\n")
