"""Conductors over HTTP, and the drivers that the living ones report."""

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

from ironic_lite import errors
from ironic_lite.api.service import ConductorRouter
from ironic_lite.core import clock, metrics
from ironic_lite.db.engine import session
from ironic_lite.db.queries import conductors
from tests.support.api_rows import DRIVERS, HOST, add_conductor
from tests.support.conductor_recorder import Recorder
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

# Conductors over HTTP: the dead are listed too, and said to be so.


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
    counted = metrics.BmcCounters()
    counted.note("redfish", "GET", metrics.OK, 0.2)
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


# Drivers over HTTP: what living conductors have told that they drive.

FAKE = "/v1/drivers/fake-hardware"


def test_every_driver_is_listed_with_its_hosts(api: Client, database: session.Database) -> None:
    add_conductor(database, "conductor-2", group="rack")
    found = api.get("/v1/drivers").json["drivers"]
    assert [driver["name"] for driver in found] == sorted(DRIVERS)
    base = "http://localhost:6385"
    assert found[0] == {
        "name": "fake-hardware",
        "hosts": [HOST, "conductor-2"],
        "type": "dynamic",
        "links": [
            {"href": f"{base}/v1/drivers/fake-hardware", "rel": "self"},
            {"href": f"{base}/drivers/fake-hardware", "rel": "bookmark"},
        ],
        "properties": [
            {"href": f"{base}/v1/drivers/fake-hardware/properties", "rel": "self"},
            {"href": f"{base}/drivers/fake-hardware/properties", "rel": "bookmark"},
        ],
    }


def test_details_tell_the_interfaces(api: Client) -> None:
    (fake, _) = api.get("/v1/drivers?detail=true").json["drivers"]
    assert fake == api.get(FAKE).json
    assert fake["default_power_interface"] == "fake"
    assert fake["enabled_power_interfaces"] == ["fake"]
    assert (fake["default_bios_interface"], fake["enabled_bios_interfaces"]) == (None, [])


def test_fields_are_chosen_from_1_77_on(api: Client) -> None:
    shown = api.get(f"{FAKE}?fields=name,default_power_interface").json
    assert set(shown) == {"name", "default_power_interface", "links"}
    (listed, _) = api.get("/v1/drivers?fields=name,default_power_interface").json["drivers"]
    assert listed == shown
    assert api.at(76).get(f"{FAKE}?fields=name").status == 406


@pytest.mark.parametrize(
    ("version", "keys"),
    [
        (1, {"name", "hosts", "links"}),
        (14, {"name", "hosts", "links", "properties"}),
        (30, {"name", "hosts", "links", "properties", "type"}),
    ],
)
def test_old_versions_see_less(api: Client, version: int, keys: set[str]) -> None:
    (fake, _) = api.at(version).get("/v1/drivers").json["drivers"]
    assert set(fake) == keys


@pytest.mark.parametrize(
    ("kind", "since"), [("power", 30), ("storage", 33), ("rescue", 38), ("firmware", 86)]
)
def test_interfaces_appear_with_their_version(api: Client, kind: str, since: int) -> None:
    assert f"default_{kind}_interface" in api.at(since).get(FAKE).json
    assert f"default_{kind}_interface" not in api.at(since - 1).get(FAKE).json


def test_all_drivers_are_dynamic(api: Client) -> None:
    assert len(api.get("/v1/drivers?type=dynamic").json["drivers"]) == len(DRIVERS)
    assert api.get("/v1/drivers?type=classic").json == {"drivers": []}


@pytest.mark.parametrize(
    "query", ["type=new", "foo=1", "detail=maybe", "fields=foo", "detail=true&fields=name"]
)
def test_a_bad_question_about_drivers_is_refused(api: Client, query: str) -> None:
    assert api.get(f"/v1/drivers?{query}").status == 400


@pytest.mark.parametrize(
    ("asked", "keys"), [("", {"links"}), (",", {"links"}), ("name,", {"name", "links"})]
)
def test_empty_names_of_fields_ask_for_nothing(api: Client, asked: str, keys: set[str]) -> None:
    assert set(api.get(f"{FAKE}?fields={asked}").json) == keys


@pytest.mark.parametrize("query", ["type=dynamic", "detail=true"])
def test_newer_arguments_are_not_acceptable(api: Client, query: str) -> None:
    assert api.at(29).get(f"/v1/drivers?{query}").status == 406


def test_the_drivers_of_a_dead_conductor_are_gone(api: Client, database: session.Database) -> None:
    long_ago = clock.now() - datetime.timedelta(hours=1)
    database.write(lambda conn: conductors.touch(conn, host=HOST, now=long_ago))
    assert api.get("/v1/drivers").json == {"drivers": []}
    assert api.get(FAKE).status == 404


def test_an_unknown_driver_is_named(api: Client) -> None:
    answer = api.get("/v1/drivers/nothing")
    assert answer.status == 404
    assert "nothing" in answer.text


def test_a_conductor_tells_the_properties(api: Client, recorder: Recorder) -> None:
    recorder.answers["get_driver_properties"] = {"redfish_address": "Where the BMC is."}
    answer = api.get("/v1/drivers/redfish/properties")
    assert answer.json == {"redfish_address": "Where the BMC is."}
    assert recorder.calls == [("get_driver_properties", {"driver": "redfish"})]
    assert recorder.hosts == [HOST]
    assert api.get("/v1/drivers/nothing/properties").status == 404
    recorder.answers["get_driver_properties"] = errors.NoConductor(host=HOST)
    assert api.get("/v1/drivers/redfish/properties").status == 503


@pytest.mark.parametrize("version", [1, 115])
def test_a_conductor_tells_what_forms_show(api: Client, recorder: Recorder, version: int) -> None:
    told = {"redfish_address": {"group": "BMC", "order": 1, "required": True}}
    recorder.answers["get_driver_property_details"] = told
    path = "/v1/drivers/{}/properties/detail"
    assert api.at(version).get(path.format("redfish")).json == told
    assert recorder.calls == [("get_driver_property_details", {"driver": "redfish"})]
    assert api.get(path.format("nothing")).status == 404
    assert api.post(path.format("redfish"), {}).status == 405
