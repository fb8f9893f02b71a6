"""What is below a node or a portgroup is its own alone: lists go on after nothing else."""

from __future__ import annotations

import pytest

from ironic_lite.db.engine import session
from tests.api.test_runs import add_run
from tests.support import fleet_fixture
from tests.support.callers import OWNER, Callers
from tests.support.wsgi_client import op

ABSENT = "00000000-5a0c-4a3f-8a0a-6d1d0b0a9c77"
MINE, FOREIGN = fleet_fixture.uuid_of(1), fleet_fixture.uuid_of(6)


def _assert_hidden(callers: Callers, path: str, own: str, foreign: str) -> None:
    """Whether there is such a row elsewhere is not to be learnt, however the list is sorted."""
    reader = callers("reader", OWNER)
    for sort in ("", "&sort_dir=desc", "&sort_dir=asc"):
        hidden, none = (reader.get(f"{path}?marker={one}{sort}") for one in (foreign, ABSENT))
        assert (hidden.status, none.status) == (404, 404)
        assert hidden.text == none.text.replace(ABSENT, foreign)
        assert reader.get(f"{path}?marker={own}{sort}").status == 200


@pytest.mark.parametrize(
    ("kind", "first"),
    [("ports", 41), ("portgroups", 51), ("volume/connectors", 61), ("volume/targets", 71)],
)
def test_row_of_another_node_is_an_unknown_marker(
    callers: Callers, database: session.Database, kind: str, first: int
) -> None:
    fleet_fixture.build(callers("admin"), database)
    numbers = (fleet_fixture.uuid_of(first), fleet_fixture.uuid_of(first + 1))
    _assert_hidden(callers, f"/v1/nodes/{MINE}/{kind}", *numbers)


def test_a_run_of_another_node_is_no_marker(callers: Callers, database: session.Database) -> None:
    fleet_fixture.build(callers("admin"), database)
    own, foreign = (add_run(database, node) for node in (MINE, FOREIGN))
    _assert_hidden(callers, f"/v1/nodes/{MINE}/runs", own, foreign)


def test_a_run_of_another_node_is_as_one_that_is_not_there(
    callers: Callers, database: session.Database
) -> None:
    fleet_fixture.build(callers("admin"), database)
    foreign = add_run(database, FOREIGN)
    reader, place = callers("reader", OWNER), f"/v1/nodes/{MINE}/runs"
    for form in (str, str.upper, lambda uuid: uuid.replace("-", "")):
        hidden, none = (reader.get(f"{place}/{form(one)}") for one in (foreign, ABSENT))
        assert (hidden.status, none.status) == (404, 404)
        assert hidden.text == none.text.replace(ABSENT, foreign)


def test_a_port_of_another_portgroup_is_no_marker(
    callers: Callers, database: session.Database
) -> None:
    admin = callers("admin")
    fleet_fixture.build(admin, database)
    for port, group in ((41, 51), (42, 52)):
        patch = [op("add", "/portgroup_uuid", fleet_fixture.uuid_of(group))]
        joined = admin.patch(f"/v1/ports/{fleet_fixture.uuid_of(port)}", patch)
        assert joined.status == 200, joined.text
    place = f"/v1/portgroups/{fleet_fixture.uuid_of(51)}/ports"
    _assert_hidden(callers, place, fleet_fixture.uuid_of(41), fleet_fixture.uuid_of(42))
