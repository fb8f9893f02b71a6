"""The header Prefer in one process: locks, refusals, requests without a run."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Iterator
from typing import Any, NoReturn

import pytest

from ironic_lite import errors
from ironic_lite.api.http import watchers
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import events, nodes
from ironic_lite.db.tables import models
from tests.support import whole_api
from tests.support.api_rows import HOST, AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.statements import count_statements
from tests.support.waiting_client import waiting_client
from tests.support.wsgi_client import Client

WAIT = {"Prefer": "wait=20"}
SHORT = {"Prefer": "wait=1"}
ASYNC = {"Prefer": "respond-async"}
APPLIED = "preference-applied"
BEGUN = {"return": None, "async": True, "attach": False}
MEDIA = {"device_type": "cdrom", "image_url": "http://192.0.2.1/x.iso"}


@pytest.fixture
def waiting(api: Client, database: Database) -> Client:
    """A client whose requests wait, in its own thread."""
    return waiting_client(api.app, database)


def _refuse_place(*_arguments: object) -> NoReturn:
    raise errors.TooManyRequests(limit="1", option="max_watchers")


class Busy:
    """A conductor that answers as a real one: 409 while the node is locked, an event at the end."""

    def __init__(self, database: Database, recorder: Recorder) -> None:
        self._database = database
        self._recorder = recorder

    def lock(self, uuid: str, locked: bool = True) -> None:
        """Lock a node, or release it."""
        values = {"reservation": HOST if locked else None, "lock_token": "t" if locked else None}
        change = models.nodes.update().where(models.nodes.c.uuid == uuid).values(**values)
        self._database.write(lambda conn: conn.execute(change))

    @contextlib.contextmanager
    def locked(self, uuid: str, seconds: float) -> Iterator[list[float]]:
        """Lock a node for some seconds; give the time of the release."""
        freed: list[float] = []

        def release() -> None:
            self.lock(uuid, locked=False)
            freed.append(time.monotonic())

        self.lock(uuid)
        timer = threading.Timer(seconds, release)
        timer.start()
        yield freed
        timer.join()

    def refuses_while_locked(self, method: str) -> None:
        """Answer a method as a conductor does."""

        def answer(node_uuid: str, **_more: Any) -> Any:
            get = functools.partial(nodes.get, ident=node_uuid, columns=("reservation",))
            row = self._database.read(get)
            if row["reservation"] is not None:
                raise errors.NodeLocked(node=node_uuid, host=row["reservation"])
            return self._end(node_uuid, "end")

        self._recorder.answers[method] = answer

    def ends(self, method: str, event: str) -> None:
        """Answer a method when its work has ended."""

        def answer(node_uuid: str, **_more: Any) -> Any:
            return self._end(node_uuid, event)

        self._recorder.answers[method] = answer

    def _end(self, node_uuid: str, event: str) -> Any:
        row = {
            "at": clock.now(),
            "node_uuid": node_uuid,
            "kind": "management",
            "event": event,
            "request_id": self._recorder.contexts[-1].request_id,
            "data": {"error": "the drive is stuck"} if event == "fail" else {},
        }
        self._database.write(lambda conn: events.add(conn, [row]))
        return dict(BEGUN)


@pytest.fixture
def busy(database: Database, recorder: Recorder) -> Busy:
    """A conductor that may be busy."""
    return Busy(database, recorder)


@pytest.mark.feature("webhooks")
def test_every_request_that_answers_202_heeds_the_header() -> None:
    """Agents repeat their heartbeats, and no client waits for these.

    A stop takes effect with its answer; a GET of the node waits for its end. No request waits for
    the receiver of a webhook.
    """
    rows = [route for each in whole_api.CONTROLLERS for route, _ in each.exposed()]
    deaf = {f"{one.method} {one.path}" for one in rows if one.status == 202 and not one.prefers}
    stop = "PUT /nodes/{ident}/runs/{run}/stop"
    replay = "POST /webhooks/{ident}/replay"
    assert deaf == {"POST /heartbeat", "POST /heartbeat/{ident}", stop, replay}


def test_locked_node_costs_two_calls_of_the_conductor(
    waiting: Client, add_node: AddNode, busy: Busy, recorder: Recorder, database: Database
) -> None:
    """One call finds the lock, one is made when the lock is free; both have one request id."""
    node = add_node(name="n1", provision_state="manageable")["uuid"]
    busy.refuses_while_locked("change_node_power_state")
    began = time.monotonic()
    with count_statements(database) as sent, busy.locked(node, 3) as freed:
        answer = waiting.put("/v1/nodes/n1/states/power", {"target": "power on"}, headers=WAIT)
        done = time.monotonic()
    assert (answer.status, answer.json["event"]) == (200, "end"), answer.body
    assert [method for method, _ in recorder.calls] == ["change_node_power_state"] * 2
    assert len({who.request_id for who in recorder.contexts}) == 1
    assert freed[0] - began >= 3
    assert 2 <= len([one for one in sent if "lock_note" in one and one[:6] == "SELECT"]) <= 12
    assert done - freed[0] < 3


def test_refusal_after_a_wait_shows_the_applied_preference(
    waiting: Client, add_node: AddNode, busy: Busy, recorder: Recorder
) -> None:
    busy.lock(add_node(name="n1", provision_state="manageable")["uuid"])
    busy.refuses_while_locked("change_node_power_state")
    path, body = "/v1/nodes/n1/states/power", {"target": "power on"}
    answer = waiting.put(path, body, headers=SHORT)
    assert (answer.status, answer.headers[APPLIED]) == (409, "wait=1")
    assert f"is locked by host {HOST}" in answer.text
    assert len(recorder.calls) == 1
    at_once = waiting.put(path, body, headers=ASYNC)
    assert (at_once.status, APPLIED in at_once.headers) == (409, False)


def test_busy_conductor_is_asked_again_until_the_time_is_over(
    waiting: Client, add_node: AddNode, recorder: Recorder
) -> None:
    add_node(name="n1", provision_state="manageable")
    recorder.answers["change_node_power_state"] = errors.NoFreeWorker()
    path, body = "/v1/nodes/n1/states/power", {"target": "power on"}
    answer = waiting.put(path, body, headers=SHORT)
    assert (answer.status, answer.headers[APPLIED]) == (503, "wait=1")
    assert 2 <= len(recorder.calls) <= 5
    recorder.calls.clear()
    recorder.answers["change_node_power_state"] = errors.ConductorUnresponsive(host=HOST)
    answer = waiting.put(path, body, headers=SHORT)
    assert (answer.status, APPLIED in answer.headers) == (503, False)
    assert len(recorder.calls) == 1, "the work may have begun, so it is not sent again"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v1/nodes/n1/states/power", {"target": "up"}, 400),
        ("/v1/nodes/nobody/states/power", {"target": "power on"}, 404),
    ],
)
def test_refusal_at_once_shows_no_applied_preference(
    waiting: Client, add_node: AddNode, path: str, body: Any, status: int
) -> None:
    add_node(name="n1")
    answer = waiting.put(path, body, headers=WAIT)
    assert (answer.status, APPLIED in answer.headers) == (status, False)


def test_request_without_a_free_place_shows_no_applied_preference(
    waiting: Client, add_node: AddNode, busy: Busy, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy.lock(add_node(name="n1", provision_state="manageable")["uuid"])
    busy.refuses_while_locked("change_node_power_state")
    monkeypatch.setattr(watchers.Watchers, "place", _refuse_place)
    path = "/v1/nodes/n1/states/power"
    answer = waiting.put(path, {"target": "power on"}, headers=WAIT)
    assert (answer.status, APPLIED in answer.headers) == (503, False)


def test_accepted_request_without_a_free_place_is_answered_202(
    waiting: Client,
    add_node: AddNode,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    add_node(name="n1", provision_state="manageable")
    monkeypatch.setattr(watchers.Watchers, "place", _refuse_place)
    path = "/v1/nodes/n1/states/power"
    answer = waiting.put(path, {"target": "power on"}, headers=WAIT)
    assert answer.status == 202
    assert len(recorder.calls) == 1


@pytest.mark.parametrize("path", ["/nodes/n1/maintenance", "/nodes/maintenance/{node}"])
def test_maintenance_waits_for_the_lock(
    waiting: Client, add_node: AddNode, busy: Busy, path: str
) -> None:
    node = add_node(name="n1")["uuid"]
    path = f"/v1{path.format(node=node)}"
    assert (waiting.put(path, {"reason": "r"}).status, waiting.delete(path).body) == (202, b"")
    assert waiting.put(path, {"reason": "r"}, headers=ASYNC).headers[APPLIED] == "respond-async"
    with busy.locked(node, 1):
        answer = waiting.delete(path, headers=WAIT)
    assert (answer.status, answer.headers[APPLIED]) == (200, "wait=20")
    assert answer.json == {"node": node, "maintenance": False}
    answer = waiting.put(path, {"reason": "r"}, headers=WAIT)
    assert (answer.status, answer.json["maintenance"]) == (200, True)


@pytest.mark.parametrize(
    ("asked", "body", "call"),
    [
        ("POST vmedia 204", MEDIA, "attach_virtual_media"),
        ("DELETE vmedia 204", None, "detach_virtual_media"),
        ("DELETE vmedia/cdrom 204", None, "detach_virtual_media"),
        ("PUT states/boot_mode 202", {"target": "uefi"}, "change_node_boot_mode"),
        ("PUT states/console 202", {"enabled": True}, "set_console_mode"),
        ("POST vendor_passthru?method=blink 202", {}, "vendor_passthru"),
        ("DELETE vendor_passthru/blink 202", None, "vendor_passthru"),
    ],
)
def test_operation_answers_with_its_end(  # noqa: PLR0917  # fixtures and one row of the table
    waiting: Client,
    add_node: AddNode,
    busy: Busy,
    recorder: Recorder,
    asked: str,
    body: Any,
    call: str,
) -> None:
    node = add_node(name="n1", provision_state="manageable")["uuid"]
    method, path, plain = asked.split()

    def ask(headers: Any) -> Any:
        return waiting.request(method, f"/v1/nodes/n1/{path}", body, headers=headers)

    recorder.answers[call] = BEGUN
    answer = ask(None)
    assert (answer.status, answer.body, APPLIED in answer.headers) == (int(plain), b"", False)
    answer = ask(ASYNC)
    assert (answer.status, answer.headers[APPLIED]) == (int(plain), "respond-async")
    answer = ask(SHORT)
    assert (answer.status, answer.body, answer.headers[APPLIED]) == (202, b"", "wait=1")
    busy.ends(call, "end")
    answer = ask(WAIT)
    assert (answer.status, answer.headers[APPLIED]) == (200, "wait=20")
    assert answer.json == {"node": node, "kind": "management", "event": "end"}
    busy.ends(call, "fail")
    answer = ask(WAIT)
    assert (answer.status, answer.headers[APPLIED]) == (424, "wait=20")
    assert "the drive is stuck" in answer.text


def test_asynchronous_method_of_a_driver_has_no_end_to_wait_for(
    waiting: Client, recorder: Recorder
) -> None:
    recorder.answers["driver_vendor_passthru"] = BEGUN
    path = "/v1/drivers/fake-hardware/vendor_passthru?method=note"
    answer = waiting.post(path, {}, headers=WAIT)
    assert (answer.status, APPLIED in answer.headers) == (202, False)
    answer = waiting.post(path, {}, headers={"Prefer": "respond-async, wait=5"})
    assert (answer.status, answer.headers[APPLIED]) == (202, "respond-async")


def test_method_that_has_ended_answers_with_its_result(
    waiting: Client, add_node: AddNode, recorder: Recorder
) -> None:
    add_node(name="n1")
    recorder.answers["vendor_passthru"] = {"return": {"a": 1}, "async": False, "attach": False}
    answer = waiting.get("/v1/nodes/n1/vendor_passthru/show", headers=WAIT)
    assert (answer.status, answer.json, answer.headers[APPLIED]) == (200, {"a": 1}, "wait=20")


@pytest.mark.parametrize(
    ("path", "body", "call"),
    [
        ("management/inject_nmi", None, "inject_nmi"),
        ("management/boot_device", {"boot_device": "pxe"}, "set_boot_device"),
        ("management/indicators/led@system", {"state": "on"}, "set_indicator_state"),
        ("management/indicators/system/led", {"state": "on"}, "set_indicator_state"),
        ("states/raid", {}, "set_target_raid_config"),
    ],
)
def test_request_that_ends_at_once_waits_for_the_lock_alone(  # noqa: PLR0917  # as above
    waiting: Client,
    add_node: AddNode,
    busy: Busy,
    recorder: Recorder,
    path: str,
    body: Any,
    call: str,
) -> None:
    node = add_node(name="n1", provision_state="manageable")["uuid"]
    busy.refuses_while_locked(call)
    with busy.locked(node, 1):
        answer = waiting.put(f"/v1/nodes/n1/{path}", body, headers=WAIT)
    assert (answer.status, answer.body) == (204, b""), answer.text
    assert answer.headers[APPLIED] == "wait=20"
    assert len(recorder.calls) == 2


def test_list_of_steps_that_is_not_known_yet_is_waited_for(
    waiting: Client, add_node: AddNode, recorder: Recorder
) -> None:
    add_node(name="n1")
    step = {"interface": "deploy", "step": "x", "priority": 1, "abortable": True, "args": []}

    def answer(node_uuid: str) -> Any:
        if len(recorder.calls) < 3:
            raise errors.StepsUnavailable(node=node_uuid, seconds=1)
        return [step]

    recorder.answers["get_clean_steps"] = answer
    path = "/v1/nodes/n1/cleaning/steps"
    found = waiting.get(path)
    assert (found.status, found.headers["retry-request-after"]) == (202, "1")
    recorder.calls.clear()
    found = waiting.get(path, headers=WAIT)
    assert (found.status, found.json, found.headers[APPLIED]) == (200, [step], "wait=20")
    recorder.answers["get_clean_steps"] = errors.StepsUnavailable(node="n1", seconds=-1)
    found = waiting.get(path, headers=SHORT)
    assert (found.status, found.headers["retry-request-after"]) == (202, "-1")
