"""Queries on idempotency keys: requests that are under way, and kept answers.

A row belongs to one attempt of a request at a time. A later attempt that takes the row over raises
its number, and the earlier attempt can then neither change the row nor commit its own change.
"""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core.json_types import Row, RowView
from ironic_lite.db.engine import faults
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.tables import models

STARTED, CHANGED, DONE = "started", "changed", "done"
COLUMNS: tuple[str, ...] = models.columns(models.idempotency)
_KEY = models.idempotency.c
_BLANK: Row = {"status": None, "headers": None, "body": None, "size": None}


@dataclasses.dataclass(slots=True)
class Claim:
    """The right of one attempt of a request to its row.

    :ivar caller: hash of the caller; ``key`` is the hash of the key.
    :ivar request_id: of the first attempt, which all attempts use.
    :ivar subject: UUID for a resource that the request creates without naming one.
    :ivar kept: an answer has been kept.
    """

    caller: str
    key: str
    request_id: str
    subject: str
    attempt: int = 1
    kept: bool = False

    @property
    def bound(self) -> Row:
        """The parameters that select the row."""
        return {
            "k_caller": self.caller,
            "k_key": self.key,
            "k_request": self.request_id,
            "k_attempt": self.attempt,
        }


_NAMED = (_KEY.caller == sa.bindparam("k_caller"), _KEY.key == sa.bindparam("k_key"))
_MINE = (
    *_NAMED,
    _KEY.request_id == sa.bindparam("k_request"),
    _KEY.attempt == sa.bindparam("k_attempt"),
)
_INSERT = models.idempotency.insert().inline()
_GET = sa.select(models.idempotency).where(*_NAMED)
_UPDATE = models.idempotency.update().where(*_MINE)
_TAKE = models.idempotency.update().where(*_MINE, _KEY.state != DONE)
_MARK = models.idempotency.update().where(*_MINE, _KEY.state != DONE).values(state=CHANGED)
_DROP = models.idempotency.delete().where(*_MINE, _KEY.state == STARTED)
_USED = sa.select(
    _KEY.caller, sa.func.count(), sa.func.coalesce(sa.func.sum(_KEY.size), 0)
).group_by(_KEY.caller)
_OLDEST = (
    sa.select(_KEY.id)
    .where(_KEY.created_at < sa.bindparam("k_before"))
    .order_by(_KEY.created_at)
    .limit(sa.bindparam("limit_", type_=sa.Integer))
    .subquery("oldest")
)
# MariaDB can read the table it deletes from only in a nested SELECT.
_REMOVE = models.idempotency.delete().where(_KEY.id.in_(sa.select(_OLDEST.c.id)))

_BRING_BACK = (
    models.idempotency.update()
    .where(_KEY.created_at > sa.bindparam("k_latest", type_=_KEY.created_at.type))
    .values(created_at=sa.bindparam("k_now", type_=_KEY.created_at.type))
)


def insert(conn: Connection, claim: Claim, values: RowView) -> None:
    """Add the row of a first attempt: fingerprint, busy_until and created_at.

    :raises errors.Duplicate: the caller has used the key.
    """
    row = {
        **_BLANK,
        **values,
        "caller": claim.caller,
        "key": claim.key,
        "request_id": claim.request_id,
        "subject_uuid": claim.subject,
        "attempt": claim.attempt,
        "state": STARTED,
    }
    try:
        conn.execute(_INSERT, row)
    except sa.exc.IntegrityError as why:
        raise faults.refused(why, models.idempotency, "idempotency key", {}, why) from why


def get(conn: Connection, caller: str, key: str) -> Row | None:
    """Return the row of a key, None without one."""
    found = conn.execute(_GET, {"k_caller": caller, "k_key": key}).first()
    return dict(zip(COLUMNS, found, strict=True)) if found is not None else None


def take(conn: Connection, claim: Claim, until: datetime.datetime) -> bool:
    """Make the row belong to the next attempt; return False if another attempt was faster.

    :param claim: the present attempt.
    """
    values = {"attempt": claim.attempt + 1, "busy_until": until}
    return _change(conn, _TAKE.values(**values), claim)


def mark(conn: Connection, claim: Claim) -> None:
    """Record that the request has changed the database, in the transaction of that change.

    :raises errors.Conflict: a later attempt has taken the row over, and makes the change.
    """
    if not _change(conn, _MARK, claim):
        raise errors.KeyInUse


def keep(
    conn: Connection, claim: Claim, status: int, headers: Any, body: Any, *, size: int = 0
) -> None:
    """Keep an answer.

    :param size: bytes of headers and body.
    """
    values = {"state": DONE, "status": status, "headers": headers, "body": body, "size": size}
    _change(conn, _UPDATE.values(**values), claim)


def release(conn: Connection, claim: Claim, until: datetime.datetime) -> None:
    """Let the next repetition take the row over, because the end of this attempt is unknown."""
    _change(conn, _UPDATE.values(busy_until=until), claim)


def drop(conn: Connection, claim: Claim) -> bool:
    """Remove the row of a request that has changed nothing; return False if it has."""
    return conn.execute(_DROP, claim.bound).rowcount > 0


def used(conn: Connection) -> dict[str, tuple[int, int]]:
    """Return the number of rows and the bytes of each caller, from an index alone."""
    return {caller: (int(rows), int(size)) for caller, rows, size in conn.execute(_USED)}


def bring_back(conn: Connection, latest: datetime.datetime, now: datetime.datetime) -> None:
    """Let rows of a clock that was ahead, created after ``latest``, count from ``now``.

    They would be kept, and count for the limits, until the clock has caught up.
    """
    conn.execute(_BRING_BACK, {"k_latest": latest, "k_now": now})


def remove_old(conn: Connection, before: datetime.datetime, limit: int) -> int:
    """Remove a portion of the rows created before a time; return their number."""
    return conn.execute(_REMOVE, {"k_before": before, "limit_": limit}).rowcount


def _change(conn: Connection, statement: sa.Update, claim: Claim) -> bool:
    return conn.execute(statement, claim.bound).rowcount > 0
