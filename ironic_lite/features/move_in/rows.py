"""Queries on imports from Ironic; rows are added, and never changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core.json_types import RowView
from ironic_lite.db.engine import prepared
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import holds, paging
from ironic_lite.db.tables import models
from ironic_lite.domain.holds import OBSERVE, TRIAL

_IMPORT = models.imports.c
_NODE = models.nodes.c
_HOLD = models.holds.c
_INSERT = prepared.Write(models.imports.insert().inline())
_OBSERVED = sa.exists().where(
    _HOLD.node_uuid == _NODE.uuid, holds.IN_FORCE, _HOLD.kind.in_((OBSERVE, TRIAL))
)
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


def count_nodes(conn: Connection, uuids: Sequence[str]) -> dict[str, ImportedNodes]:
    """Return the numbers of nodes of some imports, by one statement; none without nodes."""
    found = conn.execute(_COUNTS, {"k_uuids": list(uuids)})
    return {str(uuid): ImportedNodes(*map(int, numbers)) for uuid, *numbers in found}
