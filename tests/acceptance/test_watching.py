"""Those who watch the service see all its processes: counts are summed up, lines name requests."""

from __future__ import annotations

import os
import re
import signal
from typing import Any

import requests
from prometheus_client import parser

from tests.support import service

MANY = 40


def value(text: str, name: str, **labels: str) -> float:
    """Return one sample; 0 if it is not there."""
    for family in parser.text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == f"ironic_lite_{name}" and labels.items() <= sample.labels.items():
                return float(sample.value)
    return 0.0


def test_several_processes_are_watched_as_one() -> None:
    with service.service("[api]\nworkers = 2\n[conductor]\nheartbeat_interval = 1\n") as found:
        program = found.start()
        found.up()

        def scraped() -> str:
            return requests.get(f"{found.url}/metrics", timeout=60).text

        def listed() -> float:
            labels = {"method": "GET", "route": "/chassis", "code": "200"}
            return value(scraped(), "http_requests_total", **labels)

        for _ in range(MANY):  # each by a connection of its own, which either process may accept
            requests.get(f"{found.url}/v1/chassis", timeout=60).raise_for_status()
        assert {listed() for _ in range(10)} == {MANY}
        # A process that dies takes nothing along, and its successor counts on.
        before = program.pids(service.API_UP)
        os.kill(before[0], signal.SIGKILL)
        service.until(lambda: len(program.pids(service.API_UP)) > len(before), "another process")
        assert {listed() for _ in range(10)} == {MANY}

        found.create("watched")
        path = f"{found.url}/v1/nodes/watched/states/provision"
        answer = requests.put(path, json={"target": "manage"}, timeout=60)
        found.settled("watched", "manageable")
        request = answer.headers["X-OpenStack-Request-Id"]
        lines = [line for line in program.said().splitlines() if f"[{request}]" in line]
        (conductor,) = program.pids(service.CONDUCTOR_UP)
        assert re.search(rf" {conductor} INFO .*enroll -> verifying", "\n".join(lines))
        assert re.search(rf" {conductor} INFO .*verifying -> manageable", "\n".join(lines))
        # The API tells of it as well: what was asked, by whom, and what it answered.
        said = next(line for line in lines if " ironic_lite.api." in line)
        assert re.search(
            r"'PUT /v1/nodes/watched/states/provision' from 127\.\S+: 202 in 0\.", said
        )

        def told() -> Any:
            text = scraped()
            labels = {"verb": "manage", "result": "done", "conductor": "tester"}
            return text if value(text, "runs_total", **labels) == 1 else None

        text = str(service.until(told, "the conductor's counts"))
        assert value(text, "steps_total", kind="verify", result="done") >= 1
        assert value(text, "workers", state="most") > value(text, "workers", state="busy")
        assert value(text, "conductor_up", conductor="tester") == 1
        served = {"method": "do_provisioning_action", "result": "ok"}
        assert value(text, "rpc_served_total", **served) == 1
        assert value(text, "nodes", provision_state="manageable", maintenance="false") == 1
        assert requests.get(f"{found.url}/readyz", timeout=60).status_code == 200
