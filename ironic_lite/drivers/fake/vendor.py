"""What only the maker of machines that are not there has."""

from __future__ import annotations

import logging

from ironic_lite.drivers import base
from ironic_lite.drivers.fake import stage

LOG = logging.getLogger(__name__)


class FakeVendor(stage.Staged, base.Vendor):
    """One step that leaves a trace in the conductor's log."""

    @base.service_step(requires_ramdisk=False, rerunnable=True)
    def log_passthrough(self, task: base.Task) -> None:
        """Write one line."""
        LOG.info("The fake vendor was called for node %s.", task.node.uuid)
