"""Fake rescue interface, without hardware."""

from __future__ import annotations

from ironic_lite.drivers import base
from ironic_lite.drivers.fake import stage


class FakeRescue(stage.Staged, base.Rescue):
    """Does nothing, and succeeds."""

    def rescue(self, task: base.Task) -> base.Outcome:
        """End at once, or at the end of a wait.

        :raises errors.HardwareError: driver_info/fake_fail_verbs has ``rescue``.
        """
        if stage.waits(task, "rescue"):
            return base.WAIT
        return self.poll_rescue(task)

    def poll_rescue(self, task: base.Task) -> base.Outcome:
        """End the rescue: the wait is over.

        :raises errors.HardwareError: driver_info/fake_fail_verbs has ``rescue``.
        """
        stage.fail_verb(task, "rescue")
        return base.DONE

    def unrescue(self, task: base.Task) -> None:
        """Return to the instance.

        :raises errors.HardwareError: driver_info/fake_fail_verbs has ``unrescue``.
        """
        stage.fail_verb(task, "unrescue")
