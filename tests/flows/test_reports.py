"""Sensors and firmware: what drivers tell of a machine is kept or passed on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.conductor.watch import sensors
from ironic_lite.core.context import Context
from ironic_lite.db.queries import reports
from ironic_lite.drivers import base
from ironic_lite.drivers.fake import hardware
from ironic_lite.drivers.fake.hardware import FakeManagement
from ironic_lite.rpc import notifier
from tests.support.conductor_fixture import ConductorFixture, wait_for

# Sensors are read in rounds, and told to whoever listens; no machine keeps another waiting.

Build = Callable[..., ConductorFixture]
USED = {"instance_uuid": "5fcb7a4c-9ae1-4bb1-9d0f-0e2b4e6b7d10", "power_state": "power on"}


class Ear(notifier.Notifier):
    """Hears what is told."""

    def __init__(self) -> None:
        self.heard: list[tuple[str, dict[str, Any]]] = []

    def measure(self, who: Context, event_type: str, payload: Any) -> None:
        assert who.user == "conductor:sensors"
        self.heard.append((event_type, payload))

    @property
    def nodes(self) -> list[str]:
        return [message["node_uuid"] for _, message in self.heard]


def listening(build: Build, **values: Any) -> tuple[ConductorFixture, sensors.Sensors, Ear]:
    settings = {f"sensor_data__{name}": value for name, value in values.items()}
    rig, ear = build(**settings), Ear()
    return rig, sensors.Sensors(rig.tasks, rig.service.ownership, ear), ear


def test_a_round_tells_what_each_machine_in_use_measures(build: Build) -> None:
    rig, rounds, ear = listening(build)
    node = rig.node("active", name="metal-1", **USED)
    rig.node("available")
    before = rig.get(node)
    rounds.sweep()
    ((kind, told),) = ear.heard
    assert kind == "hardware.fake-hardware.metrics"
    assert told["event_type"] == "hardware.fake-hardware.metrics.update"
    assert (told["node_uuid"], told["node_name"]) == (node, "metal-1")
    assert told["instance_uuid"] == USED["instance_uuid"]
    assert told["payload"]
    assert all(isinstance(some, dict) and some for some in told["payload"].values())
    assert rig.get(node) == before
    rounds.sweep()
    assert ear.nodes == [node, node]
    assert ear.heard[0][1]["message_id"] != ear.heard[1][1]["message_id"]


@pytest.mark.parametrize(
    ("types", "told"),
    [
        (["ALL"], {"Fan", "Power", "Temperature"}),
        (["fan", "POWER"], {"Fan", "Power"}),
        (["Drive"], set()),
    ],
    ids=["all", "two", "none"],
)
def test_only_the_wanted_types_are_told(types: list[str], told: set[str]) -> None:
    found: dict[str, dict[str, Any]] = {
        "Fan": {"1": {}},
        "Power": {"2": {}},
        "Temperature": {"3": {}},
        "Drive": {},
    }
    assert set(sensors.wanted(found, types)) == told


LEFT_OUT: dict[str, tuple[str, dict[str, Any]]] = {
    "without an instance": ("available", {}),
    "in maintenance": ("active", {**USED, "maintenance": True}),
    "retired": ("active", {**USED, "retired": True}),
    "worked on": ("active", {**USED, "reservation": "somebody"}),
    "not managed yet": ("enroll", USED),
    "without its interface": ("active", {**USED, "management_interface": "retro"}),
    "without sensors": ("active", {**USED, "management_interface": "noop"}),
}


@pytest.mark.parametrize(("state", "fields"), LEFT_OUT.values(), ids=LEFT_OUT)
def test_no_machine_is_read(build: Build, state: str, fields: dict[str, Any]) -> None:
    rig, rounds, ear = listening(build)
    rig.node(state, **fields)
    read = rig.node("active", **{**USED, "instance_uuid": "0" * 36})
    rounds.sweep()
    assert ear.nodes == [read]


def test_machines_without_an_instance_are_read_on_request(build: Build) -> None:
    rig, rounds, ear = listening(build, enable_for_undeployed_nodes=True)
    node = rig.node("available")
    rounds.sweep()
    assert ear.nodes == [node]


def test_a_machine_that_fails_is_asked_apart_next_time(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, rounds, ear = listening(build, workers=1, enable_for_undeployed_nodes=True)
    dead, alive = rig.node("available"), rig.node("available")
    answered = threading.Event()
    plain = FakeManagement.get_sensors_data

    def read(self: FakeManagement, task: Any) -> Any:
        if task.node.uuid == dead:
            if rounds.records.doubtful(dead):
                answered.wait(30)
            raise errors.BmcUnreachable(address="bmc", reason="silence")
        return plain(self, task)

    monkeypatch.setattr(FakeManagement, "get_sensors_data", read)
    rounds.sweep()
    assert ear.nodes == [alive]
    rounds.sweep()  # does not wait for the dead one
    assert ear.nodes == [alive, alive]
    answered.set()
    assert rounds.settle(30)
    assert rig.get(dead)["maintenance"] is False


def test_silent_machines_are_read_as_they_are_when_their_turn_comes(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, rounds, ear = listening(build, enable_for_undeployed_nodes=True)
    first, moved, gone, spared = (rig.node("available") for _ in range(4))
    asked: list[tuple[str, Any]] = []
    begun, go_on = threading.Event(), threading.Event()

    def read(self: FakeManagement, task: Any) -> Any:
        asked.append((task.node.uuid, task.node.driver_info.get("place")))
        if rounds.records.doubtful(first):
            begun.set()
            assert go_on.wait(30)
        raise errors.BmcUnreachable(address="bmc", reason="silence")

    monkeypatch.setattr(FakeManagement, "get_sensors_data", read)
    rounds.records.failed(first)
    for node in (moved, gone, spared):
        rounds.records.failed(node)
    rounds.sweep()
    assert begun.wait(30)
    rig.edit(moved, driver_info={"place": "elsewhere"})
    rig.ask("destroy_node", gone)
    rig.edit(spared, maintenance=True)
    go_on.set()
    assert rounds.settle(30)
    assert asked == [(first, None), (moved, "elsewhere")]
    assert ear.heard == []


def test_a_drivers_own_fault_stops_nobody(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    rig, rounds, ear = listening(build, enable_for_undeployed_nodes=True)
    odd, fine = rig.node("available"), rig.node("available")
    plain = FakeManagement.get_sensors_data

    def read(self: FakeManagement, task: Any) -> Any:
        return 1 / 0 if task.node.uuid == odd else plain(self, task)

    monkeypatch.setattr(FakeManagement, "get_sensors_data", read)
    rounds.sweep()
    assert ear.nodes == [fine]


def test_a_round_without_time_for_all_is_gone_on_with(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, rounds, ear = listening(
        build, workers=1, wait_timeout=100, enable_for_undeployed_nodes=True
    )
    machines = [rig.node("available") for _ in range(3)]
    now = [0.0]

    class Clock:
        @staticmethod
        def monotonic() -> float:
            return now[0]

    monkeypatch.setattr(sensors, "time", Clock)
    plain = FakeManagement.get_sensors_data

    def read(self: FakeManagement, task: Any) -> Any:
        now[0] += 60
        return plain(self, task)

    monkeypatch.setattr(FakeManagement, "get_sensors_data", read)
    rounds.sweep()
    assert ear.nodes == machines[:2]
    rounds.records.forget(0)
    rounds.sweep()
    rounds.settle(30)
    assert ear.nodes[:3] == machines
    rounds.sweep()
    rounds.settle(30)
    assert ear.nodes[3] == machines[0]


def test_sensor_sweeps_run_only_if_enabled(build: Build) -> None:
    rig, _, _ = listening(build)
    plan = rig.service.sweeps.plan["sensors"]
    assert plan.interval == 0
    rig, _, _ = listening(build, send_sensor_data=True, interval=77)
    plan = rig.service.sweeps.plan["sensors"]
    assert plan.interval == 77


def test_readings_go_out_as_notifications_of_oslo_messaging(
    build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    rig = build(sensor_data__send_sensor_data=True, oslo_messaging_notifications__driver=["log"])
    sender = rig.service.metrics
    assert isinstance(sender, notifier.Sender)
    node = rig.node("active", **USED)
    with caplog.at_level("INFO", "oslo.messaging.notification"):
        rig.service.sensors.sweep()
        wait_for(lambda: node in caplog.text)
    sender.close()
    (record,) = [one for one in caplog.records if node in one.getMessage()]
    assert "hardware.fake-hardware.metrics" in record.name + record.getMessage()


# What drivers tell of a machine's firmware is kept with the flow's own changes.

URL = "http://images.example.org/{}.bin"
TURBO = {"fake_bios_settings": [{"name": "turbo", "value": True}]}


def settings(rig: ConductorFixture, node: str) -> dict[str, str]:
    rows = rig.database.read(lambda conn: reports.get_bios_settings(conn, node))
    return {row["name"]: row["value"] for row in rows}


def versions(rig: ConductorFixture, node: str) -> dict[str, str]:
    rows = rig.database.read(lambda conn: reports.get_firmware(conn, node))
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
    row = rig.call("clean", node, clean_steps=[apply(a=1, b="x"), update(bios="A-2")])
    assert row["provision_state"] == "manageable"
    assert settings(rig, node) == {"a": "1", "b": "x"}
    assert versions(rig, node) == {"bios": "A-2"}
    rig.call("clean", node, clean_steps=[RESET, update(bmc="7")])
    assert settings(rig, node) == {}
    assert versions(rig, node) == {"bios": "A-2", "bmc": "7"}


@pytest.mark.parametrize(
    ("interface", "step", "told"),
    [
        ("deploy", "erase_devices_metadata", {}),
        ("management", "reset_bmc", {"turbo": "True"}),
    ],
)
def test_clean_reads_firmware_only_after_a_step_that_may_change_it(
    rig: ConductorFixture, interface: str, step: str, told: dict[str, str]
) -> None:
    node = rig.node(driver_internal_info={"driver_notes": TURBO})
    row = rig.call("clean", node, clean_steps=[{"interface": interface, "step": step}])
    assert row["provision_state"] == "manageable"
    assert settings(rig, node) == told


def test_a_step_that_waited_is_noted_at_its_end(rig: ConductorFixture) -> None:
    node = rig.node(fake_async_steps=["bios.apply_configuration"], fake_step_seconds=1000)
    rig.ask("clean", node, clean_steps=[apply(a=1)])
    rig.reaches(node, "clean wait")
    assert settings(rig, node) == {}
    rig.ring(node)
    rig.reaches(node, "manageable")
    assert settings(rig, node) == {"a": "1"}


def test_a_service_notes_too(rig: ConductorFixture) -> None:
    node = rig.node("active")
    row = rig.call("service", node, service_steps=[apply(a=1), update(bmc="2")])
    assert row["provision_state"] == "active"
    assert (settings(rig, node), versions(rig, node)) == ({"a": "1"}, {"bmc": "2"})


def test_change_before_a_failed_later_step_is_recorded(rig: ConductorFixture) -> None:
    node = rig.node(fake_fail_steps={"power.cycle": "no"})
    steps = [apply(a=1), {"interface": "power", "step": "cycle"}]
    row = rig.call("clean", node, clean_steps=steps)
    assert row["provision_state"] == "clean failed"
    assert settings(rig, node) == {"a": "1"}


def test_a_driver_that_cannot_tell_fails_nothing(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def break_off(self: Any, task: base.Task) -> Any:
        raise ValueError("nonsense")

    monkeypatch.setattr(hardware.FakeBIOS, "cache_bios_settings", break_off)
    monkeypatch.setattr(
        hardware.FakeFirmware,
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


class Odd(hardware.FakeBIOS):
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
    monkeypatch.setattr(hardware.FakeBIOS, "cache_bios_settings", Odd.cache_bios_settings)
    node = rig.node("enroll")
    assert rig.act("manage", node)["provision_state"] == "manageable"
    rows = rig.database.read(lambda conn: reports.get_bios_settings(conn, node))
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
