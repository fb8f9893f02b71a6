"""Queries on webhooks and on their deliveries that were put aside.

``generation`` counts the changes of a row. A conductor writes the result of a try only if nobody
has changed the row meanwhile, so a request to pause or to replay is never overwritten.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core.json_types import Row, RowView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import limits
from ironic_lite.db.tables import models
from ironic_lite.features.webhooks import rules

_HOOK = models.webhooks.c
_FAILED = models.webhook_failures.c
COLUMNS: tuple[str, ...] = models.columns(models.webhooks)
FAILURE_COLUMNS: tuple[str, ...] = models.columns(models.webhook_failures)
BLANK: Row = {"first": None, "last": None, "tries": 0, "refusals": 0, "not_before": None}
"""The values of a webhook without a delivery under way."""

_ALL = sa.select(models.webhooks).order_by(_HOOK.id)
_EVENT = models.events.c
_HEAD = sa.func.coalesce(sa.select(sa.func.max(_EVENT.id)).scalar_subquery(), _HOOK.position)
_BEHIND = sa.select(_HOOK.uuid, _HOOK.state, (_HEAD - _HOOK.position).label("behind")).order_by(
    _HOOK.id
)
_NAMED = _HOOK.uuid == sa.bindparam("k_uuid")
_ONE = sa.select(models.webhooks).where(_NAMED)
_LOCKED = _ONE.with_for_update()
_COUNT = sa.select(sa.func.count()).select_from(models.webhooks)
_UPDATE = models.webhooks.update().where(_NAMED, _HOOK.generation == sa.bindparam("k_generation"))
_DELETE = models.webhooks.delete().where(_NAMED)
_OF_HOOK = _FAILED.webhook_uuid == sa.bindparam("k_uuid")
_FAILURES = sa.select(models.webhook_failures).where(_OF_HOOK).order_by(_FAILED.id)
_FAILURE = _FAILURES.where(_FAILED.id == sa.bindparam("k_id", type_=sa.BigInteger))
_PAST = (
    sa.select(_FAILED.id)
    .where(_OF_HOOK)
    .order_by(_FAILED.id.desc())
    .offset(rules.MOST_FAILURES - 1)
    .limit(1)
)
_TRIM = models.webhook_failures.delete().where(
    _OF_HOOK, _FAILED.id <= sa.bindparam("k_id", type_=sa.BigInteger)
)


def late(conn: Connection, most: int) -> list[Row]:
    """Return the webhooks that are suspended, or more than ``most`` events behind."""
    return [
        {"uuid": uuid, "state": state, "behind": behind}
        for uuid, state, behind in conn.execute(_BEHIND)
        if state == rules.State.SUSPENDED or (state == rules.State.ACTIVE and behind > most)
    ]


def every(conn: Connection) -> list[Row]:
    """Return all webhooks, the oldest first."""
    return [dict(zip(COLUMNS, row, strict=True)) for row in conn.execute(_ALL)]


def get(conn: Connection, uuid: str, *, lock_row: bool = False) -> Row:
    """Return a webhook with all columns.

    :param lock_row: prevent changes of the row until this transaction ends.
    :raises errors.NotFound: the webhook does not exist.
    """
    found = conn.execute(_LOCKED if lock_row else _ONE, {"k_uuid": uuid}).first()
    if found is None:
        raise errors.NotFound(what="Webhook", ident=uuid)
    return dict(zip(COLUMNS, found, strict=True))


def add(conn: Connection, values: RowView) -> None:
    """Add a webhook.

    :raises errors.TooManyWebhooks: there are `domain.webhooks.MOST`.
    """
    limits.lock(conn, "webhooks")
    if int(conn.execute(_COUNT).scalar_one()) >= rules.MOST:
        raise errors.TooManyWebhooks(most=rules.MOST)
    conn.execute(models.webhooks.insert().inline(), dict(values))


def change(conn: Connection, row: RowView, values: RowView) -> bool:
    """Change a webhook; return False if it is no longer as in ``row``, or gone."""
    changed = {**values, "generation": row["generation"] + 1}
    found = conn.execute(
        _UPDATE.values(**changed), {"k_uuid": row["uuid"], "k_generation": row["generation"]}
    )
    return found.rowcount > 0


def remove(conn: Connection, uuid: str) -> None:
    """Remove a webhook and its deliveries that were put aside.

    :raises errors.NotFound: the webhook does not exist.
    """
    if not conn.execute(_DELETE, {"k_uuid": uuid}).rowcount:
        raise errors.NotFound(what="Webhook", ident=uuid)


def put_aside(conn: Connection, values: RowView) -> None:
    """Keep the bounds of a refused delivery, and forget the oldest ones beyond the limit."""
    hook = {"k_uuid": values["webhook_uuid"]}
    last = conn.execute(_PAST, hook).scalar()
    if last is not None:
        conn.execute(_TRIM, {**hook, "k_id": last})
    conn.execute(models.webhook_failures.insert().inline(), dict(values))


def failures(conn: Connection, uuid: str) -> list[Any]:
    """Return the deliveries of a webhook that were put aside, the oldest first."""
    found = conn.execute(_FAILURES, {"k_uuid": uuid})
    return [dict(zip(FAILURE_COLUMNS, row, strict=True)) for row in found]


def failure(conn: Connection, uuid: str, ident: int) -> Row:
    """Return a delivery that was put aside.

    :raises errors.NotFound: the webhook has no such delivery.
    """
    found = conn.execute(_FAILURE, {"k_uuid": uuid, "k_id": ident}).first()
    if found is None:
        raise errors.NotFound(what="Failed delivery", ident=ident)
    return dict(zip(FAILURE_COLUMNS, found, strict=True))
