"""What ctxruntime raises: catchable as the builtin one would expect, and whole after pickling."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

import ctxruntime as ctx

ERRORS: list[tuple[ctx.CtxRuntimeError, tuple[type[Exception], ...]]] = [
    (ctx.UnboundKeyError("session_id"), (LookupError,)),
    (ctx.UnboundKeyError("session_id", "plugin.tool", "plugin.py:3"), (LookupError,)),
    (ctx.InvalidValueError("session_id", "takes str, not int", "give str(...)"), (ValueError, TypeError)),
    (ctx.UnknownKeyError("sesion_id", "did you mean 'session_id'?"), (TypeError,)),
    (ctx.DuplicateKeyError("tenant", "type"), (ValueError,)),
    (ctx.NoTurnError("session_id"), (RuntimeError,)),
]
EACH_ERROR = pytest.mark.parametrize("error", [error for error, _ in ERRORS], ids=lambda error: str(error)[:30])


@pytest.mark.parametrize(("error", "builtins"), ERRORS)
def test_error_is_the_builtin_one_would_catch(
    error: ctx.CtxRuntimeError, builtins: tuple[type[Exception], ...]
) -> None:
    """Every error has the one base, and is the builtin errors that its kind is known as."""
    assert isinstance(error, ctx.CtxRuntimeError)
    assert all(isinstance(error, builtin) for builtin in builtins)


@EACH_ERROR
def test_error_survives_pickling(error: ctx.CtxRuntimeError) -> None:
    """A pickled error keeps its type, its data and its message."""
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), vars(again), str(again)) == (type(error), vars(error), str(error))


@EACH_ERROR
def test_error_survives_copying(error: ctx.CtxRuntimeError) -> None:
    """A copied error says the same."""
    assert str(copy.deepcopy(error)) == str(error)


@EACH_ERROR
def test_error_passes_through_a_future(error: ctx.CtxRuntimeError) -> None:
    """An error that a pool job raised reaches whoever waits for it, the same object."""

    def job() -> None:
        raise error

    with ThreadPoolExecutor(1) as pool:
        future: Future[None] = pool.submit(job)
        assert future.exception() is error


def test_unbound_key_error_says_what_to_do() -> None:
    """An unbound key's message names the key and the two ways out."""
    assert str(ctx.UnboundKeyError("session_id")) == (
        "key 'session_id' is not bound here: enter session(session_id=...) at the entry point, or read it "
        "with a default"
    )


def test_unbound_key_error_names_handler_and_place() -> None:
    """Where a handler required the key, the message names the handler and its file and line."""
    assert "plugin.tool (plugin.py:3) requires key 'session_id'" in str(
        ctx.UnboundKeyError("session_id", "plugin.tool", "plugin.py:3")
    )


def test_unknown_key_error_suggests_or_tells_to_define() -> None:
    """An unknown name is told what was meant, or how to define it."""
    with pytest.raises(ctx.UnknownKeyError, match=r"'sessionid'.*did you mean 'session_id'\?"):
        ctx.session(sessionid="s1")
    with pytest.raises(ctx.UnknownKeyError, match=r"define it first, Key\('zzzz', str\)"):
        ctx.bind(zzzz="x")


def test_unknown_key_error_has_the_name() -> None:
    """Errors keep their data as attributes."""
    with pytest.raises(ctx.UnknownKeyError) as caught:
        ctx.amend(zzzz="x")
    assert caught.value.name == "zzzz"
