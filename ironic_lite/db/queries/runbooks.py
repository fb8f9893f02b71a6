"""Queries on runbooks: lists of steps for nodes that share a trait with them.

The filter ``project`` of pages selects the project's own and public runbooks.
"""

from __future__ import annotations

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.db.queries import paging
from ironic_lite.db.queries.resource_table import ResourceTable
from ironic_lite.db.tables import models

_BOOK = models.runbooks.c
_PROJECT = sa.or_(
    _BOOK.owner == sa.bindparam("project", type_=sa.String), _BOOK.public.is_(sa.true())
)

FAMILY = ResourceTable(
    models.runbooks,
    "runbook",
    lambda ident: errors.RunbookNotFound(runbook=ident),
    filters={"project": paging.Bound(_PROJECT)},
)
get, insert, update, delete = FAMILY.get, FAMILY.insert, FAMILY.update, FAMILY.delete
