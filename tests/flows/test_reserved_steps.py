"""Steps that belong to no driver, in lists of all three kinds: every corner of hold and wait."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.db.engine.session import Database
from ironic_lite.drivers import base
from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for
from tests.support.operator import Operator

# kind -> start, its held, waiting and end state, where an abort leads, method, verb
KINDS: dict[str, tuple[str, ...]] = {
    "clean": (
        *("manageable", "clean hold", "clean wait", "manageable", "clean failed"),
        *("clean", "clean"),
    ),
    "deploy": (
        *("available", "deploy hold", "wait call-back", "active", "deploy failed"),
        *("deploy", "active"),
    ),
    "service": (
        *("active", "service hold", "service wait", "active", "active"),
        *("service", "service"),
    ),
}
WITHOUT = {"disable_ramdisk": True}
each_kind = pytest.mark.parametrize("kind", KINDS)


def steps(kind: str, *names: str, **args: Any) -> dict[str, Any]:
    """Return the body's list of reserved steps; ``args`` are of the last one."""
    found: list[dict[str, Any]] = [{"interface": "power", "step": name} for name in names]
    if args:
        found[-1]["args"] = args
    if kind == "deploy":
        found = [
            {"args": {}, **one, "priority": 19 - place}  # after the driver's steps
            for place, one in enumerate(found)
        ]
    return {f"{kind}_steps": found}


@pytest.fixture
def operator(sqlite_database: Database) -> Iterator[Operator]:
    """Somebody who asks over HTTP."""
    found = Operator(sqlite_database)
    yield found
    found.close()


@each_kind
def test_a_hold_may_be_aborted(rig: ConductorFixture, kind: str) -> None:
    start, held, _, _, aborted, method, _ = KINDS[kind]
    node = rig.node(start)
    assert rig.call(method, node, **steps(kind, "power_on", "hold"))["provision_state"] == held
    row = rig.act("abort", node)
    assert row["provision_state"] == aborted
    assert "By request" in row["last_error"]
    assert (row["maintenance"], row["fault"], row["run_uuid"]) == (False, None, None)
    assert rig.run(node)["state"] == "aborted"
    assert rig.step_states(node)[-1] == "aborted"


@each_kind
@pytest.mark.parametrize("args", [{}, {"seconds": 3600}], ids=["no time", "an hour"])
def test_a_wait_is_aborted_at_once(rig: ConductorFixture, kind: str, args: dict[str, Any]) -> None:
    start, _, waiting, _, aborted, method, _ = KINDS[kind]
    node = rig.node(start)
    row = rig.call(method, node, **steps(kind, "wait", **args))
    assert (row["provision_state"], row["wake_at"] is None) == (waiting, not args)
    row = rig.act("abort", node)
    assert (row["provision_state"], row["wake_at"]) == (aborted, None)


@each_kind
def test_a_second_hold_is_a_second_stop(rig: ConductorFixture, kind: str) -> None:
    start, held, _, end, _, method, _ = KINDS[kind]
    node = rig.node(start)
    body = steps(kind, "hold", "power_on", "hold")
    body[f"{kind}_steps"][2]["interface"] = "deploy"  # a deployment takes no step twice
    assert rig.call(method, node, **body)["provision_state"] == held
    rig.act("unhold", node)
    wait_for(lambda: rig.get(node)["power_state"] == "power on")
    assert rig.reaches(node, held)["power_state"] == "power on"
    rig.act("unhold", node)
    rig.reaches(node, end)
    assert set(rig.step_states(node)) == {"done"}


@each_kind
def test_a_held_node_stays_held_over_a_restart(
    build: Callable[..., ConductorFixture], rig: ConductorFixture, kind: str
) -> None:
    start, held, _, end, _, method, _ = KINDS[kind]
    node = rig.node(start)
    rig.call(method, node, **steps(kind, "hold"))
    rig.bury()
    again = build()
    again.service.orphans.sweep()
    assert again.settled(node)["provision_state"] == held
    again.act("unhold", node)
    again.reaches(node, end)


@each_kind
def test_a_wait_survives_a_restart(
    build: Callable[..., ConductorFixture], rig: ConductorFixture, kind: str
) -> None:
    start, _, waiting, end, _, method, _ = KINDS[kind]
    node = rig.node(start)
    due = rig.call(method, node, **steps(kind, "wait", seconds=3600))["wake_at"]
    rig.bury()
    again = build()
    row = again.settled(node)
    assert (row["provision_state"], row["wake_at"]) == (waiting, due)
    again.ring(node)
    again.reaches(node, end)
    assert set(again.step_states(node)) == {"done"}


