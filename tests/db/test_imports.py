"""Imports from Ironic on each database: their rows, and the numbers of their nodes."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import holds
from ironic_lite.domain.holds import OBSERVE, TRIAL
from ironic_lite.features.move_in import rows
from tests.support.database_rows import NOON, add_hold, add_import, add_node, new_uuid

pytestmark = pytest.mark.feature("move_in")

UNREAD: dict[str, Any] = {"power_state": None, "provision_state": "active"}


def end(database: Database, hold: str) -> None:
    """End a hold."""
    values = {"ended_at": clock.now(), "ended_by": None, "end_reason": "seen"}
    database.write(lambda conn: holds.end(conn, hold, values))


def test_import_is_read_as_it_was_added(database: Database) -> None:
    maps = {"names": {"driver": {"ilo": "redfish"}}, "paths": []}
    findings = [{"kind": "loss", "text": "\u2028 ' \\ \U0001f600", "nodes": 1}] * 2
    row = {
        **{name: {} for name in ("selection", "maps", "marks", "counts")},
        **{"uuid": new_uuid(), "at": NOON, "by": "ann", "release": "29 (2025.1)", "trial": True},
        **{"head": "21c48150dea9", "source": "sqlite:///i", "maps": maps, "left_out": []},
        "findings": findings,
    }
    database.write(lambda conn: rows.add(conn, row))
    other = add_import(database)
    found = database.read(lambda conn: rows.get(conn, str(row["uuid"])))
    assert {name: found[name] for name in row} == row
    page = database.read(
        lambda conn: rows.page(conn, columns=("uuid", "trial"), direction="desc", limit=5)
    )
    assert page == [{"uuid": other, "trial": False}, {"uuid": row["uuid"], "trial": True}]
    with pytest.raises(errors.NotFound, match="Import"):
        database.read(lambda conn: rows.get(conn, new_uuid()))


def test_nodes_of_imports_are_counted(database: Database) -> None:
    first, second, empty = (add_import(database) for _ in range(3))

    def add(one: str | None, kind: str = OBSERVE, **values: Any) -> str:
        node = add_node(database, import_uuid=one, **{**UNREAD, **values})
        return add_hold(database, node, kind)

    add(first, power_state="power on")
    add(first)
    for more in ({"maintenance": True}, {"retired": True}, {"provision_state": "enroll"}):
        add(first, **more)
    end(database, add(first))
    add(first, "freeze")
    add(second, TRIAL)
    add(None)
    add_node(database, **UNREAD)
    found = database.read(lambda conn: rows.count_nodes(conn, [first, second, empty]))
    assert found == {
        first: rows.ImportedNodes(nodes=7, observed=5, unread=1),
        second: rows.ImportedNodes(nodes=1, observed=1, unread=1),
    }
    assert database.read(rows.count_observed) == (7, 3)


def test_unread_nodes_are_named_and_the_oldest_hold_is_found(database: Database) -> None:
    assert database.read(rows.count_observed) == (0, 0)
    assert database.read(rows.observed_since) is None
    uuids = [add_node(database, **UNREAD), add_node(database, name="r7-12", **UNREAD)]
    later = NOON + datetime.timedelta(hours=1)
    for node, kind, at in zip(uuids, (OBSERVE, TRIAL), (later, NOON), strict=True):
        add_hold(database, node, kind, created_at=at)
    add_hold(database, uuids[0], "freeze", created_at=NOON - datetime.timedelta(hours=1))
    # A second hold of the kind counts the node once.
    again = add_hold(database, uuids[0], OBSERVE, created_at=later)
    assert database.read(rows.count_observed) == (2, 2)
    assert database.read(rows.observed_since) == NOON
    assert database.read(lambda conn: rows.unread_names(conn, 10)) == [uuids[0], "r7-12"]
    assert database.read(lambda conn: rows.unread_names(conn, 1)) == [uuids[0]]
    end(database, again)
    assert database.read(rows.count_observed) == (2, 2)
