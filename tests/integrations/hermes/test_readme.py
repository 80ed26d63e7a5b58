"""What the integration's README and example show is what the host takes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SHOWN = (
    ROOT / "integrations" / "ctxruntime_integrations" / "hermes" / "README.md",
    ROOT / "examples" / "hermes_plugin" / "__init__.py",
)


@pytest.mark.hermes
def test_no_command_that_is_shown_has_a_name_of_the_hosts_own(tmp_path: Path) -> None:
    """Hermes refuses those, with no more than a line in its log."""
    names = [name for file in SHOWN for name in re.findall(r'register_command\("(\S+?)"', file.read_text("utf-8"))]
    assert names

    program = f"from hermes_cli.commands import resolve_command as own\nprint([n for n in {names} if own(n)])"
    environment = {**os.environ, "HOME": str(tmp_path), "HERMES_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment, cwd=tmp_path
    )

    assert done.stdout == "[]\n"
