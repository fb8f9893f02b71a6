"""Bodies that are no JSON are refused at a price that grows with their length, and not faster."""

from __future__ import annotations

import orjson
import pytest

from ironic_lite import errors
from ironic_lite.api.validation import schemas
from ironic_lite.api.wire import parsing, refusals
from tests.support.api_rows import AddNode
from tests.support.wsgi_client import Client

JSON = "application/json"


@pytest.mark.parametrize("end", [b"", b"\\", b"\\\\", b"\xc3\xa9"], ids=str)
def test_a_string_without_an_end_goes_to_the_end(end: bytes) -> None:
    """Else each quote in it would begin a string that is looked through to the end once more: half
    a megabyte would take an hour, of anybody who may send a body."""
    for times in (40, 200_000):
        with pytest.raises(errors.InvalidRequest, match="not valid JSON"):
            parsing.parse(b'"' + b'\\"[' * times + end, JSON)


@pytest.mark.parametrize("body", [b"[" * 26, b'{"a":' * 2000, b'["]]]]",' * 26], ids=str)
def test_document_nested_too_deep_is_refused(body: bytes) -> None:
    with pytest.raises(refusals.Refusal, match="400"):
        parsing.parse(body, JSON)


@pytest.mark.parametrize(
    "body",
    [
        b'[{"":0}' + b',{"":0}' * (parsing.MAX_MARKS // 2) + b"]",
        b"[" + b"{}," * parsing.MAX_MARKS + b"{}]",
        b"[" + b'"",' * (parsing.MAX_MARKS + 1) + b"0]",
        b'"' + b'","' * 2_000_000,
    ],
    ids=["objects", "empty", "strings", "broken"],
)
def test_a_body_of_too_many_values_is_refused_before_it_is_parsed(body: bytes) -> None:
    with pytest.raises(refusals.Refusal) as caught:
        parsing.parse(body, JSON)
    assert (caught.value.status, str(parsing.MAX_MARKS) in caught.value.body.decode()) == (
        400,
        True,
    )


@pytest.mark.parametrize("text", ["a,b{[" * 500_000, 'x\\",' * 500_000], ids=["plain", "quotes"])
def test_marks_within_strings_are_not_counted(text: str) -> None:
    value = {"configdrive": text, "a": [1, 2]}
    assert parsing.parse(orjson.dumps(value), JSON) == value


def test_marks_in_strings_do_not_count() -> None:
    for body in (b'["' + b"[" * 40 + b'", ', b'["\\"' + b"[" * 40 + b'" '):
        with pytest.raises(errors.InvalidRequest, match="not valid JSON"):
            parsing.parse(body, JSON)


def test_a_configuration_drive_of_blanks_is_looked_at_once() -> None:
    """Each end of the text would be tried with each other one, for hours."""
    with pytest.raises(errors.InvalidParameter, match="configdrive"):
        schemas.configdrive(" " * 1_000_000 + "!", version=115)


@pytest.mark.parametrize("name", ["limit", "provision_state", "sort_key", "detail"])
def test_an_argument_that_is_one_value_is_given_once(api: Client, name: str) -> None:
    """Else a list of two states would silently be one of the last alone."""
    answer = api.get(f"/v1/nodes?{name}=a&{name}=b")
    assert (answer.status, answer.text) == (400, f"{name}: is given more than once")


def test_an_argument_that_is_a_list_may_come_in_pieces(api: Client, add_node: AddNode) -> None:
    for shard in ("east", "west", "north"):
        add_node(name=f"of-{shard}", shard=shard)
    shown = api.get("/v1/nodes?shard=east&fields=name&shard=north&fields=shard").json["nodes"]
    assert [(one["name"], one["shard"]) for one in shown] == [
        ("of-east", "east"),
        ("of-north", "north"),
    ]


@pytest.mark.parametrize(
    "number", ["18446744073709551616", "-9223372036854775809", "1" * 30, "-" + "9" * 300]
)
def test_a_number_that_would_be_another_is_refused(
    api: Client, add_node: AddNode, number: str
) -> None:
    body = f'[{{"op": "add", "path": "/extra/a", "value": {{"b":[0, {number}]}}}}]'.encode()
    path, headers = f"/v1/nodes/{add_node()['uuid']}", {"Content-Type": JSON}
    answer = api.patch(path, body=body, headers=headers)
    assert answer.status == 400
    assert answer.text.startswith("/0/value/b/1: is a whole number of more than 64 bits")


@pytest.mark.parametrize(
    "number",
    [18446744073709551615, -9223372036854775808, 1e30, 1.2345678901234567, "1" * 30, f": {2**99}"],
    ids=str,
)
def test_other_long_numbers_come_back_as_they_were(
    api: Client, add_node: AddNode, number: object
) -> None:
    patch = [{"op": "add", "path": "/extra/a", "value": number}]
    answer = api.patch(f"/v1/nodes/{add_node()['uuid']}", patch)
    assert (answer.status, answer.json["extra"]) == (200, {"a": number})


def test_a_machine_may_tell_any_number() -> None:
    assert parsing.parse(b'{"a": 18446744073709551616}', JSON, exact=False) == {"a": 2.0**64}