@each_kind
def test_a_short_wait_cut_off_by_a_stop_is_slept_again(
    build: Callable[..., ConductorFixture], rig: ConductorFixture, kind: str
) -> None:
    start, _, _, end, _, method, _ = KINDS[kind]
    node = rig.node(start)
    rig.ask(method, node, **steps(kind, "wait", seconds=1))
    wait_for(lambda: "power.wait" in rig.started(node))
    rig.service.stop(0.001)
    again = build()
    again.reaches(node, end)
    assert again.started(node).count("power.wait") == 2
    assert set(again.step_states(node)) == {"done"}


@each_kind
def test_no_wait_sleeps_in_a_worker_longer_than_the_option_allows(
    build: Callable[..., ConductorFixture], kind: str
) -> None:
    rig = build(conductor__max_conductor_wait_step_seconds=0)
    start, _, waiting, end, _, method, _ = KINDS[kind]
    node = rig.node(start)
    rig.call(method, node, **steps(kind, "wait", seconds=0.2))
    assert waiting in rig.path(node)
    rig.reaches(node, end)


@each_kind
def test_each_reserved_step_may_stand_alone(rig: ConductorFixture, kind: str) -> None:
    start, _, _, end, _, method, _ = KINDS[kind]
    for name, power in (("power_on", "on"), ("power_off", "off"), ("reboot", "on")):
        node = rig.node(start)
        row = rig.call(method, node, **steps(kind, name))
        assert (row["provision_state"], row["power_state"]) == (end, f"power {power}")
        assert f"power.{name}" in rig.started(node)


@each_kind
@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("wait", {"seconds": "soon"}),
        ("wait", {"seconds": -1}),
        ("wait", {"seconds": True}),
        ("wait", {"seconds": None}),
        ("wait", {"second": 1}),
        ("hold", {"seconds": 1}),
        ("power_on", {"x": 1}),
    ],
    ids=str,
)
def test_nonsense_is_refused_at_the_request(
    operator: Operator, kind: str, name: str, args: dict[str, Any]
) -> None:
    start, verb = KINDS[kind][0], KINDS[kind][-1]
    node = operator.enroll(start)
    body = steps(kind, "reboot", name, **args)
    said = operator.refused(node, verb, 400, **body)
    assert f"{kind}_steps/1/args" in said
    assert next(iter(args)) in said


@pytest.mark.parametrize("kind", ["clean", "service"])
def test_nonsense_that_comes_another_way_fails_before_anything_runs(
    rig: ConductorFixture, kind: str
) -> None:
    start, method = KINDS[kind][0], KINDS[kind][5]
    node = rig.node(start)
    row = rig.call(method, node, **steps(kind, "power_on", "wait", seconds=-1))
    assert row["provision_state"] == f"{kind} failed"
    assert "args/seconds" in row["last_error"]
    assert rig.started(node) == []


def test_nonsense_in_a_deployment_is_refused_by_the_conductor_too(rig: ConductorFixture) -> None:
    node = rig.node("available")
    with pytest.raises(errors.InvalidRequest, match="args/seconds"):
        rig.ask("deploy", node, **steps("deploy", "wait", seconds=-1))
    assert rig.get(node)["provision_state"] == "available"


@each_kind
def test_a_machine_that_must_stay_on_is_refused_its_power_off_before_anything_runs(
    rig: ConductorFixture, kind: str
) -> None:
    start, _, _, _, _, method, _ = KINDS[kind]
    node = rig.node(start, disable_power_off=True)
    body = steps(kind, "power_on", "power_off")
    if kind == "deploy":
        with pytest.raises(errors.InvalidRequest, match="disable_power_off"):
            rig.ask(method, node, **body)
        assert rig.get(node)["provision_state"] == start
    else:
        row = rig.call(method, node, **body)
        assert row["provision_state"] == f"{kind} failed"
        assert "disable_power_off" in row["last_error"]
    assert rig.started(node) == []


# -- a deploy interface with an agent --------------------------------------------------------


def in_band() -> Registry:
    """Return drivers whose deploy interface hears an agent, which lets a waiting step go on."""

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        return name == "heartbeat" or call()

    inner = cast(Registry, crashes.Drivers(drivers(), around, more=("heartbeat",)))

    class InBand(crashes.Drivers):
        def _wrap(self, kind: str, interface: base.Interface) -> base.Interface:
            twin = super()._wrap(kind, interface)
            object.__setattr__(twin, "in_band", True)
            return twin

    return cast(Registry, InBand(inner, lambda _kind, _name, call: call(), more=("heartbeat",)))


def beat(rig: ConductorFixture, node: str) -> dict[str, Any]:
    """Send a heartbeat and wait for what comes of it."""
    token = rig.endpoints.get_node_with_token(rig.who, node_uuid=node)["agent_token"]
    about = {"callback_url": "http://a:9999", "agent_version": "11", "agent_token": token}
    rig.ask("heartbeat", node, **about)
    return rig.settled(node)


