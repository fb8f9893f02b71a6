"""S2, cleaning states: which steps run in which order, and what a failed clean leaves."""

from __future__ import annotations

import logging
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.domain import verbs
from ironic_lite.domain.steps import collect
from ironic_lite.drivers import base
from ironic_lite.drivers.registry import Registry, Settings
from tests.support import driver_packages, third_party_steps
from tests.support.cleaning_fixture import (
    AUTOMATED,
    Gate,
    begun,
    enroll_waiting,
    loading,
    overdue,
    ring,
    sweep,
    watched,
)
from tests.support.conductor_fixture import configure, listed
from tests.support.operator import Json, Operator

# S2, cleaning states: which steps there are, and in which order they run.

Serve = Callable[..., Operator]
OVERRIDE = "conductor__clean_step_priority_override"


@pytest.fixture
def outside(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> Callable[..., Operator]:
    """A function that starts a service with the drivers of ``makers`` enabled beside the fakes."""

    def start(**options: Any) -> Operator:
        driver_packages.install(monkeypatch, tmp_path, {}, third_party_steps.POINTS)
        enabled = {
            "raid": ["fake", "ordered", "bare", "tied", "broken"],
            "vendor": ["fake", "polished"],
            "firmware": ["fake", "checked"],
        }
        names = {f"DEFAULT__enabled_{kind}_interfaces": names for kind, names in enabled.items()}
        return serve(**loading(**names, **options))

    return start


def shown(operator: Operator, node: str, query: str = "") -> list[tuple[str, float]]:
    """Return title and priority of each step that the API lists for a node."""
    answer = operator.api.get(f"/v1/nodes/{node}/cleaning/steps{query}")
    assert answer.status == 200, answer.text
    return [(f"{step['interface']}.{step['step']}", step["priority"]) for step in answer.json]


def test_s2_04_the_highest_priority_runs_first_and_zero_not_by_itself(
    outside: Callable[..., Operator],
) -> None:
    operator = outside()
    node = operator.enroll("available", raid_interface="ordered")
    assert begun(operator, node) == [
        "deploy.erase_devices_metadata",  # 99
        "raid.b_high",  # 50
        "deploy.erase_devices",  # 10
        "raid.c_middle",  # 7.5
        "raid.a_low",  # 5
    ]
    operator.provision(node, "manage")
    operator.clean(node, "raid.d_never")
    assert begun(operator, node)[-1] == "raid.d_never"


def test_s2_05_options_order_and_switch_off_steps(serve: Serve, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "test.conf"
    path.write_text(
        f"[DEFAULT]\nstate_path = {tmp_path}\n"
        "[deploy]\nerase_devices_priority = 0\ndelete_configuration_priority = 8\n"
        "[conductor]\nclean_step_priority_override = raid.delete_configuration:0.5\n"
        "clean_step_priority_override = bios.factory_reset:200, power.cycle:7.25\n"
        "clean_step_priority_override = management.reset_bmc:7\n"
    )
    conf = config.load("ironic-lite-api", ["--config-file", str(path)], conf=cfg.ConfigOpts())
    options: Json = {OVERRIDE: conf.conductor.clean_step_priority_override}
    for name in ("erase_devices_priority", "delete_configuration_priority"):
        options[f"deploy__{name}"] = conf.deploy[name]
    operator = serve(**loading(**options))
    node = operator.enroll("available")
    wanted = [
        ("bios.factory_reset", 200),
        ("deploy.erase_devices_metadata", 99),
        ("power.cycle", 7.25),
        ("management.reset_bmc", 7),
        ("raid.delete_configuration", 0.5),
    ]
    assert begun(operator, node) == [title for title, _ in wanted]
    assert shown(operator, node, "?min_priority=0.1") == wanted
    assert ("deploy.erase_devices", 0) in shown(operator, node)


def test_s2_05_a_step_that_is_forbidden_is_left_out_of_automated_cleaning(serve: Serve) -> None:
    operator = serve(api__disallow_clean_steps=["deploy.erase_devices"])
    node = operator.enroll("available")
    assert begun(operator, node) == ["deploy.erase_devices_metadata"]
    operator.provision(node, "manage")
    steps = listed("bios.factory_reset", "deploy.erase_devices")
    assert "clean_steps/1/step" in operator.refused(node, "clean", 400, clean_steps=steps)


def offered(operator: Operator, node: str, kind: str) -> list[Json]:
    """Return what an interface's get_clean_steps gives the conductor."""
    task = operator.rig.tasks.look(operator.rig.who, node)
    found: list[Json] = task.driver.interface(kind).get_clean_steps(task)
    return found


def test_s2_06_every_interface_lists_its_marked_steps_by_priority(
    outside: Callable[..., Operator],
) -> None:
    assert "get_clean_steps" in vars(base.Interface)
    operator = outside()
    node = operator.enroll(raid_interface="ordered")
    steps = offered(operator, node, "raid")
    # All of them, also those that do not run by themselves (C5).
    assert [(step["step"], step["priority"]) for step in steps] == [
        ("b_high", 50),
        ("c_middle", 7.5),
        ("a_low", 5),
        ("d_never", 0),
    ]
    assert [entry for entry in shown(operator, node) if entry[0].startswith("raid.")] == [
        (f"raid.{step['step']}", step["priority"]) for step in steps
    ]


def test_s2_07_a_step_has_a_name_an_interface_and_a_number(
    outside: Callable[..., Operator],
) -> None:
    operator = outside()
    node = operator.enroll(raid_interface="ordered")
    for kind in base.KINDS:
        for step in offered(operator, node, kind):
            assert {"step", "priority", "interface"} <= set(step)
            assert step["interface"] == kind
            assert type(step["priority"]) in (int, float)
    assert ("raid.c_middle", 7.5) in shown(operator, node)
    for wrong in (True, -1, -0.5, "7", None, float("nan"), float("inf")):
        with pytest.raises(errors.InvalidParameter, match="priority"):
            base.clean_step(priority=wrong)  # type: ignore[arg-type]


def test_s2_08_an_interface_executes_the_step_that_is_named(
    outside: Callable[..., Operator],
) -> None:
    assert "execute_clean_step" in vars(base.Interface)
    operator = outside()
    node = operator.enroll(raid_interface="ordered")
    row = operator.clean(node, "raid.d_never")
    assert row["driver_internal_info"]["driver_notes"]["colour"] == "red"


@pytest.mark.parametrize(("step", "said"), [("refuses", "disk on fire"), ("stumbles", "a bug")])
def test_s2_08_a_step_that_fails_is_a_clean_step_failed(
    outside: Callable[..., Operator], step: str, said: str
) -> None:
    operator = outside()
    node = operator.enroll(raid_interface="broken")
    row = operator.clean(node, "bios.factory_reset", f"raid.{step}", "power.cycle")
    assert row["provision_state"] == "clean failed"
    assert f"raid.{step}" in row["last_error"]
    assert said in row["last_error"]
    assert operator.rig.run(node)["error"]["code"] == "CleanStepFailed"
    assert operator.rig.step_states(node)[:2] == ["done", "failed"]
    assert begun(operator, node) == ["bios.factory_reset", f"raid.{step}"]


def test_s2_09_an_interface_without_steps_works(outside: Callable[..., Operator]) -> None:
    operator = outside()
    node = operator.enroll("available", raid_interface="bare")
    assert begun(operator, node) == AUTOMATED
    assert offered(operator, node, "raid") == []
    assert operator.shows(node)["last_error"] is None


def test_s2_10_the_enabled_steps_of_all_interfaces_run_by_priority(serve: Serve) -> None:
    priorities = {
        "raid.delete_configuration": 1000,
        "bios.factory_reset": 98.5,
        "management.reset_bmc": 98,
        "power.cycle": 1,
    }
    operator = serve(**{OVERRIDE: [priorities]})
    node = operator.enroll("available")
    assert begun(operator, node) == [
        "raid.delete_configuration",
        "deploy.erase_devices_metadata",
        "bios.factory_reset",
        "management.reset_bmc",
        "deploy.erase_devices",
        "power.cycle",
    ]


def test_s2_11_equal_priorities_run_by_their_interface(outside: Callable[..., Operator]) -> None:
    ranked = [
        "vendor.polish",
        "power.cycle",
        "management.reset_bmc",
        "firmware.check",
        "deploy.erase_devices",
        "bios.factory_reset",
        "raid.delete_configuration",
    ]
    operator = outside(**{OVERRIDE: [dict.fromkeys(reversed(ranked), 10)]})
    node = operator.enroll("available", vendor_interface="polished", firmware_interface="checked")
    assert begun(operator, node) == ["deploy.erase_devices_metadata", *ranked]


def test_s2_12_an_interface_with_two_equal_steps_is_not_loaded(
    outside: Callable[..., Operator], caplog: pytest.LogCaptureFixture
) -> None:
    operator = outside()
    (record,) = (one for one in caplog.records if one.levelno >= logging.ERROR)
    for part in ("raid interface tied", "raid.one", "raid.other", "priority 10"):
        assert part in record.getMessage()
    # The conductor is up, and all other interfaces serve their nodes.
    node = operator.enroll("available", raid_interface="ordered")
    body = {"driver": "fake-hardware", "raid_interface": "tied"}
    refusal = operator.api.post("/v1/nodes", body)
    assert (refusal.status, "raid" in refusal.text, "tied" in refusal.text) == (400, True, True)
    operator.provision(node, "manage")
    assert operator.patches(node, raid_interface="tied").status == 400
    # A node that uses it from the time before the two were equal.
    old = operator.rig.node(raid_interface="tied")
    said = operator.refused(old, "provide", 400)
    assert "raid" in said
    assert "tied" in said
    operator.refused(old, "clean", 400, clean_steps=listed("power.cycle"))
    for path in ("cleaning/steps", "validate", "management/boot_device"):
        answer = operator.api.get(f"/v1/nodes/{old}/{path}")
        assert (answer.status, "tied" in answer.text) == (400, True)
    assert operator.patches(old, raid_interface="ordered").status == 200
    assert operator.provision(old, "provide")["provision_state"] == "available"


def test_s2_12_an_operator_who_makes_two_steps_equal_is_told(
    serve: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    equal = {OVERRIDE: [{"raid.create_configuration": 3, "raid.delete_configuration": 3}]}
    operator = serve(**loading(**equal))
    told = [one for one in caplog.records if one.levelno >= logging.ERROR]
    (record,) = (one for one in told if "raid interface fake" in one.getMessage())
    for part in ("raid interface fake", "create_configuration", "delete_configuration"):
        assert part in record.getMessage()
    refusal = operator.api.post("/v1/nodes", {"driver": "fake-hardware", "raid_interface": "fake"})
    assert refusal.status == 400
    body = {"driver": "fake-hardware", "raid_interface": "no-raid"}
    assert operator.api.post("/v1/nodes", body).status == 201


def test_s2_28_the_list_of_steps_is_what_automated_cleaning_runs(serve: Serve) -> None:
    operator = serve(**{OVERRIDE: [{"power.cycle": 10, "deploy.erase_devices": 0}]})
    node = operator.enroll(name="metal-7")
    enabled = shown(operator, "metal-7", "?min_priority=0.001")
    assert enabled == [("deploy.erase_devices_metadata", 99), ("power.cycle", 10)]
    operator.provision(node, "provide")
    assert begun(operator, node) == [title for title, _ in enabled]
    everything = shown(operator, node)
    assert set(enabled) < set(everything)
    assert ("deploy.erase_devices", 0) in everything


ROOT = pathlib.Path(__file__).parents[1]
DISKS = {"logical_disks": [{"size_gb": 10, "raid_level": "1"}]}
TURBO = [{"name": "turbo", "value": "on"}]
# What each step of the fake machine takes, and what a node shows once it is done.
STEPS: dict[str, tuple[Json, Callable[[Json], object]]] = {
    "bios.apply_configuration": (
        {"settings": TURBO},
        lambda row: row["driver_internal_info"]["driver_notes"]["fake_bios_settings"] == TURBO,
    ),
    "bios.factory_reset": (
        {},
        lambda row: "fake_bios_settings" not in row["driver_internal_info"].get("driver_notes", {}),
    ),
    "firmware.update": (
        {"settings": [{"component": "bios", "url": "http://images.example.org/A-2.bin"}]},
        lambda row: row["driver_internal_info"]["driver_notes"]["fake_firmware"] == {"bios": "A-2"},
    ),
    "deploy.erase_devices": ({}, lambda row: row["power_state"] == "power off"),
    "deploy.erase_devices_metadata": ({}, lambda row: row["power_state"] == "power off"),
    "management.reset_bmc": ({}, lambda row: row["power_state"] == "power off"),
    "power.cycle": ({}, lambda row: row["power_state"] == "power on"),
    "raid.create_configuration": (
        {"create_root_volume": True},
        lambda row: row["raid_config"]["logical_disks"] == DISKS["logical_disks"],
    ),
    "raid.delete_configuration": ({}, lambda row: row["raid_config"] == {}),
    "vendor.log_passthrough": ({}, lambda row: row["power_state"] == "power off"),
}


def test_s2_37_every_step_of_every_driver_has_a_test() -> None:
    conf = configure(DEFAULT__enabled_hardware_types=["fake-hardware", "redfish"])
    registry = Registry.load(Settings.read(conf))
    fakes = set()
    for kind in base.KINDS:
        for name, interface in registry.interfaces[kind].items():
            titles = {step.title for step in collect(kind, interface, base.StepKind.CLEAN)}
            if name == "fake":
                fakes |= titles
                continue
            folder = type(interface).__module__.split(".")[2]  # ironic_lite.drivers.FOLDER...
            tests = "".join(one.read_text() for one in (ROOT / "drivers" / folder).rglob("*.py"))
            assert {one for one in titles if one.partition(".")[2] not in tests} == set()
    assert fakes == set(STEPS)


@pytest.mark.parametrize("title", STEPS)
def test_s2_37_a_step_of_the_fake_machine_does_what_it_says(operator: Operator, title: str) -> None:
    node = operator.enroll()
    operator.rig.edit(node, target_raid_config=DISKS, raid_config=DISKS)
    args, done = STEPS[title]
    step = {**listed(title)[0], "args": args}
    row = operator.provision(node, "clean", clean_steps=[step])
    assert (row["provision_state"], row["last_error"]) == ("manageable", None)
    assert begun(operator, node) == [title]
    assert done(row)


def test_s2_38_settings_of_the_firmware_can_be_applied_and_reset(operator: Operator) -> None:
    node = operator.enroll()
    step = {**listed("bios.apply_configuration")[0], "args": {"settings": TURBO}}
    row = operator.provision(node, "clean", clean_steps=[step])
    assert row["driver_internal_info"]["driver_notes"] == {"fake_bios_settings": TURBO}
    row = operator.clean(node, "bios.factory_reset", "power.cycle", "management.reset_bmc")
    assert row["provision_state"] == "manageable"
    assert "fake_bios_settings" not in row["driver_internal_info"]["driver_notes"]


# S2, cleaning states: what a failed clean leaves, and what a clean under way refuses.

ON, OFF = "power on", "power off"
SECOND = {"fake_fail_steps": {"deploy.erase_devices": "disk on fire"}}


# -- failures --------------------------------------------------------------------------------


def automated(operator: Operator, node: str) -> str:
    """A step of an automated clean fails."""
    operator.patches(node, driver_info=SECOND)
    operator.provision(node, "provide")
    return "disk on fire"


def manual(operator: Operator, node: str) -> str:
    """A step of a manual clean fails."""
    operator.patches(node, driver_info=SECOND)
    operator.clean(node, "bios.factory_reset", "deploy.erase_devices")
    return "disk on fire"


def torn_down(operator: Operator, node: str) -> str:
    """A step fails after an instance was removed."""
    operator.provision(node, "provide")
    operator.provision(node, "active")
    operator.patches(node, driver_info=SECOND)
    operator.provision(node, "deleted")
    return "disk on fire"


def waiting(operator: Operator, node: str) -> str:
    """A step fails at the end of its wait."""
    told = {"fake_async_steps": ["*"], "fake_step_seconds": 3600}
    operator.patches(node, driver_info={**told, **SECOND})
    operator.clean(node, "deploy.erase_devices")
    ring(operator, node)
    return "disk on fire"


def silent(operator: Operator, node: str) -> str:
    """A step waits for ever."""
    told = {"fake_async_steps": ["*"], "fake_step_seconds": 3600}
    operator.patches(node, driver_info=told)
    operator.provision(node, "provide")
    overdue(operator, node)
    return "Timeout reached"


def unknown(operator: Operator, node: str) -> str:
    """The list has a step that the machine does not know: nothing runs."""
    operator.clean(node, "bios.factory_reset", "raid.no_such")
    return "raid.no_such"


def incomplete(operator: Operator, node: str) -> str:
    """The list lacks an argument: nothing runs."""
    operator.clean(node, "bios.factory_reset", "bios.apply_configuration")
    return "settings"


def refused(operator: Operator, node: str) -> str:
    """A step finds out that its argument is wrong."""
    step: Json = {**listed("bios.apply_configuration")[0], "args": {"settings": "none"}}
    operator.provision(node, "clean", clean_steps=[step])
    return "settings"


def unprepared(operator: Operator, node: str) -> str:
    """The ramdisk cannot be booted before the first step, though nothing told against it."""
    operator.patches(node, extra__unprepared=True)
    operator.provision(node, "provide")
    return "ramdisk will not come"


def stuck(operator: Operator, node: str) -> str:
    """All steps are done, and putting the ramdisk away fails."""
    operator.patches(node, extra__stuck=True)
    operator.provision(node, "provide")
    return "ramdisk will not go"


CAUSES = [
    automated,
    manual,
    torn_down,
    waiting,
    silent,
    unknown,
    incomplete,
    refused,
    unprepared,
    stuck,
]
Cause = Callable[[Operator, str], str]


@pytest.fixture
def switched(serve: Serve) -> tuple[Operator, list[str]]:
    """A service, and the power calls that its conductor makes while a node is cleaned."""
    calls: list[str] = []

    def before(kind: str, name: str) -> None:
        (row,) = operator.api.get("/v1/nodes/detail").json["nodes"]
        if name == "tear_down_cleaning" and row["extra"].get("stuck"):
            raise errors.HardwareError(reason="the ramdisk will not go")
        if name == "prepare_cleaning" and row["extra"].get("unprepared"):
            raise errors.HardwareError(reason="the ramdisk will not come")
        cleaned = row["provision_state"].startswith("clean")
        if kind == "power" and name in ("set_power_state", "reboot") and cleaned:
            calls.append(name)

    operator = serve(registry=watched(before))
    return operator, calls


@pytest.mark.parametrize("cause", CAUSES)
def test_s2_19_a_failed_clean_leaves_maintenance_and_the_reason(
    switched: tuple[Operator, list[str]], cause: Cause
) -> None:
    operator, _ = switched
    node = operator.enroll()
    said = cause(operator, node)
    row = operator.rig.reaches(node, "clean failed")
    shown = operator.shows(node)
    assert said in shown["last_error"]
    assert (shown["maintenance"], shown["fault"]) == (True, "clean failure")
    assert shown["maintenance_reason"] == shown["last_error"]
    assert (shown["clean_step"], row["run_uuid"], row["wake_at"]) == ({}, None, None)
    run = operator.rig.run(node)
    assert (run["state"], said in run["error"]["text"]) == ("failed", True)


def test_s2_19_an_abort_is_a_request_and_no_failure(operator: Operator) -> None:
    node = enroll_waiting(operator)
    operator.provision(node, "provide")
    shown = operator.provision(node, "abort")
    assert (shown["provision_state"], shown["maintenance"], shown["fault"]) == (
        "clean failed",
        False,
        None,
    )
    assert "By request" in shown["last_error"]


def power(operator: Operator, node: str, target: str) -> Json:
    """Ask for a power state, wait, and return the node."""
    answer = operator.api.put(f"/v1/nodes/{node}/states/power", {"target": target})
    assert answer.status == 202, answer.text
    operator.rig.settled(node)
    return operator.shows(node)


@pytest.mark.parametrize("cause", [one for one in CAUSES if one is not torn_down])
def test_s2_20_a_failed_clean_does_not_touch_the_power(
    switched: tuple[Operator, list[str]], cause: Cause
) -> None:
    operator, calls = switched
    node = operator.enroll()
    assert power(operator, node, ON)["power_state"] == ON
    cause(operator, node)
    operator.rig.reaches(node, "clean failed")
    sweep(operator)  # nor does anything that comes round later
    shown = operator.shows(node)
    assert (shown["provision_state"], shown["power_state"]) == ("clean failed", ON)
    assert shown["driver_internal_info"]["driver_notes"]["fake_power_state"] == ON
    assert calls == []


def test_s2_20_nor_does_one_after_tear_down_nor_an_abort(
    switched: tuple[Operator, list[str]],
) -> None:
    operator, calls = switched
    node = operator.enroll()
    torn_down(operator, node)
    assert operator.shows(node)["provision_state"] == "clean failed"
    operator.patches(node, driver_info={"fake_async_steps": ["*"], "fake_step_seconds": 3600})
    power(operator, node, ON)
    calls.clear()
    assert operator.provision(node, "provide")["provision_state"] == "clean wait"
    shown = operator.provision(node, "abort")
    assert (shown["provision_state"], shown["power_state"]) == ("clean failed", ON)
    assert calls == []


# -- while it is cleaned ---------------------------------------------------------------------

POWERS = ("power on", "power off", "rebooting", "soft rebooting", "soft power off")
FAILING_STEPS = listed("power.cycle")
BODIES: dict[str, Json] = {
    "clean": {"clean_steps": FAILING_STEPS},
    "service": {"service_steps": FAILING_STEPS},
    "rescue": {"rescue_password": "sesame"},
}
TARGETS = [verb.target for verb in verbs.TABLE]


def no_power(operator: Operator, node: str) -> None:
    """Check that no power state can be asked for, and that asking changes nothing."""
    before = operator.rig.get(node)
    for target in POWERS:
        answer = operator.api.put(f"/v1/nodes/{node}/states/power", {"target": target})
        assert answer.status == 400, answer.text
        assert before["provision_state"] in answer.text
    assert operator.rig.get(node) == before


def test_s2_22_power_and_verbs_are_refused_while_cleaning(serve: Serve) -> None:
    gate = Gate()
    operator = serve(registry=gate.registry(), conductor__node_locked_retry_attempts=1)
    node = operator.enroll()
    assert operator.asks(node, "provide").status == 202
    gate.wait()
    assert operator.shows(node)["provision_state"] == "cleaning"
    no_power(operator, node)
    for target in TARGETS:
        operator.refused(node, target, 409, **BODIES.get(target, {}))
    gate.opened.set()
    operator.rig.reaches(node, "available")  # and the clean has not noticed
    assert begun(operator, node) == AUTOMATED


def test_s2_22_and_while_a_step_is_waited_for(operator: Operator) -> None:
    node = enroll_waiting(operator)
    assert operator.provision(node, "provide")["provision_state"] == "clean wait"
    no_power(operator, node)
    for target in TARGETS:
        if target != "abort":  # C27: the only one
            operator.refused(node, target, 400, **BODIES.get(target, {}))
    assert operator.provision(node, "abort")["provision_state"] == "clean failed"


def test_s2_23_after_a_failed_clean_the_power_can_be_switched(operator: Operator) -> None:
    node = operator.enroll()
    automated(operator, node)
    for target, state in zip(POWERS, (ON, OFF, ON, ON, OFF), strict=True):
        shown = power(operator, node, target)
        assert (shown["power_state"], shown["target_power_state"]) == (state, None)
        assert shown["driver_internal_info"]["driver_notes"]["fake_power_state"] == state
    assert (shown["provision_state"], shown["maintenance"]) == ("clean failed", True)


def test_s2_25_the_node_is_locked_while_it_is_cleaned(serve: Serve) -> None:
    gate = Gate()
    operator = serve(registry=gate.registry(), conductor__node_locked_retry_attempts=1)
    node = operator.enroll()
    assert operator.asks(node, "provide").status == 202
    gate.wait()
    before = operator.rig.get(node)
    assert operator.shows(node)["reservation"] == "here"
    assert operator.patches(node, extra__rack="r2").status == 409
    assert operator.patches(node, retired=True).status == 409
    assert operator.api.delete(f"/v1/nodes/{node}").status == 409
    boot_device = f"/v1/nodes/{node}/management/boot_device"
    assert operator.api.put(boot_device, {"boot_device": "disk"}).status == 409
    assert operator.rig.get(node) == before
    gate.opened.set()
    operator.rig.reaches(node, "available")
    assert operator.shows(node)["reservation"] is None


def test_s2_25_one_lock_lasts_over_all_steps(serve: Serve) -> None:
    tokens: list[str] = []

    def before(_kind: str, name: str) -> None:
        if name in ("prepare_cleaning", "execute_clean_step", "tear_down_cleaning"):
            tokens.append(operator.rig.get(node)["lock_token"])

    operator = serve(registry=watched(before))
    node = operator.enroll()
    operator.clean(node, "bios.factory_reset", "power.cycle", "deploy.erase_devices")
    assert len(tokens) == 5
    assert len(set(tokens)) == 1
    assert tokens[0] is not None


def test_s2_25_waiting_node_is_not_locked(operator: Operator) -> None:
    node = enroll_waiting(operator)
    shown = operator.provision(node, "provide")
    assert (shown["provision_state"], shown["reservation"]) == ("clean wait", None)
    # C12: the lock is given back, and updates stay refused - but for retiring (C21).
    assert operator.patches(node, extra__rack="r2").status == 409
    assert operator.patches(node, retired=True).status == 200
    operator.provision(node, "abort")
    assert operator.patches(node, extra__rack="r2").status == 200
