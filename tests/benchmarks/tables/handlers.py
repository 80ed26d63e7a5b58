"""A handler gets two facts of the conversation that is served."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from types import MethodType
from typing import Annotated, Any, Final, NewType

from measuring import Names, Promise, Table, Way
from wrapt import FunctionWrapper

import ctxruntime as ctx
from tables.shared import CHAT, SESSION, async_handler, handler, in_a_session

SessionId = NewType("SessionId", str)
GatewaySessionKey = NewType("GatewaySessionKey", str)


def legacy(raw: str) -> str:
    return raw


def bare(raw: str, session_id: Any, gateway_session_key: Any) -> str:
    return raw


# The limit of a function, and of an object, with the same terms: what the caller passes wins, else what is in effect,
# else the handler's default.

UNSET: Final = object()


class Facts:
    __slots__ = ("gateway_session_key", "session_id")

    def __init__(self, session_id: object = UNSET, gateway_session_key: object = UNSET) -> None:
        self.session_id, self.gateway_session_key = session_id, gateway_session_key


FACTS: Final[ContextVar[Facts]] = ContextVar("facts")
facts = FACTS.get


def written_out(raw: str, session_id: Any = UNSET, gateway_session_key: Any = UNSET) -> str:
    here = facts()
    if session_id is UNSET:
        session_id = here.session_id
        if session_id is UNSET:
            session_id = None
    if gateway_session_key is UNSET:
        gateway_session_key = here.gateway_session_key
        if gateway_session_key is UNSET:
            gateway_session_key = None
    return handler(raw, session_id, gateway_session_key)


class WrittenOut(FunctionWrapper):  # type: ignore[type-arg]  # generic in the stubs alone
    __call__ = staticmethod(written_out)

    def __get__(self, instance: object, owner: object = None) -> Any:
        return self if instance is None else MethodType(written_out, instance)  # which it gets for `raw`


class Plugin:
    by_hand = WrittenOut(handler, None)

    def direct(self, raw: str, session_id: str | None = None, gateway_session_key: str | None = None) -> str:
        return raw

    @ctx.inject
    def injected(self, raw: str, session_id: str | None = None, gateway_session_key: str | None = None) -> str:
        return raw


@contextmanager
def ours() -> Iterator[Names]:
    FACTS.set(Facts(SESSION, CHAT))
    yield {
        "written_out": written_out,
        "written_out_object": WrittenOut(handler, None),
        "direct": handler,
        "adapted": ctx.adapt(handler),
        "injected": ctx.inject(handler),
        "legacy": legacy,
        "adapted_legacy": ctx.adapt(legacy),
        "plugin": Plugin(),
    }


def hand_over(wrapped: Callable[..., Any], _: object, args: Any, kwargs: Any) -> Any:
    return wrapped(*args, session_id=ctx.SESSION_ID.get(), gateway_session_key=ctx.GATEWAY_SESSION_KEY.get(), **kwargs)


@contextmanager
def wrapt_decorator() -> Iterator[Names]:
    import wrapt

    yield {"call": wrapt.decorator(hand_over)(handler)}


@contextmanager
def signature_per_call() -> Iterator[Names]:
    def asking(fn: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(fn)
        def call(*args: Any, **kwargs: Any) -> Any:
            known = {"session_id": ctx.SESSION_ID.get(), "gateway_session_key": ctx.GATEWAY_SESSION_KEY.get()}
            taken = inspect.signature(fn).parameters
            return fn(*args, **{name: value for name, value in known.items() if name in taken}, **kwargs)

        return call

    yield {"call": asking(handler)}


@contextmanager
def dishka(*, managed: bool) -> Iterator[Names]:
    from dishka import FromDishka, Provider, Scope, from_context, make_container
    from dishka.integrations.base import wrap_injection

    class Keys(Provider):
        session_id = from_context(SessionId, scope=Scope.REQUEST)
        gateway_session_key = from_context(GatewaySessionKey, scope=Scope.REQUEST)

    def asking(raw: str, session_id: Any, gateway_session_key: Any) -> str:
        return raw

    asking.__annotations__ |= {
        "session_id": FromDishka[SessionId],
        "gateway_session_key": FromDishka[GatewaySessionKey],
    }
    container = make_container(Keys())
    keys: Any = {SessionId: SESSION, GatewaySessionKey: CHAT}
    with container(context=keys) as request:
        call: Any = wrap_injection(
            func=asking,
            container_getter=(lambda args, kwargs: container) if managed else (lambda args, kwargs: request),
            is_async=False,
            remove_depends=True,
            manage_scope=managed,
            provide_context=(lambda args, kwargs: keys) if managed else None,
        )
        yield {"call": call}


@contextmanager
def wireup() -> Iterator[Names]:
    from wireup import Injected, create_sync_container, inject_from_container, injectable

    @injectable(lifetime="scoped")
    def session_id() -> SessionId:
        return SessionId(SESSION)

    @injectable(lifetime="scoped")
    def gateway_session_key() -> GatewaySessionKey:
        return GatewaySessionKey(CHAT)

    def asking(raw: str, session_id: Any, gateway_session_key: Any) -> str:
        return raw

    asking.__annotations__ |= {
        "session_id": Injected[SessionId],
        "gateway_session_key": Injected[GatewaySessionKey],
    }
    container = create_sync_container(injectables=[session_id, gateway_session_key])
    yield {"call": inject_from_container(container)(asking)}


@contextmanager
def fast_depends() -> Iterator[Names]:
    from fast_depends import Depends, inject

    def asking(raw: Any, session_id: Any, gateway_session_key: Any) -> Any:
        return raw

    asking.__annotations__ |= {
        "session_id": Annotated[Any, Depends(lambda: SESSION)],
        "gateway_session_key": Annotated[Any, Depends(lambda: CHAT)],
    }
    yield {"call": inject(asking)}


@contextmanager
def that_depends() -> Iterator[Names]:
    from that_depends import BaseContainer, Provide, inject
    from that_depends.providers import Factory

    class Keys(BaseContainer):
        alias = "bench_keys"
        session_id = Factory(lambda: SESSION)
        gateway_session_key = Factory(lambda: CHAT)

    @inject
    def asking(
        raw: str,
        session_id: Any = Provide[Keys.session_id],
        gateway_session_key: Any = Provide[Keys.gateway_session_key],
    ) -> str:
        return raw

    yield {"call": asking}


@contextmanager
def dependency_injector() -> Iterator[Names]:
    from dependency_injector.containers import DeclarativeContainer
    from dependency_injector.providers import Callable as Provided
    from dependency_injector.wiring import Provide, inject

    class Keys(DeclarativeContainer):
        session_id = Provided(lambda: SESSION)
        gateway_session_key = Provided(lambda: CHAT)

    @inject
    def asking(
        raw: str,
        session_id: Any = Provide["session_id"],
        gateway_session_key: Any = Provide["gateway_session_key"],
    ) -> str:
        return raw

    import sys

    module = sys.modules[__name__]
    module.wired = asking  # type: ignore[attr-defined]  # what is wired are the functions of a module
    container = Keys()
    container.wire(modules=[module])
    yield {"call": module.wired}  # type: ignore[attr-defined]
    container.unwire()


@contextmanager
def pluggy() -> Iterator[Names]:
    import pluggy as pm

    spec, impl = pm.HookspecMarker("bench"), pm.HookimplMarker("bench")

    class Spec:
        @spec(firstresult=True)
        def call(self, raw: str, session_id: str, gateway_session_key: str, user_id: str) -> str | None:
            """Be called with all that there is; an implementation takes what it names."""

    class Implementation:
        @impl
        def call(self, raw: str, session_id: str, gateway_session_key: str) -> str:
            return raw

    manager = pm.PluginManager("bench")
    manager.add_hookspecs(Spec)
    manager.register(Implementation())
    yield {"call": manager.hook.call}


BY_HAND = "direct('x', session_id=s, gateway_session_key=k)"
CALL = "call('x')"
ADAPT, INJECT = "ctxruntime adapt", "ctxruntime inject"

HANDLERS: Final = Table(
    "handlers",
    "Call a handler that wants two facts of the conversation",
    (
        Way("by hand: both passed", BY_HAND, ours),
        Way("by hand: a function that looks", "written_out('x')", ours),
        Way("by hand: an object that looks", "written_out_object('x')", ours),
        Way(ADAPT, "adapted('x')", ours),
        Way(INJECT, "injected('x')", ours),
        Way("a handler of one argument", "legacy('x')", ours),
        Way("a handler of one argument, ctxruntime adapt", "adapted_legacy('x')", ours),
        Way(
            "pluggy, all passed by the caller",
            "call(raw='x', session_id=s, gateway_session_key=k, user_id=s)",
            pluggy,
            ("pluggy",),
        ),
        Way("that-depends", CALL, that_depends, ("that-depends",)),
        Way("dependency-injector", CALL, dependency_injector, ("dependency-injector",)),
        Way("wrapt.decorator", CALL, wrapt_decorator),
        Way("dishka, scope open", CALL, lambda: dishka(managed=False), ("dishka",)),
        Way("wireup", CALL, wireup, ("wireup",)),
        Way("dishka, scope per call", CALL, lambda: dishka(managed=True), ("dishka",)),
        Way("fast-depends", CALL, fast_depends, ("fast-depends",)),
        Way("inspect.signature per call", CALL, signature_per_call),
    ),
    (
        Promise(3.0, ADAPT, "by hand: both passed"),
        Promise(4.2, INJECT, "by hand: both passed"),
        Promise(1.05, "a handler of one argument, ctxruntime adapt", "a handler of one argument"),
        Promise(1 / 4, ADAPT, "dishka, scope open"),
        Promise(1 / 11, ADAPT, "dishka, scope per call"),
        Promise(1 / 7, ADAPT, "wireup"),
        Promise(1 / 4.5, ADAPT, "wrapt.decorator"),
        Promise(1 / 40, ADAPT, "inspect.signature per call"),
    ),
    setting=in_a_session,
)

METHODS: Final = Table(
    "methods",
    "Call a bound method that wants two facts of the conversation",
    (
        Way("by hand: both passed", f"plugin.{BY_HAND}", ours),
        Way("by hand: an object that binds and looks", "plugin.by_hand()", ours),
        Way(INJECT, "plugin.injected('x')", ours),
    ),
    (Promise(7.4, INJECT, "by hand: both passed"),),
    setting=in_a_session,
)


def drive(coroutine: Any) -> None:
    try:
        coroutine.send(None)
    except StopIteration:
        return


@contextmanager
def driven() -> Iterator[Names]:
    with in_a_session() as names:
        finished = (item for item in ())  # what is left of an awaited call without the call
        yield names | {
            "drive": drive,
            "finished": finished,
            "direct": async_handler,
            "adapted": ctx.adapt(async_handler),
            "injected": ctx.inject(async_handler),
        }


ASYNC_HANDLERS: Final = Table(
    "async-handlers",
    "Await a handler that wants two facts of the conversation",
    (
        Way("by hand: both passed", f"drive({BY_HAND})"),
        Way(ADAPT, "drive(adapted('x'))"),
        Way(INJECT, "drive(injected('x'))"),
    ),
    (Promise(1.9, ADAPT, "by hand: both passed"), Promise(2.4, INJECT, "by hand: both passed")),
    less="drive(finished)",
    setting=driven,
)
