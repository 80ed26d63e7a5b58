"""A Hermes plugin that records what its command handlers receive, one handler per kind of signature.

It runs inside the host's process and knows nothing of ctxruntime.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable
from typing import Any

RECORDS: list[dict[str, Any]] = []
phase = "none"


def ambient() -> dict[str, Any] | None:
    """Replaced by the driver where there is something to read."""
    return None


def record(style: str, *args: Any, **keys: Any) -> str:
    RECORDS.append(
        {
            "phase": phase,
            "style": style,
            "args": list(args),
            "keys": keys,
            "ambient": ambient(),
            "thread": threading.current_thread().name,
            "variables": variables(),
        }
    )
    return f"ok {style}"


def variables() -> dict[str, Any]:
    """The host's own variables, as a plugin reads them; None is never set."""
    from gateway import session_context as host

    values = {name: var.get() for name, var in host._VAR_MAP.items()}
    return {name: None if value is host._UNSET else value for name, value in values.items()}


def legacy(raw_args):
    return record("legacy", raw_args)


def named(raw_args, session_id="default", gateway_session_key="default"):
    if phase == "interrupted":
        raise KeyboardInterrupt("by the user")
    return record("named", raw_args, session_id=session_id, gateway_session_key=gateway_session_key)


def keyword_only(raw_args, *, session_id="default", gateway_session_key="default"):
    return record("keyword-only", raw_args, session_id=session_id, gateway_session_key=gateway_session_key)


def var_keyword(raw_args, **keys):
    return record("var-keyword", raw_args, **keys)


def required(raw_args, *, session_id):
    return record("required", raw_args, session_id=session_id)


def own_words(raw_args, frontend="mine", user_id="mine", platform="mine"):
    return record("own-words", raw_args, frontend=frontend, user_id=user_id, platform=platform)


def id_as_argument(session_id):
    """/id-as-argument ID: an old handler whose one parameter happens to have the name."""
    return record("id-as-argument", session_id)


async def coroutine(raw_args, session_id="default", gateway_session_key="default"):
    await asyncio.sleep(0)
    return record("coroutine", raw_args, session_id=session_id, gateway_session_key=gateway_session_key)


def raising(raw_args, session_id="default"):
    record("raising", raw_args, session_id=session_id)
    raise TypeError("raising() got a bug of its own")


async def raising_coroutine(raw_args, session_id="default"):
    await asyncio.sleep(0)
    record("raising-coroutine", raw_args, session_id=session_id)
    raise TypeError("raising_coroutine() got a bug of its own")


def _partial(prefix, raw_args, session_id="default", gateway_session_key="default"):
    return record("partial", prefix, raw_args, session_id=session_id, gateway_session_key=gateway_session_key)


class Handlers:
    def method(self, raw_args, session_id="default", gateway_session_key="default"):
        return record("method", raw_args, session_id=session_id, gateway_session_key=gateway_session_key)

    def __call__(self, raw_args, session_id="default", gateway_session_key="default"):
        return record("object", raw_args, session_id=session_id, gateway_session_key=gateway_session_key)


class CoroutineObject:
    async def __call__(self, raw_args, session_id="default", gateway_session_key="default"):
        await asyncio.sleep(0)
        keys = {"session_id": session_id, "gateway_session_key": gateway_session_key}
        return record("coroutine-object", raw_args, **keys)


HANDLERS: dict[str, Callable[..., Any]] = {
    "legacy": legacy,
    "named": named,
    "keyword-only": keyword_only,
    "var-keyword": var_keyword,
    "required": required,
    "own-words": own_words,
    "id-as-argument": id_as_argument,
    "method": Handlers().method,
    "object": Handlers(),
    "partial": functools.partial(_partial, "bound"),
    "coroutine": coroutine,
    "coroutine-object": CoroutineObject(),
    "raising": raising,
    "raising-coroutine": raising_coroutine,
}


def before_dispatch(**_):
    """What is in effect inside the door, where no command is dispatched; the message is dropped then."""
    if phase != "running-agent":
        return None
    record("hook")
    return {"action": "skip", "reason": "recorded"}


def register(ctx):
    ctx.register_hook("pre_gateway_dispatch", before_dispatch)
    for style, handler in HANDLERS.items():
        ctx.register_command(f"rec-{style}", handler, description="records what it gets")
