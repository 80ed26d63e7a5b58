"""The command line: `main` finds the command, and only then is what that command needs imported.

So the base install can have commands too, `run` for one: they are dispatched before `_app`, which needs the extra.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import typer

__all__ = ["main"]

EXTRA: Final = "cli"
BRINGS: Final = frozenset({"rich", "typer"})


def main(args: Sequence[str] | None = None) -> None:
    """Run one command, and leave with its exit code: 2 if it could not be tried."""
    words = sys.argv[1:] if args is None else args
    if list(words[:1]) == ["run"]:
        from ctxruntime.running.command import run

        run(words[1:])
    try:
        app = _app()
    except ModuleNotFoundError as missing:
        if (missing.name or "").partition(".")[0] not in BRINGS:
            raise
        print(f"ctxruntime: this needs the extra {EXTRA!r}: pip install 'ctxruntime[{EXTRA}]'", file=sys.stderr)
        raise SystemExit(2) from None
    app(args=args, prog_name="ctxruntime")


def _app() -> typer.Typer:
    """Return the commands that need the extra."""
    import typer

    from ctxruntime.conversation.command import conversations
    from ctxruntime.demo.command import demo
    from ctxruntime.running.command import SUMMARY

    app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)
    app.callback(help="Session keys set once at the door, and there everywhere behind it.")(lambda: None)
    app.command()(demo)
    app.add_typer(conversations, name="conversations")
    # For the list of commands: `main` has run it by now.
    app.command("run", help=SUMMARY)(lambda: None)
    return app
