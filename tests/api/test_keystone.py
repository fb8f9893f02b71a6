"""Tokens of OpenStack Identity: the real middleware against a stand-in that knows some tokens."""

from __future__ import annotations

import logging
import pathlib
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from keystoneauth1 import fixture
from oslo_config import cfg

from ironic_lite.api import app
from ironic_lite.api.auth import token_cache
from ironic_lite.core import config
from ironic_lite.db.engine import session
from tests.support.api_rows import AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.identity_server import Answer, IdentityServer
from tests.support.wsgi_client import Client, Response

SERVICE = "token-of-the-service"


class Identity(IdentityServer):
    """An identity service that can break; it records the tokens that it validates."""

    def __init__(self) -> None:
        self.tokens: dict[str, fixture.V3Token] = {}
        self.asked: list[str] = []
        self.broken = False
        super().__init__()

    def validate(self, token: str, caller: str | None) -> Answer:
        self.asked.append(token)
        if self.broken or caller != SERVICE:
            return 500 if self.broken else 403, {}
        if token in self.tokens:
            return 200, self.tokens[token]
        return 404, {"error": {"code": 404}}

    def login(self, body: bytes) -> tuple[Mapping[str, Any], str]:
        del body
        own = fixture.V3Token(user_name="ironic")
        own.set_project_scope()
        own.add_service("identity").add_standard_endpoints(
            public=self.url, internal=self.url, admin=self.url
        )
        return own, SERVICE

    def issue(self, name: str, *roles: str, project: str | None = None) -> None:
        """Make a token of this name; without a project it is for the whole system."""
        made = fixture.V3Token(user_id=f"user-of-{name}")
        if project is None:
            made.set_system_scope()
        else:
            made.set_project_scope(id=project)
        for role in roles:
            made.add_role(name=role)
        self.tokens[name] = made


@pytest.fixture(scope="module")
def identity() -> Iterator[Identity]:
    found = Identity()
    yield found
    found.close()


@pytest.fixture
def keystone_conf(identity: Identity, tmp_path: pathlib.Path) -> Iterator[cfg.ConfigOpts]:
    """The configuration of an API whose identity service is the stand-in."""
    identity.broken, identity.asked[:] = False, []
    identity.tokens.clear()
    identity.issue("admin", "admin", "manager", "member", "reader")
    identity.issue("mine", "member", "reader", project="p-mine")
    identity.issue("other", "admin", "manager", "member", "reader", project="p-other")
    file = tmp_path / "ironic-lite.conf"
    file.write_text(
        "[api]\nauth_strategy = keystone\n[keystone_authtoken]\n"
        f"www_authenticate_uri = https://identity.example\nauth_url = {identity.url}\n"
        "auth_type = password\nusername = ironic\npassword = s3rvice\nproject_name = service\n"
        "user_domain_id = default\nproject_domain_id = default\nhttp_request_max_retries = 0\n"
    )
    conf = cfg.ConfigOpts()
    config.register(conf)
    conf(["--config-file", str(file)], project=config.PROJECT)
    yield conf
    conf.clear()


@pytest.fixture
def api(database: session.Database, recorder: Recorder, keystone_conf: cfg.ConfigOpts) -> Client:
    return Client(app.build(database, recorder, keystone_conf))


def ask(api: Client, token: str | None, path: str = "/v1/nodes", **more: str) -> Response:
    name = {} if token is None else {"X-Auth-Token": token}
    return api.get(path, headers={**name, **more})


def test_a_token_shows_its_projects_nodes(api: Client, add_node: AddNode) -> None:
    mine, free = add_node(owner="p-mine"), add_node()
    names = [each["uuid"] for each in ask(api, "mine").json["nodes"]]
    assert names == [mine["uuid"]]
    assert len(ask(api, "admin").json["nodes"]) == 2
    assert ask(api, "other").json["nodes"] == []
    assert ask(api, "mine", f"/v1/nodes/{free['uuid']}").status == 404
    assert ask(api, "mine", "/v1/chassis").status == 403


