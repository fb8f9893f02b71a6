"""Work that hangs for ever: its node fails plainly, and nothing else suffers."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import oslo_messaging
import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.conductor import service
from ironic_lite.conductor.endpoints.interceptors import WithDeadline
from ironic_lite.conductor.engine import locks
from ironic_lite.conductor.engine.workers import Workers
from ironic_lite.drivers import deadline
from ironic_lite.drivers.fake import hardware
from ironic_lite.drivers.registry import Registry
from ironic_lite.rpc import server, stub, transport
from tests.flows.test_locks import seize
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for

DEPLOYED = {"instance_info": {"image_source": "http://images/a.qcow2", "root_gb": 1}}


class Trap:
    """Drivers one method of which hangs until the trap is opened."""

    def __init__(self) -> None:
        self.method = ""
        self.caught: list[str] = []
        self.opened = threading.Event()

    def drivers(self) -> Registry:
        return cast(Registry, crashes.Drivers(drivers(), self._around))

    def _around(self, kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == self.method:
            self.caught.append(f"{kind}.{name}")
            self.opened.wait(60)
        return call()


@pytest.fixture
def trap() -> Iterator[Trap]:
    found = Trap()
    yield found
    found.opened.set()


@pytest.fixture
def trapped(build: Callable[..., ConductorFixture], trap: Trap) -> ConductorFixture:
    return build(registry=trap.drivers(), conductor__work_timeout=1)


def clean(rig: ConductorFixture, node: str) -> None:
    rig.ask("clean", node, clean_steps=listed("raid.delete_configuration"))


def act(verb: str) -> Callable[[ConductorFixture, str], None]:
    return lambda rig, node: rig.ask(verb, node)


STATES: dict[str, tuple[str, str, Callable[[ConductorFixture, str], None], str]] = {
    "verifying": ("enroll", "get_power_state", act("manage"), "enroll"),
    "cleaning": ("manageable", "execute_clean_step", clean, "clean failed"),
    "inspecting": (
        "manageable",
        "inspect_hardware",
        lambda rig, node: rig.ask("inspect", node),
        "inspect failed",
    ),
    "adopting": ("manageable", "adopt", act("adopt"), "adopt failed"),
    "deploying": (
        "available",
        "execute_deploy_step",
        lambda rig, node: rig.ask("deploy", node),
        "deploy failed",
    ),
    "deleting": (
        "active",
        "tear_down",
        lambda rig, node: rig.ask("delete", node),
        "error",
    ),
    "rescuing": (
        "active",
        "rescue",
        lambda rig, node: rig.ask("rescue", node, rescue_password="secret-1"),
        "rescue failed",
    ),
    "unrescuing": (
        "rescue",
        "unrescue",
        lambda rig, node: rig.ask("unrescue", node),
        "unrescue failed",
    ),
    "servicing": (
        "active",
        "execute_service_step",
        lambda rig, node: rig.ask("service", node, service_steps=listed("bios.factory_reset")),
        "service failed",
    ),
}
"""How each busy state is entered from a state, the method that hangs in it, and where it ends."""


@pytest.mark.parametrize("name", STATES)
def test_a_busy_state_in_which_the_driver_hangs_fails(
    trapped: ConductorFixture, trap: Trap, name: str
) -> None:
    before, trap.method, ask, after = STATES[name]
    node = trapped.node(before, **DEPLOYED)
    ask(trapped, node)
    row = trapped.reaches(node, after)
    assert "hangs" in row["last_error"]
    assert "UTC" in row["last_error"]
    assert "[conductor]work_timeout" in row["last_error"]
    assert len(trap.caught) == 1, "what hangs is not asked again"
    assert trapped.service.runtime.workers.wait_idle(60)
    trap.opened.set()
    assert trapped.get(node) == row
    run = trapped.run(node)
    assert (run["state"], run["code"]) == ("failed", "TimedOut")
    facts = run["error"]["cause"]["facts"]
    assert (facts["option"], facts["limit"]) == ("[conductor]work_timeout", 1)
    assert facts["since"].endswith("+00:00")


def test_a_wait_in_which_a_poll_hangs_fails(trapped: ConductorFixture, trap: Trap) -> None:
    node = trapped.node(fake_async_steps=["*"], fake_step_seconds=3600)
    trapped.clean(node, "raid.delete_configuration")
    trap.method = "poll_step"
    trapped.ring(node)
    row = trapped.reaches(node, "clean failed")
    assert "[conductor]work_timeout" in row["last_error"]
    assert trap.caught == ["raid.poll_step"]
    assert trapped.run(node)["state"] == "failed"


def test_abort_of_a_failed_service_that_hangs_fails(trapped: ConductorFixture, trap: Trap) -> None:
    trap.method = "tear_down_service"
    node = trapped.node("service failed")
    trapped.ask("abort", node)
    row = wait_for(lambda: (found := trapped.get(node))["run_uuid"] is None and found)
    assert row["provision_state"] == "service failed"
    assert "[conductor]work_timeout" in row["last_error"]
    assert "untidied" not in row["driver_internal_info"]
    assert trapped.run(node)["state"] == "failed"
    trapped.settled(node)
    with pytest.raises(errors.NothingToRetry, match="was an abort, which has no steps"):
        trapped.ask("retry", node)


def test_a_power_change_that_hangs_ends(trapped: ConductorFixture, trap: Trap) -> None:
    trap.method = "set_power_state"
    node = trapped.node("active", power_state="power off")
    trapped.ask("change_node_power_state", node, target="power on")
    row = wait_for(lambda: (found := trapped.get(node))["target_power_state"] is None and found)
    assert "hangs" in row["last_error"]
    assert trapped.settled(node)["provision_state"] == "active"
    told = next(one for one in trapped.events(node, "power") if one["event"] == "fail")
    assert told["data"]["cause"]["facts"]["option"] == "[conductor]work_timeout"


def test_hanging_work_touches_nothing_when_it_goes_on(
    trapped: ConductorFixture, trap: Trap, caplog: pytest.LogCaptureFixture
) -> None:
    trap.method = "execute_clean_step"
    node = trapped.node()
    clean(trapped, node)
    row = trapped.reaches(node, "clean failed")
    trap.opened.set()
    wait_for(lambda: f"Node {node}: the lock was lost" in caplog.text)
    assert trapped.get(node) == row


def test_step_that_hangs_again_after_a_restart_fails_again(
    build: Callable[..., ConductorFixture], trap: Trap
) -> None:
    trap.method = "execute_clean_step"
    first = build(registry=trap.drivers())
    node = first.node()
    clean(first, node)
    wait_for(lambda: trap.caught)
    first.bury()
    again = build(registry=trap.drivers(), conductor__work_timeout=1)
    row = again.reaches(node, "clean failed")
    assert "hangs" in row["last_error"]
    assert len(trap.caught) == 2


def test_a_stop_does_not_wait_for_what_was_given_up(trapped: ConductorFixture, trap: Trap) -> None:
    trap.method = "execute_clean_step"
    node = trapped.node()
    clean(trapped, node)
    trapped.reaches(node, "clean failed")
    assert trapped.service.stop(timeout=30)


def test_a_full_pool_of_hanging_work_is_replaced(
    build: Callable[..., ConductorFixture], trap: Trap
) -> None:
    trap.method = "execute_clean_step"
    rig = build(registry=trap.drivers(), conductor__work_timeout=1, conductor__workers_pool_size=4)
    found = [rig.node() for _ in range(3)]
    for node in found:
        clean(rig, node)
    wait_for(lambda: len(trap.caught) == 3)
    for node in found:
        rig.reaches(node, "clean failed")
    trap.method = ""
    assert rig.act("provide", rig.node())["provision_state"] == "available"


def test_places_of_hanging_work_are_replaced_up_to_the_size() -> None:
    workers, opened = Workers(1, reserve_percent=0), threading.Event()

    def hang() -> None:
        opened.wait(30)

    for _ in range(2):
        workers.claim()
        workers.run(hang).free_slot()
    assert workers.busy == 1, "the second one hangs beyond the bound"
    with pytest.raises(errors.NoFreeWorker):
        workers.claim()
    opened.set()
    assert workers.wait_idle(60)
    workers.claim()
    workers.close()


def test_progress_of_a_child_is_progress_of_its_parent() -> None:
    parent, child = locks.Lock("a", "parent"), locks.Lock("b", "child")
    child.above = parent
    child.note_progress()
    assert (parent.progress, child.progress) == (1, 1)


def test_work_that_only_pauses_ends_at_its_limit(build: Callable[..., ConductorFixture]) -> None:
    rig = build(conductor__work_timeout=0, conductor__busy_timeout=1)
    node = rig.node(fake_step_seconds=600)
    rig.ask("clean", node, clean_steps=listed("raid.delete_configuration"))
    row = rig.reaches(node, "clean failed")
    assert "[conductor]busy_timeout" in row["last_error"]


def test_a_database_that_is_away_is_no_fault_of_the_work(
    trapped: ConductorFixture, trap: Trap, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap.method = "execute_clean_step"
    trapped.service.keepalive.stop()
    later = locks.steady() + 3600
    monkeypatch.setattr(locks, "steady", lambda: later)
    node = trapped.node()
    clean(trapped, node)
    wait_for(lambda: trap.caught)
    for _ in range(10):
        trapped.service.hung.sweep()
    threading.Event().wait(1.5)
    assert trapped.get(node)["provision_state"] == "cleaning"


def test_hung_work_whose_lock_was_lost_hides_no_other_that_hangs(
    trapped: ConductorFixture, trap: Trap
) -> None:
    """A lost lock stays lost: not all leases can be renewed until its work is given up."""
    trap.method = "execute_clean_step"
    lost, other = trapped.node(), trapped.node()
    clean(trapped, lost)
    wait_for(lambda: len(trap.caught) == 1)
    seize(trapped.database, lost, "theirs")
    trapped.service.keepalive.beat()
    clean(trapped, other)
    row = trapped.reaches(other, "clean failed")
    assert "[conductor]work_timeout" in row["last_error"]
    assert trapped.get(lost)["lock_token"] == "theirs"
    trapped.service.keepalive.beat()
    assert trapped.service.runtime.fence.holds(0)


# Who waits for an answer hears of a slow machine in time; work that nobody waits for has time.


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What a driver had when it was asked, in seconds."""
    found: list[float] = []

    def boot_device(*_: Any) -> dict[str, Any]:
        found.append(deadline.seconds_left())
        return {}

    monkeypatch.setattr(hardware.FakeManagement, "get_boot_device", boot_device)
    monkeypatch.setattr(hardware.FakeManagement, "set_boot_mode", boot_device)
    return found


