"""Locks of nodes as requests meet them: refusals, and writes that wait for a moment."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.api import middleware
from ironic_lite.api.service import LockWaiters
from ironic_lite.core import clock
from ironic_lite.db.engine import session
from ironic_lite.db.queries import nodes, ports, resources
from tests.support import whole_api
from tests.support.api_rows import AddNode, set_node
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client, Response, op

# Refusals of the API because of a node's lock: they name its work, and when to try again.

RUN = "0f7bd4bb-2b0c-4fa2-9f2f-6ac3c9a1a1b5"
LOCK = {
    "reservation": "conductor-7",
    "lock_token": "token",
    "locked_at": datetime.datetime(2026, 11, 22, 10, 11, 12),
    "lock_note": "req-9 ann",
}
BUSY = {
    "provision_state": "cleaning",
    "run_uuid": RUN,
    "clean_step": {"interface": "deploy", "step": "erase_devices"},
}
PATCH = [{"op": "add", "path": "/extra/a", "value": 1}]
REQUESTS: dict[str, tuple[str, str, Any]] = {
    "node": ("PATCH", "", PATCH),
    "maintenance": ("PUT", "/maintenance", {"reason": "fan"}),
    "trait": ("PUT", "/traits/CUSTOM_A", None),
    "boot device": ("GET", "/management/boot_device", None),
    "impossible verb": ("PUT", "/states/provision", {"target": "unhold"}),
    "unknown verb": ("PUT", "/states/provision", {"target": "explode"}),
}


def ask(api: Client, node: dict[str, Any], what: str) -> Any:
    method, path, body = REQUESTS[what]
    return api.request(method, f"/v1/nodes/{node['uuid']}{path}", body)


@pytest.mark.parametrize("what", REQUESTS)
def test_refusal_names_run_and_step(what: str, api: Client, add_node: AddNode) -> None:
    answer = ask(api, add_node(**LOCK, **BUSY), what)
    assert answer.status == 409, answer.text
    assert "is locked by host conductor-7" in answer.text
    held = f"It is held since 2026-11-22 10:11:12 UTC for the run {RUN}, step deploy.erase_devices."
    assert held in answer.text
    assert 5 <= int(answer.headers["retry-after"]) <= 10


def test_refusal_names_the_sweep(api: Client, add_node: AddNode) -> None:
    answer = ask(api, add_node(**{**LOCK, "lock_note": "conductor:power sync"}), "node")
    assert answer.status == 409
    assert answer.text.endswith("It is held since 2026-11-22 10:11:12 UTC for the power sync.")
    assert int(answer.headers["retry-after"]) in (1, 2)


def test_port_of_a_locked_node_is_refused_with_the_reason(
    api: Client, add_node: AddNode, database: session.Database
) -> None:
    node = add_node()
    body = {"node_uuid": node["uuid"], "address": "52:54:00:00:00:01"}
    port = api.post("/v1/ports", body).json["uuid"]
    database.write(lambda conn: nodes.edit(conn, node["uuid"], LOCK, generation=0))
    answer = api.patch(f"/v1/ports/{port}", [{"op": "add", "path": "/extra/a", "value": 1}])
    assert answer.status == 409
    assert answer.text.endswith("for the request req-9.")


# Writes of the API wait for a lock that is held for a moment, in bounded numbers.

Json = dict[str, Any]

UUID = "5f3b1c8e-0000-4000-8000-00000000000{}"
EXTRA = [op("add", "/extra/a", 1)]

WRITES: dict[str, tuple[str, str, Any]] = {
    # method, path, body; N is the node
    "patch": ("PATCH", "/v1/nodes/N", EXTRA),
    "maintenance": ("PUT", "/v1/nodes/N/maintenance", {"reason": "r"}),
    "traits": ("PUT", "/v1/nodes/N/traits", {"traits": ["CUSTOM_A"]}),
    "trait": ("PUT", "/v1/nodes/N/traits/CUSTOM_B", None),
    "clear": ("DELETE", "/v1/nodes/N/traits", None),
    "data state": ("PUT", "/v1/nodes/N/data_state", {"data_state": "dirty", "reason": "r"}),
    "port": ("PATCH", f"/v1/ports/{UUID.format(1)}", EXTRA),
    "no port": ("DELETE", f"/v1/ports/{UUID.format(1)}", None),
    "portgroup": ("PATCH", f"/v1/portgroups/{UUID.format(2)}", EXTRA),
    "no portgroup": ("DELETE", f"/v1/portgroups/{UUID.format(2)}", None),
    "connector": ("PATCH", f"/v1/volume/connectors/{UUID.format(3)}", EXTRA),
    "no connector": ("DELETE", f"/v1/volume/connectors/{UUID.format(3)}", None),
    "target": ("PATCH", f"/v1/volume/targets/{UUID.format(4)}", EXTRA),
    "no target": ("DELETE", f"/v1/volume/targets/{UUID.format(4)}", None),
}


@pytest.fixture
def patient(database: session.Database, recorder: Recorder, conf: cfg.ConfigOpts) -> Client:
    """A client of an API that waits for a lock for a minute."""
    conf.set_override("node_locked_retry_interval", 30, "conductor")
    return Client(whole_api.build(database, recorder, conf))


@pytest.fixture
def node(add_node: AddNode, database: session.Database) -> Json:
    """A locked node with something of each kind."""
    found = add_node(power_state="power off", reservation="host-9")
    own: Json = {"node_uuid": found["uuid"], "extra": {}, "created_at": clock.now()}
    rows: tuple[tuple[Any, Json], ...] = (
        (ports.FAMILY, {"address": "52:54:00:00:00:01"}),
        (ports.PORTGROUPS, {"mode": "802.3ad"}),
        (resources.VOLUME_CONNECTORS, {"type": "iqn", "connector_id": "c"}),
        (resources.VOLUME_TARGETS, {"volume_type": "iscsi", "volume_id": "v", "boot_index": 0}),
    )

    def insert(conn: session.Connection) -> None:
        for number, (family, more) in enumerate(rows, 1):
            family.insert(conn, {"uuid": UUID.format(number), **own, **more})

    database.write(insert)
    return found


def send(api: Client, node: Json, write: tuple[str, str, Any]) -> Response:
    method, path, body = write
    if isinstance(body, dict) and "node_uuid" in body:
        body = {**body, "node_uuid": node["uuid"]}
    return api.request(method, path.replace("/N", f"/{node['uuid']}"), body)


def later(act: Callable[[], object]) -> threading.Thread:
    """Do ``act`` after the request has met the lock at least once."""
    thread = threading.Timer(0.1, act)
    thread.start()
    return thread


@pytest.mark.parametrize("name", WRITES)
def test_write_succeeds_when_a_short_lock_ends(
    patient: Client, database: session.Database, node: Json, name: str
) -> None:
    thread = later(lambda: set_node(database, node, reservation=None))
    answer = send(patient, node, WRITES[name])
    thread.join()
    assert answer.status < 300, answer.text


@pytest.mark.parametrize("name", WRITES)
def test_write_of_a_locked_node_is_refused_at_last(
    application: middleware.Wsgi, node: Json, name: str
) -> None:
    answer = send(Client(application), node, WRITES[name])
    assert (answer.status, "host-9" in answer.text) == (409, True)


def test_wait_ends_after_the_configured_time(conf: cfg.ConfigOpts) -> None:
    conf.set_override("node_locked_retry_attempts", 2, "conductor")
    conf.set_override("node_locked_retry_interval", 1, "conductor")
    calls = []

    def act() -> None:
        calls.append(1)
        raise errors.NodeLocked(node="n", host="h")

    began = time.monotonic()
    with pytest.raises(errors.NodeLocked):
        LockWaiters(conf).until_free(act)
    assert time.monotonic() - began >= 1
    assert len(calls) > 2


def test_waiters_of_one_node_leave_room_for_those_of_others(conf: cfg.ConfigOpts) -> None:
    conf.set_override("node_locked_retry_interval", 60, "conductor")
    conf.set_override("max_changes", 32, "api")
    waiters, over, calls = LockWaiters(conf), threading.Event(), []

    def act(node: str) -> None:
        calls.append(node)
        if not over.is_set():
            raise errors.NodeLocked(node=node, host="h")

    def wait(node: str) -> threading.Thread:
        thread = threading.Thread(target=waiters.until_free, args=(lambda: act(node),))
        thread.start()
        while calls.count(node) < 2 * sum(one == node for one in started):
            time.sleep(0.001)
        return thread

    started: list[str] = []
    threads = []
    try:
        for node in ("a", "a", "b"):
            started.append(node)
            threads.append(wait(node))
        with pytest.raises(errors.NodeLocked):  # a third for the same node does not wait
            waiters.until_free(lambda: act("a"))
    finally:
        over.set()
        for thread in threads:
            thread.join()
    waiters.until_free(lambda: act("a"))
