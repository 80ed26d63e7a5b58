"""Give plugin command handlers what their signatures take, at all four places where Hermes calls them.

The registry of the host is left alone. Its entries are adapted as they are looked up, so that a forced reload
of the plugins needs nothing, nothing is wrapped twice, and undoing leaves no trace. What that misses is a
look-up that is itself what loads us, and it has no session around it either.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutine
from typing import Any

from ctxruntime import adapt, carry
from ctxruntime.guarding import guard

from .variables import with_variables

__all__ = ["adapting_lookup", "carrying_result"]


def adapting_lookup(original: Callable[..., Any]) -> Callable[..., Any]:  # Any: the host's
    """Replace ``get_plugin_command_handler``, which returns a handler or None."""

    def get_plugin_command_handler(*args: object, **kwargs: object) -> object:
        handler = original(*args, **kwargs)
        if callable(handler):
            with guard("hermes: adapt a command handler"):
                # The host passes the text behind the command, and no key: an empty text is a value.
                return with_variables(adapt(handler))
        return handler

    return get_plugin_command_handler


def carrying_result(original: Callable[..., Any]) -> Callable[..., Any]:  # Any: the host's, the plugins'
    """Replace ``resolve_plugin_command_result``, which may await in a thread born with nothing."""

    def resolve_plugin_command_result(result: Any, *args: object, **kwargs: object) -> object:
        if iscoroutine(result):
            with guard("hermes: carry a command's coroutine"):
                result = carry(result)
        return original(result, *args, **kwargs)

    return resolve_plugin_command_result
