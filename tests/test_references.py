"""What derives from a turn is referred to weakly, and what is gone takes no room."""

from __future__ import annotations

import ctxruntime as ctx
from ctxruntime.references import FEWEST, References


def test_scopes_that_are_gone_take_no_room() -> None:
    """However many scopes were nested in a turn, one after the other, it refers to a few."""
    with ctx.session(session_id="s1") as turn:
        for number in range(50 * FEWEST):
            with ctx.bind(session_id=f"child-{number}"):
                pass

        assert turn.derived is not None
        assert len(turn.derived) <= FEWEST + 1


def test_an_amend_reaches_every_scope_that_is_alive() -> None:
    """As many scopes as derive from a turn, and however many are gone between them, each sees what it learns."""
    with ctx.session(session_id="s1") as turn:
        kept: list[ctx.Snapshot] = []
        for number in range(5 * FEWEST):
            with ctx.bind(frontend=f"f{number}"):
                if number % 3 == 0:
                    kept.append(ctx.capture())
        turn.amend(user_id="u1")

        for number, snapshot in enumerate(kept):
            with snapshot:
                assert (ctx.USER_ID.get(), ctx.FRONTEND.get()) == ("u1", f"f{3 * number}")


def test_what_is_added_while_the_list_is_tidied_stays() -> None:
    """A finalizer may derive a scope just then: it is amended as the others are."""
    references: References[object] = References()

    def adds() -> None:
        references.append(lambda: "added")  # type: ignore[arg-type]  # called as a reference is

    references += [adds, lambda: "alive"]  # type: ignore[list-item]
    references.tidy()

    assert [reference() for reference in references] == ["alive", "added"]
