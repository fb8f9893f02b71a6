"""``cause=``: the nodes that stand in a failure of a cause, for those who may read its runs."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from tests.support.api_rows import AddNode
from tests.support.callers import LESSEE, OWNER, STRANGER, Callers
from tests.support.database_rows import insert_run, new_uuid
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

CAUSE, OTHER = "c41f0be9a7d2", "0123456789ab"


def add_run(database: Database, node: dict[str, Any], **values: Any) -> str:
    """Add a run of the node's present owner that failed by `CAUSE`; return its UUID."""
    at = clock.now() - datetime.timedelta(minutes=1)
    owners = {name: node[name] for name in ("owner", "lessee")}
    row = {"uuid": new_uuid(), "node_uuid": node["uuid"], "verb": "clean", "state": "failed"}
    row |= {"started_at": at, "ended_at": at, "cause": CAUSE, **owners, **values}
    database.write(lambda conn: insert_run(conn, row))
    return str(row["uuid"])


def names(client: Client, query: str = "") -> list[str]:
    """Return the names of the listed nodes of a cause."""
    answer = client.get(f"/v1/nodes?fields=name&cause={query or CAUSE}")
    assert answer.status == 200, answer.text
    return [node["name"] for node in answer.json["nodes"]]


def test_nodes_stand_in_the_failure_of_their_newest_run(
    api: Client, database: Database, add_node: AddNode
) -> None:
    states: dict[str, dict[str, Any]] = {
        "cleaned": {"provision_state": "clean failed"},
        "deleted": {"provision_state": "error"},
        "verified": {"provision_state": "enroll", "last_error": "no BMC"},
        "corrected": {"provision_state": "enroll", "last_error": None},
        "managed": {"provision_state": "manageable", "last_error": "no disk"},
        "retried": {"provision_state": "cleaning"},
        "later": {"provision_state": "clean failed"},
        "other": {"provision_state": "clean failed"},
    }
    added = {name: add_node(name=name, **values) for name, values in states.items()}
    for name, node in added.items():
        add_run(database, node, cause=OTHER if name == "other" else CAUSE)
    add_run(database, added["later"], cause=OTHER)
    add_run(database, added["retried"], cause=None, state="running", ended_at=None)
    assert names(api) == ["cleaned", "deleted", "verified"]
    assert names(api, OTHER) == ["later", "other"]
    both = ["cleaned", "deleted", "verified", "later", "other"]
    assert names(api, f"{CAUSE},{OTHER}") == both
    assert names(api, f"{CAUSE}&provision_state=error") == ["deleted"]
    assert names(api, "000000000000") == []


def test_filter_costs_no_statement_of_its_own(
    api: Client, database: Database, add_node: AddNode
) -> None:
    for number in range(5):
        add_run(database, add_node(name=f"n{number}", provision_state="clean failed"))
    with count_statements(database) as sent:
        assert names(api, f"{CAUSE}&limit=2") == ["n0", "n1"]
    assert len(sent) == 1
    marker = api.get("/v1/nodes/n2").json["uuid"]
    assert names(api, f"{CAUSE}&marker={marker}") == ["n3", "n4"]
    assert names(api, f"{CAUSE}&sort_key=name&sort_dir=desc&limit=2") == ["n4", "n3"]


def test_caller_finds_nodes_whose_runs_it_may_read(
    database: Database, callers: Callers, add_node: AddNode
) -> None:
    failed = {"provision_state": "clean failed"}
    mine = add_node(name="mine", owner=OWNER, lessee=LESSEE, **failed)
    bought = add_node(name="bought", owner=OWNER, **failed)
    add_run(database, mine)
    add_run(database, bought, owner=STRANGER)
    add_run(database, add_node(name="theirs", owner=STRANGER, **failed))
    assert names(callers("reader")) == ["mine", "bought", "theirs"]
    assert names(callers("reader", OWNER)) == ["mine"]
    assert names(callers("reader", LESSEE)) == []
    assert names(callers("reader", STRANGER)) == ["theirs"]
    assert names(callers("reader", "p-none")) == []
    runs = callers("reader", LESSEE).get(f"/v1/runs?cause={CAUSE}")
    assert (runs.status, runs.json) == (200, {"runs": []})


@pytest.mark.feature("statistics")
def test_nodes_of_a_cause_are_counted(
    database: Database, callers: Callers, add_node: AddNode
) -> None:
    node = add_node(owner=OWNER, lessee=LESSEE, provision_state="clean failed")
    add_run(database, node)
    path = f"/v1/stats/nodes?by=provision_state&cause={CAUSE}"
    found = [callers("reader", project).get(path).json["of"] for project in (OWNER, LESSEE, None)]
    assert found == [1, 0, 1]


@pytest.mark.feature("batches")
def test_batch_takes_the_nodes_of_a_cause(
    database: Database, callers: Callers, add_node: AddNode
) -> None:
    node = add_node(owner=OWNER, lessee=LESSEE, provision_state="clean failed")
    add_run(database, node)
    body = {"nodes": {"cause": CAUSE}, "expect": 1, "request": {"target": "manage"}}
    planned = callers("admin", OWNER).post("/v1/batches?plan=true", body)
    assert (planned.status, planned.json["counts"]["pending"]) == (200, 1), planned.text
    refused = callers("admin", LESSEE).post("/v1/batches?plan=true", body)
    assert (refused.status, "at least one node" in refused.text) == (400, True)
    wrong = callers("admin").post("/v1/batches?plan=true", {**body, "nodes": {"cause": "x"}})
    assert (wrong.status, "nodes: cause: " in wrong.text) == (400, True), wrong.text


@pytest.mark.parametrize("key", ["", "x", "C41F0BE9A7D2", f"{CAUSE}0", f"{CAUSE},y"])
def test_bad_key_is_refused(api: Client, key: str) -> None:
    answer = api.get(f"/v1/nodes?cause={key}")
    assert (answer.status, "cause: " in answer.text) == (400, True)
