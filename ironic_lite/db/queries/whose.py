"""Filters of rows with the owner and the lessee that their node had when they were written.

A row belongs to the projects of its time, not to the present owner of the node. Rows *in force*,
which refuse operations now, such as runs under way, are also for those who may see the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from ironic_lite.db.engine import prepared
from ironic_lite.db.queries.filters import Bound, Either, Switch
from ironic_lite.db.tables import models

_NODE = models.nodes.c
IN_LIST, OWNER, LESSEE = "of_owner", "own_owner", "own_lessee"
"""Filters: of a list about all nodes; of a list of one node, which needs both of the others."""


def _of_node(name: str) -> prepared.Compute:
    """Return the expression of owner or lessee in a new row: as given, else as the node has it."""

    def compute(row: Mapping[str, sa.BindParameter[Any]]) -> sa.ColumnElement[Any]:
        known = sa.select(_NODE[name]).where(_NODE.uuid == row["node_uuid"])
        return sa.func.coalesce(row[name], known.scalar_subquery())

    return compute


OF_NODE: Mapping[str, prepared.Compute] = {name: _of_node(name) for name in ("owner", "lessee")}
"""Expressions of ``prepared.Write`` for new rows, computed in the transaction that adds them."""


def filters(
    table: sa.Table, in_force: sa.ColumnElement[bool] | None = None
) -> dict[str, Switch | Bound | Either]:
    """Return the filters of a table with ``node_uuid``, owner and lessee.

    :param in_force: the condition of rows that are in force, None without such rows.
    """
    project = sa.bindparam(IN_LIST, type_=sa.String)
    whole: Bound | Either = Bound(table.c.owner == project)
    of_node = own(table)
    if in_force is not None:
        mine = sa.or_(_NODE.owner == project, _NODE.lessee == project)
        nodes = table.c.node_uuid.in_(sa.select(_NODE.uuid).where(mine))
        whole = Either((table.c.owner == project, sa.and_(in_force, nodes)))
        of_node = sa.or_(in_force, of_node)
    # The value of the last one is a parameter of the clause before it.
    return {IN_LIST: whole, OWNER: Bound(of_node), LESSEE: Bound(sa.true())}


def own(table: sa.Table) -> sa.ColumnElement[bool]:
    """Return the condition of rows of a project; the parameters are None or the project."""
    return sa.or_(
        *(
            table.c[column] == sa.bindparam(name, type_=sa.String)
            for column, name in (("owner", OWNER), ("lessee", LESSEE))
        )
    )
