"""Drive the real, unmodified Hermes in a process of its own, and write down what its plugin's handlers got.

    python drive DIRECTORY SITE LOAD

SITE is a module here, without ``site_``. LOAD is how ctxruntime gets in: ``alone`` (not at all), ``plugin``
(Hermes loads it through its entry point), ``import`` (imported before Hermes) or ``site`` (the site does it).
What is right is read from the host itself, without ctxruntime.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

import recorder
from world import INTEGRATION, World, read_ambient


def main(directory: Path, site: str, load: str) -> None:
    result: dict[str, Any] = {}
    try:
        world = World(directory, load)
        if load == "import":
            importlib.import_module(INTEGRATION)
        if load in ("plugin", "import"):
            recorder.ambient = read_ambient
        result = importlib.import_module(f"site_{site}").drive(world)
        result.update(refused=world.refused, log=world.log.entries, records=recorder.RECORDS)
    except BaseException:  # noqa: BLE001 - it is written down, and raised by whoever reads it
        result["error"] = traceback.format_exc()
    (directory / "record.json").write_text(json.dumps(result, default=str))
    sys.stdout.flush()
    os._exit(0)  # the host's daemon threads would hold the process


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:])
