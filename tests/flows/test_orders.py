"""Orders to a BMC outside of verbs: what is noted, what comes of them, and what stands in the
way."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.db.engine.session import Database
from ironic_lite.domain.states import UNSTABLE, State
from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, wait_for

IMAGE = "http://192.0.2.1/tools.iso"
ORDERS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("change_node_boot_mode", {"mode": "uefi"}, "set_boot_mode"),
    ("change_node_secure_boot", {"state": True}, "set_secure_boot_state"),
    (
        "attach_virtual_media",
        {"device_type": "cdrom", "image_url": IMAGE},
        "attach_virtual_media",
    ),
    ("detach_virtual_media", {"device_types": None}, "detach_virtual_media"),
)
by_worker = pytest.mark.parametrize(("method", "args", "call"), ORDERS, ids=[o[0] for o in ORDERS])


def kept(rig: ConductorFixture, node: str) -> dict[str, Any]:
    """Return what the fake machine remembers."""
    found: dict[str, Any] = rig.get(node)["driver_internal_info"].get("driver_notes", {})
    return found


def told(rig: ConductorFixture, node: str) -> list[tuple[str, Any]]:
    """Return event and order of each event about the BMC."""
    return [(one["event"], (one["data"] or {})) for one in rig.events(node, "management")]


# -- what comes of them ----------------------------------------------------------------------


def test_a_boot_mode_is_set_on_the_machine_and_on_the_node(rig: ConductorFixture) -> None:
    node = rig.node(last_error="old")
    row = rig.call("change_node_boot_mode", node, mode="uefi")
    assert (row["boot_mode"], row["last_error"], row["reservation"]) == ("uefi", None, None)
    assert kept(rig, node) == {"fake_boot_mode": "uefi"}
    facts = {"order": "boot_mode", "target": "uefi"}
    assert told(rig, node) == [("start", facts), ("end", facts)]
    assert "order" not in row["driver_internal_info"]


@pytest.mark.parametrize("state", [True, False])
def test_secure_boot_is_switched(rig: ConductorFixture, state: bool) -> None:
    notes = {"driver_notes": {"fake_secure_boot": not state}}
    node = rig.node(secure_boot=not state, driver_internal_info=notes)
    row = rig.call("change_node_secure_boot", node, state=state)
    assert (row["secure_boot"], kept(rig, node)) == (state, {"fake_secure_boot": state})


def test_a_machine_that_is_so_already_is_left_alone_and_known_from_then_on(
    rig: ConductorFixture,
) -> None:
    fail = {"management.set_boot_mode": "no", "management.set_secure_boot_state": "no"}
    notes = {"driver_notes": {"fake_boot_mode": "bios"}}
    node = rig.node(fake_fail_calls=fail, driver_internal_info=notes)
    row = rig.call("change_node_boot_mode", node, mode="bios")
    assert (row["boot_mode"], row["last_error"]) == ("bios", None)
    row = rig.call("change_node_secure_boot", node, state=False)
    assert (row["secure_boot"], row["last_error"]) == (False, None)


@pytest.mark.parametrize(
    ("asked", "set_", "order"),
    [
        ("get_boot_mode", "set_boot_mode", ("change_node_boot_mode", {"mode": "uefi"})),
        (
            "get_secure_boot_state",
            "set_secure_boot_state",
            ("change_node_secure_boot", {"state": True}),
        ),
    ],
)
def test_conductor_that_lost_the_node_does_not_send_the_setting(
    build: Callable[..., ConductorFixture], asked: str, set_: str, order: tuple[str, dict[str, Any]]
) -> None:
    calls: list[str] = []

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        calls.append(name)
        if name == asked:
            raise errors.LockLost(node="n")
        return call()

    lost = crashes.Drivers(drivers(), around, more=(asked, set_))
    rig = build(registry=cast(Registry, lost))
    node = rig.node()
    method, args = order
    rig.ask(method, node, **args)
    assert rig.service.runtime.workers.wait_idle(10)
    assert asked in calls
    assert set_ not in calls


def test_an_image_goes_in_and_out_and_its_password_stays_secret(rig: ConductorFixture) -> None:
    node = rig.node("active")
    url = "https://reader:s3cret@192.0.2.1/tools.iso?key=s3cret"
    row = rig.call("attach_virtual_media", node, device_type="cdrom", image_url=url)
    assert row["last_error"] is None
    (cdrom,) = [
        drive
        for drive in rig.endpoints.get_virtual_media(rig.who, node_uuid=node)
        if drive["inserted"]
    ]
    assert (cdrom["media_types"], "/tools.iso" in cdrom["image"]) == (["cdrom"], True)
    rig.call("detach_virtual_media", node, device_types=["floppy"])
    assert "cdrom" in kept(rig, node)["fake_virtual_media"]
    rig.call("detach_virtual_media", node)
    assert kept(rig, node) == {}
    assert [facts["order"] for event, facts in told(rig, node) if event == "end"] == [
        "attach_virtual_media",
        "detach_virtual_media",
        "detach_virtual_media",
    ]
    assert "s3cret" not in str((told(rig, node), rig.get(node)))


@by_worker
def test_a_machine_that_refuses_is_told_of_in_last_error_and_history(
    rig: ConductorFixture, method: str, args: dict[str, Any], call: str
) -> None:
    node = rig.node("active", fake_fail_calls={f"management.{call}": "the BMC hiccups"})
    row = rig.call(method, node, **args)
    assert row["last_error"].startswith("Failed to ")
    assert row["last_error"].endswith(": the BMC hiccups")
    assert (row["boot_mode"], row["secure_boot"], row["provision_state"]) == (None, None, "active")
    assert "order" not in row["driver_internal_info"]
    assert [event for event, _ in told(rig, node)] == ["start", "fail"]
    assert rig.events(node, "fault") == []  # told once


def test_a_failed_node_keeps_its_error_when_an_order_begins(rig: ConductorFixture) -> None:
    node = rig.node("clean failed", last_error="disk 3")
    assert rig.call("change_node_boot_mode", node, mode="uefi")["last_error"] == "disk 3"


# -- what stands in the way ------------------------------------------------------------------


@by_worker
@pytest.mark.parametrize("state", sorted(UNSTABLE))
def test_a_node_on_its_way_is_left_alone(
    rig: ConductorFixture, state: State, method: str, args: dict[str, Any], call: str
) -> None:
    node = rig.node(state.value)
    before = rig.get(node)
    with pytest.raises(errors.Conflict, match=f"cannot be changed in state {state}"):
        rig.ask(method, node, **args)
    assert rig.get(node) == {**before, "updated_at": rig.get(node)["updated_at"]}
    assert told(rig, node) == []


@by_worker
def test_a_driver_that_cannot_is_a_refusal(
    rig: ConductorFixture, method: str, args: dict[str, Any], call: str
) -> None:
    node = rig.node(management_interface="noop")
    with pytest.raises(errors.UnsupportedDriverExtension, match=call):
        rig.ask(method, node, **args)
    assert (told(rig, node), rig.get(node)["driver_internal_info"]) == ([], {})


@by_worker
def test_a_node_under_work_is_locked(
    rig: ConductorFixture, method: str, args: dict[str, Any], call: str
) -> None:
    node = rig.node("active")
    rig.service.runtime.conf.set_override("node_locked_retry_attempts", 1, "conductor")
    with rig.tasks.lock(rig.who, node), pytest.raises(errors.NodeLocked):
        rig.ask(method, node, **args)
    assert told(rig, node) == []


def test_an_order_whose_conductor_died_ends_in_last_error(rig: ConductorFixture) -> None:
    node = rig.node(
        "active",
        reservation="here",
        lock_token="of-an-earlier-life",
        driver_internal_info={"order": "set the boot mode to uefi"},
    )
    assert rig.tasks.left(rig.tasks.look(rig.who, node).node) is None  # not to be taken over
    rig.sweep("orphans")
    rig.service.orphans.take_back().join(10)
    row = rig.settled(node)
    assert row["last_error"] == (
        "Failed to set the boot mode to uefi: the conductor here was lost. "
        "Check the machine and repeat the request."
    )
    assert row["driver_internal_info"] == {}


def test_an_order_that_a_stop_cuts_short_says_so(rig: ConductorFixture) -> None:
    node = rig.node("active", fake_step_seconds=600)
    rig.ask("change_node_boot_mode", node, mode="uefi")
    assert rig.get(node)["driver_internal_info"] == {"order": "set the boot mode to uefi"}
    rig.service.runtime.stopping.set()
    assert "the conductor was stopped meanwhile" in rig.settled(node)["last_error"]


# -- what is done while the caller waits -----------------------------------------------------


def test_an_nmi_reaches_the_machine_in_any_state(rig: ConductorFixture) -> None:
    node = rig.node("clean wait")
    rig.ask("inject_nmi", node)
    assert kept(rig, node) == {"fake_nmis": 1}
    assert told(rig, node) == [("end", {"order": "nmi"})]


def test_an_nmi_that_fails_is_the_callers_error_alone(rig: ConductorFixture) -> None:
    node = rig.node("active", fake_fail_calls={"management.inject_nmi": "no button"})
    with pytest.raises(errors.HardwareError, match="no button"):
        rig.ask("inject_nmi", node)
    assert (rig.get(node)["last_error"], told(rig, node)) == (None, [])


def test_a_lamp_is_switched_and_read(rig: ConductorFixture) -> None:
    node = rig.node("active")
    lamp = {"component": "system", "indicator": "led"}
    assert rig.endpoints.get_indicator_state(rig.who, node_uuid=node, **lamp) == "off"
    rig.ask("set_indicator_state", node, **lamp, state="blinking")
    assert rig.endpoints.get_indicator_state(rig.who, node_uuid=node, **lamp) == "blinking"
    ((event, facts),) = told(rig, node)
    assert (event, facts["target"], facts["indicator"]) == ("end", "blinking", "led")
    offered = rig.endpoints.get_supported_indicators(rig.who, node_uuid=node, component="system")
    assert offered == {"system": {"led": {"readonly": False, "states": ["blinking", "off", "on"]}}}


@pytest.mark.parametrize(
    ("component", "indicator", "state", "path"),
    [
        ("disk", "led", "on", "component"),
        ("system", "lamp", "on", "indicator"),
        ("chassis", "led-0", "on", "indicator"),
        ("system", "led", "dim", "state"),
    ],
)
def test_a_lamp_that_is_not_there_is_named(
    rig: ConductorFixture, component: str, indicator: str, state: str, path: str
) -> None:
    node = rig.node("active")
    with pytest.raises(errors.InvalidParameter) as why:
        rig.ask("set_indicator_state", node, component=component, indicator=indicator, state=state)
    assert (why.value.facts["path"], told(rig, node)) == (path, [])


def test_a_driver_that_shows_a_password_does_not_get_it_out(rig: ConductorFixture) -> None:
    held = {"fake_virtual_media": {"cdrom": "http://joe:s3cret@192.0.2.1/x?signature=s3cret"}}
    node = rig.node("active", driver_internal_info={"driver_notes": held})
    shown = rig.endpoints.get_virtual_media(rig.who, node_uuid=node)
    assert shown[1]["image"] == "http://joe:******@192.0.2.1/x?******"


def test_questions_are_answered_while_a_node_is_locked(rig: ConductorFixture) -> None:
    node = rig.node("active")
    with rig.tasks.lock(rig.who, node):
        assert rig.endpoints.get_supported_indicators(rig.who, node_uuid=node)
        assert rig.endpoints.get_virtual_media(rig.who, node_uuid=node)


# -- a conductor that dies -------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("what", ["commit", "call"])
@pytest.mark.parametrize("order", ORDERS, ids=[order[0] for order in ORDERS])
def test_an_order_outlives_its_conductor_as_done_or_as_an_error(
    build: Callable[..., ConductorFixture],
    sqlite_database: Database,
    order: tuple[str, dict[str, Any], str],
    what: str,
) -> None:
    method, args, call = order
    for number in itertools.count(1):
        life = crashes.Life()
        doomed = build(
            crashes.database(sqlite_database, life),
            registry=crashes.drivers(drivers(), life, more=(call,)),
        )
        doomed.database = sqlite_database
        node = doomed.node("active")
        life.arm(**{what: number})
        with contextlib.suppress(crashes.Died):
            doomed.ask(method, node, **args)
        wait_for(lambda: life.dead or doomed.get(node)["reservation"] is None)  # noqa: B023
        doomed.bury()
        assert doomed.service.runtime.workers.wait_idle(5)
        rig = build(sqlite_database)
        row = rig.settled(node)
        asked = [event for event, _ in told(rig, node)]
        assert "order" not in row["driver_internal_info"]
        assert asked in ([], ["start", "end"], ["start", "fail"])
        assert (row["last_error"] is not None) == ("fail" in asked)
        if not life.dead:
            assert (asked, number > 1) == (["start", "end"], True)
            return
