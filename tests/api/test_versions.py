"""Microversions: two headers, a range, and what none means."""

from __future__ import annotations

import pytest
from oslo_config import cfg

from ironic_lite.api import app
from ironic_lite.db.engine import session
from ironic_lite.domain import versions
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client

MIN = "x-openstack-ironic-api-minimum-version"
MAX = "x-openstack-ironic-api-maximum-version"
USED = "x-openstack-ironic-api-version"


@pytest.mark.parametrize(
    ("ours", "standard", "minor", "explicit"),
    [
        (None, None, 115, False),
        ("1.1", None, 1, True),
        ("1.115", None, 115, True),
        ("latest", None, 115, True),
        ("LATEST", None, 115, True),
        (None, "baremetal 1.50", 50, True),
        (None, "baremetal latest", 115, True),
        (None, "compute 2.1, baremetal 1.7", 7, True),
        ("1.9", "baremetal 1.7", 7, True),
        ("1.9", "compute 2.1", 9, True),
        (None, "compute 2.1", 115, False),
        ("", None, 115, False),
        ("1.9", "", 9, True),
    ],
)
def test_the_headers_name_a_version(
    ours: str | None, standard: str | None, minor: int, explicit: bool
) -> None:
    assert versions.negotiate(ours, standard) == versions.Version(minor, explicit)


@pytest.mark.parametrize("value", ["1.0", "1.116", "2.1", "0.5", "1.999999999", "999999999.1"])
def test_a_version_out_of_range_is_told_the_range(api: Client, value: str) -> None:
    answer = api.at(value).get("/v1/nodes")
    assert answer.status == 406
    assert (answer.headers[MIN], answer.headers[MAX]) == ("1.1", "1.115")
    assert USED not in answer.headers
    assert answer.fault["code"] == 406
    assert answer.fault["title"] == "Not Acceptable"
    assert "[1.1, 1.115]" in answer.fault["description"]


@pytest.mark.parametrize(
    "value", ["1", "1.x", "one", "1.5.1", "-1.5", "1.\u0665", "9" * 40, "1." + "9" * 5000]
)
def test_an_unreadable_version_is_refused_without_version_headers(api: Client, value: str) -> None:
    answer = api.at(value).get("/v1/nodes")
    assert answer.status == 406
    assert not {MIN, MAX, USED} & set(answer.headers)
    assert "x-openstack-request-id" in answer.headers
    assert len(answer.body) < 1000


def test_the_version_used_is_on_every_answer(api: Client) -> None:
    for path in ("/v1", "/v1/nodes", "/v1/nodes/nobody", "/v1/nothing"):
        assert api.at(20).get(path).headers[USED] == "1.20"
        assert api.get(path).headers[USED] == "1.115"
        assert api.at("latest").get(path).headers[USED] == "1.115"


def test_the_operator_may_bring_back_ironics_default(
    database: session.Database, recorder: Recorder, conf: cfg.ConfigOpts
) -> None:
    conf.set_override("default_version", "1.1", "api")
    old = Client(app.build(database, recorder, conf))
    assert old.get("/v1/nodes").headers[USED] == "1.1"
    assert old.at(30).get("/v1/nodes").headers[USED] == "1.30"


def test_the_root_document_is_negotiated_like_everything_else(api: Client) -> None:
    for version, used in ((None, "1.115"), ("latest", "1.115"), ("1.5", "1.5")):
        answer = Client(api.app, version).get("/")
        assert (answer.status, answer.headers[USED]) == (200, used)
        assert answer.json["default_version"]["version"] == "1.115"
    answer = api.at("1.999").get("/")
    assert (answer.status, answer.headers[MAX]) == (406, "1.115")
    assert api.at("nonsense").get("/").status == 406


def test_v1_lists_what_the_version_has(api: Client) -> None:
    assert "conductors" not in api.at(48).get("/v1").json
    document = api.at(49).get("/v1/").json
    assert document["conductors"] == [
        {"href": "http://localhost:6385/v1/conductors/", "rel": "self"},
        {"href": "http://localhost:6385/conductors/", "rel": "bookmark"},
    ]
    assert document["version"]["min_version"] == "1.1"
    assert document["id"] == "v1"
    assert document["media_types"]["base"] == "application/json"
