"""What a store's URL may show of itself: never a password."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote

__all__ = ["checked", "without"]

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


def without(secrets: tuple[str, ...], text: str) -> str:
    """Return a text of somebody else's without these secrets, as they are and as a URL has them."""
    forms = {form for secret in secrets for form in (secret, quote(secret), quote(secret, safe="")) if form}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, "***")
    return text
