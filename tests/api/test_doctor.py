"""GET /v1/doctor: the findings of the API, of every conductor and of a node."""

from __future__ import annotations

import base64
import contextlib
import datetime
import pathlib
import sqlite3
import threading
import time
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import conductors, nodes
from ironic_lite.features.doctor import api as doctor_api
from tests.support import certificates, whole_api
from tests.support.api_rows import HOST, AddNode, add_conductor
from tests.support.callers import LESSEE, OWNER, STRANGER, Callers
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client

pytestmark = pytest.mark.feature("doctor")

DISK = {
    "name": "disk",
    "where": f"conductor {HOST}",
    "status": "failed",
    "ms": 3,
    "text": "full",
    "do": "Free space.",
}


def named(document: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = [check for check in document["checks"] if check["name"] == name]
    assert all((check["do"] is None) == (check["status"] == "ok") for check in found)
    return found


def test_findings_of_conductors_follow_those_of_the_api(api: Client, recorder: Recorder) -> None:
    recorder.answers["examine"] = [DISK]
    document = api.get("/v1/doctor").json
    assert document["status"] == "failed"
    assert named(document, "disk") == [DISK]
    assert [named(document, name)[0]["status"] for name in ("database", "schema", "write")] == [
        "ok"
    ] * 3


@pytest.mark.parametrize("version", ["1.1", "1.72", "1.115"])
def test_every_version_has_the_doctor(api: Client, version: str) -> None:
    api.version = version
    assert api.get("/v1/doctor").status == 200


def test_unknown_arguments_and_nodes_are_refused(api: Client) -> None:
    assert api.get("/v1/doctor?nodes=x").status == 400
    assert api.get("/v1/doctor?node=missing").status == 404
    assert api.get("/v1/doctor?node=a%20b").status == 400


def test_node_is_examined_by_its_conductor(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    node = add_node(name="r1")
    recorder.answers["examine_node"] = [{**DISK, "name": "power", "where": "node r1"}]
    document = api.get("/v1/doctor?node=r1").json
    assert named(document, "node")[0]["where"] == "node r1"
    assert named(document, "power")[0]["where"] == "node r1"
    assert ("examine_node", {"node_uuid": node["uuid"]}) in recorder.calls


def test_conductor_that_does_not_answer_is_a_failed_check(api: Client, recorder: Recorder) -> None:
    recorder.answers["examine"] = errors.ConductorUnresponsive(host=HOST, reason="no keepalive")
    document = api.get("/v1/doctor")
    assert document.status == 200
    (found,) = named(document.json, "conductor")
    assert (found["status"], found["where"]) == ("failed", f"conductor {HOST}")
    assert "does not answer" in found["text"]


def test_conductor_of_a_pinned_release_is_unknown(api: Client, recorder: Recorder) -> None:
    recorder.answers["examine"] = errors.Pinned(release="0.1", what="examine")
    (found,) = named(api.get("/v1/doctor").json, "conductor")
    assert found["status"] == "unknown"


def test_silent_conductor_is_a_failed_check_and_a_stopped_one_is_not(
    api: Client, database: Database
) -> None:
    add_conductor(database, "silent", group="rack")
    add_conductor(database, "stopped")
    long_ago = clock.now() - datetime.timedelta(hours=1)
    database.write(lambda conn: conductors.touch(conn, host="silent", now=long_ago))
    database.write(lambda conn: conductors.offline(conn, "stopped", clock.now()))
    found = named(api.get("/v1/doctor").json, "conductors")
    assert [check["status"] for check in found] == ["failed", "warning", "ok"]
    assert "signs it off" in found[0]["do"]
    assert found[0]["text"].startswith("silent has sent no heartbeat for 36")
    assert found[2]["text"] == f"1 alive: {HOST}"


def test_conductor_that_has_been_silent_for_days_is_a_warning(
    api: Client, database: Database
) -> None:
    add_conductor(database, "gone", group="rack")
    long_ago = clock.now() - datetime.timedelta(days=3)
    database.write(lambda conn: conductors.touch(conn, host="gone", now=long_ago))
    found = named(api.get("/v1/doctor").json, "conductors")
    assert {check["status"] for check in found} == {"warning", "ok"}
    assert found[0]["text"].startswith("gone has sent no heartbeat for 2592")


def test_no_living_conductor_is_a_failed_check(api: Client, database: Database) -> None:
    database.write(lambda conn: conductors.offline(conn, HOST, clock.now()))
    document = api.get("/v1/doctor").json
    assert named(document, "conductors")[0]["text"] == "no conductor is alive"
    assert named(document, "conductor") == []


def test_nodes_without_a_conductor_and_with_one_alone_are_reported(
    recorder: Recorder, conf: cfg.ConfigOpts, database: Database, add_node: AddNode
) -> None:
    def groups() -> list[dict[str, Any]]:
        process = Client(whole_api.build(database, recorder, conf))
        return named(process.get("/v1/doctor").json, "groups")

    add_node(driver="fake-hardware")
    (found,) = groups()
    assert found["status"] == "ok"
    add_conductor(database, "second", group="rack")
    add_node(driver="fake-hardware", conductor_group="rack")
    add_node(driver="fake-hardware", conductor_group="moon")
    alone, away, _ = groups()
    assert (alone["status"], away["status"]) == ("warning", "failed")
    assert f"group '(none)': {HOST} alone" in alone["text"]
    assert "group 'moon': no living conductor" in away["text"]


def test_result_is_kept_for_a_moment_for_each_node(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    add_node(name="r1")
    first = api.get("/v1/doctor").json
    assert api.get("/v1/doctor").json == first
    assert [name for name, _ in recorder.calls] == ["examine"]
    # A node adds its own examination to that of the service.
    with_node = api.get("/v1/doctor?node=r1").json
    assert with_node["checks"][: len(first["checks"])] == first["checks"]
    assert api.get("/v1/doctor?node=r1").json == with_node
    assert [name for name, _ in recorder.calls] == ["examine", "examine_node"]


def test_node_that_has_changed_is_examined_again(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    add_node(name="r1")
    api.get("/v1/doctor?node=r1")
    patch = [{"op": "add", "path": "/extra/rack", "value": "r01"}]
    assert api.patch("/v1/nodes/r1", patch).status == 200
    api.get("/v1/doctor?node=r1")
    assert [name for name, _ in recorder.calls].count("examine_node") == 2
    assert [name for name, _ in recorder.calls].count("examine") == 1


def test_requests_at_once_share_one_examination(api: Client, recorder: Recorder) -> None:
    begun, released = threading.Event(), threading.Event()

    def answer() -> list[Any]:
        begun.set()
        released.wait(60)
        return []

    recorder.answers["examine"] = answer
    found: list[Any] = []
    threads = [
        threading.Thread(target=lambda: found.append(api.get("/v1/doctor"))) for _ in range(12)
    ]
    for thread in threads:
        thread.start()
    begun.wait(60)
    end = time.monotonic() + 60
    # One examines, some wait, and the rest is refused at once.
    while len(found) < 12 - 1 - doctor_api.MOST_WAITING and time.monotonic() < end:
        time.sleep(0.01)
    released.set()
    for thread in threads:
        thread.join(60)
    assert sorted(response.status for response in found) == [200] * 9 + [503] * 3
    assert len(recorder.calls) == 1
    refused = next(response for response in found if response.status == 503)
    assert refused.headers["retry-after"]


# -- options and certificate of the API ----------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "host", "said"),
    [
        ("noauth", "127.0.0.1", ("ok", "on loopback")),
        ("noauth", "0.0.0.0", ("warning", "every client that reaches 0.0.0.0:6385")),
        ("http_basic", "0.0.0.0", ("warning", "without encryption")),
        ("keystone", "0.0.0.0", ("ok", "keystone")),
    ],
)
def test_open_api_is_a_warning(
    api: Client, conf: cfg.ConfigOpts, strategy: str, host: str, said: tuple[str, str]
) -> None:
    conf.set_override("auth_strategy", strategy, "api")
    conf.set_override("host", host, "api")
    (found,) = named(api.get("/v1/doctor").json, "options")
    assert (found["status"], said[1] in found["text"]) == (said[0], True)


def test_expired_certificate_of_the_api_is_a_failed_check(
    api: Client, conf: cfg.ConfigOpts, tmp_path: pathlib.Path
) -> None:
    certificate, key = certificates.write(tmp_path, -1)
    conf.set_override("ssl_cert_file", str(certificate), "api")
    conf.set_override("ssl_key_file", str(key), "api")
    (found,) = named(api.get("/v1/doctor").json, "certificate")
    assert found["status"] == "failed"


def test_lost_schema_fails_only_what_needs_it(api: Client, database: Database) -> None:
    database.write(lambda conn: conn.exec_driver_sql("UPDATE alembic_version SET version_num = 1"))
    document = api.get("/v1/doctor").json
    found = {check["name"]: check["status"] for check in document["checks"]}
    assert (found["database"], found["schema"], found["write"]) == ("ok", "failed", "unknown")
    assert named(document, "schema")[0]["do"].startswith("Run ironic-lite-dbsync upgrade")


def test_database_that_is_away_fails_its_check_and_the_answer_is_200(
    api: Client, database: Database
) -> None:
    database.engine.dispose()
    file = pathlib.Path(str(database.url.database))
    file.rename(file.with_suffix(".away"))
    try:
        answer = api.get("/v1/doctor")
    finally:
        file.with_suffix(".away").rename(file)
    assert answer.status == 200
    found = {check["name"]: check["status"] for check in answer.json["checks"]}
    assert (found["database"], found["write"], found["groups"]) == ("failed", "unknown", "unknown")
    assert "[database]connection" in named(answer.json, "database")[0]["do"]


def test_locked_database_fails_the_check_of_writing_in_time(
    api: Client, database: Database
) -> None:
    writer = sqlite3.connect(str(database.url.database), isolation_level=None)
    with contextlib.closing(writer):
        writer.execute("BEGIN IMMEDIATE")
        document = api.get("/v1/doctor").json
        writer.execute("ROLLBACK")
    (found,) = named(document, "write")
    assert (found["status"], "not finished within" in found["text"]) == ("failed", True)
    assert named(document, "conductors")[-1]["status"] == "ok"


def test_missing_encryption_key_is_a_failed_check(
    recorder: Recorder, conf: cfg.ConfigOpts, database: Database, add_node: AddNode
) -> None:
    old, new = (base64.urlsafe_b64encode(bytes([byte]) * 32).decode() for byte in (1, 2))
    row = add_node(name="r1")
    with contextlib.closing(session.open_database(database.url, encryption_keys=[old])) as sealed:
        values = {"driver_info": {"password": "s3cret"}}
        sealed.write(lambda conn: nodes.edit(conn, row["uuid"], values, generation=0))
    with contextlib.closing(session.open_database(database.url, encryption_keys=[new])) as other:
        document = Client(whole_api.build(other, recorder, conf)).get("/v1/doctor").json
    (found,) = named(document, "encryption_keys")
    assert found["status"] == "failed"
    assert "[database]encryption_keys" in found["do"]


# -- rights -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("role", "project", "status"),
    [
        ("reader", None, 200),
        ("admin", None, 200),
        ("service", None, 200),
        ("admin", OWNER, 403),
        ("reader", LESSEE, 403),
        ("manager", STRANGER, 403),
    ],
)
def test_readers_of_the_system_may_examine(
    callers: Callers, add_node: AddNode, role: str, project: str | None, status: int
) -> None:
    add_node(name="r1", owner=OWNER, lessee=LESSEE)
    for path in ("/v1/doctor", "/v1/doctor?node=r1"):
        assert callers(role, project).get(path).status == status