def test_conductor_gets_the_user_and_the_project(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    path = f"/v1/nodes/{add_node(owner='p-mine')['uuid']}/states/power"
    answer = api.put(path, {"target": "power on"}, headers={"X-Auth-Token": "mine"})
    assert answer.status == 202
    who = recorder.contexts[0]
    assert (who.user, who.project, set(who.roles)) == (
        "user-of-mine",
        "p-mine",
        {"member", "reader"},
    )


def test_token_tells_who_asks_and_until_when(api: Client, identity: Identity) -> None:
    found = ask(api, "mine", "/v1/whoami").json
    assert (found["auth"], found["user"], found["project"]) == (
        "keystone",
        "user-of-mine",
        "p-mine",
    )
    assert set(found["roles"]) == {"member", "reader"}
    assert found["expires_at"] == identity.tokens["mine"]["token"]["expires_at"]
    assert ask(api, None, "/v1/whoami").status == 401


@pytest.mark.parametrize("token", [None, "", "forged"], ids=["none", "empty", "unknown"])
def test_without_a_valid_token_nothing_is_told(api: Client, token: str | None) -> None:
    for path in ("/v1/nodes", "/v1/none/such", "/metrics"):
        answer = ask(api, token, path)
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == ('Keystone uri="https://identity.example"')
        assert answer.json["error"]["code"] == 401
        assert answer.headers["content-type"].startswith("application/json")
        assert "x-openstack-request-id" in answer.headers


def test_headers_of_a_verdict_cannot_be_forged(api: Client, add_node: AddNode) -> None:
    add_node(owner="p-mine")
    forged = {
        "X-Identity-Status": "Confirmed",
        "X-Roles": "admin,manager,member,reader",
        "X-Project-Id": "p-mine",
        "OpenStack-System-Scope": "all",
        "X-Is-Admin-Project": "True",
    }
    assert ask(api, None, **forged).status == 401
    assert ask(api, "other", **forged).json["nodes"] == []


def test_public_paths_ask_nobody(api: Client, identity: Identity) -> None:
    for path in ("/", "/v1"):
        assert ask(api, None, path).status == 200
    beat = api.post("/v1/heartbeat/6d5f0a6e-0000-4000-8000-000000000000", {"callback_url": "x"})
    assert beat.status in {400, 404}
    assert identity.asked == []


def test_metrics_are_for_those_who_see_the_whole_system(api: Client) -> None:
    assert ask(api, "mine", "/metrics").status == 403
    assert ask(api, "admin", "/metrics").status == 200


def test_an_identity_service_that_fails_is_503(api: Client, identity: Identity) -> None:
    identity.broken = True
    answer = ask(api, "never-seen")
    assert answer.status == 503
    assert answer.json["error"]["code"] == 503


def test_an_identity_service_that_goes_on_failing_is_not_logged_for_each_request(
    api: Client, identity: Identity, caplog: pytest.LogCaptureFixture
) -> None:
    identity.broken = True
    for number in range(5):
        assert ask(api, f"never-seen-{number}").status == 503
    told = [(one.name, one.msg) for one in caplog.records if one.levelno >= logging.WARNING]
    assert len(told) == len(set(told)), told


def test_a_validated_token_is_not_asked_for_again(api: Client, identity: Identity) -> None:
    ask(api, "admin")
    ask(api, "admin")
    assert identity.asked.count("admin") == 1


@pytest.mark.parametrize("token", [None, "forged"], ids=["none", "unknown"])
def test_a_delayed_decision_lets_nobody_in(
    database: session.Database,
    recorder: Recorder,
    identity: Identity,
    keystone_conf: cfg.ConfigOpts,
    token: str | None,
) -> None:
    path = pathlib.Path(keystone_conf.config_file[0])
    path.write_text(path.read_text() + "delay_auth_decision = true\n")
    keystone_conf.reload_config_files()
    delayed = Client(app.build(database, recorder, keystone_conf))
    answer = ask(delayed, token, **{"X-Identity-Status": "Confirmed", "X-Roles": "admin"})
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Keystone uri="https://identity.example"'
    assert ask(delayed, "admin").status == 200


def test_a_service_token_that_is_not_valid_is_401(api: Client) -> None:
    assert ask(api, "admin", **{"X-Service-Token": "forged"}).status == 401


def test_threads_share_the_tokens_that_were_validated(api: Client, identity: Identity) -> None:
    ask(api, "admin")
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: ask(api, "admin").status, range(8)))
    assert answers == [200] * 8
    assert identity.asked.count("admin") == 1


def test_the_token_cache_drops_the_entry_used_longest_ago() -> None:
    now = [0.0]
    cache = token_cache.TokenCache(2, lambda: now[0])
    cache.set("a", b"1", time=10)
    cache.set("b", b"2", time=10)
    assert cache.get("a") == b"1"
    cache.set("c", b"3", time=10)
    assert [cache.get(key) for key in "abc"] == [b"1", None, b"3"]
    now[0] = 10.0
    assert cache.get("a") is None
