"""Faults that people reported in public, as they go with ctxruntime: what carrying over hops mends."""

from __future__ import annotations

import asyncio
import decimal
import functools
import gc
import logging
import os
import queue
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, nullcontext, suppress
from contextvars import ContextVar, copy_context
from multiprocessing.pool import ThreadPool
from typing import Any

import fastapi
import httpx
import pytest
from opentelemetry import trace
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

import ctxruntime as ctx
from ctxruntime import wire
from ctxruntime.hops import Executor
from ctxruntime.hops.install import install

CRON = ctx.Key("cases_cron", bool)
CHAT = ctx.Key("cases_chat", wire=True)
TOPIC = ctx.Key("cases_topic", wire=True)
HOSTS: ContextVar[str] = ContextVar("cases_hosts", default="unset")
Job = Callable[[], Any]


def here(*_: object) -> Any:
    return ctx.SESSION_ID.get(None)


def pool_born_elsewhere(stack: ExitStack, kind: type[ThreadPoolExecutor] = ThreadPoolExecutor) -> ThreadPoolExecutor:
    """Return a pool whose only worker has served another session before."""
    pool = stack.enter_context(kind(1))
    with ctx.session(session_id="someone-else"):
        pool.submit(here).result(10)
    return pool


def plain_pool(stack: ExitStack) -> ThreadPoolExecutor:
    """Return a pool whose only worker was started by nobody."""
    pool = stack.enter_context(ThreadPoolExecutor(1))
    pool.submit(here).result(10)
    return pool


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


# 01: what is sent to a pool


async def by_default_executor(job: Job, pool: ThreadPoolExecutor) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, job)


async def by_executor(job: Job, pool: ThreadPoolExecutor) -> Any:
    return await asyncio.get_running_loop().run_in_executor(pool, job)


async def by_submit(job: Job, pool: ThreadPoolExecutor) -> Any:
    return pool.submit(job).result(10)


async def by_map(job: Job, pool: ThreadPoolExecutor) -> Any:
    return next(pool.map(lambda _: job(), [0]))


SENDING = pytest.mark.parametrize("send", [by_default_executor, by_executor, by_submit, by_map])
Send = Callable[[Job, ThreadPoolExecutor], Awaitable[Any]]


@SENDING
@pytest.mark.asyncio
@pytest.mark.usefixtures("installed")
async def test_case_01_pool_jobs_have_the_session(send: Send, stack: ExitStack) -> None:
    """What is sent to a pool sees the sender's session: a function, a partial, and on a reused thread."""
    pool = pool_born_elsewhere(stack)
    with ctx.session(session_id="chat-7"):
        assert [await send(job, pool) for job in (here, functools.partial(here, 1), here)] == ["chat-7"] * 3
    with ctx.session(session_id="chat-8"):
        assert await send(here, pool) == "chat-8"
    assert await send(here, pool) is None


@SENDING
@pytest.mark.asyncio
async def test_case_01_explicitly(send: Send, stack: ExitStack) -> None:
    """The same without any patch: with `carry`, and with an executor that carries."""
    plain, carrying = plain_pool(stack), pool_born_elsewhere(stack, Executor)
    with ctx.session(session_id="chat-7"):
        assert await send(ctx.carry(functools.partial(here, 1)), plain) == "chat-7"
        assert await send(ctx.capture().wrap(here), plain) == "chat-7"
        if send is not by_default_executor:
            assert await send(here, carrying) == "chat-7"
    if send is not by_default_executor:
        assert await send(here, carrying) is None


# 04: a consumer that the first request starts


