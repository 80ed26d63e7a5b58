"""The script of the demo, and the oracle: what each handler should receive.

It is worked out from the events and from a list, kept by hand, of what each handler's signature takes. Nothing
of ctxruntime is imported here, so that the right answer does not come from what is put to the test.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

NOTHING: Final = ()
ID: Final = ("session_id",)
BOTH: Final = ("session_id", "gateway_session_key")

TAKES: Final[Mapping[str, tuple[str, ...]]] = {
    "legacy": NOTHING,
    "named": ID,
    "defaulted": ID,
    "keyword-only": BOTH,
    "kwargs": BOTH,
    "positional-only": ID,
    "method": ID,
    "static-method": ID,
    "class-method": ID,
    "partial": ID,
    "callable-object": ID,
    "lambda": ID,
    "async": BOTH,
    "async-object": ID,
    "generator": ID,
    "async-generator": ID,
    "marker": BOTH,
    "alias": ID,
    "decorated": ID,
    "narrow": NOTHING,  # its decorator lets one argument through
    "builtin": NOTHING,
    "ambient": ID,
}
"""What each handler has a place for, by its command."""

NOTE: Final = "note"
NOTES: Final = "notes"
COMMANDS: Final = (*TAKES, NOTE, NOTES)


@dataclass(frozen=True, slots=True)
class Conversation:
    """Somebody's session in one frontend; `says` is what they ask to be noted."""

    frontend: str
    session_id: str
    says: str
    gateway_session_key: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """One line that somebody types."""

    conversation: Conversation
    command: str

    @property
    def text(self) -> str:
        """What follows the command; no two events have the same."""
        if self.command == NOTE:
            return self.conversation.says
        return f"line {COMMANDS.index(self.command)} of {self.conversation.session_id}"

    @property
    def line(self) -> str:
        """What is typed."""
        return f"/{self.command} {self.text}"


Call: TypeAlias = tuple[str, str]
"""A session id and a command."""
Answers: TypeAlias = Mapping[Call, str]
"""What was answered to each call."""

CONVERSATIONS: Final = (
    Conversation("cli", "c1", "buy milk"),
    Conversation("cli", "c2", "call mum"),
    Conversation("gateway", "g1", "my pin is 4711", "k1"),
    Conversation("gateway", "g2", "surprise party", "k2"),
    Conversation("tui", "t1", "rotate the keys"),
    Conversation("tui", "t2", "fire bob"),
)


def lines_of(conversation: Conversation) -> list[str]:
    """Return what is typed in a conversation, in order."""
    return [Event(conversation, command).line for command in COMMANDS]


def right(event: Event) -> str:
    """Return the answer that the event's handler should give."""
    conversation = event.conversation
    if event.command == NOTE:
        return answer(event.text, {"bucket": conversation.session_id})
    if event.command == NOTES:
        return answer(event.text, {"notes": f"{conversation.session_id} (1)"})
    return answer(event.text, {name: getattr(conversation, name) for name in TAKES[event.command]})


def answer(text: str, received: Mapping[str, str | None]) -> str:
    """Write an answer as the handlers do: what was typed, and which keys came with it."""
    known = [f"{name}={value}" for name, value in received.items() if value is not None]
    return f"{text} -> {', '.join(known)}" if known else text


def right_answers(
    conversations: Iterable[Conversation] = CONVERSATIONS, commands: Sequence[str] = COMMANDS
) -> dict[Call, str]:
    """Return what every call should be answered."""
    return {
        (conversation.session_id, command): right(Event(conversation, command))
        for conversation in conversations
        for command in commands
    }
