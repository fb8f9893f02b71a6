"""HTTP basic authentication: a file of users, whose hashes are computed as rarely as is safe."""

from __future__ import annotations

import base64
import contextlib
import logging
import os
import pathlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import bcrypt
import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.api import app
from ironic_lite.api.auth import check_queue, passwords
from ironic_lite.core import config, context
from ironic_lite.db.engine import session
from tests.support.api_rows import AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client, Response

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
def api(
    database: session.Database, recorder: Recorder, conf: cfg.ConfigOpts, users: pathlib.Path
) -> Client:
    conf.set_override("auth_strategy", "http_basic", "api")
    conf.set_override("http_basic_auth_user_file", str(users))
    return Client(app.build(database, recorder, conf))


def token(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def ask(api: Client, header: str | None, path: str = "/v1/nodes") -> Response:
    return api.get(path, headers={} if header is None else {"Authorization": header})


@pytest.mark.parametrize(("user", "password"), [("ann", SECRET), ("bob", "p2")], ids=["2b", "2y"])
def test_a_right_password_opens_all(api: Client, user: str, password: str) -> None:
    answer = ask(api, token(user, password))
    assert (answer.status, answer.json) == (200, {"nodes": []})
    assert ask(api, token(user, password).replace("Basic", "basic")).status == 200


def test_line_of_a_request_that_changes_something_names_the_user(
    api: Client, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "ironic_lite.api")
    caplog.handler.addFilter(named := context.LogFilter())
    try:
        answer = api.post("/v1/chassis", {}, headers={"Authorization": token("ann", SECRET)})
    finally:
        caplog.handler.removeFilter(named)
    (line,) = [one for one in caplog.records if "POST /v1/chassis" in one.getMessage()]
    logged = vars(line)["context"]
    assert logged["user_name"] == "ann"
    assert logged["request_id"] == answer.headers["x-openstack-request-id"]


def test_conductor_gets_the_name_of_the_user(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    path = f"/v1/nodes/{add_node()['uuid']}/states/provision"
    answer = api.put(path, {"target": "manage"}, headers={"Authorization": token("ann", SECRET)})
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
    api: Client, header: str | None, text: str
) -> None:
    answer = ask(api, header)
    assert answer.status == 401
    assert answer.headers["www-authenticate"] == 'Basic realm="Baremetal API"'
    assert answer.json == {"error": {"message": text, "code": 401}}
    # Nor do they learn which paths there are.
    assert ask(api, header, "/v1/none/such").status == 401


@pytest.mark.parametrize("version", ["1.999", "2.1", "none"])
def test_a_version_that_nobody_speaks_is_told_to_who_is_in(api: Client, version: str) -> None:
    other = api.at(version)
    assert ask(other, None).status == 401
    assert ask(other, token("ann", "wrong")).status == 401
    assert ask(other, token("ann", SECRET)).status == 406
    assert ask(other, None, "/v1").status == 406


@pytest.mark.parametrize(
    "header",
    ["Basic", "Basic ", "Bearer abc", "Basic !!!", "Basic YW5u", "Basic /zpw", "x"],
    ids=["alone", "blank", "bearer", "no-base64", "no-colon", "no-utf8", "word"],
)
def test_a_malformed_header_is_400(api: Client, header: str) -> None:
    answer = ask(api, header)
    assert answer.status == 400
    assert answer.json["error"]["code"] == 400


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/", "/v1/lookup?addresses=52:54:00:00:00:01"])
def test_public_paths_need_no_login(api: Client, path: str) -> None:
    assert ask(api, None, path).status in {200, 404}


def test_metrics_need_a_login(api: Client) -> None:
    assert ask(api, None, "/metrics").status == 401
    assert ask(api, token("ann", SECRET), "/metrics").status == 200


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
    file, hashes = passwords.PasswordFile(str(users), lambda: now[0]), Hashes(monkeypatch)

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
    file, hashes = passwords.PasswordFile(str(users)), Hashes(monkeypatch)
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
        assert self.go.wait(10)
        return super().check(password, against)


def test_a_flood_of_wrong_passwords_keeps_nobody_out_who_is_in(
    users: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = passwords.PasswordFile(str(users), most=2, patience=0.0)
    assert file.check("ann", SECRET.encode())
    slow = Slow(monkeypatch)
    with ThreadPoolExecutor(2) as pool:
        guesses = [pool.submit(file.check, "eve", b"guess") for _ in range(2)]
        for _ in guesses:
            assert slow.begun.acquire(timeout=10)
        with pytest.raises(errors.TooManyRequests):
            file.check("eve", b"guess")
        assert file.check("ann", SECRET.encode())
        slow.go.set()
        assert [each.result(10) for each in guesses] == [False, False]
    assert slow.count == 2
    assert file.check("bob", b"p2")


def test_a_password_that_many_bring_at_once_is_checked_once(
    users: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, slow = passwords.PasswordFile(str(users), most=1, patience=10.0), Slow(monkeypatch)
    with ThreadPoolExecutor(4) as pool:
        found = [pool.submit(file.check, "ann", SECRET.encode()) for _ in range(4)]
        assert slow.begun.acquire(timeout=10)
        slow.go.set()
        assert all(each.result(10) for each in found)
    assert slow.count == 1


def test_a_right_password_is_kept_before_the_next_one_is_checked(
    users: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, hashes = passwords.PasswordFile(str(users), most=1), Hashes(monkeypatch)
    place = check_queue.CheckQueue.place
    asked: list[bool] = []

    @contextlib.contextmanager
    def then_asks_again(*args: Any, **more: Any) -> Iterator[None]:
        with place(*args, **more):
            yield
        if not asked:
            asked.append(False)
            asked[0] = file.check("ann", SECRET.encode())

    monkeypatch.setattr(check_queue.CheckQueue, "place", then_asks_again)
    assert file.check("ann", SECRET.encode())
    assert (asked, hashes.count) == ([True], 1)


def test_the_file_is_read_again_when_it_changes(users: pathlib.Path) -> None:
    file = passwords.PasswordFile(str(users))
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
    file = passwords.PasswordFile(str(users))
    assert caplog.messages == []
    users.write_text("\n")
    assert not file.check("ann", b"sesame")
    passwords.PasswordFile(str(users))
    assert caplog.messages == [f"No user can log in: {users} contains no user"] * 2


def test_a_file_that_went_away_lets_nobody_in(users: pathlib.Path) -> None:
    file = passwords.PasswordFile(str(users))
    assert file.check("ann", SECRET.encode())
    users.unlink()
    with pytest.raises(errors.Unavailable):
        file.check("ann", SECRET.encode())


def test_a_file_that_is_away_is_logged_once_until_it_is_back(
    users: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = passwords.PasswordFile(str(users))
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
    monkeypatch.setattr(passwords, "_MOST_KEPT", 1)
    file, hashes = passwords.PasswordFile(str(users)), Hashes(monkeypatch)
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
        passwords.PasswordFile(str(path))


def test_a_missing_file_is_refused_at_the_start(tmp_path: pathlib.Path) -> None:
    with pytest.raises(config.ConfigError, match=r"\[DEFAULT\]http_basic_auth_user_file"):
        passwords.PasswordFile(str(tmp_path / "none"))
