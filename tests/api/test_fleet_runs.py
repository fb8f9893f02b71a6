"""GET /v1/runs: runs of all nodes, their filters, order, rights and costs."""

from __future__ import annotations

import datetime
import urllib.parse
from typing import Any

import pytest

from ironic_lite.api.watching.blocking import BlockingWatches
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import runs
from ironic_lite.feed.tail import Tail
from tests.api.test_runs import FIELDS, NOON, WHY, add_run
from tests.support.api_rows import AddNode
from tests.support.callers import LESSEE, OWNER, STRANGER, Callers
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

FLEET_FIELDS = {*FIELDS, "node_name", "code"}
GONE = "99999999-9999-4999-8999-999999999999"


def hours(number: float) -> datetime.datetime:
    return NOON + datetime.timedelta(hours=number)


@pytest.fixture
def fleet(database: Database, add_node: AddNode) -> dict[str, str]:
    """Runs by a word, of three nodes; their starts are in the order of the words."""
    a = add_node(name="a", driver="redfish", resource_class="gpu", owner=OWNER)["uuid"]
    b = add_node(name="b", resource_class="cpu", owner=STRANGER)["uuid"]
    c = add_node(resource_class="cpu", owner="p-other", lessee=LESSEE)["uuid"]
    failed: dict[str, Any] = {"state": "failed", "error": WHY, "code": "BmcUnreachable"}
    found = {
        "a1": add_run(database, a, started_at=hours(0), **failed),
        "b1": add_run(database, b, started_at=hours(1), verb="manage", requester="bob"),
        "a2": add_run(database, a, started_at=hours(2), verb="provide", state="aborted"),
        "c1": add_run(database, c, started_at=hours(3), project="p-other", state="running"),
    }
    found["b2"] = add_run(database, b, started_at=hours(4), retry_of=found["b1"], **failed)
    return found


def listed(client: Client, fleet: dict[str, str], query: str = "") -> list[str]:
    """Return the words of the runs in a list."""
    answer = client.get(f"/v1/runs?{query}")
    assert answer.status == 200, answer.text
    words = {uuid: word for word, uuid in fleet.items()}
    return [words[run["uuid"]] for run in answer.json["runs"]]


def test_run_of_the_fleet_names_its_node_and_cause(api: Client, fleet: dict[str, str]) -> None:
    shown = api.get("/v1/runs").json["runs"][0]
    assert shown.keys() == FLEET_FIELDS
    assert (shown["uuid"], shown["node_name"], shown["code"]) == (
        fleet["b2"],
        "b",
        "BmcUnreachable",
    )
    assert shown["retry_of"] == fleet["b1"]
    assert shown["duration_seconds"] == 0  # the clock was set back
    assert shown["links"][0]["href"] == f"http://localhost:6385/v1/runs/{fleet['b2']}"
    assert api.get(shown["links"][0]["href"].removeprefix("http://localhost:6385")).status == 200


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("", "b2 c1 a2 b1 a1"),
        ("sort_dir=asc", "a1 b1 a2 c1 b2"),
        ("state=failed", "b2 a1"),
        ("state=failed,aborted", "b2 a2 a1"),
        ("verb=manage", "b1"),
        ("verb=manage,cleaned", "a2 b1"),
        ("node=a", "a2 a1"),
        ("requester=bob", "b1"),
        ("project=p-other", "c1"),
        ("driver=redfish", "a2 a1"),
        ("driver=redfish,ipmi", "a2 a1"),
        ("resource_class=cpu", "b2 c1 b1"),
        ("resource_class=cpu,gpu&state=failed", "b2 a1"),
        ("code=BmcUnreachable", "b2 a1"),
        ("code=ImageUnusable", ""),
        ("since=2026-01-31T14:00:00.25Z", "b2 c1 a2"),
        ("since=2026-01-31T16:00:00.25%2B02:00", "b2 c1 a2"),
        ("since=2026-01-31T16:00:00.25+02:00", "b2 c1 a2"),
        ("since=2026-01-31&before=2026-01-31T13:00:00", "a1"),
        ("before=20260131T130001Z", "b1 a1"),
        ("latest=true", "b2 c1 a2"),
        ("latest=true&state=failed", "b2"),
        ("latest=true&state=failed,aborted&driver=redfish", "a2"),
        ("latest=false&node=a", "a2 a1"),
        ("limit=2", "b2 c1"),
    ],
)
def test_filters_choose_runs(api: Client, fleet: dict[str, str], query: str, words: str) -> None:
    assert listed(api, fleet, query) == words.split()


