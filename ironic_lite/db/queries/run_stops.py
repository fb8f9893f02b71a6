"""Queries on the stop of a node's run, which the API writes while a conductor holds the lock.

Only the column ``run_stop`` is written that way. It is no part of the node's generation, because no
client of Ironic sees it.
"""

from __future__ import annotations

import datetime

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core.json_types import RowView
from ironic_lite.db.engine import prepared
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.tables import models

_NODE = models.nodes.c
_MINE = (_NODE.uuid == sa.bindparam("k_uuid"), _NODE.lock_token == sa.bindparam("k_token"))
_SAVE = prepared.Write(
    models.nodes.update()
    .where(*_MINE, _NODE.run_stop.is_not_distinct_from(sa.bindparam("k_stop", type_=sa.Text)))
    .values(generation=_NODE.generation + 1)
)
_GET = sa.select(_NODE.run_stop).where(*_MINE)
_SET = models.nodes.update().where(
    _NODE.uuid == sa.bindparam("k_uuid"), _NODE.run_uuid == sa.bindparam("k_run")
)


class StopChanged(Exception):
    """The stop of a run is another one than the conductor has read; nothing was written.

    :ivar text: the node's column ``run_stop`` now.
    """

    def __init__(self, text: str | None) -> None:
        super().__init__("the stop of the run has changed")
        self.text = text


def save(
    conn: Connection,
    node_uuid: str,
    values: RowView,
    *,
    token: str,
    at: datetime.datetime,
    known: str | None,
) -> None:
    """Write columns of a locked node as `nodes.save`, unless the stop of its run has changed.

    :param known: the node's column ``run_stop`` as last read.
    :raises errors.LockLost: the lock is lost, or the node is gone.
    :raises StopChanged: the API has written another stop.
    """
    mine = {"k_uuid": node_uuid, "k_token": token}
    guard = {**mine, "k_stop": known, "updated_at": at}
    if _SAVE.execute(conn, {**values, **guard}):
        return
    found = conn.execute(_GET, mine).first()
    if found is None:
        raise errors.LockLost(node=node_uuid)
    raise StopChanged(found[0])


def put(conn: Connection, node_uuid: str, run_uuid: str, text: str | None) -> bool:
    """Write or remove the stop of a run; return False if the run has ended.

    The caller holds the node's row, so that no step begins meanwhile.
    """
    values = {"k_uuid": node_uuid, "k_run": run_uuid, "run_stop": text}
    return bool(conn.execute(_SET, values).rowcount)
