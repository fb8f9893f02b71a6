"""Lookup: an agent finds its node by MAC addresses or UUID, and gets its token once."""

from __future__ import annotations

from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import clock, errors, states
from ironic_lite.api.login import strangers
from ironic_lite.db import ports, session
from ironic_lite.states import State
from tests.api.client import Client
from tests.api.conftest import HOST, AddNode
from tests.api.recorder import Recorder
from tests.statements import count_statements

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
    assert found["instance_info"] == {"configdrive": "******", "image_source": "http://x"}
    assert found["driver_internal_info"] == {
        "agent_secret_token": "******",
        "agent_erase_devices_iterations": 1,
    }
    config = answer.json["config"]
    assert config["agent_token"] == TOKEN
    assert config["agent_token_required"] is True
    assert config["heartbeat_timeout"] == 300
    assert set(config) >= {"metrics", "metrics_statsd", "agent_containers", "tls_min_version"}
    assert recorder.calls == [("get_node_with_token", {"node_uuid": node["uuid"]})]
    assert recorder.hosts == [HOST]


def test_nobody_learns_keys_of_addresses_or_what_drivers_keep(
    api: Client, add_node: AddNode, database: session.Database
) -> None:
    told = {
        "image_source": "https://me:pw@images.example/a?signature=s3cret",
        "files": [{"content": "https://images.example/b?signature=s3cret"}],
        "motto": "is it?",
    }
    row = add_node(
        provision_state="clean wait",
        instance_info=told,
        driver_internal_info={"driver_notes": {"job": "s3cret"}, "agent_erase_skip_read_only": 1},
    )
    answer = api.get(f"/v1/lookup?node_uuid={row['uuid']}")
    assert b"s3cret" not in answer.body
    assert answer.json["node"]["instance_info"] == {
        "image_source": "https://me:******@images.example/a?******",
        "files": [{"content": "https://images.example/b?******"}],
        "motto": "is it?",
    }
    assert answer.json["node"]["driver_internal_info"] == {"agent_erase_skip_read_only": 1}


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


def test_who_guesses_too_often_is_refused_without_a_look(
    api: Client, node: Json, conf: cfg.ConfigOpts, database: session.Database
) -> None:
    conf.set_override("ramdisk_refusals_per_minute", 3, "api")
    for _ in range(3):
        assert api.get(f"/v1/lookup?addresses={OTHER}").status == 404
    with count_statements(database) as sent:
        for mac in (OTHER, MAC):
            answer = api.get(f"/v1/lookup?addresses={mac}")
            assert (answer.status, "retry later" in answer.text) == (503, True)
    assert len(sent) == 0, sent
    conf.set_override("ramdisk_refusals_per_minute", 0, "api")
    assert api.get(f"/v1/lookup?addresses={MAC}").status == 200


def test_an_agent_that_is_to_partition_is_told_how_the_instance_boots(
    api: Client, add_node: AddNode, database: session.Database
) -> None:
    """Without hints it looks its node up once more, and forgets what came with the command."""
    kept = {"driver_notes": {"deploy_boot_mode": "uefi"}}
    row = add_node(provision_state="wait call-back", driver_internal_info=kept)
    add_port(database, row, OTHER)
    found = api.get(f"/v1/lookup?addresses={OTHER}").json["node"]
    assert found["driver_internal_info"]["deploy_boot_mode"] == "uefi"


def test_each_address_is_counted_for_itself_and_for_a_minute(conf: cfg.ConfigOpts) -> None:
    conf.set_override("ramdisk_refusals_per_minute", 1, "api")
    now = [0.0]
    found = strangers.Strangers(conf, clock=lambda: now[0])
    one, other = {"REMOTE_ADDR": "192.0.2.1"}, {"REMOTE_ADDR": "192.0.2.2"}
    found.note(one)
    found.check(other)
    with pytest.raises(errors.Unavailable):
        found.check(one)
    forwarded = {**other, "HTTP_X_FORWARDED_FOR": "203.0.113.9, 192.0.2.1"}
    found.check(forwarded)
    conf.set_override("enable_proxy_headers_parsing", True, "api")
    with pytest.raises(errors.Unavailable):
        found.check(forwarded)
    now[0] = 60.0
    found.check(one)


def test_who_has_a_network_of_ipv6_is_not_a_new_one_with_each_address(conf: cfg.ConfigOpts) -> None:
    """Others in it, such as the machines of a rack, are served until it gets too much of all."""
    conf.set_override("ramdisk_refusals_per_minute", 2, "api")
    now = [0.0]
    found = strangers.Strangers(conf, clock=lambda: now[0])

    def at(address: str) -> dict[str, str]:
        return {"REMOTE_ADDR": address}

    for _ in range(2):
        found.note(at("2001:db8:0:1::ffff"))
    with pytest.raises(errors.Unavailable, match="this address"):
        found.check(at("2001:db8:0:1::ffff"))
    for host in range(18):
        found.check(at(f"2001:db8:0:1::{host:x}"))
        found.note(at(f"2001:db8:0:1::{host:x}"))
    with pytest.raises(errors.Unavailable, match="2001:db8:0:1::/64"):
        found.check(at("2001:db8:0:1:1:2:3:4"))
    found.check(at("2001:db8:0:2::1"))
    for host in range(1, 30):  # these are written so, and of no such network
        found.note(at(f"::ffff:192.0.2.{host}"))
    found.check(at("::ffff:192.0.2.99"))
    found.note(at("no address: at all"))
    now[0] = 60.0
    found.check(at("2001:db8:0:1:1:2:3:4"))


def test_a_full_table_forgets_who_was_refused_longest_ago(
    conf: cfg.ConfigOpts, monkeypatch: pytest.MonkeyPatch
) -> None:
    conf.set_override("ramdisk_refusals_per_minute", 2, "api")
    monkeypatch.setattr(strangers, "_MOST", 3)
    found = strangers.Strangers(conf, clock=lambda: 0.0)
    for last in (1, 2, 3, 1, 4, 4):
        found.note({"REMOTE_ADDR": f"192.0.2.{last}"})
    for last in (1, 4):
        with pytest.raises(errors.Unavailable):
            found.check({"REMOTE_ADDR": f"192.0.2.{last}"})
    for last in (2, 3):
        found.check({"REMOTE_ADDR": f"192.0.2.{last}"})
