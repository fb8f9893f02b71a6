"""Requests with an Idempotency-Key on each database: API and conductor in one process."""

from __future__ import annotations

import datetime
import threading
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from ironic_lite.api import middleware
from ironic_lite.api.http import request
from ironic_lite.core import clock
from ironic_lite.core.context import Context
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import events, idempotency
from ironic_lite.db.tables import models
from tests.support import whole_api
from tests.support.conductor_recorder import Recorder
from tests.support.in_process import InProcess
from tests.support.waiting_client import waiting_client
from tests.support.wsgi_client import Client, Response

REPLAY = "idempotent-replay"
AGO = datetime.timedelta(minutes=5)
SECRET = "only for its caller"
KEYS = ("4W2vYIMjSS0TEtvQB2pHd3vmAn2bhcBsYGWd9kCkDOs=",)


@pytest.fixture
def whole(database: Database) -> Iterator[InProcess]:
    """API and conductor."""
    service = InProcess(database)
    yield service
    service.close()


def keyed(key: str = "k1", **more: str) -> dict[str, str]:
    """Return the headers of a request with a key."""
    return {"Idempotency-Key": key, **more}


def row_of_key(database: Database) -> dict[str, Any]:
    """Return the only row."""
    found = database.read(lambda conn: conn.execute(sa.select(models.idempotency)).mappings().one())
    return dict(found)


def crash(database: Database, state: str = idempotency.STARTED) -> None:
    """Make the row look as long after a death before the answer was kept."""
    values = {"state": state, "status": None, "headers": None, "body": None}
    change = models.idempotency.update().values(**values, busy_until=clock.now() - AGO)
    database.write(lambda conn: conn.execute(change))


def put(whole: InProcess, node: str, what: str, body: Any, **more: str) -> Response:
    """Send a PUT with a key below the states of a node, and wait for the conductor."""
    answer = whole.api.put(f"/v1/nodes/{node}/states/{what}", body, headers=keyed(**more))
    assert whole.rig.service.runtime.workers.wait_idle(60)
    return answer


# -- the table -------------------------------------------------------------------------------


def test_concurrent_first_requests_make_one_node(whole: InProcess) -> None:
    found: list[Response] = []
    gate = threading.Barrier(6)
    body = {"driver": "fake-hardware", "name": "n1"}

    def ask() -> None:
        gate.wait(60)
        found.append(whole.api.post("/v1/nodes", body, headers=keyed()))

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {one.status for one in found} <= {201, 409}
    first = [one for one in found if one.status == 201 and REPLAY not in one.headers]
    assert len(first) == 1, [one.body for one in found]
    assert whole.api.post("/v1/nodes", body, headers=keyed()).json == first[0].json
    assert len(whole.api.get("/v1/nodes").json["nodes"]) == 1


def test_key_ends_in_a_refusal_of_another_request(whole: InProcess) -> None:
    assert whole.api.post("/v1/chassis", {}, headers=keyed()).status == 201
    assert whole.api.post("/v1/chassis", {"extra": {"a": 1}}, headers=keyed()).status == 422


def test_old_rows_are_removed_in_portions(whole: InProcess, database: Database) -> None:
    for number in range(5):
        whole.api.post("/v1/chassis", {}, headers=keyed(f"k{number}"))
    before, after = clock.now() - AGO, clock.now() + AGO
    assert database.write(lambda conn: idempotency.remove_old(conn, before, 3)) == 0
    removed = [
        database.write(lambda conn: idempotency.remove_old(conn, after, 3)) for _ in range(3)
    ]
    assert removed == [3, 2, 0]


