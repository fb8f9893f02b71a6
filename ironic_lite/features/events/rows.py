"""Queries on the cursors of times, for the feed of events."""

from __future__ import annotations

import datetime

import sqlalchemy as sa

from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import events
from ironic_lite.db.tables import models

_EVENT = models.events.c
_EVENT_AFTER = (
    sa.select(_EVENT.id, _EVENT.at)
    .where(_EVENT.id > sa.bindparam("after", type_=sa.BigInteger), events.NEW)
    .order_by(_EVENT.id)
    .limit(1)
)


def id_before(conn: Connection, at: datetime.datetime) -> int:
    """Return about the largest id of an event before a time, 0 without one, by a bisection.

    The ids are in the order of times, as far as the clocks of the conductors agree.
    """
    low, high = 0, events.head(conn)
    while low < high:
        middle = (low + high) // 2
        found = conn.execute(_EVENT_AFTER, {"after": middle}).first()
        if found is not None and found.at < at:
            low = found.id
        else:
            high = middle
    return low


def time_after(conn: Connection, after: int) -> datetime.datetime | None:
    """Return the time of the first event after an id, None without one."""
    found = conn.execute(_EVENT_AFTER, {"after": after}).first()
    return None if found is None else found.at
