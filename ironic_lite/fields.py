"""The fields of a node and of a port: since which version, of what type, who may write, sort and
see.

One row says all; queries, patches and renderings read the row. A new field is a row here, a column
in ``db.models``, a migration and a test.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from ironic_lite import errors


class Type(enum.Enum):
    """JSON types on the wire."""

    STRING = "string"
    BOOLEAN = "boolean"
    OBJECT = "object"
    LIST = "array"
    NUMBER = "number"
    TIME = "time"


class Access(enum.Enum):
    """Who may write a field."""

    READ = "read"  # nobody
    CREATE = "create"  # POST only
    PATCH = "patch"  # PATCH only
    BOTH = "both"


# Compared by identity: each row exists once, and tables of rows are keys of the caches below.
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field of a resource.

    ``column`` is the database column, None for fields computed elsewhere (links, conductor,
    traits); ``empty`` is shown instead of null; ``default`` is what removal sets; ``brief`` fields
    make up the default list; ``length`` bounds strings; ``required`` refuses null.
    """

    name: str
    since: int = 1
    type: Type = Type.STRING
    access: Access = Access.BOTH
    column: str | None = ""
    brief: bool = False
    sort: bool = True
    secret: bool = False
    required: bool = False
    empty: Any = None
    default: Any = None
    length: int | None = 255

    @property
    def stored(self) -> str | None:
        """Return the column's name, which is the field's unless the row says otherwise."""
        return self.name if self.column == "" else self.column

    @property
    def creatable(self) -> bool:
        """Tell whether POST may set it."""
        return self.access in (Access.BOTH, Access.CREATE)

    @property
    def patchable(self) -> bool:
        """Tell whether PATCH may set it."""
        return self.access in (Access.BOTH, Access.PATCH)


def _time(name: str, since: int = 1) -> Field:
    return Field(name, since, Type.TIME, Access.READ)


def _object(name: str, since: int = 1, access: Access = Access.BOTH, **more: Any) -> Field:
    return Field(name, since, Type.OBJECT, access, sort=False, empty={}, default={}, **more)


def _flag(name: str, since: int = 1, access: Access = Access.BOTH) -> Field:
    return Field(name, since, Type.BOOLEAN, access, required=True, default=False)


def _computed(name: str, since: int, kind: Type) -> Field:
    return Field(name, since, kind, Access.READ, column=None, sort=False)


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
    _time("created_at"),
    _time("updated_at"),
    Field("automated_clean", 47, Type.BOOLEAN),
    Field("boot_mode", 75, access=Access.CREATE, length=16),
    _object("clean_step", 7, R, secret=True),
    Field("conductor_group", 46, required=True, default="", empty=""),
    _flag("console_enabled", access=Access.CREATE),
    _object("deploy_step", 44, R, secret=True),
    Field("description", 51, length=4096),
    Field("disable_power_off", 95, Type.BOOLEAN, required=True, default=False),
    Field("driver", required=True),
    _object("driver_info", secret=True),
    _object("driver_internal_info", 3, R, secret=True),
    _object("extra"),
    Field("fault", 42, access=R),
    Field("health", 109, access=R),
    _time("inspection_finished_at", 6),
    _time("inspection_started_at", 6),
    _object("instance_info", secret=True),
    Field("instance_name", 104),
    Field("instance_uuid", brief=True, length=36),
    Field("last_error", access=R),
    Field("lessee", 65),
    Field("maintenance", 1, Type.BOOLEAN, brief=True, required=True, default=False),
    Field("maintenance_reason", access=R),
    Field("name", 5, brief=True),
    _object("network_data", 66),
    Field("owner", 50),
    Field("parent_node", 83, length=36),
    Field("power_state", access=R, brief=True),
    _object("properties"),
    _flag("protected", 48, Access.PATCH),
    Field("protected_reason", 48, access=Access.PATCH, length=None),
    Field("provision_state", access=R, brief=True),
    _time("provision_updated_at"),
    _object("raid_config", 12, R),
    Field("reservation", access=R),
    Field("resource_class", 21, length=80),
    _flag("retired", 61),  # S4.1, S4.9
    Field("retired_reason", 61, length=None),
    Field("secure_boot", 75, Type.BOOLEAN, Access.CREATE),
    _object("service_step", 87, R, secret=True),
    Field("shard", 82),
    Field("target_power_state", access=R),
    Field("target_provision_state", access=R),
    _object("target_raid_config", 12, R),
    *(Field(f"{kind}_interface", since) for kind, since in _INTERFACES_SINCE.items()),
    _computed("traits", 37, Type.LIST),
    _computed("links", 1, Type.LIST),
    _computed("conductor", 49, Type.STRING),
    _computed("allocation_uuid", 52, Type.STRING),
    Field("chassis_uuid", length=36),
)

PORT: tuple[Field, ...] = (
    Field("uuid", access=Access.CREATE, brief=True, required=True, length=36),
    _time("created_at"),
    _time("updated_at"),
    Field("address", brief=True, required=True, length=64),
    Field("available_for_dynamic_portgroup", 111, Type.BOOLEAN, required=True, default=True),
    Field("category", 101, length=80),
    Field("description", 97),
    _object("extra"),
    _object("internal_info", 18, R),
    Field("is_smartnic", 53, Type.BOOLEAN, required=True, default=False),
    _object("local_link_connection", 19),
    Field("name", 88),
    Field("node_uuid", required=True, length=36),
    Field("physical_network", 34, length=64),
    Field("portgroup_uuid", 24, length=36),
    Field("pxe_enabled", 19, Type.BOOLEAN, required=True, default=True),
    Field("vendor", 100, length=32),
    _computed("links", 1, Type.LIST),
)

