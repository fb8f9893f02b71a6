"""Fake vendor interface, without hardware."""

from __future__ import annotations

import logging

from ironic_lite import errors
from ironic_lite.core.json_types import Json
from ironic_lite.drivers import base
from ironic_lite.drivers.fake import stage

LOG = logging.getLogger(__name__)

REMEMBERED = "fake_vendor_value"
BLINKS = "fake_vendor_blinks"


class FakeVendor(stage.Staged, base.Vendor):
    """One method for each kind of call, and a step that writes to the log."""

    def check_passthru(self, task: base.Task, name: str, call: base.Call) -> None:
        """Require the ``value`` to be stored.

        :raises errors.MissingParameter: naming ``value``.
        """
        super().check_passthru(task, name, call)
        if name == "remember" and call.verb != "DELETE" and "value" not in call.info:
            raise errors.MissingParameter(path="value")

    @base.passthru(
        methods=("GET", "POST"), lock=False, description="Return what the call was made with."
    )
    def echo(self, task: base.Task, call: base.Call) -> Json:
        """Return it."""
        return {"verb": call.verb, "info": dict(call.info)}

    @base.passthru(methods=("GET",), lock=False, attach=True, description="Return a text file.")
    def leaflet(self, task: base.Task, call: base.Call) -> str:
        """Return two lines."""
        return f"Node {task.node.uuid}\nis not there.\n"

    @base.passthru(
        methods=("POST", "PUT", "PATCH", "DELETE"),
        description="Keep the JSON value of the key value on the node, or forget it (DELETE).",
    )
    def remember(self, task: base.Task, call: base.Call) -> Json:
        """Keep it; return what was kept before."""
        before = task.recall(REMEMBERED)
        task.keep(REMEMBERED, None if call.verb == "DELETE" else call.info["value"])
        return {"before": before}

    @base.passthru(async_call=True, description="Take the time of a step, and count the calls.")
    def blink(self, task: base.Task, call: base.Call) -> None:
        """Count.

        :raises errors.HardwareError: driver_info/fake_fail_calls says so.
        """
        stage.play_call(task, "vendor.blink")
        task.keep(BLINKS, task.recall(BLINKS, 0) + 1)

    @base.driver_passthru(methods=("GET", "POST"), description="Return what the call brings.")
    def repeat(self, call: base.Call) -> Json:
        """Return it."""
        return dict(call.info)

    @base.driver_passthru(async_call=True, description="Write one line into the conductor's log.")
    def note(self, call: base.Call) -> None:
        """Write it."""
        LOG.info("The fake vendor was called for no node.")

    @base.clean_step(priority=0, requires_ramdisk=False, destroys=(), restarts=0)
    @base.service_step(requires_ramdisk=False, rerunnable=True, destroys=(), restarts=0)
    def log_passthrough(self, task: base.Task) -> None:
        """Write one line."""
        LOG.info("The fake vendor was called for node %s.", task.node.uuid)
