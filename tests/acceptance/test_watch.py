"""Events, waits and streams of a real service, asked with curl and with sockets."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
import signal
import socket
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.support import service
from tests.support.service import API_UP, HOST, PATIENCE, Service

pytestmark = pytest.mark.feature("events")

ROOT = pathlib.Path(__file__).parents[2]
PLACES = 6
MORE = f"[api]\nmax_watchers = {PLACES}\nmax_wait = 60\n"
FAILING = {"fake_fail_steps": {"deploy.erase_devices": "disk 3"}}
WRONG = {"fake_fail_verify": "no"}


@pytest.fixture(scope="module")
def fleet() -> Iterator[Service]:
    """One service for the tests of this module."""
    with service.service(MORE) as found:
        found.start()
        found.up()
        yield found


def curl(*words: str) -> subprocess.CompletedProcess[str]:
    """Run curl as a user does; its exit status is the answer."""
    program = shutil.which("curl")
    if program is None:
        pytest.skip("curl is not installed: install it to run this test")
    command = [program, "-sS", "--max-time", f"{PATIENCE:g}", *words]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=2 * PATIENCE, check=False
    )


def lines(answer: Any) -> Iterator[dict[str, Any]]:
    """Iterate over the lines of a stream as they come, each chunk as a whole."""
    return map(json.loads, answer.iter_lines(chunk_size=None))


def stream(fleet: Service, query: str) -> Any:
    url = f"{fleet.url}/v1/events?follow=true&{query}"
    return fleet.session.get(url, stream=True, timeout=PATIENCE)


def test_wait_answers_when_the_state_is_reached(fleet: Service) -> None:
    fleet.create("w1", driver_info={"fake_step_seconds": 1})
    fleet.ask("PUT", "/v1/nodes/w1/states/provision", {"target": "manage"})
    url = f"{fleet.url}/v1/nodes/w1?wait=50&until=manageable&fields=provision_state"
    done = curl("-f", "--retry", "9", url)
    assert (done.returncode, json.loads(done.stdout)["provision_state"]) == (0, "manageable")
    again = fleet.ask("GET", "/v1/nodes/w1/states?wait=50&until=manageable,active")
    assert (again.status_code, again.json()["provision_state"]) == (200, "manageable")
    assert fleet.ask("GET", "/v1/nodes/w1?wait=50&until=idle").status_code == 200


def test_wait_for_a_node_that_fails_makes_curl_exit_22(fleet: Service) -> None:
    fleet.create("w2", driver_info={"fake_step_seconds": 1, **FAILING})
    fleet.provision("w2", "manage", "manageable")
    fleet.ask("PUT", "/v1/nodes/w2/states/provision", {"target": "provide"})
    url = f"{fleet.url}/v1/nodes/w2?wait=50&until=available"
    done = curl("-f", "--retry", "9", url)
    assert (done.returncode, "424" in done.stderr) == (22, True), done
    answer = fleet.ask("GET", "/v1/nodes/w2?wait=50&until=available")
    run = fleet.get("/v1/nodes/w2/runs")["runs"][0]["uuid"]
    assert answer.status_code == 424
    assert "disk 3" in answer.text
    assert answer.headers["Link"].endswith(f'/runs/{run}>; rel="monitor"')


def test_wait_that_is_not_over_answers_504_with_retry_after(fleet: Service) -> None:
    fleet.create("w3")
    began = time.monotonic()
    answer = fleet.ask("GET", "/v1/nodes/w3?wait=1&until=active")
    assert (answer.status_code, answer.headers["Retry-After"]) == (504, "1")
    assert time.monotonic() - began >= 0.9


@pytest.mark.parametrize(
    ("query", "named"),
    [
        ("wait=5", "until"),
        ("until=active", "wait"),
        ("wait=0&until=active", "wait"),
        ("wait=x&until=active", "wait"),
        ("wait=5&until=nowhere", "until"),
    ],
)
def test_malformed_wait_is_refused_at_once(fleet: Service, query: str, named: str) -> None:
    fleet.ask("POST", "/v1/nodes", {"driver": "fake-hardware", "name": "w4"})
    for path in ("/v1/nodes/w4", "/v1/nodes/w4/states"):
        answer = fleet.ask("GET", f"{path}?{query}")
        assert (answer.status_code, named in answer.text) == (400, True), answer.text


def test_current_run_is_waited_for_to_its_end(fleet: Service) -> None:
    fleet.create("w5", driver_info={"fake_step_seconds": 1})
    fleet.provision("w5", "manage", "manageable")
    fleet.ask("PUT", "/v1/nodes/w5/states/provision", {"target": "provide"})
    run = fleet.ask("GET", "/v1/nodes/w5/runs/current?wait=50").json()
    assert (run["verb"], run["state"]) == ("provide", "done")
    known = f"/v1/nodes/w5/runs/{run['uuid']}"
    assert fleet.ask("GET", f"{known}?wait=5&until=done").status_code == 200
    assert fleet.ask("GET", f"{known}?wait=5&until=waiting").status_code == 424


def test_preferred_wait_answers_with_the_run(fleet: Service) -> None:
    fleet.create("w6", driver_info={"fake_step_seconds": 1})
    url, prefer = f"{fleet.url}/v1/nodes/w6/states/provision", {"Prefer": "wait=50"}
    answer = fleet.session.put(url, json={"target": "manage"}, headers=prefer, timeout=PATIENCE)
    assert (answer.status_code, answer.headers["Preference-Applied"]) == (200, "wait=50")
    run = answer.json()
    assert (run["verb"], run["state"]) == ("manage", "done")
    assert answer.headers["Link"].endswith(f'/runs/{run["uuid"]}>; rel="monitor"')
    plain = fleet.session.put(url, json={"target": "provide"}, timeout=PATIENCE)
    assert (plain.status_code, plain.content) == (202, b"")
    assert 'rel="monitor"' in plain.headers["Link"]
    fleet.settled("w6", "available")


def test_preferred_wait_for_a_failing_verb_is_424(fleet: Service) -> None:
    fleet.create("w7", driver_info=FAILING)
    fleet.provision("w7", "manage", "manageable")
    url, prefer = f"{fleet.url}/v1/nodes/w7/states/provision", {"Prefer": "wait=50"}
    answer = fleet.session.put(url, json={"target": "provide"}, headers=prefer, timeout=PATIENCE)
    assert (answer.status_code, "disk 3" in answer.text) == (424, True)
    assert answer.headers["Preference-Applied"] == "wait=50"


def test_preferred_wait_for_the_abort_of_a_failed_service_is_200(fleet: Service) -> None:
    fleet.create("w12", driver_info={"fake_fail_steps": {"vendor.log_passthrough": "no"}})
    for verb, state in (("manage", "manageable"), ("provide", "available"), ("active", "active")):
        fleet.provision("w12", verb, state)
    steps = [{"interface": "vendor", "step": "log_passthrough"}]
    url, prefer = f"{fleet.url}/v1/nodes/w12/states/provision", {"Prefer": "wait=50"}
    body: dict[str, Any] = {"target": "service", "service_steps": steps}
    answer = fleet.session.put(url, json=body, headers=prefer, timeout=PATIENCE)
    assert answer.status_code == 424
    assert fleet.ask("DELETE", "/v1/nodes/w12/maintenance").status_code == 202
    answer = fleet.session.put(url, json={"target": "abort"}, headers=prefer, timeout=PATIENCE)
    assert (answer.status_code, answer.json()["verb"]) == (200, "abort"), answer.text
    assert fleet.get("/v1/nodes/w12")["provision_state"] == "active"


def test_preferred_wait_that_is_too_short_is_202_with_the_run(fleet: Service) -> None:
    fleet.create("w8", driver_info={"fake_step_seconds": 5})
    url = f"{fleet.url}/v1/nodes/w8/states/provision"
    headers = {"Prefer": "wait=1"}
    answer = fleet.session.put(url, json={"target": "manage"}, headers=headers, timeout=PATIENCE)
    assert (answer.status_code, answer.json()["state"]) == (202, "running")
    fleet.settled("w8", "manageable")


def test_preferred_wait_holds_out_for_a_locked_node(fleet: Service) -> None:
    fleet.create("w9", driver_info={"fake_step_seconds": 4})
    fleet.ask("PUT", "/v1/nodes/w9/states/provision", {"target": "manage"})
    url = f"{fleet.url}/v1/nodes/w9/states/power"
    prefer = {"Prefer": "respond-async, wait=50"}
    body = {"target": "power on"}
    answer = fleet.session.put(url, json=body, headers=prefer, timeout=PATIENCE)
    assert (answer.status_code, answer.content) == (202, b"")
    fleet.settled("w9", "manageable")
    prefer = {"Prefer": "wait=50"}
    body = {"target": "power off"}
    answer = fleet.session.put(url, json=body, headers=prefer, timeout=PATIENCE)
    assert (answer.status_code, answer.json()["event"]) == (200, "end")


def test_locked_node_of_a_service_costs_two_calls_of_its_conductor(fleet: Service) -> None:
    fleet.create("w11", driver_info={"fake_step_seconds": 3})
    fleet.ask("PUT", "/v1/nodes/w11/states/provision", {"target": "manage"})
    fleet.get("/v1/nodes/w11?wait=50&until=verifying,manageable")
    before = _power_calls(fleet)
    url, prefer = f"{fleet.url}/v1/nodes/w11/states/power", {"Prefer": "wait=50"}
    answer = fleet.session.put(url, json={"target": "power on"}, headers=prefer, timeout=PATIENCE)
    assert (answer.status_code, answer.headers["Preference-Applied"]) == (200, "wait=50")
    assert _power_calls(fleet) - before <= 2


def _power_calls(fleet: Service) -> float:
    text = fleet.ask("GET", "/metrics").text
    method = 'method="change_node_power_state"'
    lines = (line for line in text.splitlines() if "rpc_calls_total{" in line and method in line)
    return sum(float(line.rpartition(" ")[2]) for line in lines)


@pytest.mark.parametrize("prefer", ["", "wait=", "wait=x", "return=minimal", ";;,"])
def test_broken_preferences_are_ignored(fleet: Service, prefer: str) -> None:
    fleet.ask("POST", "/v1/nodes", {"driver": "fake-hardware", "name": "w10"})
    url, headers = f"{fleet.url}/v1/nodes/w10/states/power", {"Prefer": prefer}
    answer = fleet.session.put(url, json={"target": "power on"}, headers=headers, timeout=PATIENCE)
    assert answer.status_code in (202, 409)
    assert "Preference-Applied" not in answer.headers


def test_events_come_in_pages_with_a_cursor(fleet: Service) -> None:
    node = fleet.create("e1")
    first = fleet.get("/v1/events?node=e1&since=0")
    assert [event["kind"] for event in first["events"]] == ["node_created"]
    assert fleet.get(f"/v1/events?node=e1&since={first['cursor']}")["events"] == []
    fleet.provision("e1", "manage", "manageable")
    moves = fleet.get(f"/v1/events?node={node}&since={first['cursor']}&kind=provision")
    assert [event["event"] for event in moves["events"]] == ["manage", "done"]
    assert {event["name"] for event in moves["events"]} == {"e1"}
    one = fleet.get("/v1/events?node=e1&since=0&limit=1")
    rest = fleet.get(f"/v1/events?node=e1&since={one['cursor']}")
    ids = [event["cursor"] for event in (*one["events"], *rest["events"])]
    assert ids == sorted(set(ids), key=int)
    newest = fleet.get("/v1/events?node=e1&limit=1")
    assert newest["events"] == rest["events"][-1:]


def script_of_the_page() -> str:
    """Return the script of docs/watching.rst that must not miss an event."""
    text = (ROOT / "docs" / "watching.rst").read_text()
    blocks = text.split(".. code-block:: none\n\n")[1:]
    found = [block.split("\n\n")[0] for block in blocks if 'handle "$line"' in block]
    assert len(found) == 1
    return found[0]


def test_script_of_the_page_misses_no_event(fleet: Service, tmp_path: pathlib.Path) -> None:
    """Its handler fails once for each event, and its first connection is cut before a line."""
    for program in ("sh", "curl", "jq"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: install it to run this test")
    handled = tmp_path / "handled"
    handler = f"""api={fleet.url}/v1
      curl() {{  # the first stream sends nothing, and its events happen meanwhile
        case "$*" in *follow*)
          if [ ! -e cut ]; then
            while [ ! -e go ]; do sleep 0.1; done
            : > cut; return
          fi;;
        esac
        command curl "$@"
      }}
      handle() {{
        case "$1" in *node_created*) ;; *) return 0;; esac
        name=$(printf %s "$1" | jq -r .name)
        [ -e "tried-$name" ] || {{ : > "tried-$name"; return 1; }}
        echo "$name" >> handled
      }}
      """
    command = ["sh", "-c", handler + script_of_the_page()]
    follower = subprocess.Popen(command, cwd=tmp_path, start_new_session=True)
    try:
        service.until((tmp_path / "cursor").exists, "the first cursor")
        names = ["miss-1", "miss-2", "miss-3"]
        for name in names:
            fleet.create(name)
        (tmp_path / "go").touch()
        service.until(lambda: handled.exists() and names[-1] in handled.read_text(), "the events")
    finally:
        os.killpg(follower.pid, signal.SIGKILL)
        follower.wait()
    assert [name for name in handled.read_text().split() if name in names] == names


def test_long_poll_answers_with_the_first_event(fleet: Service) -> None:
    fleet.create("e2")
    cursor = fleet.get("/v1/events?since=now")["cursor"]
    found: list[Any] = []
    asker = threading.Thread(
        target=lambda: found.append(
            fleet.session.get(
                f"{fleet.url}/v1/events?node=e2&since={cursor}&wait=50&kind=provision",
                timeout=PATIENCE,
            ).json()
        )
    )
    asker.start()
    fleet.create("e2-other")
    fleet.ask("PUT", "/v1/nodes/e2/states/provision", {"target": "manage"})
    asker.join(PATIENCE)
    assert [event["event"] for event in found[0]["events"]][:1] == ["manage"]


def test_quiet_filter_moves_its_cursor(fleet: Service) -> None:
    fleet.create("e3")
    before = fleet.get("/v1/events?since=now")["cursor"]
    fleet.create("e3-other")
    after = fleet.get(f"/v1/events?node=e3&since={before}&wait=1")
    assert after["events"] == []
    assert int(after["cursor"]) > int(before)


def test_stream_sends_lines_as_events_happen(fleet: Service) -> None:
    fleet.create("s1")
    with stream(fleet, "since=now&node=s1&kind=provision&limit=2") as answer:
        assert answer.headers["Content-Type"] == "application/x-ndjson"
        assert "Content-Length" not in answer.headers
        told = lines(answer)
        assert list(next(told)) == ["cursor"], "the first line comes before any event"
        fleet.ask("PUT", "/v1/nodes/s1/states/provision", {"target": "manage"})
        found = list(told)
    assert [line.get("event", line.get("end")) for line in found] == ["manage", "done", "limit"]
    assert found[2]["cursor"] == found[1]["cursor"]


def test_too_many_watchers_are_refused_and_places_come_back(fleet: Service) -> None:
    fleet.create("s2")
    with contextlib.ExitStack() as open_streams:
        for _ in range(PLACES):
            open_streams.enter_context(stream(fleet, "since=0&node=s2"))
        answer = fleet.ask("GET", "/v1/nodes/s2?wait=5&until=active")
        assert (answer.status_code, "max_watchers" in answer.text) == (503, True)
        assert fleet.ask("GET", "/v1/nodes/s2").status_code == 200, "ordinary requests go on"

    def free() -> bool:
        return fleet.ask("GET", "/v1/nodes/s2?wait=1&until=enroll,active").status_code == 200

    with contextlib.ExitStack() as again:

        def all_free() -> bool:
            with contextlib.ExitStack() as several:
                answers = [several.enter_context(stream(fleet, "since=0")) for _ in range(PLACES)]
                return all(answer.status_code == 200 for answer in answers)

        service.until(all_free, "all places")
        del again
    service.until(free, "a place for a wait")


def test_clients_that_read_nothing_take_little_memory_and_give_their_places_back() -> None:
    """A stream ends after 4 MiB, so that is all that a stalled client can make the API keep."""
    with service.service(MORE) as found, contextlib.ExitStack() as stalled:
        program = found.start()
        found.up()
        node = found.create("m1")
        _write_events(found, node, 40_000)
        api = psutil.Process(program.pids(API_UP)[-1])
        before = api.memory_info().rss
        for _ in range(PLACES):
            line = socket.socket()
            stalled.enter_context(line)
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.connect((HOST, found.port))
            line.sendall(b"GET /v1/events?follow=true&since=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        service.until(
            lambda: found.ask("GET", "/v1/nodes/m1?wait=5&until=enroll").status_code == 200,
            "a place for a wait",
        )
        assert api.memory_info().rss - before < PLACES * 10 * 2**20
        cursor, count = "0", 0
        while count < 40_000:
            with stream(found, f"since={cursor}&node=m1") as answer:
                if answer.status_code == 503:  # the stalled streams have not all ended
                    time.sleep(0.1)
                    continue
                for told in lines(answer):
                    cursor = told["cursor"]
                    if "end" in told:
                        assert told["end"] == "size"
                        break
                    count += "kind" in told
                    if count == 40_001:
                        break


def _write_events(found: Service, node: str, count: int) -> None:
    """Add events to the table, with numbers like those of a long life."""
    (path,) = found.folder.rglob("*.sqlite")
    row = ("2026-01-01 00:00:00.000000", node, "power", "end", json.dumps({"x": "y" * 200}))
    with contextlib.closing(sqlite3.connect(path, timeout=PATIENCE)) as database, database:
        database.executemany(
            "INSERT INTO events (at, node_uuid, kind, event, data) VALUES (?, ?, ?, ?, ?)",
            [row] * count,
        )


def test_stop_ends_streams_and_waits_politely() -> None:
    with service.service(MORE) as found:
        program = found.start()
        found.up()
        found.create("c1")
        answers: list[Any] = []
        url = f"{found.url}/v1/nodes/c1?wait=50&until=active"
        waiter = threading.Thread(
            target=lambda: answers.append(found.session.get(url, timeout=PATIENCE))
        )
        with stream(found, "since=0&node=c1") as answer:
            told = lines(answer)
            assert "kind" not in next(told)
            assert next(told)["kind"] == "node_created"
            waiter.start()
            time.sleep(1)
            program.process.send_signal(signal.SIGTERM)
            last = list(told)
        waiter.join(PATIENCE)
        assert last[-1]["end"] == "closing"
        assert answers[0].status_code == 504
        assert program.process.wait(PATIENCE) == 0


def test_stalled_and_broken_followers_leave_the_process_as_it_was(fleet: Service) -> None:
    (program,) = fleet.running()
    api = psutil.Process(program.pids(API_UP)[-1])
    fleet.ask("GET", "/v1/events?since=now&wait=1")
    before = api.num_fds()
    for _ in range(20):
        with contextlib.closing(socket.create_connection((HOST, fleet.port), PATIENCE)) as line:
            line.sendall(b"GET /v1/events?follow=true&since=0 HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert line.recv(12) == b"HTTP/1.1 200"[:12]
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        time.sleep(0.05)
    service.until(lambda: api.num_fds() <= before + 2, "the descriptors of the clients")