def test_a_driver_has_less_time_than_its_caller_and_a_worker_has_all(
    rig: ConductorFixture, left: list[float]
) -> None:
    node = rig.node("active")
    endpoints = stub.connect(stub.to(rig.endpoints), WithDeadline(50.0))
    endpoints.get_boot_device(rig.who, node_uuid=node)
    assert 0 < left.pop() <= 50
    endpoints.change_node_boot_mode(rig.who, node_uuid=node, mode="uefi")
    rig.settled(node)
    assert left == [math.inf]
    assert deadline.seconds_left() == math.inf


def test_calls_over_rpc_have_it_from_the_time_of_rpc(
    rig: ConductorFixture, left: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[Any] = []

    def serve(_transport: object, _host: str, door: object) -> SimpleNamespace:
        served.append(door)
        return SimpleNamespace(threads=64)

    monkeypatch.setattr(service, "Server", serve)
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[], default_config_dirs=[])
    url = oslo_messaging.TransportURL.parse(conf, "fake:///")
    messaging = transport.Messaging(oslo_messaging.get_rpc_transport(conf, url), url)
    server.answer_seconds(messaging)
    conf.set_override("rpc_response_timeout", 20)
    runtime = rig.service.runtime
    service.ConductorService(runtime.conf, runtime.database, runtime.registry, messaging)
    served[0].get_boot_device(rig.who, node_uuid=rig.node("active"))
    assert 15 < left.pop() <= 18
