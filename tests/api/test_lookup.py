"""Lookup: an agent finds its node by MAC addresses or UUID, and gets its token once."""

from __future__ import annotations

from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.api.auth import rate_limit
from ironic_lite.core import clock
from ironic_lite.db.engine import session
from ironic_lite.db.queries import ports
from ironic_lite.domain import states
from ironic_lite.domain.states import State
from tests.support.api_rows import HOST, AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client

MAC = "52:54:00:12:34:56"
OTHER = "52:54:00:12:34:57"
ABSENT = "00000000-0000-4000-8000-000000000000"
TOKEN = "t" * 43
Json = dict[str, Any]


@pytest.fixture(autouse=True)
def token(recorder: Recorder) -> None:
    recorder.answers["get_node_with_token"] = {"agent_token": TOKEN, "fresh": True}


@pytest.fixture
def node(add_node: AddNode, database: session.Database) -> Json:
    """A node that waits for its agent, with one port."""
    row = add_node(
        provision_state="clean wait",
        properties={"cpus": 4},
        instance_info={"configdrive": "H4sI", "image_source": "http://x"},
        driver_internal_info={"agent_secret_token": TOKEN, "agent_erase_devices_iterations": 1},
    )
    add_port(database, row, MAC)
    return row


def add_port(database: session.Database, node: Json, address: str) -> None:
    row = {
        "uuid": node["uuid"][:-2] + address[-2:],
        "address": address,
        "node_uuid": node["uuid"],
        "created_at": clock.now(),
    }
    database.write(lambda conn: ports.insert(conn, row))


def test_an_agent_is_told_its_node_and_its_settings(
    api: Client, node: Json, recorder: Recorder
) -> None:
    answer = api.get(f"/v1/lookup?addresses={OTHER},{MAC.upper()},nonsense")
    assert answer.status == 200
    found = answer.json["node"]
    assert set(found) == {
        *("uuid", "properties", "instance_info", "driver_internal_info", "links"),
    }
    assert found["uuid"] == node["uuid"]
    assert found["properties"] == {"cpus": 4}
    assert found["instance_info"] == {}
    assert found["driver_internal_info"] == {
        "agent_erase_devices_iterations": 1,
        "erasure_reports": True,
    }
    config = answer.json["config"]
    assert config["agent_token"] == TOKEN
    assert config["agent_token_required"] is True
    assert config["heartbeat_timeout"] == 300
    assert set(config) >= {"metrics", "metrics_statsd", "agent_containers", "tls_min_version"}
    assert recorder.calls == [("get_node_with_token", {"node_uuid": node["uuid"]})]
    assert recorder.hosts == [HOST]


def test_a_stranger_is_told_only_what_an_agent_reads(
    api: Client, add_node: AddNode, database: session.Database
) -> None:
    row = add_node(
        provision_state="clean wait",
        properties={
            "cpus": 4,
            "root_device": {"wwn": "0x5"},
            "tools": "https://me:s3cret@images.example/a?signature=s3cret",
            "vendor": {"pw": "s3cret", "snmp_community": "s3cret", "cloud_key": "s3cret"},
            "login-pwd": "s3cret",
            "cookie": None,
        },
        instance_info={
            "root_device": {"serial": "abc"},
            "capabilities": {"boot_mode": "uefi"},
            "image_source": "https://images.example/b?signature=s3cret",
            "user_data": "s3cret",
            "cloud_key": "s3cret",
            "nested": {"pw": "s3cret", "license": "s3cret"},
        },
        driver_internal_info={
            "driver_notes": {"job": "s3cret"},
            "clean_steps": [{"step": "x", "args": {"motto": "s3cret"}}],
            "agent_url": "https://s3cret",
            "agent_secret_token": "s3cret",
            "agent_erase_skip_read_only": 1,
        },
    )
    answer = api.get(f"/v1/lookup?node_uuid={row['uuid']}")
    assert b"s3cret" not in answer.body
    found = answer.json["node"]
    assert found["instance_info"] == {
        "root_device": {"serial": "abc"},
        "capabilities": {"boot_mode": "uefi"},
    }
    assert found["driver_internal_info"] == {
        "agent_erase_skip_read_only": 1,
        "erasure_reports": True,
    }
    assert found["properties"] == {
        "cpus": 4,
        "root_device": {"wwn": "0x5"},
        "tools": "https://me:******@images.example/a?******",
        "vendor": {"pw": "******", "snmp_community": "******", "cloud_key": "******"},
        "login-pwd": "******",
        "cookie": None,
    }