def test_runs_are_found_by_the_run_they_repeat(api: Client, fleet: dict[str, str]) -> None:
    assert listed(api, fleet, f"retry_of={fleet['b1']}") == ["b2"]


def test_duration_is_counted_back_from_now(
    api: Client, database: Database, fleet: dict[str, str], add_node: AddNode
) -> None:
    fleet["new"] = add_run(database, add_node()["uuid"], started_at=clock.ago(7200))
    assert listed(api, fleet, "since=PT3H") == ["new"]
    assert listed(api, fleet, "since=P1DT2H3M4S") == ["new"]
    assert listed(api, fleet, "since=PT1H") == []
    assert listed(api, fleet, "before=PT3H&limit=1") == ["b2"]


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("state=broken", "state"),
        ("verb=walk", "verb"),
        ("node=a/b", "node"),
        ("since=yesterday", "since"),
        ("since=PT", "since"),
        ("since=P9", "since"),
        ("since=P999999D", "since"),
        ("before=0001-01-01T00:00:00%2B23:00", "before"),
        ("since=", "since"),
        ("code=", "code"),
        ("retry_of=1", "retry_of"),
        ("latest=perhaps", "latest"),
        ("fields=nothing", "nothing"),
        ("sort_key=verb", "verb"),
        ("unknown=1", "unknown"),
        ("detail=true", "detail"),
        (f"since={'9' * 5000}", "since"),
    ],
)
def test_malformed_query_is_refused_by_its_name(api: Client, query: str, named: str) -> None:
    answer = api.get(f"/v1/runs?{query}")
    assert (answer.status, named in answer.text) == (400, True), answer.text
    assert len(answer.text) < 1000


