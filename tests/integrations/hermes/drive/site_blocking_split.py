"""The example plugin as in ``site_blocking``, where compressed histories go on under new session ids."""

from __future__ import annotations

from typing import Any

from site_blocking import story
from world import World


def drive(world: World) -> dict[str, Any]:
    """Compressed histories go on under new session ids."""
    return story(world, in_place=False)
