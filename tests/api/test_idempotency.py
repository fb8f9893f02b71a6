"""The header Idempotency-Key: a request is carried out once, however often it is sent."""

from __future__ import annotations

import contextlib
import datetime
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import hypothesis
import pytest
import sqlalchemy as sa
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.api.resources import idempotency as resources_idempotency
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import events, idempotency
from ironic_lite.db.tables import models
from tests.api.test_run_stops import LIST, begin
from tests.support import whole_api
from tests.support.api_rows import AddNode
from tests.support.callers import OWNER, STRANGER, Callers
from tests.support.conductor_recorder import Recorder
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

FAKE = {"driver": "fake-hardware"}
REPLAY = "idempotent-replay"
MINUTES = datetime.timedelta(minutes=5)


def keyed(key: str = "k1", **more: str) -> dict[str, str]:
    """Return the headers of a request with a key."""
    return {"Idempotency-Key": key, **more}


def rows(database: Database) -> list[dict[str, Any]]:
    """Return all rows of keys."""
    query = sa.select(models.idempotency).order_by(models.idempotency.c.id)
    found = database.read(lambda conn: conn.execute(query).mappings().all())
    return [dict(row) for row in found]


def forget_answers(database: Database, state: str) -> None:
    """Make rows look as after a crash long ago, before the answer was kept."""
    values = {"state": state, "status": None, "headers": None, "body": None}
    change = models.idempotency.update().values(**values, busy_until=clock.now() - MINUTES)
    database.write(lambda conn: conn.execute(change))


def chassis(api: Client) -> list[dict[str, Any]]:
    """Return all chassis."""
    found: list[dict[str, Any]] = api.get("/v1/chassis").json["chassis"]
    return found


# -- the cases of the table ------------------------------------------------------------------


def test_repetition_gets_the_first_answer_and_makes_nothing(api: Client) -> None:
    first = api.post("/v1/chassis", {"description": "a"}, headers=keyed())
    again = api.post("/v1/chassis", {"description": "a"}, headers=keyed('"k1"'))
    assert (first.status, again.status) == (201, 201)
    assert again.json == first.json
    assert again.headers["location"] == first.headers["location"]
    assert again.headers[REPLAY] == "true"
    assert REPLAY not in first.headers
    assert len(chassis(api)) == 1


def test_other_request_with_the_key_is_refused(api: Client) -> None:
    api.post("/v1/chassis", {"description": "a"}, headers=keyed())
    others = (("/v1/chassis", {"description": "b"}), ("/v1/chassis?a=1", {"description": "a"}))
    for path, body in (*others, ("/v1/nodes", FAKE)):
        answer = api.post(path, body, headers=keyed())
        assert answer.status == 422, answer.body
        assert "Idempotency-Key" in answer.text
    assert len(chassis(api)) == 1


def test_request_under_way_is_answered_409(api: Client, database: Database) -> None:
    api.post("/v1/chassis", {}, headers=keyed())
    until = clock.after(30)
    change = models.idempotency.update().values(state="started", busy_until=until)
    database.write(lambda conn: conn.execute(change))
    answer = api.post("/v1/chassis", {}, headers=keyed())
    assert (answer.status, answer.headers["retry-after"]) == (409, "1")
    assert len(chassis(api)) == 1


def test_refused_request_keeps_nothing(api: Client, database: Database) -> None:
    answer = api.post("/v1/chassis", {"nonsense": 1}, headers=keyed())
    assert answer.status == 400
    assert rows(database) == []
    assert api.post("/v1/chassis", {"description": "a"}, headers=keyed()).status == 201


def test_key_whose_claim_was_written_by_a_clock_ahead_can_be_taken_over(
    api: Client, database: Database
) -> None:
    first = api.post("/v1/chassis", {"description": "a"}, headers=keyed())
    ahead = clock.now() + 5000 * MINUTES
    values = {"state": "started", "busy_until": ahead, "status": None, "body": None}
    change = models.idempotency.update().values(**values, headers=None)
    database.write(lambda conn: conn.execute(change))
    again = api.post("/v1/chassis", {"description": "a"}, headers=keyed())
    assert (again.status, again.json["uuid"]) == (201, first.json["uuid"])


