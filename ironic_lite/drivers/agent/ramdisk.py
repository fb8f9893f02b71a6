"""Start and end of the ramdisk on a machine: power, boot medium and secret."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ironic_lite.drivers import base
from ironic_lite.drivers.agent import standby
from ironic_lite.drivers.boot import modes

TOKEN = "ipa-agent-token"
"""The kernel parameter that gives a ramdisk its secret before its lookup."""
AT_WORK = "agent_ramdisk"
"""Key that is set while a run needs a ramdisk, including restarts of its machine."""


def boot(
    task: base.Task, mode: str = "deploy", more: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Boot the ramdisk; return when the machine is on, long before its agent answers.

    A machine whose power must stay on is rebooted instead of switched off and on. For a running
    ramdisk this is a reboot with new boot files.

    :param mode: one of ``base.RAMDISKS``.
    :param more: further kernel parameters, by name.
    :raises errors.HardwareError: the machine or its BMC refused.
    """
    switch_off(task)
    modes.secure(task, on=False)  # it may have no signature
    _prepare_boot(task, mode, more)
    task.keep(AT_WORK, True if mode == "deploy" else None)
    _start_machine(task)


def again(task: base.Task) -> None:
    """Let the ramdisk of the run, if there is one, boot again at the next restart.

    This is needed because its boot device is set for one boot only.

    :raises errors.Error: its boot files cannot be put in place.
    """
    if at_work(task):
        _prepare_boot(task)


def at_work(task: base.Task) -> bool:
    """Return whether the current run uses a ramdisk, even one that is still booting."""
    return bool(task.recall(AT_WORK))


def forget(task: base.Task) -> None:
    """Note that the run does not use a ramdisk any more."""
    task.keep(AT_WORK, None)


def _prepare_boot(
    task: base.Task, mode: str = "deploy", more: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Put the ramdisk's boot files in place, with a new secret."""
    if not task.driver.power.in_band:  # else the agent must restart the machine first
        task.forget_agent()
    carries = task.driver.boot.carries_parameters(task, mode)
    params = {**more, **({TOKEN: task.new_agent_token()} if carries else {})}
    task.driver.boot.prepare_ramdisk(task, params, mode)


def boot_instance(task: base.Task) -> None:
    """Boot the instance, with secure boot if it requires that.

    :raises errors.HardwareError: the machine or its BMC refused.
    """
    forget(task)
    modes.secure(task, on=True)
    task.driver.boot.prepare_instance(task)
    _start_machine(task)


def leave(task: base.Task, mode: str = "deploy", *, off: bool = True) -> None:
    """Take the ramdisk away. Repeatable.

    :param off: switch the machine off, unless its power must stay on; else the ramdisk keeps
        running, but its agent is no longer trusted.
    :raises errors.HardwareError: the machine or its BMC refused.
    """
    forget(task)
    if off:
        switch_off(task)
    task.driver.boot.clean_up_ramdisk(task, mode)
    if not task.driver.power.in_band:  # else only it can restart the machine
        task.forget_agent()


def part(task: base.Task, mode: str = "deploy") -> None:
    """Take the ramdisk away after a success; on fast track keep it for the next verb.

    :raises errors.HardwareError: the machine or its BMC refused.
    """
    if standby.ready(task):
        forget(task)
        task.driver.boot.clean_up_ramdisk(task, mode)
        return
    leave(task, mode, off=not task.failing)
    if not task.failing:
        restart_kept_on(task)


def restart_kept_on(task: base.Task) -> None:
    """Restart a machine with disable_power_off, so that its ramdisk or instance ends.

    Call it after everything from which the machine must not boot is taken away. Other machines are
    off by then, or only their agent could restart them.

    :raises errors.HardwareError: the machine or its BMC refused.
    """
    if task.node.disable_power_off and not task.driver.power.in_band:
        task.switch_power(base.REBOOT)
        task.node.power_state = base.POWER_ON


def enter(task: base.Task) -> base.Outcome:
    """Boot the ramdisk and WAIT for it; return DONE if a usable one runs already.

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
    """Return whether the machine must not be or cannot be switched off."""
    return task.node.disable_power_off or task.driver.power.in_band


def switch_off(task: base.Task) -> None:
    """Switch the machine off, unless its power must stay on.

    :raises errors.HardwareError: the machine or its BMC refused.
    """
    if not stays_on(task):
        task.switch_power(base.POWER_OFF)
        task.node.power_state = base.POWER_OFF


def _start_machine(task: base.Task) -> None:
    """Start the machine; reboot it if its power must stay on."""
    if stays_on(task):
        task.switch_power(base.REBOOT)
    else:
        task.switch_power(base.POWER_ON)
    task.node.power_state = base.POWER_ON
