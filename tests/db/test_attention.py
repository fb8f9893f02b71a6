"""Nodes that need a person, grouped by each database alike."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes, paging
from ironic_lite.db.queries import runs as run_rows
from ironic_lite.db.tables import models
from ironic_lite.features.attention import rows
from ironic_lite.features.attention.rules import Cause
from tests.support.database_rows import NOON, add_node, insert_run, new_uuid

pytestmark = pytest.mark.feature("attention")

KEY = "c41f0be9a7d2"
WHY = "Cannot clean."


def fail(database: Database, state: str = "clean failed", **values: Any) -> str:
    """Add a node with a failed run; return its UUID."""
    run = {"owner": values.get("owner"), "ended_at": clock.ago(600), "cause": KEY}
    run |= values.pop("run", {})
    node = add_node(database, provision_state=state, provision_updated_at=NOON, **values)
    add_run(database, node, state="failed", **run)
    return node


def add_run(database: Database, node: str, **values: Any) -> str:
    row = {"uuid": new_uuid(), "node_uuid": node, "verb": "clean", "started_at": clock.ago(900)}
    row |= {"error": {"text": WHY, "code": "X", "step": "deploy.erase"}, **values}
    database.write(lambda conn: insert_run(conn, row))
    return str(row["uuid"])


def hold(database: Database, node: str, blocks: str) -> None:
    row: dict[str, Any] = {"uuid": new_uuid(), "node_uuid": node, "created_at": NOON}
    row |= {"kind": "x", "reason": "r", "blocks": blocks}
    database.write(lambda conn: conn.execute(models.holds.insert(), row))


def grouped(
    database: Database, where: dict[str, Any] | None = None, own: dict[str, Any] | None = None
) -> set[tuple[Any, ...]]:
    """Return kind, what, silence, retrying, readable and number of each group."""
    found = database.read(lambda conn: rows.groups(conn, where or {}, own or {}, [0]))
    return {(*row[:3], bool(row.retrying), bool(row.readable), row.nodes) for row in found}


def test_nodes_are_grouped_by_kind_cause_and_silence(database: Database) -> None:
    fault: dict[str, Any] = {"maintenance": True, "fault": "clean failure", "last_error": WHY}
    fail(database, **fault, maintenance_reason=WHY)
    fail(database, **{**fault, "last_error": "Later."}, maintenance_reason=WHY)
    fail(database, **fault, maintenance_reason="a disk is on its way")
    fail(database, **fault)
    fail(database, maintenance=True, wake_at=NOON)
    hold(database, fail(database), "use")
    hold(database, fail(database), "erase,forget")
    add_run(database, fail(database), state="aborted", cause=None, code="X")
    fail(database, "enroll", last_error="no", health="Critical")
    add_node(database, provision_state="enroll", last_error="no")  # was never verified
    add_node(database, provision_state="enroll")
    add_node(database, provision_state="active", fault="power failure", maintenance=True)
    add_node(database, provision_state="active", health="Critical")
    add_node(database, provision_state="active", health="Warning", maintenance=True)
    assert grouped(database) == {
        ("failed", KEY, None, False, True, 3),
        ("failed", KEY, "maintenance", False, True, 2),
        ("failed", KEY, "maintenance", True, True, 1),
        ("failed", KEY, "held", False, True, 1),
        ("failed", "clean X", None, False, True, 1),
        ("unverified", KEY, None, False, True, 1),
        ("unverified", None, None, False, True, 1),
        ("fault", "power failure", None, False, True, 1),
        ("health", "Critical", None, False, True, 1),
        ("health", "Warning", "maintenance", False, True, 1),
    }
    assert grouped(database, {"provision_state": "enroll"}) == {
        ("unverified", KEY, None, False, True, 1),
        ("unverified", None, None, False, True, 1),
    }
    assert database.read(lambda conn: rows.count(conn, "unverified", {})) == 2
    assert database.read(lambda conn: rows.count(conn, "unverified", {"owner": "p"})) == 0


def test_runs_of_others_are_not_readable(database: Database) -> None:
    fail(database, owner="p")
    fail(database, owner="p", run={"owner": "q"})
    fail(database, owner="q")
    own = {paging.OWN_OWNER: "p", paging.OWN_LESSEE: None}
    assert grouped(database, {"project": "p"}, own) == {
        ("failed", KEY, None, False, True, 1),
        ("failed", KEY, None, False, False, 1),
    }


def test_details_are_those_of_the_newest_run(database: Database) -> None:
    node = fail(database, name="n1", driver_info={"redfish_address": "https://bmc1"})
    newest = add_run(database, node, state="failed", ended_at=NOON, verb="provide")
    lonely = add_node(database, provision_state="error", last_error="gone")
    found = database.read(lambda conn: rows.groups(conn, {}, {}, []))
    ids = sorted(group.first_id for group in found)
    wanted = [Cause("failed", KEY, KEY, ids=ids)]
    about = database.read(lambda conn: rows.details(conn, wanted, {}, {}))
    by_uuid = {one["uuid"]: one for one in about.values()}
    assert by_uuid[node]["run"]["uuid"] == newest
    assert by_uuid[node]["run"]["error"]["text"] == WHY
    assert by_uuid[lonely]["run"] is None
    assert [one["uuid"] for one in about.values() if one["driver_info"]] == [node]


def test_details_are_those_that_a_project_may_read(database: Database) -> None:
    kept, sold = fail(database, owner="p"), fail(database, owner="p")
    leased = fail(database, owner="p", last_error=WHY)
    own = {paging.OWN_OWNER: "p", paging.OWN_LESSEE: None}
    where = {"project": "p"}
    found = database.read(lambda conn: rows.groups(conn, where, own, []))
    [(first, last)] = [(group.first_id, group.last_id) for group in found]
    wanted = [Cause("failed", KEY, KEY, ids=[*range(first, last + 1)])]
    # Between the two statements, one node is sold and the next owner's run of another one fails.
    change = models.nodes.update().where(models.nodes.c.uuid == sold).values(owner="q")
    database.write(lambda conn: conn.execute(change))
    add_run(database, leased, state="failed", owner="q")
    about = database.read(lambda conn: rows.details(conn, wanted, where, own))
    shown = {one["uuid"]: (one["run"] is not None, one["last_error"]) for one in about.values()}
    assert shown == {kept: (True, None), leased: (False, None)}


def test_late_steps_are_those_that_are_marked(database: Database) -> None:
    for marked in (True, False):
        node = add_node(database, provision_state="cleaning", resource_class="gpu")
        run = add_run(database, node, state="running")
        step = {"run_uuid": run, "kind": "clean", "ordinal": 0, "interface": "deploy"}
        step |= {"step": "erase", "state": "running", "started_at": clock.ago(600)}
        late = models.run_steps.update().where(models.run_steps.c.run_uuid == run)
        late = late.values(overdue_at=clock.ago(60) if marked else clock.ago(900))
        database.write(lambda conn, step=step: run_rows.insert_steps(conn, [step]))  # type: ignore[misc]
        database.write(lambda conn, late=late: conn.execute(late))  # type: ignore[misc]
    for where, expected in (({}, 1), ({"resource_class": "gpu"}, 1), ({"owner": "p"}, 0)):
        found = database.read(lambda conn, where=where: rows.late_steps(conn, where))  # type: ignore[misc]
        assert [(one.verb, *one.name, one.silence) for one in found] == [
            ("clean", "deploy", "erase", None)
        ] * expected
        count = database.read(lambda conn, where=where: rows.count(conn, "overdue", where))  # type: ignore[misc]
        assert count == expected


def test_runs_are_counted_by_state_and_by_the_hour_of_their_failure(database: Database) -> None:
    now = clock.now()
    since = now.replace(minute=0, second=0, microsecond=0) - datetime.timedelta(hours=23)
    node = fail(database, owner="p", resource_class="gpu")
    add_run(database, node, state="waiting")
    add_run(database, node, state="failed", ended_at=since - datetime.timedelta(seconds=1))
    add_run(database, node, state="failed", ended_at=since, owner="q")
    hour = clock.ago(600).isoformat(" ")[:13]
    expected = {hour: 1, since.isoformat(" ")[:13]: 1}

    def read(where: dict[str, Any], own: dict[str, Any]) -> Any:
        return database.read(lambda conn: rows.runs(conn, where, own, since))

    open_runs = {"running": 0, "waiting": 1}
    assert read({}, {}) == (open_runs, expected)
    assert read({"resource_class": "gpu"}, {}) == (open_runs, expected)
    assert read({"resource_class": "cpu"}, {}) == ({"running": 0, "waiting": 0}, {})
    own = {paging.OWN_OWNER: "p", paging.OWN_LESSEE: None}
    assert read({"project": "p"}, own) == (open_runs, {hour: 1})


def test_groups_without_a_living_conductor_are_found(database: Database) -> None:
    def lonely(*living: str) -> bool:
        return database.read(lambda conn: rows.has_group_without(conn, living))

    assert not lonely()
    for group in ("", "b"):
        add_node(database, conductor_group=group)
    assert lonely()
    assert not lonely("", "b")
    assert not lonely("b", "", "a", "c")
    for living in (("",), ("b",), ("a", "b"), ("", "a"), ("", "c")):
        assert lonely(*living), living


def test_cause_of_nodes_is_a_filter_of_each_database(database: Database) -> None:
    found = fail(database, owner="p")
    fail(database, owner="q")
    fail(database, "manageable")
    fail(database, run={"cause": "0" * 12})

    def names(**where: Any) -> list[str]:
        listed = database.read(lambda conn: nodes.page(conn, columns=("uuid",), where=where))
        return [one["uuid"] for one in listed]

    assert len(names(cause=[KEY])) == 2
    assert names(cause=[KEY], own_owner="p", own_lessee=None) == [found]
    assert names(cause=[KEY, "f" * 12], owner="p") == [found]
