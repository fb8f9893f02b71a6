"""Drivers: which are loaded, which interface a node gets, and the contract that they see."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.metadata
import logging
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import pytest
from oslo_config import cfg
from stevedore import ExtensionManager

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.core.options import HARDWARE_TYPE, KINDS, NOT_BUILT
from ironic_lite.domain import fields, passthru
from ironic_lite.domain.passthru import DRIVER, NODE, Call, PassthruRoute
from ironic_lite.drivers import base, contract, registry
from ironic_lite.drivers.fake import behaviour
from ironic_lite.drivers.fake.hardware import FakeHardware
from ironic_lite.drivers.ipmi.hardware import IpmiHardware, ManualManagementHardware
from ironic_lite.drivers.redfish.hardware import RedfishHardware
from ironic_lite.drivers.redfish.idrac import IdracHardware
from tests.support import broken_drivers, driver_packages

# Which drivers are loaded, which are not and why, and which one a node gets.

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
    assert (chosen["boot"], chosen["deploy"]) == ("ipxe", "autodetect")
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
        registry.Registry.load(_with(types=["rack"], power=["pdu"], network=["vlans"]))
    for option, name in (
        ("enabled_hardware_types", "rack"),
        ("enabled_power_interfaces", "pdu"),
        ("enabled_network_interfaces", "vlans"),
    ):
        assert f"[DEFAULT]{option}: nothing installed is called {name}; there is " in str(
            refusal.value
        )
    assert "there is noop" in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_names_that_are_not_built_are_left_out_with_one_line(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Live files list names of Ironic that no node uses."""
    settings = _with(types=["ilo", "irmc"], power=["snmp", "ilo"], network=["neutron"])
    found = registry.Registry.load(settings)
    assert found.hardware_types == ("fake-hardware",)
    assert list(found.interfaces["power"]) == ["fake"]
    assert [record.getMessage() for record in caplog.records] == [
        "Names of Ironic that are not built are left out: enabled_hardware_types ilo, irmc; "
        "enabled_network_interfaces neutron; enabled_power_interfaces snmp, ilo. "
        "ironic-lite-status check-ironic-conf FILE gives the reasons."
    ]


def test_list_of_names_that_are_not_built_stops_the_start() -> None:
    with pytest.raises(config.ConfigError) as refusal:
        registry.Registry.load(dataclasses.replace(SETTINGS, hardware_types=["ilo5", "snmp"]))
    ilo, snmp = (NOT_BUILT[HARDWARE_TYPE][name] for name in ("ilo5", "snmp"))
    assert str(refusal.value) == (
        f"[DEFAULT]enabled_hardware_types: ilo5: {ilo}; "
        f"[DEFAULT]enabled_hardware_types: snmp: {snmp}"
    )


def test_default_that_is_not_built_stops_the_start() -> None:
    settings = _with(network=["neutron"], defaults={"network": "neutron"})
    sentence = re.escape(NOT_BUILT["network"]["neutron"])
    with pytest.raises(config.ConfigError, match=f"default_network_interface: neutron: {sentence}"):
        registry.Registry.load(settings)


