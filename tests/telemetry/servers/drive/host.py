"""A program with three frontends that serves two conversations at once, and sends its spans over OTLP.

    host.py URL PROJECT PREFIX [--preset NAME] [--pin trace|span] [--provider sdk|phoenix]
            [--header NAME=VALUE]

Conversation A has the session ids PREFIX-A1 and, from the middle of a turn on, PREFIX-A2; conversation B has
PREFIX-B1. On stdin are the lines of the command line's user; the other frontends' messages it sends itself.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import socketserver
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

import ctxruntime as ctx
from ctxruntime.guarding import fault_counts
from ctxruntime.telemetry import add_to

PATIENCE = 60
"""Seconds that anything may take."""


def provider_of(arguments: argparse.Namespace) -> TracerProvider:
    if arguments.provider == "sdk":
        provider = TracerProvider(resource=Resource({"openinference.project.name": arguments.project}))
        headers = dict(header.split("=", 1) for header in arguments.header)
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(arguments.url, headers=headers)))
        trace.set_tracer_provider(provider)
    else:
        from phoenix.otel import register

        provider = register(
            endpoint=arguments.url,
            project_name=arguments.project,
            protocol="http/protobuf",
            batch=True,
            verbose=False,
        )
    add_to(preset=arguments.preset, pin=arguments.pin)
    return provider


@dataclass
class Conversation:
    key: str
    session_id: str


class Host:
    """What the frontends share: the tracer, a pool whose workers serve everybody, the conversations."""

    def __init__(self, provider: TracerProvider, prefix: str) -> None:
        self.provider = provider
        self.span: Callable[..., Any] = provider.get_tracer("host").start_as_current_span
        self.start: Callable[..., Any] = provider.get_tracer("host").start_span
        self.pool = ThreadPoolExecutor(2)
        self.prefix = prefix
        self.conversations = {
            "A": Conversation("agent:main:discord:dm:7", f"{prefix}-A1"),
            "B": Conversation("agent:main:telegram:group:9", f"{prefix}-B1"),
        }
        self.meetings = {"first": threading.Barrier(4), "second": threading.Barrier(2)}
        """Every turn of a round has its root span open when the first goes on."""
        self.rotated = threading.Event()

    def meet(self, name: str) -> None:
        self.meetings[name].wait(PATIENCE)

    def work(self, name: str) -> None:
        """Do what leaves one span, in whichever flow."""
        with self.span(name):
            pass

    def work_until(self, name: str, opened: threading.Event, known: threading.Event) -> None:
        with self.span(name):
            opened.set()
            assert known.wait(PATIENCE)


class Gateway:
    """An asyncio gateway that serves each message by a task."""

    def __init__(self, host: Host) -> None:
        self.host = host

    async def serve(self) -> None:
        """Serve both conversations at the same time, and then a message more."""
        conversations = self.host.conversations
        async with asyncio.TaskGroup() as group:
            for of, conversation in conversations.items():
                group.create_task(self.late_id(conversation, f"gateway {of}, late id"))
        await asyncio.create_task(self.rotation(conversations["A"], "gateway A, rotation"))

    async def late_id(self, conversation: Conversation, name: str) -> None:
        """Begin with the gateway key alone; the session id is known once the agent has been made, in a thread."""
        host = self.host
        with ctx.session(gateway_session_key=conversation.key, frontend="gateway"), host.span(name):
            host.work("ended before")
            with ctx.bind(session_id=f"{host.prefix}-child"):
                host.work("early sub-agent")
            await asyncio.to_thread(host.provider.force_flush)
            aside, known, opened = host.start("not current"), threading.Event(), threading.Event()
            thread = threading.Thread(target=host.work_until, args=("open in a thread", opened, known))
            thread.start()
            await asyncio.to_thread(opened.wait, PATIENCE)
            await asyncio.to_thread(host.meet, "first")
            await asyncio.to_thread(self.make_agent, conversation)
            known.set()
            await asyncio.to_thread(thread.join)
            await self.everywhere()
            aside.end()

    def make_agent(self, conversation: Conversation) -> None:
        with self.host.span("agent"):
            ctx.amend(session_id=conversation.session_id)

    async def everywhere(self) -> None:
        """Leave a span in a task, a pool's job, a callback and a thread."""
        host, loop, called = self.host, asyncio.get_running_loop(), asyncio.Event()

        async def in_a_task() -> None:
            host.work("in a task")

        def call_back() -> None:
            host.work("in a callback")
            called.set()

        loop.call_later(0.01, call_back)
        thread = threading.Thread(target=host.work, args=("in a thread",))
        thread.start()
        await asyncio.gather(in_a_task(), loop.run_in_executor(host.pool, host.work, "in a pool"), called.wait())
        await asyncio.to_thread(thread.join)

    async def rotation(self, conversation: Conversation, name: str) -> None:
        """Begin with a known id, rotate in the middle, and make one more trace in the same turn."""
        host = self.host
        with ctx.session(gateway_session_key=conversation.key, session_id=conversation.session_id):
            with host.span(name):
                host.work("before the rotation")
                await asyncio.to_thread(host.meet, "second")
                conversation.session_id = f"{host.prefix}-A2"
                ctx.amend(session_id=conversation.session_id)
                host.rotated.set()
                await self.everywhere()
            with host.span(f"{name}, next trace", context=Context()):
                await asyncio.to_thread(host.work, "after the rotation")


