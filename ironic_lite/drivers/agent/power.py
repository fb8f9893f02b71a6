"""The power interface ``agent``: the ramdisk's agent restarts the machine.

It is for machines without a BMC. An operator boots the ramdisk by hand; from then on its agent
restarts the machine. Such a machine is never switched off.
"""

from __future__ import annotations

from typing import ClassVar

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView
from ironic_lite.domain import fast_track
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import standby
from ironic_lite.drivers.agent.client import Client

_RESTARTS = (base.REBOOT, base.SOFT_REBOOT)


class AgentPower(base.Power):
    """Restarts a machine by its agent."""

    in_band: ClassVar[bool] = True

    def get_properties(self) -> dict[str, str]:
        """Return ``{driver_info key: description}``."""
        return {fast_track.KEY: standby.DESCRIPTION}

    def check_driver_info(self, driver_info: JsonView) -> None:
        """Reject invalid values in driver_info.

        :raises errors.InvalidParameter: naming ``driver_info/fast_track``.
        """
        fast_track.check(driver_info)

    def validate(self, task: base.Task) -> None:
        """Check that the node is on fast track, because otherwise no agent keeps running.

        :raises errors.InvalidParameter: the node is not on fast track.
        """
        if not standby.wanted(task):
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
        Client(task).commands()
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
        Client(task).start("standby.run_image", {})
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