def test_a_node_that_has_gone_on_meanwhile_is_as_unknown_as_any(
    api: Client, node: Json, recorder: Recorder
) -> None:
    recorder.answers["get_node_with_token"] = errors.NodeNotFound(node=node["uuid"])
    gone = api.get(f"/v1/lookup?addresses={MAC}")
    unknown = api.get(f"/v1/lookup?addresses={OTHER}")
    assert gone.text.replace(MAC, "") == unknown.text.replace(OTHER, "")


def test_a_token_is_shown_once(api: Client, node: Json, recorder: Recorder) -> None:
    recorder.answers["get_node_with_token"] = {"agent_token": TOKEN, "fresh": False}
    answer = api.get(f"/v1/lookup?node_uuid={node['uuid']}")
    assert answer.json["config"]["agent_token"] == "******"
    assert TOKEN.encode() not in answer.body


def test_the_real_agent_asks_at_1_62_with_both(api: Client, node: Json) -> None:
    query = f"addresses=02:00:00:00:00:01&node_uuid={node['uuid']}"
    assert api.at(62).get(f"/v1/lookup?{query}").json["config"]["agent_token"] == TOKEN


def test_older_agents_get_no_token(api: Client, node: Json, recorder: Recorder) -> None:
    answer = api.at(61).get(f"/v1/lookup?addresses={MAC}")
    assert answer.json["config"]["agent_token"] is None
    assert recorder.calls == []
    assert api.at(21).get(f"/v1/lookup?addresses={MAC}").status == 404


@pytest.mark.parametrize("state", State)
def test_a_node_answers_only_while_an_agent_may_run(
    api: Client, add_node: AddNode, state: State
) -> None:
    node = add_node(provision_state=state.value)
    answer = api.get(f"/v1/lookup?node_uuid={node['uuid']}")
    assert answer.status == (200 if state in states.LOOKUP_ALLOWED else 404)
    if answer.status == 404:
        unknown = api.get(f"/v1/lookup?node_uuid={ABSENT}")
        assert answer.text.replace(node["uuid"], "") == unknown.text.replace(ABSENT, "")


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("own", [None, False], ids=["configured", "but not here"])
def test_on_the_fast_track_an_agent_may_run_between_verbs(
    api: Client, add_node: AddNode, conf: cfg.ConfigOpts, state: State, own: bool | None
) -> None:
    conf.set_override("fast_track", True, "deploy")
    info = {} if own is None else {"fast_track": own}
    node = add_node(provision_state=state.value, driver_info={"ipmi_password": "s3", **info})
    answer = api.get(f"/v1/lookup?node_uuid={node['uuid']}")
    allowed = states.LOOKUP_ALLOWED if own is False else states.FAST_TRACK_LOOKUP
    assert answer.status == (200 if state in allowed else 404)
    assert b"s3" not in answer.body


def test_the_restriction_can_be_lifted(
    api: Client, add_node: AddNode, conf: cfg.ConfigOpts
) -> None:
    active = add_node(provision_state="active")
    assert api.get(f"/v1/lookup?node_uuid={active['uuid']}").status == 404
    conf.set_override("restrict_lookup", False, "api")
    assert api.get(f"/v1/lookup?node_uuid={active['uuid']}").status == 200


def test_addresses_of_two_nodes_are_nobodys(
    api: Client, node: Json, add_node: AddNode, database: session.Database
) -> None:
    add_port(database, add_node(provision_state="clean wait"), OTHER)
    assert api.get(f"/v1/lookup?addresses={MAC},{OTHER}").status == 404
    assert api.get(f"/v1/lookup?addresses={MAC}").status == 200


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("", 400),
        ("addresses=", 400),
        ("addresses=nonsense", 400),
        ("node_uuid=nonsense", 400),
        (f"addresses={MAC}&foo=1", 400),
        (f"addresses={OTHER}", 404),
        (f"node_uuid={ABSENT}", 404),
    ],
)
def test_a_bad_question_is_refused(
    api: Client, node: Json, recorder: Recorder, query: str, status: int
) -> None:
    assert api.get(f"/v1/lookup?{query}").status == status
    assert recorder.calls == []


