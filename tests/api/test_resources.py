"""The contract of each family of resources: create, show, list, change and remove members.

The files of the families have the behaviour of one family alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite.db.engine import session
from ironic_lite.db.queries import events
from ironic_lite.db.tables import models
from tests.support import whole_api
from tests.support.api_rows import AddNode, set_node
from tests.support.callers import STRANGER, Callers
from tests.support.conductor_recorder import Ear, Recorder
from tests.support.resource_families import (
    ACTION,
    FAMILIES,
    ORDERED,
    PRIORITISED,
    Json,
    store_allocations,
)
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client, Response, op

ABSENT = "0000000a-0000-4000-8000-00000000000b"
HOST = "http://localhost:6385"
MAC = "52:54:00:12:ab:cd"
IF = {"op": "eq", "args": {"values": ["{inventory[cpu][count]}", 4]}}
OF_NODE = [name for name, family in FAMILIES.items() if family.of_node]
every = pytest.mark.parametrize("kind", FAMILIES)
of_node = pytest.mark.parametrize("kind", OF_NODE)


class Members:
    """Members of the families, on one node where they need a node."""

    def __init__(self, api: Client, node: Json) -> None:
        self.api = api
        self.node = node

    def body(self, kind: str, number: int = 0, **values: Any) -> Json:
        """Return the body of a POST."""
        family = FAMILIES[kind]
        owner = {"node_uuid": self.node["uuid"]} if family.of_node else {}
        return {**owner, **family.values(number), **values}

    def add(self, kind: str, number: int = 0, **values: Any) -> Json:
        """Add a member and return its document."""
        answer = self.api.post(FAMILIES[kind].place, self.body(kind, number, **values))
        assert answer.status == 201, answer.text
        return dict(answer.json)

    def all(self, kind: str, query: str = "") -> list[Json]:
        """Return a list."""
        answer = self.api.get(f"{FAMILIES[kind].place}?{query}")
        assert answer.status == 200, answer.text
        return list(answer.json[FAMILIES[kind].listed])


@pytest.fixture
def node(add_node: AddNode) -> Json:
    """A node on which everything may be changed."""
    about = {"provision_state": "manageable", "power_state": "power off"}
    return add_node(name="rack1", shard="a", conductor_group="rack", **about)


@pytest.fixture
def members(api: Client, node: Json, recorder: Recorder, database: session.Database) -> Members:
    """Members of each family."""
    store_allocations(recorder, database)
    return Members(api, node)


def rows(table: Mapping[str, Iterable[Any]]) -> pytest.MarkDecorator:
    """Return the mark for a table of rows by family, which a test gets as ``kind`` and ``row``."""
    found = [
        pytest.param(kind, row, id=f"{kind}-{number}")
        for kind, own in table.items()
        for number, row in enumerate(own)
    ]
    return pytest.mark.parametrize(("kind", "row"), found)


# -- POST ------------------------------------------------------------------------------------

_PORT: Json = {
    **dict.fromkeys(("category", "description", "name", "physical_network", "vendor")),
    **{"available_for_dynamic_portgroup": True, "is_smartnic": False, "pxe_enabled": True},
    **{"extra": {}, "internal_info": {}, "local_link_connection": {}, "portgroup_uuid": None},
}
_PORTGROUP: Json = {
    **dict.fromkeys(("address", "category", "name", "physical_network")),
    **{"mode": "active-backup", "dynamic_portgroup": False, "standalone_ports_supported": True},
    **{"extra": {}, "internal_info": {}, "properties": {}},
}
_RULE: Json = {
    "conditions": [],
    "description": None,
    "phase": "main",
    "priority": 0,
    "sensitive": False,
}
_ALLOCATION: Json = {
    **dict.fromkeys(("last_error", "name", "node_uuid", "owner")),
    **{"candidate_nodes": [], "extra": {}, "state": "allocating", "traits": []},
}
DEFAULTS: dict[str, Json] = {
    "port": _PORT,
    "portgroup": _PORTGROUP,
    "connector": {"extra": {}},
    "target": {"extra": {}, "properties": {}},
    "chassis": {"description": None, "extra": {}},
    "template": {"extra": {}},
    "runbook": {
        **{"description": None, "disable_ramdisk": False, "extra": {}, "owner": None},
        **{"public": False, "traits": []},
    },
    "rule": _RULE,
    "allocation": _ALLOCATION,
}
"""What a member has that its values do not name."""
NULLABLE = {
    "portgroup": ("uuid", "mode"),
    "template": ("uuid", "extra"),
    "allocation": ("uuid", "name", "traits", "candidate_nodes", "extra", "node"),
}
"""Fields whose null in a POST is the default."""


def links(path: str) -> list[Json]:
    """Return the links to a path below /v1."""
    return [
        {"href": f"{HOST}/v1/{path}", "rel": "self"},
        {"href": f"{HOST}/{path}", "rel": "bookmark"},
    ]


@every
def test_new_member_has_its_defaults_its_links_and_a_location(
    api: Client, members: Members, kind: str
) -> None:
    family, body = FAMILIES[kind], members.body(kind)
    answer = api.post(family.place, {**body, **dict.fromkeys(NULLABLE.get(kind, ()))})
    assert answer.status == 201, answer.text
    shown = answer.json
    here = f"{family.path}/{shown['uuid']}"
    assert answer.headers["location"] == f"{HOST}/v1/{here}"
    below: dict[str, Json] = {
        "portgroup": {"ports": links(f"{here}/ports")},
        "chassis": {"nodes": [links(f"{here}/nodes")]},
    }
    made = {"uuid": shown["uuid"], "created_at": shown["created_at"], "updated_at": None}
    expected = {**DEFAULTS[kind], **body, **made, "links": links(here), **below.get(kind, {})}
    assert shown == expected
    assert uuid.UUID(shown["uuid"]).version == 4
    assert shown["created_at"].endswith("+00:00")
    assert api.get(f"/v1/{here}").json == shown
    for field in {*DEFAULTS[kind], *body}:
        assert api.get(f"/v1/{here}?fields={field}").json == {
            name: shown[name] for name in (field, "links")
        }


GIVEN: dict[str, tuple[Json, Json]] = {
    # the values of a POST, and those that are stored in another form
    "port": ({"address": MAC.upper(), "name": "management"}, {"address": MAC}),
    "portgroup": (
        {
            "name": "ports",
            "address": MAC.upper(),
            "mode": "802.3ad",
            "properties": {"miimon": 100},
            "standalone_ports_supported": "no",
            "extra": {"a": 1},
            "physical_network": "left",
            "category": "fast",
        },
        {"address": MAC, "standalone_ports_supported": False},
    ),
    "chassis": ({"description": "row 4", "extra": {"a": 1}}, {}),
    "template": ({"name": "CUSTOM_A", "steps": [PRIORITISED], "extra": {"a": 1}}, {}),
    "runbook": (
        {
            "name": "my.book_~1",
            "description": "why",
            "steps": [{**ORDERED, "order": "2"}, {"interface": "bios", "step": "x", "order": 1}],
            "disable_ramdisk": True,
            "owner": "me",
            "extra": {"a": 1},
        },
        {
            "steps": [
                {**ORDERED, "order": 2},
                {"interface": "bios", "step": "x", "args": {}, "order": 1},
            ]
        },
    ),
    "rule": (
        {
            "description": "why",
            "priority": 7,
            "phase": "main",
            "conditions": [IF, {**IF, "loop": [1], "multiple": "all"}],
            "actions": [ACTION, {**ACTION, "loop": [{"a": 1}]}],
            "sensitive": False,
        },
        {},
    ),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_new_member_has_the_given_values(api: Client, members: Members, kind: str) -> None:
    family, (given, otherwise) = FAMILIES[kind], GIVEN[kind]
    shown = members.add(kind, uuid=ABSENT, **given)
    kept = {**given, "uuid": ABSENT, **otherwise}
    assert {name: shown[name] for name in kept} == kept
    for ident in (ABSENT, *([given["name"]] if family.named else ())):
        assert api.get(f"{family.place}/{ident}").json == shown


_STEP = {"interface": "bios", "step": "apply_configuration", "args": {"a": "b"}, "priority": 150}
_BIOS = {"interface": "bios", "step": "factory_reset", "args": {}, "order": 1}
_LONG = "a" * 256
Refusals = list[tuple[Json, str, str]]
"""Values of a POST or a PATCH, the path of the refused one, and a word of the reason."""


def _without(key: str) -> Json:
    return {name: value for name, value in _STEP.items() if name != key}


REFUSED: dict[str, Refusals] = {
    "port": [
        ({"address": "x"}, "address", "MAC"),
        ({"address": None}, "address", ""),
        ({"node_uuid": None}, "node_uuid", ""),
        ({"local_link_connection": {"switch_id": "tor"}}, "local_link_connection/switch_id", ""),
        ({"internal_info": {}}, "internal_info", ""),
        ({"name": "detail"}, "name", "'detail' is reserved"),
    ],
    "portgroup": [
        ({"node_uuid": None}, "node_uuid", ""),
        ({"address": "x"}, "address", "MAC"),
        ({"name": "a b"}, "name", ""),
        ({"name": "detail"}, "name", "'detail' is reserved"),
        ({"dynamic_portgroup": True}, "dynamic_portgroup", ""),
        ({"internal_info": {}}, "internal_info", ""),
        ({"properties": []}, "properties", "object"),
        ({"standalone_ports_supported": "perhaps"}, "standalone_ports_supported", ""),
        ({"category": "a" * 81}, "category", "80"),
        ({"physical_network": ""}, "physical_network", ""),
    ],
    "connector": [
        ({"node_uuid": None}, "node_uuid", ""),
        ({"node_uuid": "rack1"}, "node_uuid", ""),
        ({"extra": 1}, "extra", "object"),
        ({"type": "a" * 33}, "type", "32"),
    ],
    "target": [
        ({"node_uuid": None}, "node_uuid", ""),
        ({"node_uuid": "rack1"}, "node_uuid", ""),
        ({"extra": 1}, "extra", "object"),
        ({"volume_type": "a" * 65}, "volume_type", "64"),
        *(
            ({"boot_index": index}, "boot_index", "")
            for index in ("0", 0.5, True, 1 << 31, None, [0])
        ),
    ],
    "chassis": [
        ({"description": 1}, "description", "string"),
        ({"description": _LONG}, "description", "255"),
        ({"extra": []}, "extra", "object"),
        ({"name": "x"}, "name", ""),
    ],
    "template": [
        ({"steps": None}, "steps", "null"),
        ({"steps": {"0": _STEP}}, "steps", "array"),
        ({"steps": []}, "steps", "at least 1"),
        ({"steps": [{**_STEP, "step": f"s{n}"} for n in range(1001)]}, "steps", "1000"),
        ({"steps": [_STEP, None]}, "steps/1", "object"),
        ({"steps": [{}]}, "steps/0/interface", "is required"),
        ({"steps": [_without("interface")]}, "steps/0/interface", "is required"),
        ({"steps": [_without("step")]}, "steps/0/step", "is required"),
        ({"steps": [_without("args")]}, "steps/0/args", "is required"),
        ({"steps": [PRIORITISED, _without("priority")]}, "steps/1/priority", "is required"),
        ({"steps": [{**_STEP, "order": 1}]}, "steps/0/order", "unknown key"),
        ({"steps": [{**_STEP, "interface": "network"}]}, "steps/0/interface", "network"),
        ({"steps": [{**_STEP, "step": ""}]}, "steps/0/step", "1"),
        ({"steps": [{**_STEP, "step": 5}]}, "steps/0/step", "string"),
        ({"steps": [{**_STEP, "step": _LONG}]}, "steps/0/step", "255"),
        ({"steps": [{**_STEP, "args": None}]}, "steps/0/args", "object"),
        ({"steps": [{**_STEP, "args": [1]}]}, "steps/0/args", "object"),
        ({"steps": [{**_STEP, "priority": -1}]}, "steps/0/priority", "0 or more"),
        *(
            ({"steps": [{**_STEP, "priority": priority}]}, "steps/0/priority", "integer")
            for priority in (1.5, "high", True, None, 2**63, 1e300)
        ),
        ({"steps": [_STEP, PRIORITISED, {**_STEP, "priority": 1}]}, "steps/2", "more than once"),
        (
            {"steps": [PRIORITISED, {**_STEP, "interface": "vendor", "step": "send_raw"}]},
            "steps/1/step",
            "vendor.send_raw is not allowed",
        ),
        (
            {"steps": [{**_STEP, "step": "wait", "args": {"seconds": "x"}}]},
            "steps/0/args",
            "not a number of seconds",
        ),
        ({"name": "bad"}, "name", "CUSTOM_"),
        ({"name": "CUSTOM_a"}, "name", "CUSTOM_"),
        ({"name": ""}, "name", "empty"),
        ({"name": None}, "name", "null"),
        ({"name": 5}, "name", "string"),
        ({"name": "CUSTOM_" + "A" * 249}, "name", "255"),
        ({"name": ABSENT}, "name", "trait"),
        ({"extra": []}, "extra", "object"),
        ({"description": "x"}, "description", "not a property"),
    ],
    "runbook": [
        ({"name": None}, "name", ""),
        ({"name": "a b"}, "name", ""),
        ({"name": ABSENT}, "name", ""),
        ({"steps": []}, "steps", ""),
        ({"steps": None}, "steps", ""),
        ({"steps": [{"interface": "bios", "step": "x"}]}, "steps/0/order", ""),
        ({"steps": [{**_BIOS, "order": -1}]}, "steps/0/order", ""),
        ({"steps": [{**_BIOS, "priority": 1}]}, "steps/0/priority", ""),
        ({"steps": [ORDERED, {**_BIOS, "interface": "no"}]}, "steps/1/interface", ""),
        ({"steps": [ORDERED, _BIOS, ORDERED]}, "steps/2", ""),
        ({"steps": [{**_BIOS, "step": "wait", "args": {"seconds": "x"}}]}, "steps/0/args", ""),
        ({"steps": [{**_BIOS, "interface": "vendor", "step": "send_raw"}]}, "steps/0/step", ""),
        ({"traits": ["CUSTOM_A"]}, "traits", ""),
        ({"description": _LONG}, "description", "255"),
        ({"public": True, "owner": "me"}, "owner", ""),
        ({"extra": []}, "extra", "object"),
    ],
    "rule": [
        ({"actions": []}, "actions", ""),
        ({"actions": None}, "actions", ""),
        ({"actions": [{"op": "x", "args": {}}]}, "actions/0/op", ""),
        ({"actions": [{"op": "fail"}]}, "actions/0/args", ""),
        ({"actions": [{"op": "fail", "args": {}}]}, "actions/0/args/msg", ""),
        ({"actions": [{**ACTION, "x": 1}]}, "actions/0/x", ""),
        ({"conditions": [{"op": "x", "args": {}}]}, "conditions/0/op", ""),
        (
            {"conditions": [{"op": "matches", "args": {"value": "a", "regex": "("}}]},
            "conditions/0/args/regex",
            "",
        ),
        ({"conditions": [{**IF, "multiple": "x"}]}, "conditions/0/multiple", ""),
        ({"priority": -1}, "priority", ""),
        ({"priority": 10_000}, "priority", ""),
        ({"priority": "high"}, "priority", ""),
        ({"phase": "early"}, "phase", ""),
        ({"description": _LONG}, "description", "255"),
        ({"name": "x"}, "name", ""),
        ({"scope": "x"}, "scope", ""),
    ],
    "allocation": [
        ({"resource_class": None}, "resource_class", ""),
        ({"resource_class": ""}, "resource_class", ""),
        ({"resource_class": "a" * 81}, "resource_class", ""),
        ({"resource_class": 5}, "resource_class", ""),
        ({"traits": ["CUSTOM_A", "bad"]}, "traits/1", ""),
        ({"traits": "CUSTOM_A"}, "traits", ""),
        ({"candidate_nodes": ["nope"]}, "candidate_nodes", "nope"),
        ({"candidate_nodes": [5]}, "candidate_nodes/0", ""),
        ({"candidate_nodes": "a"}, "candidate_nodes", ""),
        ({"candidate_nodes": ["a"] * 10_001}, "candidate_nodes", ""),
        ({"node": "nope"}, "node", "nope"),
        ({"node": {}}, "node", ""),
        ({"node_uuid": ABSENT}, "node_uuid", ""),
        ({"state": "active"}, "state", ""),
        ({"conductor": "x"}, "conductor", ""),
        ({"name": "a b"}, "name", ""),
        ({"name": ABSENT}, "name", ""),
        ({"extra": []}, "extra", "object"),
    ],
}
REFUSED_OF_ALL: Refusals = [
    ({"uuid": "x"}, "uuid", "UUID"),
    ({"colour": "red"}, "colour", "not a property"),
    ({"created_at": "2026-01-01T00:00:00Z"}, "created_at", "cannot be set"),
    ({"links": []}, "links", "cannot be set"),
]


@rows({kind: [*own, *REFUSED_OF_ALL] for kind, own in REFUSED.items()})
def test_invalid_value_is_refused_by_its_path_and_changes_nothing(
    api: Client, members: Members, kind: str, row: tuple[Json, str, str]
) -> None:
    place, (values, path, word) = FAMILIES[kind].place, row
    answer = api.post(place, members.body(kind, **values))
    assert (answer.status, word in answer.text) == (400, True), answer.text
    assert f"{path}: " in answer.text
    assert members.all(kind) == []
    before = members.add(kind)
    answer = api.patch(
        f"{place}/{before['uuid']}",
        [op("replace", f"/{name}", value) for name, value in values.items()],
    )
    assert answer.status == 400
    field = path.partition("/")[0]
    told = (f"{path}: ", f"Cannot patch /{field}", f"/{field} is mandatory")
    assert any(one in answer.text for one in told), answer.text
    assert api.get(f"{place}/{before['uuid']}").json == before


NEEDED = {
    ("port", "node_uuid"): "node_uuid: give exactly one of node_uuid and node_ident",
    ("allocation", "resource_class"): (
        "resource_class: is mandatory, because nodes are chosen by their resource class"
    ),
}
"""Refusals that give a reason of their own."""


@rows({kind: family.values(0) for kind, family in FAMILIES.items()})
def test_needed_field_is_required(api: Client, members: Members, kind: str, row: str) -> None:
    family, body = FAMILIES[kind], members.body(kind)
    for name in (row, *(["node_uuid"] if family.of_node else ())):
        answer = api.post(family.place, {key: body[key] for key in body if key != name})
        said = f"Schema error for {family.word}: {name}: is required"
        assert (answer.status, answer.text) == (400, NEEDED.get((kind, name), said))


@every
def test_body_that_is_no_object_is_refused(api: Client, members: Members, kind: str) -> None:
    absent = [] if kind == "chassis" else [None]  # a chassis needs no values
    for body in (*absent, [], "x", 5, [members.body(kind)]):
        assert api.post(FAMILIES[kind].place, body).status == 400, body
    assert members.all(kind) == []


@every
def test_refused_method_names_the_methods_of_the_list(api: Client, kind: str) -> None:
    answer = api.put(FAMILIES[kind].place, {})
    allowed = "DELETE, GET, POST" if kind == "rule" else "GET, POST"
    assert (answer.status, answer.headers["allow"]) == (405, allowed)


@of_node
def test_absent_node_is_refused(api: Client, members: Members, kind: str) -> None:
    place = FAMILIES[kind].place
    answer = api.post(place, members.body(kind, node_uuid=ABSENT))
    assert (answer.status, "could not be found" in answer.text) == (400, True)
    before = members.add(kind)
    path = f"{place}/{before['uuid']}"
    assert api.patch(path, [op("replace", "/node_uuid", ABSENT)]).status == 400
    assert api.get(path).json == before


_ADDRESS = ({"address": MAC}, f"MAC address {MAC}")
DUPLICATES: dict[str, list[tuple[Json, str]]] = {
    # values that no two members have, and how a refusal names them
    "port": [_ADDRESS, ({"name": "eth0"}, "name eth0")],
    "portgroup": [_ADDRESS, ({"name": "bond0"}, "name bond0")],
    "connector": [({"type": "iqn", "connector_id": "a"}, "type iqn and connector ID a")],
    "target": [({"boot_index": 7}, "boot index '7' for the same node")],
    "chassis": [],
    "template": [({"name": "CUSTOM_A"}, "name CUSTOM_A")],
    "runbook": [({"name": "book"}, "name book")],
    "rule": [],
    "allocation": [({"name": "one"}, "name one")],
}
SAME_UUID: tuple[Json, str] = ({"uuid": ABSENT}, f"uuid {ABSENT}")


@rows({kind: [*own, SAME_UUID] for kind, own in DUPLICATES.items()})
def test_value_in_use_is_refused(
    api: Client, members: Members, add_node: AddNode, kind: str, row: tuple[Json, str]
) -> None:
    family, (values, named) = FAMILIES[kind], row
    said = f"{family.word} with {named} already exists"
    before = members.add(kind, 0, **values)
    again = {**values}
    again |= {key: again[key].upper() for key in ("address", "uuid") if key in again}
    if family.of_node and "boot_index" not in values:
        members.node = add_node(power_state="power off")
    other = members.body(kind, 1, **again)
    answer = api.post(family.place, other)
    assert (answer.status, said in answer.text) == (409, True), answer.text
    if "uuid" not in values:
        path = f"{family.place}/{members.add(kind, 1)['uuid']}"
        changes = [op("replace", f"/{name}", value) for name, value in again.items()]
        answer = api.patch(path, changes)
        assert (answer.status, said in answer.text) == (409, True), answer.text
        assert api.delete(path).status == 204
    assert len(members.all(kind)) == 1
    assert api.get(f"{family.place}/{before['uuid']}").json == before


# -- versions --------------------------------------------------------------------------------

BELOW = {
    "connector": ("volume", "nodes/rack1/volume", "nodes/rack1/volume/connectors"),
    "target": ("volume", "nodes/rack1/volume", "nodes/rack1/volume/targets"),
}
"""Further paths that are as old as their family."""
CLOSED = {"template", "runbook", "rule", "allocation"}
"""Families whose paths had no methods but GET before their version."""


@pytest.mark.parametrize("kind", [kind for kind, family in FAMILIES.items() if family.since > 1])
def test_family_exists_since_its_version(api: Client, members: Members, kind: str) -> None:
    family, shown = FAMILIES[kind], members.add(kind)
    path = f"{family.place}/{shown['uuid']}"
    lists = [f"{family.place}{query}" for query in ("", "?fields=uuid", "?detail=true")]
    if kind in {"portgroup", "allocation"}:
        lists.pop()  # detail is newer, or absent
    for version, status in ((1, 404), (family.since - 1, 404), (family.since, 200)):
        old = api.at(version)
        for each in (*lists, path, *(f"/v1/{below}" for below in BELOW.get(kind, ()))):
            assert old.get(each).status == status, each
        assert (family.path.partition("/")[0] in old.get("/v1").json) == (status == 200)
    old = api.at(family.since - 1)
    closed = kind in CLOSED
    for answer in (
        old.post(family.place, members.body(kind, 1)),
        old.patch(path, []),
        old.delete(path),
        *([old.put(family.place, {})] if closed else ()),
    ):
        assert (answer.status, "allow" in answer.headers) == (405 if closed else 404, closed)
    assert len(members.all(kind)) == 1
    assert api.get(path).json == shown


NEWER = {"physical_network", "category", "dynamic_portgroup"}
FIELDS_SINCE: dict[str, list[tuple[int, set[str], Json]]] = {
    # a version, the fields that it does not show, and values that it does not take
    "port": [
        (1, {*_PORT} - {"extra"}, {}),
        (
            87,
            {"available_for_dynamic_portgroup", "category", "description", "name", "vendor"},
            {"name": "eth0"},
        ),
    ],
    "portgroup": [
        (25, {"mode", "properties", *NEWER}, {"mode": "x"}),
        (101, NEWER, {"physical_network": "x"}),
        (102, NEWER - {"physical_network"}, {"category": "x"}),
        (110, {"dynamic_portgroup"}, {}),
        (111, set(), {}),
    ],
    "runbook": [(111, {"description", "traits"}, {"description": "x"})],
    "allocation": [(59, {"owner"}, {"owner": "me"})],
}


@rows(FIELDS_SINCE)
def test_field_is_not_acceptable_before_its_version(
    api: Client, members: Members, kind: str, row: tuple[int, set[str], Json]
) -> None:
    family, (version, gone, values), shown = FAMILIES[kind], row, members.add(kind)
    old, path = api.at(version), f"{family.place}/{shown['uuid']}"
    assert set(shown) - set(old.get(path).json) == gone
    for field, value in values.items():
        assert old.post(family.place, members.body(kind, 1, **{field: value})).status == 406
        assert old.get(f"{family.place}?fields={field}").status == 406
        assert old.patch(path, [op("add", f"/{field}", value)]).status in {400, 406}
    assert api.get(path).json == shown


@pytest.mark.parametrize(
    ("kind", "query", "since"),
    [("port", "shard=a", 82), ("portgroup", "shard=a", 106), ("allocation", "owner=me", 60)],
)
def test_filter_is_not_acceptable_before_its_version(
    api: Client, kind: str, query: str, since: int
) -> None:
    for version, status in ((since - 1, 406), (since, 200)):
        assert api.at(version).get(f"{FAMILIES[kind].place}?{query}").status == status


# -- GET -------------------------------------------------------------------------------------

BRIEF = {
    "port": {"address"},
    "portgroup": {"name", "address"},
    "connector": {"node_uuid", "type", "connector_id"},
    "target": {"node_uuid", "volume_type", "boot_index", "volume_id"},
    "chassis": {"description"},
    "template": {"name"},
    "runbook": {"name"},
    "rule": {"description", "phase", "priority"},
    "allocation": {*_ALLOCATION, "resource_class", "created_at", "updated_at"},
}
"""Fields of a list besides UUID and links."""
DETAILED = {"port", "portgroup", "chassis"}
"""Families with a path ``/detail``."""


@every
def test_list_is_brief_unless_detail_is_requested(
    api: Client, members: Members, add_node: AddNode, kind: str
) -> None:
    family, first = FAMILIES[kind], members.add(kind)
    members.node = add_node()
    both = [first, members.add(kind, 1)]
    assert [set(one) for one in members.all(kind)] == [{"uuid", "links", *BRIEF[kind]}] * 2
    for one, whole in zip(members.all(kind), both, strict=True):
        assert one.items() <= whole.items()
    if kind != "allocation":
        assert members.all(kind, "detail=true") == both
        answer = api.get(f"{family.place}?fields=uuid&detail=true")
        assert (answer.status, "detail" in answer.text) == (400, True)
    if kind in DETAILED:
        assert api.at(42).get(f"{family.place}?detail=true").status == 400
        assert api.get(f"{family.place}/detail").json[family.listed] == both
    chosen = [{name: one[name] for name in ("created_at", "links")} for one in both]
    assert members.all(kind, "fields=created_at") == chosen


@of_node
def test_members_of_a_node_are_listed_below_it(
    api: Client, members: Members, add_node: AddNode, kind: str
) -> None:
    family, mine = FAMILIES[kind], members.add(kind)
    members.node = add_node()
    members.add(kind, 1)
    whole = "/detail" if kind in DETAILED else "?detail=true"
    for ident in ("rack1", mine["node_uuid"]):
        path = f"/v1/nodes/{ident}/{family.path}"
        (brief,) = api.get(path).json[family.listed]
        assert brief["uuid"] == mine["uuid"]
        assert api.get(f"{path}{whole}").json == {family.listed: [mine]}
        assert api.get(f"{path}?limit=1").json["next"].startswith(f"{HOST}{path}?")
    assert api.get(f"/v1/nodes/absent/{family.path}").status == 404


_PAGES = ("", "sort_key=uuid", "sort_dir=desc", "fields=uuid", "detail=true")


@rows({kind: _PAGES[:-1] if kind == "allocation" else _PAGES for kind in FAMILIES})
def test_pages_lead_from_one_to_the_next(
    api: Client, members: Members, kind: str, row: str
) -> None:
    family, made = FAMILIES[kind], [members.add(kind, number)["uuid"] for number in range(5)]
    asked = f"node=rack1&{row}" if family.of_node else row
    expected = sorted(made) if "sort_key" in row else made
    expected = expected[::-1] if "desc" in row else expected
    walked, link = [], f"{family.place}?limit=3&{asked}"
    while link:
        page = api.get(link.removeprefix(HOST)).json
        walked.append([one["uuid"] for one in page[family.listed]])
        link = page.get("next", "")
        kept = (*asked.split("&"), f"marker={walked[-1][-1]}")
        assert not link or all(one in link for one in kept)
    assert walked == [expected[:3], expected[3:]]


_OF_NODE = [("node=rack1", "0"), ("node={node}", "0")]
_OF_NODES_PARTS = [
    *_OF_NODE,
    ("shard=a,b", "0"),
    ("conductor_groups=RACK", "0"),
    (f"address={MAC.upper()}", "0"),
    ("address=52:54:00:00:00:00", ""),
    ("sort_key=name", "10"),
    ("sort_key=address&sort_dir=desc", "01"),
]
FOUND: dict[str, list[tuple[str, str]]] = {
    # a query, and the numbers of the members in the order of the list
    "port": [
        *_OF_NODES_PARTS,
        ("node_uuid={node}", "0"),
        ("nodes={node},11111111-1111-4111-8111-111111111111", "0"),
        ("description_contains=100%25", "0"),
    ],
    "portgroup": _OF_NODES_PARTS,
    "connector": _OF_NODE,
    "target": _OF_NODE,
    "template": [("sort_key=name", "10")],
    "runbook": [("sort_key=name", "10"), ("project=me", "0"), ("project=you", "1")],
    "rule": [("sort_key=priority", "10"), ("phase=main", "01"), ("phase=other", "")],
    "allocation": [
        ("sort_key=name", "10"),
        ("sort_key=created_at&sort_dir=desc", "10"),
        ("resource_class=big", "0"),
        ("owner=me", "0"),
        ("state=allocating", "01"),
        ("state=error", ""),
    ],
}
DIFFERENT: dict[str, tuple[Json, Json]] = {
    # values by which the two members differ
    "port": ({"address": MAC, "name": "b", "description": "The 100% port"}, {"name": "a"}),
    "portgroup": ({"address": MAC, "name": "b"}, {"name": "a"}),
    "template": ({"name": "CUSTOM_B"}, {"name": "CUSTOM_A"}),
    "runbook": ({"name": "b", "owner": "me"}, {"name": "a", "owner": "you"}),
    "rule": ({"priority": 3}, {"priority": 1}),
    "allocation": ({"name": "b", "owner": "me"}, {"name": "a", "resource_class": "small"}),
}


@rows(FOUND)
def test_members_are_found_by_their_values(
    members: Members, node: Json, add_node: AddNode, kind: str, row: tuple[str, str]
) -> None:
    query, expected = row
    one, other = DIFFERENT.get(kind, ({}, {}))
    made = [members.add(kind, 0, **one)["uuid"]]
    members.node = add_node()
    made.append(members.add(kind, 1, **other)["uuid"])
    found = members.all(kind, query.replace("{node}", node["uuid"]))
    assert [each["uuid"] for each in found] == [made[int(number)] for number in expected]


_BAD_NODES = [("node=absent", 404), ("node=", 400)]
BAD_QUERIES: dict[str, list[tuple[str, int]]] = {
    "port": [
        *_BAD_NODES,
        ("address=nonsense", 400),
        ("node_uuid=nonsense", 400),
        (f"node_uuid={ABSENT}", 404),
        ("portgroup=", 400),
        ("portgroup=absent", 404),
    ],
    "portgroup": [*_BAD_NODES, ("address=nonsense", 400)],
    "connector": _BAD_NODES,
    "target": _BAD_NODES,
    "chassis": [],
    "template": [
        ("sort_key=steps", 400),
        ("marker=CUSTOM_A", 404),
        (f"marker={ABSENT}&sort_key=name", 404),
        ("name=CUSTOM_A", 400),
        ("traits=CUSTOM_A", 400),
    ],
    "runbook": [("sort_key=traits", 400), ("sort_key=steps", 400), ("name=a", 400)],
    "rule": [("sort_key=actions", 400), ("name=x", 400), ("marker=x", 404)],
    "allocation": [
        ("sort_key=traits", 400),
        ("sort_key=candidate_nodes", 400),
        ("marker=abc", 400),
        ("name=x", 400),
        ("node=nope", 400),
    ],
}
BAD_FOR_ALL = [
    ("colour=1", 400),
    ("fields=nope", 400),
    ("detail=perhaps", 400),
    ("sort_key=nope", 400),
    ("sort_key=extra", 400),
    ("sort_dir=up", 400),
    *((f"limit={limit}", 400) for limit in ("0", "-1", "x")),
    (f"marker={ABSENT}", 404),
]


@rows({kind: [*own, *BAD_FOR_ALL] for kind, own in BAD_QUERIES.items()})
def test_bad_query_is_refused(
    api: Client, members: Members, kind: str, row: tuple[str, int]
) -> None:
    members.add(kind)
    query, status = row
    answer = api.get(f"{FAMILIES[kind].place}?{query}")
    name, _, value = query.partition("&")[0].partition("=")
    assert answer.status == status, answer.text
    assert name in answer.text or (status == 404 and value in answer.text), answer.text


# -- PATCH -----------------------------------------------------------------------------------

_BOND = {"name": "bond1", "standalone_ports_supported": False, "address": None}
Change = tuple[Json, Json, Json]
"""Values before, a patch as ``{"op /path": value}``, and the values that it changes."""


def operations(patch: Json) -> list[Json]:
    """Return the operations of a patch."""
    return [
        op(*each.split(), *([] if each.startswith("remove") else [value]))
        for each, value in patch.items()
    ]


CHANGES: dict[str, list[Change]] = {
    "port": [
        (
            {"extra": {"a": 1}, "pxe_enabled": False},
            {"replace /address": MAC.upper(), "add /extra/b": 2, "remove /pxe_enabled": None},
            {"address": MAC, "extra": {"a": 1, "b": 2}, "pxe_enabled": True},
        )
    ],
    "portgroup": [
        (
            {"name": "bond0", "address": MAC},
            {f"replace /{name}": value for name, value in _BOND.items()},
            _BOND,
        )
    ],
    "connector": [
        (
            {},
            {"add /extra/a": 1, "add /connector_id": "x"},
            {"extra": {"a": 1}, "connector_id": "x"},
        )
    ],
    "target": [
        ({}, {"add /extra/a": 1, "add /boot_index": -1}, {"extra": {"a": 1}, "boot_index": -1})
    ],
    "chassis": [({"description": "a"}, {"replace /description": "b"}, {"description": "b"})],
    "template": [
        (
            {"extra": {"a": {"b": 1}}},
            {"replace /name": "HW_NIC_SRIOV", "replace /extra/a/b": 2},
            {"name": "HW_NIC_SRIOV", "extra": {"a": {"b": 2}}},
        ),
        ({"extra": {"a": 1}}, {"remove /extra": None}, {"extra": {}}),
        (
            {"steps": [_STEP]},
            {"add /steps/-": PRIORITISED, "replace /steps/0/priority": "7"},
            {"steps": [{**_STEP, "priority": 7}, PRIORITISED]},
        ),
        (
            {"steps": [_STEP, PRIORITISED]},
            {"add /steps/0/args/force": True, "remove /steps/1": None},
            {"steps": [{**_STEP, "args": {"a": "b", "force": True}}]},
        ),
        ({"steps": [_STEP]}, {"add /steps/0": PRIORITISED}, {"steps": [PRIORITISED, _STEP]}),
        ({"steps": [_STEP]}, {"replace /steps": [PRIORITISED]}, {"steps": [PRIORITISED]}),
    ],
    "runbook": [
        (
            {"owner": "me"},
            {"add /steps/-": _BIOS, "add /description": "x"},
            {"steps": [ORDERED, _BIOS], "description": "x"},
        ),
        ({"owner": "me"}, {"replace /public": True}, {"public": True, "owner": None}),
        (
            {"public": True},
            {"replace /public": False, "replace /owner": "me"},
            {"public": False, "owner": "me"},
        ),
    ],
    "rule": [
        (
            {"conditions": [IF]},
            {"replace /priority": 9, "remove /conditions": None},
            {"priority": 9, "conditions": []},
        )
    ],
    "allocation": [
        (
            {"name": "one", "extra": {"a": 1}},
            {"replace /name": "two", "add /extra/b": [1]},
            {"name": "two", "extra": {"a": 1, "b": [1]}},
        ),
        (
            {"name": "one", "extra": {"a": 1}},
            {"remove /name": None, "remove /extra": None},
            {"name": None, "extra": {}},
        ),
    ],
}


@rows(CHANGES)
def test_patch_changes_values(api: Client, members: Members, kind: str, row: Change) -> None:
    family, (values, patch, changes) = FAMILIES[kind], row
    before = members.add(kind, **values)
    path = f"{family.place}/{before['uuid']}"
    answer = api.patch(path, operations(patch))
    assert answer.status == 200, answer.text
    after = answer.json
    assert after == {**before, **changes, "updated_at": after["updated_at"]}
    assert after["updated_at"] >= before["created_at"]
    assert api.get(path).json == after
    same = [op("add", f"/{name}", after[name]) for name in {**DEFAULTS[kind], **changes}]
    fixed = {"traits", "internal_info", "dynamic_portgroup"}
    if kind == "allocation":
        fixed |= _ALLOCATION.keys() - {"name", "extra"}
    same = [one for one in same if one["path"][1:] not in fixed]
    removed = [op("remove", "/extra")] if after.get("extra") == {} else []
    for nothing in ([], same, removed):
        assert api.patch(path, nothing).json == after
    if "name" in changes:
        assert api.get(f"{family.place}/{values.get('name', before['name'])}").status == 404
        assert after["name"] is None or api.get(f"{family.place}/{after['name']}").json == after


_SECRET = "s3same"
_HIDDEN = {"password": _SECRET, "nested": {"secret": _SECRET}, "portal": "ip"}
_MASKED = {"password": "******", "nested": {"secret": "******"}, "portal": "ip"}
_WRITES = {"op": "set-attribute", "args": {"path": "driver_info/ipmi_password", "value": _SECRET}}
_WRITES_MASKED = {**_WRITES, "args": {"path": "driver_info/ipmi_password", "value": "******"}}

BAD_PATCHES: dict[str, list[tuple[list[Any], str]]] = {
    # a patch, and a part of its refusal
    "port": [
        ([op("remove", "/address")], "/address"),
        ([op("add", "/portgroup_uuid", ABSENT)], "portgroup_uuid"),
        ([op("add", "/internal_info/x", 1)], "/internal_info"),
    ],
    "portgroup": [
        ([op("remove", "/node_uuid")], "/node_uuid"),
        ([op("add", "/internal_info/x", 1)], "/internal_info"),
    ],
    "connector": [],
    "target": [([op("add", "/properties", _MASKED)], "properties/password: holds ******")],
    "chassis": [],
    "template": [
        ([op("add", "/steps/-", {**_STEP, "args": _MASKED})], "steps/1/args/password: holds"),
        ([op("remove", "/name")], "/name is mandatory"),
        ([op("remove", "/steps")], "/steps is mandatory"),
        ([op("remove", "/steps/0")], "steps: "),
        ([op("remove", "/steps/7")], "/steps/7"),
        ([op("replace", "/steps/x", _STEP)], "/steps/x"),
        ([op("remove", "/steps/-")], "/steps/-"),
        ([op("remove", "/steps/0/args")], "steps/0/args: "),
        ([op("replace", "/steps/0/args", None)], "steps/0/args: "),
        ([op("replace", "/steps/0/args/x", 1)], "/steps/0/args/x"),
        ([op("add", "/steps/0/order", 1)], "steps/0/order: "),
        ([op("add", "/steps/-", {**PRIORITISED, "priority": 5})], "steps/1: "),
        ([op("add", "/name/x", 1)], "/name"),
    ],
    "runbook": [
        ([op("add", "/steps/-", {**_BIOS, "args": _MASKED})], "steps/1/args/password: holds"),
        ([op("add", "/steps/-", ORDERED)], "steps/1: "),
        ([op("remove", "/name")], "/name is mandatory"),
    ],
    "rule": [
        ([op("add", "/actions/-", {"op": "x", "args": {}})], "actions/1/op: "),
        ([op("add", "/actions/-", _WRITES_MASKED)], "actions/1/args/value: holds ******"),
        ([op("remove", "/actions")], "/actions is mandatory"),
    ],
    "allocation": [
        ([op("replace", f"/{field}", "x")], f"Cannot patch /{field}")
        for field in (
            *("uuid", "state", "node_uuid", "resource_class", "traits", "candidate_nodes"),
            *("owner", "links"),
        )
    ],
}
BAD_PATCHES_OF_ALL: list[tuple[list[Any], str]] = [
    ([op("replace", "/uuid", ABSENT)], "/uuid"),
    ([op("replace", "/created_at", "x")], "/created_at"),
    ([op("remove", "/links")], "/links"),
    ([op("add", "/colour", "red")], "/colour"),
    ([op("test", "/uuid", "x")], "1/op"),
    ([{"path": 5}], "1"),
    ([None], "1: "),
    ([5], "1: "),
]
_NO_KEY: list[tuple[list[Any], str]] = [([op("remove", "/extra/absent")], "/extra/absent")]


@rows(
    {
        kind: [*own, *BAD_PATCHES_OF_ALL, *([] if kind == "rule" else _NO_KEY)]
        for kind, own in BAD_PATCHES.items()
    }
)
def test_bad_patch_changes_nothing(
    api: Client, members: Members, kind: str, row: tuple[list[Any], str]
) -> None:
    before = members.add(kind)
    path = f"{FAMILIES[kind].place}/{before['uuid']}"
    patch, named = row
    good = op("add", "/description", "x") if kind == "rule" else op("add", "/extra/a", 1)
    answer = api.patch(path, [good, *patch])
    assert (answer.status, named in answer.text) == (400, True), answer.text
    assert api.get(path).json == before


@every
def test_patch_that_is_no_list_is_refused(api: Client, members: Members, kind: str) -> None:
    before = members.add(kind)
    path = f"{FAMILIES[kind].place}/{before['uuid']}"
    bodies: tuple[Any, ...] = (5, True, "x", {"extra": {}}, None)
    for body in bodies:
        assert api.patch(path, body).status == 400
    assert api.get(path).json == before


# -- DELETE ----------------------------------------------------------------------------------


@every
def test_member_is_removed(api: Client, members: Members, kind: str) -> None:
    family, values = FAMILIES[kind], {"name": "CUSTOM_A"} if FAMILIES[kind].named else {}
    first, second = members.add(kind, 0), members.add(kind, 1, **values)
    by_name = family.named and kind != "port"
    idents = (first["uuid"].upper(), second["name"] if by_name else second["uuid"])
    for number, ident in enumerate(idents):
        path = f"{family.place}/{ident}"
        answer = api.delete(path)
        assert (answer.status, answer.body) == (204, b"")
        assert {api.get(path).status, api.delete(path).status} == {404}
        assert members.all(kind, "fields=uuid,links") == [
            {"uuid": one["uuid"], "links": one["links"]} for one in [second][number:]
        ]


PARTS = {
    "portgroup": [("GET", "/ports")],
    "chassis": [("GET", "/nodes")],
    "runbook": [("GET", "/traits"), ("PUT", "/traits"), ("DELETE", "/traits/CUSTOM_A")],
}
"""Requests below a member."""
ODD = (
    *("malformed:uuid", "52:54:00:00:00:01", "a%20b", "%C3%BC", "x" * 256),
    *("x y", "\u00c3\u00a9", "a\x00b"),
)


@every
def test_absent_member_is_not_found(api: Client, members: Members, kind: str) -> None:
    family, kept = FAMILIES[kind], members.add(kind)
    field = "/description" if kind == "rule" else "/extra"
    bodies = {"PATCH": [op("remove", field)], "PUT": {"traits": []}}
    for ident in (ABSENT, "nope", *([] if kind in DETAILED else ["detail"])):
        said = f"{family.word.capitalize()} {ident} could not be found"
        for method, below in (("GET", ""), ("PATCH", ""), ("DELETE", ""), *PARTS.get(kind, ())):
            answer = api.request(method, f"{family.place}/{ident}{below}", bodies.get(method))
            removed_by_uuid = (kind, method) == ("port", "DELETE")
            unnamed = ident != ABSENT and (not family.named or removed_by_uuid)
            expected = (400, False) if unnamed else (404, True)
            assert (answer.status, said in answer.text) == expected, answer.text
    for ident in ODD:
        for method in ("GET", "PATCH", "DELETE"):
            answer = api.request(method, f"{family.place}/{ident}", bodies.get(method))
            assert answer.status == 400, (ident, answer.text)
    assert api.get(f"{family.place}/.").status in {400, 404}
    assert api.get(f"{family.place}/{kept['uuid']}").json == kept


# -- events, locks, secrets and costs --------------------------------------------------------


@every
def test_listeners_receive_each_change(
    members: Members,
    database: session.Database,
    recorder: Recorder,
    conf: cfg.ConfigOpts,
    kind: str,
) -> None:
    family, (values, patch, changes) = FAMILIES[kind], CHANGES[kind][0]
    ear = Ear()
    api = members.api = Client(whole_api.build(database, recorder, conf, ear))
    before = members.add(kind, **values)
    path = f"{family.place}/{before['uuid']}"
    assert api.patch(path, []).status == 200
    assert api.patch(path, [op("replace", "/uuid", ABSENT)]).status == 400
    assert api.post(family.place, members.body(kind, 1, uuid=before["uuid"])).status == 409
    assert api.delete(f"{family.place}/{ABSENT}").status == 404
    assert len(ear.heard) == 1
    assert api.patch(path, operations(patch)).status == 200
    assert api.delete(path).status == 204
    word = family.word.replace(" ", "_")
    kinds = [f"{word}_{what}" for what in ("created", "updated", "deleted")]
    assert ear.kinds == kinds
    for name, value in changes.items():
        assert [about[name] for _, about in ear.heard] == [before[name], value, value]
    if family.of_node:
        told = database.read(lambda conn: events.page(conn, node_uuid=before["node_uuid"]))
        assert [one["kind"] for one in told] == kinds
        assert (told[1]["data"] or {})["changed"] == sorted(changes)


@of_node
def test_locked_node_keeps_its_members_and_gets_new_ones(
    api: Client, members: Members, database: session.Database, kind: str
) -> None:
    place, before = FAMILIES[kind].place, members.add(kind)
    path = f"{place}/{before['uuid']}"
    set_node(database, members.node, reservation="conductor-1")
    for answer in (api.patch(path, [op("add", "/extra/a", 1)]), api.delete(path)):
        assert (answer.status, "locked by host conductor-1" in answer.text) == (409, True)
    assert members.all(kind, "fields=uuid") == [{n: before[n] for n in ("uuid", "links")}]
    assert api.get(path).json == before
    assert members.add(kind, 1)
    told = database.read(lambda conn: events.page(conn, node_uuid=before["node_uuid"]))
    assert len(told) == 2


@of_node
def test_change_of_a_member_can_name_the_version_that_was_read(
    api: Client, members: Members, callers: Callers, kind: str
) -> None:
    family = FAMILIES[kind]
    made = api.post(family.place, members.body(kind))
    path = f"{family.place}/{made.json['uuid']}"
    tag = made.headers["etag"]
    assert api.get(path).headers["etag"] == api.get(f"{path}?fields=uuid").headers["etag"] == tag
    first, second = [op("add", "/extra/a", 1)], [op("add", "/extra/a", 2)]
    changed = api.patch(path, first, headers={"If-Match": f'"x", {tag}'})
    assert (changed.status, changed.json["extra"]) == (200, {"a": 1})
    new = changed.headers["etag"]
    assert api.get(path).headers["etag"] == new != tag
    for answer in (
        api.patch(path, second, headers={"If-Match": tag}),
        api.request("DELETE", path, headers={"If-Match": tag}),
    ):
        assert (answer.status, f"its ETag is {new} now" in answer.text) == (412, True), answer.text
    assert api.patch(path, second, headers={"If-Match": " "}).status == 400
    stranger = callers("admin", STRANGER).patch(path, second, headers={"If-Match": tag})
    assert stranger.status == 404
    assert api.get(path).json["extra"] == {"a": 1}
    assert api.patch(path, second, headers={"If-Match": "*"}).status == 200
    assert api.request("DELETE", path, headers={"If-Match": "*"}).status == 204


@pytest.mark.parametrize("kind", ["port", "portgroup"])
def test_members_stay_while_their_node_is_inspected(
    api: Client, members: Members, database: session.Database, kind: str
) -> None:
    path = f"{FAMILIES[kind].place}/{members.add(kind)['uuid']}"
    set_node(database, members.node, provision_state="inspecting")
    patch = [op("add", "/extra/a", 1)]
    assert api.patch(path, patch).status == 409
    assert api.at(38).patch(path, patch).status == 200


SECRETS: dict[str, tuple[str, Any, Any, Any, Any]] = {
    # a field, its value, what answers show, the value that is sent back, and what is stored then
    "target": (
        *("properties", _HIDDEN, _MASKED),
        *({**_MASKED, "portal": "other"}, {**_HIDDEN, "portal": "other"}),
    ),
    "runbook": (
        *("steps", [{**ORDERED, "args": _HIDDEN}], [{**ORDERED, "args": _MASKED}]),
        [{**ORDERED, "args": _MASKED, "order": 5}],
        [{**ORDERED, "args": _HIDDEN, "order": 5}],
    ),
    "rule": (
        *("actions", [_WRITES, ACTION], [_WRITES_MASKED, ACTION]),
        *([_WRITES_MASKED, ACTION, ACTION], [_WRITES, ACTION, ACTION]),
    ),
}


@pytest.mark.parametrize("kind", SECRETS)
def test_secret_is_shown_nowhere_and_stays_when_its_mask_is_sent_back(
    api: Client, members: Members, database: session.Database, kind: str
) -> None:
    family, (field, held, masked, sent, stored) = FAMILIES[kind], SECRETS[kind]
    made = members.add(kind, **{field: held})
    path = f"{family.place}/{made['uuid']}"
    assert made[field] == masked
    for query in ("detail=true", f"fields={field}"):
        assert [one[field] for one in members.all(kind, query)] == [masked]
    for answer in (api.get(path), api.get(f"{path}?fields={field}")):
        assert answer.json[field] == masked
    assert api.patch(path, [op("replace", f"/{field}", sent)]).json[field] == sent
    table = models.metadata.tables[family.path.replace("/", "_")]
    (row,) = database.read(lambda conn: conn.execute(table.select()).mappings().all())
    assert row[field] == stored


@every
def test_request_has_a_budget_of_statements(
    api: Client, members: Members, database: session.Database, kind: str
) -> None:
    family, (values, patch, _) = FAMILIES[kind], CHANGES[kind][0]
    first = members.add(kind, **values)
    path = f"{family.place}/{first['uuid']}"
    node = 1 if family.of_node else 0
    also_freed = 1 if kind in {"portgroup", "allocation"} else 0
    asked: tuple[tuple[int, Callable[[], Response]], ...] = (
        (1, lambda: api.get(family.place)),
        (1, lambda: api.get(f"{family.place}?fields={','.join(DEFAULTS[kind])}")),
        (1, lambda: api.get(path)),
        (1, lambda: api.get(f"{family.place}/{first.get('name') or first['uuid']}")),
        (2 + node, lambda: api.post(family.place, members.body(kind, 1))),
        (1, lambda: api.get(f"{family.place}?marker={first['uuid']}&sort_key=created_at")),
        (1 + node, lambda: api.patch(path, [])),
        (3 + node, lambda: api.patch(path, operations(patch))),
        (3 + node + also_freed, lambda: api.delete(path)),
    )
    for budget, ask in asked:
        with count_statements(database) as sent:
            assert ask().status < 300
        assert len(sent) <= budget, sent
