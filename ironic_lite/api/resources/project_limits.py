"""Limits of what the callers of one project may add, so that the others keep room.

Callers with system scope, and logins without projects, have no limit. The limits are not exact:
requests that are processed at once may each add a row. ``db.queries.batches`` limits batches.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.api.service import Service
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import RowView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import limits
from ironic_lite.domain import fields

_MIB = 1024 * 1024
_SMALL = 16 * 1024
"""Bytes of a row that is accepted without a look at the others."""


class Limit(NamedTuple):
    """The limit of a table: its option in [api], and the column by which rows are counted."""

    option: str
    column: str
    what: str
    schema: tuple[fields.Field, ...]

    @property
    def written(self) -> frozenset[str]:
        """The columns that clients write; what the service writes itself is no reason to refuse."""
        ours = fields.Access.READ
        return frozenset(one.stored for one in self.schema if one.stored and one.access is not ours)


_OWNER, _LESSEE, _NODE = "owner", "lessee", "node_uuid"
_PARTS = "project_max_node_parts"
TABLE: Mapping[str, Limit] = {
    "nodes": Limit("project_max_nodes", _OWNER, "nodes", fields.NODE),
    "allocations": Limit("project_max_allocations", _OWNER, "allocations", fields.ALLOCATION),
    "runbooks": Limit("project_max_runbooks", _OWNER, "runbooks", fields.RUNBOOK),
    "ports": Limit(_PARTS, _NODE, "ports", fields.PORT),
    "portgroups": Limit(_PARTS, _NODE, "portgroups", fields.PORTGROUP),
    "volume_connectors": Limit(_PARTS, _NODE, "volume connectors", fields.VOLUME_CONNECTOR),
    "volume_targets": Limit(_PARTS, _NODE, "volume targets", fields.VOLUME_TARGET),
}
"""Table of the database -> its limit; other tables have none."""


def admit(
    service: Service,
    request: Request,
    conn: Connection,
    table: str,
    row: RowView,
    *,
    before: RowView | None = None,
) -> None:
    """Refuse a row that would be beyond a limit: one statement, and one more for a large row.

    A change of a node by its lessee counts for the nodes that the lessee leases.

    :param row: with the column of the limit.
    :param before: the row that it replaces, None for a new one.
    :raises errors.ProjectLimit: the project, or its node, has as many rows or bytes as it may have.
    """
    limit, project = TABLE.get(table), request.access.counted_project
    if limit is None or project is None:
        return
    column = limit.column
    if column == _OWNER and row[_OWNER] != project:
        if before is None or row.get(_LESSEE) != project:
            return
        column = _LESSEE
    whose = row[column]
    owner = f"{'Node' if column == _NODE else 'Project'} {whose}"
    api = service.conf.api
    most, most_mib = int(api[limit.option]), int(api.project_max_mib)
    if before is None and most and limits.reached(conn, table, column, whose, most):
        used = f"{most} {limit.what}"
        raise errors.ProjectLimit(whose=owner, used=used, limit=most, option=limit.option)
    large = limits.Large(table, limit.written)
    added = large.size_of(row)
    if added <= _SMALL or not most_mib:
        return
    added -= large.size_of(before or {})
    if added > 0 and large.size(conn, column, whose) + added > most_mib * _MIB:
        used = f"{limit.what} of nearly {most_mib} MiB, to which this request adds {added} bytes"
        most_text = f"{most_mib} MiB"
        raise errors.ProjectLimit(whose=owner, used=used, limit=most_text, option="project_max_mib")
