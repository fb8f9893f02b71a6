"""Machines of every hardware type, for tests that lead a node through its life."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.emulators import bmc, ipmi, redfish

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Machine:
    """A machine that a node can be enrolled for.

    :param fields: what the node says besides its driver.
    :param steps: of a manual clean.
    :param boots: the boot devices it must offer.
    :param is_on: looks at the machine itself, behind everybody's back.
    :param properties: what an inspection must find.
    """

    driver: str
    fields: Json
    steps: list[Json]
    is_on: Callable[[], bool] | None = None
    boots: frozenset[str] = frozenset({"pxe", "disk"})
    properties: Json = dataclasses.field(default_factory=dict)


def step(title: str, **args: Any) -> Json:
    """Return a step of a list from ``interface.name``."""
    interface, _, name = title.partition(".")
    found: Json = {"interface": interface, "step": name}
    return {**found, "args": args} if args else found


POWER = [step("power.power_on"), step("power.power_off")]


@contextlib.contextmanager
def _fake(folder: pathlib.Path) -> Iterator[Machine]:
    steps = [step("management.reset_bmc"), step("bios.factory_reset"), step("deploy.erase_devices")]
    fields = {"raid_interface": "fake", "bios_interface": "fake", "firmware_interface": "fake"}
    yield Machine("fake-hardware", {**fields, "inspect_interface": "fake"}, steps + POWER)


@contextlib.contextmanager
def _by_hand(folder: pathlib.Path) -> Iterator[Machine]:
    fields = {"power_interface": "fake", "inspect_interface": "fake"}
    yield Machine(
        "manual-management", fields, [step("deploy.erase_devices"), *POWER], boots=frozenset()
    )


@contextlib.contextmanager
def _sushy_tools(folder: pathlib.Path) -> Iterator[Machine]:
    with redfish.Emulator() as running:
        (only,) = running.machines
        info = {"redfish_address": running.address, "redfish_system_id": only.system_id}
        fields = {"driver_info": info, "inspect_interface": "fake"}
        yield Machine("redfish", fields, POWER)


@contextlib.contextmanager
def _ours(folder: pathlib.Path) -> Iterator[Machine]:
    with bmc.serve(make="dell", users={"root": "secret"}) as running:
        fields = {"driver_info": running.driver_info, "inspect_interface": "fake"}
        steps = [step("management.reset_bmc"), *POWER]
        state = running[running.system]
        yield Machine("redfish", fields, steps, is_on=lambda: bool(state["PowerState"] == "On"))


@contextlib.contextmanager
def _ipmi(folder: pathlib.Path) -> Iterator[Machine]:
    missing = ipmi.missing()
    if missing:
        names = " and ".join(missing)
        pytest.skip(f"NOT TESTED: {names} not installed; scripts/services.sh installs them")
    folder.mkdir()
    with ipmi.Bmc(folder) as running:
        fields = {"driver_info": running.driver_info(), "inspect_interface": "fake"}
        steps = [step("management.reset_bmc"), *POWER]
        yield Machine("ipmi", fields, steps, is_on=lambda: running.power)


MACHINES: dict[str, Callable[[pathlib.Path], contextlib.AbstractContextManager[Machine]]] = {
    "fake-hardware": _fake,
    "manual-management": _by_hand,
    "redfish of sushy-tools": _sushy_tools,
    "redfish of our own": _ours,
    "ipmi of OpenIPMI": _ipmi,
}
