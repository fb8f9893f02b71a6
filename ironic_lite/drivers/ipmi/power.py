"""Power control by IPMI chassis commands; `power_switching` polls for the result."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.drivers import base, power_switching
from ironic_lite.drivers.ipmi import bootdevice, connection_checks, interface, tool
from ironic_lite.drivers.power_switching import Check, Way

_STATE = re.compile(r"^Chassis Power is (on|off)\s*$", re.MULTILINE)
_STATES: Mapping[str, str] = {"on": base.POWER_ON, "off": base.POWER_OFF}

# The orders are ipmitool's words.
TURN_ON = Way(base.POWER_ON, "on", base.POWER_ON)
TURN_OFF = Way(base.POWER_OFF, "off", base.POWER_OFF)
SHUT_DOWN = Way(base.SOFT_POWER_OFF, "soft", base.POWER_OFF, soft=True)
RESTART = Way(base.REBOOT, "reset", base.POWER_ON)


class IpmiPower(interface.IpmiInterface, power_switching.SwitchingPower):
    """The power interface ``ipmitool``."""

    ways: ClassVar[Mapping[str, Way[Any]]] = {
        way.target: way for way in (TURN_ON, TURN_OFF, SHUT_DOWN)
    }
    settle_seconds = 5.0
    connection_checks = connection_checks.TABLE

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
        """See `bootdevice.restore`."""
        bootdevice.restore(task)

    def tell(self, task: base.Task, way: Way[str], deadline: float) -> Check | None:
        """Send the command; on and off are sent in any state, as they are harmless and fast.

        A machine that is on keeps a device that is stored for its next boot.

        :raises errors.PowerFailure: the BMC refuses, and the state is not reached.
        """
        # Some BMCs refuse a soft power off while the power is off; others treat it as a press of
        # the button, and power the machine on.
        looks = way.soft or (way == TURN_ON and bootdevice.is_kept_for_one_boot(task))
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
            bootdevice.spend(task)
        return power_switching.no_check

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
