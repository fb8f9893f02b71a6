"""A list of a hundred rows costs as many statements as one of a single row: every list there is.

The lists are those of the table of routes, as the document of the API has them; their rows are made
by the tables of the database. A new list is measured as soon as it has a route.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite.api import controllers, openapi
from ironic_lite.api.openapi.document import resource_name
from ironic_lite.api.resources import queries
from ironic_lite.db import models
from ironic_lite.db.session import Database
from tests.api.client import Client
from tests.api.filling import fill, table_of
from tests.statements import count_statements

MANY = 100
MOST = 2
"""Statements of a list: one for whose rows they are, and one for the rows."""
PARENTS = {"nodes": "node_uuid", "chassis": "chassis_uuid", "portgroups": "portgroup_uuid"}
"""First word of a path, and the column by which the rows below belong to one of those."""


def lists() -> Iterator[str]:
    """Give the path of every list of rows."""
    for each in controllers.ALL:
        for route, handler in each.exposed():
            if route.method != "GET" or resource_name(route.path) is None:
                continue
            (told,) = openapi.document([(route, handler)])["paths"].values()
            schema = told["get"]["responses"]["200"]["content"]["application/json"]["schema"]
            if "next" in schema.get("properties", {}):
                yield route.path


LISTS = sorted(lists())


def test_all_lists_are_found() -> None:
    assert {"/nodes", "/nodes/detail", "/ports", "/nodes/{ident}/ports", "/nodes/{ident}/runs"} <= {
        *LISTS
    }


@pytest.mark.parametrize("path", LISTS)
def test_a_list_costs_the_same_however_many_rows_it_has(
    api: Client, database: Database, path: str
) -> None:
    name = resource_name(path)
    assert name is not None
    resource: queries.Resource = getattr(queries, name)
    table = table_of(name)
    assert table is not None, (
        f"{name} has a table of another name: write it into TABLES of tests.api.filling"
    )
    parent = _parent(database, path)
    place = "/v1" + path.replace("{ident}", str(parent))
    asked = [place]
    if not path.endswith("/detail"):
        asked.append(f"{place}?fields={','.join(one.name for one in resource.table)}")
    costs = []
    for count in (1, MANY - 1):
        fill(database, table, count, {_owner(path): parent} if parent else {})
        for one in asked:
            api.get(one)  # what is read once and kept
        for one in asked:
            with count_statements(database) as sent:
                answer = api.get(one)
            assert answer.status == 200, answer.body
            costs.append((one, len(_rows(answer.json)), list(sent)))
    few, many = costs[: len(asked)], costs[len(asked) :]
    for (one, fewer, cheap), (_, more, dear) in zip(few, many, strict=True):
        assert more - fewer == MANY - 1, f"{one} shows {fewer} and {more} rows"
        assert len(dear) == len(cheap), f"{one} costs {len(cheap)} and then {len(dear)}: {dear}"
        assert len(dear) <= MOST, dear


def _rows(body: dict[str, Any]) -> list[Any]:
    return next(value for name, value in body.items() if name != "next")


def _owner(path: str) -> str:
    return PARENTS[path.split("/")[1]]


def _parent(database: Database, path: str) -> str | None:
    """Put in whose rows are listed; None for a list of all."""
    if "{ident}" not in path:
        return None
    (row,) = fill(database, models.metadata.tables[path.split("/")[1]], 1, {})
    return str(row["uuid"])
