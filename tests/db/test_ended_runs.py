"""``ironic-lite-dbsync end_runs`` on each database, and as a program."""

from __future__ import annotations

import functools
import pathlib
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.cmd import end_runs
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import allocations, events, holds
from ironic_lite.domain import states
from ironic_lite.domain.holds import MOST
from ironic_lite.domain.states import Kind
from tests.db import test_allocations
from tests.support import prefork, service
from tests.support.conductor_fixture import configure
from tests.support.database_rows import add_node, get_node, lock_node, new_uuid

ENDED = {
    "verifying": "enroll",
    "inspecting": "inspect failed",
    "inspect wait": "inspect failed",
    "cleaning": "clean failed",
    "clean wait": "clean failed",
    "clean hold": "clean failed",
    "deploying": "deploy failed",
    "wait call-back": "deploy failed",
    "deploy hold": "deploy failed",
    "deleting": "error",
    "adopting": "adopt failed",
    "rescuing": "rescue failed",
    "rescue wait": "rescue failed",
    "unrescuing": "unrescue failed",
    "servicing": "service failed",
    "service wait": "service failed",
    "service hold": "service failed",
}


@pytest.mark.parametrize("locked", [True, False])
def test_every_state_of_work_ends_in_its_fail_state(database: Database, locked: bool) -> None:
    working = states.of_kind(Kind.BUSY, Kind.WAIT, Kind.HELD)
    assert set(ENDED) == {str(state) for state in working}
    added = {
        state: add_node(
            database,
            provision_state=state,
            power_state="power off",
            driver_info={},
            driver_internal_info={},
            instance_info={},
            properties={},
            extra={},
        )
        for state in ENDED
    }
    timed = add_node(database, provision_state="clean failed", wake_at=clock.after(3600))
    if locked:
        assert all(lock_node(database, node, node) for node in added.values())
    assert end_runs.run(configure(), database, True) == 0
    found = {state: get_node(database, node) for state, node in added.items()}
    assert {state: row["provision_state"] for state, row in found.items()} == ENDED
    assert all("The database was restored" in row["last_error"] for row in found.values())
    assert {(row["lock_token"], row["power_state"]) for row in found.values()} == {(None, None)}
    assert get_node(database, timed)["wake_at"] is None


def test_allocations_in_search_of_a_node_end(database: Database) -> None:
    searching = test_allocations.add(database)
    found = test_allocations.add(database, state="active")
    assert end_runs.run(configure(), database, True) == 0
    row = database.read(lambda conn: allocations.get(conn, searching))
    assert row["state"] == "error"
    assert "The database was restored" in row["last_error"]
    assert database.read(lambda conn: allocations.get(conn, found))["state"] == "active"


def test_every_node_is_held_before_its_run_ends(database: Database) -> None:
    """Active and rescued ones as well: since the backup another tenant may have the machine."""
    states_of = ("enroll", "available", "active", "rescue", "clean wait", "clean failed")
    added = [add_node(database, provision_state=state) for state in states_of]
    for _ in range(2):  # a repetition adds no second hold
        assert end_runs.run(configure(), database, True, "restore of 3 May") == 0
    for node in added:
        (hold,) = database.read(functools.partial(holds.in_force, node_uuid=node, project=None))
        assert (hold.kind, hold.reason) == ("freeze", "restore of 3 May")
        assert hold.created_by == "restore of the database"
        kinds = [
            one["kind"] for one in database.read(functools.partial(events.page, node_uuid=node))
        ]
        assert kinds.count("hold_added") == 1
        assert kinds[0] == "hold_added", "before the end of the run"


@pytest.mark.parametrize("chosen", ["owner", "group", "list", "all"])
def test_holds_of_a_restore_end_together(database: Database, chosen: str) -> None:
    named = add_node(database, name="r1", owner="p1", conductor_group="rack-7")
    other, free = add_node(database), add_node(database)
    row = {**dict.fromkeys(holds.COLUMNS[1:]), "node_uuid": named, "kind": "freeze"}
    row |= {"reason": "mine", "blocks": "verbs", "created_at": clock.now(), "uuid": new_uuid()}
    database.write(lambda conn: holds.add(conn, row))
    assert end_runs.run(configure(), database, True, "restore") == 0
    choices: dict[str, dict[str, Any]] = {
        "owner": {"owner": "p1"},
        "group": {"conductor_group": "rack-7"},
        "list": {"uuid": ["r1"]},
        "all": {},
    }
    with pytest.raises(errors.NodeNotFound):
        end_runs.end_holds(database, {"uuid": ["r1", "r2"]}, "compared")
    assert end_runs.end_holds(database, choices[chosen], "compared") == 0
    held = {
        node: [
            hold.reason
            for hold in database.read(
                functools.partial(holds.in_force, node_uuid=node, project=None)
            )
        ]
        for node in (named, other, free)
    }
    rest = [] if chosen == "all" else ["restore"]
    assert held == {named: ["mine"], other: rest, free: rest}
    written = database.read(functools.partial(events.page, node_uuid=named))
    assert written[-1]["kind"] == "hold_ended"
    assert (written[-1]["data"] or {})["reason"] == "compared"


def test_node_with_many_holds_is_frozen_as_well(database: Database) -> None:
    node = add_node(database)
    row = {**dict.fromkeys(holds.COLUMNS[1:]), "node_uuid": node, "kind": "hardware"}
    row |= {"reason": "fan", "blocks": "use", "created_at": clock.now()}
    many = [{**row, "uuid": new_uuid()} for _ in range(MOST)]
    database.write(lambda conn: holds.add_all(conn, many))
    assert end_runs.run(configure(), database, True, "restore") == 0
    found = database.read(lambda conn: holds.in_force(conn, node, None))
    assert [hold.kind for hold in found] == [*["hardware"] * MOST, "freeze"]


def test_program_lists_and_ends_runs(sqlite_database: Database, tmp_path: pathlib.Path) -> None:
    node = add_node(sqlite_database, provision_state="clean wait")
    path = tmp_path / "ironic-lite.conf"
    path.write_text(f"[database]\nconnection = {sqlite_database.url}\n")

    def run(*words: str) -> str:
        program = str(service.SCRIPTS / "ironic-lite-dbsync")
        command = [program, "--config-file", str(path), *words]
        done = prefork.run(command, env=service.environment(), timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    said = run("end_runs")
    assert f"node {node}: clean wait: becomes clean failed\n" in said
    assert (
        "1 nodes, 0 batches, 0 allocations. Nothing was changed. Repeat the command with --yes"
        in said
    )
    assert get_node(sqlite_database, node)["provision_state"] == "clean wait"
    assert "Done: 1 nodes, 0 batches, 0 allocations." in run("end_runs", "--yes")
    assert get_node(sqlite_database, node)["provision_state"] == "clean failed"
    assert "0 nodes, 0 batches, 0 allocations." in run("end_runs", "--hold", "restore")
    held = sqlite_database.read(lambda conn: holds.in_force(conn, node, None))
    assert held == [], "nothing is changed without --yes"
    run("end_runs", "--hold", "restore", "--yes")
    (hold,) = sqlite_database.read(lambda conn: holds.in_force(conn, node, None))
    assert hold.reason == "restore"
    assert run("end_holds", "--all", "--reason", "compared") == "1 holds have ended.\n"
    refused = prefork.run(
        [str(service.SCRIPTS / "ironic-lite-dbsync"), "end_runs", "--hold", " "],
        env=service.environment(),
        timeout=60,
    )
    assert refused.returncode == 2
    assert "a reason has 1 to 255 printable characters" in refused.stderr
