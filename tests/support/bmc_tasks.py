"""Tasks on a node with a Redfish or an IPMI BMC, for tests of drivers; their pauses are short."""

from __future__ import annotations

import dataclasses
import pathlib
import time
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite.core import config
from ironic_lite.drivers.redfish import management, power
from tests.emulators import bmc, ipmi
from tests.support import fake_task

Program = Callable[[str], pathlib.Path]
"""A function that puts a shell script in ipmitool's place, and returns its folder."""


class BmcTask(fake_task.FakeTask):
    """A task whose pauses are real, but short: nothing here needs a second."""

    def pause(self, seconds: float) -> None:
        super().pause(seconds)
        time.sleep(min(seconds, 0.02))


def task_at(address: str, **driver_info: Any) -> BmcTask:
    """Return a task on a node behind the Redfish BMC at ``address``."""
    return BmcTask(
        fake_task.node(driver="redfish", driver_info={"redfish_address": address} | driver_info)
    )


REDFISH = dataclasses.replace(
    fake_task.FAKE,
    hardware_type="redfish",
    management=management.RedfishManagement(),
    power=power.RedfishPower(),
)


def task_of(machine: bmc.Machine, **driver_info: Any) -> BmcTask:
    """Return a task on the node of a machine, with real power and management."""
    info = {**machine.driver_info, **driver_info}
    return BmcTask(fake_task.node(driver="redfish", driver_info=info), driver=REDFISH)


def wait_for_answers(seconds: float) -> None:
    """Give BMCs so many seconds for an answer, from now to the end of the test.

    Logins are ended: each keeps the time-out that it was made with.
    """
    REDFISH.power.close()
    config.CONF.set_override("read_timeout", seconds, group="redfish")


def task_with(driver_info: dict[str, Any], **values: Any) -> BmcTask:
    """Return a task on a node of the hardware type ipmi."""
    return BmcTask(fake_task.node(driver="ipmi", driver_info=driver_info, **values))


def emulated(folder: pathlib.Path, **values: Any) -> ipmi.Bmc:
    """Return an IPMI BMC to be started; skip the test if ipmi_sim or ipmitool is missing."""
    missing = ipmi.missing()
    if missing:
        names = " and ".join(missing)
        pytest.skip(f"NOT TESTED: {names} not installed; make test installs them as root on Debian")
    folder.mkdir()
    return ipmi.Bmc(folder, **values)