def test_patch_and_delete_are_replayed(api: Client, add_node: AddNode) -> None:
    node = add_node()
    patch = [{"op": "add", "path": "/extra/a", "value": 1}]
    path = f"/v1/nodes/{node['uuid']}"
    first = api.patch(path, patch, headers=keyed("p"))
    again = api.patch(path, patch, headers=keyed("p"))
    assert (first.status, again.status, again.json) == (200, 200, first.json)
    made = api.post("/v1/chassis", {}).json["uuid"]
    assert api.delete(f"/v1/chassis/{made}", headers=keyed("d")).status == 204
    assert api.delete(f"/v1/chassis/{made}", headers=keyed("d")).status == 204
    assert api.delete(f"/v1/chassis/{made}", headers=keyed("e")).status == 404


# -- the header ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        "",
        '""',
        "a b",
        "a,b",
        '"a',
        "a;b",
        "a\\b",
        "x" * 256,
        '"' + "x" * 256 + '"',
        "\u00e4",
        '"a\\c"',
    ],
)
def test_unreadable_key_is_refused_by_name(api: Client, database: Database, value: str) -> None:
    answer = api.post("/v1/chassis", {}, headers=keyed(value))
    assert answer.status == 400, answer.body
    assert "Idempotency-Key" in answer.text
    assert rows(database) == []
    assert chassis(api) == []


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ("x" * 255, "x" * 255),
        ('"' + "x" * 255 + '"', "x" * 255),
        ('"a \\" \\\\ b"', 'a " \\ b'),
        (" 8e03978e-40d5-43dd-bc93-6894a57f9324\t", "8e03978e-40d5-43dd-bc93-6894a57f9324"),
    ],
)
def test_key_is_read(value: str, key: str) -> None:
    assert resources_idempotency.read_key(value) == key


def test_order_of_query_arguments_does_not_count() -> None:
    mark = resources_idempotency.fingerprint
    assert mark("PUT", "/x", "a=1&b=2", b"") == mark("PUT", "/x", "b=2&a=1", b"")
    assert mark("PUT", "/x", "", b"ab") != mark("PUT", "/x", "a", b"b")


# -- what is kept ----------------------------------------------------------------------------


def test_large_answer_is_replaced_by_the_resource(api: Client, database: Database) -> None:
    extra = {"extra": {"text": "x" * (resources_idempotency.LARGEST_ANSWER + 1)}}
    first = api.post("/v1/chassis", extra, headers=keyed())
    assert first.status == 201
    assert rows(database)[0]["body"] == {"size": len(first.body), "unshown": None}
    again = api.post("/v1/chassis", extra, headers=keyed())
    assert (again.status, again.json) == (201, first.json)
    assert again.headers["location"] == first.headers["location"]


def test_statements_with_and_without_a_key(api: Client, database: Database) -> None:
    with count_statements(database) as without:
        api.post("/v1/chassis", {})
    with count_statements(database) as first:
        api.post("/v1/chassis", {}, headers=keyed())
    with count_statements(database) as refused:
        api.post("/v1/chassis", {"nonsense": 1}, headers=keyed("other"))
    # The row, the mark in the transaction of the change, the answer.
    assert len(first) - len(without) == 3, first
    assert len(refused) == 2, refused


def test_each_user_and_project_has_a_hash_of_its_own() -> None:
    hashes = {
        resources_idempotency.hashed(*who)
        for who in ((None, None), ("a", None), (None, "a"), ("a", "b"), ("ab", None), ("", ""))
    }
    assert len(hashes) == 6


# -- repetitions at once ---------------------------------------------------------------------


def test_concurrent_requests_with_one_key_make_one_resource(
    api: Client, database: Database
) -> None:
    statuses: list[int] = []
    gate = threading.Barrier(8)

    def ask() -> None:
        gate.wait(60)
        statuses.append(api.post("/v1/chassis", {"description": "a"}, headers=keyed()).status)

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert set(statuses) <= {201, 409}, statuses
    assert 201 in statuses
    assert len(chassis(api)) == 1


# -- after a crash ---------------------------------------------------------------------------


def test_lost_answer_of_a_post_is_the_resource(api: Client, database: Database) -> None:
    first = api.post("/v1/chassis", {"description": "a"}, headers=keyed())
    forget_answers(database, idempotency.CHANGED)
    again = api.post("/v1/chassis", {"description": "a"}, headers=keyed())
    assert (again.status, again.json) == (201, first.json)
    assert again.headers["location"] == first.headers["location"]
    assert again.headers[REPLAY] == "true"
    assert len(chassis(api)) == 1
    assert rows(database)[0]["state"] == idempotency.DONE