@pytest.mark.asyncio
@pytest.mark.parametrize("way", ["snapshot", "carry"])
@pytest.mark.parametrize("form", ["installed", "explicit"])
async def test_case_04_consumer_task_started_by_the_first_request(
    way: str, form: str, request: pytest.FixtureRequest
) -> None:
    """Each item is served under who put it, and between two the consumer that alice's request started is nobody's."""
    if form == "installed":
        request.getfixturevalue("installed")
    items: asyncio.Queue[Any] = asyncio.Queue()
    idle: list[Any] = []
    consumers: list[asyncio.Task[None]] = []

    async def consume() -> None:
        while True:
            idle.append(here())
            item, put, done = await items.get()
            if way == "carry":
                put(item, done)
            else:
                async with put:
                    await asyncio.to_thread(here)
                    serve(item, done)

    served: list[Any] = []

    def serve(item: str, done: asyncio.Event) -> None:
        served.append((item, here()))
        done.set()

    async def request_of(who: str) -> None:
        with ctx.session(session_id=who):
            if not consumers:
                with ctx.cleared():
                    consumers.append(asyncio.create_task(consume()))
            done = asyncio.Event()
            items.put_nowait((who, ctx.carry(serve) if way == "carry" else ctx.capture(), done))
            await done.wait()

    for who in ("alice", "bob"):
        await asyncio.create_task(request_of(who))
    consumers[0].cancel()

    assert served == [("alice", "alice"), ("bob", "bob")]
    assert set(idle) == {None}


def lazy_consumer(items: queue.Queue[Any], served: list[Any]) -> None:
    while (item := items.get()) is not None:
        who, job = item
        served.append((who, job(), here()))


@pytest.mark.parametrize("form", ["denied", "cleared", "explicit"])
def test_case_04_consumer_thread_started_by_the_first_request(form: str) -> None:
    """The same for a thread, that was named in the deny list, was started under `cleared()`, or meets no patch."""
    items: queue.Queue[Any] = queue.Queue()
    served: list[Any] = []
    with ExitStack() as stack:
        if form != "explicit":
            stack.enter_context(install(deny=[f"{__name__}.lazy_consumer"] if form == "denied" else []))
        thread = threading.Thread(target=lazy_consumer, args=(items, served))
        with ctx.session(session_id="alice"):
            with ctx.cleared() if form != "denied" else nullcontext():
                thread.start()
            items.put(("alice", ctx.carry(here)))
        with ctx.session(session_id="bob"):
            items.put(("bob", ctx.carry(here)))
        items.put(None)
        thread.join(10)

    assert served == [("alice", "alice", None), ("bob", "bob", None)]


# 05: a carried stream that is left early


async def leave_by_break(stream: Any) -> None:
    async for _ in stream:
        break
    del stream
    gc.collect()


async def leave_by_cancel(stream: Any) -> None:
    started = asyncio.Event()

    async def consume() -> None:
        async for _ in stream:
            started.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(consume())
    await started.wait()
    task.cancel()
    await asyncio.wait([task])
    await stream.aclose()


async def leave_by_aclose_in_another_task(stream: Any) -> None:
    await anext(stream)
    with ctx.session(session_id="elsewhere"):
        await asyncio.create_task(stream.aclose())


async def leave_by_aclose_in_another_thread(stream: Any) -> None:
    await anext(stream)
    loop = asyncio.get_running_loop()
    await asyncio.to_thread(lambda: asyncio.run_coroutine_threadsafe(stream.aclose(), loop).result(10))


LEAVING = [leave_by_break, leave_by_cancel, leave_by_aclose_in_another_task, leave_by_aclose_in_another_thread]


@pytest.mark.parametrize("leave", LEAVING, ids=lambda leave: leave.__name__)
@pytest.mark.usefixtures("installed")
def test_case_05_carried_stream_left_early(leave: Any, caplog: pytest.LogCaptureFixture) -> None:
    """However a carried stream is left, it ends in its session, its consumer's stays, and nothing is logged."""
    ended: list[Any] = []
    closed = asyncio.Event()

    async def stream() -> AsyncIterator[Any]:
        try:
            while True:
                yield here()
        finally:
            await asyncio.to_thread(lambda: ended.append(here()))
            closed.set()

    async def main() -> Any:
        with ctx.session(session_id="inner"):
            carried: Any = ctx.carry(stream())
        with ctx.session(session_id="outer"):
            leaving = leave(carried)
            del carried
            await leaving
            at_once = here()
            async with asyncio.timeout(10):
                await closed.wait()  # after a break, the loop closes it as soon as it can
            return at_once, here()

    with caplog.at_level(logging.INFO):
        assert asyncio.run(main()) == ("outer", "outer")
    assert ended == ["inner"]
    assert caplog.records == []


