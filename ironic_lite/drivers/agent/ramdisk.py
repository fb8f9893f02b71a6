"""Booting the ramdisk on a machine, and taking it away: the power, the medium and the secret."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ironic_lite.drivers import base
from ironic_lite.drivers.agent import standby

TOKEN = "ipa-agent-token"
"""The kernel parameter by which a ramdisk is told its secret before it asks."""
AT_WORK = "agent_ramdisk"
"""What is kept while the steps of a run may count on a ramdisk, through restarts of its machine."""


def boot(
    task: base.Task, mode: str = "deploy", more: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Boot the ramdisk; returns when the machine is on, long before its agent speaks.

    A machine whose power must stay on is rebooted instead of switched off and on. For a ramdisk
    that runs already this is its reboot: what it boots from is put in place anew.

    :param mode: one of ``base.RAMDISKS``.
    :param more: further kernel parameters, by name.
    :raises errors.HardwareError: the machine or its BMC refused.
    """
    switch_off(task)
    _prepare(task, mode, more)
    task.keep(AT_WORK, True if mode == "deploy" else None)
    _start(task)


def again(task: base.Task) -> None:
    """Have the ramdisk at work, if there is one, boot again with the restart that follows: from
    what it boots, machines boot once.

    :raises errors.Error: what it boots from cannot be put in place.
    """
    if at_work(task):
        _prepare(task)


def at_work(task: base.Task) -> bool:
    """Tell whether the run under way counts on a ramdisk, be it that it boots just now."""
    return bool(task.recall(AT_WORK))


def forget(task: base.Task) -> None:
    """Count on no ramdisk any more."""
    task.keep(AT_WORK, None)


def _prepare(
    task: base.Task, mode: str = "deploy", more: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Put in place what the ramdisk boots from next, with a secret of its own."""
    if not task.driver.power.in_band:  # else the agent is still to be told
        task.forget_agent()
    carries = task.driver.boot.carries_parameters(task, mode)
    params = {**more, **({TOKEN: task.new_agent_token()} if carries else {})}
    task.driver.boot.prepare_ramdisk(task, params, mode)


def boot_instance(task: base.Task) -> None:
    """Boot what is on the machine's disk.

    :raises errors.HardwareError: the machine or its BMC refused.
    """
    forget(task)
    task.driver.boot.prepare_instance(task)
    _start(task)


def leave(task: base.Task, mode: str = "deploy", *, off: bool = True) -> None:
    """Take the ramdisk away. Repeatable.

    :param off: switch the machine off, unless its power must stay on; else the ramdisk that runs
        goes on, and its agent is not believed any more.
    :raises errors.HardwareError: the machine or its BMC refused.
    """
    forget(task)
    if off:
        switch_off(task)
    task.driver.boot.clean_up_ramdisk(task, mode)
    if not task.driver.power.in_band:  # else only it can restart the machine
        task.forget_agent()


def part(task: base.Task, mode: str = "deploy") -> None:
    """Take the ramdisk away at a good end; on the fast track it goes on, for the next verb.

    :raises errors.HardwareError: the machine or its BMC refused.
    """
    if standby.ready(task):
        forget(task)
        task.driver.boot.clean_up_ramdisk(task, mode)
    else:
        leave(task, mode, off=not task.failing)


def enter(task: base.Task) -> base.Outcome:
    """Boot the ramdisk and wait for it, unless one runs that can be used at once: DONE.

    :raises errors.HardwareError: the machine or its BMC refused.
    """
    if standby.ready(task):
        task.keep(AT_WORK, True)
        return base.DONE
    boot(task)
    return base.WAIT


def begin(task: base.Task) -> None:
    """Forget, before a deployment, an agent that it will not use."""
    forget(task)
    if task.agent is not None and not task.driver.power.in_band and not standby.ready(task):
        task.forget_agent()


def stays_on(task: base.Task) -> bool:
    """Tell whether the machine is never switched off: it must not be, or cannot be."""
    return task.node.disable_power_off or task.driver.power.in_band


def switch_off(task: base.Task) -> None:
    """Switch the machine off, unless it must never be.

    :raises errors.HardwareError: the machine or its BMC refused.
    """
    if not stays_on(task):
        task.driver.power.set_power_state(task, base.POWER_OFF)
        task.node.power_state = base.POWER_OFF


def _start(task: base.Task) -> None:
    """Let the machine boot: a machine that must never be off by a reboot."""
    if stays_on(task):
        task.driver.power.reboot(task)
    else:
        task.driver.power.set_power_state(task, base.POWER_ON)
    task.node.power_state = base.POWER_ON
