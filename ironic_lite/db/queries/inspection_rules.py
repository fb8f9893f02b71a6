"""Queries on inspection rules, which act on the results of inspections."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core.json_types import Row
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries.resource_table import ResourceTable
from ironic_lite.db.tables import models

_TABLE = models.inspection_rules
_RULE = _TABLE.c


def _unless_sensitive(name: str) -> sa.ColumnElement[Any]:
    column = _RULE[name]
    hidden = sa.case((_RULE.sensitive.is_(sa.true()), None), else_=column)
    return sa.type_coerce(hidden, column.type)


FAMILY = ResourceTable(
    _TABLE,
    "inspection rule",
    lambda ident: errors.InspectionRuleNotFound(rule=ident),
    # The lists of a sensitive rule are null.
    more={name: _unless_sensitive(name) for name in ("actions", "conditions")},
)
get, insert, update, delete = FAMILY.get, FAMILY.insert, FAMILY.update, FAMILY.delete

_APPLIED = ("uuid", "priority", "sensitive", "conditions", "actions")
_OF_PHASE = (
    sa.select(*(_RULE[name] for name in _APPLIED))
    .where(_RULE.phase == sa.bindparam("k_phase"))
    .order_by(_RULE.priority.desc(), _RULE.id)
)
_EVERY = sa.select(_TABLE).order_by(_RULE.id).with_for_update()
_CLEAR = _TABLE.delete().where(_RULE.id <= sa.bindparam("k_last", type_=sa.BigInteger))


def of_phase(conn: Connection, phase: str) -> list[Row]:
    """Return the rules of a phase, highest priority first, then the oldest.

    :returns: uuid, priority, sensitive, conditions, actions.
    """
    found = conn.execute(_OF_PHASE, {"k_phase": phase})
    return [dict(zip(_APPLIED, row, strict=True)) for row in found]


def clear(conn: Connection) -> list[Row]:
    """Remove all rules, and return them, the oldest first."""
    gone = [dict(row) for row in conn.execute(_EVERY).mappings()]
    if gone:
        conn.execute(_CLEAR, {"k_last": gone[-1]["id"]})
    return gone