@each_kind
@pytest.mark.parametrize("heard", [False, True], ids=["silence", "an agent"])
def test_unhold_waits_for_a_heartbeat_only_if_an_agent_runs(
    build: Callable[..., ConductorFixture], kind: str, heard: bool
) -> None:
    rig = build(registry=in_band(), agent__require_tls=False)
    start, held, waiting, end, _, method, _ = KINDS[kind]
    node = rig.node(start)
    body = steps(kind, "hold") if kind == "deploy" else {**steps(kind, "hold"), **WITHOUT}
    assert rig.call(method, node, **body)["provision_state"] == held
    if heard:
        assert beat(rig, node)["provision_state"] == held
        assert rig.act("unhold", node)["provision_state"] == waiting
        beat(rig, node)
    else:
        rig.act("unhold", node)
    rig.reaches(node, end)


@each_kind
def test_no_heartbeat_cuts_a_timed_wait_short(
    build: Callable[..., ConductorFixture], kind: str
) -> None:
    rig = build(registry=in_band(), agent__require_tls=False)
    start, _, waiting, end, _, method, _ = KINDS[kind]
    node = rig.node(start)
    due = rig.call(method, node, **steps(kind, "wait", seconds=3600))["wake_at"]
    row = beat(rig, node)
    assert (row["provision_state"], row["wake_at"]) == (waiting, due)
    rig.ring(node)
    rig.reaches(node, end)


@each_kind
def test_a_heartbeat_ends_a_wait_without_a_time(
    build: Callable[..., ConductorFixture], kind: str
) -> None:
    rig = build(registry=in_band(), agent__require_tls=False)
    start, _, waiting, end, _, method, _ = KINDS[kind]
    node = rig.node(start)
    assert rig.call(method, node, **steps(kind, "wait"))["provision_state"] == waiting
    beat(rig, node)
    rig.reaches(node, end)


# Service steps, and the steps that belong to no driver: hold, wait, and the power's.


def service(rig: ConductorFixture, node: str, *titles: str) -> dict[str, Any]:
    return rig.call("service", node, service_steps=listed(*titles))


def step(name: str, **args: Any) -> dict[str, Any]:
    return {"interface": "power", "step": name, **({"args": args} if args else {})}


def test_service_runs_its_list_and_the_instance_stays(rig: ConductorFixture) -> None:
    node = rig.node("active", instance_info={"image": "x"})
    row = service(rig, node, "vendor.log_passthrough", "vendor.log_passthrough")
    assert (row["provision_state"], row["target_provision_state"]) == ("active", None)
    assert row["instance_info"] == {"image": "x"}
    assert row["service_step"] is None
    assert row["driver_internal_info"]["service_steps"] is None
    assert not {"service_step_index", "service_disable_ramdisk"} & set(row["driver_internal_info"])
    assert rig.path(node) == ["servicing", "active"]
    assert rig.started(node) == ["vendor.log_passthrough"] * 2


def test_a_failed_service_is_a_fault_and_may_be_repeated(rig: ConductorFixture) -> None:
    node = rig.node("active", fake_fail_steps={"vendor.log_passthrough": "no pen"})
    row = service(rig, node, "vendor.log_passthrough")
    assert (row["provision_state"], row["target_provision_state"]) == ("service failed", "active")
    assert row["last_error"] == "Service step vendor.log_passthrough failed: no pen"
    assert (row["maintenance"], row["fault"]) == (True, "service failure")
    rig.edit(node, driver_info={}, maintenance=False, fault=None)
    row = service(rig, node, "vendor.log_passthrough")
    assert (row["provision_state"], row["last_error"]) == ("active", None)


def test_an_unknown_service_step_fails_before_anything_runs(rig: ConductorFixture) -> None:
    node = rig.node("active")
    row = service(rig, node, "vendor.log_passthrough", "vendor.no_such")
    assert row["provision_state"] == "service failed"
    assert "does not support" in row["last_error"]
    assert rig.started(node) == []


def test_boot_mode_that_a_boot_has_changed_is_read_at_the_end(rig: ConductorFixture) -> None:
    notes = {"driver_notes": {"fake_boot_mode": "bios", "fake_secure_boot": True}}
    node = rig.node("active", boot_mode="uefi", driver_internal_info=notes)
    row = service(rig, node, "vendor.log_passthrough")
    assert (row["boot_mode"], row["secure_boot"]) == ("bios", True)
    fresh = rig.node("available", boot_mode="uefi", driver_internal_info=notes)
    row = rig.call("deploy", fresh)
    assert (row["provision_state"], row["boot_mode"], row["secure_boot"]) == (
        "active",
        "bios",
        True,
    )


