"""How values become bytes between the processes: one way for all transports.

Plain JSON crosses: None, bool, int of 64 bits, float, str, list, and dict with str keys. Beyond
that, orjson writes datetimes as ISO 8601 strings (naive ones are UTC and get ``+00:00``), UUIDs
as strings, enums as their values and dataclasses as dicts. **Nothing turns them back**: the other
side gets the string, and a contract says so by typing such an argument ``str``.
"""

from __future__ import annotations

import json
from typing import Any

import orjson

OPTIONS = orjson.OPT_NAIVE_UTC


def dumps(value: Any) -> bytes:
    """Return ``value`` as JSON. Raises TypeError for a value that has no JSON form."""
    return orjson.dumps(value, option=OPTIONS)


def loads(data: bytes | bytearray | memoryview) -> Any:
    """Return the value of the JSON ``data``. Raises ValueError if it is not JSON."""
    return orjson.loads(data)


def plain(value: Any) -> Any:
    """Return what the other side will see of ``value``. Raises TypeError as `dumps` does."""
    return orjson.loads(orjson.dumps(value, option=OPTIONS))


def enveloped(value: Any) -> int:
    """Return the bytes that ``value`` takes behind a broker: there oslo.messaging sends JSON as a
    string within JSON, in ASCII, so quotes, backslashes and other alphabets take more.

    :raises TypeError: it has no JSON form.
    """
    text = json.dumps(plain(value))
    return len(text) + text.count('"') + text.count("\\")
