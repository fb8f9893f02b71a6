"""Logins: HTTP basic, tokens of OpenStack Identity, and what a caller is told of its own."""

from __future__ import annotations

import base64
import contextlib
import importlib.metadata
import logging
import os
import pathlib
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import bcrypt
import pytest
from keystoneauth1 import fixture
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.api import policy
from ironic_lite.api.auth import failed_attempts, identify, keystone
from ironic_lite.api.controllers import root
from ironic_lite.api.controllers.root import OwnRights
from ironic_lite.api.policy import enforcement
from ironic_lite.api.policy.access import Access, Target
from ironic_lite.core import config, context, log_lines, slots
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Database
from ironic_lite.domain import versions
from ironic_lite.features.window import api as window_api
from tests.support import configurations, whole_api
from tests.support.api_rows import AddNode
from tests.support.callers import OWNER, Callers
from tests.support.conductor_recorder import Recorder
from tests.support.identity_server import Answer, IdentityServer
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client, Response

# HTTP basic authentication: a file of users, whose hashes are computed as rarely as is safe.

SECRET = "open sesame: please"


def hashed(password: str, kind: bytes = b"2b") -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4, kind)).decode()


@pytest.fixture
def users(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "htpasswd"
    apache = hashed("p2").replace("$2b$", "$2y$")
    path.write_text(f"ann:{hashed(SECRET)}\n\n  bob:{apache}  \nann:{hashed('second line')}\n")
    return path


@pytest.fixture
def basic_api(
    database: session.Database, recorder: Recorder, conf: cfg.ConfigOpts, users: pathlib.Path
) -> Client:
    conf.set_override("auth_strategy", "http_basic", "api")
    conf.set_override("http_basic_auth_user_file", str(users))
    return Client(whole_api.build(database, recorder, conf))


def token(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def ask(api: Client, header: str | None, path: str = "/v1/nodes") -> Response:
    return api.get(path, headers={} if header is None else {"Authorization": header})


@pytest.mark.parametrize(("user", "password"), [("ann", SECRET), ("bob", "p2")], ids=["2b", "2y"])
def test_a_right_password_opens_all(basic_api: Client, user: str, password: str) -> None:
    answer = ask(basic_api, token(user, password))
    assert (answer.status, answer.json) == (200, {"nodes": []})
    assert ask(basic_api, token(user, password).replace("Basic", "basic")).status == 200


def test_line_of_a_request_that_changes_something_names_the_user(
    basic_api: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ironic_lite.api")
    caplog.handler.addFilter(named := context.LogFilter())
    try:
        answer = basic_api.post("/v1/chassis", {}, headers={"Authorization": token("ann", SECRET)})
    finally:
        caplog.handler.removeFilter(named)
    (line,) = [one for one in caplog.records if "POST /v1/chassis" in one.getMessage()]
    logged = vars(line)["context"]
    assert logged["user_name"] == "ann"
    assert logged["request_id"] == answer.headers["x-openstack-request-id"]


def test_conductor_gets_the_name_of_the_user(
    basic_api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    path = f"/v1/nodes/{add_node()['uuid']}/states/provision"
    answer = basic_api.put(
        path, {"target": "manage"}, headers={"Authorization": token("ann", SECRET)}
    )
    assert answer.status == 202
    assert recorder.contexts[0].user == "ann"


@pytest.mark.parametrize(
    ("header", "text"),
    [
        (None, "Authorization required"),
        (token("ann", "wrong"), "Incorrect username or password"),
        (token("ann", "second line"), "Incorrect username or password"),
        (token("eve", SECRET), "Incorrect username or password"),
        (token("", ""), "Incorrect username or password"),
        (token("ann", "x" * 200), "Incorrect username or password"),
        (token("ann", "\0"), "Incorrect username or password"),
    ],
    ids=["none", "wrong", "second-line", "unknown", "empty", "long", "nul"],
)
def test_unknown_users_get_401_and_learn_nothing(
    basic_api: Client, header: str | None, text: str
) -> None:
    answer = ask(basic_api, header)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Basic realm="Baremetal API"'
    assert answer.json == {"error": {"message": text, "code": 401}}
    # Nor do they learn which paths there are.
    assert ask(basic_api, header, "/v1/none/such").status == 401


@pytest.mark.parametrize("version", ["1.999", "2.1", "none"])
def test_a_version_that_nobody_speaks_is_told_to_who_is_in(basic_api: Client, version: str) -> None:
    other = basic_api.at(version)
    assert ask(other, None).status == 401
    assert ask(other, token("ann", "wrong")).status == 401
    assert ask(other, token("ann", SECRET)).status == 406
    assert ask(other, None, "/v1").status == 406


@pytest.mark.parametrize(
    "header",
    ["Basic", "Basic ", "Bearer abc", "Basic !!!", "Basic YW5u", "Basic /zpw", "x"],
    ids=["alone", "blank", "bearer", "no-base64", "no-colon", "no-utf8", "word"],
)
def test_a_malformed_header_is_400(basic_api: Client, header: str) -> None:
    answer = ask(basic_api, header)
    assert answer.status == 400
    assert answer.json["error"]["code"] == 400


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/", "/v1/lookup?addresses=52:54:00:00:00:01"])
def test_public_paths_need_no_login(basic_api: Client, path: str) -> None:
    assert ask(basic_api, None, path).status in {200, 404}


def test_metrics_need_a_login(basic_api: Client) -> None:
    assert ask(basic_api, None, "/metrics").status == 401
    assert ask(basic_api, token("ann", SECRET), "/metrics").status == 200


# -- the file --------------------------------------------------------------------------------


class Hashes:
    """Counts how often bcrypt has to work."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self._check = bcrypt.checkpw
        monkeypatch.setattr(bcrypt, "checkpw", self.check)

    def check(self, password: bytes, against: bytes) -> bool:
        self.count += 1
        return self._check(password, against)


def test_a_right_password_is_known_again_until_it_is_not_used(
    users: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [100.0]
    file, hashes = identify.PasswordFile(str(users), lambda: now[0]), Hashes(monkeypatch)

    assert file.check("ann", SECRET.encode())
    assert file.check("ann", SECRET.encode())
    assert hashes.count == 1
    assert not file.check("bob", SECRET.encode())
    for _ in range(5):
        now[0] += 599
        assert file.check("ann", SECRET.encode())
    assert hashes.count == 2
    now[0] += 601
    assert file.check("ann", SECRET.encode())
    assert hashes.count == 3


def test_wrong_passwords_and_unknown_users_cost_a_hash_each_time(
    users: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, hashes = identify.PasswordFile(str(users)), Hashes(monkeypatch)
    for user in ("ann", "ann", "eve", "eve"):
        assert not file.check(user, b"wrong")
    assert hashes.count == 4


class Slow(Hashes):
    """Works on each hash until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__(monkeypatch)
        self.begun, self.go = threading.Semaphore(0), threading.Event()

    def check(self, password: bytes, against: bytes) -> bool:
        self.begun.release()
        assert self.go.wait(60)
        return super().check(password, against)


def test_a_flood_of_wrong_passwords_keeps_nobody_out_who_is_in(
    users: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = identify.PasswordFile(str(users), most=2, patience=0.0)
    assert file.check("ann", SECRET.encode())
    slow = Slow(monkeypatch)
    with ThreadPoolExecutor(2) as pool:
        guesses = [pool.submit(file.check, "eve", b"guess") for _ in range(2)]
        for _ in guesses:
            assert slow.begun.acquire(timeout=60)
        with pytest.raises(errors.TooManyRequests):
            file.check("eve", b"guess")
        assert file.check("ann", SECRET.encode())
        slow.go.set()
        assert [each.result(60) for each in guesses] == [False, False]
    assert slow.count == 2
    assert file.check("bob", b"p2")


def test_a_password_that_many_bring_at_once_is_checked_once(
    users: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, slow = identify.PasswordFile(str(users), most=1, patience=10.0), Slow(monkeypatch)
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(file.check, "ann", SECRET.encode()) for _ in range(4)]
        assert slow.begun.acquire(timeout=60)
        slow.go.set()
        assert all(each.result(60) for each in found)
    assert slow.count == 1


def test_a_right_password_is_kept_before_the_next_one_is_checked(
    users: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, hashes = identify.PasswordFile(str(users), most=1), Hashes(monkeypatch)
    place = slots.Slots.hold
    asked: list[bool] = []

    @contextlib.contextmanager
    def then_asks_again(*args: Any, **more: Any) -> Iterator[bool]:
        with place(*args, **more) as held:
            yield held
        if not asked:
            asked.append(False)
            asked[0] = file.check("ann", SECRET.encode())

    monkeypatch.setattr(slots.Slots, "hold", then_asks_again)
    assert file.check("ann", SECRET.encode())
    assert (asked, hashes.count) == ([True], 1)


def test_the_file_is_read_again_when_it_changes(users: pathlib.Path) -> None:
    file = identify.PasswordFile(str(users))
    assert file.check("ann", SECRET.encode())

    fresh = users.with_name("new")
    fresh.write_text(f"ann:{hashed('changed')}\neve:plain\n")
    os.replace(fresh, users)

    assert not file.check("ann", SECRET.encode())
    assert file.check("ann", b"changed")
    assert not file.check("bob", b"p2")
    assert not file.check("eve", b"plain")


def test_a_file_without_users_is_told_of(
    users: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = identify.PasswordFile(str(users))
    assert caplog.messages == []
    users.write_text("\n")
    assert not file.check("ann", b"sesame")
    identify.PasswordFile(str(users))
    assert caplog.messages == [f"No user can log in: {users} contains no user"] * 2


def test_a_file_that_went_away_lets_nobody_in(users: pathlib.Path) -> None:
    file = identify.PasswordFile(str(users))
    assert file.check("ann", SECRET.encode())
    users.unlink()
    with pytest.raises(errors.Unavailable):
        file.check("ann", SECRET.encode())


def test_a_file_that_is_away_is_logged_once_until_it_is_back(
    users: pathlib.Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_lines, "CALM", 0)  # seconds
    file = identify.PasswordFile(str(users))
    away = users.with_name("away")
    for _ in range(2):
        users.rename(away)
        for _ in range(20):
            with pytest.raises(errors.Unavailable):
                file.check("ann", SECRET.encode())
        away.rename(users)
        assert file.check("ann", SECRET.encode())
    line = f"No user can log in: cannot read {users}: No such file or directory"
    assert caplog.messages == [line] * 2


def test_cache_of_checked_passwords_is_bounded(
    users: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identify, "_MOST_KEPT", 1)
    file, hashes = identify.PasswordFile(str(users)), Hashes(monkeypatch)
    for user, password in (("ann", SECRET), ("bob", "p2"), ("ann", SECRET)):
        assert file.check(user, password.encode())
    assert hashes.count == 3


@pytest.mark.parametrize(
    ("text", "fault"),
    [("ann:{SHA}abc\n", "line 1"), ("\nann:$2b$04$short\n", "line 2")],
    ids=["sha", "cut"],
)
def test_a_file_of_other_hashes_is_refused_at_the_start(
    tmp_path: pathlib.Path, text: str, fault: str
) -> None:
    path = tmp_path / "htpasswd"
    path.write_text(text)
    with pytest.raises(config.ConfigError, match=fault):
        identify.PasswordFile(str(path))


def test_a_missing_file_is_refused_at_the_start(tmp_path: pathlib.Path) -> None:
    with pytest.raises(config.ConfigError, match=r"\[DEFAULT\]http_basic_auth_user_file"):
        identify.PasswordFile(str(tmp_path / "none"))


def test_failures_are_forgotten_after_a_minute_and_bounded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(failed_attempts, "_MOST_KEYS", 3)
    now = [0.0]
    counted = failed_attempts.Failures(lambda: now[0])
    counted.note("a", "b")
    counted.note("a", "c")
    counted.note("d")
    assert [counted.count(key) for key in "abcd"] == [2, 0, 1, 1]
    now[0] = 60.0
    assert [counted.count(key) for key in "abcd"] == [0, 0, 0, 0]


# Tokens of OpenStack Identity: the real middleware against a stand-in that knows some tokens.

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
        made = fixture.V3Token(user_id=f"user-of-{name}", user_name=name.title())
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
def keystone_api(
    database: session.Database, recorder: Recorder, keystone_conf: cfg.ConfigOpts
) -> Client:
    return Client(whole_api.build(database, recorder, keystone_conf))


def ask_with_token(
    api: Client, token: str | None, path: str = "/v1/nodes", **more: str
) -> Response:
    name = {} if token is None else {"X-Auth-Token": token}
    return api.get(path, headers={**name, **more})


def test_a_token_shows_its_projects_nodes(keystone_api: Client, add_node: AddNode) -> None:
    mine, free = add_node(owner="p-mine"), add_node()
    names = [each["uuid"] for each in ask_with_token(keystone_api, "mine").json["nodes"]]
    assert names == [mine["uuid"]]
    assert len(ask_with_token(keystone_api, "admin").json["nodes"]) == 2
    assert ask_with_token(keystone_api, "other").json["nodes"] == []
    assert ask_with_token(keystone_api, "mine", f"/v1/nodes/{free['uuid']}").status == 404
    assert ask_with_token(keystone_api, "mine", "/v1/chassis").status == 403


def test_conductor_gets_the_user_and_the_project(
    keystone_api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    path = f"/v1/nodes/{add_node(owner='p-mine')['uuid']}/states/power"
    answer = keystone_api.put(path, {"target": "power on"}, headers={"X-Auth-Token": "mine"})
    assert answer.status == 202
    who = recorder.contexts[0]
    assert (who.user, who.project, set(who.roles)) == (
        "user-of-mine",
        "p-mine",
        {"member", "reader"},
    )


def test_token_tells_who_asks_and_until_when(keystone_api: Client, identity: Identity) -> None:
    found = ask_with_token(keystone_api, "mine", "/v1/whoami").json
    assert (found["auth"], found["user"], found["name"], found["project"]) == (
        *("keystone", "user-of-mine", "Mine"),
        "p-mine",
    )
    assert set(found["roles"]) == {"member", "reader"}
    assert found["expires_at"] == identity.tokens["mine"]["token"]["expires_at"]
    assert ask_with_token(keystone_api, None, "/v1/whoami").status == 401


@pytest.mark.parametrize("token", [None, "", "forged"], ids=["none", "empty", "unknown"])
def test_without_a_valid_token_nothing_is_told(keystone_api: Client, token: str | None) -> None:
    for path in ("/v1/nodes", "/v1/none/such", "/metrics"):
        answer = ask_with_token(keystone_api, token, path)
        assert answer.status == 401
        assert answer.headers["www-authenticate"] == ('Keystone uri="https://identity.example"')
        assert answer.json["error"]["code"] == 401
        assert answer.headers["content-type"].startswith("application/json")
        assert "x-openstack-request-id" in answer.headers


def test_headers_of_a_verdict_cannot_be_forged(keystone_api: Client, add_node: AddNode) -> None:
    add_node(owner="p-mine")
    forged = {
        "X-Identity-Status": "Confirmed",
        "X-Roles": "admin,manager,member,reader",
        "X-Project-Id": "p-mine",
        "OpenStack-System-Scope": "all",
        "X-Is-Admin-Project": "True",
    }
    assert ask_with_token(keystone_api, None, **forged).status == 401
    assert ask_with_token(keystone_api, "other", **forged).json["nodes"] == []


def test_public_paths_ask_nobody(keystone_api: Client, identity: Identity) -> None:
    for path in ("/", "/v1"):
        assert ask_with_token(keystone_api, None, path).status == 200
    beat = keystone_api.post(
        "/v1/heartbeat/6d5f0a6e-0000-4000-8000-000000000000", {"callback_url": "x"}
    )
    assert beat.status in {400, 404}
    assert identity.asked == []


def test_metrics_are_for_those_who_see_the_whole_system(keystone_api: Client) -> None:
    assert ask_with_token(keystone_api, "mine", "/metrics").status == 403
    assert ask_with_token(keystone_api, "admin", "/metrics").status == 200


def test_an_identity_service_that_fails_is_503(keystone_api: Client, identity: Identity) -> None:
    identity.broken = True
    answer = ask_with_token(keystone_api, "never-seen")
    assert answer.status == 503
    assert answer.json["error"]["code"] == 503


def test_an_identity_service_that_goes_on_failing_is_not_logged_for_each_request(
    keystone_api: Client, identity: Identity, caplog: pytest.LogCaptureFixture
) -> None:
    identity.broken = True
    for number in range(5):
        assert ask_with_token(keystone_api, f"never-seen-{number}").status == 503
    told = [(one.name, one.msg) for one in caplog.records if one.levelno >= logging.WARNING]
    assert len(told) == len(set(told)), told


def test_a_validated_token_is_not_asked_for_again(keystone_api: Client, identity: Identity) -> None:
    ask_with_token(keystone_api, "admin")
    ask_with_token(keystone_api, "admin")
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
    delayed = Client(whole_api.build(database, recorder, keystone_conf))
    answer = ask_with_token(
        delayed, token, **{"X-Identity-Status": "Confirmed", "X-Roles": "admin"}
    )
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Keystone uri="https://identity.example"'
    assert ask_with_token(delayed, "admin").status == 200


def test_a_service_token_that_is_not_valid_is_401(keystone_api: Client) -> None:
    assert ask_with_token(keystone_api, "admin", **{"X-Service-Token": "forged"}).status == 401


def test_threads_share_the_tokens_that_were_validated(
    keystone_api: Client, identity: Identity
) -> None:
    ask_with_token(keystone_api, "admin")
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda _: ask_with_token(keystone_api, "admin").status, range(8)))
    assert answers == [200] * 8
    assert identity.asked.count("admin") == 1


def test_the_token_cache_drops_the_entry_used_longest_ago() -> None:
    now = [0.0]
    cache = keystone.TokenCache(2, lambda: now[0])
    cache.set("a", b"1", time=10)
    cache.set("b", b"2", time=10)
    assert cache.get("a") == b"1"
    cache.set("c", b"3", time=10)
    assert [cache.get(key) for key in "abc"] == [b"1", None, b"3"]
    now[0] = 10.0
    assert cache.get("a") is None


# GET /v1/whoami: who asks, and which rules this caller passes.

ALL = sorted(name for name in policy.BY_NAME if name.startswith("baremetal:"))
POWER, CREATE = "baremetal:node:set_power_state", "baremetal:node:create"


def test_without_rules_the_caller_passes_all(api: Client, database: Database) -> None:
    with count_statements(database) as sent:
        answer = api.get("/v1/whoami")
    assert (answer.status, len(sent)) == (200, 0)
    assert answer.json == {
        "auth": "noauth",
        "user": None,
        "name": None,
        "project": None,
        "roles": [],
        "system": True,
        "expires_at": None,
        "rules": ALL,
        "own_rules": [],
        "release": importlib.metadata.version("ironic_lite"),
        "version": versions.MAX_VERSION,
        "window": window_api.load().hash if "window" in configurations.FEATURES else None,
    }


def test_every_version_has_it(api: Client) -> None:
    assert api.at(1).get("/v1/whoami").status == 200
    assert api.post("/v1/whoami", {}).status == 405


def test_hash_is_missing_without_the_window(api: Client, conf: cfg.ConfigOpts) -> None:
    conf.set_override("enable_window", False, "api")
    assert api.get("/v1/whoami").json["window"] is None


def test_rules_depend_on_the_caller(callers: Callers) -> None:
    admin = callers("admin").get("/v1/whoami").json
    assert (admin["system"], admin["project"], admin["own_rules"]) == (True, None, [])
    assert {POWER, CREATE, "baremetal:metrics:get"} <= set(admin["rules"])
    assert "admin" in admin["roles"]
    reader = callers("reader").get("/v1/whoami").json
    assert "baremetal:node:get" in reader["rules"]
    assert not {POWER, CREATE} & set(reader["rules"])
    member = callers("member", OWNER).get("/v1/whoami").json
    assert (member["system"], member["project"]) == (False, OWNER)
    assert set(member["rules"]) < set(member["own_rules"])
    assert POWER in member["own_rules"]
    assert POWER not in member["rules"]
    assert "baremetal:node:list" in member["rules"]
    assert "baremetal:node:list_all" not in member["own_rules"]
    stranger = callers("reader", OWNER).get("/v1/whoami").json
    assert POWER not in stranger["own_rules"]


def test_rules_are_asked_once_a_minute() -> None:
    now, asked = [100.0], []

    def ask(name: str, _target: Target) -> bool:
        asked.append(name)
        return name == POWER

    rights = OwnRights(now=lambda: now[0])

    def of(project: str) -> root.Rights:
        return rights.of(Access(ask, project, key=project))

    assert of("p") == of("p") == ((POWER,), (POWER,))
    assert len(asked) == 2 * len(ALL)
    now[0] += root.KEPT_SECONDS - 1
    of("p")
    assert len(asked) == 2 * len(ALL)
    of("q")
    now[0] += 1
    of("p")
    assert len(asked) == 6 * len(ALL)


@pytest.mark.parametrize("project", [None, OWNER])
def test_all_rules_are_asked_in_time(conf: cfg.ConfigOpts, project: str | None) -> None:
    """A generous limit; the aim is a tenth of a second."""
    asker = enforcement.AccessFactory(conf)
    environ = {"HTTP_X_ROLES": "reader", "HTTP_X_USER_ID": "u"}
    environ |= {"HTTP_X_PROJECT_ID": project} if project else {"HTTP_OPENSTACK_SYSTEM_SCOPE": "all"}
    begun = time.process_time()
    assert OwnRights().of(asker.access(environ)).of_any
    assert time.process_time() - begun < 2
