"""Play the script at the four places where Hermes calls a plugin's commands; run as a process of its own.

Standard output has one JSON document per line: a conversation, with the ids that Hermes itself gave it; what was
answered to an event, if anything was; in the end, the notes.

Read from hermes-agent 0.19.0, which is imported by name: nothing here needs it for a type.
"""

from __future__ import annotations

import asyncio
import json
import os
import queue
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from typing import Any, Final, TypeAlias

from ctxruntime.demo.hermes_plugin import NOTES, PLAYED, hermes_name
from ctxruntime.demo.plugins import HEARD
from ctxruntime.demo.run import counted
from ctxruntime.demo.script import Conversation, Event

Deliver: TypeAlias = Callable[[Sequence[Event]], object]
"""Hand the events of several conversations to the host, and return when it is through with them."""

PATIENCE: Final = 20.0
LOOPBACK: Final = ("127.0.0.1", "::1", "localhost")


def tell(**fact: object) -> None:
    """Tell the parent process something."""
    print(json.dumps(fact), file=sys.__stdout__, flush=True)


def play(conversations: Sequence[Conversation], deliver: Deliver) -> None:
    """Play the script in conversations of one frontend, and tell what was answered."""
    for conversation in conversations:
        tell(conversation=asdict(conversation))
    for command in PLAYED:
        events = [Event(conversation, command) for conversation in conversations]
        deliver(events)
        for event in events:
            heard = [text for text in HEARD if text.split(" -> ")[0] == event.text]
            answer = counted(heard[-1], heard) if heard else None
            tell(session_id=event.conversation.session_id, command=event.command, answer=answer)


def typed(event: Event) -> str:
    """Return what is typed in Hermes."""
    return f"/{hermes_name(event.command)} {event.text}"


def conversation(frontend: str, number: int, session_id: str, key: str | None = None) -> Conversation:
    """Describe a session that Hermes has made."""
    return Conversation(frontend, session_id, f"note {number} in {frontend}", key)


# The four sites


def command_line() -> None:
    """`HermesCLI.process_command`, of two command lines by turns."""
    lines = {line.session_id: line for line in (import_module("cli").HermesCLI(model="none") for _ in "12")}

    def deliver(events: Iterable[Event]) -> None:
        for event in events:
            lines[event.conversation.session_id].process_command(typed(event))

    play([conversation("cli", n, session_id) for n, session_id in enumerate(lines, 1)], deliver)


def gateway() -> None:
    """`GatewayRunner._handle_message`, through an adapter, for two chats at the same time."""
    with asyncio.Runner() as loop:
        runner, adapter = loop.run(_gateway_on_loop())
        base = import_module("gateway.platforms.base")
        sources: dict[str, Any] = {}
        conversations: list[Conversation] = []
        for number in (1, 2):
            source = import_module("gateway.session").SessionSource(
                platform=adapter.platform, chat_id=f"chat-{number}", chat_type="group", user_id=f"user-{number}"
            )
            session = runner.session_store.get_or_create_session(source)
            sources[session.session_id] = source
            conversations.append(conversation("gateway", number, session.session_id, session.session_key))

        async def deliver(events: Iterable[Event]) -> None:
            for event in events:
                await adapter.handle_message(
                    base.MessageEvent(
                        text=typed(event),
                        message_type=base.MessageType.COMMAND,
                        source=sources[event.conversation.session_id],
                        message_id=event.text,
                    )
                )
            async with asyncio.timeout(PATIENCE):
                while tasks := tuple(adapter._background_tasks):
                    await asyncio.wait(tasks)

        play(conversations, lambda events: loop.run(deliver(events)))