# 10: a marker that sticks


def careless_cron_job() -> None:
    ctx.session({CRON: True}).open()
    HOSTS.set("cron")


def failing_cron_job() -> None:
    careless_cron_job()
    raise LookupError


def chat_turn() -> list[bool]:
    return [CRON.get(False), HOSTS.get() == "cron"]


@pytest.mark.parametrize("cron_job", [careless_cron_job, failing_cron_job])
@pytest.mark.parametrize("kind", ["installed", "Executor"])
def test_case_10_marker_is_gone_with_the_job(cron_job: Job, kind: str, request: pytest.FixtureRequest) -> None:
    """What a job binds and never undoes is gone when it ends, also by an error, and the environment is unchanged."""
    environment = dict(os.environ)
    if kind == "installed":
        request.getfixturevalue("installed")
    with (ThreadPoolExecutor if kind == "installed" else Executor)(1) as pool:
        pool.submit(cron_job).exception(10)
        with ctx.session(session_id="chat"):
            in_a_turn = pool.submit(chat_turn).result(10)
        outside = pool.submit(chat_turn).result(10)

    assert (in_a_turn, outside) == ([False, False], [False, False])
    assert dict(os.environ) == environment


@pytest.mark.parametrize("cron_job", [careless_cron_job, failing_cron_job])
@pytest.mark.usefixtures("installed")
def test_case_10_marker_in_a_multiprocessing_pool(cron_job: Job) -> None:
    """The same on the threads of `multiprocessing.pool`, and for what a completion callback binds."""
    with ThreadPool(1) as pool:
        with suppress(LookupError):
            pool.apply(cron_job)
        called_back = threading.Event()

        def on_done(_: object) -> None:
            ctx.session({CRON: True}).open()
            called_back.set()

        for _ in range(2):
            pool.apply_async(here, callback=on_done).get(10)
            assert called_back.wait(10)
        assert pool.apply(chat_turn) == [False, False]


@pytest.mark.parametrize("way", ["wrap", "carry"])
def test_case_10_marker_explicitly(way: str, stack: ExitStack) -> None:
    """On a worker that is not patched, a scope that a job opened and closed by `with` is gone, also after an error."""
    pool = plain_pool(stack)

    def cron_job() -> None:
        with ctx.session({CRON: True}):
            raise LookupError

    with ctx.session(session_id="cron"):
        job = ctx.capture().wrap(cron_job) if way == "wrap" else ctx.carry(cron_job)
    assert isinstance(pool.submit(job).exception(10), LookupError)
    assert pool.submit(chat_turn).result(10) == [False, False]
    assert pool.submit(here).result(10) is None


# 11: what an endpoint finds out


def by_starlette(endpoint: Any, dispatch: Any) -> Any:
    class AccessLog(BaseHTTPMiddleware):
        async def dispatch(self, request: Request, call_next: Any) -> Response:
            answer: Response = await dispatch(request, call_next)
            return answer

    return Starlette(routes=[Route("/{name}", endpoint)], middleware=[Middleware(AccessLog)])


