"""The log of a run on real processes: a Redfish emulator, a real agent, streams."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import http_nodes, machine_room, service
from tests.support.service import PATIENCE, Service

FAILING = {"fake_fail_steps": {"deploy.erase_devices": "disk 3"}}


@pytest.fixture(scope="module")
def fleet() -> Iterator[Service]:
    """One service for the tests of this module."""
    with service.service() as found:
        found.start()
        found.up()
        yield found


def stream(found: Service, node: str, run: str = "current") -> Any:
    url = f"{found.url}/v1/nodes/{node}/runs/{run}/log?follow=true"
    return found.session.get(url, stream=True, timeout=PATIENCE)


def lines(answer: Any) -> Iterator[str]:
    """Iterate over the lines of a stream that are not empty."""
    for line in answer.iter_lines(chunk_size=None):
        if line:
            yield line.decode()


def test_failed_clean_of_a_redfish_machine_shows_bmc_agent_and_ramdisk() -> None:
    words = "disk sda is on fire"
    with machine_room.serve() as room:
        node = room.enrol(0)
        room.cleans(node, "scrub", "break_down", break_down={"words": f"{words} token=hunter2"})
        with stream(room.up, node) as answer:
            followed = list(lines(answer))
        room.reaches(node, "clean failed")
        answer = room.up.ask("GET", f"/v1/nodes/{node}/runs/current/log")
    log = answer.text.splitlines()
    assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
    texts = [line[28:] for line in log]
    stages = [
        "run      clean, manageable -> cleaning",
        "bmc      POST /redfish/v1/",
        "agent    first heartbeat, version ",
        "agent    command clean.execute_clean_step: ",
        "run      deploy.scrub is done",
        "run      deploy.break_down failed: ",
        "run      fail, ",
    ]
    places = [next((n for n, text in enumerate(texts) if text.startswith(s)), -1) for s in stages]
    assert -1 not in places, (places, log)
    assert places == sorted(places), (places, log)
    assert any(words in text for text in texts)
    assert "hunter2" not in answer.text
    assert "agent_token=" not in answer.text.replace("agent_token=******", "")
    assert any(text.startswith("ramdisk ") for text in texts), log
    assert set(followed) <= set(log)
    assert any(" failed: " in line for line in followed), followed


def test_stream_shows_lines_as_they_come_and_ends_with_the_run(fleet: Service) -> None:
    http_nodes.enrol(fleet, node="l1", driver_info={"fake_step_seconds": 2})
    http_nodes.asks(fleet, "provide", node="l1")
    run = fleet.get("/v1/nodes/l1/runs")["runs"][0]["uuid"]
    with stream(fleet, "l1") as answer:
        assert answer.headers["Content-Type"] == "text/plain; charset=utf-8"
        assert "Content-Length" not in answer.headers
        coming = lines(answer)
        assert "provide, manageable -> cleaning" in next(coming)
        state = fleet.get(f"/v1/nodes/l1/runs/{run}")["state"]
        rest = list(coming)
    assert state == "running"
    assert "Automated cleaning has ended well" in "".join(rest[-2:]), rest
    assert len(rest) == len(set(rest))
    fleet.settled("l1", "available")


def test_stream_of_a_failed_run_ends_with_its_error(fleet: Service) -> None:
    http_nodes.enrol(fleet, node="l2", driver_info={"fake_step_seconds": 1, **FAILING})
    http_nodes.asks(fleet, "provide", node="l2")
    with stream(fleet, "l2") as answer:
        found = list(lines(answer))
    assert "fail, cleaning -> clean failed" in found[-1], found
    assert any("deploy.erase_devices failed: " in line and "disk 3" in line for line in found)


def test_stop_of_the_service_ends_a_stream_politely() -> None:
    with service.service() as found:
        program = found.start()
        found.up()
        info = {"fake_async_steps": ["*"], "fake_step_seconds": 3600}
        http_nodes.enrol(found, node="l3")
        patch = [{"op": "add", "path": "/driver_info", "value": info}]
        assert found.ask("PATCH", "/v1/nodes/l3", patch).status_code == 200
        http_nodes.asks(found, "provide", node="l3")
        http_nodes.reaches(found, "clean wait", node="l3")
        with stream(found, "l3") as answer:
            coming = lines(answer)
            next(coming)
            timer = threading.Timer(1.0, lambda: program.process.send_signal(signal.SIGTERM))
            timer.start()
            last = list(coming)
            timer.join()
        assert last[-1].endswith("(this stream ends: closing; ask again to go on)")
        assert program.process.wait(PATIENCE) == 0


def test_log_of_a_run_with_a_killed_conductor_reads_on() -> None:
    with service.service() as found:
        found.start()
        found.up()
        http_nodes.enrol(found, node="l4", driver_info={"fake_step_seconds": 4})
        http_nodes.asks(found, "provide", node="l4")
        service.until(
            lambda: "begins" in found.ask("GET", "/v1/nodes/l4/runs/current/log").text, "a step"
        )
        for one in found.running():
            one.clear()
        found.start()
        found.up()
        found.settled("l4", "available")
        log = found.ask("GET", "/v1/nodes/l4/runs/current/log").text
    texts = [line[37:] for line in log.splitlines()]
    assert texts[0].startswith("provide, manageable -> cleaning")
    assert any(text.startswith("Taken over from the conductor") for text in texts), log
    assert any(text.endswith(" runs again") for text in texts), log
    assert "Automated cleaning has ended well" in texts[-2], log
