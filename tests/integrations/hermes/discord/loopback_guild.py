"""What Discord says of its things: a guild with two channels and a thread, two people, and their messages."""

from __future__ import annotations

import itertools
import time
from typing import Any

BOT, ANN, BEN, GUILD, THREAD = 1001, 2001, 2002, 3001, 5001
CHANNELS = (4001, 4002)

_NUMBERS = itertools.count(1)
_DISCORD_EPOCH = 1420070400000


def new_id() -> str:
    """A snowflake: the time it was made, and a number."""
    return str((int(time.time() * 1000) - _DISCORD_EPOCH) << 22 | next(_NUMBERS) & 0x3FFFFF)


def user(id: int) -> dict[str, Any]:
    name = {BOT: "hermes", ANN: "ann", BEN: "ben"}[id]
    return {
        "id": str(id),
        "username": name,
        "global_name": name,
        "discriminator": "0",
        "avatar": None,
        "bot": id == BOT,
        "public_flags": 0,
    }


def member() -> dict[str, Any]:
    return {"roles": [], "joined_at": "2026-01-01T00:00:00+00:00", "deaf": False, "mute": False, "flags": 0}


def channel(id: int) -> dict[str, Any]:
    text = {"id": str(id), "guild_id": str(GUILD), "name": f"room-{id}", "type": 0, "position": 0, "flags": 0}
    text |= {"permission_overwrites": [], "parent_id": None, "nsfw": False, "rate_limit_per_user": 0, "topic": None}
    return text if id in CHANNELS else text | thread_parts(id)


def thread_parts(id: int) -> dict[str, Any]:
    made = {"archived": False, "auto_archive_duration": 1440, "archive_timestamp": "2026-01-01T00:00:00+00:00"}
    return {
        "type": 11,
        "name": f"thread-{id}",
        "parent_id": str(CHANNELS[0]),
        "owner_id": str(ANN),
        "message_count": 0,
        "member_count": 1,
        "total_message_sent": 0,
        "thread_metadata": made | {"locked": False},
    }


def guild() -> dict[str, Any]:
    everyone = {"id": str(GUILD), "name": "@everyone", "color": 0, "hoist": False, "position": 0, "managed": False}
    everyone |= {"permissions": str(2**53 - 1), "mentionable": False, "flags": 0, "colors": {"primary_color": 0}}
    return {
        "id": str(GUILD),
        "name": "guild",
        "owner_id": str(ANN),
        "roles": [everyone],
        "channels": [channel(id) for id in CHANNELS],
        "threads": [channel(THREAD)],
        "members": [member() | {"user": user(id)} for id in (BOT, ANN, BEN)],
        "member_count": 3,
        **{name: [] for name in ("emojis", "features", "stickers", "voice_states", "presences", "stage_instances")},
        **dict.fromkeys(("verification_level", "default_message_notifications", "explicit_content_filter"), 0),
        **dict.fromkeys(("mfa_level", "premium_tier", "nsfw_level", "system_channel_flags", "afk_timeout"), 0),
        "preferred_locale": "en-US",
    }


def application() -> dict[str, Any]:
    return {
        "id": str(BOT),
        "name": "hermes",
        "description": "",
        "icon": None,
        "bot_public": False,
        "bot_require_code_grant": False,
        "verify_key": "",
        "flags": 0,
        "owner": user(ANN),
    }


def message(channel_id: int, author: int, content: str) -> dict[str, Any]:
    return {
        "id": new_id(),
        "channel_id": str(channel_id),
        "guild_id": str(GUILD),
        "author": user(author),
        "member": member(),
        "content": content,
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime()),
        "edited_timestamp": None,
        "tts": False,
        "mention_everyone": False,
        "pinned": False,
        "type": 0,
        "flags": 0,
        **{name: [] for name in ("mentions", "mention_roles", "attachments", "embeds", "components", "reactions")},
    }


def interaction(channel_id: int, author: int, command: dict[str, Any], args: str | None) -> dict[str, Any]:
    """Somebody picked a slash command from the menu."""
    id = new_id()
    return {
        "id": id,
        "application_id": str(BOT),
        "type": 2,
        "token": f"token-{id}",
        "version": 1,
        "guild_id": str(GUILD),
        "guild": {"id": str(GUILD), "locale": "en-US", "features": []},
        "channel_id": str(channel_id),
        "channel": channel(channel_id) | {"permissions": str(2**53 - 1)},
        "member": member() | {"user": user(author), "permissions": str(2**53 - 1)},
        "app_permissions": str(2**53 - 1),
        "locale": "en-US",
        "entitlements": [],
        "attachment_size_limit": 10_000_000,
        "authorizing_integration_owners": {"0": str(GUILD)},
        "context": 0,
        "data": {
            "id": command["id"],
            "name": command["name"],
            "type": 1,
            "options": [] if args is None else [{"name": "args", "type": 3, "value": args}],
        },
    }
