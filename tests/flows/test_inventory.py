"""What an inspection finds is kept with its end, or not at all."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.conductor.work import bounds
from ironic_lite.conductor.work.task import Task
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import inventories, nodes, ports
from ironic_lite.drivers.fake import inspect
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers

CARD, OTHER = "52:54:00:00:00:01", "52:54:00:00:00:02"


def inventory(rig: ConductorFixture, node: str) -> dict[str, Any] | None:
    """Return what is kept, None if nothing is."""
    try:
        found = rig.database.read(lambda conn: inventories.get(conn, node))
    except errors.NotFound:
        return None
    return dict(found["inventory"])


def cards(rig: ConductorFixture, node: str) -> dict[str, bool]:
    found = rig.database.read(lambda conn: ports.of_node(conn, node))
    return {port.address: port.pxe_enabled for port in found}


@pytest.mark.parametrize("waiting", [[], ["inspect"]], ids=["at once", "after a wait"])
def test_an_inspection_keeps_an_inventory(rig: ConductorFixture, waiting: list[str]) -> None:
    node = rig.node(fake_ports=[CARD], fake_async_verbs=waiting)
    rig.ask("inspect_hardware", node)
    rig.reaches(node, "manageable")
    found = inventory(rig, node)
    assert found is not None
    assert found["interfaces"] == [{"name": "eth0", "mac_address": CARD}]
    assert found["cpu"] == {"count": 8, "architecture": "x86_64"}


def test_the_next_inspection_replaces_it(rig: ConductorFixture) -> None:
    node = rig.node(fake_ports=[CARD])
    rig.call("inspect_hardware", node)
    rig.edit(node, driver_info={"fake_ports": [OTHER]})
    rig.call("inspect_hardware", node)
    found = inventory(rig, node)
    assert found is not None
    assert [one["mac_address"] for one in found["interfaces"]] == [OTHER]
    assert set(cards(rig, node)) == {CARD, OTHER}


def test_inspection_with_an_inventory_too_large_fails(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = rig.node(fake_ports=[CARD])
    rig.call("inspect_hardware", node)
    before = inventory(rig, node)
    monkeypatch.setattr(bounds, "MOST_KIB", 0)
    rig.edit(node, driver_info={"fake_ports": [OTHER]})
    rig.ask("inspect_hardware", node)
    row = rig.reaches(node, "inspect failed")
    assert "inventory would take" in row["last_error"]
    assert inventory(rig, node) == before


def test_failed_inspection_keeps_the_last_inventory(rig: ConductorFixture) -> None:
    node = rig.node(fake_fail_verbs={"inspect": "no"})
    rig.call("inspect_hardware", node)
    assert inventory(rig, node) is None
    rig.edit(node, driver_info={"fake_ports": [CARD]})
    rig.call("inspect_hardware", node)
    before = inventory(rig, node)
    assert before is not None
    rig.edit(node, driver_info={"fake_fail_verbs": {"inspect": "no"}})
    assert rig.call("inspect_hardware", node)["provision_state"] == "inspect failed"
    assert inventory(rig, node) == before


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("what", ["commit", "call"])
def test_a_conductor_that_dies_leaves_all_or_nothing_and_no_port_twice(
    build: Callable[..., ConductorFixture], sqlite_database: Database, what: str
) -> None:
    whole = 0
    for n in range(1, 9):
        life = crashes.Life()
        rig = build(
            crashes.database(sqlite_database, life), registry=crashes.drivers(drivers(), life)
        )
        rig.database = sqlite_database
        card = f"52:54:00:00:{n:02x}:01"
        node = rig.node(fake_ports=[card])
        life.arm(**{what: n})
        with contextlib.suppress(crashes.Died):
            rig.ask("inspect_hardware", node)
        assert rig.service.runtime.workers.wait_idle(5)
        rig.bury()
        row = rig.get(node)
        ended = row["inspection_finished_at"] is not None
        assert (inventory(rig, node) is not None) is ended
        assert ("cpus" in row["properties"]) is ended
        whole += ended
        # Whoever goes on: what was found before is found once more.
        again = build(sqlite_database)
        with again.tasks.lock(again.who, node, stale=nodes.Lease.seen(row)) as task:
            inspect.FakeInspect().inspect_hardware(task)
            task.save()
        again.bury()
        assert (set(cards(again, node)), inventory(again, node) is None) == ({card}, False)
    assert 0 < whole < 8


def test_task_that_lost_the_lock_stores_no_inventory(rig: ConductorFixture) -> None:
    node = rig.node()
    with pytest.raises(errors.LockLost), rig.tasks.lock(rig.who, node) as task:
        rig.database.write(lambda conn: nodes.unlock(conn, node, token=rig.get(node)["lock_token"]))
        task.keep_inventory({"cpu": {}}, {})
        task.save()
    assert inventory(rig, node) is None


def test_a_card_of_another_node_is_told_of_and_stays_there(
    rig: ConductorFixture, caplog: pytest.LogCaptureFixture
) -> None:
    node, other = rig.node(fake_ports=[CARD, OTHER]), rig.node(fake_ports=[CARD])
    rig.call("inspect_hardware", other)
    with caplog.at_level(logging.WARNING):
        assert rig.call("inspect_hardware", node)["provision_state"] == "manageable"
        rig.call("inspect_hardware", other)
    assert (set(cards(rig, node)), set(cards(rig, other))) == ({OTHER}, {CARD})
    said = [line for line in caplog.messages if "no port is added" in line]
    assert said == [
        f"Node {node}: no port is added for network card {CARD}: it is a port of node {other}."
    ]


def test_a_card_nobody_boots_from_becomes_such_a_port(rig: ConductorFixture) -> None:
    node = rig.node()
    with rig.tasks.lock(rig.who, node) as task:
        assert isinstance(task, Task)
        task.add_ports({CARD.upper(): True, OTHER: False})
        assert [port.pxe_enabled for port in task.ports] == [True, False]
    assert cards(rig, node) == {CARD: True, OTHER: False}
