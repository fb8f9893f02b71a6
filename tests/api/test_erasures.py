"""Erasure records and the state of data: rights of owners, lessees and others; public keys."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from ironic_lite.api import middleware
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.features.erasures import rows
from tests.support.api_rows import AddNode
from tests.support.callers import LESSEE, OWNER, STRANGER, Callers
from tests.support.wsgi_client import Client

pytestmark = pytest.mark.feature("erasures")

KEY, PEM = "k-1", "-----BEGIN PUBLIC KEY-----\n"
BODY = {"data_state": "dirty", "reason": "borrowed"}


def add_record(database: Database, node: str) -> str:
    """Add a signed record of a node; return its UUID."""
    ident = str(uuid.uuid4())
    row = {
        "uuid": ident,
        "node_uuid": node,
        "node_name": None,
        "run_uuid": None,
        "at": clock.now(),
        "result": "complete",
        "level": "clear",
        "serials": ["S1"],
        "statement": '{"disks": []}',
        "signature": "00" * 64,
        "key": KEY,
        "sha256": "0" * 64,
    }

    def write(conn: Connection) -> None:
        rows.add(conn, row)
        rows.publish_key(conn, KEY, PEM, clock.now())

    database.write(write)
    return ident


@pytest.fixture
def node(add_node: AddNode) -> dict[str, Any]:
    """A node with an owner and a lessee."""
    return add_node(owner=OWNER, lessee=LESSEE, provision_state="manageable")


RIGHTS: dict[tuple[str, str | None], tuple[int, int, int]] = {
    # caller: status of the records of the node, records in the list, status of a declaration
    ("admin", None): (200, 1, 204),
    ("member", None): (200, 1, 204),
    ("reader", None): (200, 1, 403),
    ("service", None): (200, 1, 204),
    ("admin", OWNER): (200, 1, 204),
    ("manager", OWNER): (200, 1, 204),
    ("service", OWNER): (200, 1, 204),
    ("member", OWNER): (200, 1, 403),
    ("reader", OWNER): (200, 1, 403),
    ("manager", LESSEE): (403, 0, 403),
    ("reader", LESSEE): (403, 0, 403),
    ("manager", STRANGER): (404, 0, 404),
    ("reader", STRANGER): (404, 0, 404),
}


@pytest.mark.parametrize("role, project", RIGHTS)
def test_records_are_for_owners_and_the_state_for_managers(
    callers: Callers, database: Database, node: dict[str, Any], role: str, project: str | None
) -> None:
    of_node, listed, declares = RIGHTS[role, project]
    caller, record = callers(role, project), add_record(database, node["uuid"])
    path = f"/v1/nodes/{node['uuid']}"
    assert caller.get(f"{path}/erasures").status == of_node
    assert len(caller.get("/v1/erasures").json["erasures"]) == listed
    for part in ("", "/signature"):
        assert caller.get(f"/v1/erasures/{record}{part}").status == (200 if listed else 404)
    assert caller.put(f"{path}/data_state", BODY).status == declares
    shown = callers("admin").get(f"{path}?fields=data_state").json
    assert shown["data_state"] == ("dirty" if declares == 204 else "unknown")


def test_list_has_records_of_the_own_project_and_all_only_for_the_system(
    callers: Callers, database: Database, add_node: AddNode, node: dict[str, Any]
) -> None:
    other = add_node(owner=STRANGER, lessee=OWNER)
    mine, theirs, gone = (
        add_record(database, one) for one in (node["uuid"], other["uuid"], str(uuid.uuid4()))
    )

    def listed(role: str, project: str | None, query: str = "") -> set[str]:
        found = callers(role, project).get(f"/v1/erasures{query}").json["erasures"]
        return {one["uuid"] for one in found}

    assert listed("reader", None) == {mine, theirs, gone}
    assert listed("reader", OWNER) == {mine}
    assert listed("admin", STRANGER) == {theirs}
    assert listed("reader", LESSEE) == set()
    assert listed("reader", OWNER, f"?node={other['uuid']}") == set()
    assert listed("reader", STRANGER, "?serial=S1") == {theirs}


def test_public_keys_need_no_login_and_no_role(
    callers: Callers, application: middleware.Wsgi, database: Database, node: dict[str, Any]
) -> None:
    add_record(database, node["uuid"])
    for caller in (callers("reader", STRANGER), Client(callers.application), Client(application)):
        answer = caller.get(f"/v1/erasures/keys/{KEY}")
        assert (answer.status, answer.body.decode()) == (200, PEM)
        assert caller.get("/v1/erasures/keys/k-2").status == 404


@pytest.mark.parametrize(("after", "status"), [("clean", 409), ("dirty", 204), ("unknown", 204)])
def test_node_with_an_instance_is_not_declared_clean(
    callers: Callers, add_node: AddNode, after: str, status: int
) -> None:
    node, caller = add_node(instance_uuid=str(uuid.uuid4())), callers("admin")
    path = f"/v1/nodes/{node['uuid']}"
    answer = caller.put(f"{path}/data_state", {**BODY, "data_state": after})
    assert answer.status == status
    assert (status == 204) or "Delete the instance" in answer.text
    shown = caller.get(f"{path}?fields=data_state").json["data_state"]
    assert shown == (after if status == 204 else "unknown")
