"""Which interface a node gets: the one it names, else the configured one, else the best."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import pytest

from ironic_lite import errors
from ironic_lite.drivers import base, interface_selection
from ironic_lite.drivers.fake.hardware import FakeHardware
from ironic_lite.drivers.ipmi.hardware import IpmiHardware, ManualManagementHardware
from ironic_lite.drivers.redfish.hardware import RedfishHardware


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
    offered = interface_selection.choice(
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
        {**GENERIC, "management": ("noop",), "power": ("agent",), "vendor": ("no-vendor",)},
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
        assert interface_selection.choice(name, ORDERS[name][0], kind, installed, None).default, (
            kind
        )
