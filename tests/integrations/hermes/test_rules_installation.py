"""Each of the functions that are replaced is put back, and is said to be what it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.hermes


def succeeds(program: str, home: Path) -> None:
    environment = {**os.environ, "HOME": str(home), "HERMES_HOME": str(home)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr


def test_uninstall_puts_back_every_function(tmp_path: Path) -> None:
    """Each patch point is another object while installed, and the host's very own again afterwards."""
    succeeds(
        """
import operator, sys
from ctxruntime_integrations import hermes
from ctxruntime_integrations.hermes._installation import POINTS
from ctxruntime_integrations.hermes.report import import_host
hermes.uninstall()
missing = import_host()
def there():
    return {
        str(point): operator.attrgetter(point.attribute)(sys.modules[point.module])
        for point in POINTS
        if before[str(point)] == "ok"
    }
hermes.install()
before = hermes.status()
ours = there()
hermes.uninstall()
own = there()
hermes.install()
assert ours, (before, missing)
for name, found in there().items():
    assert found is ours[name] is not own[name], name
    assert hasattr(found, "__ctxruntime_patch__") and not hasattr(own[name], "__ctxruntime_patch__"), name
hermes.uninstall()
for name, found in there().items():
    assert found is own[name], name
""",
        tmp_path,
    )


def test_report_says_of_what_is_not_imported_that_it_is_pending(tmp_path: Path) -> None:
    """Before the host is imported nothing is ok, and without an installation everything is off."""
    succeeds(
        """
from ctxruntime_integrations import hermes
from ctxruntime_integrations.hermes._installation import POINTS
from ctxruntime_integrations.hermes.report import lines
def states():
    return {line.split()[0] for line in list(lines(missing={}))[2 : 2 + len(POINTS)]}
assert states() <= {"pending", "absent"} and "pending" in states(), states()
hermes.uninstall()
assert states() == {"off"}, states()
""",
        tmp_path,
    )
