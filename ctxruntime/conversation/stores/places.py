"""What a store may be given: a URL, of which no password is shown, and a timeout."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

__all__ = ["TIMEOUT", "checked", "checked_timeout", "without"]

TIMEOUT: Final = 5.0
"""Seconds within which a call to a dead, silent or busy store fails."""
_DAY: Final = 86_400.0

_PLAIN: Final = re.compile(r"[a-z]+://(?:[^@/?#]*@)?[^@]*")


def checked(url: str) -> str:
    """Return the URL if a user and password in it are written so that they are not taken for anything else.

    Raises:
        ValueError: they are not: a part of the password would be shown as a host or a port. No part of it is shown.
    """
    if not _PLAIN.fullmatch(url):
        raise ValueError(
            "the store's URL has an '@' more, or not where it belongs: percent-encode user and password "
            "(urllib.parse.quote(password, safe=''))"
        )
    return url


def checked_timeout(timeout: float) -> float:
    """Return the seconds that a call may wait, if it can wait so long.

    Raises:
        ValueError: it is no such time.
    """
    if not 0 < timeout <= _DAY:
        raise ValueError("timeout is a number of seconds above 0, and a day at most")
    return timeout


def without(secrets: tuple[str, ...], text: str) -> str:
    """Return a text of somebody else's without these secrets, as they are and as a URL has them."""
    forms = {form for secret in secrets for form in (secret, quote(secret), quote(secret, safe="")) if form}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, "***")
    return text
