"""JSON of a column: whatever a machine may have sent, it is stored, and can be shown."""

from __future__ import annotations

import json

import orjson
import pytest

from ironic_lite.db.engine import encoding


@pytest.mark.parametrize("value", [{"a": [1, -(2**63), 2**64 - 1, 0.5, None, True, "ü\n"]}, [], ""])
def test_json_value_stays_as_it_is(value: object) -> None:
    assert encoding.from_json(encoding.to_json(value)) == value == json.loads(json.dumps(value))


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (
            '{"disk\\ud800": ["\\udfff", {"a": "b\\u0000\\ud800"}]}',
            '{"disk�": ["�", {"a": "b��"}]}',
        ),
        ('{"size": 18446744073709551616}', '{"size": "18446744073709551616"}'),
        ('[-9223372036854775809, "x"]', '["-9223372036854775809", "x"]'),
        ('["\\ud83d\\ude00"]', '["😀"]'),
    ],
)
def test_text_that_cannot_be_stored_is_replaced(sent: str, kept: str) -> None:
    assert orjson.loads(encoding.to_json(json.loads(sent))) == json.loads(kept)


def test_value_that_is_no_json_is_an_error() -> None:
    with pytest.raises(TypeError):
        encoding.to_json({"a": object()})