def test_a_locked_node_asks_the_agent_to_come_back(
    api: Client, node: Json, recorder: Recorder
) -> None:
    recorder.answers["get_node_with_token"] = errors.NodeLocked(node=node["uuid"], host=HOST)
    assert api.get(f"/v1/lookup?addresses={MAC}").status == 409


def test_the_endpoint_can_be_closed(api: Client, node: Json, conf: cfg.ConfigOpts) -> None:
    conf.set_override("enable_ramdisk_endpoints", False, "api")
    assert api.get(f"/v1/lookup?addresses={MAC}").status == 403


def test_a_redfish_node_needs_no_search_for_its_bmc(api: Client, add_node: AddNode) -> None:
    node = add_node(provision_state="deploying", management_interface="redfish")
    answer = api.get(f"/v1/lookup?node_uuid={node['uuid']}")
    assert answer.json["config"]["agent_skip_bmc_detect"] is True


def test_an_agent_judges_images_as_the_service_does(
    api: Client, node: Json, conf: cfg.ConfigOpts
) -> None:
    told = api.get(f"/v1/lookup?addresses={MAC}").json["config"]
    assert told["agent_md5_checksum_enable"] is False
    assert told["disable_deep_image_inspection"] is False
    assert told["permitted_image_formats"] == ["raw", "gpt", "qcow2"]
    conf.set_override("allow_md5_checksum", True, "agent")
    conf.set_override("disable_deep_image_inspection", True, "conductor")
    conf.set_override("permitted_image_formats", ["raw"], "conductor")
    told = api.get(f"/v1/lookup?addresses={MAC}").json["config"]
    assert told["agent_md5_checksum_enable"] is True
    assert told["disable_deep_image_inspection"] is True
    assert told["permitted_image_formats"] == ["raw"]


def test_client_that_guesses_gets_429_and_an_agent_is_served(
    api: Client, node: Json, conf: cfg.ConfigOpts
) -> None:
    conf.set_override("ramdisk_refusals_per_minute", 3, "api")
    asked = [api.get(f"/v1/lookup?addresses={OTHER}") for _ in range(5)]
    assert [answer.status for answer in asked] == [404, 404, 404, 429, 429]
    assert 30 <= int(asked[-1].headers["retry-after"]) <= 60
    assert api.get(f"/v1/lookup?addresses={MAC}").status == 200
    conf.set_override("ramdisk_refusals_per_minute", 0, "api")
    assert api.get(f"/v1/lookup?addresses={OTHER}").status == 404


def test_an_agent_that_is_to_partition_is_told_how_the_instance_boots(
    api: Client, add_node: AddNode, database: session.Database
) -> None:
    """Without hints it looks its node up once more, and forgets what came with the command."""
    kept = {"driver_notes": {"deploy_boot_mode": "uefi"}}
    row = add_node(provision_state="wait call-back", driver_internal_info=kept)
    add_port(database, row, OTHER)
    found = api.get(f"/v1/lookup?addresses={OTHER}").json["node"]
    assert found["driver_internal_info"]["deploy_boot_mode"] == "uefi"


def test_an_address_and_a_node_are_counted_for_themselves_and_for_a_minute(
    conf: cfg.ConfigOpts,
) -> None:
    conf.set_override("ramdisk_refusals_per_minute", 1, "api")
    now = [0.0]
    found = rate_limit.RefusalLimiter(conf, clock=lambda: now[0])
    one, other = {"REMOTE_ADDR": "fd00:1:2:3::1"}, {"REMOTE_ADDR": "fd00:1:2:4::1"}
    found.note(found.key(one, "a"))
    assert found.over(found.key(one, "a"))
    assert not found.over(found.key(one, "b"))
    assert not found.over(found.key(other, "a"))
    forwarded = {**other, "HTTP_X_FORWARDED_FOR": "203.0.113.9, fd00:1:2:3::1"}
    assert not found.over(found.key(forwarded, "a"))
    conf.set_override("enable_proxy_headers_parsing", True, "api")
    assert found.over(found.key(forwarded, "a"))
    now[0] = 60.0
    assert not found.over(found.key(one, "a"))


def test_an_agent_among_thousands_of_refused_requests_is_served(api: Client, node: Json) -> None:
    for number in range(2000):
        mac = f"52:54:00:01:{number // 256:02x}:{number % 256:02x}"
        assert api.get(f"/v1/lookup?addresses={mac}").status == 404
    assert api.get(f"/v1/lookup?addresses={MAC}").status == 200
