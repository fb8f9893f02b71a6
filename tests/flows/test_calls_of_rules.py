"""Inspection rules call others by HTTP, while the inspection waits."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.flows.test_inspection_rules import act, inspected, rule
from tests.flows.test_locks import seize
from tests.support.conductor_fixture import ConductorFixture, wait_for
from tests.support.ports import free_port

Build = Callable[..., ConductorFixture]


class Cmdb:
    """A server that answers with these, the last one for ever, and notes what it was asked."""

    def __init__(self, *statuses: int) -> None:
        self.asked: list[tuple[str, str | None]] = []
        self.meanwhile: Callable[[], None] = lambda: None
        left, cmdb = list(statuses), self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                cmdb.asked.append((self.path, self.headers.get("X-Node")))
                cmdb.meanwhile()
                status = left.pop(0) if len(left) > 1 else left[0]
                self.send_response(status, "s3same")  # servers repeat what they were sent
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args: Any) -> None:
                """Say nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def serve() -> Iterator[Callable[..., Cmdb]]:
    made: list[Cmdb] = []

    def start(*statuses: int) -> Cmdb:
        made.append(Cmdb(*statuses))
        return made[-1]

    yield start
    for one in made:
        one.close()


def call(url: str, **args: Any) -> dict[str, Any]:
    return act("api-call", **{"url": url, "retries": 2, "backoff_factor": 0, **args})


def test_an_inspection_is_told(rig: ConductorFixture, serve: Callable[..., Cmdb]) -> None:
    cmdb = serve(204)
    url = f"{cmdb.url}/seen/{{inventory[cpu][count]}}"
    rule(rig, call(url, headers={"X-Node": "{node.uuid}"}))
    row = rig.reaches(inspected(rig)["uuid"], "manageable")
    assert cmdb.asked == [(f"/seen/{row['properties']['cpus']}", row["uuid"])]


def test_a_server_that_is_busy_is_asked_again(
    rig: ConductorFixture, serve: Callable[..., Cmdb]
) -> None:
    cmdb = serve(503, 429, 200)
    rule(rig, call(cmdb.url))
    rig.reaches(inspected(rig)["uuid"], "manageable")
    assert len(cmdb.asked) == 3


@pytest.mark.parametrize(("status", "tries"), [(404, 1), (503, 3)])
def test_a_call_that_fails_fails_the_inspection_and_nothing_of_the_rules_is_kept(
    rig: ConductorFixture, serve: Callable[..., Cmdb], status: int, tries: int
) -> None:
    cmdb = serve(status)
    put = act("set-attribute", path="extra/half", value=1)
    uuid = rule(rig, put, call(cmdb.url.replace("//", "//me:s3same@") + "/s3same?s3same"))
    row = rig.reaches(inspected(rig)["uuid"], "inspect failed")
    assert len(cmdb.asked) == tries
    assert f"Inspection rule {uuid}: api-call: {cmdb.url} cannot be called" in row["last_error"]
    assert f"replies {status}" in row["last_error"]
    assert "s3same" not in row["last_error"]
    assert row["extra"] == {}


def test_call_to_a_server_that_is_away_fails_the_inspection(rig: ConductorFixture) -> None:
    rule(rig, call(f"http://127.0.0.1:{free_port()}", retries=0))
    row = rig.reaches(inspected(rig)["uuid"], "inspect failed")
    assert "cannot be called: connection refused" in row["last_error"]


def test_blocked_networks_are_not_called(build: Build, serve: Callable[..., Cmdb]) -> None:
    cmdb = serve(200)
    rig = build(conductor__image_blocked_networks=["127.0.0.0/8"])
    rule(rig, call(cmdb.url, retries=0))
    row = rig.reaches(inspected(rig)["uuid"], "inspect failed")
    assert "image_blocked_networks" in row["last_error"]
    assert cmdb.asked == []


def test_a_conductor_that_has_lost_the_node_calls_no_more(
    rig: ConductorFixture, serve: Callable[..., Cmdb]
) -> None:
    cmdb = serve(503)
    rule(rig, call(cmdb.url))
    node = rig.node("manageable")

    def lose() -> None:
        seize(rig.database, node, "theirs")
        rig.service.runtime.fence.doubt(0)

    cmdb.meanwhile = lose
    rig.ask("inspect_hardware", node)
    assert rig.service.runtime.workers.wait_idle(10)
    assert len(cmdb.asked) == 1
    row = rig.get(node)
    assert (row["provision_state"], row["lock_token"]) == ("inspecting", "theirs")


def test_a_conductor_that_stops_leaves_the_inspection_to_another(
    build: Build, serve: Callable[..., Cmdb]
) -> None:
    cmdb, rig = serve(503, 200), build()
    rule(rig, call(cmdb.url, backoff_factor=60))
    node = rig.node("manageable")
    rig.ask("inspect_hardware", node)
    wait_for(lambda: cmdb.asked)
    rig.service.stop(timeout=0.01)
    assert rig.get(node)["provision_state"] == "inspecting"
    other = build(DEFAULT__host="there")
    other.service.orphans.sweep()
    assert other.reaches(node, "manageable")["last_error"] is None
    assert len(cmdb.asked) == 2
