"""Acting on providers that are made later."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final

from ctxruntime.guarding import guard
from ctxruntime.hops.patching import Patch

__all__ = ["call_with_each"]

_following: Final = guard("telemetry: a provider is made")


def call_with_each(provider_class: type, act: Callable[[Any], object]) -> Callable[[], None]:
    """Call a function of ours with every provider of a class that is made from now on; return what ends that.

    It patches `__init__`, so that it gets those of subclasses too, before what their own `__init__` adds. The undo
    can be called twice.
    """

    def make(original: Callable[..., None]) -> Callable[..., None]:
        @wraps(original)
        def init(self: object, *args: Any, **kwargs: Any) -> None:
            original(self, *args, **kwargs)
            with _following:
                act(self)

        return init

    return Patch(provider_class, "__init__", make).apply().undo
