"""The encoding of values between processes, for all transports.

Plain JSON is allowed: None, bool, int of 64 bits, float, str, list, and dict with str keys. Beyond
that, orjson writes datetimes as ISO 8601 strings (naive ones are UTC and get ``+00:00``), UUIDs as
strings, enums as their values and dataclasses as dicts. **Nothing converts them back**: the
receiver gets the string, so a contract types such an argument as ``str``.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

OPTIONS = orjson.OPT_NAIVE_UTC


def dumps(value: object) -> bytes:
    """Return ``value`` as JSON. Raises TypeError for a value that has no JSON form."""
    return orjson.dumps(value, option=OPTIONS)


def loads(data: bytes | bytearray | memoryview) -> Any:
    """Return the value of the JSON ``data``. Raises ValueError if it is not JSON."""
    return orjson.loads(data)


def plain(value: object) -> Any:
    """Return ``value`` as the other side receives it. Raises TypeError as `dumps`."""
    return orjson.loads(orjson.dumps(value, option=OPTIONS))


def enveloped(value: object) -> int:
    """Return the size in bytes of ``value`` in a broker's message.

    oslo.messaging sends JSON as a string within JSON, in ASCII. Quotes, backslashes and non-ASCII
    characters take more bytes there.

    :raises TypeError: it has no JSON form.
    """
    text = json.dumps(plain(value))
    return len(text) + text.count('"') + text.count("\\")
