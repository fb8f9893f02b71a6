"""Queries on deploy templates: steps added to a deployment by instance traits."""

from __future__ import annotations

from collections.abc import Collection

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries.resource_table import ResourceTable
from ironic_lite.db.tables import models
from ironic_lite.records import StoredTemplate

FAMILY = ResourceTable(
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


def named(conn: Connection, names: Collection[str]) -> list[StoredTemplate]:
    """Return these templates by name, each as ``{"name": ..., "steps": [...]}``.

    A name without a template is ignored. No names: no statement.
    """
    if not names:
        return []
    rows = conn.execute(_NAMED, {"k_names": sorted(set(names))})
    return [{"name": row.name, "steps": row.steps} for row in rows]