def test_request_that_did_nothing_is_carried_out_by_a_repetition(
    api: Client, database: Database
) -> None:
    made = api.post("/v1/chassis", {"description": "a"}, headers=keyed()).json["uuid"]
    api.delete(f"/v1/chassis/{made}")
    forget_answers(database, idempotency.STARTED)
    again = api.post("/v1/chassis", {"description": "a"}, headers=keyed())
    assert again.status == 201
    assert again.json["uuid"] == rows(database)[0]["subject_uuid"]
    assert rows(database)[0]["attempt"] == 2


def test_lost_answer_of_a_patch_is_not_a_second_patch(
    api: Client, add_node: AddNode, database: Database
) -> None:
    node = add_node()
    path = f"/v1/nodes/{node['uuid']}"
    patch = [{"op": "add", "path": "/extra/a", "value": 1}]
    first = api.patch(path, patch, headers=keyed())
    forget_answers(database, idempotency.CHANGED)
    again = api.patch(path, patch, headers=keyed())
    assert (again.status, again.json) == (200, first.json)
    told = database.read(lambda conn: events.page(conn, node_uuid=node["uuid"]))
    assert len([one for one in told if one["kind"] == "node_updated"]) == 1


def test_lost_answer_of_a_delete_is_204(api: Client, database: Database) -> None:
    made = api.post("/v1/chassis", {}).json["uuid"]
    api.delete(f"/v1/chassis/{made}", headers=keyed())
    forget_answers(database, idempotency.STARTED)
    assert api.delete(f"/v1/chassis/{made}", headers=keyed()).status == 204


def test_slow_first_cannot_change_after_its_repetition(database: Database) -> None:
    claim = idempotency.Claim("c", "k", "req-1", str(uuid.uuid4()))
    now = clock.now()
    values = {"fingerprint": "f", "busy_until": now, "created_at": now}
    database.write(lambda conn: idempotency.insert(conn, claim, values))
    assert database.write(lambda conn: idempotency.take(conn, claim, now))
    assert not database.write(lambda conn: idempotency.take(conn, claim, now))
    with pytest.raises(errors.KeyInUse):
        database.write(lambda conn: idempotency.mark(conn, claim))
    with pytest.raises(errors.Duplicate):
        database.write(lambda conn: idempotency.insert(conn, claim, values))
    assert database.write(lambda conn: idempotency.remove_old(conn, now + MINUTES, 10)) == 1


@contextlib.contextmanager
def taken_over(database: Database) -> Iterator[None]:
    """Let a repetition take over the next request with a key, when the request reads its node."""
    raised: list[int] = []

    def note(_conn: Any, _cursor: Any, statement: str, *_rest: Any) -> None:
        if not any(raised) and "FROM nodes" in statement:
            change = models.idempotency.update().values(attempt=models.idempotency.c.attempt + 1)
            raised.append(database.write(lambda conn: conn.execute(change)).rowcount)

    sa.event.listen(database.engine, "before_cursor_execute", note)
    try:
        yield
        assert any(raised)
    finally:
        sa.event.remove(database.engine, "before_cursor_execute", note)


def test_every_change_below_a_node_is_refused_after_its_repetition(
    api: Client, add_node: AddNode, database: Database
) -> None:
    node = add_node(provision_state="cleaning", reservation="c1")
    run, path = begin(database, node, LIST), f"/v1/nodes/{node['uuid']}"
    hold, stop = {"kind": "legal", "reason": "case"}, {"how": "hold"}
    stopped = f"{path}/runs/{run}/stop"
    held = api.post(f"{path}/holds", hold).json["uuid"]

    def count() -> int:
        return len(database.read(lambda conn: conn.execute(sa.select(models.events)).all()))

    def refuse(method: str, url: str, body: Any = None) -> None:
        before = count()
        with taken_over(database):
            answer = api.request(method, url, body, headers=keyed(str(uuid.uuid4())))
        assert (answer.status, "under way" in answer.text) == (409, True), (method, url)
        assert count() == before, (method, url)

    refuse("POST", f"{path}/holds", hold)
    refuse("DELETE", f"{path}/holds/{held}")
    refuse("PUT", stopped, stop)
    assert api.put(stopped, stop).status == 202
    refuse("DELETE", stopped)
    idle = f"/v1/nodes/{add_node()['uuid']}"
    refuse("PUT", f"{idle}/data_state", {"data_state": "dirty", "reason": "borrowed"})


