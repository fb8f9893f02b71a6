"""Consoles over HTTP, through all that happens to a node, its program and its conductor."""

from __future__ import annotations

import os
import pathlib
import shutil
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite.conductor.flows import consoles as flow
from ironic_lite.conductor.watch import sweep_threads
from ironic_lite.conductor.watch.local_state import Consoles
from ironic_lite.core import config
from ironic_lite.db.engine.session import Database
from ironic_lite.drivers import base
from ironic_lite.drivers.registry import Registry, Settings
from tests.support.conductor_fixture import configure, wait_for
from tests.support.operator import Operator
from tests.support.ports import free_port

Program = Callable[[str], pathlib.Path]
ENABLED = {
    "DEFAULT__default_boot_interface": "fake",
    "DEFAULT__default_deploy_interface": "fake",
    "DEFAULT__enabled_console_interfaces": ["ipmitool-socat", "no-console"],
    "DEFAULT__enabled_hardware_types": ["ipmi"],
    "DEFAULT__enabled_management_interfaces": ["ipmitool", "noop"],
    "DEFAULT__enabled_power_interfaces": ["ipmitool"],
    "DEFAULT__enabled_vendor_interfaces": ["no-vendor"],
}
NO_SWEEPS = {"console__subprocess_checking_interval": 3600}
"""Lets a test alone sweep: the sweep of the service could start a program before it."""
BMC = """
case "$*" in
    *"sol activate") echo ready; exec cat ;;
    *"power status") [ ! -e silent ] || { echo "Unable to establish" >&2; exit 1; }
        [ ! -e lost ] || { echo "Get Auth Capabilities error" >&2; exit 1; }
        echo "Chassis Power is $(cat power 2>/dev/null || echo on)" ;;
    *"power on" | *"power off") echo "$*" | sed "s/.* //" > power ;;
esac
"""
Serve = Callable[..., Operator]


@pytest.fixture
def serve(sqlite_database: Database) -> Iterator[Serve]:
    """A function that starts a service with drivers of its own."""
    if shutil.which("socat") is None:
        pytest.skip("NOT TESTED: socat not installed; make test installs it as root on Debian")
    started: list[Operator] = []

    def start(host: str = "here", **options: Any) -> Operator:
        registry = Registry.load(Settings.read(configure(**ENABLED)))
        assert registry.failures == {}
        values = {**ENABLED, **NO_SWEEPS, "DEFAULT__host": host, **options}
        started.append(Operator(sqlite_database, registry=registry, **values))
        return started[-1]

    yield start
    for operator in started:
        operator.close()
    # What is below stopped it: no test leaves a program behind.
    assert not any(console(operator).proxies() for operator in started)


@pytest.fixture(autouse=True)
def ports() -> Iterator[None]:
    found = [range(port, port + 1) for port in (free_port(), free_port())]
    config.CONF.set_override("port_range", found, group="console")
    yield
    config.CONF.clear_override("port_range", group="console")


@pytest.fixture
def folder(program: Program) -> pathlib.Path:
    """Where the BMC is told to be ``silent`` or ``lost``, by files of these names."""
    return program(BMC)


def console(operator: Operator) -> base.Console:
    found = operator.rig.service.runtime.registry.interfaces["console"]["ipmitool-socat"]
    assert isinstance(found, base.Console)
    return found


def enroll(operator: Operator, state: str = "enroll", **fields: Any) -> str:
    info = {"ipmi_address": "127.0.0.1", "ipmi_password": "secret"}
    return operator.enroll(state, driver="ipmi", driver_info=info, **fields)


def path(node: str) -> str:
    return f"/v1/nodes/{node}/states/console"


def switch(operator: Operator, node: str, enabled: bool) -> dict[str, Any]:
    assert operator.api.put(path(node), {"enabled": enabled}).status == 202
    operator.rig.settled(node)
    return dict(operator.api.get(path(node)).json)


def port(told: dict[str, Any]) -> int:
    info = told["console_info"]
    assert (told["console_enabled"], info["type"]) == (True, "socat")
    return int(info["url"].removeprefix("tcp://127.0.0.1:"))


def shown(operator: Operator, node: str) -> int:
    return port(dict(operator.api.get(path(node)).json))