def test_installed_driver_may_have_a_name_that_is_not_built(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = "from ironic_lite.drivers.fake.hardware import FakePower as Outlets\n"
    points = "[ironic_lite.hardware.interfaces.power]\nsnmp = outlets_driver:Outlets\n"
    driver_packages.install(monkeypatch, tmp_path, {"outlets_driver": source}, points)
    found = registry.Registry.load(_with(power=["snmp"]))
    assert list(found.interfaces["power"]) == ["fake", "snmp"]


@pytest.mark.parametrize(
    ("kind", "name"),
    [(kind, name) for kind in KINDS for name in NOT_BUILT[kind]],
)
def test_node_cannot_have_an_interface_that_is_not_built(kind: str, name: str) -> None:
    loaded = registry.Registry.load(SETTINGS)
    with pytest.raises(errors.InterfaceNotFound) as refusal:
        loaded.resolve("fake-hardware", {kind: name})
    sentence = NOT_BUILT[kind][name]
    assert refusal.value.message == f"{kind}_interface: {name} is not available. {sentence}"


# -- inspection hooks ------------------------------------------------------------------------

_HOOK = "class Hook(base.InspectionHook):\n    dependencies = {}\n"
HOOKS = {
    "hooks": "from ironic_lite.drivers import base\n"
    + _HOOK.format("('memory', 'ports')")
    + _HOOK.format("('two',)").replace("Hook(", "One(")
    + _HOOK.format("('one',)").replace("Hook(", "Two(")
    + _HOOK.format("('absent',)").replace("Hook(", "Needy("),
    "broken": "import a_library_that_nobody_has\n",
    "thief": "{}['x']\n",
}
POINTS = """\
[ironic_lite.inspection.hooks]
rack = hooks:Hook
one = hooks:One
two = hooks:Two
needy = hooks:Needy
broken = broken:Hook
thief = thief:Hook
plain = builtins:dict
[ironic.inspection.hooks]
theirs = theirs:Hook
"""


@pytest.fixture
def hooks(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    """Install hooks of another project."""
    driver_packages.install(monkeypatch, tmp_path, HOOKS, POINTS)


def of_hooks(*names: str) -> registry.Settings:
    return dataclasses.replace(SETTINGS, hooks={"[inspector]hooks": names})


@pytest.mark.usefixtures("hooks")
def test_hook_of_a_package_comes_after_those_that_it_requires() -> None:
    registry.Registry.load(of_hooks("cpus", "rack"))
    found = registry.inspection_hooks(["cpus", "rack"])
    assert list(found) == ["cpus", "memory", "validate-interfaces", "ports", "rack"]
    assert found["rack"] is registry.inspection_hooks(["rack"])["rack"]


@pytest.mark.usefixtures("hooks")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("prots", r"nothing installed is called prots; there is accelerators, arch.*, rack, "),
        ("needy", r"nothing installed is called absent; there is .*; needy requires it"),
        ("one", "hooks require each other: one, two, one"),
        ("broken", "the hook broken cannot be loaded: ModuleNotFoundError: No module named 'a_lib"),
        ("thief", "the hook thief cannot be loaded: KeyError: 'x'"),
        ("plain", "the hook plain cannot be loaded: TypeError: builtins:dict is not a class deriv"),
        (
            "theirs",
            'theirs is an inspection hook of outside.*, written for Ironic: see "Port a hook of '
            'Ironic" in docs/inspection.rst',
        ),
    ],
)
def test_hook_that_cannot_be_used_stops_the_start(name: str, said: str) -> None:
    with pytest.raises(config.ConfigError, match=rf"\[inspector\]hooks: {said}") as refusal:
        registry.Registry.load(of_hooks("ports", name))
    assert "\n" not in str(refusal.value)


def test_all_unknown_hooks_are_named_at_once() -> None:
    named = {"[inspector]hooks": ["prots"], "[redfish]inspection_hooks": ["memroy"]}
    with pytest.raises(config.ConfigError, match=r"called prots; there.*hooks: nothing.*memroy"):
        registry.Registry.load(dataclasses.replace(SETTINGS, hooks=named))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "No such file"),
        ("a: [", "while parsing"),
        ("[]", "must have a list pci_devices"),
        ("pci_devices: [{vendor_id: '10de'}]", "must have a list pci_devices"),
        ("pci_devices: [{vendor_id: 4318, device_id: '2235'}]", "must have a list pci_devices"),
        ("pci_devices: [{vendor_id: a, device_id: b, at: 2026-01-01}]", "must have a list"),
    ],
)
def test_unusable_file_of_accelerators_stops_the_start(
    tmp_path: pathlib.Path, text: str | None, said: str
) -> None:
    path = tmp_path / "known.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(config.ConfigError, match=rf"known_accelerators: .*known.yaml: .*{said}"):
        registry.Registry.load(dataclasses.replace(SETTINGS, known_accelerators=str(path)))


