"""Give the hooks and middleware of plugins what their signatures take, in the session that the event is of.

The host's registries are left alone. For each call the host's own method runs on a *view* of its manager, in which
the callbacks of that event are adapted. So it does not matter who registered before us, or after a forced reload,
and undoing leaves no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_
from typing import Any, Final, final

from ctxruntime import GATEWAY_SESSION_KEY, SESSION_ID, adapt
from ctxruntime.guarding import guard
from ctxruntime.scope import Scope

from . import _host_store, identity
from ._doors import Entry, Facts, held, known, session_of_chat

__all__ = ["adapted", "adapting_callbacks", "forget", "hook_event", "middleware_event"]

Callback = Callable[..., Any]  # Any: the plugin's

MISSING: Final = ("",)
"""What the host passes for an id that it does not know, in a nested tool's call for one."""

_viewing: Final = guard("hermes: the callbacks of an event")
_kept: Final[dict[tuple[str, str], tuple[Sequence[Callback], list[Callback]]]] = {}
"""The callbacks of an event as they were registered, and adapted, by registry and event."""


def adapted(registry: str, event: str, callbacks: Sequence[Callback]) -> list[Callback]:
    """Return the callbacks of an event adapted, each once for as long as nothing else is registered."""
    kept = _kept.get((registry, event))
    if kept is not None and len(kept[0]) == len(callbacks) and all(map(is_, kept[0], callbacks)):
        return kept[1]
    if kept is not None:
        _kept.clear()  # the plugins were loaded again, and the old ones are not to live on here
    _kept[registry, event] = found = (tuple(callbacks), [_adapted(callback) for callback in callbacks])
    return found[1]


def _adapted(callback: Callback) -> Callback:
    with guard("hermes: adapt a hook"):
        return adapt(callback, missing=MISSING)
    return callback


def forget() -> None:
    """Let go of the callbacks."""
    _kept.clear()


@final
class View:
    """The host's manager, but for the callbacks of one event in one of its registries."""

    def __init__(self, manager: object, registry: str, callbacks: dict[str, list[Callback]]) -> None:
        own = vars(self)
        own["_ctxruntime_manager"] = manager
        own[registry] = callbacks

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["_ctxruntime_manager"], name)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(vars(self)["_ctxruntime_manager"], name, value)


def hook_event(original: Entry) -> Entry:
    """Replace ``PluginManager.invoke_hook``."""

    def invoke_hook(manager: Any, /, hook_name: Any, *args: object, **kwargs: object) -> object:
        view = _view(manager, "_hooks", hook_name)
        if view is manager or _is_of_here(kwargs):
            return original(view, hook_name, *args, **kwargs)
        with held("hook", scope_of_event, (), kwargs):
            return original(view, hook_name, *args, **kwargs)

    return invoke_hook


def middleware_event(original: Entry) -> Entry:
    """Replace ``PluginManager.invoke_middleware``, which serves the kinds that change a request."""

    def invoke_middleware(manager: Any, /, kind: Any, *args: object, **kwargs: object) -> object:
        view = _view(manager, "_middleware", kind)
        if view is manager or _is_of_here(kwargs):
            return original(view, kind, *args, **kwargs)
        with held("middleware", scope_of_event, (), kwargs):
            return original(view, kind, *args, **kwargs)

    return invoke_middleware


def adapting_callbacks(original: Entry) -> Entry:
    """Replace ``_get_middleware_callbacks``, which serves the kinds that wrap an execution."""

    def _get_middleware_callbacks(*args: object, **kwargs: object) -> object:
        callbacks = original(*args, **kwargs)
        with guard("hermes: adapt middleware"):
            if callbacks:
                kind = args[0] if args else kwargs.get("kind")
                return list(adapted("execution", str(kind), callbacks))
        return callbacks

    return _get_middleware_callbacks


def _view(manager: Any, registry: str, event: Any) -> object:
    """Return the manager to call: itself where nobody is registered for the event."""
    try:
        callbacks = getattr(manager, registry).get(event)
        # A copy, as the host hands none out that registering in it would change.
        return View(manager, registry, {event: list(adapted(registry, event, callbacks))}) if callbacks else manager
    except Exception as error:  # noqa: BLE001  # the guard's, without the cost of its `with`, which each event would pay
        _viewing.caught(error)
        return manager


def _is_of_here(event: dict[str, object]) -> bool:
    """Tell whether an event is of the session in effect, as nearly all are: `scope_of_event` would have none."""
    named = event.get("session_id")
    try:
        return type(named) is str and named != "" and named == SESSION_ID.get(None)
    except Exception as error:  # noqa: BLE001  # as above: what a linked variable of the host's holds decides what `==` does
        _viewing.caught(error)
        return False


def scope_of_event(**event: object) -> Scope[Any] | None:
    """Return the scope of an event of another session than the one in effect; None, and nothing to do, of this one.

    A sub-agent's start and stop are events of its parent. Whose event it is where it names no session: of whoever
    it happens in; what it asks an approval for says which chat.
    """
    named = event.get("session_id") or event.get("parent_session_id")
    if not named:
        return _scope_of_chat(event.get("session_key"))
    if named == SESSION_ID.get(None):
        return None
    session_id = known(SESSION_ID, "hook", lambda: named)
    if session_id is None:
        return None
    return session_of_chat({SESSION_ID: session_id}, identity.key_of(session_id))


def _scope_of_chat(key: object) -> Scope[Any] | None:
    """Return the scope of an event that names a chat, where no other says whose it is."""
    if not isinstance(key, str) or SESSION_ID.is_bound() or GATEWAY_SESSION_KEY.is_bound():
        return None
    session_id = _host_store.session_of(key)
    if session_id is None:
        return None
    facts: Facts = {SESSION_ID: known(SESSION_ID, "hook", lambda: session_id)}
    return session_of_chat(facts, known(GATEWAY_SESSION_KEY, "hook", lambda: key))
