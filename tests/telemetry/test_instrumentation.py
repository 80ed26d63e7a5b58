"""The spans that other libraries' instrumentation makes carry the keys as ours do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

import ctxruntime as ctx


class Answering(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), Answering)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def sessions(spans: Any) -> list[tuple[Any, Any]]:
    found = spans.exporter.get_finished_spans()
    return [(span.instrumentation_scope.name.rpartition(".")[2], span.attributes.get("session.id")) for span in found]


@pytest.mark.peers
def test_spans_of_httpx_carry_the_keys(spans: Any, url: str) -> None:
    """Requests of a client, and of an async client in tasks, are of the turn that makes them."""
    import httpx
    import opentelemetry.instrumentation.httpx as instrumentation

    instrumentor = instrumentation.HTTPXClientInstrumentor()
    instrumentor.instrument(tracer_provider=spans.provider)

    async def turn(client: Any, session_id: str) -> None:
        async with ctx.session(session_id=session_id):
            await client.get(url)

    async def main() -> None:
        async with httpx.AsyncClient() as client:
            await asyncio.gather(*(turn(client, f"s{number}") for number in range(5)))

    try:
        with httpx.Client() as client, ctx.session(session_id="sync"):
            client.get(url)
        asyncio.run(main())
    finally:
        instrumentor.uninstrument()

    assert sorted(sessions(spans)) == [*(("httpx", f"s{number}") for number in range(5)), ("httpx", "sync")]


@pytest.mark.peers
def test_spans_of_sqlalchemy_carry_the_keys(spans: Any) -> None:
    """Statements are of the turn that executes them, with an id that comes in the middle."""
    import opentelemetry.instrumentation.sqlalchemy as instrumentation
    import sqlalchemy

    engine = sqlalchemy.create_engine("sqlite://")
    instrumentor = instrumentation.SQLAlchemyInstrumentor()
    # It names the newest version it was tried with; what is tested here is ours.
    instrumentor.instrument(engine=engine, tracer_provider=spans.provider, skip_dep_check=True)
    try:
        with ctx.session(gateway_session_key="k1"), spans.span("turn"), engine.connect() as connection:
            ctx.amend(session_id="s1")
            connection.execute(sqlalchemy.text("select 1"))
    finally:
        instrumentor.uninstrument()
        engine.dispose()

    assert sessions(spans) == [("sqlalchemy", None), ("sqlalchemy", "s1"), ("tests", "s1")]
    assert {span.attributes["gateway.session_key"] for span in spans.exporter.get_finished_spans()} == {"k1"}