async def get(app: Any, *paths: str) -> list[str]:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        return [response.text for response in await asyncio.gather(*map(client.get, paths))]


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize("form", ["installed", "nothing patched"])
async def test_case_11_login_in_the_endpoint_reaches_the_middleware(
    kind: str, form: str, request: pytest.FixtureRequest
) -> None:
    """The user that an endpoint amends is in its own request's access log, and in no other's at the same time."""
    if form == "installed":
        request.getfixturevalue("installed")
    log: dict[str, Any] = {}
    together = threading.Barrier(2)

    def login(request: Request) -> Response:
        name = request.path_params["name"]
        if name != "anonymous":
            ctx.amend(user_id=name)
        if kind == "sync":
            together.wait(10)
        return PlainTextResponse(ctx.USER_ID.get("nobody"))

    async def alogin(request: Request) -> Response:
        response = login(request)
        await asyncio.to_thread(together.wait, 10)
        return response

    async def dispatch(request: Request, call_next: Any) -> Response:
        with ctx.session(session_id=request.url.path):
            response: Response = await call_next(request)
            log[request.url.path] = ctx.USER_ID.get(None)
            return response

    app = by_starlette(alogin if kind == "async" else login, dispatch)
    assert await get(app, "/u42", "/u43") == ["u42", "u43"]
    assert await get(app, "/u44", "/anonymous") == ["u44", "nobody"]
    assert log == {"/u42": "u42", "/u43": "u43", "/u44": "u44", "/anonymous": None}


# 12: a completion that somebody else delivers


def spawn_thread(deliver: Callable[[str], None], background: ThreadPoolExecutor) -> None:
    threading.Thread(target=deliver, args=("build",)).start()


def spawn_timer(deliver: Callable[[str], None], background: ThreadPoolExecutor) -> None:
    threading.Timer(0.01, deliver, ("build",)).start()


def spawn_with_callback(deliver: Callable[[str], None], background: ThreadPoolExecutor) -> None:
    background.submit(str, "build").add_done_callback(lambda future: deliver(future.result()))


def spawn_carried(deliver: Callable[[str], None], background: ThreadPoolExecutor) -> None:
    background.submit(ctx.carry(deliver), "build")


SPAWNING = [spawn_thread, spawn_timer, spawn_with_callback, spawn_carried]


@pytest.mark.parametrize("spawn", SPAWNING, ids=lambda spawn: spawn.__name__)
@pytest.mark.parametrize("meanwhile", ["nothing", "B", "new"])
@pytest.mark.usefixtures("installed")
def test_case_12_completion_belongs_to_its_spawner(spawn: Any, meanwhile: str, stack: ExitStack) -> None:
    """A completion goes to who started the work, when A was closed or replaced, and whoever drains the queue."""
    done: queue.Queue[tuple[Any, str]] = queue.Queue()
    held = threading.Event()

    def deliver(result: str) -> None:
        held.wait(10)
        done.put((here(), result))

    background = pool_born_elsewhere(stack)
    with ctx.session(session_id="A", gateway_session_key="chat") as turn:
        spawn(deliver, background)
    assert turn.ended
    next_turn: dict[str, Any] = {"B": {"session_id": "B"}, "new": {"session_id": "B", "gateway_session_key": "chat"}}
    with ctx.session(**next_turn[meanwhile]) if meanwhile in next_turn else ctx.cleared():
        held.set()
        assert done.get(timeout=10) == ("A", "build")


@pytest.mark.parametrize("way", ["carry", "snapshot"])
def test_case_12_explicitly(way: str) -> None:
    """The same without a patch: what waits in the queue was carried, or came with its snapshot."""
    done: queue.Queue[Any] = queue.Queue()

    def completion() -> tuple[Any, str]:
        return here(), "build"

    with ctx.session(session_id="A"):
        waiting = ctx.carry(completion) if way == "carry" else functools.partial(ctx.capture().run, completion)
    thread = threading.Thread(target=done.put, args=(waiting,))
    thread.start()
    thread.join(10)
    with ctx.session(session_id="B"):
        assert (done.get()(), here()) == (("A", "build"), "B")


# 13: a pool inside a pool


def through_pool(job: Job) -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(job).result(10)