def test_pages_have_each_run_once_and_keep_the_filters(
    api: Client, database: Database, add_node: AddNode
) -> None:
    node = add_node()["uuid"]
    same = [add_run(database, node, started_at=hours(n // 3)) for n in range(10)]
    seen, path = [], "/v1/runs?limit=3&state=done&fields=uuid"
    while path:
        page = api.get(path).json
        seen += [run["uuid"] for run in page["runs"]]
        path = page.get("next", "").removeprefix("http://localhost:6385")
        assert not path or "state=done" in urllib.parse.unquote(path)
    assert seen == same[::-1]


@pytest.mark.parametrize("rows", [1, 100])
@pytest.mark.parametrize("more", ["", "&driver=redfish"])
def test_list_costs_one_statement_and_one_for_a_driver(
    api: Client, database: Database, add_node: AddNode, rows: int, more: str
) -> None:
    for _ in range(rows):
        add_run(database, add_node(driver="redfish")["uuid"], state="failed", code="X")
    query = f"state=failed&code=X&latest=true&since=2026-01-01{more}"
    with count_statements(database) as sent:
        answer = api.get(f"/v1/runs?{query}")
    assert (len(answer.json["runs"]), len(sent)) == (rows, 2 if more else 1), sent


@pytest.mark.parametrize("rows", [1, 100])
def test_one_run_costs_three_statements_and_its_usual_times(
    api: Client, database: Database, add_node: AddNode, rows: int
) -> None:
    run = add_run(database, add_node()["uuid"], steps=rows)
    api.get(f"/v1/runs/{run}")  # the usual times are kept
    with count_statements(database) as sent:
        assert len(api.get(f"/v1/runs/{run}").json["steps"]) == rows
    assert len(sent) == 3, sent


def test_one_run_is_that_of_its_node_with_the_nodes_name(
    api: Client, database: Database, add_node: AddNode
) -> None:
    node = add_node(name="n7")["uuid"]
    run = add_run(database, node, steps=2)
    shown = api.get(f"/v1/runs/{run}").json
    below = api.get(f"/v1/nodes/{node}/runs/{run}").json
    assert shown.keys() == {*FLEET_FIELDS, "steps", "eta"}
    assert {**below, "links": shown["links"]}.items() <= shown.items()
    assert shown["node_name"] == "n7"
    assert api.get(f"/v1/runs/{run}?fields=code").json.keys() == {"code", "links"}


@pytest.mark.parametrize("ident", [GONE, "current", "x"])
def test_unknown_run_is_not_listed(api: Client, ident: str) -> None:
    assert api.get(f"/v1/runs/{ident}").status == 404


def test_run_that_has_ended_otherwise_answers_a_wait(
    api: Client, database: Database, add_node: AddNode
) -> None:
    run = add_run(database, add_node()["uuid"], state="failed", error=WHY)
    assert api.get(f"/v1/runs/{run}?wait=5").status == 200
    assert api.get(f"/v1/runs/{run}?wait=5&until=done").status == 424


def test_wait_for_a_run_that_goes_on_ends_in_time(
    api: Client, database: Database, add_node: AddNode
) -> None:
    run = add_run(database, add_node()["uuid"], state="running", ended_at=None)
    tail = Tail(database)
    waiting = Client(BlockingWatches(api.app, api.app.answer, lambda: tail))  # type: ignore[attr-defined]
    assert waiting.get(f"/v1/runs/{run}?wait=1").status == 504
    database.write(lambda conn: runs.update(conn, run, {"state": "done", "ended_at": NOON}))
    assert waiting.get(f"/v1/runs/{run}?wait=1&until=done").json["state"] == "done"


def test_every_version_has_the_runs(api: Client, fleet: dict[str, str]) -> None:
    assert listed(api.at("1.1"), fleet) == ["b2", "c1", "a2", "b1", "a1"]


# -- rights ----------------------------------------------------------------------------------


def test_owner_lists_the_runs_of_own_nodes_only(callers: Callers, fleet: dict[str, str]) -> None:
    owner = callers("reader", OWNER)
    assert listed(owner, fleet) == ["a2", "a1"]
    assert listed(owner, fleet, "latest=true") == ["a2"]
    assert listed(owner, fleet, "node=a") == ["a2", "a1"]
    assert listed(owner, fleet, f"marker={fleet['a2']}") == ["a1"]
    assert owner.get(f"/v1/runs?marker={fleet['b2']}").status in {400, 404}
    assert owner.get("/v1/runs?node=b").status == 404
    assert owner.get(f"/v1/runs/{fleet['a1']}").status == 200
    refused = owner.get(f"/v1/runs/{fleet['b1']}")
    assert (refused.status, refused.text) == (404, f"Run {fleet['b1']} could not be found.")


def test_reader_of_the_system_lists_all_runs(callers: Callers, fleet: dict[str, str]) -> None:
    assert len(listed(callers("reader"), fleet)) == 5
    assert callers("reader").get(f"/v1/runs/{fleet['c1']}").status == 200


def test_lessee_and_stranger_list_no_runs_of_others(
    callers: Callers, fleet: dict[str, str]
) -> None:
    assert listed(callers("admin", LESSEE), fleet) == ["c1"]  # it is under way
    assert listed(callers("admin", STRANGER), fleet) == ["b2", "b1"]
    assert callers("admin", "p-nobody").get(f"/v1/runs/{fleet['a1']}").status == 404


def test_lessee_reads_a_run_while_it_is_under_way(
    callers: Callers, fleet: dict[str, str], api: Client, database: Database
) -> None:
    node = api.get(f"/v1/runs/{fleet['c1']}").json["node_uuid"]
    paths = (f"/v1/nodes/{node}/runs/{fleet['c1']}", f"/v1/runs/{fleet['c1']}")
    lessee = callers("reader", LESSEE)
    assert [lessee.get(path).status for path in paths] == [200, 200]
    database.write(lambda conn: runs.update(conn, fleet["c1"], {"state": "done"}))
    assert [lessee.get(path).status for path in paths] == [404, 404]