CHASSIS: tuple[Field, ...] = (
    Field("uuid", access=Access.CREATE, brief=True, required=True, length=36),
    _time("created_at"),
    _time("updated_at"),
    Field("description", brief=True),
    _object("extra"),
    _computed("links", 1, Type.LIST),
)

DEPLOY_TEMPLATE: tuple[Field, ...] = (
    Field("uuid", 55, access=Access.CREATE, brief=True, required=True, length=36),
    _time("created_at", 55),
    _time("updated_at", 55),
    Field("name", 55, brief=True, required=True),
    _object("extra", 55),
    _computed("links", 55, Type.LIST),
    Field("steps", 55, Type.LIST, sort=False, secret=True, required=True),
)

CONDUCTOR: tuple[Field, ...] = (
    Field("hostname", 49, access=R, brief=True),
    Field("conductor_group", 49, access=R, brief=True),
    Field("alive", 49, Type.BOOLEAN, R, column="online", brief=True),
    _time("created_at", 49),
    _time("updated_at", 49),
    _computed("drivers", 49, Type.LIST),
    _computed("links", 49, Type.LIST),
)

# What the view of events shows; only the order of time is kept, so only that can be asked for.
HISTORY: tuple[Field, ...] = tuple(
    dataclasses.replace(field, access=R, sort=field.name in ("uuid", "created_at"))
    for field in (
        Field("uuid", 78, brief=True),
        Field("created_at", 78, Type.TIME, brief=True),
        Field("severity", 78, brief=True),
        Field("event_type", 78),
        Field("event", 78, brief=True),
        Field("conductor", 78),
        Field("user", 78),
        Field("project", 113),
        Field("state", 115),
        Field("target_provision_state", 115),
        Field("duration_seconds", 115, Type.NUMBER),
        _computed("links", 78, Type.LIST),
    )
)

# Ours, not Ironic's: shown at every version.
RUN: tuple[Field, ...] = tuple(
    dataclasses.replace(field, access=R, brief=True, sort=False)
    for field in (
        Field("uuid"),
        Field("node_uuid"),
        Field("verb"),
        Field("state"),
        Field("requester"),
        Field("project"),
        Field("request_id"),
        Field("conductor"),
        _time("started_at"),
        _time("ended_at"),
        _computed("duration_seconds", 1, Type.NUMBER),
        Field("error", type=Type.OBJECT),
        _computed("links", 1, Type.LIST),
    )
)
WHOLE_RUN: tuple[Field, ...] = (*RUN, _computed("steps", 1, Type.LIST))

BIOS_SETTING: tuple[Field, ...] = (
    _time("created_at", 40),
    _time("updated_at", 40),
    Field("name", 40, access=R, brief=True),
    Field("value", 40, access=R, brief=True),
    Field("attribute_type", 74, access=R),
    Field("allowable_values", 74, Type.LIST, R),
    Field("lower_bound", 74, Type.NUMBER, R),
    Field("max_length", 74, Type.NUMBER, R),
    Field("min_length", 74, Type.NUMBER, R),
    Field("read_only", 74, Type.BOOLEAN, R),
    Field("reset_required", 74, Type.BOOLEAN, R),
    Field("unique", 74, Type.BOOLEAN, R),
    Field("upper_bound", 74, Type.NUMBER, R),
    _computed("links", 40, Type.LIST),
)

FIRMWARE_COMPONENT: tuple[Field, ...] = (
    _time("created_at", 86),
    _time("updated_at", 86),
    Field("component", 86, access=R, brief=True),
    Field("initial_version", 86, access=R, brief=True),
    Field("current_version", 86, access=R, brief=True),
    Field("last_version_flashed", 86, access=R, brief=True),
    Field("vendor", 114, access=R, brief=True),
    Field("model", 114, access=R, brief=True),
    Field("serial_number", 114, access=R, brief=True),
)

# -- reading the tables ----------------------------------------------------------------------


@cache
def by_name(table: tuple[Field, ...]) -> Mapping[str, Field]:
    """Return name -> field."""
    return MappingProxyType({field.name: field for field in table})


@cache
def visible(table: tuple[Field, ...], version: int) -> tuple[Field, ...]:
    """Return the fields shown at minor API ``version``, in wire order."""
    return tuple(field for field in table if field.since <= version)


@cache
def brief(table: tuple[Field, ...], version: int) -> tuple[str, ...]:
    """Return the names of the default list fields at ``version``."""
    return tuple(field.name for field in visible(table, version) if field.brief)


def select(table: tuple[Field, ...], asked: Iterable[str], version: int) -> tuple[str, ...]:
    """Check a ``fields=`` query: names lower-cased, doubles dropped, table order not imposed.

    :raises errors.InvalidParameter: a name the table lacks.
    :raises errors.NotAcceptable: a field newer than ``version``.
    """
    known = by_name(table)
    chosen: dict[str, None] = {}
    for raw in asked:
        name = raw.strip().lower()
        field = known.get(name)
        if field is None:
            raise errors.InvalidParameter(path="fields", reason=f"there is no field {raw!r}")
        if field.since > version:
            raise errors.NotAcceptable(what=f"Field {name}", since=field.since)
        chosen[name] = None
    return tuple(chosen)


def sort_column(table: tuple[Field, ...], key: str, version: int) -> str:
    """Return the column to sort by (``id`` is always possible).

    :raises errors.InvalidParameter: an unknown or unsortable field.
    :raises errors.NotAcceptable: a field newer than ``version``.
    """
    if key == "id":
        return key
    field = by_name(table).get(key)
    if field is None or not field.sort or field.stored is None:
        raise errors.InvalidParameter(path="sort_key", reason=f"{key!r} cannot be sorted by")
    if field.since > version:
        raise errors.NotAcceptable(what=f"Field {key}", since=field.since)
    return field.stored
