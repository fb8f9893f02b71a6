"""The fields of a node."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from ironic_lite.domain.fields.field import Access, Field, Type, computed, flag, free_form, moment

_INTERFACES_SINCE: Mapping[str, int] = MappingProxyType(
    {
        "bios": 40,
        "boot": 31,
        "console": 31,
        "deploy": 31,
        "firmware": 86,
        "inspect": 31,
        "management": 31,
        "network": 20,
        "power": 31,
        "raid": 31,
        "rescue": 38,
        "storage": 33,
        "vendor": 31,
    }
)
INTERFACE_KINDS: tuple[str, ...] = tuple(_INTERFACES_SINCE)
R = Access.READ

NODE: tuple[Field, ...] = (
    Field("uuid", access=Access.CREATE, brief=True, required=True, length=36),
    moment("created_at"),
    moment("updated_at"),
    Field("automated_clean", 47, Type.BOOLEAN),
    Field("boot_mode", 75, access=Access.CREATE, length=16),
    free_form("clean_step", 7, R, secret=True),
    Field("conductor_group", 46, required=True, default="", empty=""),
    flag("console_enabled", access=Access.CREATE),
    free_form("deploy_step", 44, R, secret=True),
    Field("description", 51, length=4096),
    Field("disable_power_off", 95, Type.BOOLEAN, required=True, default=False),
    Field("driver", required=True),
    free_form("driver_info", secret=True),
    free_form("driver_internal_info", 3, R, secret=True),
    free_form("extra"),
    Field("fault", 42, access=R),
    Field("health", 109, access=R),
    moment("inspection_finished_at", 6),
    moment("inspection_started_at", 6),
    free_form("instance_info", secret=True),
    Field("instance_name", 104),
    Field("instance_uuid", brief=True, length=36),
    Field("last_error", access=R),
    Field("lessee", 65),
    Field("maintenance", 1, Type.BOOLEAN, brief=True, required=True, default=False),
    Field("maintenance_reason", access=R),
    Field("name", 5, brief=True),
    free_form("network_data", 66),
    Field("owner", 50),
    Field("parent_node", 83, length=36),
    Field("power_state", access=R, brief=True),
    free_form("properties"),
    flag("protected", 48, Access.PATCH),
    Field("protected_reason", 48, access=Access.PATCH, length=None),
    Field("provision_state", access=R, brief=True),
    moment("provision_updated_at"),
    free_form("raid_config", 12, R),
    Field("reservation", access=R),
    Field("resource_class", 21, length=80),
    flag("retired", 61),  # S4.1, S4.9
    Field("retired_reason", 61, length=None),
    Field("secure_boot", 75, Type.BOOLEAN, Access.CREATE),
    free_form("service_step", 87, R, secret=True),
    Field("shard", 82),
    Field("target_power_state", access=R),
    Field("target_provision_state", access=R),
    free_form("target_raid_config", 12, R),
    *(Field(f"{kind}_interface", since) for kind, since in _INTERFACES_SINCE.items()),
    computed("traits", 37, Type.LIST),
    computed("links", 1, Type.LIST),
    computed("conductor", 49, Type.STRING),
    Field("allocation_uuid", 52, access=R, sort=False, length=36),
    Field("chassis_uuid", length=36),
    # Additions to Ironic.
    Field("data_state", access=R, empty="unknown", default="unknown", asked=True),
    Field("data_state_at", type=Type.TIME, access=R, asked=True),
    Field("data_state_by", access=R, asked=True),
)
