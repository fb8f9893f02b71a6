"""A list of a hundred rows costs as many statements as one of a single row: every list there is.

The lists are those of the table of routes, as the document of the API has them; their rows are made
by the tables of the database. A new list is measured as soon as it has a route. Each is asked for
by anybody, where nobody has to log in, and by somebody whom rules bind.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite.api import controllers, openapi
from ironic_lite.api.openapi.document import resource_name
from ironic_lite.api.openapi.parts import LINKS
from ironic_lite.api.resources import queries
from ironic_lite.db.engine.session import Database
from ironic_lite.db.tables import models
from tests.support.callers import Callers
from tests.support.statements import count_statements
from tests.support.table_rows import OWNER, fill, table_of
from tests.support.wsgi_client import Client

MANY = 100
MOST = 2
"""Statements of a list: one for whose rows they are, and one for the rows."""
PARENTS = {
    "nodes": "node_uuid",
    "chassis": "chassis_uuid",
    "portgroups": "portgroup_uuid",
    "batches": "batch_uuid",
}
ASKED_OF_CONDUCTORS = {
    *("/nodes/{ident}/cleaning/steps", "/nodes/{ident}/management/boot_device/supported"),
    *("/nodes/{ident}/management/indicators", "/nodes/{ident}/management/indicators/{component}"),
    *("/nodes/{ident}/vmedia", "/nodes/{ident}/vifs", "/doctor"),
}
FOLLOWED = {"/events"}
"""Lists whose statements `test_watch` counts."""
KEPT = {"/doctor", "/stats/nodes", "/stats/steps"}
"""Answers that a process makes once in a while, for all requests."""
BOUNDED = {"/webhooks", "/webhooks/{ident}/failed"}
"""Lists of at most a hundred rows, read by at most two statements."""
OF_ONE_ROW = {
    *("", "/runbooks/{ident}/traits", "/drivers/{name}", "/conductors/{hostname}/counters"),
    *("/nodes/{ident}/why", "/whoami"),
}
"""Lists that are a value of one row, or of the code."""
"""First word of a path, and the column by which the rows below belong to one of those."""


def answers() -> Iterator[tuple[str, Any]]:
    """Give the path of every GET, and the schema of its answer."""
    for each in controllers.ALL:
        for route, handler in each.exposed():
            if route.method == "GET":
                (told,) = openapi.document([(route, handler)])["paths"].values()
                content = told["get"]["responses"]["200"].get("content", {})
                yield route.path, content.get("application/json", {}).get("schema", {})


def holds_a_list(schema: Any) -> bool:
    """Tell whether an answer is a list, or has one that is not of links."""
    parts = [schema, *schema.get("properties", {}).values(), *schema.get("anyOf", ())]
    return any(one.get("type") == "array" and one != LINKS for one in parts) or any(
        holds_a_list(one) for one in schema.get("anyOf", ())
    )


ANSWERS = dict(answers())
LISTS = sorted(path for path, schema in ANSWERS.items() if "next" in schema.get("properties", {}))
OTHERS: dict[str, tuple[str, Callable[[Any], dict[str, Any]]]] = {
    # path: of which table it lists rows, and what makes them its own
    "/drivers": (
        "hardware_interfaces",
        lambda n: {"conductor_id": 1, "hardware_type": f"type-{n}", "interface_type": "power"},
    ),
    "/shards": ("nodes", lambda n: {"shard": f"shard-{n}"}),
    "/nodes/{ident}/children": ("nodes", lambda _: {"parent_node": PARENT}),
    "/nodes/{ident}/traits": ("node_traits", lambda n: {"node_uuid": PARENT, "trait": f"T_{n}"}),
}
PARENT = "6e0b0a1e-1d6b-4f0a-9d4e-0123456789ab"


def test_all_lists_are_known() -> None:
    found = {path for path, schema in ANSWERS.items() if holds_a_list(schema)}
    others = OTHERS.keys() | ASKED_OF_CONDUCTORS | OF_ONE_ROW | FOLLOWED | KEPT | BOUNDED
    assert found == {*LISTS} | others


@pytest.fixture(params=["anybody", "by rules"])
def asking(
    request: pytest.FixtureRequest, api: Client, callers: Callers
) -> Callable[[str], Client]:
    """Return who asks for a path: the owner of all, or who sees all where no owner may."""

    def of(path: str) -> Client:
        if request.param == "anybody":
            return api
        owner = callers("admin", OWNER)
        return callers("reader") if owner.get(path).status in {403, 404} else owner

    return of


@pytest.mark.parametrize("path", OTHERS)
def test_a_list_without_pages_costs_the_same_however_many_rows_it_has(
    asking: Callable[[str], Client], database: Database, path: str
) -> None:
    name, own = OTHERS[path]
    table = models.metadata.tables[name]
    fill(database, models.nodes, 1, {"uuid": PARENT})
    place = f"/v1{path}".replace("{ident}", PARENT)
    found = []
    for numbers in (range(1), range(1, MANY)):
        for number in numbers:
            fill(database, table, 1, own(number))
        api = asking(place)
        api.get(place)
        with count_statements(database) as sent:
            answer = api.get(place)
        assert answer.status == 200, answer.body
        found.append((len(_rows(answer.json)), len(sent)))
    (fewer, cheap), (more, dear) = found
    assert (more - fewer, dear) == (MANY - 1, cheap)
    assert dear <= MOST


@pytest.mark.parametrize("path", LISTS)
def test_a_list_costs_the_same_however_many_rows_it_has(
    asking: Callable[[str], Client], database: Database, path: str
) -> None:
    name = resource_name(path)
    assert name is not None
    resource: queries.Resource = getattr(queries, name)
    table = table_of(name)
    assert table is not None, (
        f"{name} has a table of another name: write it into TABLES of tests.support.table_rows"
    )
    parent = _parent(database, path)
    place = "/v1" + path.replace("{ident}", str(parent))
    api = asking(place)
    asked = [place]
    if not path.endswith("/detail"):
        asked.append(f"{place}?fields={','.join(one.name for one in resource.table)}")
    costs = []
    for count in (1, MANY - 1):
        known = {_owner(path): parent} if parent else {}
        if path == "/erasures":  # rows without a foreign key to their node
            (node,) = fill(database, models.nodes, 1, {})
            known = {"node_uuid": node["uuid"]}
        fill(database, table, count, known)
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
        # Who is bound by rules may see a portgroup whose node he may see, which is read as well.
        assert len(dear) <= MOST + path.startswith("/portgroups/{ident}"), dear


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
