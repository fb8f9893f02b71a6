"""S2, cleaning states: which steps there are, and in which order they run."""

from __future__ import annotations

import logging
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.domain.steps import collect
from ironic_lite.drivers import base
from ironic_lite.drivers.registry import Registry, Settings
from tests.support import driver_packages, third_party_steps
from tests.support.cleaning_fixture import AUTOMATED, begun, loading
from tests.support.conductor_fixture import configure, listed
from tests.support.operator import Json, Operator

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
