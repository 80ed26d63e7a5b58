"""The example plugin in the host's home, as a user puts it there, and a model to have its tools blocked."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

from scripted_model import ScriptedModel
from world import World

EXAMPLE = Path(__file__).parents[4] / "examples" / "hermes_plugin"


def prepare(world: World, **settings: Any) -> ScriptedModel:
    """Give the host the example plugin, a model that uses a tool, and further settings; before it is imported."""
    model = ScriptedModel(world.home.parent)
    shutil.copytree(EXAMPLE, world.home / "plugins" / "tool-blocking")
    world.model_url = os.environ["OPENAI_BASE_URL"] = model.url
    world.configure()
    file = world.home / "config.yaml"
    configuration = json.loads(file.read_text())
    configuration["plugins"]["enabled"].append("tool-blocking")
    configuration["model"] |= {"api_key": "none", "context_length": 200000}
    file.write_text(json.dumps(configuration | settings))
    return model