# -- steps of nobody -------------------------------------------------------------------------

STEP_KINDS = {
    "clean": ("manageable", "clean hold", "manageable", "clean", "clean_steps"),
    "deploy": ("available", "deploy hold", "active", "deploy", "deploy_steps"),
    "service": ("active", "service hold", "active", "service", "service_steps"),
}


@pytest.mark.parametrize("kind", STEP_KINDS)
def test_hold_stops_until_unhold(rig: ConductorFixture, kind: str) -> None:
    start, held, end, method, key = STEP_KINDS[kind]
    steps = [step("power_on"), step("hold"), step("power_off")]
    if kind == "deploy":
        steps = [
            {**one, "args": {}, "priority": place}
            for one, place in zip(steps, (10, 5, 1), strict=True)
        ]
    node = rig.node(start)
    row = rig.call(method, node, **{key: steps})
    assert row["provision_state"] == held
    assert row[f"{kind}_step"]["step"] == "hold"
    assert row["power_state"] == "power on"
    assert row["wake_at"] is None
    assert rig.run(node)["state"] == "waiting"
    rig.act("unhold", node)
    row = rig.reaches(node, end)
    assert row["power_state"] == "power off"
    assert rig.run(node)["state"] == "done"
    assert set(rig.step_states(node)) == {"done"}


def test_a_lone_hold_is_kept(rig: ConductorFixture) -> None:
    node = rig.node()
    row = rig.call("clean", node, clean_steps=[step("hold")])
    assert (row["provision_state"], row["target_provision_state"]) == ("clean hold", "manageable")


def test_power_steps_leave_the_power_as_they_say(rig: ConductorFixture) -> None:
    node = rig.node()
    assert rig.clean(node, "power.power_on")["power_state"] == "power on"
    assert rig.clean(node, "power.power_off")["power_state"] == "power off"
    assert rig.clean(node, "deploy.reboot")["power_state"] == "power on"
    powers = [event["after"] for event in rig.events(node, "power")]
    assert powers == ["power on", "power off", "power on"]


def test_a_machine_that_must_stay_on_is_not_powered_off_by_a_step(rig: ConductorFixture) -> None:
    node = rig.node(disable_power_off=True)
    row = rig.clean(node, "power.power_off")
    assert row["provision_state"] == "clean failed"
    assert "disable_power_off" in row["last_error"]


def test_a_short_wait_sleeps_and_a_long_one_sets_a_timer(rig: ConductorFixture) -> None:
    node = rig.node()
    steps = [step("wait", seconds=0.01), step("wait", seconds=3600)]
    row = rig.call("clean", node, clean_steps=steps)
    assert row["provision_state"] == "clean wait"
    assert row["driver_internal_info"]["clean_step_index"] == 1
    assert row["wake_at"] is not None
    rig.ring(node)
    rig.reaches(node, "manageable")


def test_a_wait_without_time_goes_on_when_somebody_says_so(rig: ConductorFixture) -> None:
    node = rig.node()
    row = rig.call("clean", node, clean_steps=[step("wait"), step("power_on")])
    assert (row["provision_state"], row["wake_at"]) == ("clean wait", None)
    row = rig.call("continue_node_clean", node)
    assert (row["provision_state"], row["power_state"]) == ("manageable", "power on")


def test_an_old_timer_does_not_end_a_later_step(rig: ConductorFixture) -> None:
    node = rig.node()
    rig.call("clean", node, clean_steps=[step("wait", seconds=3600), step("wait")])
    rig.ring(node)
    wait_for(lambda: len(rig.started(node)) == len(["wait", "wait"]))
    assert rig.reaches(node, "clean wait")["wake_at"] is None


def test_a_timer_of_a_step_that_did_not_wait_ends_no_other(
    build: Callable[..., ConductorFixture],
) -> None:
    def around(_kind: str, name: str, call: Any) -> Any:
        if name == "execute_clean_step":
            call.args[0].wake_after(0)
        return call()

    rig = build(registry=crashes.Drivers(drivers(), around))
    node = rig.node()
    row = rig.clean(node, "bios.factory_reset", "power.wait")
    assert (row["provision_state"], row["wake_at"]) == ("clean wait", None)


def test_service_may_start_afresh_from_its_hold(rig: ConductorFixture) -> None:
    node = rig.node("active")
    service(rig, node, "vendor.log_passthrough", "power.hold")
    assert rig.get(node)["provision_state"] == "service hold"
    row = service(rig, node, "vendor.log_passthrough")
    assert (row["provision_state"], row["service_step"]) == ("active", None)
    first, second = rig.runs(node)
    assert (first["state"], second["state"]) == ("aborted", "done")
    assert [one["state"] for one in first["steps"]] == ["done", "aborted"]
