"""Machines of every hardware type, for tests that take a node through its lifecycle."""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.emulators import bmc, ipmi, redfish
from tests.emulators.bmc import dell

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True)
class Machine:
    """A machine that a node can be enrolled for.

    :param fields: what the node says besides its driver.
    :param steps: of a manual clean.
    :param boots: the boot devices it must offer.
    :param is_on: looks at the machine itself, behind everybody's back.
    :param started: looks whether the machine booted its instance as it should.
    :param properties: what an inspection must find.
    :param raid: the ``target_raid_config`` for its steps.
    """

    driver: str
    fields: Json
    steps: list[Json]
    is_on: Callable[[], bool] | None = None
    boots: frozenset[str] = frozenset({"pxe", "disk"})
    properties: Json = dataclasses.field(default_factory=dict)
    raid: Json | None = None
    started: Callable[[], bool] | None = None


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
        # The emulator tells nothing of memory, processors and disks.
        known = {"memory_mb": 1024, "local_gb": 10, "cpu_arch": "x86_64"}
        found = {**known, "vendor": "Sushy Emulator", "capabilities": "boot_mode:uefi"}
        fields = {"driver_info": info, "properties": known}
        yield Machine("redfish", fields, POWER, properties=found)


DISKS: Json = {"logical_disks": [{"raid_level": "5", "size_gb": 500, "is_root_volume": True}]}


def _everything() -> list[Json]:
    """Return all that Redfish has to offer as steps."""
    settings = [{"name": "ProcTurboMode", "value": "Disabled"}]
    images = [{"component": "bmc", "url": "http://192.0.2.1/BMC-9.9.bin"}]
    return [
        step("management.reset_bmc"),
        step("raid.create_configuration"),
        step("bios.apply_configuration", settings=settings),
        step("firmware.update", settings=images),
        step("raid.delete_configuration"),
        step("bios.factory_reset"),
        *POWER,
    ]


@contextlib.contextmanager
def _ours(folder: pathlib.Path) -> Iterator[Machine]:
    with bmc.serve(make="dell", users={"root": "secret"}) as running:
        kinds = ("bios", "firmware", "raid")
        fields = {
            "driver_info": running.driver_info,
            **{f"{kind}_interface": "redfish" for kind in kinds},
        }
        state = running[running.system]

        def is_on() -> bool:
            return bool(state["PowerState"] == "On")

        found = {"memory_mb": 98304, "cpus": 32, "cpu_arch": "x86_64", "vendor": "Dell Inc."}
        yield Machine("redfish", fields, _everything(), is_on, properties=found, raid=DISKS)


@contextlib.contextmanager
def _idrac(folder: pathlib.Path) -> Iterator[Machine]:
    """Give a Dell machine with all of its own interfaces; its instance is a ramdisk."""
    with bmc.serve(make="dell", users={"root": "secret"}) as running:
        kinds = ("bios", "inspect", "management", "power", "raid", "vendor")
        image = {"boot_iso": "http://192.0.2.80/instance.iso"}
        fields = {
            "driver_info": {**running.driver_info, "deploy_iso": "http://192.0.2.80/agent.iso"},
            **{f"{kind}_interface": "idrac-redfish" for kind in kinds},
            "firmware_interface": "redfish",
            "boot_interface": "idrac-redfish-virtual-media",
            "deploy_interface": "ramdisk",
            "instance_info": {**image, "ramdisk_image_download_source": "http"},
            "automated_clean": False,
        }
        dell.put_job(running)
        state = running[running.system]
        found = {"memory_mb": 98304, "cpus": 32, "cpu_arch": "x86_64", "vendor": "Dell Inc."}
        steps = [step("management.known_good_state"), *_everything()]
        yield Machine(
            "idrac",
            fields,
            steps,
            is_on=lambda: bool(state["PowerState"] == "On"),
            properties=found,
            raid=DISKS,
            started=lambda: running.booted[-1] == "VCD-DVD",
        )


@contextlib.contextmanager
def _ipmi(folder: pathlib.Path) -> Iterator[Machine]:
    missing = ipmi.missing()
    if missing:
        names = " and ".join(missing)
        pytest.skip(f"NOT TESTED: {names} not installed; make test installs them as root on Debian")
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
    "idrac of our own": _idrac,
    "ipmi of OpenIPMI": _ipmi,
}
