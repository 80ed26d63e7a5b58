"""What of Hermes is patched, for people: ``python -m ctxruntime_integrations.hermes``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from urllib.parse import urlsplit

from ctxruntime.guarding import guard

from . import _host
from ._installation import INSTALLATION, POINTS, PointState
from ._options import OPTIONS
from .identity import FILE

__all__ = ["import_host", "lines", "main"]

WIDTH = max(len(state) for state in ("ok", "absent", "pending", "off"))


def lines(*, missing: dict[str, str]) -> Iterator[str]:
    """Yield the report on this process: each patch point, and what could not be imported and why, by module.

    "ok": ours is there. "absent": this Hermes has no such function. "pending": it has the module, and it is not
    imported. "off": nothing is installed.
    """
    yield f"hermes-agent {_host.version() or '(not installed)'}, Python {sys.version.split()[0]}"
    yield ""
    status = INSTALLATION.status()
    for point in POINTS:
        yield f"{_state(point, status[str(point)]):<{WIDTH}}  {point}"
    for module, reason in missing.items():
        yield f"{'':<{WIDTH}}  {module} cannot be imported: {reason}"[:80]
    if _host.version() is not None:
        yield ""
        yield from _settings()


def _state(point: _host.PatchPoint, state: PointState) -> PointState:
    return "absent" if state == "pending" and not _exists(point.module) else state


def _exists(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _settings() -> Iterator[str]:
    with guard("hermes: report of the settings"):
        enabled = _host.is_enabled()
        yield f"plugins.enabled in config.yaml names {_host.PLUGIN}: {'yes' if enabled else 'no'}"
        yield f"conversations are kept in: {_place(OPTIONS.store() or f'{FILE} in the home of Hermes')}"


def _place(store: str) -> str:
    """Return where a store is, of a server only its name: people show this report to others."""
    server = urlsplit(store)
    is_here = not server.scheme or server.scheme in ("memory", "sqlite")
    return store if is_here else f"{server.scheme}://{server.hostname or '...'}"


def import_host() -> dict[str, str]:
    """Import what we patch, as the host's frontends would; return what could not be imported, and why."""
    missing: dict[str, str] = {}
    for module in dict.fromkeys(point.module for point in POINTS):
        if _exists(module):
            try:
                import_module(module)
            except Exception as error:  # noqa: BLE001  # whatever the host raises is what is reported
                missing[module] = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return missing


def main() -> int:
    """Print the report on the host that is installed here; return 1 if there is none."""
    shown = sys.stdout  # a module of the host takes it for its own protocol
    if _host.version() is None:
        print("hermes-agent is not installed in this environment:", sys.executable, file=shown, flush=True)
        return 1
    INSTALLATION.start()
    missing = import_host()
    for line in lines(missing=missing):
        print(line, file=shown)
    shown.flush()
    return 0
