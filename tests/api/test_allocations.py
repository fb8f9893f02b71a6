"""Allocations: asked for, listed, changed and taken away; what a conductor is asked to do."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.api import app
from ironic_lite.db.engine import session
from ironic_lite.db.queries import allocations, nodes
from ironic_lite.db.tables import models
from tests.support.api_rows import AddNode
from tests.support.conductor_recorder import Ear, Recorder
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client, Response, op

ABSENT = "00000000-5a0c-4a3f-8a0a-6d1d0b0a9c77"
PLACE = "/v1/allocations"
FIELDS = {
    *("uuid", "name", "node_uuid", "state", "last_error", "resource_class", "traits"),
    *("candidate_nodes", "extra", "owner", "created_at", "updated_at", "links"),
}

Json = dict[str, Any]


@pytest.fixture(autouse=True)
def looking(recorder: Recorder, database: session.Database) -> None:
    """Let the conductor add what it is asked for, and look for ever."""

    def create(allocation: Json) -> None:
        at = datetime.datetime.fromisoformat(allocation["created_at"])
        row = {**allocation, "created_at": at, "conductor": "conductor-1"}
        database.write(lambda conn: allocations.insert(conn, row))

    recorder.answers["create_allocation"] = create


def add(api: Client, **values: Any) -> Json:
    answer = api.post(PLACE, {"resource_class": "big", **values})
    assert answer.status == 201, answer.text
    return dict(answer.json)


def given(database: session.Database, add_node: AddNode, shown: Json, **values: Any) -> str:
    """Give an allocation a node, as a conductor does."""
    about = {"provision_state": "available", "instance_info": {"traits": [], "a": 1}, **values}
    node = add_node(instance_uuid=shown["uuid"], allocation_uuid=shown["uuid"], **about)["uuid"]
    found = {"node_uuid": node, "state": "active"}
    database.write(lambda conn: allocations.update(conn, shown["uuid"], found))
    return str(node)


# -- asking ----------------------------------------------------------------------------------


def test_an_allocation_is_handed_to_a_conductor(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    node = add_node(name="web")["uuid"]
    body = {
        "uuid": ABSENT,
        "name": "maintenance",
        "resource_class": "big",
        "traits": ["CUSTOM_B", "CUSTOM_A"],
        "candidate_nodes": ["web", node],
        "owner": "me",
        "extra": {"a": 1},
    }
    answer = api.post(PLACE, body)
    assert answer.status == 201
    assert answer.headers["location"] == f"http://localhost:6385{PLACE}/{ABSENT}"
    shown = answer.json
    assert set(shown) == FIELDS
    expected = {**body, "traits": ["CUSTOM_A", "CUSTOM_B"], "candidate_nodes": [node]}
    assert {name: shown[name] for name in expected} == expected
    assert (shown["state"], shown["node_uuid"], shown["last_error"]) == ("allocating", None, None)
    ((method, args),) = recorder.calls
    assert (method, recorder.hosts) == ("create_allocation", ["conductor-1"])
    assert args["allocation"]["candidate_nodes"] == [node]
    for ident in (ABSENT, "maintenance"):
        assert api.get(f"{PLACE}/{ident}").json == shown


def test_allocation_gets_defaults_for_missing_fields(api: Client) -> None:
    shown = add(api, uuid=None, name=None, traits=None, candidate_nodes=None, extra=None, node=None)
    assert uuid.UUID(shown["uuid"]).version == 4
    assert (shown["traits"], shown["candidate_nodes"], shown["extra"]) == ([], [], {})


BAD: dict[str, tuple[Any, str]] = {
    "nothing": ({"resource_class": None}, "resource_class"),
    "an empty class": ({"resource_class": ""}, "resource_class"),
    "a long class": ({"resource_class": "a" * 81}, "resource_class"),
    "a number": ({"resource_class": 5}, "resource_class"),
    "a bad name": ({"name": "a b"}, "name"),
    "a UUID for a name": ({"name": ABSENT}, "name"),
    "a bad trait": ({"traits": ["CUSTOM_A", "bad"]}, "traits/1"),
    "no list of traits": ({"traits": "CUSTOM_A"}, "traits"),
    "a candidate that is not there": ({"candidate_nodes": ["nope"]}, "nope"),
    "a candidate of no text": ({"candidate_nodes": [5]}, "candidate_nodes/0"),
    "no list of candidates": ({"candidate_nodes": "a"}, "candidate_nodes"),
    "too many candidates": ({"candidate_nodes": ["a"] * 10_001}, "candidate_nodes"),
    "a bad uuid": ({"uuid": "x"}, "uuid"),
    "a node that is not there": ({"node": "nope"}, "nope"),
    "a node of no text": ({"node": {}}, "node"),
    "extra a list": ({"extra": []}, "extra"),
    "its own node_uuid": ({"node_uuid": ABSENT}, "node_uuid"),
    "its own state": ({"state": "active"}, "state"),
    "a conductor": ({"conductor": "x"}, "conductor"),
    "an unknown key": ({"colour": "red"}, "colour"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_allocation_is_refused(api: Client, recorder: Recorder, case: str) -> None:
    values, path = BAD[case]
    answer = api.post(PLACE, {"resource_class": "big", **values})
    assert (answer.status, path in answer.text) == (400, True), answer.text
    assert recorder.calls == []
    assert api.get(PLACE).json == {"allocations": []}


@pytest.mark.parametrize("body", [None, [], "x", 5])
def test_a_body_is_an_object(api: Client, body: Any) -> None:
    assert api.post(PLACE, body).status == 400


@pytest.mark.parametrize("key", ["name", "uuid"])
def test_two_allocations_differ(api: Client, key: str) -> None:
    first = add(api, name="one")
    answer = api.post(PLACE, {"resource_class": "big", key: first[key]})
    assert answer.status == 409
    assert f"{key} {first[key]} already exists" in answer.text


@pytest.mark.parametrize(
    "error",
    [errors.NoFreeWorker(), errors.NoConductor(host="any", reason="nobody")],
    ids=lambda error: type(error).__name__,
)
def test_a_conductor_that_cannot_is_told_of(
    api: Client, recorder: Recorder, error: errors.Error
) -> None:
    recorder.answers["create_allocation"] = error
    assert api.post(PLACE, {"resource_class": "big"}).status == 503
    assert api.get(PLACE).json == {"allocations": []}


def test_without_conductors_nobody_looks(api: Client, database: session.Database) -> None:
    database.write(lambda conn: conn.execute(models.conductors.delete()))
    answer = api.post(PLACE, {"resource_class": "big"})
    assert answer.status == 503, answer.text


# -- versions --------------------------------------------------------------------------------


def test_versions_of_allocations(
    api: Client, database: session.Database, add_node: AddNode
) -> None:
    shown = add(api, name="one", owner="me")
    node = given(database, add_node, shown)
    paths = (PLACE, f"{PLACE}/one", f"/v1/nodes/{node}/allocation")
    for version, status in ((51, 404), (52, 200)):
        old = api.at(version)
        assert {old.get(path).status for path in paths} == {status}
        assert ("allocations" in old.get("/v1").json) == (status == 200)
        assert ("allocation_uuid" in old.get(f"/v1/nodes/{node}").json) == (status == 200)
    assert api.at(51).post(PLACE, {"resource_class": "big"}).status == 405
    assert api.at(51).delete(f"{PLACE}/one").status == 405
    assert api.at(56).patch(f"{PLACE}/one", []).status == 405
    assert api.at(57).patch(f"{PLACE}/one", []).status == 200
    assert set(api.at(59).get(f"{PLACE}/one").json) == FIELDS - {"owner"}
    assert api.at(59).post(PLACE, {"resource_class": "big", "owner": "me"}).status == 406
    assert api.at(59).get(f"{PLACE}?owner=me").status == 406
    assert api.at(59).get(f"{PLACE}?fields=owner").status == 406
    assert api.at(57).post(PLACE, {"node": node}).status == 400


# -- lists -----------------------------------------------------------------------------------


def found(api: Client, query: str = "") -> list[str]:
    answer = api.get(f"{PLACE}?{query}")
    assert answer.status == 200, answer.text
    return [one["name"] for one in answer.json["allocations"]]


def test_lists_are_whole_filtered_and_paged(
    api: Client, database: session.Database, add_node: AddNode
) -> None:
    first = add(api, name="b", owner="me")
    add(api, name="a", resource_class="small")
    node = given(database, add_node, first, name="web")
    shown = api.get(PLACE).json["allocations"]
    assert [set(one) for one in shown] == [FIELDS, FIELDS]
    assert found(api) == ["b", "a"]
    for query, names in {
        "state=active": ["b"],
        "state=error": [],
        "resource_class=small": ["a"],
        f"node={node}": ["b"],
        "node=web": ["b"],
        "owner=me": ["b"],
        "sort_key=name": ["a", "b"],
        "sort_key=created_at&sort_dir=desc": ["a", "b"],
        f"marker={first['uuid']}": ["a"],
    }.items():
        assert found(api, query) == names, query
    page = api.get(f"{PLACE}?limit=1").json
    assert found(api, page["next"].partition("?")[2]) == ["a"]
    chosen = api.get(f"{PLACE}?fields=state,name").json["allocations"][0]
    assert set(chosen) == {"state", "name", "links"}


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("state=zz", 200),
        ("node=nope", 400),
        ("fields=nope", 400),
        ("sort_key=traits", 400),
        ("sort_key=candidate_nodes", 400),
        ("marker=abc", 400),
        (f"marker={ABSENT}", 404),
        ("limit=0", 400),
        ("name=x", 400),
    ],
)
def test_a_bad_question_is_answered_as_ironic_does(api: Client, query: str, status: int) -> None:
    assert api.get(f"{PLACE}?{query}").status == status


@pytest.mark.parametrize("ident", [ABSENT, "nope"])
def test_an_absent_allocation_is_not_found(api: Client, ident: str) -> None:
    for answer in (
        api.get(f"{PLACE}/{ident}"),
        api.delete(f"{PLACE}/{ident}"),
        api.patch(f"{PLACE}/{ident}", [op("add", "/extra/a", 1)]),
    ):
        assert (answer.status, "Allocation" in answer.text) == (404, True)


# -- PATCH -----------------------------------------------------------------------------------


def test_name_and_extra_of_an_allocation_can_be_changed(api: Client) -> None:
    shown = add(api, name="one", extra={"a": 1})
    after = api.patch(
        f"{PLACE}/one", [op("replace", "/name", "two"), op("add", "/extra/b", [1])]
    ).json
    assert (after["name"], after["extra"]) == ("two", {"a": 1, "b": [1]})
    assert after["updated_at"] is not None
    assert api.get(f"{PLACE}/{shown['uuid']}").json == after
    gone = api.patch(f"{PLACE}/two", [op("remove", "/name"), op("remove", "/extra")]).json
    assert (gone["name"], gone["extra"]) == (None, {})


@pytest.mark.parametrize(
    "field",
    ["uuid", "state", "node_uuid", "resource_class", "traits", "candidate_nodes", "owner", "links"],
)
def test_other_fields_of_an_allocation_cannot_be_changed(api: Client, field: str) -> None:
    before = add(api, name="one")
    answer = api.patch(f"{PLACE}/one", [op("replace", f"/{field}", "x")])
    assert (answer.status, f"Cannot patch /{field}" in answer.text) == (400, True)
    assert api.patch(f"{PLACE}/one", [op("replace", "/name", "a b")]).status == 400
    assert api.get(f"{PLACE}/one").json == before


# -- taking away -----------------------------------------------------------------------------


@pytest.mark.parametrize("below_the_node", [False, True], ids=["itself", "of its node"])
def test_removed_allocation_frees_its_node(
    api: Client, database: session.Database, add_node: AddNode, below_the_node: bool
) -> None:
    shown = add(api, name="one")
    node = given(database, add_node, shown)
    path = f"/v1/nodes/{node}/allocation"
    assert api.get(path).json == api.get(f"{PLACE}/one").json
    assert api.get(f"{path}?fields=state").json["state"] == "active"
    before = api.get(f"/v1/nodes/{node}").json
    assert (before["allocation_uuid"], before["instance_uuid"]) == (shown["uuid"],) * 2
    answer = api.delete(path if below_the_node else f"{PLACE}/{shown['uuid']}")
    assert (answer.status, answer.body) == (204, b"")
    after = api.get(f"/v1/nodes/{node}").json
    assert (after["allocation_uuid"], after["instance_uuid"]) == (None, None)
    assert after["instance_info"] == {"a": 1}
    assert {api.get(path).status, api.delete(path).status} == {404}
    assert api.get(PLACE).json == {"allocations": []}


def test_searching_or_failed_allocation_can_be_removed(
    api: Client, database: session.Database
) -> None:
    add(api, name="looks")
    failed = add(api, name="failed")
    values = {"state": "error", "last_error": "none"}
    database.write(lambda conn: allocations.update(conn, failed["uuid"], values))
    assert api.get(f"{PLACE}/failed").json["last_error"] == "none"
    for name in ("looks", "failed"):
        assert api.delete(f"{PLACE}/{name}").status == 204


NEEDED: dict[str, Json] = {
    "active": {"provision_state": "active"},
    "deploying": {"provision_state": "deploying", "target_provision_state": "active"},
    "locked": {"reservation": "host-9"},
}


@pytest.mark.parametrize("case", NEEDED)
def test_a_node_that_needs_it_keeps_it(
    api: Client, database: session.Database, add_node: AddNode, case: str
) -> None:
    shown = add(api, name="one")
    node = given(database, add_node, shown, **NEEDED[case])
    for path in (f"{PLACE}/one", f"/v1/nodes/{node}/allocation"):
        assert api.delete(path).status == 409
    assert api.get(f"/v1/nodes/{node}").json["allocation_uuid"] == shown["uuid"]
    if case != "locked":
        change = {"maintenance": True}
        database.write(lambda conn: nodes.edit(conn, node, change, generation=0))
        assert api.delete(f"{PLACE}/one").status == 204


# -- nodes in use ----------------------------------------------------------------------------


def test_a_node_in_use_gets_its_allocation(
    api: Client, add_node: AddNode, recorder: Recorder, database: session.Database
) -> None:
    about = {"provision_state": "active", "resource_class": "big", "name": "web"}
    first = add_node(**about, instance_uuid=ABSENT)
    answer = api.post(PLACE, {"node": "web", "name": "one"})
    assert answer.status == 201, answer.text
    shown = answer.json
    assert (shown["uuid"], shown["state"], shown["node_uuid"], shown["resource_class"]) == (
        *(ABSENT, "active", first["uuid"], "big"),
    )
    assert recorder.calls == []
    node = api.get("/v1/nodes/web").json
    assert (node["allocation_uuid"], node["instance_info"]) == (ABSENT, {"traits": []})
    assert api.get(f"{PLACE}/one").json == shown
    assert api.post(PLACE, {"node": "web"}).status == 409


@pytest.mark.parametrize(
    ("node", "body", "status"),
    [
        ({"provision_state": "available"}, {}, 400),
        ({"resource_class": None}, {}, 400),
        ({}, {"resource_class": "small"}, 400),
        ({}, {"traits": ["CUSTOM_A"]}, 400),
        ({}, {"uuid": ABSENT}, 409),
        ({"reservation": "host-9"}, {}, 409),
    ],
    ids=["state", "no class", "class", "traits", "instance", "locked"],
)
def test_a_node_that_does_not_match_gets_none(
    api: Client, add_node: AddNode, node: Json, body: Json, status: int
) -> None:
    about = {"provision_state": "active", "resource_class": "big", "instance_uuid": new()}
    where = add_node(**{**about, **node})
    answer = api.post(PLACE, {"node": where["uuid"], **body})
    assert answer.status == status, answer.text
    assert api.get(PLACE).json == {"allocations": []}
    assert api.get(f"/v1/nodes/{where['uuid']}").json["allocation_uuid"] is None


def new() -> str:
    return str(uuid.uuid4())


# -- the node's own PATCH --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("about", "status"),
    [
        ({}, 200),
        ({"provision_state": "active"}, 409),
        ({"provision_state": "active", "maintenance": True}, 200),
    ],
    ids=["available", "active", "maintenance"],
)
def test_removing_the_instance_removes_the_allocation(
    api: Client, database: session.Database, add_node: AddNode, about: Json, status: int
) -> None:
    shown = add(api, name="one")
    node = given(database, add_node, shown, **about)
    answer = api.patch(f"/v1/nodes/{node}", [op("remove", "/instance_uuid")])
    assert answer.status == status, answer.text
    gone = status == 200
    assert (api.get(f"{PLACE}/one").status == 404) == gone
    assert (api.get(f"/v1/nodes/{node}").json["allocation_uuid"] is None) == gone
    if gone:
        assert answer.json["allocation_uuid"] is None


def test_a_nodes_allocation_is_not_written_by_hand(api: Client, add_node: AddNode) -> None:
    node = add_node()["uuid"]
    answer = api.patch(f"/v1/nodes/{node}", [op("add", "/allocation_uuid", ABSENT)])
    assert answer.status == 400
    assert api.get("/v1/nodes?fields=allocation_uuid,uuid").json["nodes"][0]["uuid"] == node


# -- listeners and cost ----------------------------------------------------------------------


def test_listeners_are_told(
    database: session.Database, recorder: Recorder, conf: Any, add_node: AddNode
) -> None:
    ear = Ear()
    api = Client(app.build(database, recorder, conf, ear))  # type: ignore[arg-type]
    shown = add(api, name="one")
    given(database, add_node, shown, name="web")
    api.patch(f"{PLACE}/one", [op("add", "/extra/a", 1)])
    assert api.delete(f"{PLACE}/one").status == 204
    about = {"provision_state": "active", "resource_class": "big", "name": "two"}
    add_node(**about)
    assert api.post(PLACE, {"node": "two"}).status == 201
    heard = [(event["kind"], row.get("state", row.get("name"))) for event, row in ear.heard]
    assert heard == [
        ("allocation_created", "allocating"),
        ("allocation_updated", "active"),
        ("allocation_deleted", "active"),
        ("node_updated", "web"),
        ("node_updated", "two"),
        ("allocation_created", "active"),
    ]


def test_each_request_has_a_budget_of_statements(
    api: Client, database: session.Database, add_node: AddNode, recorder: Recorder
) -> None:
    shown = add(api, name="one")
    node = given(database, add_node, shown)
    recorder.answers["create_allocation"] = None
    asked: tuple[tuple[int, Callable[[], Response]], ...] = (
        (1, lambda: api.get(PLACE)),
        (1, lambda: api.get(f"{PLACE}/one")),
        (2, lambda: api.get(f"{PLACE}?node={node}")),
        (2, lambda: api.get(f"/v1/nodes/{node}/allocation")),
        (0, lambda: api.post(PLACE, {"resource_class": "big"})),
        (1, lambda: api.post(PLACE, {"resource_class": "big", "candidate_nodes": [node]})),
        (3, lambda: api.patch(f"{PLACE}/one", [op("add", "/extra/a", 1)])),
        (7, lambda: api.delete(f"{PLACE}/one")),
    )
    for budget, ask in asked:
        with count_statements(database) as sent:
            assert ask().status < 300
        assert len(sent) <= budget, sent


def test_listing_nodes_costs_no_more_for_their_allocations(
    api: Client, database: session.Database, add_node: AddNode
) -> None:
    shown = add(api)
    given(database, add_node, shown)
    query = "/v1/nodes?fields=uuid,allocation_uuid"
    api.get(query)  # whoever asks first reads who lives
    with count_statements(database) as sent:
        (listed,) = api.get(query).json["nodes"]
    assert (len(sent), listed["allocation_uuid"]) == (1, shown["uuid"])
