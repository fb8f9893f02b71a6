"""Insert rows into any table, with a value in each column that needs one."""

from __future__ import annotations

import datetime
import uuid
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.tables import models

TABLES: Mapping[str, str] = {
    # queries.Resource: its table, where that has another name
    "HISTORY": "events",
    "NODES_RUNS": "runs",
    "NODES_HOLDS": "holds",
    "NODES_ERASURES": "erasures",
    "BATCHES_NODES": "batch_nodes",
    "FIRMWARE": "firmware_components",
}
OWNER = "p-owner"
VALUES: Mapping[str, Any] = {
    # column: what the wire can show; others get something of their type
    "owner": OWNER,
    "project": OWNER,
    "driver": "fake-hardware",
    "provision_state": "manageable",
    "kind": "provision",
    "event": "fail",
    "verb": "clean",
    "before": "manageable",
    "after": "cleaning",
    "state": "active",
    "online": True,
    "blocks": "use",
    "statement": "{}",
    "options": {"waves": [1], "concurrency": 1, "on_failures": "pause", "between_waves": "go on"},
    "request": {"target": "manage"},
    **{name: {} for name in ("selection", "maps", "marks", "counts")},  # of imports
}


def table_of(name: str) -> sa.Table | None:
    """Return the table of a resource of ``queries``, None if it has no such name."""
    return models.metadata.tables.get(TABLES.get(name, name.lower()))


def fill(
    database: Database, table: sa.Table, count: int, known: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Insert rows with a value in each column that needs one, and in those of `VALUES`."""
    rows: list[dict[str, Any]] = []
    for _ in range(count):
        number = uuid.uuid4().int % 10**12
        row = {**known}
        for column in table.columns:
            if column.name in row or (column.primary_key and column.autoincrement is True):
                continue
            if column.name in VALUES:
                row[column.name] = VALUES[column.name]
            elif not column.nullable and column.server_default is None and column.name != "id":
                row[column.name] = _value(database, column, number)
        rows.append(row)
    database.write(lambda conn: conn.execute(table.insert(), rows) and None)
    return rows


def _value(database: Database, column: sa.Column[Any], number: int) -> Any:
    for key in column.foreign_keys:
        (row,) = fill(database, key.column.table, 1, {})
        return row[key.column.name]
    if column.name.endswith("uuid"):
        return str(uuid.uuid4())
    if column.name == "address":
        return ":".join(f"{number:012x}"[-12:][i : i + 2] for i in range(0, 12, 2))
    kinds: Mapping[type, Any] = {
        str: f"x{number}"[: getattr(column.type, "length", None) or 20],
        bool: False,
        int: number % 10**9,  # some are unique
        float: 1.0,
        datetime.datetime: clock.now(),
    }
    return kinds.get(column.type.python_type, [])  # the rest is JSON, sealed or not
