"""Which drivers are loaded, which are not and why, and which one a node gets."""

from __future__ import annotations

import dataclasses
import logging
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
from oslo_config import cfg
from stevedore import ExtensionManager

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.drivers import base, registry
from ironic_lite.drivers.fake import behaviour
from tests.support import broken_drivers, driver_packages

FAKE = {
    **{kind: ("fake", f"no-{kind}") for kind in base.OPTIONAL_KINDS},
    **dict.fromkeys(("boot", "deploy", "power"), ("fake",)),
    "management": ("fake", "noop"),
    "network": ("noop",),
    "storage": ("noop",),
}
DEFAULTS = {**dict.fromkeys(base.KINDS, "fake"), "network": "noop", "storage": "noop"}
NONE = dict.fromkeys(base.KINDS)
SETTINGS = registry.Settings(hardware_types=["fake-hardware"], interfaces=FAKE)


@pytest.fixture
def outside(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """Install the drivers of another project, most of them broken."""
    driver_packages.install(monkeypatch, tmp_path, broken_drivers.MODULES, broken_drivers.POINTS)


def _with(**enabled: Any) -> registry.Settings:
    """Return the settings with some interfaces more: ``power=["outside"]``."""
    merged = {kind: (*names, *enabled.get(kind, ())) for kind, names in FAKE.items()}
    types = ["fake-hardware", *enabled.get("types", ())]
    rest = {key: enabled[key] for key in ("defaults", "clean_priorities") if key in enabled}
    return registry.Settings(types, merged, **rest)


# -- what loads ------------------------------------------------------------------------------


def test_enabled_drivers_load_without_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    found = registry.Registry.load(SETTINGS)
    assert found.failures == {}
    assert found.hardware_types == ("fake-hardware",)
    assert caplog.records == []


def test_all_that_an_empty_configuration_enables_loads(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    program = tmp_path / "ipmitool"  # without it, a warning is logged
    program.touch(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    conf = cfg.ConfigOpts()
    config.register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    found = registry.Registry.load(registry.Settings.read(conf))
    assert found.failures == {}
    assert caplog.records == []
    for hardware_type in conf.enabled_hardware_types:
        assert set(found.resolve(hardware_type, NONE)) == set(base.KINDS)


@pytest.mark.parametrize("hardware_type", ["ipmi", "redfish"])
def test_a_real_machine_is_never_rehearsed_unasked(hardware_type: str) -> None:
    conf = cfg.ConfigOpts()
    config.register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    chosen = registry.Registry.load(registry.Settings.read(conf)).resolve(hardware_type, NONE)
    assert (chosen["boot"], chosen["deploy"]) == ("ipxe", "direct")
    assert "fake" not in chosen.values()


def test_the_configuration_says_what_is_loaded(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "test.conf"
    file.write_text(
        "[DEFAULT]\n"
        "enabled_hardware_types = fake-hardware\n"
        "enabled_power_interfaces = fake\n"
        "default_raid_interface = no-raid\n"
        "[conductor]\n"
        "clean_step_priority_override = deploy.erase_devices:5\n"
        "clean_step_priority_override = power.cycle:1.5\n"
        "[deploy]\n"
        "erase_devices_priority = 7\n"
        "delete_configuration_priority = 3\n"
    )
    conf = cfg.ConfigOpts()
    config.register(conf)
    conf(["--config-file", str(file)], default_config_files=[], default_config_dirs=[])
    found = registry.Settings.read(conf)
    assert found.hardware_types == ["fake-hardware"]
    assert set(found.interfaces) == set(base.KINDS)
    assert found.interfaces["power"] == ["fake"]
    assert found.defaults == {**NONE, "raid": "no-raid"}
    assert found.clean_priorities == {
        "deploy.erase_devices": 5,
        "raid.delete_configuration": 3,
        "power.cycle": 1.5,
    }


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("missing", "ModuleNotFoundError: No module named 'a_library_nobody_has'"),
        ("asserting", "AssertionError: two lines"),
        ("misspelt", "SyntaxError"),
        ("nowhere", "AttributeError"),
        ("function", "TypeError: outside:function is not a class derived from Power"),
        ("deploying", "TypeError: outside:Tied is not a class derived from Power"),
        ("unfinished", "TypeError"),
    ],
)
@pytest.mark.usefixtures("outside")
def test_a_driver_that_cannot_be_loaded_costs_one_line_and_stops_no_other(
    name: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        found = registry.Registry.load(_with(power=[name, "outside"]))
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith(f"The power interface {name} is not loaded: {reason}")
    assert "\n" not in record.getMessage()
    assert list(found.failures) == [f"power interface {name}"]
    assert found.resolve("fake-hardware", {**NONE, "power": "outside"})["power"] == "outside"
    with pytest.raises(errors.InterfaceNotFound) as refusal:
        found.resolve("fake-hardware", {**NONE, "power": name})
    assert refusal.value.facts == {
        "kind": "power",
        "driver": "fake-hardware",
        "name": name,
        "valid": "fake, outside",
        "advice": f"{name} is enabled but could not be loaded: see the conductor's log.",
    }


@pytest.mark.usefixtures("outside")
def test_a_hardware_type_of_unknown_kinds_is_not_loaded(caplog: pytest.LogCaptureFixture) -> None:
    found = registry.Registry.load(_with(types=["strange"]))
    assert found.hardware_types == ("fake-hardware",)
    assert "hardware type strange is not loaded" in caplog.text
    assert "wheels" in caplog.text


@pytest.mark.usefixtures("outside")
def test_without_any_hardware_type_there_is_no_start() -> None:
    with pytest.raises(config.ConfigError, match="enabled_hardware_types: none of them"):
        registry.Registry.load(dataclasses.replace(SETTINGS, hardware_types=["strange"]))
    with pytest.raises(config.ConfigError, match="enabled_hardware_types: none of them"):
        registry.Registry.load(dataclasses.replace(SETTINGS, hardware_types=[]))


def test_names_that_nothing_installed_has_are_all_told_at_once() -> None:
    with pytest.raises(config.ConfigError) as refusal:
        registry.Registry.load(_with(types=["ilo"], power=["snmp"], network=["neutron"]))
    for option, name in (
        ("enabled_hardware_types", "ilo"),
        ("enabled_power_interfaces", "snmp"),
        ("enabled_network_interfaces", "neutron"),
    ):
        assert f"[DEFAULT]{option}: nothing installed is called {name}; there is " in str(
            refusal.value
        )
    assert "there is noop" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_a_default_must_be_enabled() -> None:
    with pytest.raises(
        config.ConfigError,
        match=r"default_raid_interface: agent is not in enabled_raid_interfaces",
    ):
        registry.Registry.load(_with(defaults={"raid": "agent", "power": None}))


def test_interface_name_of_two_packages_loads_neither(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in (1, 2):
        points = f"[ironic_lite.hardware.interfaces.power]\ntwice = twice{number}:Power\n"
        driver_packages.install(monkeypatch, tmp_path / str(number), {}, points)
    found = registry.Registry.load(_with(power=["twice"]))
    assert "several packages bring this name: twice1:Power, twice2:Power" in caplog.text
    assert list(found.failures) == ["power interface twice"]


def test_a_package_that_the_cache_of_names_does_not_know_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    registry.Registry.load(SETTINGS)
    cached = dict(ExtensionManager.ENTRY_POINT_CACHE)
    driver_packages.install(monkeypatch, tmp_path, broken_drivers.MODULES, broken_drivers.POINTS)
    monkeypatch.setattr(ExtensionManager, "ENTRY_POINT_CACHE", cached)
    assert registry.Registry.load(_with(power=["outside"])).failures == {}


# -- equal priorities (S2.12, C8) ------------------------------------------------------------


@pytest.mark.usefixtures("outside")
def test_an_interface_with_two_clean_steps_of_one_priority_is_refused(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = registry.Registry.load(_with(deploy=["tied"]))
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    for part in ("deploy interface tied", "erase_devices_metadata", "deploy.scrub", "priority 99"):
        assert part in record.getMessage()
    with pytest.raises(errors.InterfaceNotFound):
        found.resolve("fake-hardware", {**NONE, "deploy": "tied"})


@pytest.mark.usefixtures("outside")
def test_an_interface_with_a_step_that_only_the_service_could_run_is_refused() -> None:
    found = registry.Registry.load(_with(deploy=["restarting"]))
    (reason,) = found.failures.values()
    assert "rename the step deploy.reboot" in reason
    assert "power_off, power_on, reboot, wait" in reason


@pytest.mark.usefixtures("outside")
@pytest.mark.parametrize("priority", [98, 0])
def test_an_override_that_parts_them_lets_the_interface_load(priority: float) -> None:
    found = registry.Registry.load(
        _with(deploy=["tied"], clean_priorities={"deploy.scrub": priority})
    )
    assert found.failures == {}


def test_an_override_that_makes_two_equal_refuses_the_interface() -> None:
    found = registry.Registry.load(_with(clean_priorities={"deploy.erase_devices": 99}))
    assert list(found.failures) == ["deploy interface fake"]
    with pytest.raises(errors.NoValidDefaultForInterface):
        found.resolve("fake-hardware", NONE)


def test_equal_priorities_of_different_interfaces_are_fine() -> None:
    priorities = {"power.cycle": 10, "raid.delete_configuration": 10}
    assert registry.Registry.load(_with(clean_priorities=priorities)).failures == {}


# -- which driver a node gets ----------------------------------------------------------------


def test_a_fake_node_gets_fake_interfaces_and_noop_where_there_is_no_fake() -> None:
    found = registry.Registry.load(SETTINGS)
    assert found.resolve("fake-hardware", {}) == DEFAULTS
    driver = found.driver_for("fake-hardware", NONE)
    assert driver.hardware_type == "fake-hardware"
    for kind in base.KINDS:
        assert isinstance(driver.interface(kind), base.BASES[kind])


def test_the_same_names_give_the_same_driver_and_implementations_are_shared() -> None:
    found = registry.Registry.load(SETTINGS)
    one = found.driver_for("fake-hardware", NONE)
    assert found.driver_for("fake-hardware", {}, {"image_source": "x"}) is one
    other = found.driver_for("fake-hardware", {**NONE, "raid": "no-raid"})
    assert other is not one
    assert other.power is one.power


def test_a_wanted_name_beats_the_default_and_instance_info_beats_both() -> None:
    found = registry.Registry.load(_with(defaults={"raid": "no-raid"}))
    assert found.resolve("fake-hardware", NONE)["raid"] == "no-raid"
    assert found.resolve("fake-hardware", {"bios": "no-bios"})["bios"] == "no-bios"
    given = {"bios_interface": "fake", "raid_interface": "fake", "capabilities": {}}
    resolved = found.resolve("fake-hardware", {"bios": "no-bios"}, given)
    assert (resolved["bios"], resolved["raid"]) == ("fake", "fake")
    driver = found.driver_for("fake-hardware", {"bios": "no-bios"}, given)
    assert driver.bios is found.driver_for("fake-hardware", {"bios": "fake"}).bios


@pytest.mark.parametrize("wrong", [7, ["fake"], {"name": "fake"}, True])
def test_a_name_that_is_no_string_is_refused(wrong: Any) -> None:
    found = registry.Registry.load(SETTINGS)
    for attempt in (found.resolve, found.driver_for):
        with pytest.raises(errors.InvalidParameter, match="power_interface"):
            attempt("fake-hardware", NONE, {"power_interface": wrong})


def test_an_unknown_hardware_type_is_refused() -> None:
    found = registry.Registry.load(SETTINGS)
    with pytest.raises(errors.DriverNotFound, match="ilo"):
        found.resolve("ilo", NONE)
    with pytest.raises(errors.DriverNotFound):
        found.driver_for("ilo", NONE)
    with pytest.raises(errors.DriverNotFound):
        found.properties("ilo")


@pytest.mark.usefixtures("outside")
def test_a_hardware_type_takes_only_what_it_works_with() -> None:
    found = registry.Registry.load(_with(types=["outside"], power=["outside"]))
    with pytest.raises(errors.IncompatibleInterface) as refusal:
        found.resolve("outside", {"raid": "fake"})
    assert refusal.value.facts == {
        "kind": "raid",
        "driver": "outside",
        "name": "fake",
        "valid": "no-raid",
    }
    assert found.resolve("outside", NONE)["power"] == "outside"


@pytest.mark.usefixtures("outside")
def test_hardware_type_lacks_interfaces_that_it_does_not_list() -> None:
    found = registry.Registry.load(_with(types=["outside"], power=["outside"]))
    resolved = found.resolve("outside", NONE)
    assert {kind: resolved[kind] for kind in base.OPTIONAL_KINDS} == {
        kind: f"no-{kind}" for kind in base.OPTIONAL_KINDS
    }
    assert resolved["network"] == resolved["storage"] == "noop"


@pytest.mark.usefixtures("outside")
def test_a_hardware_type_whose_nodes_cannot_be_made_is_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    found = registry.Registry.load(
        dataclasses.replace(SETTINGS, hardware_types=["outside"], interfaces={**FAKE, "boot": ()})
    )
    assert "outside has no default boot interface; its nodes cannot be made" in caplog.text
    with pytest.raises(errors.NoValidDefaultForInterface, match="boot"):
        found.resolve("outside", NONE)


@pytest.mark.usefixtures("outside")
def test_a_configured_default_that_does_not_fit_is_no_default() -> None:
    settings = _with(types=["outside"], power=["outside"], defaults={"management": "fake"})
    found = registry.Registry.load(settings)
    assert found.resolve("fake-hardware", NONE)["management"] == "fake"
    with pytest.raises(errors.NoValidDefaultForInterface, match="valid interfaces are noop"):
        found.resolve("outside", NONE)
    assert not any(
        row["is_default"]
        for row in found.rows()
        if (row["hardware_type"], row["interface_type"]) == ("outside", "management")
    )


@pytest.mark.usefixtures("outside")
def test_an_enabled_interface_of_no_use_is_named(caplog: pytest.LogCaptureFixture) -> None:
    registry.Registry.load(dataclasses.replace(SETTINGS, hardware_types=["outside"]))
    assert "No enabled hardware type works with the management interface fake." in caplog.text


def test_an_interface_of_no_use_that_is_enabled_by_default_is_not_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    conf = cfg.ConfigOpts()
    config.register(conf)
    conf([], project=config.PROJECT, default_config_files=[], default_config_dirs=[])
    conf.set_override("enabled_hardware_types", ["ipmi"])
    registry.Registry.load(registry.Settings.read(conf))
    assert "works with" not in caplog.text


# -- what others are told --------------------------------------------------------------------


def test_rows_name_each_combination_once_and_one_default_of_each_kind() -> None:
    rows = registry.Registry.load(SETTINGS).rows()
    assert {(row["interface_type"], row["interface_name"]) for row in rows} == {
        (kind, name) for kind, names in FAKE.items() for name in names
    }
    assert len(rows) == sum(map(len, FAKE.values()))
    assert {
        row["interface_type"]: row["interface_name"] for row in rows if row["is_default"]
    } == DEFAULTS
    assert {row["hardware_type"] for row in rows} == {"fake-hardware"}


@pytest.mark.usefixtures("outside")
def test_properties_are_those_of_the_default_interfaces() -> None:
    found = registry.Registry.load(_with(types=["outside"], power=["outside"]))
    assert found.properties("fake-hardware") == dict(behaviour.PROPERTIES)
    assert "outside_key" in found.properties("outside")


@pytest.mark.usefixtures("outside")
def test_driver_info_is_checked_by_the_chosen_interfaces() -> None:
    found = registry.Registry.load(_with(power=["outside"]))
    chosen = found.resolve("fake-hardware", NONE)
    found.check(chosen, {"fake_step_seconds": 5, "outside_key": 1})
    with pytest.raises(errors.InvalidParameter, match="driver_info/fake_step_seconds"):
        found.check(chosen, {"fake_step_seconds": -5})
    with pytest.raises(errors.InvalidParameter, match="driver_info/outside_key"):
        found.check({**chosen, "power": "outside"}, {"outside_key": 1})


def test_loading_brings_in_neither_slow_libraries_nor_other_drivers() -> None:
    script = (
        "import sys\n"
        "from ironic_lite.drivers import base, registry\n"
        f"registry.Registry.load(registry.Settings(['fake-hardware'], {FAKE!r}))\n"
        "print([m for m in ('pkg_resources', 'sushy', 'sqlalchemy', 'pecan') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"


def test_loading_the_default_drivers_leaves_the_libraries_of_their_machines_out() -> None:
    script = (
        "import sys\n"
        "from ironic_lite.core import config\n"
        "from ironic_lite.drivers import registry\n"
        "config.load('ironic-lite', ['--config-file', '/dev/null'])\n"
        "found = registry.Registry.load(registry.Settings.read())\n"
        "assert {'redfish', 'ipmi'} <= set(found.hardware_types) and not found.failures\n"
        "print([m for m in ('sushy', 'requests', 'urllib3', 'pycdlib') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "[]"
