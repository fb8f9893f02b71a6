"""Locks for limited numbers of rows, so that two transactions at once do not both add the last."""

from __future__ import annotations

import sqlalchemy as sa

from ironic_lite.db.engine.session import Connection
from ironic_lite.db.tables import models

_MARK = models.marks.c
_LOCK = sa.select(_MARK.name).where(_MARK.name == sa.bindparam("k_name")).with_for_update()


def lock(conn: Connection, name: str) -> None:
    """Let other additions to a table wait until this transaction ends; then count its rows.

    :param name: of the table: ``webhooks`` or ``batches``.
    :raises sqlalchemy.exc.NoResultFound: the row of ``marks``, which a migration adds, is missing.
    """
    conn.execute(_LOCK, {"k_name": name}).scalar_one()