def through_workers(job: Job) -> Any:
    with ThreadPool(1) as pool:
        return pool.apply(job)


def through_thread(job: Job) -> Any:
    future: Future[Any] = Future()
    threading.Thread(target=lambda: future.set_result(job())).start()
    return future.result(10)


def through_loop(job: Job) -> Any:
    async def main() -> Any:
        return await asyncio.get_running_loop().run_in_executor(None, job)

    return asyncio.run(main())


THROUGH = [through_pool, through_workers, through_thread, through_loop]


def nested(levels: list[Callable[[Job], Any]], job: Job) -> Job:
    for level in levels:
        job = functools.partial(level, job)
    return job


@pytest.mark.parametrize("innermost", THROUGH, ids=lambda through: through.__name__)
@pytest.mark.usefixtures("installed")
def test_case_13_any_depth(innermost: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """At any depth of hops within hops a tool has its parent's chat, and never a value of the process."""
    monkeypatch.setenv("SESSION_KEY", "someone-elses-chat")

    def key() -> str:
        return ctx.SESSION_ID.get("") if ctx.current_turn() else os.environ["SESSION_KEY"]

    with ctx.session(session_id="parent-chat"):
        assert nested([innermost, *THROUGH, *THROUGH], key)() == "parent-chat"
    with ctx.session(session_id=None):  # not known is an answer, too
        assert nested([innermost, *THROUGH], key)() == ""
    assert nested([innermost, *THROUGH], key)() == "someone-elses-chat"


@pytest.mark.usefixtures("installed")
def test_case_13_sub_agents_own_session() -> None:
    """A sub-agent that is bound within a hop has its own id at any depth, and the parent's others."""
    both = [ctx.SESSION_ID, ctx.GATEWAY_SESSION_KEY]

    def sub_agent() -> Any:
        with ctx.bind(session_id="child"):
            return nested(THROUGH, lambda: [key.get(None) for key in both])()

    with ctx.session(session_id="parent-chat", gateway_session_key="chat"):
        assert through_pool(sub_agent) == ["child", "chat"]
        assert through_pool(here) == "parent-chat"


@pytest.mark.parametrize("way", ["Executor", "carry"])
def test_case_13_explicitly(way: str) -> None:
    """The same where each hop is an executor that carries, or each job was carried."""

    def through(job: Job) -> Any:
        with Executor(1) if way == "Executor" else ThreadPoolExecutor(1) as pool:
            return pool.submit(job if way == "Executor" else ctx.carry(job)).result(10)

    with ctx.session(session_id="parent-chat"):
        assert nested([through] * 4, here)() == "parent-chat"


# 17: what a child process is told


CHILD = (
    "from ctxruntime import Key, session, wire\n"
    "chat, topic = (Key(f'cases_{name}', wire=True) for name in ('chat', 'topic'))\n"
    "with session(wire.from_env(trust=(chat, topic))):\n"
    "    print(chat.get(None), topic.get(None))\n"
)


def child(**options: Any) -> list[str]:
    command = [sys.executable, "-W", "ignore", "-c", CHILD]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, **options).stdout.split()


