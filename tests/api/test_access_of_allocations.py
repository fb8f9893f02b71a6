"""Who may ask for allocations, list them and take them away, by Ironic's default rules."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from ironic_lite.core import clock
from ironic_lite.db.engine import session
from ironic_lite.db.queries import allocations
from tests.support.api_rows import AddNode, set_node
from tests.support.callers import LESSEE, OWNER, STRANGER, Callers
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import op

PLACE = "/v1/allocations"
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