def talks(where: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", where), 10) as line:
            return b"ready" in line.recv(100)
    except ConnectionRefusedError:
        return False


def sweep(operator: Operator) -> None:
    """Check all consoles, as the first sweep of a conductor does."""
    Consoles(operator.rig.tasks, operator.rig.service.ownership).sweep()


def kill(operator: Operator, node: str) -> None:
    proxy: Any = console(operator).proxies()[node]
    os.kill(proxy.pid, signal.SIGKILL)
    wait_for(lambda: not proxy.running)


OFF = {"console_enabled": False, "console_info": None}


def test_socat_console_is_the_default_if_enabled(serve: Serve, folder: pathlib.Path) -> None:
    operator = serve()
    node = enroll(operator)
    assert operator.shows(node)["console_interface"] == "ipmitool-socat"
    told = operator.api.get(f"/v1/nodes/{node}/validate").json["console"]
    assert told == {"result": True}
    assert operator.api.get(path(node)).json == OFF


def test_console_is_started_reached_and_stopped(serve: Serve, folder: pathlib.Path) -> None:
    operator = serve()
    node = enroll(operator)
    where = port(switch(operator, node, True))
    assert talks(where)
    notes = operator.shows(node)["driver_internal_info"]["driver_notes"]
    assert notes["ipmi_console_port"] == where
    assert operator.patches(node, console_interface="no-console").status == 409
    before = dict(console(operator).proxies())
    sweep(operator)
    operator.rig.sweep("moved nodes")
    assert operator.rig.service.runtime.workers.wait_idle(60)
    assert (console(operator).proxies(), shown(operator, node)) == (before, where)
    assert switch(operator, node, False) == OFF
    assert not talks(where)
    assert operator.patches(node, console_interface="no-console").status == 200


def test_console_failure_is_reported(serve: Serve, folder: pathlib.Path) -> None:
    operator = serve()
    node = enroll(operator)
    config.CONF.set_override("port_range", [], group="console")
    answer = operator.api.put(path(node), {"enabled": True})
    assert (answer.status, "driver_info/ipmi_terminal_port" in answer.text) == (400, True)
    told = operator.api.get(f"/v1/nodes/{node}/validate").json["console"]
    assert "driver_info/ipmi_terminal_port" in told["reason"]
    assert operator.patches(node, driver_info__ipmi_terminal_port=free_port()).status == 200
    (folder / "silent").touch()
    assert switch(operator, node, True) == OFF
    assert "Failed to start the console: The BMC at" in operator.shows(node)["last_error"]
    # Stopping is possible, whatever is wrong.
    assert operator.patches(node, driver_info__ipmi_protocol_version="1.5").status == 200
    assert switch(operator, node, False) == OFF


def test_a_program_that_ends_is_started_again(
    serve: Serve, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "LEAST_SECONDS", 0.0)
    operator = serve()
    node = enroll(operator)
    where = port(switch(operator, node, True))
    kill(operator, node)
    assert operator.api.get(path(node)).status == 503
    sweep(operator)
    assert shown(operator, node) == where
    assert talks(where)
    last = operator.rig.events(node, "management")[-1]
    assert (last["event"], last["data"]) == ("end", {"order": "console", "target": True})
    assert operator.shows(node)["last_error"] is None


def test_a_program_that_does_not_last_is_given_up(
    serve: Serve, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "LEAST_SECONDS", 3600.0)
    operator = serve()
    node = enroll(operator)
    switch(operator, node, True)
    kill(operator, node)
    sweep(operator)
    assert operator.api.get(path(node)).json == OFF
    assert "The console was stopped: its program ended" in operator.shows(node)["last_error"]
    assert console(operator).proxies() == {}


def test_a_bmc_that_is_silent_just_now_is_asked_again_later(
    serve: Serve, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(flow, "LEAST_SECONDS", 0.0)
    operator = serve()
    node = enroll(operator)
    where = port(switch(operator, node, True))
    kill(operator, node)
    (folder / "lost").touch()
    sweep(operator)
    assert operator.shows(node)["console_enabled"] is True
    (folder / "lost").unlink()
    sweep(operator)
    assert shown(operator, node) == where
    kill(operator, node)
    (folder / "silent").touch()  # but one that refuses is not
    sweep(operator)
    assert operator.api.get(path(node)).json == OFF
    assert "The console was stopped: The BMC at" in operator.shows(node)["last_error"]


def test_while_somebody_works_on_the_node_it_is_left_alone(
    serve: Serve, folder: pathlib.Path
) -> None:
    operator = serve()
    node = enroll(operator)
    where = port(switch(operator, node, True))
    with operator.rig.tasks.lock(operator.rig.who, node) as task:
        task.node.console_enabled = False  # as an order that is about to be saved
        task.save()
        sweep(operator)
        assert talks(where)
    sweep(operator)
    assert not talks(where)


def test_sweep_without_a_change_reads_no_nodes(
    serve: Serve, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = serve()
    watch = Consoles(operator.rig.tasks, operator.rig.service.ownership)
    node = enroll(operator)
    switch(operator, node, True)
    looked: list[int] = []
    real = watch._lost

    def look(*args: Any) -> Any:
        looked.append(1)
        return real(*args)

    monkeypatch.setattr(watch, "_lost", look)
    for _ in range(3):
        watch.sweep()
    assert len(looked) == 1
    kill(operator, node)
    for _ in range(3):
        watch.sweep()
    assert len(looked) == 2


def test_sweeps_ask_a_driver_that_hangs_only_once(
    serve: Serve, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = serve()
    watch = Consoles(operator.rig.tasks, operator.rig.service.ownership)
    node = enroll(operator)
    switch(operator, node, True)
    asked, opened = threading.Semaphore(0), threading.Event()

    def hang(_node: Any) -> None:
        asked.release()
        opened.wait(60)

    monkeypatch.setattr(watch, "_restore_console", hang)
    monkeypatch.setattr(sweep_threads, "HANG_SECONDS", 0.2)
    try:
        kill(operator, node)
        watch.sweep()
        assert asked.acquire(timeout=60)
        watch._next = 0
        watch.sweep()
        assert not asked.acquire(blocking=False)
    finally:
        opened.set()


def test_option_is_the_interval_of_the_sweep(serve: Serve) -> None:
    operator = serve(console__subprocess_checking_interval=1)
    assert operator.rig.service.sweeps.plan["consoles"].interval == 1


def test_a_conductor_without_such_consoles_never_looks(sqlite_database: Database) -> None:
    operator = Operator(sqlite_database)
    assert operator.rig.service.sweeps.plan["consoles"].interval == 0
    operator.close()


# -- the node, or its conductor, goes away ----------------------------------------------------


def test_console_ends_with_the_node(serve: Serve, folder: pathlib.Path) -> None:
    operator = serve()
    node = enroll(operator)
    where = port(switch(operator, node, True))
    assert operator.api.request("DELETE", f"/v1/nodes/{node}").status == 204
    assert not talks(where)


def test_console_ends_with_the_instance(serve: Serve, folder: pathlib.Path) -> None:
    operator = serve()
    node = enroll(operator, "active")
    where = port(switch(operator, node, True))
    operator.provision(node, "deleted")
    waits = {"console_enabled": True, "console_info": {}}  # for the next instance, as in Ironic
    assert operator.api.get(path(node)).json == waits
    assert not talks(where)
    sweep(operator)
    assert operator.api.get(path(node)).json == waits
    assert not talks(where)


def test_a_conductor_takes_it_along_and_finds_it_again(serve: Serve, folder: pathlib.Path) -> None:
    first = serve()
    node = enroll(first)
    where = port(switch(first, node, True))
    first.close()
    assert not talks(where)
    second = serve()
    assert second.api.get(path(node)).status == 503
    sweep(second)
    assert shown(second, node) == where
    assert talks(where)


def test_a_node_that_moves_takes_it_along(
    serve: Serve, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = serve("one")
    node = enroll(first)
    where = port(switch(first, node, True))
    second = serve("two")
    owner = {"now": "two"}
    for one, host in ((first, "one"), (second, "two")):
        fleet = one.rig.service.ownership
        monkeypatch.setattr(fleet, "mine", lambda _row, host=host: owner["now"] == host)
    sweep(second)
    (proxy,) = console(second).proxies().values()
    assert proxy.running
    there = int(getattr(proxy, "port"))  # noqa: B009  # of Program, not of Proxy
    assert there != where and talks(there)
    sweep(first)
    assert (console(first).proxies(), talks(where), talks(there)) == ({}, False, True)
    owner["now"] = "one"  # and back: the other one has gone
    second.rig.bury()
    console(second).close()
    sweep(first)
    assert list(console(first).proxies()) == [node]


def test_a_program_whose_node_is_gone_is_ended(
    serve: Serve, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = serve()
    node = enroll(operator)
    where = port(switch(operator, node, True))
    monkeypatch.setattr(type(console(operator)), "let_go", lambda *_args: None)
    assert operator.api.request("DELETE", f"/v1/nodes/{node}").status == 204
    assert talks(where)  # another conductor has deleted it
    monkeypatch.undo()
    sweep(operator)
    assert not talks(where)
