"""What Hermes knows of a message beyond its session and its sender.

Handlers get these where they have a marker for them: `chat: Annotated[str, HERMES_CHAT_ID]`. They say where a
message came from, as its platform said it. None of them proves who sent it.
"""

from __future__ import annotations

from typing import Final

from ctxruntime import Key

__all__ = ["HERMES_CHAT_ID", "HERMES_PLATFORM", "HERMES_THREAD_ID"]

HERMES_PLATFORM: Final = Key("hermes_platform", str, attributes="hermes.platform", inject="marked")
"""The platform of the chat (`discord`), else what the agent runs for (`cli`, `cron`, `acp`)."""
HERMES_CHAT_ID: Final = Key("hermes_chat_id", str, attributes="hermes.chat.id", inject="marked")
"""The platform's own id of the chat."""
HERMES_THREAD_ID: Final = Key("hermes_thread_id", str, attributes="hermes.thread.id", inject="marked")
"""The platform's own id of the thread, or topic, in that chat."""
