"""The option `session_id_fallback`: what a handler gets for the id in a chat that has no session yet."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

hermes = pytest.mark.hermes


def session_id(run: Any, phase: str) -> str:
    value: str = run.call(phase, "named")["keys"]["session_id"]
    return value


@hermes
@pytest.mark.parametrize("phase", ["fallback-in-config", "fallback-in-code"])
def test_key_stands_in_for_the_id_where_that_is_asked_for(gateway: Any, phase: str) -> None:
    """With "gateway_key", in the plugin's section of the configuration or in code, the id is the key."""
    assert session_id(gateway, phase) == gateway["expect"][phase]["gateway_session_key"]


@hermes
def test_session_that_exists_is_the_id(gateway: Any) -> None:
    """The option changes nothing for a chat that has a session."""
    phase = "fallback-with-session"

    assert session_id(gateway, phase) == gateway["expect"][phase]["session_id"] != "default"


@hermes
def test_code_outranks_the_configuration(gateway: Any) -> None:
    """ "off" in code holds against "gateway_key" in the configuration."""
    assert session_id(gateway, "fallback-off-in-code") == "default"


@hermes
def test_misspelt_option_is_off_and_logged_once(gateway: Any) -> None:
    """A value that the option does not have is a warning that says what it has, not a failure."""
    assert session_id(gateway, "fallback-misspelt") == "default"
    (entry,) = gateway.logged("hermes: option session_id_fallback")
    assert "plugins.entries.ctxruntime.session_id_fallback is 'gateway_key' or 'off'" in entry["text"]


@pytest.mark.usefixtures("disarmed")
def test_misspelt_option_in_code_is_refused() -> None:
    """Who asks in code is told at once."""
    from ctxruntime_integrations import hermes as integration

    with pytest.raises(ValueError, match="session_id_fallback is 'gateway_key' or 'off', not 'gateway-key'"):
        integration.install(session_id_fallback="gateway-key")


def test_importing_needs_no_host() -> None:
    """Without the host the import arms it for later, imports nothing of it, and says so."""
    program = (
        "import sys; before = set(sys.modules)\n"
        "from ctxruntime_integrations import hermes\n"
        "assert set(hermes.status().values()) == {'pending'}, hermes.status()\n"
        "new = {name.partition('.')[0] for name in set(sys.modules) - before}\n"
        "assert not new & {'cli', 'gateway', 'tui_gateway', 'hermes_cli', 'agent', 'tools', 'utils'}, new\n"
        "hermes.uninstall()\n"
        "assert not any(type(finder).__module__.startswith('ctxruntime') for finder in sys.meta_path)\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True, env=dict(os.environ))