async def _gateway_on_loop() -> tuple[Any, Any]:
    """Return a gateway, as its `start` leaves it, and its one adapter."""
    config = import_module("gateway.config")
    run = import_module("gateway.run")
    platform = config.PlatformConfig(enabled=True, token="none")
    runner = run.GatewayRunner(config.GatewayConfig(platforms={config.Platform.DISCORD: platform}))
    adapter = _adapter_class()(platform, config.Platform.DISCORD)
    runner.adapters[config.Platform.DISCORD] = adapter
    adapter.set_message_handler(runner._handle_message)
    adapter.set_session_store(runner.session_store)
    runner._running = True
    runner._gateway_loop = asyncio.get_running_loop()
    return runner, adapter


def _adapter_class() -> Any:
    """Return an adapter for a platform that takes every message and has no network."""
    base = import_module("gateway.platforms.base")

    async def taken(self: object, *args: object, **options: object) -> Any:
        return base.SendResult(success=True, message_id="1")

    methods = ("connect", "disconnect", "send", "send_typing", "get_chat_info")
    return type("Adapter", (base.BasePlatformAdapter,), dict.fromkeys(methods, taken))


def dispatch() -> None:
    """`command.dispatch` of the TUI's server, for two of its sessions."""

    def params(event: Event) -> Mapping[str, str]:
        return {"name": hermes_name(event.command), "arg": event.text}

    _tui("dispatch", "command.dispatch", params)


def slash() -> None:
    """`slash.exec` of the TUI's server, for two of its sessions."""
    _tui("slash", "slash.exec", lambda event: {"command": typed(event)})


def _tui(frontend: str, method: str, params: Callable[[Event], Mapping[str, str]]) -> None:
    client = TuiClient()
    created = client.ask("session.create", {"1": {"cols": 80}, "2": {"cols": 80}})
    uis = {client.session_id(result["session_id"]): result["session_id"] for result in created.values()}

    def deliver(events: Iterable[Event]) -> None:
        client.ask(
            method,
            {event.text: {**params(event), "session_id": uis[event.conversation.session_id]} for event in events},
        )

    play([conversation(frontend, n, session_id) for n, session_id in enumerate(uis, 1)], deliver)


class TuiClient:
    """The other end of the TUI's server, and the transport between them."""

    def __init__(self) -> None:
        self._server = import_module("tui_gateway.server")
        self._frames: queue.Queue[Any] = queue.Queue()

    def write(self, frame: object) -> bool:
        """Take what the server sends, from whichever of its threads."""
        self._frames.put(frame)
        return True

    def close(self) -> None:
        """Have nothing to close."""

    def ask(self, method: str, params: Mapping[str, Mapping[str, object]]) -> dict[str, Any]:
        """Send requests of one method, by id, all before the first response; return the results."""
        for rid, given in params.items():
            request = {"jsonrpc": "2.0", "id": rid, "method": method, "params": dict(given)}
            at_once = self._server.dispatch(request, self)
            if at_once is not None:
                self.write(at_once)
        results: dict[str, Any] = {}
        while results.keys() != params.keys():
            frame = self._frames.get(timeout=PATIENCE)
            if frame.get("id") in params:
                results[frame["id"]] = frame.get("result")
        return results

    def session_id(self, ui: str) -> str:
        """Return what Hermes calls the session that the UI has a short name for."""
        return str(self._server._sessions[ui]["session_key"])


# The process


def refuse_the_network(event: str, args: tuple[Any, ...]) -> None:
    """Let no connection out: an audit hook, as Hermes may look something up when it starts."""
    if event == "socket.connect" and isinstance(args[1], tuple) and args[1][0] not in LOOPBACK:
        raise OSError("the demo uses no network")


def main() -> None:
    """Start as Hermes's frontends do, and play the script at each site."""
    sys.addaudithook(refuse_the_network)
    sys.stdout = sys.stderr  # where the parent keeps what Hermes prints
    import_module("hermes_cli.plugins").discover_plugins()
    for site in (command_line, gateway, dispatch, slash):
        site()
    tell(notes=NOTES.notes)
    os._exit(0)  # Hermes leaves threads behind that nobody waits for


if __name__ == "__main__":
    main()
