"""Power control by IPMI chassis commands; `SwitchingPower` polls for the result."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.domain.examination import Check as ConnectionCheck
from ironic_lite.domain.examination import Verdict, failed, passed
from ironic_lite.drivers import base, bmc_bases
from ironic_lite.drivers.bmc_bases import PowerChange, PowerCheck
from ironic_lite.drivers.ipmi import hardware, management, tool

# Checks of the way to an IPMI BMC before its login, which the check of its power includes.


def find_address(task: base.Task) -> Iterator[Verdict]:
    """Resolve ipmi_address, and compare its address with those allowed."""
    node = tool.settings(task)
    found = tool.located(node)
    yield passed(f"{node.address} is {found.address}, UDP port {node.port}")


def find_program(_task: base.Task) -> Iterator[Verdict]:
    """Find ipmitool on the conductor's machine."""
    place = shutil.which(tool.PROGRAM)
    if place is None:
        text = "ipmitool is not installed on the conductor's machine"
        yield failed(text, "Install the package ipmitool there.")
    else:
        yield passed(f"ipmitool is {place}")


TABLE: tuple[ConnectionCheck[base.Task], ...] = (
    ConnectionCheck(
        "ipmitool",
        "``ipmitool`` is installed on the conductor's machine.",
        find_program,
        "Install the package ipmitool there.",
    ),
    ConnectionCheck(
        "bmc_address",
        "The name in ``ipmi_address`` is resolved, to an address that is allowed.",
        find_address,
        "Correct ipmi_address in driver_info.",
        needs=("ipmitool",),
    ),
)
"""The checks, in the order of the way."""


_STATE = re.compile(r"^Chassis Power is (on|off)\s*$", re.MULTILINE)
_STATES: Mapping[str, str] = {"on": base.POWER_ON, "off": base.POWER_OFF}

# The orders are ipmitool's words.
TURN_ON = PowerChange(base.POWER_ON, "on", base.POWER_ON)
TURN_OFF = PowerChange(base.POWER_OFF, "off", base.POWER_OFF)
SHUT_DOWN = PowerChange(base.SOFT_POWER_OFF, "soft", base.POWER_OFF, soft=True)
RESTART = PowerChange(base.REBOOT, "reset", base.POWER_ON)


class IpmiPower(hardware.IpmiInterface, bmc_bases.SwitchingPower):
    """The power interface ``ipmitool``."""

    ways: ClassVar[Mapping[str, PowerChange[Any]]] = {
        way.target: way for way in (TURN_ON, TURN_OFF, SHUT_DOWN)
    }
    settle_seconds = 5.0
    connection_checks = TABLE

    def get_power_state(self, task: base.Task) -> str | None:
        """Read the power state with one command.

        :raises errors.HardwareError: see `tool.run`; or the answer is neither on nor off.
        """
        return _power_state(task)

    def reboot(self, task: base.Task, timeout: float | None = None, *, soft: bool = False) -> None:
        """Power off, softly if asked, and on again; a machine that is off is only powered on.

        With ``disable_power_off`` the BMC resets it in one command.

        :param timeout: seconds for each half; of a soft reboot, for the first half.
        :raises errors.PowerFailure: the BMC refused, or the state was not reached in time.
        """
        if not (task.node.disable_power_off and _power_state(task) == base.POWER_ON):
            self.off_and_on(task, timeout, soft=soft)
            return
        if soft:
            reason = "IPMI cannot restart a system softly, and the node's disable_power_off is set"
            raise errors.PowerFailure(target=base.SOFT_REBOOT, reason=reason)
        self.restart(task, RESTART, timeout)

    def restore_boot_device(self, task: base.Task) -> None:
        """See `management.restore`."""
        management.restore(task)

    def tell(self, task: base.Task, way: PowerChange[str], deadline: float) -> PowerCheck | None:
        """Send the command; on and off are sent in any state, as they are harmless and fast.

        A machine that is on keeps a device that is stored for its next boot.

        :raises errors.PowerFailure: the BMC refuses, and the state is not reached.
        """
        # Some BMCs refuse a soft power off while the power is off; others treat it as a press of
        # the button, and power the machine on.
        looks = way.soft or (way == TURN_ON and management.is_kept_for_one_boot(task))
        if looks and _power_state(task) == way.reached:
            return None
        seconds = _bounded_seconds(deadline - time.monotonic())
        try:
            repeatable = way.repeatable
            words = ("power", way.order)
            tool.run(task, words, once=not repeatable, seconds=seconds, patient=repeatable)
        except (errors.BmcUnreachable, errors.BmcAccessDenied):
            raise
        except errors.HardwareError as refusal:
            if not way.restarts and _power_state(task) == way.reached:
                return None
            raise errors.PowerFailure(target=way.target, reason=str(refusal)) from refusal
        if way in {TURN_ON, RESTART}:
            management.spend(task)
        return bmc_bases.no_check

    def look(self, task: base.Task, seconds: float) -> str | None:
        """Read the power state within the remaining time."""
        return _power_state(task, _bounded_seconds(seconds))


def _bounded_seconds(seconds: float) -> float:
    return min(seconds, float(config.CONF.ipmi.command_retry_timeout))


def _power_state(task: base.Task, seconds: float | None = None) -> str:
    answer = tool.run(task, ("power", "status"), seconds=seconds)
    state = parse(answer)
    if state is None:
        reason = f"its answer to the power state request is {answer.strip()[:60]!r}"
        address = tool.settings(task).address
        raise errors.BmcBadAnswer(address=address, reason=reason)
    return state


def parse(answer: str) -> str | None:
    """Return the power state in an answer to ``power status``, None without one."""
    found = _STATE.search(answer)
    return _STATES[found[1]] if found else None
