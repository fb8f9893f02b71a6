"""The newest steps that have ended, for statistics."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import sqlalchemy as sa

from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.tables import models
from ironic_lite.features.statistics.rules import Ended

NEWEST = 100_000
"""Steps that count."""
_SCANNED = 3 * NEWEST
"""Rows that are read at most; others have not ended, or were never reached."""
_PAGE = 10_000
"""Rows of one statement."""

_STEP = models.run_steps.c
_RUN = models.runs.c
_NODE = models.nodes.c
# Reads only the primary key.
_LAST = (
    sa.select(_STEP.id)
    .order_by(_STEP.id.desc())
    .limit(1)
    .offset(sa.bindparam("skip", type_=sa.BigInteger))
)


def _ended_steps() -> sa.Select[Any]:
    columns = ("interface", "step", "kind", "state", "started_at", "ended_at", "error")
    ended = (
        sa.select(_STEP.id, _STEP.run_uuid, *(_STEP[name] for name in columns))
        .where(
            _STEP.id > sa.bindparam("k_after", type_=sa.BigInteger),
            _STEP.id < sa.bindparam("k_before", type_=sa.BigInteger),
            _STEP.state.in_(("done", "failed", "aborted")),
            _STEP.done_in.is_(None),  # kept by a retry: the earlier run has counted it
            _STEP.started_at.is_not(None),
            _STEP.ended_at.is_not(None),
        )
        .order_by(_STEP.id.desc())
        .limit(sa.bindparam("limit_", type_=sa.Integer))
        .subquery("ended")
    )
    joined = ended.join(models.runs, _RUN.uuid == ended.c.run_uuid).join(
        models.nodes, _NODE.uuid == _RUN.node_uuid
    )
    error = sa.case((ended.c.state == "failed", ended.c.error), else_=None)
    shown = (*(ended.c[name] for name in columns[:-1]), sa.type_coerce(error, _STEP.error.type))
    return sa.select(ended.c.id, *shown, _NODE.driver, _NODE.resource_class).select_from(joined)


_ENDED = _ended_steps()


def newest(conn: Connection) -> Iterator[Ended]:
    """Yield the newest steps that have ended; a statement for each 10 000."""
    newest_id, oldest_id = (conn.execute(_LAST, {"skip": skip}).scalar() for skip in (0, _SCANNED))
    before, left = (newest_id or 0) + 1, NEWEST
    while left > 0:
        values = {"k_after": oldest_id or 0, "k_before": before, "limit_": min(_PAGE, left)}
        page = conn.execute(_ENDED, values).all()
        for _, interface, step, kind, state, begun, ended, error, driver, resource_class in page:
            code = _code_of(error) if error else None
            yield interface, step, kind, state, begun, ended, code, driver, resource_class
        if len(page) < values["limit_"]:
            return
        before, left = min(row[0] for row in page), left - len(page)


def _code_of(error: Json) -> str | None:
    """Return the code of the cause of an error."""
    cause = error.get("cause")
    code = (cause if isinstance(cause, dict) else error).get("code")
    return str(code) if code else None
