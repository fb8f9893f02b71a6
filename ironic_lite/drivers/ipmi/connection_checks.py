"""Checks of the way to an IPMI BMC before its login, which the check of its power includes."""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from ironic_lite.domain.examination import Check, Verdict, failed, passed
from ironic_lite.drivers import base
from ironic_lite.drivers.ipmi import command, tool


def find_address(task: base.Task) -> Iterator[Verdict]:
    """Resolve ipmi_address, and compare its address with those allowed."""
    node = tool.settings(task)
    found = tool.located(node)
    yield passed(f"{node.address} is {found.address}, UDP port {node.port}")


def find_program(_task: base.Task) -> Iterator[Verdict]:
    """Find ipmitool on the conductor's machine."""
    place = shutil.which(command.PROGRAM)
    if place is None:
        text = "ipmitool is not installed on the conductor's machine"
        yield failed(text, "Install the package ipmitool there.")
    else:
        yield passed(f"ipmitool is {place}")


TABLE: tuple[Check[base.Task], ...] = (
    Check(
        "ipmitool",
        "``ipmitool`` is installed on the conductor's machine.",
        find_program,
        "Install the package ipmitool there.",
    ),
    Check(
        "bmc_address",
        "The name in ``ipmi_address`` is resolved, to an address that is allowed.",
        find_address,
        "Correct ipmi_address in driver_info.",
        needs=("ipmitool",),
    ),
)
"""The checks, in the order of the way."""
