"""Every frontend that runs agents: command line, terminal UI, API server, ACP, cron; and approvals."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import threading
from types import SimpleNamespace
from typing import Any

import hook_recorder
from acting import KEY, agent, discover, happened, prepare, wait_for
from world import World, a_neighbour

ids: dict[str, Any] = {}


def drive(world: World) -> dict[str, Any]:
    """A turn in each frontend, one of them while a neighbour's session is in effect."""
    model = prepare(world, approvals={"mode": "manual", "destructive_slash_confirm": False})
    discover()
    approval(model)  # the terminal UI would have every approval asked for through it, in this whole process
    command_line()
    terminal_ui()
    asyncio.run(api_server())
    asyncio.run(acp())
    with a_neighbour(world):
        cron()
    return {"ids": ids, "key": KEY, "events": hook_recorder.EVENTS}


def command_line() -> None:
    import cli as host

    line = host.HermesCLI(model="stand-in", toolsets=["file"])
    hook_recorder.phase = "cli"
    screen = io.StringIO()
    with contextlib.redirect_stdout(screen):
        line.chat("[one] go")
    ids["cli"] = line.session_id
    hook_recorder.phase = "cli-new"
    with contextlib.redirect_stdout(screen):
        line.process_command("/new")
    ids["cli-new"] = [ids["cli"], line.session_id]


def terminal_ui() -> None:
    """A prompt whose request returns before the agent's thread goes on, and one that returns while it works."""
    import tui_gateway.server as host

    frames: list[Any] = []
    sink = SimpleNamespace(write=lambda frame: frames.append(frame) or True, close=lambda: None)

    def request(method: str, **params: Any) -> Any:
        rid = f"{len(frames)} {method}"
        answer = host.dispatch({"jsonrpc": "2.0", "id": rid, "method": method, "params": params}, sink)
        if answer is None:
            wait_for(lambda: any(frame.get("id") == rid for frame in tuple(frames)))
            answer = next(frame for frame in tuple(frames) if frame.get("id") == rid)
        return answer.get("result") or answer.get("error")

    hook_recorder.phase = "tui-start"
    ui_id = request("session.create", cols=80)["session_id"]
    session = host._sessions[ui_id]
    wait_for(lambda: session.get("agent") is not None and happened("tui-start", "on_session_reset"))
    submit, go_on = host._run_prompt_submit, threading.Event()

    def when_told(*args: Any) -> None:
        go_on.wait(30)
        submit(*args)

    working = threading.Event()

    def prompt(phase: str) -> None:
        hook_recorder.phase = phase
        params = {"session_id": ui_id, "text": "[one]"}
        host.dispatch({"jsonrpc": "2.0", "id": phase, "method": "prompt.submit", "params": params}, sink)
        go_on.set()
        wait_for(lambda: happened(phase, "on_session_end") and not session.get("running"))
        ids[phase] = session["agent"].session_id

    host._run_prompt_submit = when_told
    prompt("tui-returned")
    host._run_prompt_submit = submit

    method = host._methods["prompt.submit"]

    def slow(*args: Any) -> Any:
        answer = method(*args)
        working.wait(30)
        return answer

    hook_recorder.watchers.append(lambda name, _: working.set() if name == "pre_tool_call" else None)
    host._methods["prompt.submit"] = slow
    prompt("tui-working")
    host._methods["prompt.submit"] = method
    hook_recorder.watchers.clear()


async def api_server() -> None:
    from gateway.config import PlatformConfig
    from gateway.platforms.api_server import APIServerAdapter

    server = APIServerAdapter(PlatformConfig(enabled=True))
    hook_recorder.phase = "api"
    ids["api"] = "api-session"
    await server._run_agent("[one] go", [], session_id=ids["api"], gateway_session_key="client's key")


async def acp() -> None:
    from acp.schema import TextContentBlock
    from acp_adapter.server import HermesACPAgent

    server = HermesACPAgent()
    hook_recorder.phase = "acp"
    state = server.session_manager.create_session()
    ids["acp"] = state.agent.session_id
    await server.prompt([TextContentBlock(type="text", text="[one] go")], session_id=state.session_id)


def cron() -> None:
    from cron.scheduler import run_job

    hook_recorder.phase = "cron"
    ids["cron"] = run_job({"id": "job", "name": "job", "prompt": "[one] go"})[0]


def approval(model: Any) -> None:
    """A command that somebody has to approve, and does."""
    from tools.terminal_tool import set_approval_callback

    hook_recorder.phase = "approval"
    os.environ["HERMES_INTERACTIVE"] = "1"
    set_approval_callback(lambda *_, **__: "once")
    one = agent(model, gateway_session_key=KEY)
    ids["approval"] = one.session_id
    one.run_conversation("[danger] go")
