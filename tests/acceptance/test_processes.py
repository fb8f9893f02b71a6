"""The processes of the service start, stop, die and come back, and leave nothing behind."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator

import bcrypt
import psutil
import pytest
import requests

from tests.emulators import redfish
from tests.support import service
from tests.support.real_socket import baremetal
from tests.support.service import API_UP, CONDUCTOR_UP, Program, Service


@pytest.fixture
def fresh() -> Iterator[Service]:
    """A configuration with nothing started yet, for tests of the start itself."""
    with service.service(warm=False) as found:
        yield found


@pytest.fixture
def quick() -> Iterator[Service]:
    """A configuration whose programs are forked, for tests of what comes after the start."""
    with service.service() as found:
        yield found


def kill(program: Program, line: str) -> None:
    """Kill the process that logged such a line last, and wait until another has logged it."""
    before = program.pids(line)
    os.kill(before[-1], signal.SIGKILL)
    service.until(lambda: len(program.pids(line)) > len(before), "another one")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGQUIT])
def test_service_starts_from_nothing_answers_and_stops_on_a_signal(
    fresh: Service, number: signal.Signals
) -> None:
    program = fresh.start()
    fresh.up()
    assert fresh.get("/v1/nodes") == {"nodes": []}
    processes = service.family(program.pid)
    assert len(processes) == 3
    assert program.stop(number) == 0
    assert service.gone(processes)
    assert "Traceback" not in program.said()


def test_ctrl_c_in_a_terminal_reaches_all_processes_and_still_stops_them_in_order(
    fresh: Service,
) -> None:
    program = fresh.start()
    fresh.up()
    os.killpg(program.pid, signal.SIGINT)
    assert program.process.wait(service.PATIENCE) == 0
    assert "started again" not in program.said()


def test_service_keeps_its_nodes_over_a_restart(fresh: Service) -> None:
    program = fresh.start()
    fresh.up()
    node = fresh.create("kept")
    program.stop()
    fresh.start()
    fresh.up()
    assert fresh.get("/v1/nodes/kept")["uuid"] == node


def test_a_killed_api_comes_back(quick: Service) -> None:
    program = quick.start()
    quick.up()
    node = quick.create("kept")
    before = program.pids(API_UP)
    killed = psutil.Process(before[-1])
    killed.kill()
    service.until(lambda: not service.alive(killed), "its death")
    quick.session.close()
    found = service.until(lambda: quick.get("/v1/nodes/kept"), "the next process")
    assert found["uuid"] == node
    assert len(program.pids(API_UP)) == len(before) + 1


def test_a_killed_conductor_comes_back(quick: Service) -> None:
    program = quick.start()
    quick.up()
    quick.create("worked-on")
    kill(program, CONDUCTOR_UP)
    assert quick.provision("worked-on", "manage", "manageable")["last_error"] is None
    assert "conductor ended by SIGKILL; it is restarted" in program.said()


def test_a_killed_supervisor_leaves_nothing_and_frees_the_port(quick: Service) -> None:
    program = quick.start()
    quick.up()
    processes = service.family(program.pid)
    program.stop(signal.SIGKILL)
    service.until(lambda: service.gone(processes), "all of them gone")
    quick.start()
    quick.up()


def test_every_api_worker_that_is_killed_comes_back() -> None:
    with service.service("[api]\nworkers = 3\n") as found:
        program = found.start()
        service.until(lambda: len(program.pids(API_UP)) == 3, "three workers")
        for pid in program.pids(API_UP):
            os.kill(pid, signal.SIGKILL)
        service.until(lambda: len(program.pids(API_UP)) == 6, "three more")
        found.up()
        assert len(service.family(program.pid)) == 5


def test_sigterm_lets_a_request_finish_that_waits_for_a_machine(quick: Service) -> None:
    program = quick.start()
    quick.up()
    with socket.create_server((service.HOST, 0)) as bmc:
        address = f"http://{service.HOST}:{bmc.getsockname()[1]}"
        quick.create(
            "slow",
            driver="redfish",
            driver_info={"redfish_address": address, "redfish_system_id": "/redfish/v1/Systems/1"},
        )
        path = f"{quick.url}/v1/nodes/slow/management/boot_device"
        fetch = f"import requests; print(requests.get({path!r}, timeout=60).status_code)"
        with subprocess.Popen(
            [sys.executable, "-c", fetch], stdout=subprocess.PIPE, env=service.environment()
        ) as client:
            bmc.settimeout(service.PATIENCE)
            line, _ = bmc.accept()
            program.process.send_signal(signal.SIGTERM)
            service.until(lambda: "Stopping" in program.said(), "the signal taken")
            service.until(lambda: refused(quick), "a closed door")
            # Only now the machine says anything, which is not worth much.
            bmc.close()
            line.close()
            answered, _ = client.communicate(timeout=service.PATIENCE)
    assert 400 <= int(answered) < 600
    assert program.process.wait(service.PATIENCE) == 0


def refused(asked: Service) -> bool:
    try:
        socket.create_connection((service.HOST, asked.port), timeout=1).close()
    except ConnectionRefusedError:
        return True
    return False


def test_sigterm_lets_a_request_finish_that_is_still_arriving(quick: Service) -> None:
    program = quick.start()
    quick.up()
    body = b'{"driver": "fake-hardware", "name": "late"}'
    with socket.create_connection((service.HOST, quick.port), timeout=service.PATIENCE) as line:
        line.sendall(
            b"POST /v1/nodes HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            b"Expect: 100-continue\r\nContent-Length: %d\r\n\r\n" % len(body)
        )
        assert line.recv(100).startswith(b"HTTP/1.1 100 ")
        program.process.send_signal(signal.SIGTERM)
        service.until(lambda: refused(quick), "a closed door")
        line.sendall(body)
        assert line.recv(4096).startswith(b"HTTP/1.1 201 ")
    assert program.process.wait(service.PATIENCE) == 0


def test_a_conductor_killed_during_a_clean_does_the_step_again_and_finishes(
    quick: Service,
) -> None:
    program = quick.start()
    quick.up()
    quick.create("cleaned", driver_info={"fake_step_seconds": 1})
    quick.provision("cleaned", "manage", "manageable")
    steps = [
        {"interface": "management", "step": "reset_bmc"},
        {"interface": "power", "step": "cycle"},
    ]
    body = {"target": "clean", "clean_steps": steps}
    assert quick.ask("PUT", "/v1/nodes/cleaned/states/provision", body).status_code == 202

    def second_step_runs() -> bool:
        step = quick.get("/v1/nodes/cleaned")["clean_step"]
        return bool(step and step["step"] == "cycle")

    service.until(second_step_runs, "the second step")
    kill(program, CONDUCTOR_UP)
    assert quick.settled("cleaned", "manageable")["last_error"] is None
    assert attempts(quick, "cleaned") == {"reset_bmc": (1, "done"), "cycle": (2, "done")}


def attempts(asked: Service, name: str) -> dict[str, tuple[int, str]]:
    """Return how often each step of a node's clean was begun, and how it ended."""
    query = (
        "SELECT step, attempt, run_steps.state FROM run_steps "
        "JOIN runs ON runs.uuid = run_steps.run_uuid JOIN nodes ON nodes.uuid = node_uuid "
        "WHERE name = ? AND verb = 'clean'"
    )
    path = asked.folder / "state" / "ironic-lite.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as database:
        return {row[0]: (row[1], row[2]) for row in database.execute(query, (name,))}