def test_sweep_removes_only_what_is_old(whole: InProcess, database: Database) -> None:
    sweep = whole.rig.service.sweeps.plan["old keys"]
    whole.api.post("/v1/chassis", {}, headers=keyed())
    sweep.act()
    ahead = models.idempotency.update().values(created_at=clock.after(17520 * 3600))
    database.write(lambda conn: conn.execute(ahead))
    sweep.act()  # counts from now on
    old = clock.now() - datetime.timedelta(hours=25)
    assert row_of_key(database)["created_at"] <= clock.now()
    assert row_of_key(database)["state"] == idempotency.DONE
    database.write(lambda conn: conn.execute(models.idempotency.update().values(created_at=old)))
    sweep.act()
    count = sa.select(sa.func.count()).select_from(models.idempotency)
    assert database.read(lambda conn: conn.execute(count).scalar()) == 0


def test_kept_bodies_are_encrypted(database: Database) -> None:
    with_keys = session.open_database(database.url, encryption_keys=KEYS)
    try:
        service = InProcess(with_keys)
        first = service.api.post("/v1/chassis", {"description": SECRET}, headers=keyed())
        again = service.api.post("/v1/chassis", {"description": SECRET}, headers=keyed())
        service.close()
    finally:
        with_keys.close()
    assert again.json == first.json
    plain = sa.select(sa.type_coerce(models.idempotency.c.body, sa.JSON))
    stored = database.read(lambda conn: conn.execute(plain).scalar())
    assert SECRET not in str(stored)
    assert "$fernet" in str(stored)


# -- work of conductors ----------------------------------------------------------------------


def test_repeated_verb_is_answered_with_its_run(whole: InProcess) -> None:
    node = whole.rig.node("enroll")
    first = put(whole, node, "provision", {"target": "manage"})
    again = put(whole, node, "provision", {"target": "manage"})
    assert (first.status, again.status) == (202, 202)
    assert again.headers["link"] == first.headers["link"]
    assert again.headers["location"] == first.headers["location"]
    assert len(whole.rig.runs(node)) == 1


def test_verb_whose_answer_was_lost_runs_once(whole: InProcess, database: Database) -> None:
    node = whole.rig.node("manageable")
    body = {"target": "clean", "clean_steps": [{"interface": "deploy", "step": "erase_devices"}]}
    first = put(whole, node, "provision", body)
    crash(database)
    again = put(whole, node, "provision", body)
    assert (again.status, again.headers["link"]) == (202, first.headers["link"])
    assert len(whole.rig.runs(node)) == 1
    assert row_of_key(database)["state"] == idempotency.DONE
    third = put(whole, node, "provision", body)
    assert (third.status, third.headers[REPLAY]) == (202, "true")
    assert len(whole.rig.runs(node)) == 1


def test_verb_that_never_reached_a_conductor_is_carried_out(
    whole: InProcess, database: Database
) -> None:
    node = whole.rig.node("enroll")
    put(whole, node, "provision", {"target": "manage"})
    crash(database)
    change = models.idempotency.update().values(request_id=f"req-{uuid.uuid4()}")
    database.write(lambda conn: conn.execute(change))
    whole.rig.edit(node, provision_state="enroll")
    assert put(whole, node, "provision", {"target": "manage"}).status == 202
    found = whole.rig.runs(node)
    assert len(found) == 2
    assert row_of_key(database)["request_id"] in {run["request_id"] for run in found}


def test_power_request_whose_answer_was_lost_is_one_operation(
    whole: InProcess, database: Database
) -> None:
    node = whole.rig.node("manageable")
    assert put(whole, node, "power", {"target": "power on"}).status == 202
    crash(database)
    assert put(whole, node, "power", {"target": "power on"}).status == 202
    told = database.read(lambda conn: events.page(conn, node_uuid=node, kinds=["power"]))
    assert len([one for one in told if one["event"] == "start"]) == 1


def test_deletion_whose_answer_was_lost_is_204(whole: InProcess, database: Database) -> None:
    node = whole.rig.node("enroll")
    assert whole.api.delete(f"/v1/nodes/{node}", headers=keyed()).status == 204
    crash(database)
    assert whole.api.delete(f"/v1/nodes/{node}", headers=keyed()).status == 204
    assert whole.api.delete(f"/v1/nodes/{node}", headers=keyed("k2")).status == 404


