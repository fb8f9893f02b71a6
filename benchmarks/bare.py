"""Minimal WSGI application that answers for a node: one Core select and orjson.

It reads the same columns of the same table with SQLAlchemy and orjson as the service, without
routes, versions, links, masks or errors.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterable
from typing import Any

import orjson
import sqlalchemy as sa

from benchmarks import harness
from ironic_lite.api.resources import views
from ironic_lite.db.engine.session import Database
from ironic_lite.db.tables import models
from ironic_lite.domain import fields, versions

JSON = orjson.OPT_NAIVE_UTC
ALL = tuple(field.name for field in fields.visible(fields.NODE, versions.LAST))
BRIEF = fields.brief(fields.NODE, versions.LAST)


def columns(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the columns from which the service makes these fields."""
    return views.plan(views.NODES, names, versions.LAST, full=True).columns


def one_node() -> sa.Select[Any]:
    """Return the statement for one node."""
    selected = (models.nodes.c[name] for name in columns(ALL))
    return sa.select(*selected).where(models.nodes.c.uuid == sa.bindparam("uuid"))


def page(names: tuple[str, ...], limit: int) -> sa.Select[Any]:
    """Return the statement for a page."""
    selected = (models.nodes.c[name] for name in columns(names))
    return sa.select(*selected).order_by(models.nodes.c.id).limit(limit)


def fetch(
    opened: Database, statement: sa.Select[Any], names: tuple[str, ...], **values: Any
) -> bytes:
    """Return the rows of a statement as JSON."""
    with opened.engine.connect() as conn:
        rows = conn.execute(statement, values).all()
    return orjson.dumps([dict(zip(names, row, strict=True)) for row in rows], option=JSON)


def _application() -> Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]:
    opened = harness.database(pathlib.Path(os.environ[harness.FOLDER]))
    statement, names = one_node(), columns(ALL)

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        body = fetch(opened, statement, names, uuid=environ["PATH_INFO"].rpartition("/")[2])
        length = ("Content-Length", str(len(body)))
        start_response("200 OK", [("Content-Type", "application/json"), length])
        return [body]

    return answer


if harness.FOLDER in os.environ:
    application = _application()
