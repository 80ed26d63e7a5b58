"""Give every plugin command of Hermes Agent the session and the chat that it serves.

Hermes loads this module as its plugin ``ctxruntime`` (``plugins.enabled`` in its configuration). Importing it
before Hermes does the same, and covers the very first command too: importing arms it, ``uninstall()`` disarms
it. Neither imports anything of Hermes, nor needs it to be installed.

A plugin author names a parameter, and imports nothing:

    def where(raw_args, session_id=None, gateway_session_key=None):
        return f"{session_id} in {gateway_session_key}"
"""

from __future__ import annotations

from ._installation import INSTALLATION, PointState
from ._options import OPTIONS, SessionIdFallback

__all__ = ["PointState", "SessionIdFallback", "install", "register", "status", "uninstall"]


def install(*, session_id_fallback: SessionIdFallback | None = None, store: str | None = None) -> None:
    """Patch Hermes in this process: what is imported now, the rest as it is imported.

    Importing this package has done so; call it to set an option, or after `uninstall`. Calling it again
    patches nothing twice.

    Args:
        session_id_fallback: what handlers get for ``session_id`` in a chat that has no session yet. "off":
            nothing, their default stays. "gateway_key": the chat's key. Not given: what was given before,
            else what ``plugins.entries.ctxruntime.session_id_fallback`` in Hermes's configuration says,
            else "off".
        store: where it is kept which session ids are one conversation, and what plugins keep for each: a store's
            URL (`ctxruntime.conversation.open_store`), or "off". Not given: what was given before, else what
            ``plugins.entries.ctxruntime.store`` says, else the file ``ctxruntime.db`` in Hermes's home. Of no
            effect once the first event was let in, or where the program has a bridge in use by then.
    """
    if session_id_fallback is not None:
        OPTIONS.set_session_id_fallback(session_id_fallback)
    if store is not None:
        OPTIONS.set_store(store)
    INSTALLATION.start()


def uninstall() -> None:
    """Take everything out of Hermes again: its functions are the objects that they were. Can be called twice.

    What Hermes still holds of ours (an adapter's message handler) passes every call on. Options that
    `install` was given are forgotten.
    """
    INSTALLATION.stop()
    OPTIONS.clear()


def status() -> dict[str, PointState]:
    """Return the state of each patch point, by its name.

    "ok": ours is there; "absent": this Hermes has no such function; "pending": its module is not imported
    yet; "off": nothing is installed.
    """
    return INSTALLATION.status()


def register(ctx: object, /) -> None:
    """Serve as Hermes's plugin: Hermes calls it when it loads the plugin, and again at a forced reload."""
    INSTALLATION.start()


INSTALLATION.start()
