"""Heartbeats: an agent with a token and an https address is heard, any other is told why not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.api.controllers import heartbeat
from ironic_lite.db.engine import session
from ironic_lite.rpc import interface
from tests.support.api_rows import HOST, AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

URL = "https://192.0.2.10:9999"
ABSENT = "00000000-0000-4000-8000-000000000000"
Json = dict[str, Any]
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
    kib = heartbeat.LIMIT
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


def test_the_way_to_the_conductor_is_looked_up_once(
    api: Client, node: Json, database: session.Database, recorder: Recorder
) -> None:
    assert beat(api, node).status == 202
    with count_statements(database) as sent:
        assert beat(api, node).status == 202
    assert len(sent) == 0, sent
    recorder.answers["heartbeat"] = errors.NodeNotFound(node=node["uuid"])
    assert beat(api, node).status == 400
    recorder.answers["heartbeat"] = None
    with count_statements(database) as sent:
        assert beat(api, node).status == 202
    assert len(sent) == 1, sent


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
    wrong = errors.InvalidParameter(path="agent_token", reason=interface.WRONG_TOKEN)
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
    notes = {interface.TOKEN_NOTE: BODY["agent_token"]}
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
    why = errors.InvalidParameter(path="agent_token", reason=interface.WRONG_TOKEN)
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
    why = errors.InvalidParameter(path="agent_token", reason=interface.WRONG_TOKEN)
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
    why = errors.InvalidParameter(path="agent_token", reason=interface.WRONG_TOKEN)
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
        path="agent_token", reason=interface.WRONG_TOKEN
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


def test_the_endpoint_can_be_closed(api: Client, node: Json, conf: cfg.ConfigOpts) -> None:
    conf.set_override("enable_ramdisk_endpoints", False, "api")
    assert beat(api, node).status == 403


def test_only_post_is_known(api: Client, node: Json) -> None:
    answer = api.get(f"/v1/heartbeat/{node['uuid']}")
    assert (answer.status, answer.headers["allow"]) == (405, "POST")
