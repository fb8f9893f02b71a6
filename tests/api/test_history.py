"""History on the wire, as Ironic's clients know it, made of recorded events."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import events
from ironic_lite.domain import history
from tests.support.api_rows import AddNode
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

NOON = datetime.datetime(2026, 1, 31, 12, 0, 0, 123456)
STOOD = {"state": "cleaning", "target": "manageable", "seconds": 7, "project": "metal"}
FAILED: dict[str, Any] = {
    "kind": "provision",
    "event": "fail",
    "before": "cleaning",
    "after": "clean failed",
    "conductor": "conductor-1",
    "requester": "alice",
    "data": {**STOOD, "error": "Clean step raid.create failed: no"},
}
BRIEF = {"uuid", "created_at", "severity", "event", "links"}
DETAIL = BRIEF | {"event_type", "conductor", "user"}
WHOLE = DETAIL | {"project", "state", "target_provision_state", "duration_seconds"}

Record = Callable[..., list[str]]


@pytest.fixture
def node(add_node: AddNode) -> str:
    """The UUID of a node called metal-7."""
    return str(add_node(name="metal-7")["uuid"])


@pytest.fixture
def record(database: Database, node: str) -> Record:
    """A function that writes events of the node and returns the UUIDs of those in its history."""

    def write(*rows: dict[str, Any], of: str = node) -> list[str]:
        full = [{"at": NOON, "node_uuid": of, **row} for row in rows]
        before = max([row["id"] for row in database.read(events.page)], default=0)
        database.write(lambda conn: events.add(conn, full))
        added = database.read(lambda conn: events.page(conn, after_id=before, limit=1000))
        told = (row for row in added if history.told(row["kind"], row["event"]))
        return [history.ident(row["id"]) for row in told]

    return write


def test_an_entry_in_full(api: Client, node: str, record: Record) -> None:
    [uuid] = record(FAILED)
    expected = {
        "uuid": uuid,
        "created_at": "2026-01-31T12:00:00.123456+00:00",
        "severity": "ERROR",
        "event_type": "cleaning",
        "event": "Clean step raid.create failed: no",
        "conductor": "conductor-1",
        "user": "alice",
        "project": "metal",
        "state": "cleaning",
        "target_provision_state": "manageable",
        "duration_seconds": 7,
        "links": [{"href": f"http://localhost:6385/v1/nodes/{node}/history/{uuid}", "rel": "self"}],
    }
    assert api.get(f"/v1/nodes/metal-7/history/{uuid}").json == expected
    assert api.get(f"/v1/nodes/{node}/history?detail=true").json == {"history": [expected]}


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        (78, DETAIL),
        (112, DETAIL),
        (113, DETAIL | {"project"}),
        (114, DETAIL | {"project"}),
        (115, WHOLE),
    ],
)
def test_each_field_has_its_version(
    api: Client, node: str, record: Record, version: int, fields: set[str]
) -> None:
    [uuid] = record(FAILED)
    old = api.at(version)
    assert old.get(f"/v1/nodes/{node}/history/{uuid}").json.keys() == fields
    assert old.get(f"/v1/nodes/{node}/history?detail=1").json["history"][0].keys() == fields
    assert old.get(f"/v1/nodes/{node}/history").json["history"][0].keys() == BRIEF


@pytest.mark.parametrize("path", ["", "/00000000-0000-8000-8000-000000000001"])
def test_history_is_not_there_before_1_78(
    api: Client, node: str, record: Record, path: str
) -> None:
    record(FAILED)
    assert api.at(77).get(f"/v1/nodes/{node}/history{path}").status == 404
    assert api.at(78).get(f"/v1/nodes/{node}/history{path}").status == 200


def test_a_node_without_history(api: Client, node: str) -> None:
    assert api.get(f"/v1/nodes/{node}/history").json == {"history": []}


def test_a_long_text_is_cut_in_a_list_without_details(
    api: Client, node: str, record: Record
) -> None:
    whole, cut = "x" * 255, "y" * 256
    record(*({**FAILED, "data": {"error": text}} for text in (whole, cut)))

    def texts(query: str) -> list[str]:
        listed = api.get(f"/v1/nodes/{node}/history{query}").json["history"]
        return [entry["event"] for entry in listed]

    assert texts("") == [whole, "y" * 252 + "..."]
    assert texts("?detail=true") == [whole, cut]
    assert texts("?fields=event") == [whole, cut]


def test_other_events_are_left_out_of_the_history(
    api: Client, node: str, record: Record, add_node: AddNode
) -> None:
    other = add_node()["uuid"]
    [theirs] = record(FAILED, of=other)
    record(
        {"kind": "node_created"},
        {"kind": "provision", "event": "clean", "before": "manageable", "after": "cleaning"},
        {"kind": "step_started", "event": "clean", "data": {"step": "raid.create"}},
        {"kind": "power", "event": "changed"},
    )
    assert api.get(f"/v1/nodes/{node}/history").json == {"history": []}
    created = history.ident((history.event_id(theirs) or 0) + 1)
    for uuid in (theirs, created):
        answer = api.get(f"/v1/nodes/{node}/history/{uuid}")
        assert answer.status == 404
        assert answer.text == f"Node history record {uuid} could not be found."


def test_an_event_from_before_history_told_so_much_is_still_told(
    api: Client, node: str, record: Record
) -> None:
    [uuid] = record({"kind": "provision", "event": "abort", "before": "of old", "after": "x"})
    entry = api.get(f"/v1/nodes/{node}/history/{uuid}").json
    assert (entry["severity"], entry["event"]) == ("INFO", "From of old to x.")
    assert entry["event_type"] == "provisioning"
    assert {entry[name] for name in ("state", "project", "duration_seconds", "user")} == {None}


# -- pages -----------------------------------------------------------------------------------


def test_history_is_paged_in_both_directions(api: Client, node: str, record: Record) -> None:
    other = {"kind": "power", "event": "changed"}
    uuids = record(*itertools.chain(*([FAILED, other] for _ in range(5))))

    def pages(path: str) -> list[list[str]]:
        found = []
        while path:
            page = api.get(path).json
            found.append([entry["uuid"] for entry in page["history"]])
            path = page.get("next", "").removeprefix("http://localhost:6385")
        return found

    up, down = uuids, uuids[::-1]
    assert pages(f"/v1/nodes/{node}/history?limit=2") == [up[:2], up[2:4], up[4:]]
    path = "/v1/nodes/metal-7/history?limit=3&sort_dir=desc&sort_key=created_at&detail=true"
    assert pages(path) == [down[:3], down[3:]]


def test_the_next_page_is_asked_as_this_one_was(api: Client, node: str, record: Record) -> None:
    uuid, _ = record(FAILED, FAILED)
    page = api.get("/v1/nodes/metal-7/history?detail=true&limit=1").json
    assert page["next"] == (
        f"http://localhost:6385/v1/nodes/metal-7/history?detail=true&limit=1&marker={uuid}"
    )


@pytest.mark.parametrize(
    ("rows", "query"),
    list(itertools.product([1, 100], ["", "?detail=true", "?sort_dir=desc&limit=200"])),
)
def test_a_list_costs_two_statements_however_long_it_is(
    api: Client, database: Database, record: Record, rows: int, query: str
) -> None:
    record(*[FAILED] * rows)
    with count_statements(database) as sent:
        answer = api.get(f"/v1/nodes/metal-7/history{query}")
    assert len(answer.json["history"]) == rows
    assert len(sent) == 2, sent


def test_one_entry_costs_two_statements(
    api: Client, database: Database, node: str, record: Record
) -> None:
    uuid = record(*[FAILED] * 9)[4]
    with count_statements(database) as sent:
        assert api.get(f"/v1/nodes/{node}/history/{uuid}").status == 200
    assert len(sent) == 2, sent


# -- what is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "status", "named"),
    [
        ("limit=0", 400, "limit"),
        ("limit=-3", 400, "limit"),
        ("limit=many", 400, "limit"),
        ("marker=first", 400, "marker"),
        ("marker=11111111-1111-1111-1111-111111111111", 404, "Marker"),
        ("sort_dir=up", 400, "sort_dir"),
        ("sort_key=severity", 400, "sort_key"),
        ("sort_key=nothing", 400, "sort_key"),
        ("detail=maybe", 400, "detail"),
        ("detail=true&fields=uuid", 400, "detail"),
        ("fields=updated_at", 400, "fields"),
        ("severity=ERROR", 400, "severity"),
    ],
)
def test_invalid_query_is_refused_by_its_name(
    api: Client, node: str, query: str, status: int, named: str
) -> None:
    answer = api.get(f"/v1/nodes/{node}/history?{query}")
    assert answer.status == status, answer.body
    assert named in answer.text


def test_a_field_newer_than_the_version_is_not_acceptable(api: Client, node: str) -> None:
    answer = api.at(114).get(f"/v1/nodes/{node}/history?fields=state")
    assert (answer.status, "1.115" in answer.text) == (406, True)


@pytest.mark.parametrize("query", ["fields=uuid", "detail=true", "limit=1"])
def test_one_entry_takes_no_argument(api: Client, node: str, record: Record, query: str) -> None:
    [uuid] = record(FAILED)
    answer = api.get(f"/v1/nodes/{node}/history/{uuid}?{query}")
    assert answer.status == 400
    assert query.split("=", maxsplit=1)[0] in answer.text


@pytest.mark.parametrize(
    "entry", ["nope", "11111111-1111-1111-1111-111111111111", history.ident(10**15)]
)
def test_an_entry_that_does_not_exist_is_not_found(
    api: Client, node: str, record: Record, entry: str
) -> None:
    record(FAILED)
    answer = api.get(f"/v1/nodes/{node}/history/{entry}")
    assert answer.status == 404
    assert answer.text == f"Node history record {entry} could not be found."


@pytest.mark.parametrize("path", ["history", f"history/{history.ident(1)}"])
def test_a_node_that_does_not_exist_is_not_found(api: Client, path: str) -> None:
    answer = api.get(f"/v1/nodes/nobody/{path}")
    assert (answer.status, answer.text) == (404, "Node nobody could not be found.")


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["history", f"history/{history.ident(1)}"])
def test_history_is_only_read(api: Client, node: str, method: str, path: str) -> None:
    answer = api.request(method, f"/v1/nodes/{node}/{path}", {})
    assert (answer.status, answer.headers["allow"]) == (405, "GET")
