"""Integrations of the hosts that are installed here: they are imported before the program is.

An integration names its host in an entry point of the group `ctxruntime.hosts`: the distribution's name, and the
module that patches that host upon import.
"""

from __future__ import annotations

from importlib import metadata
from typing import Final

from ctxruntime.guarding import guard

__all__ = ["GROUP", "arm"]

GROUP: Final = "ctxruntime.hosts"


def arm() -> None:
    """Import the integration of each host that is installed; one that fails is logged, and costs only itself."""
    for entry_point in metadata.entry_points(group=GROUP):
        with guard(f"run: the integration of {entry_point.name}"):
            if _is_installed(entry_point.name):
                entry_point.load()


def _is_installed(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True
