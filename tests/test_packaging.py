"""What is installed: names, versions, entry points, type markers."""

from __future__ import annotations

import subprocess
import sys
from importlib import metadata, resources, util

import pytest

import ctxruntime


def entry_point(group: str) -> metadata.EntryPoint:
    (found,) = metadata.distribution("ctxruntime").entry_points.select(group=group, name="ctxruntime")
    return found


def test_version_is_that_of_the_distribution() -> None:
    """`ctxruntime.__version__` is the version that pip shows."""
    assert ctxruntime.__version__ == metadata.version("ctxruntime")


def test_hermes_entry_point_is_a_module_with_register() -> None:
    """Hermes wants a module with a function `register`, not the function."""
    module = entry_point("hermes_agent.plugins").load()

    assert module.__name__ == "ctxruntime_integrations.hermes"
    assert callable(module.register)


def test_hermes_entry_point_loads_without_the_host() -> None:
    """Loading the entry point imports nothing of Hermes, so the host need not be installed."""
    program = """
import sys
from importlib import metadata

sys.modules["hermes_cli"] = None  # importing it raises, as if it were not there
(entry_point,) = metadata.entry_points(group="hermes_agent.plugins", name="ctxruntime")
print(entry_point.load().__name__)
"""

    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert answer.stdout == "ctxruntime_integrations.hermes\n"


def test_the_extra_that_old_loaders_look_for_is_there_and_empty() -> None:
    """Without `instruments`, opentelemetry-instrument loads no instrumentor at all in its versions on pkg_resources."""
    declared = metadata.metadata("ctxruntime")

    assert "instruments" in (declared.get_all("Provides-Extra") or [])
    assert not [line for line in declared.get_all("Requires-Dist") or [] if "instruments" in line]


@pytest.mark.parametrize("missing", ["opentelemetry.instrumentation", "opentelemetry.sdk"])
def test_instrumentor_entry_point_loads_without_what_it_serves(missing: str) -> None:
    """What reads all entry points can load it with the base install alone."""
    program = f"""
import sys
from importlib import metadata

sys.modules[{missing!r}] = None  # importing it raises, as if it were not there
(entry_point,) = metadata.entry_points(group="opentelemetry_instrumentor", name="ctxruntime")
print(entry_point.load().__module__)
"""

    answer = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, check=True)

    assert answer.stdout == "ctxruntime.telemetry.instrumentor\n"


def test_console_script_is_the_main_of_the_command_line() -> None:
    """The command `ctxruntime` calls `ctxruntime.cli.main`."""
    main = entry_point("console_scripts").load()

    assert main.__module__ == "ctxruntime.cli"
    assert callable(main)


@pytest.mark.parametrize("package", ["ctxruntime", "ctxruntime_integrations"])
def test_package_is_marked_as_typed(package: str) -> None:
    """Both packages have `py.typed`, so checkers read their annotations."""
    assert resources.files(package).joinpath("py.typed").is_file()


def test_no_package_called_integrations_is_installed() -> None:
    """`integrations` is a folder of the repository: at most a namespace, in an editable install."""
    spec = util.find_spec("integrations")

    assert spec is None or spec.origin is None


def test_extras_need_no_host() -> None:
    """The extra `hermes` installs no hermes-agent, which pins its own dependencies exactly."""
    requirements = metadata.requires("ctxruntime") or []

    assert not [line for line in requirements if line.startswith("hermes-agent")]
