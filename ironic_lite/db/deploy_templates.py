"""Queries on deploy templates: steps that a deployment takes up by the traits of its instance."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from typing import Any

import sqlalchemy as sa

from ironic_lite import clock, errors
from ironic_lite.db import faults, models, paging
from ironic_lite.db.session import Connection

Row = dict[str, Any]

COLUMNS: tuple[str, ...] = models.columns(models.deploy_templates)
LISTING = paging.Listing(models.deploy_templates)
page = LISTING.page

_TEMPLATE = models.deploy_templates.c
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")

_NAMED = (
    sa.select(_TEMPLATE.name, _TEMPLATE.steps)
    .where(_TEMPLATE.name.in_(sa.bindparam("k_names", expanding=True)))
    .order_by(_TEMPLATE.name)
)
_INSERT = models.deploy_templates.insert().inline()
_UPDATE = models.deploy_templates.update().where(_TEMPLATE.uuid == sa.bindparam("k_uuid"))


@cache
def _one(key: str, hold: bool) -> sa.Select[Any]:
    found = sa.select(models.deploy_templates).where(_TEMPLATE[key] == sa.bindparam("k_ident"))
    return found.with_for_update() if hold else found


@cache
def _delete(key: str) -> sa.Delete:
    return models.deploy_templates.delete().where(_TEMPLATE[key] == sa.bindparam("k_ident"))


def _key(ident: str) -> tuple[str, str]:
    """Return the column that ``ident`` is of, and its value there."""
    return ("uuid", ident.lower()) if _UUID.fullmatch(ident) else ("name", ident)


# -- reading ---------------------------------------------------------------------------------


def get(conn: Connection, ident: str, *, hold: bool = False) -> Row:
    """Return one deploy template as column -> value.

    :param ident: UUID in any case, or name.
    :param hold: nobody else changes the template before this transaction ends.
    :raises errors.DeployTemplateNotFound:
    """
    key, value = _key(ident)
    found = conn.execute(_one(key, hold), {"k_ident": value}).first()
    if found is None:
        raise errors.DeployTemplateNotFound(template=ident)
    return dict(zip(COLUMNS, found, strict=True))


def named(conn: Connection, names: Collection[str]) -> list[Row]:
    """Return the templates with these names, by name, each as ``{"name": ..., "steps": [...]}``.

    A name without a template is no fault. No names: no statement.
    """
    if not names:
        return []
    rows = conn.execute(_NAMED, {"k_names": sorted(set(names))})
    return [{"name": row.name, "steps": row.steps} for row in rows]


# -- writing ---------------------------------------------------------------------------------


def insert(conn: Connection, values: Mapping[str, Any]) -> None:
    """Add a deploy template; ``created_at`` is now unless given.

    :raises errors.Duplicate: its uuid or name is taken; the fact ``key`` says which.
    """
    row = {"created_at": clock.now(), **values}
    try:
        conn.execute(_INSERT, row)
    except sa.exc.IntegrityError as error:
        raise _refused(error, row) from error


def update(conn: Connection, uuid: str, values: Mapping[str, Any]) -> None:
    """Change a deploy template; ``updated_at`` is now unless given.

    :raises errors.Duplicate: its new name is taken.
    :raises errors.DeployTemplateNotFound:
    """
    row = {"updated_at": clock.now(), **values, "k_uuid": uuid}
    try:
        changed = conn.execute(_UPDATE, row).rowcount
    except sa.exc.IntegrityError as error:
        raise _refused(error, row) from error
    if not changed:
        raise errors.DeployTemplateNotFound(template=uuid)


def delete(conn: Connection, ident: str) -> None:
    """Remove a deploy template; deployments that have taken it up go on with it.

    :param ident: UUID in any case, or name.
    :raises errors.DeployTemplateNotFound:
    """
    key, value = _key(ident)
    if not conn.execute(_delete(key), {"k_ident": value}).rowcount:
        raise errors.DeployTemplateNotFound(template=ident)


def _refused(error: sa.exc.IntegrityError, row: Row) -> Exception:
    return faults.refused(error, models.deploy_templates, "deploy template", row, error)
