"""Markers in a module whose annotations are objects (or are evaluated late, from Python 3.14 on)."""

from typing import Annotated, Any, Optional

import ctxruntime as ctx


def test_marker_object_gives_the_key(give: Any) -> None:
    """A marker that is evaluated already is seen."""

    def handler(raw: str, sid: Annotated[str, ctx.SESSION_ID]) -> str:
        return sid

    with ctx.session(session_id="s1"):
        assert give(handler)("x") == "s1"


def test_marker_object_in_optional(give: Any) -> None:
    """A marker may stand inside Optional and unions."""

    def handler(
        a: Optional[Annotated[str, ctx.SESSION_ID]] = None,  # noqa: UP045
        b: Annotated[str, ctx.USER_ID] | None = None,
    ) -> tuple[str | None, str | None]:
        return a, b

    with ctx.session(session_id="s1", user_id="u1"):
        assert give(handler)() == ("s1", "u1")


def test_marker_in_quotes(give: Any) -> None:
    """A single annotation may be text."""

    def handler(sid: "Annotated[str, ctx.SESSION_ID]", other: "Missing" = None) -> str:  # noqa: F821
        return sid

    with ctx.session(session_id="s1"):
        assert give(handler)() == "s1"


def test_marker_around_a_forward_reference(give: Any) -> None:
    """The marked type itself need not exist."""

    def handler(sid: Annotated["Missing", ctx.SESSION_ID]) -> str:  # noqa: F821
        return sid

    with ctx.session(session_id="s1"):
        assert give(handler)() == "s1"
