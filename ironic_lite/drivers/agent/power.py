"""The power interface ``agent``: what runs on a machine restarts it; nobody else could.

For machines without a BMC. Somebody boots the ramdisk on them by hand; from then on its agent is
asked to restart. Such a machine is never switched off.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from ironic_lite import errors, fast_track
from ironic_lite.drivers import base
from ironic_lite.drivers.agent import standby
from ironic_lite.drivers.agent.client import Client

_RESTARTS = (base.REBOOT, base.SOFT_REBOOT)


class AgentPower(base.Power):
    """Restarts a machine by its agent."""

    in_band: ClassVar[bool] = True

    def get_properties(self) -> dict[str, str]:
        """Return what driver_info may hold."""
        return {fast_track.KEY: standby.DESCRIPTION}

    def check_driver_info(self, driver_info: Mapping[str, Any]) -> None:
        """Refuse nonsense in driver_info.

        :raises errors.InvalidParameter: naming ``driver_info/fast_track``.
        """
        fast_track.check(driver_info)

    def validate(self, task: base.Task) -> None:
        """Check that the node is on the fast track: else no agent is ever kept.

        :raises errors.InvalidParameter: it is not.
        """
        if not standby.wanted(task):
            reason = (
                "the power interface agent needs true here, or [deploy]fast_track = true: it "
                "speaks to a ramdisk that goes on running"
            )
            raise errors.InvalidParameter(path=f"driver_info/{fast_track.KEY}", reason=reason)

    def get_power_state(self, task: base.Task) -> str | None:
        """Return ``power on`` if the agent answers.

        :raises errors.HardwareError: it does not; then nobody knows.
        """
        _needed(task)
        Client(task).commands()
        return base.POWER_ON

    def set_power_state(self, task: base.Task, target: str, timeout: float | None = None) -> None:
        """Restart the machine, or see that it is on.

        :raises errors.PowerFailure: it was to be switched off, or has no agent.
        """
        if target in _RESTARTS:
            self.reboot(task, timeout)
        elif target == base.POWER_ON:
            self.get_power_state(task)
        else:
            reason = "the power interface agent cannot switch machines off: nobody could start them"
            raise errors.PowerFailure(target=target, reason=reason)

    def reboot(self, task: base.Task, timeout: float | None = None, *, soft: bool = False) -> None:
        """Ask the agent to restart its machine; what it boots next is another ramdisk, or none.

        :raises errors.HardwareError: there is no agent, or it refuses.
        """
        _needed(task)
        Client(task).start("standby.run_image", {})
        task.forget_agent()

    def get_supported_power_states(self, task: base.Task) -> tuple[str, ...]:
        """Return the targets there are."""
        return (base.POWER_ON, *_RESTARTS)

    def supports_power_sync(self, task: base.Task) -> bool:
        """A machine without an agent is as it is."""
        return False


def _needed(task: base.Task) -> None:
    if task.agent is None:
        raise errors.HardwareError(
            reason="No agent runs on the machine, and nothing else can restart it. Boot the "
            "ramdisk on it by hand, wait for its first heartbeat (agent_last_heartbeat in "
            "driver_internal_info), and repeat the request."
        )
