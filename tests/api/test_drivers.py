"""Drivers over HTTP: what living conductors have told that they drive."""

from __future__ import annotations

import datetime

import pytest

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.db.engine import session
from ironic_lite.db.queries import conductors
from tests.support.api_rows import DRIVERS, HOST, add_conductor
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client

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
def test_a_bad_question_is_refused(api: Client, query: str) -> None:
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
