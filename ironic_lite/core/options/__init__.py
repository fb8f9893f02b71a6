"""Every option of this service: default, bounds, help and type; `config` loads them.

A module has the groups of one subject, `declare` the functions that declare an option. The rest of
the service imports this package only.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from oslo_config import cfg

from ironic_lite.core.options.api import ApiOptions
from ironic_lite.core.options.conductor import ConductorOptions
from ironic_lite.core.options.declare import (
    KINDS,
    Ciphers,
    Group,
    PciAlias,
    PortRange,
    StepPriorities,
    StepSeconds,
    opts,
)
from ironic_lite.core.options.drivers import (
    ConsoleOptions,
    DhcpOptions,
    DnsmasqOptions,
    DracOptions,
    FakeOptions,
    IpmiOptions,
    PxeOptions,
    RedfishOptions,
)
from ironic_lite.core.options.ironic import (
    HARDWARE_TYPE,
    LIBRARIES,
    LIBRARY_DEFAULTS,
    NOT_BUILT,
    OptionVerdict,
    row_of,
)
from ironic_lite.core.options.ramdisks import (
    AgentContainersOptions,
    AgentOptions,
    AutoDiscoveryOptions,
    DeployOptions,
    InspectionRulesOptions,
    InspectorOptions,
    OciOptions,
    PciDevicesOptions,
    ServiceCatalogOptions,
)
from ironic_lite.core.options.service import (
    FEATURES,
    DatabaseOptions,
    DefaultOptions,
    DirectOptions,
    FeaturesOptions,
    HealthcheckOptions,
    LibraryOptions,
    LocalOptions,
    MetricsOptions,
    NotificationsOptions,
    SensorDataOptions,
    WebhooksOptions,
)


class _Groups(Protocol):
    """The groups of options, in the order of the sample file."""

    api: ApiOptions
    database: DatabaseOptions
    conductor: ConductorOptions
    deploy: DeployOptions
    oci: OciOptions
    service_catalog: ServiceCatalogOptions
    pxe: PxeOptions
    dhcp: DhcpOptions
    dnsmasq: DnsmasqOptions
    agent: AgentOptions
    agent_containers: AgentContainersOptions
    fake: FakeOptions
    ipmi: IpmiOptions
    console: ConsoleOptions
    redfish: RedfishOptions
    drac: DracOptions
    inspector: InspectorOptions
    auto_discovery: AutoDiscoveryOptions
    inspection_rules: InspectionRulesOptions
    pci_devices: PciDevicesOptions
    sensor_data: SensorDataOptions
    oslo_messaging_local: LocalOptions
    direct: DirectOptions
    healthcheck: HealthcheckOptions
    metrics: MetricsOptions
    features: FeaturesOptions
    webhooks: WebhooksOptions


class Configuration(_Groups, DefaultOptions, LibraryOptions, Protocol):
    """The loaded options: the groups, and those of [DEFAULT].

    The methods are those of ``oslo_config.cfg.ConfigOpts`` that this service uses; functions that
    need more of them take that class.
    """

    oslo_messaging_notifications: NotificationsOptions

    def __call__(self, *args: Any, **how: Any) -> Any:
        """Read command line and files."""

    def clear(self) -> None:
        """Forget values and overrides."""

    def reset(self) -> None:
        """Forget values that were read."""

    def get_location(self, name: str, group: str | None = None) -> Any:
        """Return where the value of an option comes from."""

    def find_file(self, name: str) -> str | None:
        """Return the path of a file beside the configuration files."""

    def register_opts(self, opts: Sequence[Any], group: str | None = None) -> None:
        """Add options."""

    def set_default(self, name: str, default: Any, group: str | None = None) -> None:
        """Set another default."""

    def set_override(self, name: str, override: Any, group: str | None = None) -> None:
        """Set a value above all files."""

    def clear_override(self, name: str, group: str | None = None) -> None:
        """End `set_override`."""


GROUPS: Mapping[str, Sequence[cfg.Opt]] = {
    "DEFAULT": opts(DefaultOptions),
    **{name: opts(kind) for name, kind in inspect.get_annotations(_Groups, eval_str=True).items()},
}
"""Options by group, in the order of the sample file; `config.register` uses them."""
LIBRARY = opts(LibraryOptions)
LIBRARY_NOTIFICATIONS = opts(NotificationsOptions)
