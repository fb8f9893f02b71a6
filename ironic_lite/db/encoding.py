"""How values become the JSON text of a column, and values again."""

from __future__ import annotations

from typing import Any

import orjson

from ironic_lite import texts

from_json = orjson.loads


def to_json(value: Any) -> str:
    """Return the JSON text of a value; times are ISO 8601.

    :raises TypeError: it holds what is no JSON.
    """
    try:
        return _dump(value)
    except TypeError:  # mostly a text that is none, of some machine; what clients send is checked
        return _dump(texts.cleaned(value))


def _dump(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_NAIVE_UTC).decode()
