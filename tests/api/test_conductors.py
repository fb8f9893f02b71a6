"""Conductors over HTTP: the dead are listed too, and said to be so."""

from __future__ import annotations

import datetime
import functools
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from ironic_lite.api.routing import ConductorRouter
from ironic_lite.core import bmc_metrics, clock
from ironic_lite.db.engine import session
from ironic_lite.db.queries import conductors
from tests.support.api_rows import DRIVERS, HOST, add_conductor
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client


@pytest.fixture
def fleet(database: session.Database) -> None:
    """Three conductors: one alive, one silent for an hour, one stopped."""
    add_conductor(database, "silent", group="rack")
    add_conductor(database, "stopped")
    long_ago = clock.now() - datetime.timedelta(hours=1)
    database.write(lambda conn: conductors.touch(conn, host="silent", now=long_ago))
    database.write(lambda conn: conductors.offline(conn, "stopped", clock.now()))


@pytest.mark.usefixtures("fleet")
def test_every_conductor_is_listed_alive_or_not(api: Client) -> None:
    found = api.get("/v1/conductors").json["conductors"]
    base = "http://localhost:6385"
    assert found[0] == {
        "hostname": HOST,
        "conductor_group": "",
        "alive": True,
        "links": [
            {"href": f"{base}/v1/conductors/{HOST}", "rel": "self"},
            {"href": f"{base}/conductors/{HOST}", "rel": "bookmark"},
        ],
    }
    assert {row["hostname"]: row["alive"] for row in found} == {
        HOST: True,
        "silent": False,
        "stopped": False,
    }


@pytest.mark.usefixtures("fleet")
def test_details_tell_drivers_and_times(api: Client) -> None:
    shown = api.get(f"/v1/conductors/{HOST}").json
    assert shown == api.get("/v1/conductors?detail=true").json["conductors"][0]
    assert shown["drivers"] == sorted(DRIVERS)
    assert shown["created_at"].endswith("+00:00")
    assert set(shown) == {
        *("hostname", "conductor_group", "alive", "drivers", "created_at", "updated_at", "links"),
    }
    some = api.get("/v1/conductors/silent?fields=hostname,drivers").json
    assert (set(some), some["drivers"]) == ({"hostname", "drivers", "links"}, [])


@pytest.mark.usefixtures("fleet")
def test_conductors_are_sorted_and_paged(api: Client) -> None:
    found = api.get("/v1/conductors?sort_key=hostname&sort_dir=desc").json["conductors"]
    assert [row["hostname"] for row in found] == ["stopped", "silent", HOST]
    page = api.get("/v1/conductors?limit=2").json
    assert [row["hostname"] for row in page["conductors"]] == [HOST, "silent"]
    rest = api.get(page["next"].removeprefix("http://localhost:6385")).json
    assert [row["hostname"] for row in rest["conductors"]] == ["stopped"]
    assert "next" not in rest


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("marker=nobody", 404),
        ("marker=", 400),
        ("limit=0", 400),
        ("sort_key=drivers", 400),
        ("foo=1", 400),
    ],
)
def test_a_bad_question_is_refused(api: Client, query: str, status: int) -> None:
    assert api.get(f"/v1/conductors?{query}").status == status


def test_an_unknown_conductor_is_named(api: Client) -> None:
    answer = api.get("/v1/conductors/nobody")
    assert answer.status == 404
    assert "nobody" in answer.text


def test_versions_before_1_49_know_no_conductors(api: Client) -> None:
    assert api.at(48).get("/v1/conductors").status == 404
    assert api.at(48).get(f"/v1/conductors/{HOST}").status == 404
    assert api.at(49).get("/v1/conductors").status == 200


def test_a_conductor_shows_what_it_counted(api: Client, database: session.Database) -> None:
    path = f"/v1/conductors/{HOST}/counters"
    before = api.get(path).json
    assert (before["hostname"], before["since"], before["bmc_calls_total"]) == (HOST, None, [])
    counted = bmc_metrics.Counters()
    counted.note("redfish", "GET", bmc_metrics.OK, 0.2)
    told, now = counted.snapshot(), clock.now()
    database.write(lambda conn: conductors.touch(conn, host=HOST, now=now, counters=told))
    after = api.get(path).json
    assert after == {"hostname": HOST, "updated_at": now.isoformat() + "+00:00", **told}
    assert "counters" not in api.get(f"/v1/conductors/{HOST}").json
    assert api.get("/v1/conductors/nobody/counters").status == 404
    assert api.at(48).get(path).status == 404
    start = functools.partial(conductors.register, host=HOST, group="", version=None, now=now)
    database.write(start)
    anew = api.get(path).json
    assert (anew["since"], anew["bmc_calls_total"]) == (None, [])


def test_concurrent_requests_read_old_members_once(
    database: session.Database, conf: cfg.ConfigOpts
) -> None:
    router, begin = ConductorRouter(database, conf), threading.Barrier(8)

    def slow(*_statement: Any) -> None:
        time.sleep(0.1)

    def read(_number: int) -> list[str]:
        begin.wait()
        return [member.host for member in router.members()]

    sa.event.listen(database.engine, "before_cursor_execute", slow)
    try:
        with count_statements(database) as sent, ThreadPoolExecutor(8) as threads:
            assert list(threads.map(read, range(8))) == [[HOST]] * 8
    finally:
        sa.event.remove(database.engine, "before_cursor_execute", slow)
    assert len(sent) == 1, str(sent)
