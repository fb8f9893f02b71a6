"""``baremetal node wait`` and ``node run watch``: exit statuses, lines, picture on a terminal."""

from __future__ import annotations

import os
import pty
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import service
from tests.support.real_socket import baremetal, to_run
from tests.support.service import PATIENCE, Service

pytestmark = pytest.mark.feature("events")

CLEAN = {"target": "clean", "clean_steps": [{"interface": "deploy", "step": "erase_devices"}]}
FAILING = {"fake_fail_steps": {"deploy.erase_devices": "disk 3"}}


@pytest.fixture(scope="module")
def fleet() -> Iterator[Service]:
    """One service for the tests of this module."""
    with service.service() as found:
        found.start()
        found.up()
        yield found


def manageable(fleet: Service, name: str, **info: Any) -> None:
    fleet.create(name, driver_info=info)
    fleet.provision(name, "manage", "manageable")


def watched(fleet: Service, *words: str) -> tuple[int, str, str]:
    done = baremetal(fleet.url, "node", *words)
    return done.returncode, done.stdout, done.stderr


def test_wait_exits_with_the_status_of_its_end(fleet: Service) -> None:
    manageable(fleet, "w1", **FAILING)
    assert watched(fleet, "wait", "w1", "--until", "manageable")[:2] == (0, "manageable\n")
    status, _, said = watched(fleet, "wait", "nobody", "--until", "manageable")
    assert (status, "nobody" in said) == (1, True)
    assert watched(fleet, "wait", "w1")[0] == 2
    assert watched(fleet, "wait", "w1", "--until", "active", "--within", "1")[0] == 75
    fleet.ask("PUT", "/v1/nodes/w1/states/provision", CLEAN)
    status, _, said = watched(fleet, "wait", "w1", "--until", "available")
    assert (status, "disk 3" in said) == (3, True)


def test_watch_prints_a_line_for_each_change_and_exits_with_the_status_of_the_run(
    fleet: Service,
) -> None:
    manageable(fleet, "r1", fake_step_seconds=1)
    fleet.ask("PUT", "/v1/nodes/r1/states/provision", CLEAN)
    status, said, _ = watched(fleet, "run", "watch", "r1", "--within", "60")
    lines = said.splitlines()
    assert (status, "\x1b" in said) == (0, False)
    assert lines[0].startswith("clean ")
    assert any("[1/1] deploy.erase_devices: done 0:01" in line for line in lines)
    assert lines[-1].startswith("clean: done after 0:0")
    manageable(fleet, "r2", **FAILING)
    fleet.ask("PUT", "/v1/nodes/r2/states/provision", CLEAN)
    status, said, _ = watched(fleet, "run", "watch", "r2")
    assert (status, "disk 3" in said.splitlines()[-1]) == (3, True)


def test_watch_tells_a_missing_run_a_wrong_line_and_a_long_run_apart(fleet: Service) -> None:
    fleet.create("r3", driver_info={"fake_step_seconds": 6})
    status, _, said = watched(fleet, "run", "watch", "r3")
    assert (status, "no runs" in said) == (1, True)
    assert watched(fleet, "run", "watch")[0] == 2
    fleet.ask("PUT", "/v1/nodes/r3/states/provision", {"target": "manage"})
    status, _, said = watched(fleet, "run", "watch", "r3", "--within", "1")
    assert (status, "goes on" in said) == (75, True)
    done = baremetal("http://127.0.0.1:9", "node", "run", "watch", "r3", "--within", "1")
    assert done.returncode == 1, "the service is not there"


def test_terminal_gets_a_picture_that_is_updated(fleet: Service) -> None:
    manageable(fleet, "r4", fake_step_seconds=12)
    fleet.ask("PUT", "/v1/nodes/r4/states/provision", CLEAN)
    asked = to_run(fleet.url, "node", "run", "watch", "r4", "--within", "60")
    ours, theirs = pty.openpty()
    read: list[bytes] = []

    def drain() -> None:
        try:
            while part := os.read(ours, 4096):
                read.append(part)
        except OSError:  # the program has ended
            return

    reader = threading.Thread(target=drain)
    env = {**asked["env"], "TERM": "xterm"}
    process = subprocess.Popen(
        asked["args"], env=env, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    reader.start()
    assert process.wait(PATIENCE) == 0
    reader.join(PATIENCE)
    os.close(ours)
    said = b"".join(read).decode()
    assert said.count("\x1b[J") >= 3, said
    assert "1. deploy.erase_devices  running 0:0" in said
    assert "[####################] 1/1" in said
