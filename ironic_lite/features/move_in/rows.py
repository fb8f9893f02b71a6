"""Queries on imports from Ironic; rows are added, and never changed."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core.json_types import Json, Row, RowView
from ironic_lite.db.engine import prepared
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import holds, paging
from ironic_lite.db.tables import models
from ironic_lite.domain.holds import OBSERVE, TRIAL

_IMPORT = models.imports.c
_NODE = models.nodes.c
_HOLD = models.holds.c
_INSERT = prepared.Write(models.imports.insert().inline())
_LOOKING = (holds.IN_FORCE, _HOLD.kind.in_((OBSERVE, TRIAL)))
_OBSERVED = sa.exists().where(_HOLD.node_uuid == _NODE.uuid, *_LOOKING)
_ALL_OBSERVED = _NODE.uuid.in_(sa.select(_HOLD.node_uuid).where(*_LOOKING))
_COUNTS = (
    sa.select(
        _NODE.import_uuid,
        sa.func.count(),
        sa.func.sum(sa.case((_OBSERVED, 1), else_=0)),
        sa.func.sum(sa.case((sa.and_(holds.UNREAD, _OBSERVED), 1), else_=0)),
    )
    .where(_NODE.import_uuid.in_(sa.bindparam("k_uuids", expanding=True)))
    .group_by(_NODE.import_uuid)
)
# A join: PostgreSQL without statistics of its tables would read all holds for each node otherwise.
_OBSERVED_COUNTS = (
    sa.select(
        sa.func.count(_NODE.uuid.distinct()),
        sa.func.count(sa.distinct(sa.case((holds.UNREAD, _NODE.uuid)))),
    )
    .select_from(models.holds.join(models.nodes, _NODE.uuid == _HOLD.node_uuid))
    .where(*_LOOKING)
)
_UNREAD_NAMES = (
    sa.select(sa.func.coalesce(_NODE.name, _NODE.uuid))
    .where(_ALL_OBSERVED, holds.UNREAD)
    .order_by(_NODE.id)
    .limit(sa.bindparam("k_limit", type_=sa.Integer))
)
_SINCE = sa.select(sa.func.min(_HOLD.created_at)).where(*_LOOKING)

page = paging.Listing(models.imports).page


class ImportedNodes(NamedTuple):
    """Numbers of nodes that an import has added: that exist, are observed, of unknown power."""

    nodes: int = 0
    observed: int = 0
    unread: int = 0


def add(conn: Connection, row: RowView) -> None:
    """Add an import; nodes of it have its UUID as ``import_uuid``."""
    _INSERT.insert_all(conn, [row])


def get(conn: Connection, uuid: str) -> Any:
    """Return an import with all columns.

    :raises errors.NotFound: there is no such import.
    """
    found = conn.execute(sa.select(models.imports).where(_IMPORT.uuid == uuid)).first()
    if found is None:
        raise errors.NotFound(what="Import", ident=uuid)
    return dict(zip(models.columns(models.imports), found, strict=True))


def origin(conn: Connection, uuid: str | None) -> Json:
    """Return an import whose nodes can go back; without a UUID, the only one.

    :raises errors.Error: no import or several ones are here, or it is a trial.
    """
    if uuid is None:
        query = sa.select(_IMPORT.uuid).where(_IMPORT.trial.is_(False)).order_by(_IMPORT.id)
        known = [str(one) for one in conn.execute(query).scalars()]
        if len(known) != 1:
            advice = (
                f"name one with --import: {', '.join(known)}"
                if known
                else "nothing can be exported"
            )
            raise errors.Conflict(f"There are {len(known)} imports; {advice}.")
        (uuid,) = known
    found: Json = get(conn, uuid)
    if found["trial"]:
        raise errors.Conflict(
            f"Import {uuid} is a trial: Ironic has run since, so it cannot be exported."
        )
    return found


def count_nodes(conn: Connection, uuids: Sequence[str]) -> dict[str, ImportedNodes]:
    """Return the numbers of nodes of some imports, by one statement; none without nodes."""
    found = conn.execute(_COUNTS, {"k_uuids": list(uuids)})
    return {str(uuid): ImportedNodes(*map(int, numbers)) for uuid, *numbers in found}


def count_observed(conn: Connection) -> tuple[int, int]:
    """Return the numbers of nodes that are only observed, and of those of unknown power."""
    observed, unread = conn.execute(_OBSERVED_COUNTS).one()
    return int(observed), int(unread)


def unread_names(conn: Connection, limit: int) -> list[str]:
    """Return the names, else UUIDs, of the first observed nodes of unknown power."""
    return [str(name) for name in conn.execute(_UNREAD_NAMES, {"k_limit": limit}).scalars()]


def observed_since(conn: Connection) -> datetime.datetime | None:
    """Return the time of the oldest hold by which a node is only observed, None without one."""
    found: datetime.datetime | None = conn.execute(_SINCE).scalar()
    return found


def whole(conn: Connection, table: str) -> list[Row]:
    """Return all rows of a table, which is small."""
    found = conn.execute(sa.select(models.metadata.tables[table])).mappings()
    return [dict(row) for row in found]


def values(conn: Connection, table: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
    """Return some columns of all rows of a table."""
    chosen = (models.metadata.tables[table].c[name] for name in columns)
    return [tuple(row) for row in conn.execute(sa.select(*chosen))]


def origins(conn: Connection) -> list[tuple[str, str | None, datetime.datetime]]:
    """Return the UUID of each imported node, with the user and the time of its import."""
    joined = models.nodes.join(models.imports, _NODE.import_uuid == _IMPORT.uuid)
    query = sa.select(_NODE.uuid, _IMPORT.by, _IMPORT.at).select_from(joined)
    return [(str(uuid), by, at) for uuid, by, at in conn.execute(query)]
