"""The algebra of scopes: any program of entering, leaving, amending and handing over reads what a model says.

The model knows nothing of layers or tokens. A *flow* is a context or a generator: what it took over, and the
scopes that it entered and that are open, of which the newest is in effect. A scope is its bindings, and the scope
that it inherits from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import Context, copy_context
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ctxruntime as ctx

NAMES = ["session_id", "gateway_session_key", "user_id", "property_own", "property_far"]
for number in range(4):
    ctx.Key(f"property_filler{number}")  # so that the last key has no slot of its own
for name in NAMES[3:]:
    ctx.Key(name)
PREVIOUS = "previous_session_id"
IDENTITIES = ["gateway_session_key", "session_id"]

Values = dict[str, str | None]


class ModelScope:
    def __init__(self, bound: Values, parent: ModelScope | None = None, *, is_turn: bool = False) -> None:
        self.bound = bound
        self.parent = parent
        self.turn: ModelScope | None = self if is_turn else parent.turn if parent else None
        self.doors = 1 if is_turn else 0

    def binder(self, name: str) -> ModelScope | None:
        if name in self.bound or self.turn is self:
            return self
        return self.parent.binder(name) if self.parent else None

    def get(self, name: str) -> str | None:
        binder = self.binder(name)
        return binder.bound.get(name) if binder else None

    def amend(self, changes: Values) -> bool:
        if any(self.binder(name) is None for name in changes):
            return False
        for name, value in changes.items():
            binder: Any = self.binder(name)
            before = binder.bound.get(name)
            if name == "session_id" and before and value and before != value and PREVIOUS not in changes:
                binder.bound[PREVIOUS] = before
            binder.bound[name] = value
        return True

    def accepts(self, given: Values) -> bool:
        if self.turn is None or not self.turn.doors:
            return False
        for name in IDENTITIES:
            if given.get(name) and self.get(name):
                return given[name] == self.get(name)
        return False

    def read(self) -> Values:
        values = {name: self.get(name) for name in [*NAMES, PREVIOUS]}
        return {name: value for name, value in values.items() if value is not None}


EMPTY = ModelScope({})


class Entry:
    def __init__(self, scope: ModelScope, real: Any, door_of: ModelScope | None = None) -> None:
        self.scope, self.real, self.door_of = scope, real, door_of


class Flow:
    """One flow of execution: how to run something in it, and what the model says is in effect there."""

    def __init__(self, run: Callable[[Callable[[], Any]], Any], taken_over: ModelScope) -> None:
        self.run = run
        self.taken_over = taken_over
        self.open: list[Entry] = []
        self.generator: Any = None

    @property
    def here(self) -> ModelScope:
        return self.open[-1].scope if self.open else self.taken_over


def executing() -> Iterator[Any]:
    result: Any = None
    while True:
        fn = yield result
        result = fn()


class World:
    """The real thing and the model, changed together and compared after each change."""

    def __init__(self) -> None:
        self.flows = [Flow(Context().run, EMPTY)]
        self.contexts = [Context()]
        self.snapshots: list[tuple[Any, ModelScope]] = []
        self.closed: list[Entry] = []

    def check(self) -> None:
        for flow in self.flows:
            assert dict(flow.run(ctx.current)) == flow.here.read()
            turn = flow.run(ctx.current_turn)
            assert (turn is None) == (flow.here.turn is None)
            if flow.here.turn is not None:
                assert turn.ended == (flow.here.turn.doors == 0)

    def enter(self, flow: Flow, verb: str, given: Values) -> None:
        here = flow.here
        if verb == "join":
            given = {name: value or "j" for name, value in given.items()}
            if here.accepts(given):
                here.amend({k: v for k, v in given.items() if not here.get(k) or k in IDENTITIES})
                scope: Any = ModelScope({}, here)
                scope.turn.doors += 1
                self.opened(flow, ctx.session.join(**given), scope, scope.turn)
                return
        if verb == "cleared":
            self.opened(flow, ctx.cleared(), ModelScope({}), None)
        elif verb == "bind":
            bound = {PREVIOUS: None, **given} if "session_id" in given else dict(given)
            self.opened(flow, ctx.bind(**given), ModelScope(bound, here), None)
        else:
            make: Any = ctx.session.join if verb == "join" else ctx.session
            scope = ModelScope(dict(given), is_turn=True)
            self.opened(flow, make(**given), scope, scope)

    def opened(self, flow: Flow, real: Any, scope: ModelScope, door_of: ModelScope | None) -> None:
        flow.run(real.open)
        flow.open.append(Entry(scope, real, door_of))

    def close(self, flow: Flow, number: int, elsewhere: Flow) -> None:
        if not flow.open:
            return
        entry = flow.open.pop(number % len(flow.open))
        elsewhere.run(entry.real.close)
        if entry.door_of is not None:
            entry.door_of.doors -= 1
        self.closed.append(entry)

    def close_again(self, number: int, elsewhere: Flow) -> None:
        if self.closed:
            elsewhere.run(self.closed[number % len(self.closed)].real.close)

    def amend(self, flow: Flow, changes: Values) -> None:
        def amended() -> bool:
            try:
                ctx.amend(**changes)
            except ctx.NoTurnError:
                return False
            return True

        assert flow.run(amended) is flow.here.amend(changes)

    def spawn(self, flow: Flow) -> None:
        context = flow.run(copy_context)
        self.flows.append(Flow(context.run, flow.here))

    def capture(self, flow: Flow) -> None:
        self.snapshots.append((flow.run(ctx.capture), flow.here))

    def enter_snapshot(self, flow: Flow, number: int) -> None:
        """Enter and leave it around a read: a snapshot is a `with` block."""
        if not self.snapshots:
            return
        snapshot, scope = self.snapshots[number % len(self.snapshots)]

        def read() -> Any:
            with snapshot:
                return dict(ctx.current())

        assert flow.run(read) == scope.read()
        assert snapshot.run(lambda: dict(ctx.current())) == scope.read()

    def generate(self, flow: Flow, given: Values, number: int) -> None:
        """Make a generator in a flow; from then on it is stepped from whichever context comes next."""
        generator: Any = flow.run(ctx.session(**given)(executing))
        scope = ModelScope(dict(given), is_turn=True)
        steppers = [Context(), copy_context(), *self.contexts]
        turns = iter(range(number, 10**9))

        def run(fn: Callable[[], Any]) -> Any:
            return steppers[next(turns) % len(steppers)].run(generator.send, fn)

        steppers[0].run(next, generator)
        made = Flow(run, scope)
        made.generator = generator
        self.flows.append(made)

    def end_generator(self, number: int) -> None:
        generators = [flow for flow in self.flows if flow.generator is not None]
        if generators:
            flow = generators[number % len(generators)]
            Context().run(flow.generator.close)
            flow.taken_over.doors -= 1
            self.flows.remove(flow)


VALUES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from(["a", "b", None]), max_size=3)
INDEX = st.integers(0, 7)
OPERATIONS = st.one_of(
    st.tuples(st.just("enter"), INDEX, st.sampled_from(["session", "bind", "cleared", "join"]), VALUES),
    st.tuples(st.just("close"), INDEX, INDEX, INDEX),
    st.tuples(st.just("close"), INDEX, INDEX, st.none()),
    st.tuples(st.just("close_again"), INDEX, INDEX),
    st.tuples(st.just("amend"), INDEX, VALUES),
    st.tuples(st.just("spawn"), INDEX),
    st.tuples(st.just("capture"), INDEX),
    st.tuples(st.just("enter_snapshot"), INDEX, INDEX),
    st.tuples(st.just("generate"), INDEX, VALUES, INDEX),
    st.tuples(st.just("end_generator"), INDEX),
)
BOUNDED = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True, database=None
)


def perform(world: World, operation: tuple[Any, ...]) -> None:
    kind, *rest = operation
    if kind == "end_generator":
        world.end_generator(*rest)
        return
    pick = lambda index: world.flows[index % len(world.flows)]  # noqa: E731
    flow = pick(rest.pop(0))
    if kind == "close":
        number, elsewhere = rest
        world.close(flow, number, flow if elsewhere is None else pick(elsewhere))
    elif kind == "close_again":
        world.close_again(rest[0], flow)
    else:
        getattr(world, kind)(flow, *rest)


@settings(BOUNDED, max_examples=500)
@given(st.lists(OPERATIONS, min_size=3, max_size=25))
def test_any_program_reads_what_the_model_says(program: list[tuple[Any, ...]]) -> None:
    """Whatever is entered, left from anywhere, amended or handed over, every flow reads as modelled."""
    world = World()
    for operation in program:
        perform(world, operation)
        world.check()


@BOUNDED
@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True), st.permutations(range(6)))
def test_left_in_any_order_nothing_remains(names: list[str], order: list[int]) -> None:
    """Six nested scopes, left in any order, leave nothing in effect."""

    def program() -> None:
        makers = [ctx.session, ctx.bind, ctx.session.join] * 2
        scopes: list[Any] = [make(**dict.fromkeys(names, str(n))) for n, make in enumerate(makers)]
        for scope in scopes:
            scope.open()
        for number in order:
            scopes[number].close()
        assert dict(ctx.current()) == {}
        assert ctx.current_turn() is None

    Context().run(program)


@BOUNDED
@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["bind", "amend", "leave"]), VALUES), max_size=15))
def test_two_turns_never_see_each_other(program: list[tuple[bool, str, Values]]) -> None:
    """What one turn binds or amends is never seen in another, however they interleave."""
    contexts, opened = [Context(), Context()], [[], []]  # type: ignore[var-annotated]
    for context, owner in zip(contexts, "xy", strict=True):
        context.run(ctx.session(session_id=owner).open)

    for side, verb, values in program:
        mine = {name: f"{'xy'[side]}{value}" for name, value in values.items()}
        if verb == "amend":
            contexts[side].run(lambda given=mine: ctx.amend(**given))
        elif verb == "bind":
            opened[side].append(ctx.bind(**mine))
            contexts[side].run(opened[side][-1].open)
        elif opened[side]:
            contexts[not side].run(opened[side].pop().close)
        for context, owner in zip(contexts, "xy", strict=True):
            assert all(str(value).startswith(owner) for value in context.run(ctx.current).values())


@BOUNDED
@given(VALUES, st.integers(1, 4))
def test_snapshots_nest_and_restore(values: Values, depth: int) -> None:
    """A snapshot within itself, at any depth, reads what was captured and restores what was there."""
    with ctx.session(**values):  # type: ignore[arg-type]
        snapshot, captured = ctx.capture(), dict(ctx.current())

    def nested(left: int) -> None:
        before = dict(ctx.current())
        with snapshot:
            assert dict(ctx.current()) == captured
            if left:
                nested(left - 1)
            assert dict(ctx.current()) == captured
        assert dict(ctx.current()) == before

    nested(depth)
    snapshot.run(nested, depth)
