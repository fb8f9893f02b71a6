"""Queries on deploy templates: steps that a deployment takes up by the traits of its instance."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.db import models
from ironic_lite.db.families import Family
from ironic_lite.db.session import Connection

Row = dict[str, Any]

FAMILY = Family(
    models.deploy_templates,
    "deploy template",
    lambda ident: errors.DeployTemplateNotFound(template=ident),
)
get, insert, update, delete = FAMILY.get, FAMILY.insert, FAMILY.update, FAMILY.delete
page = FAMILY.page

_TEMPLATE = models.deploy_templates.c
_NAMED = (
    sa.select(_TEMPLATE.name, _TEMPLATE.steps)
    .where(_TEMPLATE.name.in_(sa.bindparam("k_names", expanding=True)))
    .order_by(_TEMPLATE.name)
)


def named(conn: Connection, names: Collection[str]) -> list[Row]:
    """Return the templates with these names, by name, each as ``{"name": ..., "steps": [...]}``.

    A name without a template is no fault. No names: no statement.
    """
    if not names:
        return []
    rows = conn.execute(_NAMED, {"k_names": sorted(set(names))})
    return [{"name": row.name, "steps": row.steps} for row in rows]
