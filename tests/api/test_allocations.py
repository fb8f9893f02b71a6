"""Allocations: asked for, listed, changed and taken away; what a conductor is asked to do."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.db.engine import session
from ironic_lite.db.queries import allocations, nodes
from ironic_lite.db.tables import models
from tests.support import whole_api
from tests.support.api_rows import AddNode, set_node
from tests.support.callers import LESSEE, OWNER, STRANGER, Callers
from tests.support.conductor_recorder import Ear, Recorder
from tests.support.resource_families import Json, store_allocations
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client, Response, op

ABSENT = "00000000-5a0c-4a3f-8a0a-6d1d0b0a9c77"
PLACE = "/v1/allocations"


@pytest.fixture(autouse=True)
def looking(recorder: Recorder, database: session.Database) -> None:
    """Let the conductor add what it is asked for, and look for ever."""
    store_allocations(recorder, database)


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
    shown = answer.json
    expected = {**body, "traits": ["CUSTOM_A", "CUSTOM_B"], "candidate_nodes": [node]}
    assert {name: shown[name] for name in expected} == expected
    ((method, args),) = recorder.calls
    assert (method, recorder.hosts) == ("create_allocation", ["conductor-1"])
    assert args["allocation"]["candidate_nodes"] == [node]
    for ident in (ABSENT, "maintenance"):
        assert api.get(f"{PLACE}/{ident}").json == shown


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


# -- versions and lists ----------------------------------------------------------------------


def test_versions_of_allocations(
    api: Client, database: session.Database, add_node: AddNode
) -> None:
    node = given(database, add_node, add(api, name="one"))
    for version, status in ((51, 404), (52, 200)):
        old = api.at(version)
        assert old.get(f"/v1/nodes/{node}/allocation").status == status
        assert ("allocation_uuid" in old.get(f"/v1/nodes/{node}").json) == (status == 200)
    assert api.at(56).patch(f"{PLACE}/one", []).status == 405
    assert api.at(57).patch(f"{PLACE}/one", []).status == 200
    assert api.at(57).post(PLACE, {"node": node}).status == 400


def test_allocations_are_found_by_their_state_and_node(
    api: Client, database: session.Database, add_node: AddNode
) -> None:
    first, _ = add(api), add(api)
    node = given(database, add_node, first, name="web")
    for query in ("state=active", f"node={node}", "node=web"):
        found = api.get(f"{PLACE}?{query}").json["allocations"]
        assert [one["uuid"] for one in found] == [first["uuid"]]
    assert api.get(f"{PLACE}?state=zz").json == {"allocations": []}


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
    api = Client(whole_api.build(database, recorder, conf, ear))
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
    node = given(database, add_node, add(api, name="one"))
    recorder.answers["create_allocation"] = None
    asked: tuple[tuple[int, Callable[[], Response]], ...] = (
        (2, lambda: api.get(f"{PLACE}?node={node}")),
        (2, lambda: api.get(f"/v1/nodes/{node}/allocation")),
        (0, lambda: api.post(PLACE, {"resource_class": "big"})),
        (1, lambda: api.post(PLACE, {"resource_class": "big", "candidate_nodes": [node]})),
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


# Who may ask for allocations, list them and take them away, by Ironic's default rules.

NOBODY = str(uuid.UUID(int=1))


def allocated(
    database: session.Database, add_node: AddNode, of: str | None, **node: Any
) -> tuple[str, dict[str, Any]]:
    """Add an active node that is of an allocation of the project ``of``; return UUID and node."""
    row = add_node(provision_state="active", **node)
    blank = dict.fromkeys(name for name in allocations.COLUMNS if name != "id")
    ident = str(uuid.uuid4())
    known = {"uuid": ident, "owner": of, "node_uuid": row["uuid"], "state": "active"}
    more = {"resource_class": "big", "extra": {}, "created_at": clock.now()}
    database.write(lambda conn: allocations.insert(conn, {**blank, **known, **more}))
    set_node(database, row, allocation_uuid=ident, instance_uuid=ident)
    return ident, row


@pytest.mark.parametrize("by", ["uuid", "name"])
def test_nodes_of_others_are_no_candidates(
    callers: Callers, recorder: Recorder, add_node: AddNode, by: str
) -> None:
    mine = add_node(name="mine", owner=OWNER)
    leased = add_node(name="leased", owner=STRANGER, lessee=OWNER)
    foreign = add_node(name="foreign", owner=STRANGER)
    member = callers("member", OWNER)
    body = {"resource_class": "big", "candidate_nodes": [mine[by], foreign[by]]}
    missing = NOBODY if by == "uuid" else "nobody"

    refused = member.post(PLACE, body)
    none = member.post(PLACE, {**body, "candidate_nodes": [mine[by], missing]})
    assert (refused.status, none.status) == (400, 400)
    assert refused.text == none.text.replace(missing, foreign[by])
    assert recorder.calls == []

    for api, named in ((member, [mine[by], leased[by]]), (callers("member"), [foreign[by]])):
        assert api.post(PLACE, {**body, "candidate_nodes": named}).status != 400
    asked = [facts["allocation"]["candidate_nodes"] for _, facts in recorder.calls]
    assert asked == [[mine["uuid"], leased["uuid"]], [foreign["uuid"]]]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_a_foreign_allocation_of_an_own_node_is_named_to_nobody(
    callers: Callers, database: session.Database, add_node: AddNode, method: str
) -> None:
    ident, node = allocated(database, add_node, STRANGER, owner=OWNER)
    path = f"/v1/nodes/{node['uuid']}/allocation"

    answer = callers("admin", OWNER).request(method, path)
    assert answer.status == 403
    assert ident not in answer.text
    absent = 400 if method == "GET" else 404
    assert callers("admin", STRANGER).request(method, path).status == absent  # no node of theirs
    free = add_node(owner=OWNER)["uuid"]
    assert callers("admin", OWNER).request(method, f"/v1/nodes/{free}/allocation").status == 404


@pytest.mark.parametrize(
    ("role", "project", "status", "count"),
    [
        ("reader", None, 200, 2),
        ("service", None, 200, 2),
        ("reader", OWNER, 200, 1),
        ("service", OWNER, 403, 0),
        ("service", STRANGER, 200, 0),
    ],
)
def test_lists_show_no_allocation_that_is_refused_by_itself(  # noqa: PLR0917  # facts of a row
    callers: Callers,
    database: session.Database,
    add_node: AddNode,
    role: str,
    project: str | None,
    status: int,
    count: int,
) -> None:
    for owner in (OWNER, LESSEE):
        allocated(database, add_node, owner)
    answer = callers(role, project).get(PLACE)
    assert answer.status == status
    assert len(answer.json.get("allocations", ())) == count


def test_a_filter_by_node_asks_for_the_rule_of_lists_first(
    callers: Callers, add_node: AddNode
) -> None:
    node = add_node(owner=OWNER)["uuid"]
    for ident in (node, NOBODY):
        answer = callers("reader", STRANGER).get(f"{PLACE}?node={ident}&owner={OWNER}")
        assert answer.status == 403


def test_a_node_keeps_its_owner_while_somebodys_allocation_has_it(
    callers: Callers, database: session.Database, add_node: AddNode
) -> None:
    patch = [op("replace", "/owner", STRANGER)]
    _, node = allocated(database, add_node, LESSEE, owner=OWNER)
    answer = callers("admin").patch(f"/v1/nodes/{node['uuid']}", patch)
    assert answer.status == 409
    assert "allocation" in answer.text
    _, node = allocated(database, add_node, None, owner=OWNER)
    assert callers("admin").patch(f"/v1/nodes/{node['uuid']}", patch).status == 200


def _moved(
    database: session.Database, add_node: AddNode, callers: Callers, state: str, **node: Any
) -> tuple[str, str]:
    """Move the lease of a node with an allocation of LESSEE to STRANGER; return both UUIDs."""
    ident, row = allocated(database, add_node, LESSEE, owner=OWNER, lessee=LESSEE, **node)
    info = {"traits": ["GPU"], "image_source": "i"}
    set_node(database, row, provision_state=state, instance_info=info)
    moved = callers("admin").patch(f"/v1/nodes/{row['uuid']}", [op("replace", "/lessee", STRANGER)])
    assert moved.status == 200, moved.text
    return ident, row["uuid"]


@pytest.mark.parametrize("state", ["active", "deploy failed", "available", "manageable"])
@pytest.mark.parametrize("maintenance", [False, True])
def test_allocation_leaves_a_node_whose_lease_moves_on(
    callers: Callers,
    database: session.Database,
    add_node: AddNode,
    state: str,
    maintenance: bool,
) -> None:
    ident, node = _moved(database, add_node, callers, state, maintenance=maintenance)
    for method in ("GET", "DELETE"):
        assert callers("admin", LESSEE).request(method, f"{PLACE}/{ident}").status == 404
    shown = callers("admin").get(f"/v1/nodes/{node}").json
    used = state in {"active", "deploy failed"}
    assert (shown["allocation_uuid"], shown["instance_uuid"]) == (None, ident if used else None)
    assert ("traits" in shown["instance_info"]) is used


@pytest.mark.parametrize(
    ("holder", "lessee"),
    [(OWNER, STRANGER), (LESSEE, LESSEE), (None, STRANGER), ("p-asked-for-by-admin", STRANGER)],
)
def test_allocation_keeps_a_node_that_its_project_keeps(
    callers: Callers,
    database: session.Database,
    add_node: AddNode,
    holder: str | None,
    lessee: str,
) -> None:
    ident, row = allocated(database, add_node, holder, owner=OWNER, lessee=LESSEE)
    patch = [op("replace", "/lessee", lessee), op("add", "/extra/a", 1)]
    assert callers("admin").patch(f"/v1/nodes/{row['uuid']}", patch).status == 200
    assert callers("admin").get(f"{PLACE}/{ident}").json["node_uuid"] == row["uuid"]


def test_project_that_has_lost_a_node_frees_no_instance_of_others(
    callers: Callers, database: session.Database, add_node: AddNode
) -> None:
    """The node has moved before changes of hands ended allocations."""
    ident, row = allocated(
        database, add_node, LESSEE, owner=OWNER, lessee=STRANGER, maintenance=True
    )
    assert callers("admin", LESSEE).delete(f"{PLACE}/{ident}").status == 204
    shown = callers("admin").get(f"/v1/nodes/{row['uuid']}").json
    assert (shown["allocation_uuid"], shown["instance_uuid"]) == (None, ident)
