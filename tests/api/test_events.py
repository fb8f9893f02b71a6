"""POST /v1/events: what it takes, where it is written down, and that a fault changes nothing."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from ironic_lite.db.engine import session
from ironic_lite.db.queries import events, ports
from ironic_lite.records import Event
from tests.support.api_rows import AddNode
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

PORT = "11111111-aaaa-4bbb-8ccc-000000000000"
BIND = {
    "event": "network.bind_port",
    "port_id": PORT,
    "mac_address": "52:54:00:AA:00:01",
    "status": "ACTIVE",
    "device_id": PORT.replace("1", "2"),
    "binding:host_id": "host",
    "binding:vnic_type": "baremetal",
}

Json = dict[str, Any]


@pytest.fixture
def node(database: session.Database, add_node: AddNode) -> str:
    """A node with the port that events are about."""
    found = str(add_node()["uuid"])
    row = {"uuid": str(uuid.uuid4()), "node_uuid": found, "address": "52:54:00:aa:00:01"}
    database.write(lambda conn: ports.insert(conn, row))
    return found


def kept(database: session.Database) -> list[Event]:
    return database.read(lambda conn: events.page(conn, limit=100, kinds=["network"]))


def test_events_are_written_down_at_their_node(
    api: Client, database: session.Database, node: str
) -> None:
    unbind = {**BIND, "event": "network.unbind_port", "device_id": None, "status": "DOWN"}
    other = {**BIND, "mac_address": "52:54:00:aa:00:02"}
    answer = api.post("/v1/events", {"events": [BIND, other, unbind]})
    assert (answer.status, answer.body) == (204, b"")
    first, second = kept(database)
    assert (first["node_uuid"], first["event"]) == (node, "bind_port")
    assert first["data"] == {
        "port_id": PORT,
        "mac_address": "52:54:00:aa:00:01",
        "status": "ACTIVE",
        "device_id": BIND["device_id"],
    }
    assert (second["event"], "device_id" in (second["data"] or {})) == ("unbind_port", False)
    assert api.get(f"/v1/nodes/{node}/history").json == {"history": []}


def without(key: str) -> Json:
    return {name: value for name, value in BIND.items() if name != key}


BAD: dict[str, tuple[Any, str]] = {
    "nothing": (None, ""),
    "a list": ([BIND], ""),
    "no events": ({}, "events"),
    "an empty list": ({"events": []}, "events"),
    "null": ({"events": None}, "events"),
    "another key": ({"events": [BIND], "more": 1}, "more"),
    "too many": ({"events": [BIND] * 1001}, "events"),
    "no object": ({"events": ["x"]}, "events/0"),
    "an unknown event": ({"events": [{**BIND, "event": "network.x"}]}, "events/0/event"),
    "no event": ({"events": [without("event")]}, "events/0/event"),
    "no port": ({"events": [BIND, without("port_id")]}, "events/1/port_id"),
    "no address": ({"events": [without("mac_address")]}, "events/0/mac_address"),
    "no status": ({"events": [without("status")]}, "events/0/status"),
    "a bad port": ({"events": [{**BIND, "port_id": "x"}]}, "events/0/port_id"),
    "a bad address": ({"events": [{**BIND, "mac_address": "x"}]}, "events/0/mac_address"),
    "a bad device": ({"events": [{**BIND, "device_id": "x"}]}, "events/0/device_id"),
    "a bad status": ({"events": [{**BIND, "status": 5}]}, "events/0/status"),
    "no text": ({"events": [{**BIND, "status": "\x00"}]}, "events/0/status"),
    "an unknown key": ({"events": [{**BIND, "colour": 1}]}, "events/0/colour"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_events_are_refused_and_none_is_kept(
    api: Client, database: session.Database, node: str, case: str
) -> None:
    body, path = BAD[case]
    answer = api.post("/v1/events", body)
    assert (answer.status, path in answer.text) == (400, True), answer.text
    assert kept(database) == []


@pytest.mark.feature("events")
def test_events_come_with_1_54(api: Client) -> None:
    assert api.at(53).post("/v1/events", {"events": [BIND]}).status == 404
    assert api.at(54).post("/v1/events", {"events": [BIND]}).status == 204
    assert "events" in api.at(54).get("/v1").json
    assert "events" not in api.at(53).get("/v1").json
    assert api.at(53).get("/v1/events").status == 404
    assert api.at(54).get("/v1/events").status == 200


def test_many_events_cost_two_statements(
    api: Client, database: session.Database, node: str
) -> None:
    with count_statements(database) as sent:
        assert api.post("/v1/events", {"events": [BIND] * 100}).status == 204
    assert (len(sent), len(kept(database))) == (2, 100)