# -- rights ----------------------------------------------------------------------------------


def give_to(database: Database, owner: str) -> None:
    """Let all nodes belong to another project."""
    change = models.nodes.update().values(owner=owner)
    database.write(lambda conn: conn.execute(change))


def test_repetition_is_refused_when_the_node_has_another_owner(
    callers: Callers, add_node: AddNode, database: Database
) -> None:
    node = add_node(owner=OWNER)
    owner = callers("member", OWNER)
    path = f"/v1/nodes/{node['uuid']}/maintenance"
    assert owner.put(path, {"reason": "a"}, headers=keyed()).status == 202
    assert owner.put(path, {"reason": "a"}, headers=keyed()).headers[REPLAY] == "true"
    give_to(database, STRANGER)
    assert owner.put(path, {"reason": "a"}, headers=keyed()).status == 404


def test_repetition_is_refused_when_the_role_is_gone(callers: Callers) -> None:
    assert callers("admin").post("/v1/chassis", {}, headers=keyed()).status == 201
    answer = callers("reader").post("/v1/chassis", {}, headers=keyed())
    assert answer.status == 403
    assert REPLAY not in answer.headers


def test_repetition_is_refused_when_the_node_of_a_port_has_another_owner(
    callers: Callers, add_node: AddNode, database: Database
) -> None:
    node = add_node(owner=OWNER, name="n1")
    owner = callers("admin", OWNER)
    body = {"address": "52:54:00:00:00:01", "node_uuid": node["uuid"]}
    first = owner.post("/v1/ports", body, headers=keyed())
    assert first.status == 201, first.text
    path = f"/v1/ports/{first.json['uuid']}"
    patch = [{"op": "add", "path": "/extra/a", "value": 1}]
    requests = ((owner.post, "/v1/ports", body, "k1"), (owner.patch, path, patch, "k2"))
    assert owner.patch(path, patch, headers=keyed("k2")).status == 200
    for owner_, statuses in ((OWNER, (201, 200)), (STRANGER, (403, 404)), (OWNER, (201, 200))):
        give_to(database, owner_)
        answers = [send(at, sent, headers=keyed(key)) for send, at, sent, key in requests]
        assert tuple(answer.status for answer in answers) == statuses
        shown = {node["uuid"].encode() in answer.body for answer in answers}
        assert shown == {owner_ == OWNER}
    assert owner.delete(path, headers=keyed("k3")).status == 204
    assert owner.delete(path, headers=keyed("k3")).headers[REPLAY] == "true"
    assert owner.post("/v1/ports", body, headers=keyed("k1")).json["uuid"] == first.json["uuid"]


def test_other_role_of_a_user_gets_no_kept_answer(callers: Callers, add_node: AddNode) -> None:
    add_node(owner=OWNER, name="n1")
    body = {"reason": "a"}
    path = "/v1/nodes/n1/maintenance"
    assert callers("admin", OWNER).put(path, body, headers=keyed()).status == 202
    other = callers("member", OWNER).put(path, body, headers=keyed())
    assert (other.status, REPLAY in other.headers) == (202, False)


# -- room ------------------------------------------------------------------------------------


def limited(database: Database, recorder: Recorder, conf: cfg.ConfigOpts, **values: int) -> Client:
    """Return a client of an API whose kept answers have little room, which is counted at once."""
    for name, value in values.items():
        conf.set_override(name, value, "api")
    return Client(whole_api.build(database, recorder, conf))


def test_caller_with_too_many_rows_gets_429(
    database: Database, recorder: Recorder, conf: cfg.ConfigOpts
) -> None:
    api = limited(database, recorder, conf, idempotency_max_rows=3)
    made = [api.post("/v1/chassis", {}, headers=keyed(f"k{n}")) for n in range(4)]
    assert [answer.status for answer in made] == [201, 201, 201, 429]
    assert "3 requests of one caller, see [api]idempotency_max_rows" in made[-1].text
    assert 60 <= int(made[-1].headers["retry-after"]) <= 120
    assert len(chassis(api)) == len(rows(database)) == 3
    again = api.post("/v1/chassis", {}, headers=keyed("k0"))
    assert (again.status, again.headers[REPLAY]) == (201, "true")
    assert api.post("/v1/chassis", {}).status == 201
    others = limited(database, recorder, conf, idempotency_max_rows=3)
    database.write(lambda conn: conn.execute(models.idempotency.delete()))
    assert others.post("/v1/chassis", {}, headers=keyed("k9")).status == 201