@pytest.mark.parametrize("damage", ["removed", "cut"])
def test_log_of_sqlite_that_is_lost_is_noticed_at_once(quick: Service, damage: str) -> None:
    """A removed log holds all rows as long as the service runs; a cut one has lost some."""
    program = quick.start()
    quick.up()
    quick.create("before")
    log = quick.folder / "state" / "ironic-lite.sqlite-wal"
    if damage == "removed":
        log.unlink()
    else:
        os.truncate(log, 0)
    for number in range(5):
        body = {"driver": "fake-hardware", "name": f"after-{number}"}
        answer = quick.ask("POST", "/v1/nodes", body)
        assert answer.status_code == 503
        assert f"-wal has been {damage} while it was in use" in answer.text
    assert quick.ask("GET", "/v1/nodes").status_code == 503
    assert quick.ask("GET", "/readyz").status_code == 503
    if damage == "removed":
        program.stop()
        quick.start()
        quick.up()
        assert [node["name"] for node in quick.get("/v1/nodes")["nodes"]] == ["before"]


def test_without_a_conductor_the_api_reads_and_says_who_is_away(quick: Service) -> None:
    program = quick.start()
    quick.up()
    quick.create("alone")
    program.stop()
    quick.start("ironic-lite-api")
    service.until(lambda: quick.get("/v1/nodes/alone"), "the API")
    answer = quick.ask("PUT", "/v1/nodes/alone/states/provision", {"target": "manage"})
    assert answer.status_code == 503
    assert "conductor" in answer.json()["error_message"]
    assert quick.get("/v1/nodes/alone")["provision_state"] == "enroll"


