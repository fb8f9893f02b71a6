"""What flows cost the database: statements, and no transaction during a call."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed
from tests.support.statements import Statements, count_statements

# What a flow costs the database: statements counted, so that none creeps in.

FIRST, EACH = 13, 3


@pytest.fixture(autouse=True)
def no_timers(rig: ConductorFixture) -> None:
    """Stop the timers, whose own statements would be counted at times."""
    rig.service.timers.stop()


def cleaned(rig: ConductorFixture, steps: int) -> Statements:
    """Return the conductor's statements of a manual clean with steps that do nothing."""
    node = rig.node()
    with count_statements(rig.database) as sent:
        rig.ask("clean", node, clean_steps=listed(*["management.reset_bmc"] * steps))
        assert rig.service.runtime.workers.wait_idle(60)
    assert rig.get(node)["provision_state"] == "manageable"
    return sent


def test_a_manual_clean_with_one_step(rig: ConductorFixture) -> None:
    sent = cleaned(rig, 1)
    assert len(sent) <= FIRST, str(sent)


@pytest.mark.parametrize("steps", [2, 10])
def test_each_further_step(rig: ConductorFixture, steps: int) -> None:
    one, more = cleaned(rig, 1), cleaned(rig, steps)
    assert len(more) - len(one) <= EACH * (steps - 1), str(more)


@pytest.mark.parametrize(
    ("state", "method", "arguments", "most"),
    [
        ("enroll", "manage", {}, 12),
        ("manageable", "provide", {}, 21),
        ("available", "deploy", {}, 19),
        ("active", "delete", {}, 26),
        ("available", "destroy_node", {}, 6),
    ],
)
def test_a_verb_without_arguments(
    rig: ConductorFixture, state: str, method: str, arguments: dict[str, Any], most: int
) -> None:
    node = rig.node(state)
    with count_statements(rig.database) as sent:
        rig.ask(method, node, **arguments)
        assert rig.service.runtime.workers.wait_idle(60)
    assert len(sent) <= most, str(sent)


# Nobody waits for a machine with a transaction open: others would wait for both.

Work = Callable[[Connection], Any]


class Watch:
    """What is asked of drivers; ``inside``: while the same thread was at work in the database."""

    def __init__(self) -> None:
        self.asked: set[str] = set()
        self.inside: set[str] = set()
        self._here = threading.local()

    def around(self, kind: str, name: str, call: Callable[[], Any]) -> Any:
        """Stand around each call of a driver, as `mortal.Drivers` has it."""
        self.asked.add(f"{kind}.{name}")
        if getattr(self._here, "depth", 0):
            self.inside.add(f"{kind}.{name}")
        return call()

    def over(self, method: Callable[..., Any]) -> Callable[..., Any]:
        """Return ``Database.read`` or ``write`` with a mark on the thread during its work."""

        def marked(database: Database, work: Work, **more: Any) -> Any:
            def do(conn: Connection) -> Any:
                self._here.depth = getattr(self._here, "depth", 0) + 1
                try:
                    return work(conn)
                finally:
                    self._here.depth -= 1

            return method(database, do, **more)

        return marked


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    found = Watch()
    for name in ("read", "write"):
        monkeypatch.setattr(Database, name, found.over(getattr(Database, name)))
    return found


@pytest.fixture
def watched(watch: Watch, build: Callable[..., ConductorFixture]) -> ConductorFixture:
    more = ("get_boot_device", "set_boot_device", "set_indicator_state", "inject_nmi")
    return build(registry=cast(Registry, crashes.Drivers(drivers(), watch.around, more=more)))


def lead_a_life(rig: ConductorFixture) -> None:
    """Take a machine through every verb, change its power, and give it orders."""
    node = rig.node("enroll")
    rig.act("manage", node)
    rig.call("inspect", node)
    rig.clean(node, "deploy.erase_devices", "power.reboot")
    rig.act("provide", node)
    rig.call("deploy", node)
    rig.call("rebuild", node)
    rig.call("rescue", node, rescue_password="sesame")
    rig.call("unrescue", node)
    rig.call("service", node, service_steps=listed("bios.factory_reset"))
    rig.call("change_node_power_state", node, target="power off")
    rig.call("set_boot_device", node, device="pxe", persistent=False)
    rig.ask("get_boot_device", node)
    rig.ask("inject_nmi", node)
    rig.ask("validate_driver_interfaces", node)
    rig.sweep("power sync")
    assert rig.service.power.settle(10)
    assert rig.call("delete", node)["provision_state"] == "available"
    rig.act("manage", node)
    assert rig.act("adopt", node)["provision_state"] == "active"


def test_no_driver_is_called_with_a_transaction_open(
    watched: ConductorFixture, watch: Watch
) -> None:
    lead_a_life(watched)
    assert watch.inside == set()
    assert watch.asked >= {
        "power.set_power_state",
        "power.get_power_state",
        "deploy.execute_clean_step",
        "deploy.execute_deploy_step",
        "bios.execute_service_step",
        "inspect.inspect_hardware",
        "rescue.rescue",
        "management.set_boot_device",
        "management.inject_nmi",
    }


def test_a_call_with_a_transaction_open_would_be_seen(
    watched: ConductorFixture, watch: Watch
) -> None:
    task = watched.tasks.look(watched.who, watched.node())
    watched.database.read(lambda _conn: task.driver.power.get_power_state(task))
    assert watch.inside == {"power.get_power_state"}
