"""The display above each outlet, and the meter below it."""

from __future__ import annotations

from typing import Any

from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.drivers import base

from . import rack

_ARGS = {
    "text": base.Arg("What is written, up to 20 characters.", required=True),
    "blink": base.Arg("true lets it blink; false is the default."),
}


class OutletManagement(rack.Racked, base.Management):
    """Writes on the display; there is nothing else to manage."""

    @base.clean_step(priority=0, requires_ramdisk=False, argsinfo=_ARGS)
    @base.service_step(requires_ramdisk=False, rerunnable=True, argsinfo=_ARGS)
    def label(self, task: base.Task, text: str, blink: bool = False) -> None:
        """Write, led by [outlet]label_prefix."""
        if not isinstance(text, str) or len(text) > 20:
            raise errors.InvalidParameter(path="text", reason="is no text of up to 20 characters")
        rack.call(task, label=f"{cfg.CONF.outlet.label_prefix}{text}", blink=bool(blink))

    def get_sensors_data(self, task: base.Task) -> dict[str, dict[str, dict[str, Any]]]:
        """Return what flows through the outlet."""
        return {"Power": {"Outlet": {"Sensor Reading": rack.call(task)["watts"], "Unit": "W"}}}
