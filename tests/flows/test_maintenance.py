"""Maintenance that a fault has set must not keep a node waiting for ever (C31)."""

from __future__ import annotations

import datetime
import uuid
from typing import Any

import pytest

from ironic_lite import clock
from ironic_lite.db import nodes, sweeps
from ironic_lite.db.session import Database


def _overdue(database: Database) -> list[str]:
    rows = database.read(
        lambda conn: sweeps.overdue(conn, state="clean wait", before=clock.now(), limit=10)
    )
    return [row["uuid"] for row in rows]


@pytest.mark.parametrize(
    ("maintenance", "fault", "times_out"),
    [(False, None, True), (True, None, False), (True, "clean failure", True)],
    ids=["at work", "set by an operator", "set by a fault"],
)
def test_who_set_the_maintenance_decides_about_the_time_out(
    sqlite_database: Database, *, maintenance: bool, fault: str | None, times_out: bool
) -> None:
    node: dict[str, Any] = {
        "uuid": str(uuid.uuid4()),
        "driver": "fake-hardware",
        "provision_state": "clean wait",
        "provision_updated_at": clock.now() - datetime.timedelta(hours=1),
        "maintenance": maintenance,
        "fault": fault,
    }
    sqlite_database.write(lambda conn: nodes.insert(conn, node))
    assert _overdue(sqlite_database) == ([node["uuid"]] if times_out else [])
