"""How long callbacks of plugins that were adapted are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
from ctxruntime_integrations.hermes import hooks

import ctxruntime

pytestmark = [pytest.mark.hermes, pytest.mark.usefixtures("disarmed")]

Ids = list[tuple[str, str | None]]


@pytest.fixture(autouse=True)
def _nothing_kept() -> Iterator[None]:
    hooks.forget()
    yield
    hooks.forget()


def callback(name: str, seen: Ids) -> Callable[..., None]:
    def hook(session_id: str | None = None) -> None:
        seen.append((name, session_id))

    return hook


def test_callback_that_takes_anothers_place_is_the_one_that_is_called() -> None:
    """After a reload there are as many callbacks as before, and they are others."""
    seen: Ids = []
    with ctxruntime.session(session_id="s1"):
        for name in ("old", "new"):
            for hook in hooks.adapted("_hooks", "event", [callback(name, seen)]):
                hook()

    assert seen == [("old", "s1"), ("new", "s1")]


def test_callbacks_that_stay_are_adapted_once() -> None:
    """Each event and each registry has those of its own, in their order."""
    seen: Ids = []
    one, two = callback("one", seen), callback("two", seen)
    first = hooks.adapted("_hooks", "event", [one, two])
    other = hooks.adapted("_middleware", "event", [two])

    assert hooks.adapted("_hooks", "event", [one, two]) is first
    for hook in [*first, *other]:
        hook()
    assert seen == [("one", None), ("two", None), ("two", None)]


@pytest.mark.parametrize(
    ("replace", "registry"), [(hooks.hook_event, "_hooks"), (hooks.middleware_event, "_middleware")]
)
@pytest.mark.parametrize("registered", [True, False], ids=["heard", "not heard"])
def test_an_event_may_tell_of_a_manager(
    replace: Callable[[Callable[..., object]], Callable[..., object]], registry: str, registered: bool
) -> None:
    """What an event tells is its own: none of its names is taken by what stands in the host's method."""
    told: list[dict[str, object]] = []

    class Manager:
        def invoke(self, name: str, **event: object) -> None:
            told.append(event)

    setattr(Manager, registry, {"event": [print]} if registered else {})
    replace(Manager.invoke)(Manager(), "event", manager="somebody")

    assert told == [{"manager": "somebody"}]


@pytest.mark.parametrize(
    ("replace", "registry"), [(hooks.hook_event, "_hooks"), (hooks.middleware_event, "_middleware")]
)
@pytest.mark.parametrize(
    ("event", "served"),
    [
        pytest.param({"session_id": "s1"}, ("s1", "k1"), id="of the turn"),
        pytest.param({}, ("s1", "k1"), id="of nobody"),
        pytest.param({"session_id": ""}, ("s1", "k1"), id="of nobody known"),
        pytest.param({"session_id": "s2"}, ("s2", None), id="of another session"),
        pytest.param({"parent_session_id": "s2"}, ("s2", None), id="of another's child"),
        pytest.param({"session_id": 7}, ("s1", "k1"), id="of no session at all"),
    ],
)
def test_an_event_is_called_in_the_session_that_it_is_of(
    replace: Callable[[Callable[..., object]], Callable[..., object]],
    registry: str,
    event: dict[str, object],
    served: tuple[str, str | None],
) -> None:
    """Callbacks of an event of another session than the one in effect are called in that one, and in no chat's."""
    seen: list[object] = []

    def hook(**_: object) -> None:
        seen.append((ctxruntime.SESSION_ID.get(None), ctxruntime.GATEWAY_SESSION_KEY.get(None)))

    class Manager:
        def invoke(self, name: str, **told: object) -> None:
            for called in getattr(self, registry)[name]:
                called(**told)

    setattr(Manager, registry, {"event": [hook]})
    with ctxruntime.session(session_id="s1", gateway_session_key="k1"):
        replace(Manager.invoke)(Manager(), "event", **event)
        assert ctxruntime.SESSION_ID.get() == "s1"

    assert seen == [served]