class CommandLine:
    """A loop in the main thread that serves one line of stdin after the other."""

    def __init__(self, host: Host) -> None:
        self.host = host

    def serve(self) -> None:
        turns = {"sub-agent": self.sub_agent, "plain": self.plain}
        for line in sys.stdin:
            kind, of = line.split()
            if kind == "plain":
                assert self.host.rotated.wait(PATIENCE)
            conversation = self.host.conversations[of]
            with ctx.session(
                gateway_session_key=conversation.key,
                session_id=conversation.session_id,
                user_id=f"user of {of}",
                frontend="cli",
            ):
                turns[kind](f"cli {of}, {kind}")

    def sub_agent(self, name: str) -> None:
        """Have a sub-agent whose spans are the first of the trace that the backend gets."""
        host = self.host
        with host.span(name):
            with ctx.bind(session_id=f"{host.prefix}-child"), host.span("sub-agent"):
                host.work("its tool")
                host.pool.submit(host.work, "its tool in a pool").result(PATIENCE)
            host.provider.force_flush()
            host.meet("first")
            host.work("after the sub-agent")

    def plain(self, name: str) -> None:
        """Have a plugin answer, whose span shows what it was asked and what it said."""
        ctx.traced(name, record_input=True, record_output=True)(greet)("you")


@ctx.handler("tool")
def look_up(whom: str, session_id: str) -> str:
    return f"{whom}, in {session_id.rpartition('-')[2]}"


def greet(whom: str) -> str:
    return f"Hello {look_up(whom)}"


class Rpc(socketserver.TCPServer):
    """A server on loopback whose requests are served by a pool of threads."""

    def __init__(self, host: Host) -> None:
        super().__init__(("127.0.0.1", 0), socketserver.StreamRequestHandler)
        self.host = host
        self.pool = ThreadPoolExecutor(2)

    def process_request(self, request: Any, client_address: Any) -> None:
        self.pool.submit(self.turn, request)

    def turn(self, request: socket.socket) -> None:
        host = self.host
        with request, request.makefile("rw", encoding="utf-8") as lines:
            meeting, of = lines.readline().split()
            conversation = host.conversations[of]
            with (
                ctx.session(gateway_session_key=conversation.key, session_id=conversation.session_id),
                host.span(f"rpc {of}, {meeting}"),
            ):
                host.meet(meeting)
                wait([host.pool.submit(host.work, f"job {number}") for number in range(3)], PATIENCE)
            lines.write("done\n")

    def call(self, meeting: str, of: str) -> None:
        """Be the client, and see that there is an answer."""
        with (
            socket.create_connection(self.server_address[:2], PATIENCE) as connection,
            connection.makefile("rw", encoding="utf-8") as lines,
        ):
            lines.write(f"{meeting} {of}\n")
            lines.flush()
            assert lines.readline() == "done\n"

    def shut_down(self) -> None:
        self.shutdown()
        self.server_close()
        self.pool.shutdown()


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    for name in ("url", "project", "prefix"):
        parser.add_argument(name)
    parser.add_argument("--preset", default="otel")
    parser.add_argument("--pin", default="trace")
    parser.add_argument("--provider", default="sdk", choices=["sdk", "phoenix"])
    parser.add_argument("--header", action="append", default=[])
    return parser.parse_args()


def main() -> None:
    arguments = parsed()
    provider = provider_of(arguments)
    host = Host(provider, arguments.prefix)
    rpc = Rpc(host)
    with ctx.install(), ThreadPoolExecutor() as program:
        started = [
            program.submit(rpc.serve_forever, 0.01),
            program.submit(asyncio.run, Gateway(host).serve()),
            program.submit(lambda: [rpc.call(meeting, "B") for meeting in ("first", "second")]),
        ]
        try:
            CommandLine(host).serve()
            for future in started[1:]:
                future.result(PATIENCE)
        finally:
            rpc.shut_down()
    host.pool.shutdown()
    assert provider.force_flush()
    assert not fault_counts()
    provider.shutdown()


if __name__ == "__main__":
    main()
