"""Webhooks in requests: rights, secrets shown once, refused URLs, replay."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite.db.engine.session import Database
from ironic_lite.features.webhooks import rules
from tests.support.callers import OWNER, Callers
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

pytestmark = pytest.mark.feature("webhooks")

BODY = {"url": "https://hooks.example.org/metal"}
PATH = "/v1/webhooks"


@pytest.fixture
def hook(api: Client) -> dict[str, Any]:
    answer = api.post(PATH, BODY)
    assert answer.status == 201
    made: dict[str, Any] = answer.json
    return made


def test_secret_is_shown_once(api: Client, hook: dict[str, Any]) -> None:
    assert hook["secret"].startswith("whsec_")
    path = f"{PATH}/{hook['uuid']}"
    answers = [api.get(PATH), api.get(path), api.post(f"{path}/replay", {"since": "0"})]
    answers.append(api.patch(path, [{"op": "replace", "path": "/state", "value": "paused"}]))
    for answer in answers:
        assert answer.status < 300
        assert hook["secret"].encode() not in answer.body
    renewed = api.patch(path, [{"op": "remove", "path": "/secret"}]).json["secret"]
    assert renewed.startswith("whsec_")
    assert renewed != hook["secret"]
    assert api.get(path).json["secret"] == "******"


@pytest.mark.parametrize(
    "url",
    [
        "http://hooks.example.org/",
        "https://ann:secret@hooks.example.org/",
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://[::ffff:127.0.0.1]/",
        "https://169.254.169.254/latest",
        "https://hooks.example.org:0/",
        "https://hooks.example.org:99999/",
        "https://hooks.example.org/#part",
        "https://hooks.example.org/\r\nX: y",
        "https:///path",
        "file:///etc/passwd",
        "hooks",
    ],
)
def test_bad_url_is_refused_and_adds_nothing(api: Client, url: str) -> None:
    answer = api.post(PATH, {"url": url})
    assert answer.status == 400
    assert b"url" in answer.body
    assert api.get(PATH).json == {"webhooks": []}


@pytest.mark.parametrize(
    "more",
    [
        {"kinds": []},
        {"kinds": ["provision", "provisions"]},
        {"nodes": "r1"},
        {"since": "soon"},
        {"since": "99999"},
        {"secret": "whsec_mine"},
        {"state": "suspended"},
    ],
)
def test_bad_value_is_refused(api: Client, more: dict[str, Any]) -> None:
    assert api.post(PATH, {**BODY, **more}).status == 400
    assert api.get(PATH).json == {"webhooks": []}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "replace", "path": "/cursor", "value": "1"},
        {"op": "replace", "path": "/secret", "value": "whsec_mine"},
        {"op": "remove", "path": "/url"},
        {"op": "replace", "path": "/state", "value": "suspended"},
        {"op": "add", "path": "/kinds/0", "value": "fault"},
    ],
)
def test_bad_patch_is_refused(api: Client, hook: dict[str, Any], operation: Any) -> None:
    path = f"{PATH}/{hook['uuid']}"
    before = api.get(path).json
    assert api.patch(path, [operation]).status == 400
    assert api.get(path).json == before


@pytest.mark.parametrize("body", [{}, {"since": "0", "failed": 1}])
def test_replay_names_the_keys_of_which_it_takes_one(
    api: Client, hook: dict[str, Any], body: dict[str, Any]
) -> None:
    answer = api.post(f"{PATH}/{hook['uuid']}/replay", body)
    assert (answer.status, "an object with since or failed" in answer.text) == (400, True)


def test_repeated_kind_is_stored_once(api: Client) -> None:
    made = api.post(PATH, {**BODY, "kinds": ["fault", "power", "fault"]})
    assert (made.status, made.json["kinds"]) == (201, ["fault", "power"])


def test_cursor_is_never_set_forward(api: Client, hook: dict[str, Any]) -> None:
    path = f"{PATH}/{hook['uuid']}/replay"
    assert api.post(path, {"since": "7"}).status == 400
    assert api.post(path, {"failed": 1}).status == 404


def test_nodes_of_a_webhook_are_read_together(api: Client, database: Database) -> None:
    made = [
        api.post("/v1/nodes", {"driver": "fake-hardware", "name": f"r{number}"}).json["uuid"]
        for number in range(20)
    ]
    idents = [*made[:10], *(f"r{number}" for number in range(10, 20))]
    with count_statements(database) as few:
        one = api.post(PATH, {**BODY, "nodes": [made[0], "r10"]})
    with count_statements(database) as sent:
        all_ = api.post(PATH, {**BODY, "nodes": idents})
    assert (one.json["nodes"], all_.json["nodes"]) == ([made[0], made[10]], made)
    assert len(sent) <= len(few), sent  # the first request reads more once
    missing = api.post(PATH, {**BODY, "nodes": [made[0], "none"]})
    assert missing.status == 404
    twice = api.post(PATH, {**BODY, "nodes": [made[0], "r0"]})
    assert (twice.status, twice.json["nodes"]) == (201, [made[0]])


def test_webhooks_are_limited(api: Client, hook: dict[str, Any]) -> None:
    for _ in range(rules.MOST - 1):
        assert api.post(PATH, BODY).status == 201
    assert api.post(PATH, BODY).status == 409
    assert api.delete(f"{PATH}/{hook['uuid']}").status == 204
    assert api.post(PATH, BODY).status == 201
    assert api.get(f"{PATH}/{hook['uuid']}").status == 404


def test_repeated_request_with_a_key_returns_the_same_secret(api: Client) -> None:
    first, again, other = (
        api.post(PATH, BODY, headers={"Idempotency-Key": key}) for key in ("k1", "k1", "k2")
    )
    assert [answer.status for answer in (first, again, other)] == [201] * 3
    assert first.json == again.json
    assert again.headers["idempotent-replay"] == "true"
    assert other.json["secret"] != first.json["secret"]
    assert len(api.get(PATH).json["webhooks"]) == 2
    changed = api.post(PATH, {**BODY, "since": "0"}, headers={"Idempotency-Key": "k1"})
    assert changed.status == 422


@pytest.mark.parametrize(
    ("role", "project", "allowed"),
    [
        ("admin", None, True),
        ("member", None, False),
        ("reader", None, False),
        ("admin", OWNER, False),
        ("manager", OWNER, False),
    ],
)
def test_administrators_of_the_system_alone_use_webhooks(
    callers: Callers, role: str, project: str | None, *, allowed: bool
) -> None:
    made = callers("admin").post(PATH, BODY).json
    caller = callers(role, project)
    path = f"{PATH}/{made['uuid']}"
    pause = [{"op": "replace", "path": "/state", "value": "paused"}]
    answers = [caller.get(PATH), caller.get(path), caller.get(f"{path}/failed")]
    answers += [caller.post(PATH, BODY), caller.patch(path, pause)]
    answers += [caller.post(f"{path}/replay", {"since": "0"}), caller.delete(path)]
    assert [answer.status == 403 for answer in answers] == [not allowed] * len(answers)
