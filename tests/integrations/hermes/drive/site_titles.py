"""What the model is asked for a title: in each order of the host's threads, and where no turn is in effect."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Generator
from typing import Any

import hook_recorder
from acting import discover, prepare, wait_for
from actors import AtTheTui, Tui
from site_spans import record_spans
from world import World


def drive(world: World) -> dict[str, Any]:
    """Turns of which each is forced into one order, in a session of its own."""
    recorded = record_spans(world)
    prepare(world)
    discover()
    tui = Tui()
    threads = Titles()
    ids: dict[str, Any] = {}
    for order in (returned_before, returned_during, returned_after, title_in_the_next_turn, without_a_turn):
        threads.phase = hook_recorder.phase = order.__name__
        ids[order.__name__] = order(tui, threads)
        threads.done()
    threads.phase = hook_recorder.phase = "acp"
    ids["acp"] = asyncio.run(acp())
    threads.done()
    wait_for(lambda: recorded.open() == 0)
    return {"ids": ids, "spans": recorded.told()}


class Titles:
    """The host's threads that ask for titles: named by the order in which they began, and held where wanted."""

    def __init__(self) -> None:
        from agent import title_generator as host

        self.phase = ""
        self.begun: list[str] = []
        self.ended: list[str] = []
        self.go_on = threading.Event()
        self.go_on.set()
        original = host.auto_title_session

        def auto_title_session(*args: Any, **kwargs: Any) -> None:
            name = threading.current_thread().name = f"title {self.begun.count(self.phase)}"
            self.begun.append(self.phase)
            if name == "title 0":
                self.go_on.wait(60)
            original(*args, **kwargs)
            self.ended.append(self.phase)

        host.auto_title_session = auto_title_session

    def done(self) -> None:
        """Wait for those that were begun in this phase."""
        wait_for(lambda: self.phase in self.begun and len(self.ended) == len(self.begun))


def returned_before(tui: Tui, _: Titles) -> str:
    """The client's request has returned before the agent's turn begins."""
    returned = threading.Event()
    submit = tui.host._run_prompt_submit

    def later(*args: Any) -> None:
        returned.wait(60)
        submit(*args)

    window = AtTheTui(tui)
    with put(tui, "_run_prompt_submit", later):
        params = {"session_id": window.ui_id, "text": "[one] go"}
        tui.request("prompt.submit", **params)
        returned.set()
        wait_for(lambda: hook_recorded("on_session_end"))
    return idle(window)


def returned_during(tui: Tui, _: Titles) -> str:
    """The client's request returns while a tool of the agent's turn runs, which waits for that."""
    return returned_when(tui, "pre_tool_call", lambda: hook_recorded("pre_tool_call"))


def returned_after(tui: Tui, threads: Titles) -> str:
    """The client's request returns when the title has been asked for."""
    return returned_when(tui, "", lambda: threads.phase in threads.ended)


def returned_when(tui: Tui, waiting: str, happened: Callable[[], bool]) -> str:
    method, returned = tui.host._methods["prompt.submit"], threading.Event()

    def slow(*args: Any) -> Any:
        answer = method(*args)
        wait_for(happened)
        return answer

    window = AtTheTui(tui)
    hook_recorder.watchers.append(lambda name, _: returned.wait(60) if name == waiting else None)
    tui.host._methods["prompt.submit"] = slow
    tui.request("prompt.submit", session_id=window.ui_id, text="[one] go")
    returned.set()
    tui.host._methods["prompt.submit"] = method
    wait_for(lambda: hook_recorded("on_session_end"))
    hook_recorder.watchers.clear()
    return idle(window)


def title_in_the_next_turn(tui: Tui, threads: Titles) -> str:
    """The thread that asks for the first turn's title gets to do so in the second turn only."""
    window = AtTheTui(tui)
    threads.go_on.clear()
    window.turn("[one] go")
    wait_for(lambda: threads.phase in threads.begun)

    def meanwhile(name: str, _: object) -> None:
        if name == "pre_tool_call":
            threads.go_on.set()
            wait_for(lambda: threads.phase in threads.ended)

    hook_recorder.watchers.append(meanwhile)
    window.turn("[one] go on")
    hook_recorder.watchers.clear()
    return idle(window)


def without_a_turn(tui: Tui, _: Titles) -> str:
    """The host runs the agent for a notification, from a thread that serves the whole process."""
    import ctxruntime

    window = AtTheTui(tui)
    session = tui.host._sessions[window.ui_id]
    tui.host._start_agent_build(window.ui_id, session)
    wait_for(lambda: session.get("agent") is not None)
    session["running"] = True
    with ctxruntime.cleared():
        tui.host._run_prompt_submit("notification", window.ui_id, session, "[one] go")
    wait_for(lambda: hook_recorded("on_session_end"))
    return idle(window)


async def acp() -> str:
    """An editor's turn: the agent runs in another thread than the one that starts the title's."""
    from acp.schema import TextContentBlock
    from acp_adapter.server import HermesACPAgent

    server = HermesACPAgent()
    state = server.session_manager.create_session()
    await server.prompt([TextContentBlock(type="text", text="[one] go")], session_id=state.session_id)
    return str(state.agent.session_id)


@contextlib.contextmanager
def put(tui: Tui, name: str, value: object) -> Generator[None]:
    before = getattr(tui.host, name)
    setattr(tui.host, name, value)
    try:
        yield
    finally:
        setattr(tui.host, name, before)


def hook_recorded(event: str) -> bool:
    return any(one["phase"] == hook_recorder.phase and one["event"] == event for one in tuple(hook_recorder.EVENTS))


def idle(window: AtTheTui) -> str:
    """The session's id, when its last turn has ended."""
    session = window.tui.host._sessions[window.ui_id]
    wait_for(lambda: not session.get("running"))
    return window.session_id()
