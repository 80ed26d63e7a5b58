"""What the handlers of plugin commands receive, whatever their signature, at all four dispatch sites."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytestmark = pytest.mark.hermes

# Site of the drive, and its phase in which every handler was called within a session.
SITES = [("cli", "session"), ("gateway", "session"), ("tui", "dispatch"), ("tui", "slash")]
BOTH_KEYS = ["named", "keyword-only", "method", "object", "partial", "coroutine", "coroutine-object"]
LEGACY = ["legacy", "id-as-argument"]
EVERY = [*BOTH_KEYS, *LEGACY, "var-keyword", "required", "own-words", "raising", "raising-coroutine"]

RunHost = Callable[[str, str], Any]


@pytest.fixture(params=SITES, ids=[phase if phase != "session" else site for site, phase in SITES])
def dispatch(request: pytest.FixtureRequest, run_host: RunHost, load: str) -> tuple[Any, Any, str]:
    """A dispatch site: the run with ctxruntime, the run of the host alone, and the phase to look at."""
    site, phase = request.param
    return run_host(site, load), run_host(site, "alone"), phase


def right(run: Any, phase: str) -> dict[str, str]:
    """The keys that the host knows in a phase."""
    return {name: value for name, value in run["expect"][phase].items() if value is not None}


@pytest.mark.parametrize("style", BOTH_KEYS)
def test_handler_that_names_the_keys_gets_those_that_are_known(dispatch: tuple[Any, Any, str], style: str) -> None:
    """A parameter named like a key gets its value, and keeps its default where the host knows none."""
    run, _, phase = dispatch

    keys = run.call(phase, style)["keys"]

    assert keys == {"session_id": "default", "gateway_session_key": "default", **right(run, phase)}


def test_var_keyword_handler_gets_the_known_keys_and_no_others(dispatch: tuple[Any, Any, str]) -> None:
    """`**kwargs` receives session id and gateway key, not what is unknown and not what is the core's."""
    run, _, phase = dispatch

    assert run.call(phase, "var-keyword")["keys"] == right(run, phase)


def test_required_key_is_given(dispatch: tuple[Any, Any, str]) -> None:
    """A key parameter without a default, which the host alone cannot call, is called with the key."""
    run, alone, phase = dispatch

    assert run.call(phase, "required")["keys"] == {"session_id": right(run, phase)["session_id"]}
    assert alone.calls(phase, "required") == []


@pytest.mark.parametrize("style", LEGACY)
def test_one_argument_handler_gets_exactly_its_argument(dispatch: tuple[Any, Any, str], style: str) -> None:
    """An old handler receives what it always did, also when its one parameter has a key's name."""
    run, alone, phase = dispatch

    assert run.call(phase, style)["args"] == alone.call(phase, style)["args"]
    assert run.call(phase, style)["keys"] == {}


def test_parameters_that_only_look_like_keys_keep_their_defaults(dispatch: tuple[Any, Any, str]) -> None:
    """A plugin's own `frontend`, `user_id` and `platform` are the plugin's."""
    run, _, phase = dispatch

    assert set(run.call(phase, "own-words")["keys"].values()) == {"mine"}


@pytest.mark.parametrize("style", EVERY)
def test_handler_gets_the_text_behind_the_command(dispatch: tuple[Any, Any, str], style: str) -> None:
    """The argument that the host passes arrives unchanged, in every kind of handler."""
    run, alone, phase = dispatch
    expected = alone.call(phase, "legacy")["args"]

    assert run.call(phase, style)["args"] == (["bound", *expected] if style == "partial" else expected)


@pytest.mark.parametrize("style", ["raising", "raising-coroutine"])
def test_handler_that_raises_runs_once_and_its_error_goes_where_the_host_sends_it(
    dispatch: tuple[Any, Any, str], style: str
) -> None:
    """A TypeError of the handler's own is no reason to call it again, and is shown as by the host alone."""
    run, alone, phase = dispatch

    assert len(run.calls(phase, style)) == 1
    assert run["shown"][f"{phase} /rec-{style}"] == alone["shown"][f"{phase} /rec-{style}"]


def test_error_of_a_handler_is_not_ours(dispatch: tuple[Any, Any, str]) -> None:
    """An error of the plugin's is not logged as a fault of ctxruntime."""
    run, _, _ = dispatch

    assert "a bug of its own" not in str(run["log"])


@pytest.mark.parametrize("style", sorted({*EVERY} - {"required"}))
def test_answer_is_shown_as_by_the_host_alone(dispatch: tuple[Any, Any, str], style: str) -> None:
    """What a handler returns reaches the user as it did before."""
    run, alone, phase = dispatch

    assert run["shown"][f"{phase} /rec-{style}"] == alone["shown"][f"{phase} /rec-{style}"]


@pytest.mark.parametrize("style", EVERY)
def test_keys_are_in_effect_inside_the_handler(dispatch: tuple[Any, Any, str], style: str) -> None:
    """What any code reads inside a handler is what the host knows, and which conversation that is."""
    run, _, phase = dispatch
    known = {**run["facts"], **right(run, phase), "conversation_id": True}

    assert run.call(phase, style)["ambient"] == known


@pytest.mark.parametrize("style", ["coroutine", "coroutine-object", "raising-coroutine"])
def test_async_handler_in_the_hosts_helper_thread_has_its_keys(tui: Any, style: str) -> None:
    """Where a loop runs the host awaits in a thread of its own, born with nothing; the keys get there."""
    call = tui.call("in-loop", style)
    session_id = tui["expect"]["in-loop"]["session_id"]

    assert call["thread"] == "hermes-plugin-command-await"
    assert call["keys"]["session_id"] == session_id
    assert call["ambient"] == {"frontend": "tui", "session_id": session_id, "conversation_id": True}


def test_error_from_the_hosts_helper_thread_is_shown_as_by_the_host_alone(tui: Any, run_host: RunHost) -> None:
    """The error crosses back over the thread as it was."""
    name = "in-loop /rec-raising-coroutine"

    assert tui["shown"][name] == run_host("tui", "alone")["shown"][name]


@pytest.mark.parametrize(("style", "keys"), [("id-as-argument", {}), ("named", None)])
def test_empty_text_is_a_text(cli: Any, style: str, keys: dict[str, str] | None) -> None:
    """Without arguments the host passes "", which is the handler's argument and no missing key."""
    call = cli.call("no-arguments", style)

    assert call["args"] == [""]
    assert call["keys"] == (
        keys
        if keys is not None
        else cli.call("after-new", "named")["keys"] | {"session_id": cli["expect"]["no-arguments"]["session_id"]}
    )
