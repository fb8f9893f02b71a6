"""What only this rack can do."""

from __future__ import annotations

from typing import Any

from ironic_lite import errors
from ironic_lite.drivers import base

from . import rack


class OutletVendor(rack.Racked, base.Vendor):
    """One method about a node, one about the whole driver."""

    def check_passthru(self, task: base.Task, name: str, call: base.Call) -> None:
        """Refuse a limit that is no number."""
        super().check_passthru(task, name, call)
        if name == "limit" and not isinstance(call.info.get("watts"), int):
            raise errors.InvalidParameter(path="watts", reason="is not a whole number")

    @base.passthru(methods=("PUT",), description="Cut the power above so many watts.")
    def limit(self, task: base.Task, call: base.Call) -> dict[str, Any]:
        """Set the limit, and return what the outlet is like now."""
        return rack.call(task, limit=call.info["watts"])

    @base.driver_passthru(methods=("GET",), description="List the racks this driver knows.")
    def models(self, call: base.Call) -> list[str]:
        """Return them."""
        return ["R-24", "R-48"]
