"""The hardware type ``idrac``: Dell machines, as Redfish with the extensions of their iDRAC.

An interface here differs from the Redfish one only where an iDRAC needs it. The interfaces
``idrac-redfish`` of BIOS, power and vendor are the Redfish classes themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from ironic_lite.drivers.redfish import boot, hardware, inspect, management, raid

_NAME = "idrac-redfish"
_REDFISH = hardware.RedfishHardware.supported


class IdracHardware(hardware.RedfishHardware):
    """The interfaces that work with an iDRAC, in order of preference; others are those of Redfish.

    ``redfish`` of inspection and ``redfish-virtual-media`` are beyond Ironic, because clients name
    them for Dell machines.
    """

    supported: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **_REDFISH,
        "bios": (_NAME, *_REDFISH["bios"]),
        "boot": (
            "ipxe",
            "pxe",
            "http-ipxe",
            "http",
            "idrac-redfish-virtual-media",
            "redfish-https",
            "redfish-virtual-media",
            "fake",
        ),
        "inspect": (_NAME, "agent", "no-inspect", "redfish", "fake"),
        "management": (_NAME,),
        "power": (_NAME, *_REDFISH["power"]),
        "raid": (_NAME, "no-raid", "agent", "fake"),
        "vendor": (_NAME, *_REDFISH["vendor"]),
    }


class IdracManagement(management.RedfishManagement):
    """The management interface ``idrac-redfish``."""


class IdracInspect(inspect.RedfishInspect):
    """The inspect interface ``idrac-redfish``."""


class IdracRAID(raid.RedfishRAID):
    """The raid interface ``idrac-redfish``."""


class IdracVirtualMediaBoot(boot.RedfishVirtualMediaBoot):
    """The boot interface ``idrac-redfish-virtual-media``."""