def test_kept_answers_have_a_limit_of_bytes(conf: cfg.ConfigOpts) -> None:
    mib = 1024 * 1024
    conf.set_override("idempotency_max_mib", 16, "api")
    used = {"a": (10, 2 * mib)}
    room = resources_idempotency.Room(conf, lambda: used)
    room.admit("a", project=True)
    room.add("a", 4 * mib)  # a quarter, after which the table is read again
    room.admit("a", project=True)
    used["a"] = (10, 4 * mib)
    room.add("a", 2 * mib)
    with pytest.raises(errors.TooManyKeys, match=r"16 MiB, see .api.idempotency_max_mib"):
        room.admit("a", project=True)
    used |= {"b": (1, 4 * mib - 1), "c": (1, 4 * mib)}
    room.add("c", 2 * mib)
    room.admit("b", project=True)
    used["b"] = (1, 4 * mib)
    room.add("c", 2 * mib)
    with pytest.raises(errors.TooManyKeys):
        room.admit("d", project=True)
    room.admit("d", project=False)


def test_rows_and_bytes_are_counted_for_each_caller(database: Database, callers: Callers) -> None:
    for name in ("k1", "k2"):
        body = {"extra": {"text": "x" * 1000}}
        assert callers("admin").post("/v1/chassis", body, headers=keyed(name)).status == 201
    (found,) = database.read(idempotency.used).values()
    assert (found[0], 2000 < found[1] < 4000) == (2, True), found


def test_ramdisks_and_reads_ignore_the_header(
    api: Client, add_node: AddNode, database: Database
) -> None:
    node = add_node()
    body = {"callback_url": "http://192.0.2.1:9999", "agent_version": "1", "agent_token": "x"}
    for _ in range(2):
        api.post(f"/v1/heartbeat/{node['uuid']}", body, headers=keyed(","))
        assert api.get("/v1/chassis", headers=keyed(",")).status == 200
    assert rows(database) == []


def test_option_of_zero_ignores_the_header(
    database: Database, recorder: Recorder, conf: cfg.ConfigOpts
) -> None:
    conf.set_override("idempotency_hours", 0, "api")
    api = Client(whole_api.build(database, recorder, conf))
    made = [api.post("/v1/chassis", {}, headers=keyed()).json["uuid"] for _ in range(2)]
    assert len(set(made)) == 2
    assert rows(database) == []


# -- faults of the service -------------------------------------------------------------------


def test_refusal_by_a_busy_service_keeps_nothing(
    api: Client, add_node: AddNode, recorder: Recorder, database: Database
) -> None:
    node = add_node()
    path = f"/v1/nodes/{node['uuid']}/states/provision"
    recorder.answers["start_verb"] = errors.NoFreeWorker()
    assert api.put(path, {"target": "manage"}, headers=keyed()).status == 503
    assert rows(database) == []


def test_lost_answer_of_a_conductor_is_repeated_with_the_same_request_id(
    api: Client, add_node: AddNode, recorder: Recorder, database: Database
) -> None:
    node = add_node()
    path = f"/v1/nodes/{node['uuid']}/states/provision"
    recorder.answers["start_verb"] = errors.ConductorUnresponsive("lost")
    assert api.put(path, {"target": "manage"}, headers=keyed()).status == 503
    (row,) = rows(database)
    repeated = errors.Conflict("Request x has been taken before.", repeated=True)
    recorder.answers["start_verb"] = repeated
    again = api.put(path, {"target": "manage"}, headers=keyed())
    assert (again.status, again.headers[REPLAY]) == (202, "true")
    ids = {who.request_id for who in recorder.contexts}
    assert ids == {row["request_id"]}


@hypothesis.given(hypothesis.strategies.text(max_size=300))
def test_any_header_is_a_key_or_refused_by_name(text: str) -> None:
    try:
        key = resources_idempotency.read_key(text)
    except errors.InvalidParameter as why:
        assert resources_idempotency.NAME in why.message
    else:
        assert 1 <= len(key) <= resources_idempotency.LONGEST_KEY
        assert key.isascii()
        assert key.isprintable()
