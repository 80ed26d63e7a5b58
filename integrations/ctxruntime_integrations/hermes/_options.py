"""What a user can set about the integration."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, final

from ctxruntime.guarding import guard

from . import _host

__all__ = ["OPTIONS", "SessionIdFallback"]

SessionIdFallback: TypeAlias = Literal["gateway_key", "off"]

_FALLBACK: Final = "session_id_fallback"
_STORE: Final = "store"
_OFF: Final = (None, False, "", "off")  # YAML reads a bare `off` as False


@final
class Options:
    """The options in effect: what code said, else what Hermes's configuration says of its plugin."""

    def __init__(self) -> None:
        self._session_id_fallback: SessionIdFallback | None = None
        self._store: str | None = None

    def set_session_id_fallback(self, value: SessionIdFallback) -> None:
        """Take what code says."""
        if value not in ("gateway_key", "off"):
            raise ValueError(f"{_FALLBACK} is 'gateway_key' or 'off', not {value!r}")
        self._session_id_fallback = value

    def set_store(self, value: str) -> None:
        """Take what code says."""
        self._store = value

    def clear(self) -> None:
        """Forget what code said."""
        self._session_id_fallback = self._store = None

    def falls_back_to_gateway_key(self) -> bool:
        """Whether a chat without a session passes its gateway key for the session id.

        Read where it is needed: that is rare (a chat's first messages), and then a reload, an edit of the
        file and a profile with a configuration of its own need no code here.
        """
        if self._session_id_fallback is not None:
            return self._session_id_fallback == "gateway_key"
        with guard(f"hermes: option {_FALLBACK}"):
            value = _host.plugin_settings().get(_FALLBACK)
            if value == "gateway_key":
                return True
            if value not in _OFF:
                raise ValueError(f"plugins.entries.{_host.PLUGIN}.{_FALLBACK} is 'gateway_key' or 'off'")
        return False

    def store(self) -> str | None:
        """Return where conversations are kept: a store's URL, "off" for nowhere, None if nobody says."""
        if self._store is not None:
            return self._store
        with guard(f"hermes: option {_STORE}"):
            value = _host.plugin_settings().get(_STORE)
            if value is False:
                return "off"
            if value is not None and not isinstance(value, str):
                raise ValueError(f"plugins.entries.{_host.PLUGIN}.{_STORE} is a store's URL, or 'off'")
            return value or None
        return None


OPTIONS: Final = Options()
