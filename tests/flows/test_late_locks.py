"""A verb's first save takes the lock: what another does to the node before that save."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import holds, nodes
from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for
from tests.support.statements import count_statements

Build = Callable[..., ConductorFixture]
Change = Callable[[Connection, str], None]
STEPS = listed("bios.factory_reset")


class Meddler:
    """Drivers during whose first check another changes the node."""

    def __init__(self, database: Database, change: Change) -> None:
        self.node = ""
        self.checks = 0
        self._database = database
        self._change = change

    def registry(self) -> Registry:
        """Return the drivers."""

        def around(kind: str, name: str, call: Callable[[], Any]) -> Any:
            if (kind, name) == ("power", "validate") and self.node:
                self.checks += 1
                if self.checks == 1:
                    self._database.write(lambda conn: self._change(conn, self.node))
            return call()

        return cast(Registry, crashes.Drivers(drivers(), around, more=("validate",)))


def describe(conn: Connection, node: str) -> None:
    """Change a field as a PATCH does."""
    known = nodes.load(conn, node)
    nodes.edit(conn, node, {"description": "changed"}, generation=known.generation)


def lock(conn: Connection, node: str) -> None:
    """Lock the node as another conductor does."""
    assert nodes.lock(conn, node, host="there", token="other", expires=clock.after(60))


def remove(conn: Connection, node: str) -> None:
    """Delete the node as another conductor does."""
    nodes.delete_unlocked(conn, node, generation=nodes.load(conn, node).generation)


def hold(conn: Connection, node: str, blocks: str = "verbs,power") -> None:
    """Set a hold as the API does."""
    row = {
        "uuid": "00000000-0000-4000-8000-000000000001",
        "node_uuid": node,
        "kind": "audit",
        "reason": "an audit",
        "blocks": blocks,
        "until": None,
        "created_at": clock.now(),
        "created_by": "auditor",
    }
    holds.add(conn, row)


def meddled(
    build: Build, database: Database, change: Change, **options: Any
) -> tuple[ConductorFixture, Meddler]:
    """Return a conductor and its drivers; the node is at the next check's mercy."""
    meddler = Meddler(database, change)
    rig = build(registry=meddler.registry(), conductor__node_locked_retry_interval=0, **options)
    meddler.node = rig.node()
    return rig, meddler


def idle(rig: ConductorFixture) -> bool:
    return rig.tasks.held == frozenset() and rig.service.runtime.workers.busy == 0


def test_verb_starts_under_the_lock_if_the_node_has_changed(
    build: Build, sqlite_database: Database
) -> None:
    rig, meddler = meddled(build, sqlite_database, describe)
    row = rig.call("do_node_clean", meddler.node, clean_steps=STEPS)
    assert (row["provision_state"], row["description"]) == ("manageable", "changed")
    assert len(rig.runs(meddler.node)) == 1
    wait_for(lambda: idle(rig))


@pytest.mark.parametrize(
    ("change", "refusal", "token"),
    [
        (lock, (errors.NodeLocked, "there"), "other"),
        (hold, (errors.NodeHeld, "an audit"), None),
    ],
    ids=["lock", "hold"],
)
def test_verb_is_refused_by_what_comes_before_its_lock(
    build: Build,
    sqlite_database: Database,
    change: Change,
    refusal: tuple[type[errors.Error], str],
    token: str | None,
) -> None:
    rig, meddler = meddled(build, sqlite_database, change)
    with pytest.raises(refusal[0], match=refusal[1]):
        rig.ask("do_node_clean", meddler.node, clean_steps=STEPS)
    row = rig.get(meddler.node)
    assert (row["provision_state"], row["lock_token"]) == ("manageable", token)
    assert not rig.runs(meddler.node)
    wait_for(lambda: idle(rig))


def test_verb_finds_no_node_that_has_just_been_deleted(
    build: Build, sqlite_database: Database
) -> None:
    rig, meddler = meddled(build, sqlite_database, remove)
    with pytest.raises(errors.NodeNotFound):
        rig.ask("do_node_clean", meddler.node, clean_steps=STEPS)
    wait_for(lambda: idle(rig))


def test_hold_refuses_the_verb_also_while_the_limit_is_full(
    build: Build, sqlite_database: Database
) -> None:
    rig = build(conductor__max_concurrent_clean=1)
    rig.node("clean wait", conductor_group="elsewhere")
    node = rig.node()
    with pytest.raises(errors.TooManyActions):
        rig.ask("do_node_clean", node, clean_steps=STEPS)
    sqlite_database.write(lambda conn: hold(conn, node))
    with pytest.raises(errors.NodeHeld, match="an audit"):
        rig.ask("do_node_clean", node, clean_steps=STEPS)
    wait_for(lambda: idle(rig))


def test_hold_refuses_the_deletion_of_a_node(build: Build, sqlite_database: Database) -> None:
    rig = build()
    node = rig.node()
    sqlite_database.write(lambda conn: hold(conn, node, "forget"))
    with pytest.raises(errors.NodeHeld, match="an audit"):
        rig.ask("destroy_node", node)
    assert rig.get(node)["lock_token"] is None
    wait_for(lambda: idle(rig))


def test_deletion_is_repeated_under_the_lock_if_the_node_has_changed(
    build: Build, sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = build()
    node = rig.node()
    delete, tries = nodes.delete_unlocked, []

    def late(conn: Connection, uuid: str, *, generation: int) -> None:
        tries.append(uuid)
        delete(conn, uuid, generation=generation - 1)

    monkeypatch.setattr(nodes, "delete_unlocked", late)
    rig.ask("destroy_node", node)
    assert tries == [node]
    with pytest.raises(errors.NodeNotFound):
        rig.get(node)
    wait_for(lambda: idle(rig))


def test_two_lookups_at_once_learn_one_token(
    build: Build, sqlite_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig = build(api__restrict_lookup=False)
    node = rig.node()
    note, told = rig.tasks.note, []

    def second_first(seen: Any) -> None:
        monkeypatch.setattr(rig.tasks, "note", note)
        told.append(rig.endpoints.get_node_with_token(rig.who, node_uuid=node))
        note(seen)

    monkeypatch.setattr(rig.tasks, "note", second_first)
    told.append(rig.endpoints.get_node_with_token(rig.who, node_uuid=node))
    assert [one["fresh"] for one in told] == [True, False]
    assert told[0]["agent_token"] == told[1]["agent_token"]
    wait_for(lambda: idle(rig))


def test_known_token_is_told_without_a_transaction(build: Build, sqlite_database: Database) -> None:
    rig = build(api__restrict_lookup=False)
    node = rig.node()
    rig.endpoints.get_node_with_token(rig.who, node_uuid=node)
    with count_statements(sqlite_database) as statements:
        rig.endpoints.get_node_with_token(rig.who, node_uuid=node)
    assert len(statements) == 1


def test_verb_whose_check_asks_the_machine_runs_under_the_lock(build: Build) -> None:
    reserved: list[str | None] = []

    def around(kind: str, name: str, call: Callable[[], Any]) -> Any:
        if (kind, name) == ("power", "validate"):
            task = cast(Any, call).args[0]
            task.confirm_lock()  # as before each request to a BMC
            reserved.append(task.node.reservation)
        return call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around, more=("validate",))))
    node = rig.node()
    assert rig.call("do_node_clean", node, clean_steps=STEPS)["provision_state"] == "manageable"
    assert set(reserved) == {"here"}
    wait_for(lambda: idle(rig))