def test_allocation_whose_answer_was_lost_is_one_allocation(
    whole: InProcess, database: Database
) -> None:
    body = {"resource_class": "large", "name": "a1"}
    first = whole.api.post("/v1/allocations", body, headers=keyed())
    assert first.status == 201
    crash(database)
    again = whole.api.post("/v1/allocations", body, headers=keyed())
    assert (again.status, again.json["uuid"]) == (201, first.json["uuid"])
    assert len(whole.api.get("/v1/allocations").json["allocations"]) == 1


def test_refused_verb_keeps_nothing(whole: InProcess, database: Database) -> None:
    node = whole.rig.node("enroll")
    assert put(whole, node, "provision", {"target": "active"}).status == 400
    assert put(whole, node, "provision", {"target": "manage"}).status == 202


# -- with Prefer -----------------------------------------------------------------------------


@pytest.fixture
def waiting(whole: InProcess, database: Database) -> Client:
    """A client whose requests wait."""
    return waiting_client(whole.api.app, database)


def test_repetition_waits_for_the_run_of_the_first(whole: InProcess, waiting: Client) -> None:
    node = whole.rig.node("enroll", fake_step_seconds=0.2)
    path, body = f"/v1/nodes/{node}/states/provision", {"target": "manage"}
    first = whole.api.put(path, body, headers=keyed())
    assert first.status == 202
    again = waiting.put(path, body, headers=keyed(Prefer="wait=60"))
    assert (again.status, again.json["state"]) == (200, "done")
    assert again.json["uuid"] in first.headers["link"]
    assert again.headers[REPLAY] == "true"
    assert len(whole.rig.runs(node)) == 1


def test_final_answer_of_a_wait_is_kept(
    whole: InProcess, waiting: Client, database: Database
) -> None:
    node = whole.rig.node("enroll")
    path, body = f"/v1/nodes/{node}/states/provision", {"target": "manage"}
    first = waiting.put(path, body, headers=keyed(Prefer="wait=60"))
    assert (first.status, first.json["state"]) == (200, "done")
    assert row_of_key(database)["status"] == 200
    again = waiting.put(path, body, headers=keyed(Prefer="wait=60"))
    assert (again.status, again.json) == (200, first.json)
    assert len(whole.rig.runs(node)) == 1


def test_failed_run_keeps_its_key(whole: InProcess, waiting: Client) -> None:
    node = whole.rig.node("manageable", fake_fail_steps={"deploy.erase_devices": "disk 3"})
    path = f"/v1/nodes/{node}/states/provision"
    body = {"target": "clean", "clean_steps": [{"interface": "deploy", "step": "erase_devices"}]}
    first = waiting.put(path, body, headers=keyed(Prefer="wait=60"))
    again = waiting.put(path, body, headers=keyed(Prefer="wait=60"))
    assert (first.status, again.status) == (424, 424)
    assert again.headers["link"] == first.headers["link"]
    assert len(whole.rig.runs(node)) == 1


# -- callers ---------------------------------------------------------------------------------


class Named:
    """Takes user and project of a caller from headers."""

    def __call__(self, environ: request.Environ, request_id: str) -> Context:
        """Return the caller."""
        return Context(request_id, environ.get("HTTP_X_USER"), environ.get("HTTP_X_PROJECT"))


def test_callers_do_not_share_keys(whole: InProcess) -> None:
    conf = whole.rig.service.runtime.conf
    inner = whole_api.routed(whole.database, Recorder(), conf)
    client = Client(middleware.RequestMiddleware(inner, conf, Named()))
    made = [
        client.post("/v1/chassis", {}, headers=keyed(**{"X-User": user, "X-Project": project}))
        for user, project in (("a", "p"), ("b", "p"), ("a", "q"), ("a", "p"))
    ]
    assert {one.status for one in made} == {201}
    assert len({one.json["uuid"] for one in made[:3]}) == 3
    assert made[3].json == made[0].json
