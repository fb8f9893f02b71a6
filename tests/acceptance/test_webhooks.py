"""Webhooks of real processes: conductors that are killed, and the receiver of the page."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import membership
from tests.support.docs_pages import DOCS
from tests.support.ports import free_port
from tests.support.service import (
    CONDUCTOR_UP,
    PATIENCE,
    Program,
    Service,
    environment,
    service,
    until,
)
from tests.support.webhook_receiver import Receiver

pytestmark = pytest.mark.feature("webhooks")

SETTINGS = """\
heartbeat_interval = 1
heartbeat_timeout = 3
hash_ring_reset_interval = 1
[webhooks]
allow_http = true
allowed_networks = 127.0.0.0/8
"""
HOSTS = ("one", "two")
_PROGRAM = re.compile(r"\.\. code-block:: python\n\n((?:   .*\n|\n)+)")


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with Receiver().serving() as made:
        yield made


def add_hook(found: Service, url: str) -> dict[str, Any]:
    answer = found.ask("POST", "/v1/webhooks", {"url": url, "since": "0"})
    assert answer.status_code == 201, answer.text
    made: dict[str, Any] = answer.json()
    return made


def hook_of(found: Service, made: dict[str, Any]) -> dict[str, Any]:
    answer: dict[str, Any] = found.ask("GET", f"/v1/webhooks/{made['uuid']}").json()
    return answer


def newest(found: Service) -> int:
    events = found.get("/v1/events?since=0")["events"]
    return int(events[-1]["cursor"])


def up(program: Program) -> Program:
    until(lambda: program.pids(CONDUCTOR_UP), "the conductor")
    return program


def test_delivery_is_repeated_by_the_next_conductor_after_a_kill(receiver: Receiver) -> None:
    """The first conductor dies between the POST and its result, and so does its heir."""
    with service(SETTINGS) as found:
        assert found.start("ironic-lite-dbsync", "upgrade").process.wait(PATIENCE) == 0
        programs = {host: found.start("ironic-lite-conductor", host=host) for host in HOSTS}
        for program in programs.values():
            up(program)
        found.start("ironic-lite-api")
        until(lambda: found.get("/v1/nodes"), "the API")
        found.create("r1")
        receiver.held.clear()
        made = add_hook(found, receiver.url)
        until(lambda: receiver.got, "the first delivery")

        first = membership.responsible([membership.Member(host) for host in HOSTS], made["uuid"])
        assert first is not None
        programs.pop(first).clear()
        assert hook_of(found, made)["cursor"] == "0"
        found.create("r2")  # an event that the repetition must not have
        until(lambda: len(receiver.got) == 2, "the delivery of the other conductor")

        (heir,) = programs
        programs[heir].clear()
        assert hook_of(found, made)["cursor"] == "0"
        receiver.held.set()
        up(found.start("ironic-lite-conductor", host=heir))
        until(lambda: len(receiver.got) >= 3, "the delivery after the restart")
        end = newest(found)
        until(lambda: hook_of(found, made)["cursor"] == str(end), "the last event")

    tries = receiver.got[:3]
    assert len({headers["webhook-id"] for headers, _ in tries}) == 1
    assert len({body for _, body in tries}) == 1
    later = [event["cursor"] for _, body in receiver.got[2:] for event in _events(body)]
    assert later == sorted(set(later), key=int)
    assert later[-1] == str(end)


def _events(body: bytes) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(body)["data"]["events"]
    return events


def test_the_receiver_of_the_page_verifies_a_delivery(tmp_path: Any) -> None:
    (text,) = _PROGRAM.findall((DOCS / "webhooks.rst").read_text(encoding="utf-8"))
    program = tmp_path / "receiver.py"
    program.write_text(textwrap.dedent(text), encoding="utf-8")
    port = free_port()
    with service(SETTINGS) as found:
        found.start("ironic-lite")
        found.up()
        found.create("r1")
        found.provision("r1", "manage", "manageable")
        end = newest(found)
        made = add_hook(found, f"http://127.0.0.1:{port}/")
        for secret, cursor, status in (("whsec_AAAA", "0", 401), (made["secret"], str(end), 204)):
            with subprocess.Popen(
                [sys.executable, str(program)],
                env=environment(PORT=str(port), SECRET=secret),
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            ) as running:
                try:
                    change = {"op": "replace", "path": "/state", "value": "active"}

                    def told(status: int = status, change: Any = change) -> bool:
                        if hook_of(found, made)["last_status"] == status:
                            return True
                        # No pause of a minute after a try at which nobody listened yet.
                        found.ask("PATCH", f"/v1/webhooks/{made['uuid']}", [change])
                        return False

                    until(told, f"status {status}")
                    # Each PATCH is an event, too.
                    assert int(hook_of(found, made)["cursor"]) >= int(cursor)
                    assert (hook_of(found, made)["cursor"] == "0") is (status == 401)
                finally:
                    running.kill()
                assert running.stdout is not None
                printed = running.stdout.read().splitlines()
            assert bool(printed) is (status == 204)
    cursors = [int(line.split()[0]) for line in printed]
    assert cursors == sorted(set(cursors))
    assert cursors[-1] >= end
    assert any(" provision " in line for line in printed)
