"""JSON text of columns, from values and back."""

from __future__ import annotations

import orjson

from ironic_lite.errors import unicode_text

from_json = orjson.loads


def to_json(value: object) -> str:
    """Return the JSON text of a value; times are ISO 8601.

    :raises TypeError: it holds something other than JSON.
    """
    try:
        return _dump_json(value)
    except TypeError:  # mostly an invalid text from a machine; clients' texts are checked
        return _dump_json(unicode_text.cleaned(value))


def _dump_json(value: object) -> str:
    return orjson.dumps(value, option=orjson.OPT_NAIVE_UTC).decode()
