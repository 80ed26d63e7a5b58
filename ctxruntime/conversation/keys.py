"""The key that names the conversation in effect."""

from __future__ import annotations

from typing import Final

from ctxruntime.keys import Key

__all__ = ["CONVERSATION_ID"]

CONVERSATION_ID: Final = Key("conversation_id")
"""The id of the conversation in effect: bound in turns while a bridge is in use."""
