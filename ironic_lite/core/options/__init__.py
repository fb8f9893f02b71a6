"""Every option of this service: defaults, bounds and help; `config` loads them.

A module holds the options of one group, or of a few related groups; `GROUPS` joins them. The rest
of the service imports this package only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from oslo_config import cfg

from ironic_lite.core.options import (
    agent,
    api,
    conductor,
    database,
    default,
    deploy,
    fake,
    inspection,
    ipmi,
    messaging,
    monitoring,
    netboot,
    redfish,
)
from ironic_lite.core.options.ironic import GROUPS as GROUPS_OF_IRONIC
from ironic_lite.core.options.ironic import LIBRARIES, LIBRARY_DEFAULTS, REFUSED
from ironic_lite.core.options.messaging import LIBRARY, LIBRARY_NOTIFICATIONS
from ironic_lite.core.options.values import PciAlias, PortRange, StepPriorities, StepSeconds
from ironic_lite.core.options.vocabulary import HOOKS, KINDS

__all__ = (
    "GROUPS",
    "GROUPS_OF_IRONIC",
    "HOOKS",
    "KINDS",
    "LIBRARIES",
    "LIBRARY",
    "LIBRARY_DEFAULTS",
    "LIBRARY_NOTIFICATIONS",
    "REFUSED",
    "PciAlias",
    "PortRange",
    "StepPriorities",
    "StepSeconds",
)

GROUPS: Mapping[str, Sequence[cfg.Opt]] = {
    "DEFAULT": (*default.DEFAULT, *default.INTERFACES),
    "api": api.API,
    "database": database.DATABASE,
    "conductor": conductor.CONDUCTOR,
    "deploy": deploy.DEPLOY,
    "service_catalog": deploy.SERVICE_CATALOG,
    "pxe": netboot.PXE,
    "dhcp": netboot.DHCP,
    "dnsmasq": netboot.DNSMASQ,
    "agent": agent.AGENT,
    "fake": fake.FAKE,
    "ipmi": ipmi.IPMI,
    "console": ipmi.CONSOLE,
    "redfish": redfish.REDFISH,
    "inspector": inspection.INSPECTOR,
    "inspection_rules": inspection.INSPECTION_RULES,
    "pci_devices": inspection.PCI_DEVICES,
    "sensor_data": monitoring.SENSOR_DATA,
    "oslo_messaging_local": messaging.LOCAL,
    "direct": messaging.DIRECT,
    "healthcheck": monitoring.HEALTHCHECK,
    "metrics": monitoring.METRICS,
    "webhooks": monitoring.WEBHOOKS,
}
"""Options by group, in the order of the sample file; `config.register` uses them."""
