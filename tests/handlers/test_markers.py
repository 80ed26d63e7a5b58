"""Markers: `Annotated[str, KEY]`, in a module whose annotations are text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Optional, Union

import pytest

import ctxruntime as ctx

if TYPE_CHECKING:
    from nowhere import Missing

SECRET = ctx.Key("marker_secret", str, inject="marked")
NEVER = ctx.Key("marker_never", str, inject="never")
Sid = Annotated[str, ctx.SESSION_ID]


def plain(raw: str, sid: Annotated[str, ctx.SESSION_ID]) -> str:
    return sid


def optional(raw: str, sid: Annotated[str, ctx.SESSION_ID] | None = None) -> str | None:
    return sid


def old_optional(raw: str, sid: Optional[Annotated[str, ctx.SESSION_ID]] = None) -> str | None:  # noqa: UP045
    return sid


def union(raw: str, sid: Union[int, Annotated[str, ctx.SESSION_ID]] = 0) -> str | int:  # noqa: UP007
    return sid


def aliased(raw: str, sid: Sid) -> str:
    return sid


def keyword_only(raw: str, *, sid: Sid = "none") -> str:
    return sid


def positional_only(raw: str, sid: Sid, /) -> str:
    return sid


def among_others(raw: str, sid: Annotated[str, "a note", ctx.SESSION_ID, 3]) -> str:
    return sid


def beside_unresolvable(raw: Missing, sid: Sid, other: Missing[int] | None = None) -> Missing:
    return sid


def two(raw: str, sid: Sid, again: Sid) -> str:
    return sid if again == sid else "unequal"


HANDLERS = [
    plain, optional, old_optional, union, aliased, keyword_only, positional_only, among_others, beside_unresolvable,
    two,
]  # fmt: skip


@pytest.mark.parametrize("handler", HANDLERS, ids=lambda handler: handler.__name__)
def test_marker_gives_the_key_whatever_the_parameter_is_called(give: Any, handler: Any) -> None:
    """A parameter that is marked with a key gets it."""
    with ctx.session(session_id="s1"):
        assert give(handler)("x") == "s1"


def test_marker_in_a_closure(give: Any) -> None:
    """A marker may name a key of an enclosing function."""
    key = ctx.SESSION_ID
    kept = "note"

    def handler(raw: str, sid: Annotated[str, key]) -> str:
        assert (key, kept) == (ctx.SESSION_ID, "note")
        return sid

    with ctx.session(session_id="s1"):
        assert give(handler)("x") == "s1"


def test_marker_on_a_method(give: Any) -> None:
    """Markers of methods are seen."""

    class Plugin:
        def handle(self, raw: str, sid: Sid) -> str:
            return sid

    with ctx.session(session_id="s1"):
        assert give(Plugin().handle)("x") == "s1"


def test_marker_outranks_name_and_alias() -> None:
    """Where a marker, an alias and a name disagree, the marker decides."""

    def handler(session_id: Annotated[str, ctx.USER_ID]) -> str:
        return session_id

    with ctx.session(session_id="s1", user_id="u1", frontend="cli"):
        assert ctx.call(handler) == "u1"
        assert ctx.adapt(handler, aliases={"session_id": ctx.FRONTEND})() == "u1"


def test_marked_key_goes_only_where_it_is_marked(give: Any) -> None:
    """A key with `inject="marked"` goes to no parameter of its name, and to a marker."""

    def handler(marker_secret: str = "own", secret: Annotated[str, SECRET] = "none") -> tuple[str, str]:
        return marker_secret, secret

    with ctx.session(marker_secret="x"):
        assert give(handler)() == ("own", "x")


def test_never_key_goes_nowhere(give: Any) -> None:
    """A key with `inject="never"` goes not even to a marker."""

    def handler(marker_never: str = "a", never: Annotated[str, NEVER] = "b", **kw: object) -> tuple[object, ...]:
        return marker_never, never, kw

    with ctx.session(marker_never="x"):
        assert give(handler)() == ("a", "b", {})


def test_unbound_marker_keeps_the_default(give: Any) -> None:
    """A marked parameter keeps its default when its key is unbound."""
    assert give(optional)("x") is None


def test_unbound_marker_without_default_names_its_key(give: Any) -> None:
    """A marked parameter without a default raises, and the error names the key."""
    with pytest.raises(ctx.UnboundKeyError) as caught:
        give(plain)("x")

    assert caught.value.key == "session_id"


def test_marker_is_read_without_evaluating_the_others(give: Any) -> None:
    """Annotations that have side effects or raise are not looked at for their meaning."""

    def handler(raw: 1 / 0, sid: Sid, other: [][1] = None) -> str:  # type: ignore[valid-type]
        return sid

    with ctx.session(session_id="s1"):
        assert give(handler)("x") == "s1"
