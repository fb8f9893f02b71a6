"""Start and end of the ramdisk on a machine: power, boot medium and secret."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import ClassVar

from ironic_lite import errors
from ironic_lite.core import clock, config, context
from ironic_lite.core.json_types import restored
from ironic_lite.domain import fast_track, vocabulary
from ironic_lite.domain.waiting import RamdiskBoot
from ironic_lite.drivers import base, settings
from ironic_lite.drivers.agent.client import AgentClient
from ironic_lite.drivers.boot import modes

# Fast track: whether a machine's ramdisk still runs, so that the next verb can use it.

LOG = logging.getLogger(__name__)

GROUPS: settings.GroupedFields = {
    settings.RAMDISK: {
        fast_track.KEY: settings.DriverField(
            fast_track.read,
            "true or false: whether the next verb uses a ramdisk that still runs; overrides "
            "[deploy]fast_track.",
        )
    }
}
"""The key of driver_info about a ramdisk that still runs."""


def uses_fast_track(task: base.Task) -> bool:
    """Return whether the node uses fast track."""
    return fast_track.wanted(task.node.driver_info, config.CONF.deploy.fast_track)


def was_heard(task: base.Task) -> bool:
    """Return whether the agent has sent a heartbeat recently."""
    agent, limit = task.agent, config.CONF.deploy.fast_track_timeout
    return agent is not None and clock.lived(agent.heard_at) <= limit


def is_ready(task: base.Task) -> bool:
    """Return whether to continue without a reboot: an agent sent a heartbeat recently, nothing
    failed, and the machine has not been switched off meanwhile.
    """
    if not uses_fast_track(task) or not was_heard(task) or task.node.last_error or task.failing:
        return False
    if task.driver.power.in_band:
        return True
    if task.agent is None or task.agent.moved:
        LOG.info("Node %s: its driver_info has changed since its ramdisk booted", task.node.uuid)
        return False
    try:
        return task.driver.power.get_power_state(task) == base.POWER_ON
    except errors.HardwareError as why:
        LOG.info("Node %s: booting its ramdisk again: %s", task.node.uuid, why)
        return False


TOKEN = "ipa-agent-token"
"""The kernel parameter that gives a ramdisk its secret before its lookup."""
_REQUEST = "ipa-global-request-id"
AT_WORK = "agent_ramdisk"
"""Key that is set while a run needs a ramdisk, including restarts of its machine."""


def boot(task: base.Task, mode: str = "deploy", more: Mapping[str, str] = {}) -> None:
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
    _note_first_boot(task)


def boot_by_site(task: base.Task) -> None:
    """Let a machine boot from the network once, where the site's own servers give it a ramdisk.

    :raises errors.HardwareError: the machine or its BMC refused.
    """
    switch_off(task)
    if not task.driver.power.in_band:
        task.forget_agent()
    forget(task)
    modes.settle(task, "pxe", persistent=False)
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
    task.keep(vocabulary.RAMDISK_BOOT, None)


# Ramdisks that do not report: their machines are started again, by the conductor that has started
# them, until the first lookup of the run. Later restarts belong to steps and BMCs.

MOST_RESTARTS = 10


def _note_first_boot(task: base.Task) -> None:
    note, run = _boot_note(task), task.node.run_uuid
    mine = note.run == run
    if task.driver.boot.over_network and not (mine and note.at is None):
        restarts = note.restarts if mine else 0
        _keep_boot(task, RamdiskBoot(run, config.CONF.host, clock.stamp(), restarts))


def silent_seconds(task: base.Task) -> float:
    """Return the seconds since this conductor has started the run's ramdisk without a lookup.

    :returns: 0 if the machine must not be started again.
    """
    note, driver = _boot_note(task), task.driver
    mine = (note.run, note.by) == (task.node.run_uuid, config.CONF.host)
    if not mine or note.at is None or note.restarts >= MOST_RESTARTS or driver.power.in_band:
        return 0.0
    if any(task.recall(key) for one in driver.interfaces() for key in one.work_notes):
        return 0.0
    return clock.lived_since(note.at)


def count_restart(task: base.Task) -> int:
    """Record the next restart, before the machine is touched; return the number of restarts."""
    note = _boot_note(task)
    note = note._replace(at=clock.stamp(), restarts=note.restarts + 1)
    _keep_boot(task, note)
    return note.restarts


def _boot_note(task: base.Task) -> RamdiskBoot:
    return restored(RamdiskBoot, task.recall(vocabulary.RAMDISK_BOOT, {}))


def _keep_boot(task: base.Task, note: RamdiskBoot) -> None:
    task.keep(vocabulary.RAMDISK_BOOT, note._asdict())


def _prepare_boot(task: base.Task, mode: str = "deploy", more: Mapping[str, str] = {}) -> None:
    """Put the ramdisk's boot files in place, with a new secret."""
    if not task.driver.power.in_band:  # else the agent must restart the machine first
        task.forget_agent()
    carries = task.driver.boot.carries_parameters(task, mode)
    params = {**more, **({TOKEN: task.new_agent_token()} if carries else {})}
    if who := context.current():  # the agent sends it back with its requests
        params[_REQUEST] = who.global_request_id or who.request_id
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
    if is_ready(task):
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
    if is_ready(task):
        task.keep(AT_WORK, True)
        return base.DONE
    boot(task)
    return base.WAIT


