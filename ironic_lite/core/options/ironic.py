"""Options of Ironic that this service lacks and whose silent absence would weaken security.

An ``ironic.conf`` with one of these set stops the start, unless its value is what this service does
anyway.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple


class Refused(NamedTuple):
    """An option of Ironic: which values change nothing here, and what to do about the others."""

    harmless: Callable[[str], bool]
    do: str


_OFF = frozenset({"", "false", "no", "off", "0", "[]"})
_ON = frozenset({"true", "yes", "on", "1"})


def _one_of(*allowed: str) -> Callable[[str], bool]:
    return frozenset(allowed).__contains__


_is_off = _OFF.__contains__
_is_unset = _one_of("", "[]")
_CIPHERS = "TLS ciphers cannot be chosen; server_tls_minimum_version = 1.3 leaves three"
_NO_SWIFT = "there is no object store: remove it, files are served from [deploy]http_root"
_BOOT_MODES = "boot modes cannot be forbidden here: remove it, and check the nodes' capabilities"

REFUSED: Mapping[tuple[str, str], Refused] = {
    ("DEFAULT", "rpc_transport"): Refused(
        _one_of("oslo", "none"),
        "use transport_url = direct://: conductors and APIs of several machines then talk over TLS "
        "without a broker. See docs/rpc.rst",
    ),
    ("DEFAULT", "webserver_tls_minimum_version"): Refused(
        _one_of("", "1.2"), "image servers are asked with TLS 1.2 or newer; remove it"
    ),
    ("DEFAULT", "webserver_tls_ciphers"): Refused(
        _is_unset, "TLS ciphers for image servers cannot be chosen; remove it"
    ),
    ("agent", "manage_agent_boot"): Refused(
        _ON.__contains__, "the service boots the ramdisks itself; remove it"
    ),
    ("agent", "tls_ciphers"): Refused(
        _is_unset, "TLS ciphers for agents cannot be chosen; tls_minimum_version = 1.3 leaves three"
    ),
    ("api", "disallowed_enrollment_boot_modes"): Refused(_is_unset, _BOOT_MODES),
    ("api", "middleware"): Refused(_is_unset, "put a proxy in front of the API"),
    ("api", "server_tls_ciphers"): Refused(_is_unset, _CIPHERS),
    ("api", "unix_socket"): Refused(
        _is_unset, "the API listens on [api]host and port only: remove it, and set auth_strategy"
    ),
    ("audit", "enabled"): Refused(
        _is_off, "every change is an event: GET /v1/events, webhooks; remove it"
    ),
    ("conductor", "automatic_lessee"): Refused(
        _ON.__contains__, "set [conductor]automatic_lessee_source = none instead"
    ),
    ("conductor", "conductor_always_validates_images"): Refused(
        _is_off, "set [agent]image_download_source = local instead"
    ),
    ("conductor", "disable_support_for_checksum_files"): Refused(
        _is_off, "a checksum may be the URL of a file: remove it, and give nodes the digits"
    ),
    ("conductor", "disallowed_deployment_boot_modes"): Refused(_is_unset, _BOOT_MODES),
    ("conductor", "enable_trait_based_networking"): Refused(
        _is_off, "the service connects no ports to networks; remove it"
    ),
    ("deploy", "configdrive_use_object_store"): Refused(_is_off, _NO_SWIFT),
    ("inventory", "data_backend"): Refused(
        _one_of("database"), "inventories are kept in the database: set it to database"
    ),
    ("pxe", "ipxe_use_swift"): Refused(_is_off, _NO_SWIFT),
    ("redfish", "firmware_source"): Refused(
        _one_of("http"), "BMCs fetch firmware by http or https alone: set it to http"
    ),
    ("redfish", "tls_ciphers"): Refused(
        _is_unset, "set driver_info/redfish_tls_ciphers of the nodes instead"
    ),
    ("redfish", "tls_minimum_version"): Refused(
        _one_of("", "1.2"), "set driver_info/redfish_tls_minimum_version of the nodes instead"
    ),
    ("redfish", "use_swift"): Refused(_is_off, _NO_SWIFT),
    ("ssl", "ca_file"): Refused(
        _is_unset,
        "the API asks clients for no certificates: remove it, and set [api]auth_strategy",
    ),
    ("ssl", "ciphers"): Refused(_is_unset, _CIPHERS),
    ("ssl", "version"): Refused(
        _is_unset, "set [api]server_tls_minimum_version to 1.2 or 1.3 instead"
    ),
}
"""By group and name; a value is judged in lower case."""

GROUPS = frozenset(
    {
        "agent_containers",
        "anaconda",
        "ansible",
        "audit",
        "auto_discovery",
        "cifs",
        "cinder",
        "disk_utils",
        "errors",
        "glance",
        "ibmc",
        "ilo",
        "inventory",
        "ironic_lib",
        "ironic_networking",
        "ironic_networking_json_rpc",
        "irmc",
        "iscsi",
        "json_rpc",
        "local_rpc",
        "mdns",
        "metrics_statsd",
        "molds",
        "neutron",
        "nfs",
        "nova",
        "oci",
        "pxe_filter",
        "snmp",
        "swift",
        "vnc",
        "xclarity",
    }
)
"""Groups of Ironic, also of its earlier releases, that nothing here reads.

Other unknown groups may be those of plugins.
"""

LIBRARIES = frozenset(
    {
        "keystone_authtoken",
        "oslo_messaging_kafka",
        "oslo_messaging_notifications",
        "oslo_messaging_rabbit",
        "oslo_policy",
    }
)
"""Groups that libraries of this service read by themselves."""
LIBRARY_DEFAULTS = frozenset(
    {
        "control_exchange",
        "executor_thread_pool_size",
        "rpc_ping_enabled",
        "rpc_response_timeout",
        "transport_url",
    }
)
"""Options of [DEFAULT] that oslo.messaging registers when it is used."""
