"""Speaks to the rack: one outlet of it is one machine."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import requests
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.drivers import base

from . import options

PROPERTIES = {
    "outlet_rack": "URL of the rack, such as http://rack-1. Required.",
    "outlet_number": "Number of the machine's outlet, 1 to 48. Required.",
    "outlet_password": "Password of the rack. Optional.",
}


class Racked(base.Interface):
    """What all interfaces of this driver share: driver_info, and the way to the rack."""

    def __init__(self) -> None:
        """Refuse to be loaded with options that cannot be used."""
        options.check()

    def get_properties(self) -> dict[str, str]:
        """Return the keys of driver_info."""
        return dict(PROPERTIES)

    def check_driver_info(self, driver_info: Mapping[str, Any]) -> None:
        """Refuse what is no URL and no number."""
        url, number = driver_info.get("outlet_rack", "http://"), driver_info.get("outlet_number", 1)
        if not isinstance(url, str) or not url.startswith("http"):
            raise errors.InvalidParameter(path="driver_info/outlet_rack", reason="is not a URL")
        if not isinstance(number, int) or not 1 <= number <= 48:
            raise errors.InvalidParameter(
                path="driver_info/outlet_number", reason="is not a number from 1 to 48"
            )

    def validate(self, task: base.Task) -> None:
        """Refuse a node whose outlet is not known."""
        for key in ("outlet_rack", "outlet_number"):
            if key not in task.node.driver_info:
                raise errors.MissingParameter(path=f"driver_info/{key}")
        self.check_driver_info(task.node.driver_info)


def call(task: base.Task, **change: Any) -> dict[str, Any]:
    """Return what the rack says of the machine's outlet; with ``change``, after that is made.

    :raises errors.HardwareError: it does not answer, or refuses.
    """
    info = task.node.driver_info
    url = f"{info['outlet_rack']}/outlets/{info['outlet_number']}"
    password = info.get("outlet_password")
    try:
        answer = requests.request(
            "PUT" if change else "GET",
            url,
            json=change or None,
            auth=("admin", password) if password else None,
            timeout=cfg.CONF.outlet.timeout,
        )
        if not answer.ok:
            raise errors.HardwareError(reason=f"the rack answers {answer.status_code}")
        found: dict[str, Any] = answer.json()
    except (requests.RequestException, ValueError) as why:
        raise errors.BmcUnreachable(address=url, reason=type(why).__name__) from why
    return found
