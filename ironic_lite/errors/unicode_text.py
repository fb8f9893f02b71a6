"""Text from machines, made storable in every database and in UTF-8.

A BMC or an agent may send any text. It must not make a save fail, nor a later response that shows
it.
"""

from __future__ import annotations

import re
from typing import Any

NO_TEXT = re.compile("[\x00\ud800-\udfff]")
"""Characters that break databases (NUL) or UTF-8 (halves of surrogate pairs)."""

_LONG_SECRET = 6  # characters; a longer password does not occur in a text by chance
_LARGEST = 2**64 - 1  # the widest integer of our JSON
_SMALLEST = -(2**63)


def clean(text: str) -> str:
    """Return the text with U+FFFD in place of each character that cannot be stored."""
    return NO_TEXT.sub("\ufffd", text)


def cleaned(value: object) -> Any:
    """Return a JSON value with clean texts and keys.

    Numbers beyond 64 bits become text.
    """
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {cleaned(key): cleaned(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(each) for each in value]
    if isinstance(value, int) and not _SMALLEST <= value <= _LARGEST:
        return str(value)
    return value


def blanked(text: str, secret: str | None) -> str:
    """Return a text without a password.

    A short password is replaced only as a whole word: "ex***ected" would reveal that it is "p".
    """
    if not secret or secret not in text:
        return text
    if len(secret) >= _LONG_SECRET:
        return text.replace(secret, "***")
    return re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", text)


def shown(value: object, most: int = 80) -> str:
    """Return a client's value as an error may repeat it.

    Objects and lists may be large or hold secrets, so only their kind is shown.

    :param most: characters of a text.
    """
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    return repr(value[:most]) if isinstance(value, str) else repr(value)