@pytest.fixture
def stale(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Leave in the environment what an earlier turn put there."""
    monkeypatch.setenv("BAGGAGE", "cases_chat=old-chat,cases_topic=old-topic,not_ours=kept")
    before = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    yield
    assert {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"} == before


@pytest.mark.usefixtures("stale", "installed")
@pytest.mark.parametrize("through", THROUGH, ids=lambda through: through.__name__)
def test_case_17_child_is_told_what_is_bound_and_nothing_stale(through: Any) -> None:
    """A child gets the chat that is live where it is started, over any hop, and no topic of an earlier turn."""
    with ctx.session({CHAT: "live-chat"}):
        assert through(lambda: child(env=wire.child_env())) == ["live-chat", "None"]
    assert through(lambda: child(env=wire.child_env())) == ["None", "None"]


@pytest.mark.usefixtures("stale")
def test_case_17_without_touching_the_call_site() -> None:
    """With `install(subprocesses=True)` the same is true of a child that is started as ever, also with its own env."""
    with install(subprocesses=True), ctx.session({CHAT: "live-chat"}):
        assert through_pool(child) == ["live-chat", "None"]
        assert child(env=dict(os.environ)) == ["live-chat", "None"]


# 19: one callable, many workers


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("way", ["map", "callback", "pool"])
def test_case_19_one_job_for_many_workers(way: str) -> None:
    """What is handed over once and called by three workers at the same time has its session in each, and again."""
    together = threading.Barrier(3)
    seen: queue.Queue[Any] = queue.Queue()

    def job(*_: object) -> None:
        together.wait(10)
        seen.put(here())

    with ThreadPoolExecutor(3) as pool, ThreadPool(3) as workers:
        for _ in range(2):
            with ctx.session(session_id="s1"):
                if way == "map":
                    pool.map(job, range(3))
                elif way == "pool":
                    workers.map(job, range(3), chunksize=1)
                else:
                    for future in (go := [Future[None]() for _ in range(3)]):
                        future.add_done_callback(job)
            if way == "callback":
                with ctx.session(session_id="s2"):
                    for future in go:
                        pool.submit(future.set_result, None)
            assert [seen.get(timeout=10) for _ in range(3)] == ["s1"] * 3


# 20: a body that is streamed after the endpoint returned


class Client:
    """A client of an ASGI server, that leaves after the first chunk of a body."""

    def __init__(self, spec_version: str) -> None:
        self.scope = {"type": "http", "method": "GET", "path": "/s1", "headers": [], "query_string": b""}
        self.scope["asgi"] = {"version": "3.0", "spec_version": spec_version}
        self.chunks: list[str] = []
        self.left = asyncio.Event()

    async def receive(self) -> dict[str, Any]:
        await self.left.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        if self.left.is_set():
            raise OSError
        if message.get("body"):
            self.chunks.append(message["body"].decode())
            self.left.set()


def streaming(body: Any, sessions: list[Any]) -> Starlette:
    async def endpoint(request: Request) -> Response:
        with ctx.session(session_id=request.path_params["name"]):
            sessions.append(ctx.current_turn())
            return StreamingResponse(ctx.carry(body()))

    return Starlette(routes=[Route("/{name}", endpoint)])


@pytest.mark.asyncio
@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize("form", ["installed", "nothing patched"])
async def test_case_20_streamed_bodies(kind: str, form: str, request: pytest.FixtureRequest) -> None:
    """A carried body has its request's session at each step, also on a thread, and two at once have their own."""
    if form == "installed":
        request.getfixturevalue("installed")

    async def body() -> AsyncIterator[str]:
        for _ in range(3):
            yield here()
            await asyncio.sleep(0)

    def threaded_body() -> Iterator[str]:
        for _ in range(3):
            yield here()

    app = streaming(body if kind == "async" else threaded_body, [])
    assert await get(app, "/s1", "/s2") == ["s1s1s1", "s2s2s2"]


@pytest.mark.parametrize("spec_version", ["2.3", "2.4"], ids=["server tells", "sending fails"])
@pytest.mark.usefixtures("installed")
def test_case_20_client_that_leaves(spec_version: str, caplog: pytest.LogCaptureFixture) -> None:
    """When the client leaves, the body ends in its session, nothing is logged, and nothing keeps the turn alive."""
    ended: list[Any] = []
    sessions: list[Any] = []

    async def body() -> AsyncIterator[str]:
        try:
            while True:
                yield here()
                await asyncio.sleep(0)
        finally:
            ended.append(here())

    async def main() -> Any:
        client = Client(spec_version)
        with suppress(Exception):  # newer versions of starlette tell the server that its client left
            await streaming(body, sessions)(client.scope, client.receive, client.send)
        gc.collect()
        await asyncio.sleep(0)
        return client.chunks, here()

    with caplog.at_level(logging.INFO):
        assert asyncio.run(main()) == (["s1"], None)
    assert ended == ["s1"]
    assert [turn.ended for turn in sessions] == [True]
    assert caplog.records == []


# 26: a sub-agent's generator


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("through", THROUGH, ids=lambda through: through.__name__)
def test_case_26_generator_that_is_stepped_over_hops(through: Any) -> None:
    """A sub-agent's generator that is stepped on another thread each time is the child's, and the host the parent's."""

    @ctx.bind(session_id="child")
    def sub_agent() -> Iterator[Any]:
        while True:
            yield through(here)

    with ctx.session(session_id="parent"):
        agent: Any = sub_agent()
        steps = [lambda: (next(agent), here()), lambda: (agent.send(None), here())]
        assert [through(step) for step in steps] == [("child", "parent")] * 2
        assert here() == "parent"
        through(agent.close)


# Extras


def fastapi_app(out: list[Any]) -> fastapi.FastAPI:
    def amending() -> None:
        ctx.amend(session_id="sync-dep")

    def amending_then_clearing_up() -> Iterator[None]:
        ctx.amend(session_id="yield-dep")
        yield
        out.append(here())

    def binding() -> Iterator[None]:
        with ctx.bind(session_id="bound in the dependency"):
            out.append(here())
            yield
        out.append(here())

    async def binding_async() -> AsyncIterator[None]:
        with ctx.bind(session_id="async-dep"):
            yield

    app = fastapi.FastAPI()
    for path, dependency in {"a": amending, "b": amending_then_clearing_up, "c": binding, "d": binding_async}.items():
        app.get(f"/{path}", dependencies=[fastapi.Depends(dependency)])(route)
        app.get(f"/{path}-sync", dependencies=[fastapi.Depends(dependency)])(sync_route)
    app.middleware("http")(entry_point)
    return app


async def route() -> Any:
    return here()


def sync_route() -> Any:
    return here()


async def entry_point(request: Request, call_next: Any) -> Response:
    with ctx.session(session_id=None, frontend="web"):
        response: Response = await call_next(request)
        response.headers["x-session"] = here() or "none"
        return response


@pytest.mark.asyncio
@pytest.mark.parametrize("suffix", ["", "-sync"])
@pytest.mark.parametrize(
    ("path", "seen", "outside", "out"),
    [
        ("/a", "sync-dep", "sync-dep", []),
        ("/b", "yield-dep", "yield-dep", ["yield-dep"]),
        # A thread's binding is the thread's own: what the route should see is amended. It ends without an error.
        ("/c", None, "none", ["bound in the dependency", None]),
        ("/d", "async-dep", "none", []),
    ],
)
@pytest.mark.usefixtures("installed")
async def test_case_e01_fastapi_dependencies(
    path: str, suffix: str, seen: Any, outside: str, out: list[Any], caplog: pytest.LogCaptureFixture
) -> None:
    """What a dependency amends is seen by the route and the middleware, on threads too, and what it binds ends well."""
    noted: list[Any] = []
    transport = httpx.ASGITransport(fastapi_app(noted))
    with caplog.at_level(logging.WARNING):
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            response = await client.get(path + suffix)

    assert (response.json(), response.headers["x-session"]) == (seen, outside)
    assert noted == out
    assert caplog.records == []


GEVENT = """
import gevent, gevent.pool, greenlet, sys
import ctxruntime as ctx
if sys.argv[1] == "installed":
    ctx.install()
    take = lambda fn: fn
else:
    take = ctx.carry
here = lambda: ctx.SESSION_ID.get(None)
with ctx.session(session_id="s1"):
    seen = [
        gevent.spawn(take(here)).get(),
        greenlet.greenlet(take(here)).switch(),
        gevent.get_hub().threadpool.apply(take(here)),
    ]
    made = gevent.Greenlet(take(here))
with ctx.session(session_id="s2"):
    made.start()
    seen += [made.get(), gevent.pool.Pool(2).apply(take(here))]
print(*seen, gevent.spawn(here).get(), gevent.get_hub().threadpool.apply(here))
"""


@pytest.mark.parametrize(
    ("form", "made_and_started"),
    [("installed", "s2"), ("explicit", "s1")],  # a patch captures at the start, as it does for threads
)
def test_case_e02_gevent(form: str, made_and_started: str) -> None:
    """gevent's greenlets, pools and threads, and bare greenlets, have the session of where they were spawned."""
    command = [sys.executable, "-W", "ignore", "-c", GEVENT, form]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)

    assert ran.stderr == ""
    assert ran.stdout.split() == ["s1", "s1", "s1", made_and_started, "s2", "None", "None"]