def begin(task: base.Task) -> None:
    """Forget, before a deployment, an agent that it will not use."""
    forget(task)
    if task.agent is not None and not task.driver.power.in_band and not is_ready(task):
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


# The power interface ``agent``: the ramdisk's agent restarts the machine.
#
# It is for machines without a BMC. An operator boots the ramdisk by hand; from then on its agent
# restarts the machine. Such a machine is never switched off.

_RESTARTS = (base.REBOOT, base.SOFT_REBOOT)


class AgentPower(base.Power):
    """Restarts a machine by its agent."""

    in_band: ClassVar[bool] = True

    def property_groups(self) -> settings.GroupedFields:
        """Return the key about a ramdisk that still runs."""
        return GROUPS

    def validate(self, task: base.Task) -> None:
        """Check that the node is on fast track, because otherwise no agent keeps running.

        :raises errors.InvalidParameter: the node is not on fast track.
        """
        if not uses_fast_track(task):
            reason = (
                "the power interface agent needs true here, or [deploy]fast_track = true: it "
                "needs a ramdisk that keeps running"
            )
            raise errors.InvalidParameter(path=f"driver_info/{fast_track.KEY}", reason=reason)

    def get_power_state(self, task: base.Task) -> str | None:
        """Return ``power on`` if the agent answers.

        :raises errors.HardwareError: the agent does not answer, so the state is unknown.
        """
        _check_agent(task)
        AgentClient(task).commands()
        return base.POWER_ON

    def set_power_state(self, task: base.Task, target: str, timeout: float | None = None) -> None:
        """Restart the machine, or check that it is on.

        :raises errors.PowerFailure: the target is power off, or there is no agent.
        """
        if target in _RESTARTS:
            self.reboot(task, timeout)
        elif target == base.POWER_ON:
            self.get_power_state(task)
        else:
            reason = "the power interface agent cannot switch machines off: it cannot start them"
            raise errors.PowerFailure(target=target, reason=reason)

    def reboot(self, task: base.Task, timeout: float | None = None, *, soft: bool = False) -> None:
        """Ask the agent to restart its machine, which ends this ramdisk.

        :raises errors.HardwareError: there is no agent, or it refuses.
        """
        _check_agent(task)
        AgentClient(task).start("standby.run_image", {})
        task.forget_agent()

    def get_supported_power_states(self, task: base.Task) -> tuple[str, ...]:
        """Return the supported targets."""
        return (base.POWER_ON, *_RESTARTS)

    def supports_power_sync(self, task: base.Task) -> bool:
        """Return False, because a machine without an agent cannot be changed."""
        return False


def _check_agent(task: base.Task) -> None:
    if task.agent is None:
        raise errors.HardwareError(
            reason="No agent runs on the machine, and nothing else can restart it. Boot the "
            "ramdisk on it by hand, wait for its first heartbeat (agent_last_heartbeat in "
            "driver_internal_info), and repeat the request."
        )
