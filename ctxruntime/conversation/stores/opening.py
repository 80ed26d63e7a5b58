"""A store by its URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ctxruntime.conversation.stores.places import TIMEOUT

if TYPE_CHECKING:
    from ctxruntime.conversation.stores.base import Store

__all__ = ["open_store"]


def open_store(url: str, *, timeout: float = TIMEOUT) -> Store:
    """Return the store of a URL: `memory:`, `sqlite:PATH`, `redis://…` (`rediss://…`), `postgresql://…`.

    Nothing is opened before the first call. Redis needs the extra `redis`, PostgreSQL the extra `postgres`.

    Args:
        url: where it is. A path is relative to the working directory of this call.
        timeout: seconds within which a call fails if the store does not answer.

    Raises:
        ValueError: there is no store of this kind, or no such timeout. The message shows no password.
    """
    kind, separator, rest = url.partition(":")
    if kind == "memory" and separator and not rest:
        from ctxruntime.conversation.stores.memory import MemoryStore

        return MemoryStore()
    if kind == "sqlite" and rest:
        from ctxruntime.conversation.stores.sqlite import SQLiteStore

        return SQLiteStore(rest, timeout=timeout)
    if kind in ("redis", "rediss") and rest.startswith("//"):
        from ctxruntime.conversation.stores.redis import RedisStore

        return RedisStore(url, timeout=timeout)
    if kind in ("postgresql", "postgres") and rest.startswith("//"):
        from ctxruntime.conversation.stores.postgres import PostgresStore

        return PostgresStore(url, timeout=timeout)
    shown = f"a URL of the kind {kind[:20]!r}" if separator and kind.isalpha() else "such a URL"
    raise ValueError(
        f"no store has {shown}: give 'memory:', 'sqlite:PATH', 'redis://HOST:PORT/DB' or "
        f"'postgresql://USER@HOST/DATABASE'"
    )
