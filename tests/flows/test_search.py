"""Conductors keep the terms of nodes, and repair those that are missing or old."""

from __future__ import annotations

from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite.conductor.engine.task import Task
from ironic_lite.db.engine.session import Connection, followers
from ironic_lite.db.queries import nodes, reports
from ironic_lite.db.tables import models
from ironic_lite.drivers.fake.hardware import FakeBIOS
from ironic_lite.features.search import rows, work
from tests.support.conductor_fixture import ConductorFixture
from tests.support.statements import count_statements

pytestmark = pytest.mark.feature("search")


def values(rig: ConductorFixture, text: str) -> list[str]:
    """Return the values that a query finds."""
    given: dict[str, Any] = {"limit": 100, "project": None, "readable": {}}
    hits, _ = rig.database.read(lambda conn: rows.search(conn, [text], **given))
    return [hit.value for hit in hits]


def test_inspected_machine_is_found_by_its_inventory(rig: ConductorFixture) -> None:
    node = rig.node(name="n-1", fake_ports=["52:54:00:00:00:07"])
    assert rig.call("inspect", node)["provision_state"] == "manageable"
    found = rig.database.read(lambda conn: reports.get_inventory(conn, node))["inventory"]
    rig.sweep("changes for the search")
    address = found["interfaces"][0]["mac_address"]
    assert address in values(rig, address)


def test_sweep_fills_what_is_missing_and_repairs_what_is_old(rig: ConductorFixture) -> None:
    kept = rig.node(name="kept-1", extra={"rack": "r1"})
    moved = rig.node(name="old-1")
    rig.sweep("changes for the search")
    followers(rig.database.engine).clear()  # as while the feature is off
    added = [rig.node(name=f"added-{n}") for n in range(25)]
    change = {"name": "new-1"}
    rig.database.write(lambda conn: nodes.edit(conn, moved, change, generation=0))
    rows.attach(rig.database.engine)
    assert values(rig, "added") == values(rig, "new") == []
    rig.sweep("search terms")
    assert len(values(rig, "added")) == len(added)
    assert values(rig, "new-1") == ["new-1"]
    assert values(rig, "old-1") == []
    assert values(rig, "r1") == ["r1"]
    assert kept
    rig.sweep("search terms")  # finds nothing
    with count_statements(rig.database) as sent:
        rig.sweep("search terms")  # waits for the next day
    assert sent == []


def test_node_whose_terms_cannot_be_made_stops_no_other(
    rig: ConductorFixture, caplog: pytest.LogCaptureFixture
) -> None:
    followers(rig.database.engine).clear()
    bad, good = rig.node(name="bad-1"), rig.node(name="good-1")
    stored = '{"$fernet": "lostkey:x"}'
    rig.database.write(
        lambda conn: conn.execute(
            sa.text("UPDATE nodes SET driver_info = :v WHERE uuid = :u"), {"v": stored, "u": bad}
        )
    )
    rig.sweep("search terms")
    assert values(rig, "good-1") == ["good-1"]
    assert good
    assert f"Node {bad} is not found by all its values: " in caplog.text


def test_deleted_node_has_no_terms(rig: ConductorFixture) -> None:
    node = rig.node(name="gone-1")
    rig.sweep("changes for the search")
    assert values(rig, "gone-1") == ["gone-1"]
    gone = models.nodes.delete().where(models.nodes.c.uuid == node)
    rig.database.write(lambda conn: conn.execute(gone))
    assert values(rig, "gone-1") == []


def test_steps_of_a_clean_change_no_terms(rig: ConductorFixture) -> None:
    node = rig.node(name="n-1")
    rig.sweep("changes for the search")
    rig.clean(node, "bios.factory_reset")
    assert rig.database.read(lambda conn: rows.changes(conn, 10)) == []


def test_properties_that_a_step_has_changed_are_found(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The begin of the next step saves what a step has changed."""
    node = rig.node(name="n-1")
    rig.sweep("changes for the search")
    real = FakeBIOS.factory_reset
    seen: list[str] = []

    def change(self: FakeBIOS, task: Task, **args: Any) -> Any:
        if not seen:
            task.node.properties = {**task.node.properties, "vendor": "Acme"}
        else:
            rig.sweep("changes for the search")
        seen.append(str(values(rig, "acme")))
        return real(self, task, **args)

    monkeypatch.setattr(FakeBIOS, "factory_reset", change)
    rig.clean(node, "bios.factory_reset", "bios.factory_reset")
    assert seen == ["[]", "['Acme']"]


def test_node_that_fails_stops_no_other_and_its_note_goes(
    rig: ConductorFixture, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [rig.node(name=f"n-{number}") for number in range(30)]
    real = rows.repair

    def fail(conn: Connection, node: str) -> None:
        if node in made[:25]:
            raise ZeroDivisionError
        real(conn, node)

    monkeypatch.setattr(rows, "repair", fail)
    rig.sweep("changes for the search")
    assert len(values(rig, "n-")) == 5
    assert rig.database.read(lambda conn: rows.changes(conn, 10)) == []
    assert caplog.text.count("is not found by all its values: ZeroDivisionError") == 20
    assert "5 more remarks are left out" in caplog.text
    caplog.clear()
    rig.sweep("search terms")
    assert caplog.text.count("is not found by all its values: ZeroDivisionError") == 20


def test_changes_of_other_conductors_are_passed_over(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [rig.node(name=f"n-{number}") for number in range(7)]
    mine = made[-1]
    monkeypatch.setattr(work, "_PAGE", 2)
    monkeypatch.setattr(work.TermRepair, "_is_mine", lambda _self, node: node == mine)
    rig.sweep("changes for the search")
    assert values(rig, "n-") == ["n-6"]
    left = [change.uuid for change in rig.database.read(lambda conn: rows.changes(conn, 10))]
    assert left == made[:-1]


def test_many_changes_are_settled_by_one_sweep(rig: ConductorFixture) -> None:
    for number in range(45):
        rig.node(name=f"n-{number}")
    rig.sweep("changes for the search")
    assert rig.database.read(lambda conn: rows.changes(conn, 10)) == []
    assert len(values(rig, "n-")) == 45
    with count_statements(rig.database) as sent:
        rig.sweep("changes for the search")
    assert len(sent) == 1
