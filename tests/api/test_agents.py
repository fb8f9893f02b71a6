"""Agents: lookups, which give the token once, and heartbeats, which need it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.api.auth import failed_attempts
from ironic_lite.api.controllers import agent
from ironic_lite.core import clock
from ironic_lite.db.engine import session
from ironic_lite.db.queries import nodes, ports
from ironic_lite.domain import states, waiting
from ironic_lite.domain.states import State
from ironic_lite.rpc import contract
from tests.support.api_rows import HOST, AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client

# Lookup: an agent finds its node by MAC addresses or UUID, and gets its token once.

MAC = "52:54:00:12:34:56"
OTHER = "52:54:00:12:34:57"
ABSENT = "00000000-0000-4000-8000-000000000000"
TOKEN = "t" * 43
Json = dict[str, Any]


@pytest.fixture(autouse=True)
def token(recorder: Recorder) -> None:
    recorder.answers["get_node_with_token"] = {"agent_token": TOKEN, "fresh": True}


@pytest.fixture
def waiting_node(add_node: AddNode, database: session.Database) -> Json:
    """A node that waits for its agent, with one port."""
    row = add_node(
        provision_state="clean wait",
        properties={"cpus": 4},
        instance_info={"configdrive": "H4sI", "image_source": "http://x"},
        driver_internal_info={"agent_erase_devices_iterations": 1},
        reservation="elsewhere",  # so a conductor answers
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
    api: Client, waiting_node: Json, recorder: Recorder
) -> None:
    answer = api.get(f"/v1/lookup?addresses={OTHER},{MAC.upper()},nonsense")
    assert answer.status == 200
    found = answer.json["node"]
    assert set(found) == {
        *("uuid", "properties", "instance_info", "driver_internal_info", "links"),
    }
    assert found["uuid"] == waiting_node["uuid"]
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
    assert config["agent_containers"] == {
        "allow_arbitrary_containers": False,
        "allowed_containers": [],
        "container_steps_file": "/etc/ironic-python-agent.d/mysteps.yaml",
        "runner": "podman",
        "pull_options": [],
        "run_options": ["--rm", "--network=host"],
    }
    assert set(config) >= {"metrics", "metrics_statsd", "agent_containers", "tls_min_version"}
    assert recorder.calls == [("get_node_with_token", {"node_uuid": waiting_node["uuid"]})]
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
    api: Client, waiting_node: Json, recorder: Recorder
) -> None:
    recorder.answers["get_node_with_token"] = errors.NodeNotFound(node=waiting_node["uuid"])
    gone = api.get(f"/v1/lookup?addresses={MAC}")
    unknown = api.get(f"/v1/lookup?addresses={OTHER}")
    assert gone.text.replace(MAC, "") == unknown.text.replace(OTHER, "")


def test_a_token_is_shown_once(api: Client, waiting_node: Json, recorder: Recorder) -> None:
    recorder.answers["get_node_with_token"] = {"agent_token": TOKEN, "fresh": False}
    answer = api.get(f"/v1/lookup?node_uuid={waiting_node['uuid']}")
    assert answer.json["config"]["agent_token"] == "******"
    assert TOKEN.encode() not in answer.body


def test_the_real_agent_asks_at_1_62_with_both(api: Client, waiting_node: Json) -> None:
    query = f"addresses=02:00:00:00:00:01&node_uuid={waiting_node['uuid']}"
    assert api.at(62).get(f"/v1/lookup?{query}").json["config"]["agent_token"] == TOKEN


def test_older_agents_get_no_token(api: Client, waiting_node: Json, recorder: Recorder) -> None:
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
    api: Client, waiting_node: Json, add_node: AddNode, database: session.Database
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
    api: Client, waiting_node: Json, recorder: Recorder, query: str, status: int
) -> None:
    assert api.get(f"/v1/lookup?{query}").status == status
    assert recorder.calls == []


def test_a_locked_node_asks_the_agent_to_come_back(
    api: Client, waiting_node: Json, recorder: Recorder
) -> None:
    recorder.answers["get_node_with_token"] = errors.NodeLocked(
        node=waiting_node["uuid"], host=HOST
    )
    assert api.get(f"/v1/lookup?addresses={MAC}").status == 409


def test_lookups_can_be_closed(api: Client, waiting_node: Json, conf: cfg.ConfigOpts) -> None:
    conf.set_override("enable_ramdisk_endpoints", False, "api")
    assert api.get(f"/v1/lookup?addresses={MAC}").status == 403


@pytest.mark.parametrize("name", ["redfish", "idrac-redfish"])
def test_a_redfish_node_needs_no_search_for_its_bmc(
    api: Client, add_node: AddNode, name: str
) -> None:
    node = add_node(provision_state="deploying", management_interface=name)
    answer = api.get(f"/v1/lookup?node_uuid={node['uuid']}")
    assert answer.json["config"]["agent_skip_bmc_detect"] is True


def test_an_agent_judges_images_as_the_service_does(
    api: Client, waiting_node: Json, conf: cfg.ConfigOpts
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
    api: Client, waiting_node: Json, conf: cfg.ConfigOpts
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
    found = failed_attempts.RefusalLimiter(conf, clock=lambda: now[0])
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


def test_an_agent_among_thousands_of_refused_requests_is_served(
    api: Client, waiting_node: Json
) -> None:
    for number in range(2000):
        mac = f"52:54:00:01:{number // 256:02x}:{number % 256:02x}"
        assert api.get(f"/v1/lookup?addresses={mac}").status == 404
    assert api.get(f"/v1/lookup?addresses={MAC}").status == 200


def looked_up(api: Client, node: Json) -> str:
    """Look a node up; return the token of the answer."""
    answer = api.get(f"/v1/lookup?node_uuid={node['uuid']}")
    assert answer.status == 200, answer.text
    return str(answer.json["config"]["agent_token"])


def stored(database: session.Database, node: Json) -> Json:
    """Return driver_internal_info of a node."""
    row = database.read(lambda conn: nodes.get(conn, node["uuid"]))
    return dict(row["driver_internal_info"])


def test_token_of_a_free_node_is_made_without_a_conductor(
    api: Client, add_node: AddNode, database: session.Database, recorder: Recorder
) -> None:
    boot = {"run": "r1", "by": HOST, "at": 1.0, "restarts": 2}
    notes = {"driver_notes": {"ramdisk_boot": boot, "other": 1}, "agent_secret_machine": "old"}
    node = add_node(provision_state="clean wait", driver_internal_info=notes)
    token = looked_up(api, node)
    found = stored(database, node)
    assert found["agent_secret_token"] == token != "******"
    assert len(token) == 43
    settled = {"run": "r1", "by": "", "at": None, "restarts": 0}
    assert found["driver_notes"] == {"ramdisk_boot": settled, "other": 1}
    assert waiting.has_moved({**node, "driver_internal_info": found}, token) is False
    assert waiting.looked_up_at({"driver_internal_info": found}) is not None
    assert looked_up(api, node) == "******"
    assert stored(database, node) == found
    assert recorder.calls == []


@pytest.mark.parametrize("state", ["available", "manageable", "clean failed"])
def test_token_of_a_node_at_rest_is_made_by_its_conductor(
    api: Client, add_node: AddNode, conf: cfg.ConfigOpts, recorder: Recorder, state: str
) -> None:
    """Holds decide there, by which a machine is only observed."""
    conf.set_override("restrict_lookup", False, "api")
    node = add_node(provision_state=state)
    assert looked_up(api, node) == TOKEN
    assert recorder.calls == [("get_node_with_token", {"node_uuid": node["uuid"]})]


def test_lookup_that_loses_a_race_is_answered_by_the_conductor(
    api: Client, add_node: AddNode, monkeypatch: pytest.MonkeyPatch, recorder: Recorder
) -> None:
    node, made = add_node(provision_state="clean wait"), waiting.with_new_token

    def late(row: Json) -> tuple[str, Json]:
        row["generation"] -= 1
        return made(row)

    monkeypatch.setattr(waiting, "with_new_token", late)
    assert looked_up(api, node) == TOKEN
    assert recorder.calls == [("get_node_with_token", {"node_uuid": node["uuid"]})]


def test_token_whose_write_lost_its_reply_is_shown(
    api: Client, add_node: AddNode, monkeypatch: pytest.MonkeyPatch, recorder: Recorder
) -> None:
    node, edit = add_node(provision_state="clean wait"), nodes.edit
    recorder.answers["get_node_with_token"] = {"agent_token": "own", "fresh": False}
    monkeypatch.setattr(waiting, "with_new_token", lambda _row: ("own", {}))

    def lost(*args: Any, **more: Any) -> None:
        edit(*args, **more)
        raise errors.Unavailable("The reply was lost.")

    monkeypatch.setattr(nodes, "edit", lost)
    assert looked_up(api, node) == "own"


# Heartbeats: an agent with a token and an https address is heard, any other is told why not.

URL = "https://192.0.2.10:9999"
FAR = {"callback_url": "https://0.0.0.0:9999"}
BODY: Json = {"callback_url": URL, "agent_token": "t" * 43, "agent_version": "13.0.0"}


@pytest.fixture
def node(add_node: AddNode) -> Json:
    return add_node(name="rack1", provision_state="clean wait")


def beat(api: Client, node: Json, **more: Any) -> Any:
    body = {key: value for key, value in {**BODY, **more}.items() if value is not ...}
    return api.post(f"/v1/heartbeat/{node['uuid']}", body)


def test_the_real_agents_heartbeat_reaches_the_conductor(
    api: Client, node: Json, recorder: Recorder
) -> None:
    answer = beat(api.at(68), node, agent_verify_ca="PEM")
    assert (answer.status, answer.body) == (202, b"")
    assert recorder.hosts == [HOST]
    assert recorder.calls == [
        (
            "heartbeat",
            {
                "node_uuid": node["uuid"],
                "callback_url": URL,
                "agent_version": "13.0.0",
                "agent_token": "t" * 43,
                "agent_verify_ca": "PEM",
                "agent_status": None,
                "agent_status_message": None,
            },
        )
    ]


def test_heartbeat_with_values_too_large_is_refused(
    api: Client, node: Json, recorder: Recorder
) -> None:
    kib = agent.HEARTBEAT_LIMIT
    assert beat(api.at(68), node, agent_verify_ca="A" * (kib - 1) * 1024).status == 202
    assert beat(api.at(68), node, agent_verify_ca="A" * kib * 1024).status == 413
    assert len(recorder.calls) == 1


def test_a_name_will_do_too(api: Client, node: Json) -> None:
    assert api.post("/v1/heartbeat/rack1", BODY).status == 202


@pytest.mark.parametrize(
    "more",
    [
        {"callback_url": ...},
        {"callback_url": None},
        {"callback_url": 5},
        {"callback_url": "192.0.2.10"},
        {"callback_url": "ftp://192.0.2.10"},
        {"callback_url": "https://"},
        {"callback_url": "https://a b/"},
        {"callback_url": "https://[::::]:9999"},
        {"callback_url": "https://[192.0.2.10]:9999"},
        {"callback_url": "https://192.0.2.10:99999"},
        {"callback_url": "https://192.0.2.10:0"},
        {"callback_url": "https://192.0.2.10:9999/\x01"},
        {"callback_url": "https://192.0.2.10:9999/\u00e9"},
        {"callback_url": "http://192.0.2.10:9999"},
        {"agent_token": ...},
        {"agent_token": ""},
        {"agent_token": 5},
        {"agent_version": ...},
        {"agent_status": "fine"},
        {"foo": 1},
    ],
)
def test_a_bad_heartbeat_is_refused(
    api: Client, node: Json, recorder: Recorder, more: Json
) -> None:
    answer = beat(api, node, **more)
    assert answer.status == 400
    assert answer.text
    assert recorder.calls == []


@pytest.mark.parametrize(
    ("name", "value", "since"),
    [
        ("agent_verify_ca", "PEM", 68),
        ("agent_status", "start", 72),
        ("agent_status_message", "half way", 72),
    ],
)
def test_a_key_newer_than_the_version_is_refused(
    api: Client, node: Json, name: str, value: str, since: int
) -> None:
    assert beat(api.at(since), node, **{name: value}).status == 202
    assert beat(api.at(since - 1), node, **{name: value}).status == 400


def test_the_fall_back_of_agents_that_could_not_read_the_root_is_refused(
    api: Client, node: Json
) -> None:
    answer = api.at(31).post(f"/v1/heartbeat/{node['uuid']}", {"callback_url": URL})
    assert answer.status == 400
    assert api.at(21).post(f"/v1/heartbeat/{node['uuid']}", BODY).status == 404


@pytest.mark.parametrize(
    "url",
    [
        *("https://0.0.0.0:9999", "https://[::]:9999", "https://224.0.0.1", "https://[ff02::1]"),
        *("https://169.254.169.254", "https://[fe80::1]:9999", "https://[::ffff:169.254.169.254]/"),
    ],
)
def test_an_address_that_no_machine_has_is_refused(
    api: Client, node: Json, recorder: Recorder, url: str
) -> None:
    answer = beat(api, node, callback_url=url)
    assert (answer.status, recorder.calls) == (400, [])
    assert "callback_url" in answer.text


@pytest.mark.parametrize("url", ["http://127.0.0.1:6385", "http://[::1]/", "http://localhost:80"])
def test_plain_http_leads_neither_to_ourselves_nor_to_names(
    api: Client, node: Json, conf: cfg.ConfigOpts, url: str
) -> None:
    conf.set_override("require_tls", False, "agent")
    assert beat(api, node, callback_url=url).status == 400


def test_plain_http_can_be_allowed(api: Client, node: Json, conf: cfg.ConfigOpts) -> None:
    conf.set_override("require_tls", False, "agent")
    for url in ("http://192.0.2.10:9999", "http://[2001:db8::1]:9999/"):
        assert beat(api, node, callback_url=url).status == 202


@pytest.mark.parametrize(
    ("why", "status"),
    [
        (errors.NodeLocked(node="x", host=HOST), 409),
        (errors.InvalidParameter(path="agent_token", reason="is wrong"), 400),
        (errors.NoFreeWorker(), 503),
        (errors.NoConductor(host=HOST), 503),
    ],
)
def test_the_conductors_refusal_is_handed_on(
    api: Client, node: Json, recorder: Recorder, why: errors.Error, status: int
) -> None:
    recorder.answers["heartbeat"] = why
    assert beat(api, node).status == status


@pytest.mark.parametrize(
    "ident", [ABSENT, "rack2", "no name at all!", "x" * 300], ids=["uuid", "name", "none", "long"]
)
def test_unknown_node_and_wrong_token_get_the_same_answer(
    api: Client, node: Json, recorder: Recorder, ident: str
) -> None:
    """An unknown node and a wrong token get the same answer, word for word."""
    wrong = errors.InvalidParameter(path="agent_token", reason=contract.WRONG_TOKEN)
    recorder.answers["heartbeat"] = wrong
    known = [beat(api, node), beat(api, {"uuid": node["name"]})]
    unknown = beat(api, {"uuid": ident.replace(" ", "%20")})
    assert len(recorder.calls) == 2
    assert {(answer.status, answer.body) for answer in (*known, unknown)} == {(400, unknown.body)}
    for bad in ({"agent_token": ...}, {"callback_url": "ftp://x"}, {"agent_version": ...}):
        assert beat(api, node, **bad).body == beat(api, {"uuid": ABSENT}, **bad).body


def test_heartbeat_does_not_reveal_the_driver_of_a_node(
    api: Client, add_node: AddNode, caplog: pytest.LogCaptureFixture
) -> None:
    """There is no conductor that could drive it; only the log says so."""
    node = add_node(driver="unheard-of", provision_state="clean wait")
    assert beat(api, node).body == beat(api, {"uuid": ABSENT}).body
    assert "unheard-of" in caplog.text
    assert beat(api, {"uuid": "x" * 2000}).status == 400
    assert "x" * 300 not in "".join(r.message for r in caplog.records if "lite" in r.name)


@pytest.fixture
def known(add_node: AddNode) -> Json:
    """A node whose agent has the token of `BODY`."""
    notes = {contract.TOKEN_NOTE: BODY["agent_token"]}
    return add_node(provision_state="clean wait", driver_internal_info=notes)


def test_client_that_guesses_tokens_reaches_no_conductor(
    api: Client, known: Json, recorder: Recorder, conf: cfg.ConfigOpts
) -> None:
    """The agent, behind the same address, is served all the same."""
    conf.set_override("ramdisk_refusals_per_minute", 2, "api")
    why = errors.InvalidParameter(path="agent_token", reason="is not this node's")
    recorder.answers["heartbeat"] = why
    wrong = {**BODY, "agent_token": "guessed"}
    path = f"/v1/heartbeat/{known['uuid']}"
    assert [api.post(path, wrong).status for _ in range(4)] == [400, 400, 429, 429]
    assert len(recorder.calls) == 2
    recorder.answers["heartbeat"] = None
    for _ in range(3):
        assert beat(api, known).status == 202
    assert len(recorder.calls) == 5


def test_client_that_guesses_tokens_of_a_node_in_the_body_is_limited_for_that_node(
    api: Client, known: Json, add_node: AddNode, recorder: Recorder, conf: cfg.ConfigOpts
) -> None:
    conf.set_override("ramdisk_refusals_per_minute", 2, "api")
    why = errors.InvalidParameter(path="agent_token", reason=contract.WRONG_TOKEN)
    recorder.answers["heartbeat"] = why
    wrong = {**BODY, "agent_token": "guessed"}
    named, other = {"node_ident": known["uuid"]}, {"node_ident": add_node()["uuid"]}
    statuses = [api.post("/v1/heartbeat", {**wrong, **named}).status for _ in range(4)]
    assert statuses == [400, 400, 429, 429]
    query = f"/v1/heartbeat?node_ident={known['uuid']}"
    assert api.post(query, wrong).status == 429
    assert api.post(f"/v1/heartbeat/{known['uuid']}", wrong).status == 429
    assert len(recorder.calls) == 2
    assert api.post("/v1/heartbeat", {**wrong, **other}).status == 400
    recorder.answers["heartbeat"] = None
    assert api.post("/v1/heartbeat", {**BODY, **named}).status == 202


def test_addresses_of_one_ipv6_network_count_together(
    api: Client, known: Json, recorder: Recorder, conf: cfg.ConfigOpts
) -> None:
    conf.set_override("ramdisk_refusals_per_minute", 1, "api")
    conf.set_override("enable_proxy_headers_parsing", True, "api")
    why = errors.InvalidParameter(path="agent_token", reason=contract.WRONG_TOKEN)
    recorder.answers["heartbeat"] = why
    path, wrong = f"/v1/heartbeat/{known['uuid']}", {**BODY, "agent_token": "guessed"}
    senders = ("2001:db8::1", "2001:db8::2", "2001:db8::ffff:1", "2001:db8:0:1::1")
    statuses = [
        api.post(path, wrong, headers={"X-Forwarded-For": sender}).status for sender in senders
    ]
    assert statuses == [400, 429, 429, 400]


def test_forms_of_a_uuid_count_as_one_node(
    api: Client, known: Json, recorder: Recorder, conf: cfg.ConfigOpts
) -> None:
    conf.set_override("ramdisk_refusals_per_minute", 1, "api")
    why = errors.InvalidParameter(path="agent_token", reason=contract.WRONG_TOKEN)
    recorder.answers["heartbeat"] = why
    uuid, wrong = known["uuid"], {**BODY, "agent_token": "guessed"}
    forms = (uuid, uuid.upper(), uuid.replace("-", ""))
    statuses = [api.post(f"/v1/heartbeat/{form}", wrong).status for form in forms]
    assert statuses == [400, 429, 429]
    assert len(recorder.calls) == 1


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b"[" * 60, b'{"node_ident": 5}', b"{}"],
    ids=["no JSON", "no object", "deep", "type", "empty"],
)
def test_malformed_heartbeat_without_a_node_in_the_path_counts_as_refused(
    api: Client, conf: cfg.ConfigOpts, body: bytes
) -> None:
    conf.set_override("ramdisk_refusals_per_minute", 1, "api")
    raw = {"CONTENT_TYPE": "application/json"}
    statuses = [
        api.request("POST", "/v1/heartbeat", body=body, headers=raw).status for _ in range(3)
    ]
    assert statuses == [400, 429, 429]


def test_a_node_that_is_not_there_is_told_of_as_a_wrong_token(
    api: Client, known: Json, recorder: Recorder, conf: cfg.ConfigOpts
) -> None:
    conf.set_override("ramdisk_refusals_per_minute", 1, "api")
    recorder.answers["heartbeat"] = errors.InvalidParameter(
        path="agent_token", reason=contract.WRONG_TOKEN
    )
    wrong = {**BODY, "agent_token": "guessed"}
    absent, there = (
        [api.post(f"/v1/heartbeat/{uuid}", wrong).body for _ in range(3)]
        for uuid in (ABSENT, known["uuid"])
    )
    assert absent == there


@pytest.mark.parametrize("token", [5, None, "\ud800", "x" * 10_000])
def test_a_doubtful_heartbeat_with_a_bad_token_is_refused(
    api: Client, known: Json, recorder: Recorder, conf: cfg.ConfigOpts, token: Any
) -> None:
    conf.set_override("ramdisk_refusals_per_minute", 1, "api")
    path, raw = f"/v1/heartbeat/{known['uuid']}", {"CONTENT_TYPE": "application/json"}
    body = json.dumps({**BODY, "agent_token": token}).encode()
    recorder.answers["heartbeat"] = errors.InvalidParameter(path="agent_token", reason="is wrong")
    statuses = [api.request("POST", path, body=body, headers=raw).status for _ in range(2)]
    assert statuses == [400, 429]


@pytest.mark.parametrize(
    "body",
    [b"{", b"[]", b"\xff", {**BODY, "foo": 1}, {**BODY, "callback_url": 5}, {}, {**BODY, **FAR}],
    ids=["no JSON", "no object", "no text", "unknown key", "type", "empty", "address"],
)
def test_malformed_heartbeat_counts_as_refused(
    api: Client, known: Json, recorder: Recorder, conf: cfg.ConfigOpts, body: Any
) -> None:
    conf.set_override("ramdisk_refusals_per_minute", 2, "api")
    path, raw = f"/v1/heartbeat/{known['uuid']}", {"CONTENT_TYPE": "application/json"}

    def send(given: Any) -> Any:
        if isinstance(given, bytes):
            return api.request("POST", path, body=given, headers=raw)
        return api.post(path, given)

    assert [send(body).status for _ in range(2)] == [400, 400]
    answer = send(body)
    assert (answer.status, "retry later" in answer.text) == (429, True)
    assert recorder.calls == []
    assert send(BODY).status == 202


@pytest.mark.parametrize(
    "why",
    [
        errors.NodeLocked(node="x", host=HOST),
        errors.NoConductor(host=HOST),
        errors.InterfaceNotFound(kind="deploy", driver="x", name="y", valid="", advice=""),
    ],
    ids=lambda why: type(why).__name__,
)
def test_heartbeat_that_fails_in_the_service_does_not_count(
    api: Client, node: Json, recorder: Recorder, conf: cfg.ConfigOpts, why: errors.Error
) -> None:
    conf.set_override("ramdisk_refusals_per_minute", 1, "api")
    recorder.answers["heartbeat"] = why
    statuses = {beat(api, node).status for _ in range(3)}
    assert statuses == {int(why.status)}
    recorder.answers["heartbeat"] = None
    assert beat(api, node).status == 202


def test_heartbeats_can_be_closed(api: Client, node: Json, conf: cfg.ConfigOpts) -> None:
    conf.set_override("enable_ramdisk_endpoints", False, "api")
    assert beat(api, node).status == 403


def test_only_post_is_known(api: Client, node: Json) -> None:
    answer = api.get(f"/v1/heartbeat/{node['uuid']}")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
