"""What drivers tell of a machine's firmware is kept with the flow's own changes."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from ironic_lite.db.queries import bios_settings, firmware_components
from ironic_lite.drivers import base
from ironic_lite.drivers.fake import bios, firmware
from tests.support.conductor_fixture import ConductorFixture

URL = "http://images.example.org/{}.bin"
TURBO = {"fake_bios_settings": [{"name": "turbo", "value": True}]}


def settings(rig: ConductorFixture, node: str) -> dict[str, str]:
    rows = rig.database.read(lambda conn: bios_settings.of_node(conn, node))
    return {row["name"]: row["value"] for row in rows}


def versions(rig: ConductorFixture, node: str) -> dict[str, str]:
    rows = rig.database.read(lambda conn: firmware_components.of_node(conn, node))
    return {row["component"]: row["current_version"] for row in rows}


def apply(**values: Any) -> dict[str, Any]:
    listed = [{"name": name, "value": value} for name, value in values.items()]
    return {"interface": "bios", "step": "apply_configuration", "args": {"settings": listed}}


def update(**names: str) -> dict[str, Any]:
    listed = [{"component": part, "url": URL.format(name)} for part, name in names.items()]
    return {"interface": "firmware", "step": "update", "args": {"settings": listed}}


RESET = {"interface": "bios", "step": "factory_reset"}


def test_manage_notes_what_the_machine_tells(rig: ConductorFixture) -> None:
    notes = {**TURBO, "fake_firmware": {"bmc": "1.0"}}
    node = rig.node("enroll", driver_internal_info={"driver_notes": notes})
    assert rig.act("manage", node)["provision_state"] == "manageable"
    assert settings(rig, node) == {"turbo": "True"}
    assert versions(rig, node) == {"bmc": "1.0"}


def test_steps_of_a_clean_are_noted_also_when_nothing_is_left(rig: ConductorFixture) -> None:
    node = rig.node()
    row = rig.call("do_node_clean", node, clean_steps=[apply(a=1, b="x"), update(bios="A-2")])
    assert row["provision_state"] == "manageable"
    assert settings(rig, node) == {"a": "1", "b": "x"}
    assert versions(rig, node) == {"bios": "A-2"}
    rig.call("do_node_clean", node, clean_steps=[RESET, update(bmc="7")])
    assert settings(rig, node) == {}
    assert versions(rig, node) == {"bios": "A-2", "bmc": "7"}


def test_a_step_that_waited_is_noted_at_its_end(rig: ConductorFixture) -> None:
    node = rig.node(fake_async_steps=["bios.apply_configuration"], fake_step_seconds=1000)
    rig.ask("do_node_clean", node, clean_steps=[apply(a=1)])
    rig.reaches(node, "clean wait")
    assert settings(rig, node) == {}
    rig.ring(node)
    rig.reaches(node, "manageable")
    assert settings(rig, node) == {"a": "1"}


def test_a_service_notes_too(rig: ConductorFixture) -> None:
    node = rig.node("active")
    row = rig.call("do_node_service", node, service_steps=[apply(a=1), update(bmc="2")])
    assert row["provision_state"] == "active"
    assert (settings(rig, node), versions(rig, node)) == ({"a": "1"}, {"bmc": "2"})


def test_change_before_a_failed_later_step_is_recorded(rig: ConductorFixture) -> None:
    node = rig.node(fake_fail_steps={"power.cycle": "no"})
    steps = [apply(a=1), {"interface": "power", "step": "cycle"}]
    row = rig.call("do_node_clean", node, clean_steps=steps)
    assert row["provision_state"] == "clean failed"
    assert settings(rig, node) == {"a": "1"}


def test_a_driver_that_cannot_tell_fails_nothing(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def break_off(self: Any, task: base.Task) -> Any:
        raise ValueError("nonsense")

    monkeypatch.setattr(bios.FakeBIOS, "cache_bios_settings", break_off)
    monkeypatch.setattr(
        firmware.FakeFirmware,
        "cache_firmware_components",
        base.Firmware.cache_firmware_components,
    )
    node = rig.node("enroll")
    with caplog.at_level(logging.WARNING):
        assert rig.act("manage", node)["provision_state"] == "manageable"
    said = [line for line in caplog.messages if "could not be read" in line]
    assert len(said) == 1
    assert "(bios)" in said[0]
    assert "nonsense" in said[0]


class Odd(bios.FakeBIOS):
    """Tells what no database takes as it is."""

    def cache_bios_settings(self, task: base.Task) -> list[base.BiosSetting]:
        return [
            base.BiosSetting("Secret", "geheim", attribute_type="Password"),
            base.BiosSetting("AdminPassword", "geheim"),
            base.BiosSetting("PasswordStatus", "Locked", attribute_type="Enumeration"),
            # As BMCs of Cisco, Supermicro and NVIDIA name them, which have no registry.
            base.BiosSetting("PowerOnPassword", "Disabled"),
            base.BiosSetting("PasswordCheck_0119", "Setup"),
            base.BiosSetting("DefaultPasswordPolicy", True),
            base.BiosSetting("EnforcedPasswd", 0),
            base.BiosSetting("UserPassword", 4711),
            base.BiosSetting("SHA256SetupPassword", "19D283", attribute_type="String"),
            base.BiosSetting("nul", "a\0b\ud800", allowable_values=["x", 1]),  # type: ignore[list-item]
            base.BiosSetting("big", 10**40, lower_bound=-(10**40), upper_bound=2**63 - 1),
            base.BiosSetting("nan", float("nan"), lower_bound=float("nan")),  # type: ignore[arg-type]
            base.BiosSetting("list", ["a", {"b": 1}], read_only="yes"),  # type: ignore[arg-type]
            base.BiosSetting("x" * 300, "too long a name"),
            base.BiosSetting("", "no name"),
            base.BiosSetting("twice", 1),
            base.BiosSetting("twice", 2),
            base.BiosSetting("twice ", 3),
        ]


def test_odd_words_of_a_bmc_are_made_to_fit(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bios.FakeBIOS, "cache_bios_settings", Odd.cache_bios_settings)
    node = rig.node("enroll")
    assert rig.act("manage", node)["provision_state"] == "manageable"
    rows = rig.database.read(lambda conn: bios_settings.of_node(conn, node))
    found = {row["name"]: row for row in rows}
    odd = {"nul", "big", "nan", "list", "twice"}
    states = {
        "PasswordStatus": "Locked",
        "PowerOnPassword": "Disabled",
        "PasswordCheck_0119": "Setup",
        "DefaultPasswordPolicy": "True",
        "EnforcedPasswd": "0",
    }
    secrets = ("Secret", "AdminPassword", "SHA256SetupPassword", "UserPassword")
    assert set(found) == {*secrets, *states, *odd}
    assert {found[name]["value"] for name in secrets} == {None}
    assert {name: found[name]["value"] for name in states} == states
    assert (found["nul"]["value"], found["nul"]["allowable_values"]) == ("ab?", ["x", "1"])
    assert (found["big"]["value"], found["big"]["lower_bound"]) == (str(10**40), None)
    assert found["big"]["upper_bound"] == 2**63 - 1
    assert (found["nan"]["value"], found["nan"]["lower_bound"]) == ("nan", None)
    assert (found["list"]["value"], found["list"]["read_only"]) == ('["a", {"b": 1}]', None)
    assert found["twice"]["value"] == "2"