def test_accelerators_of_a_file_replace_the_known_ones(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "known.yaml"
    path.write_text("pci_devices:\n- {vendor_id: 1AB2, device_id: 00c3, type: FPGA}\n")
    found = registry.Registry.load(dataclasses.replace(SETTINGS, known_accelerators=str(path)))
    assert found.accelerators == [{"vendor_id": "1ab2", "device_id": "00c3", "type": "FPGA"}]


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


# Which interface a node gets: the one it names, else the configured one, else the best.


class Rack(base.HardwareType):
    """Works with three power interfaces, and with whatever it says nothing about."""

    supported: ClassVar[Mapping[str, tuple[str, ...]]] = {"power": ("best", "good", "poor")}


class Case(NamedTuple):
    """What is loaded in this order, what the option says, what the node names, the outcome."""

    loaded: Sequence[str]
    configured: str | None
    wanted: Any
    outcome: str | tuple[type[errors.Error], str]
    hardware_type: base.HardwareType = Rack()
    kind: str = "power"


RACK = "Hardware type rack"
CASES = {
    # explicit
    "the name it names": Case(("best", "good"), None, "good", "good"),
    "its name before the option": Case(("best", "good", "poor"), "good", "poor", "poor"),
    "its name although the option does not fit": Case(("best", "odd"), "odd", "best", "best"),
    "a name nobody enabled": Case(
        ("best",),
        None,
        "steam",
        (
            errors.InterfaceNotFound,
            "Could not find the following interface in the 'power' interfaces of hardware type "
            "rack: steam. Valid interfaces are best. To use steam, add it to "
            "[DEFAULT]enabled_power_interfaces and restart the conductor.",
        ),
    ),
    "a name it works with that nobody enabled": Case(
        ("best",), None, "good", (errors.InterfaceNotFound, "To use good, add it to [DEFAULT]")
    ),
    "a name that failed to load": Case(
        ("best",),
        None,
        "broken",
        (
            errors.InterfaceNotFound,
            "broken is enabled but could not be loaded: see the conductor's log.",
        ),
    ),
    "a name of other machines": Case(
        ("best", "odd"),
        None,
        "odd",
        (
            errors.IncompatibleInterface,
            f"{RACK} does not work with the power interface odd. Valid interfaces are best; "
            "name one of them with power_interface, or leave it out. To leave it out in a change "
            "of the driver, add ?reset_interfaces=true.",
        ),
    ),
    "a number": Case(
        ("best",), None, 7, (errors.InvalidParameter, "power_interface: is not a str")
    ),
    "no text": Case(("best",), None, "", (errors.InterfaceNotFound, "Valid interfaces are best.")),
    # the option
    "the option": Case(("best", "good"), "good", None, "good"),
    "an option that does not fit": Case(
        ("best", "odd"),
        "odd",
        None,
        (
            errors.NoValidDefaultForInterface,
            f"{RACK} has no default power interface here: [DEFAULT]default_power_interface is odd, "
            "which it does not work with. Name one with power_interface; valid interfaces are "
            "best.",
        ),
    ),
    "an option that failed to load": Case(
        ("best",),
        "broken",
        None,
        (errors.NoValidDefaultForInterface, "is broken, which could not be loaded. Name one with"),
    ),
    # the order of the hardware type
    "the best that is enabled": Case(("poor", "good"), None, None, "good"),
    "the only one": Case(("odd", "poor"), None, None, "poor"),
    "nothing that fits": Case(
        ("odd",),
        None,
        None,
        (
            errors.NoValidDefaultForInterface,
            f"{RACK} has no default power interface here: none that it works with is enabled. "
            "Enable one with [DEFAULT]enabled_power_interfaces; it works with best, good, poor.",
        ),
    ),
    "nothing fits, and an option": Case(
        ("odd",), "odd", None, (errors.NoValidDefaultForInterface, "none that it works with is")
    ),
    # what a hardware type says nothing about
    "an optional kind": Case(("no-raid", "fake"), None, None, "no-raid", kind="raid"),
    "the network": Case(("flat", "noop"), None, None, "noop", kind="network"),
    "a kind that must be named": Case(
        ("fake",),
        None,
        None,
        (errors.NoValidDefaultForInterface, "it works with none."),
        kind="boot",
    ),
    # a machine that is not there works with all
    "any name on a fake machine": Case(("odd",), None, "odd", "odd", FakeHardware()),
    "an option on a fake machine": Case(("fake", "odd"), "odd", None, "odd", FakeHardware()),
    "fake before others": Case(("odd", "fake"), None, None, "fake", FakeHardware()),
    "else the first enabled": Case(("odd", "even"), None, None, "odd", FakeHardware()),
    "a name nobody enabled, on a fake machine": Case(
        ("fake",),
        None,
        "odd",
        (errors.InterfaceNotFound, "Valid interfaces are fake."),
        FakeHardware(),
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_a_node_gets(case: Case) -> None:
    offered = registry.interface_choice(
        "rack", case.hardware_type, case.kind, case.loaded, case.configured
    )
    if isinstance(case.outcome, str):
        assert offered.pick(case.wanted, case.loaded, ["broken"]) == case.outcome
        return
    kind, said = case.outcome
    with pytest.raises(errors.InvalidRequest) as refusal:
        offered.pick(case.wanted, case.loaded, ["broken"])
    assert type(refusal.value) is kind
    assert said in refusal.value.message
    assert "<" not in refusal.value.message


# -- the orders of the hardware types (drivers.md: 1) ----------------------------------------

GENERIC = {
    "boot": ("ipxe", "pxe", "http-ipxe", "http"),
    "deploy": ("autodetect", "direct", "ansible", "ramdisk", "anaconda", "bootc", "custom-agent"),
    "inspect": ("agent", "no-inspect"),
    "raid": ("no-raid", "agent"),
    "rescue": ("no-rescue", "agent"),
    "network": ("flat", "neutron", "noop"),
    "firmware": ("no-firmware",),
    "bios": ("no-bios",),
    "storage": ("noop",),
}
ORDERS: dict[str, tuple[base.HardwareType, Mapping[str, tuple[str, ...]]]] = {
    "ipmi": (
        IpmiHardware(),
        {
            **GENERIC,
            "management": ("ipmitool", "noop"),
            "power": ("ipmitool",),
            "vendor": ("ipmitool", "no-vendor"),
            "console": ("ipmitool-socat", "no-console"),
        },
    ),
    "manual-management": (
        ManualManagementHardware(),
        {
            **GENERIC,
            "deploy": (*GENERIC["deploy"], "noop"),
            "management": ("noop",),
            "power": ("agent",),
            "vendor": ("no-vendor",),
        },
    ),
    "redfish": (
        RedfishHardware(),
        {
            **GENERIC,
            "boot": (*GENERIC["boot"], "redfish-virtual-media", "redfish-https"),
            "inspect": ("redfish", *GENERIC["inspect"]),
            "raid": ("redfish", *GENERIC["raid"]),
            "firmware": ("redfish", *GENERIC["firmware"]),
            "bios": ("redfish", *GENERIC["bios"]),
            "management": ("redfish", "noop"),
            "power": ("redfish",),
            "vendor": ("redfish", "no-vendor"),
        },
    ),
    "idrac": (
        IdracHardware(),
        {
            **GENERIC,
            "boot": (
                *GENERIC["boot"],
                "idrac-redfish-virtual-media",
                "redfish-https",
                "redfish-virtual-media",
            ),
            "inspect": ("idrac-redfish", *GENERIC["inspect"], "redfish"),
            "raid": ("idrac-redfish", *GENERIC["raid"]),
            "firmware": ("redfish", *GENERIC["firmware"]),
            "bios": ("idrac-redfish", "redfish", *GENERIC["bios"]),
            "management": ("idrac-redfish",),
            "power": ("idrac-redfish", "redfish"),
            "vendor": ("idrac-redfish", "redfish", "no-vendor"),
        },
    ),
}


@pytest.mark.parametrize("name", ORDERS)
def test_a_hardware_type_prefers_in_the_order_of_the_reference(name: str) -> None:
    hardware_type, orders = ORDERS[name]
    for kind, order in orders.items():
        real = tuple(each for each in hardware_type.supported[kind] if each != "fake")
        assert real == order, kind
        last = hardware_type.supported[kind][-1]
        assert "fake" not in hardware_type.supported[kind] or last == "fake"


@pytest.mark.parametrize("name", ORDERS)
def test_a_hardware_type_works_with_something_installed_of_every_kind(name: str) -> None:
    for kind in base.KINDS:
        group = f"ironic_lite.hardware.interfaces.{kind}"
        installed = [point.name for point in importlib.metadata.entry_points(group=group)]
        assert registry.interface_choice(name, ORDERS[name][0], kind, installed, None).default, kind


# ``drivers.base`` is all that drivers of others import: it offers the whole contract.

PROMISED = """
    BASES BIOS BOOT_MODES COMPONENTS DONE IMAGE_SCHEMES INDICATOR_STATES KINDS OPTIONAL_KINDS
    POWER_OFF POWER_ON RAID RAMDISKS REBOOT SOFT_POWER_OFF SOFT_REBOOT VIRTUAL_MEDIA WAIT
    Agent AgentReport Arg BiosSetting Boot Call Console Deploy Driver Firmware FirmwareComponent
    HardwareType Inspect Interface Management Network Node Outcome Port Power Proxy Rescue Step
    StepKind Storage StoredStep Task Vendor clean_step deploy_step driver_passthru passthru
    service_step verify_step
"""
"""What drivers of others may import: names may be added, and none may go."""


def _defined() -> Iterator[str]:
    """Give the public names of the modules of the contract, but for what they import."""
    for path in pathlib.Path(contract.__file__).parent.glob("[a-z]*.py"):
        module = importlib.import_module(f"{contract.__name__}.{path.stem}")
        for name, value in vars(module).items():
            if name in PROMISED.split() or getattr(value, "__module__", None) == module.__name__:
                yield name


def test_documented_names_exist() -> None:
    assert [name for name in PROMISED.split() if not hasattr(base, name)] == []


def test_the_whole_contract_is_offered() -> None:
    found = {name for name in _defined() if not name.startswith("_")}
    assert {"Task", "Power", "POWER_ON"} <= found
    assert found - set(base.__all__) == set()


def test_each_kind_has_its_class() -> None:
    assert set(base.BASES) == set(fields.INTERFACE_KINDS)
    assert all(getattr(base, one.__name__) is one for one in base.BASES.values())


# Marks of vendors' methods: what they refuse at definition, and how a call finds its method.


class Maker(base.Vendor):
    """A vendor with one method of each kind, and things that are none."""

    @base.passthru(methods=("GET", "PUT"), description="Look.", lock=False)
    def look(self, task: base.Task, call: Call) -> Any:
        """Look."""

    @base.passthru(async_call=True, attach=False)
    def work(self, task: base.Task, call: Call) -> Any:
        """Work."""

    @base.driver_passthru(methods=("GET",))
    def everywhere(self, call: Call) -> Any:
        """Look everywhere."""

    @property
    def explosive(self) -> Any:
        """Must not be run only to see what it is."""
        raise AssertionError

    def unmarked(self, task: base.Task, call: Call) -> Any:
        """Not to be called from outside."""


class Heir(Maker):
    """Replaces one method by one that nobody may call, and inherits the rest."""

    def work(self, task: base.Task, call: Call) -> Any:
        """No mark."""


def test_methods_are_found_by_their_marks() -> None:
    assert passthru.collect(Maker(), NODE) == {
        "look": PassthruRoute(NODE, ("GET", "PUT"), description="Look.", lock=False),
        "work": PassthruRoute(NODE, ("POST",), async_call=True),
    }
    assert passthru.collect(Maker, DRIVER) == {
        "everywhere": PassthruRoute(DRIVER, ("GET",), lock=False)
    }
    assert list(passthru.collect(Heir(), NODE)) == ["look"]
    assert passthru.collect(base.Vendor(), NODE) == {}


@pytest.mark.parametrize(
    ("scope", "name", "verb", "says"),
    [
        (NODE, "wok", "POST", "no vendor method 'wok'; this driver has: look, work"),
        (NODE, "unmarked", "POST", "no vendor method"),
        (NODE, "explosive", "POST", "no vendor method"),
        (NODE, "everywhere", "GET", "no vendor method"),
        (DRIVER, "look", "GET", "this driver has: everywhere"),
        (NODE, "look", "POST", "look does not take POST, only GET, PUT"),
        (NODE, "look", "get", "look does not take get"),
    ],
)
def test_a_call_that_nobody_serves_is_refused(scope: str, name: str, verb: str, says: str) -> None:
    with pytest.raises(errors.InvalidParameter, match=says) as refusal:
        passthru.pick(Maker(), scope, name, verb)
    assert refusal.value.facts["path"] == "method"


def test_a_call_finds_its_route() -> None:
    assert passthru.pick(Maker(), NODE, "look", "PUT").lock is False


@pytest.mark.parametrize("methods", [(), "POST", ("post",), ("HEAD",), ("POST", "FETCH")])
@pytest.mark.parametrize("mark", [base.passthru, base.driver_passthru])
def test_bad_http_methods_are_refused_when_the_class_is_defined(mark: Any, methods: Any) -> None:
    with pytest.raises(errors.InvalidParameter, match="is not a list of GET, POST"):
        mark(methods=methods)


def test_asynchronous_call_needs_the_lock() -> None:
    with pytest.raises(errors.InvalidParameter, match="lock: an asynchronous call"):
        base.passthru(async_call=True, lock=False)
