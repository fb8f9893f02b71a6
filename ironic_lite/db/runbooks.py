"""Queries on runbooks: lists of steps that nodes with a trait of theirs may be told to do.

The filter ``project`` of pages picks what it owns, and what is public.
"""

from __future__ import annotations

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.db import models, paging
from ironic_lite.db.families import Family

_BOOK = models.runbooks.c
_PROJECT = sa.or_(
    _BOOK.owner == sa.bindparam("project", type_=sa.String), _BOOK.public.is_(sa.true())
)

FAMILY = Family(
    models.runbooks,
    "runbook",
    lambda ident: errors.RunbookNotFound(runbook=ident),
    filters={"project": paging.Bound(_PROJECT)},
)
get, insert, update, delete = FAMILY.get, FAMILY.insert, FAMILY.update, FAMILY.delete
page = FAMILY.page
