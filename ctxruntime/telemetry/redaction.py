"""How a value is shown that must not be read: the same value alike within a deployment, and never itself.

The hash is HMAC-SHA256 under a key that the deployment gives, as hexadecimal digits: by `set_hash_key`, else in
the environment variable CTXRUNTIME_HASH_KEY. Without one it is a random key of this process: nothing leaks, but
hashes of two processes, or of two runs, cannot be compared; a warning says so once.
"""

from __future__ import annotations

import hmac
import os
import secrets
from typing import Final

from ctxruntime.telemetry.warned import warn

__all__ = ["HASH_KEY_VARIABLE", "hashed", "set_hash_key"]

HASH_KEY_VARIABLE: Final = "CTXRUNTIME_HASH_KEY"

_given: list[bytes] = []
_random: dict[str, bytes] = {}


def set_hash_key(key: str | bytes) -> None:
    """Hash the values of keys with `redact="hash"` under this key from now on, in this process.

    Give every process of a deployment the same key, from where it keeps its secrets; 32 random bytes are best.

    Raises:
        ValueError: the key is empty.
    """
    if not key:
        raise ValueError("the hash key is empty: give some 32 random bytes")
    _given[:] = [key.encode() if isinstance(key, str) else key]


def hashed(value: object) -> str:
    """Return the hash of a value: 64 hexadecimal digits."""
    return hmac.new(_hash_key(), str(value).encode("utf-8", "surrogatepass"), "sha256").hexdigest()


def _hash_key() -> bytes:
    if _given:
        return _given[0]
    if from_environment := os.environ.get(HASH_KEY_VARIABLE):
        return from_environment.encode("utf-8", "surrogateescape")
    key = _random.get("key")
    if key is None:
        ours = secrets.token_bytes(32)
        key = _random.setdefault("key", ours)  # of two threads that make one, the first has it
        if key is ours:
            warn(
                "no hash key is set, so redacted values of this process cannot be compared with those of others: "
                "set %s, or call ctxruntime.telemetry.set_hash_key",
                HASH_KEY_VARIABLE,
            )
    return key
