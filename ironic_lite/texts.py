"""Text that machines send, as every database and UTF-8 can hold it.

A BMC or an agent may answer with anything. What it says must neither stop a save nor, later on, an
answer that shows it.
"""

from __future__ import annotations

import re
from typing import Any

NO_TEXT = re.compile("[\x00\ud800-\udfff]")
"""Characters that are no text to a database (NUL) or to UTF-8 (halves of surrogate pairs)."""

_LARGEST = 2**64 - 1  # what the widest integer of our JSON holds
_SMALLEST = -(2**63)


def clean(text: str) -> str:
    """Return the text with U+FFFD in the place of each character that is none."""
    return NO_TEXT.sub("\ufffd", text)


def cleaned(value: Any) -> Any:
    """Return a JSON value with all its texts and keys clean, and numbers beyond 64 bits as text."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {cleaned(key): cleaned(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [cleaned(each) for each in value]
    if isinstance(value, int) and not _SMALLEST <= value <= _LARGEST:
        return str(value)
    return value


def shown(value: Any, most: int = 80) -> str:
    """Return a caller's value as an error may repeat it.

    What is in objects and lists may be secret, and they may be large: they are only named.

    :param most: characters of a text.
    """
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    return repr(value[:most]) if isinstance(value, str) else repr(value)