def test_case_e07_captured_where_it_is_handed_over(stack: ExitStack) -> None:
    """A snapshot is of where it is taken: in a worker that nothing was carried to, it is nobody's."""
    pool = plain_pool(stack)
    with ctx.session(session_id="s1"):
        snapshot = ctx.capture()
        assert pool.submit(snapshot.run, here).result(10) == "s1"
        assert pool.submit(lambda: ctx.capture().run(here)).result(10) is None
        assert pool.submit(ctx.carry(lambda: ctx.capture().run(here))).result(10) == "s1"


@pytest.mark.usefixtures("installed")
def test_case_e07_captured_too_late_is_in_time(stack: ExitStack) -> None:
    """With everything patched, a snapshot that is taken in the job is the submitter's too."""
    pool = pool_born_elsewhere(stack)
    with ctx.session(session_id="s1"):
        future = pool.submit(lambda: ctx.capture().run(here))
    with ctx.session(session_id="s2"):
        assert future.result(10) == "s1"


def detached() -> tuple[Any, int, bool]:
    return here(), decimal.getcontext().prec, trace.get_current_span().get_span_context().is_valid


@pytest.mark.skipif(
    getattr(sys.flags, "thread_inherit_context", False), reason="there, every thread natively has the whole context"
)
@pytest.mark.usefixtures("installed")
def test_case_e10_timer_takes_keys_only() -> None:
    """A detached job has the keys, and neither the decimal precision nor the open span of who started it."""
    answers: queue.Queue[Any] = queue.Queue()
    span = trace.NonRecordingSpan(trace.SpanContext(1, 1, is_remote=False))
    native = decimal.getcontext().prec
    with ctx.session(session_id="s1"), decimal.localcontext(prec=3), trace.use_span(span):
        assert detached() == ("s1", 3, True)
        threading.Timer(0.01, lambda: answers.put(detached())).start()
        assert answers.get(timeout=10) == ("s1", native, False)


@pytest.mark.parametrize("form", ["installed", "explicit"])
def test_case_e10_callbacks_and_carried_jobs_take_keys_only(
    form: str, stack: ExitStack, request: pytest.FixtureRequest
) -> None:
    """The same for a done-callback and a carried job: besides the keys, they have what the worker has."""
    pool = plain_pool(stack)
    if form == "installed":
        request.getfixturevalue("installed")
    span = trace.NonRecordingSpan(trace.SpanContext(1, 1, is_remote=False))
    answers: queue.Queue[Any] = queue.Queue()
    go = threading.Event()
    native = pool.submit(detached).result(10)
    future = pool.submit(go.wait, 10)
    with ctx.session(session_id="s1"), decimal.localcontext(prec=3), trace.use_span(span):
        callback: Any = lambda _: answers.put(detached())  # noqa: E731
        future.add_done_callback(callback if form == "installed" else ctx.carry(callback))
        carried = ctx.carry(detached)
    go.set()

    assert answers.get(timeout=10) == ("s1", *native[1:])
    assert copy_context().run(carried) == ("s1", *native[1:])