def test_the_parts_run_apart_and_find_each_other(fresh: Service) -> None:
    assert fresh.start("ironic-lite-api").process.wait(service.PATIENCE) == 1
    sync = [str(service.SCRIPTS / "ironic-lite-dbsync"), "--config-file", str(fresh.settings)]
    subprocess.run([*sync, "upgrade"], check=True, capture_output=True, timeout=60)
    programs = [fresh.start("ironic-lite-api"), fresh.start("ironic-lite-conductor")]
    fresh.up()
    fresh.create("shared")
    assert fresh.provision("shared", "manage", "manageable")["last_error"] is None
    processes = [one for program in programs for one in service.family(program.pid)]
    assert [program.stop() for program in programs] == [0, 0]
    assert service.gone(processes)


def test_a_second_service_on_the_same_port_is_refused_and_the_first_goes_on(
    quick: Service,
) -> None:
    quick.start()
    quick.up()
    second = quick.start()
    assert second.process.wait(service.PATIENCE) == 1
    assert second.said().count("\n") == 1
    assert "Address already in use" in second.said()
    assert quick.get("/v1/nodes") == {"nodes": []}


def test_service_offers_tls_to_the_users_of_a_file_and_keeps_secrets() -> None:
    with service.short_folder() as keys:
        certificate, key = redfish.certificate(keys)
        users = keys / "htpasswd"
        users.write_text(f"ann:{bcrypt.hashpw(b'sesame', bcrypt.gensalt(4)).decode()}\n")
        more = (
            f"auth_strategy = http_basic\nhost = {service.HOST}\n"
            "enable_ssl_api = true\n"  # and the certificate where files of Ironic have it
            f"[ssl]\ncert_file = {certificate}\nkey_file = {key}\n"
            f"[DEFAULT]\nhttp_basic_auth_user_file = {users}\n"
            f"[database]\nencryption_keys = {'A' * 43}=\n"
        )
        with service.service(f"[api]\n{more}", scheme="https") as found:
            found.session.verify = str(certificate)
            found.session.auth = ("ann", "sesame")
            found.start()
            found.up()
            assert found.get("/v1/nodes") == {"nodes": []}
            links = found.get("/v1")["links"]
            assert links[0]["href"].startswith("https://")
            found.create("metal", instance_info={"password": "pLaNtEd"})
            known = ("--os-auth-type", "http_basic", "--os-cacert", str(certificate))
            login = (*known, "--os-username", "ann", "--os-password")
            listed = ("node", "list", "-f", "value", "-c", "Name")
            done = baremetal(found.url, *login, "sesame", *listed)
            assert (done.returncode, done.stdout) == (0, "metal\n"), done.stderr
            done = baremetal(found.url, *login, "wrong", *listed)
            assert (done.returncode, "401" in done.stderr) == (1, True), done.stderr
            found.session.auth = ("ann", "wrong")
            assert found.ask("GET", "/v1/nodes").status_code == 401
            stored = b"".join(each.read_bytes() for each in found.folder.glob("state/*sqlite*"))
            assert b"metal" in stored
            assert b"pLaNtEd" not in stored
            with pytest.raises(requests.ConnectionError):
                requests.get(f"http://{service.HOST}:{found.port}/v1", timeout=service.PATIENCE)


def test_nothing_starts_without_the_keys_of_the_database() -> None:
    keys = f"[database]\nencryption_keys = {'A' * 43}=\n"
    with service.service(keys) as found:
        first = found.start()
        found.up()
        found.create("metal", driver_info={"redfish_password": "s"})
        first.stop()
        text = found.settings.read_text(encoding="utf-8")
        found.settings.write_text(text.replace(keys, ""), encoding="utf-8")
        for script in ("ironic-lite", "ironic-lite-api", "ironic-lite-conductor"):
            program = found.start(script)
            assert program.process.wait(service.PATIENCE) == 1
            (said,) = program.lines()
            assert said.startswith(f"{script}: The database has values that were encrypted with")


def test_a_client_that_sends_ten_megabytes_without_asking_is_told_so(quick: Service) -> None:
    quick.start()
    quick.up()
    body = b'{"extra": "' + b"x" * 10_000_000 + b'"}'
    head = (
        f"POST /v1/nodes HTTP/1.1\r\nHost: {service.HOST}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.create_connection((service.HOST, quick.port), service.PATIENCE) as wire:
        wire.sendall(head.encode() + body)
        answer = b""
        while part := wire.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"faultstring" in answer
