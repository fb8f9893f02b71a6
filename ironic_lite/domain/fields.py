"""The fields of each resource: version, type, and rights to write, sort and see.

One row defines a field; queries, patches and renderings read the row. A new field is a row here, a
column in ``db.tables.models``, a migration and a test.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypedDict

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView
from ironic_lite.core.options import NOT_BUILT


class Type(enum.Enum):
    """JSON types on the wire."""

    STRING = "string"
    BOOLEAN = "boolean"
    OBJECT = "object"
    LIST = "array"
    NUMBER = "number"
    INTEGER = "integer"
    TIME = "time"


class FieldAccess(enum.Enum):
    """Requests that may write a field."""

    READ = "read"  # read-only
    CREATE = "create"  # POST only
    PATCH = "patch"  # PATCH only
    BOTH = "both"


# Compared by identity, because each row exists once, and tables of rows are keys of the caches
# below.
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Field:
    """One field of a resource.

    ``column`` is the database column, None for fields computed elsewhere (links, conductor,
    traits); ``empty`` is shown instead of null; ``default`` is what removal sets; ``brief`` fields
    make up the default list; ``length`` bounds strings; ``required`` refuses null; ``asked`` fields
    are shown only if the caller names them.
    """

    name: str
    since: int = 1
    type: Type = Type.STRING
    access: FieldAccess = FieldAccess.BOTH
    column: str | None = ""
    brief: bool = False
    sort: bool = True
    secret: bool = False
    required: bool = False
    empty: Any = None
    default: Any = None
    length: int | None = 255
    asked: bool = False

    @property
    def stored(self) -> str | None:
        """Return the column's name, by default the field's."""
        return self.name if self.column == "" else self.column

    @property
    def creatable(self) -> bool:
        """Return whether POST may set it."""
        return self.access in (FieldAccess.BOTH, FieldAccess.CREATE)

    @property
    def patchable(self) -> bool:
        """Return whether PATCH may set it."""
        return self.access in (FieldAccess.BOTH, FieldAccess.PATCH)


# -- rows that recur -------------------------------------------------------------------------


def moment(name: str, since: int = 1) -> Field:
    """Return a read-only point in time."""
    return Field(name, since, Type.TIME, FieldAccess.READ)


def free_form(
    name: str, since: int = 1, access: FieldAccess = FieldAccess.BOTH, **more: Any
) -> Field:
    """Return an object with any keys, shown as {} while unset."""
    return Field(name, since, Type.OBJECT, access, sort=False, empty={}, default={}, **more)


def flag(
    name: str, since: int = 1, access: FieldAccess = FieldAccess.BOTH, *, on: bool = False
) -> Field:
    """Return a boolean that is never null, ``on`` by default."""
    return Field(name, since, Type.BOOLEAN, access, required=True, default=on)


def computed(name: str, since: int, kind: Type) -> Field:
    """Return a field without a column."""
    return Field(name, since, kind, FieldAccess.READ, column=None, sort=False)


_INTERFACES_SINCE: Mapping[str, int] = {
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
INTERFACE_KINDS: tuple[str, ...] = tuple(_INTERFACES_SINCE)
AUTODETECT = "autodetect"
"""The deploy interface that chooses another one for the work on a node."""
ORIGINAL_DEPLOY = "original_deploy_interface"
"""The key of driver_internal_info with the deploy interface that has chosen the one shown."""
RAMDISK = "ramdisk"
_YES = frozenset({"true", "yes", "on", "1", "t", "y"})


def chosen_deploy(instance_info: JsonView, names: Sequence[str]) -> str | None:
    """Return the deploy interface that `AUTODETECT` chooses: ramdisk, or the last of the names.

    :param names: [DEFAULT]autodetect_deploy_interfaces; names that are not built do not count.
    """
    built = [name for name in names if name not in NOT_BUILT["deploy"]]
    wanted = str(instance_info.get("ironic_ramdisk_deploy")).lower() in _YES
    boots = instance_info.get("boot_iso") or all(map(instance_info.get, ("kernel", RAMDISK)))
    return RAMDISK if RAMDISK in built and wanted and boots else next(reversed(built), None)


class DeployInterfaces(TypedDict):
    """A node's own deploy interface, and the one in use."""

    own: str
    used: str | None


def deploy_interfaces(
    node: JsonView, names: Sequence[str], *, anew: bool = False
) -> DeployInterfaces | None:
    """Return the node's own deploy interface and the one in use, if `AUTODETECT` chooses it.

    :param node: with `DEPLOY_COLUMNS`.
    :param names: as for `chosen_deploy`.
    :param anew: choose again, for another instance.
    """
    shown, instance = node["deploy_interface"], node["instance_info"] or {}
    if instance.get("deploy_interface"):  # the instance's own one is used
        return None
    own = (node["driver_internal_info"] or {}).get(ORIGINAL_DEPLOY)
    if own and not anew:
        return {"own": own, "used": shown}
    if AUTODETECT not in (own, shown):
        return None
    return {"own": AUTODETECT, "used": chosen_deploy(instance, names)}


DEPLOY_COLUMNS = ("deploy_interface", "driver_internal_info", "instance_info")
R = FieldAccess.READ

NODE: tuple[Field, ...] = (
    Field("uuid", access=FieldAccess.CREATE, brief=True, required=True, length=36),
    moment("created_at"),
    moment("updated_at"),
    Field("automated_clean", 47, Type.BOOLEAN),
    Field("boot_mode", 75, access=FieldAccess.CREATE, length=16),
    free_form("clean_step", 7, R, secret=True),
    Field("conductor_group", 46, required=True, default="", empty=""),
    flag("console_enabled", access=FieldAccess.CREATE),
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
    flag("protected", 48, FieldAccess.PATCH),
    Field("protected_reason", 48, access=FieldAccess.PATCH, length=None),
    Field("provision_state", access=R, brief=True),
    moment("provision_updated_at"),
    free_form("raid_config", 12, R),
    Field("reservation", access=R),
    Field("resource_class", 21, length=80),
    flag("retired", 61),  # S4.1, S4.9
    Field("retired_reason", 61, length=None),
    Field("secure_boot", 75, Type.BOOLEAN, FieldAccess.CREATE),
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
    dataclasses.replace(computed("serial", 1, Type.STRING), asked=True),
)


# The fields of resources that belong to a node.

_VOLUME = 32

PORTGROUP: tuple[Field, ...] = (
    Field("uuid", 23, access=FieldAccess.CREATE, brief=True, required=True, length=36),
    moment("created_at", 23),
    moment("updated_at", 23),
    Field("address", 23, brief=True, length=64),
    Field("category", 103, length=80),
    flag("dynamic_portgroup", 111, R),
    free_form("extra", 23),
    free_form("internal_info", 23, R),
    Field("mode", 26),
    Field("name", 23, brief=True),
    Field("node_uuid", 23, required=True, length=36),
    Field("physical_network", 102, length=64),
    free_form("properties", 26),
    flag("standalone_ports_supported", 23, on=True),
    computed("links", 23, Type.LIST),
)

VOLUME_CONNECTOR: tuple[Field, ...] = (
    Field("uuid", _VOLUME, access=FieldAccess.CREATE, brief=True, required=True, length=36),
    moment("created_at", _VOLUME),
    moment("updated_at", _VOLUME),
    Field("connector_id", _VOLUME, brief=True, required=True),
    free_form("extra", _VOLUME),
    Field("node_uuid", _VOLUME, brief=True, required=True, length=36),
    Field("type", _VOLUME, brief=True, required=True, length=32),
    computed("links", _VOLUME, Type.LIST),
)

VOLUME_TARGET: tuple[Field, ...] = (
    Field("uuid", _VOLUME, access=FieldAccess.CREATE, brief=True, required=True, length=36),
    moment("created_at", _VOLUME),
    moment("updated_at", _VOLUME),
    Field("boot_index", _VOLUME, Type.INTEGER, brief=True, required=True),
    free_form("extra", _VOLUME),
    Field("node_uuid", _VOLUME, brief=True, required=True, length=36),
    # Connection data of Cinder or an operator, with passwords.
    free_form("properties", _VOLUME, secret=True),
    Field("volume_id", _VOLUME, brief=True, required=True, length=36),
    Field("volume_type", _VOLUME, brief=True, required=True, length=64),
    computed("links", _VOLUME, Type.LIST),
)


# The fields of resources beside nodes.


PORT: tuple[Field, ...] = (
    Field("uuid", access=FieldAccess.CREATE, brief=True, required=True, length=36),
    moment("created_at"),
    moment("updated_at"),
    Field("address", brief=True, required=True, length=64),
    Field("available_for_dynamic_portgroup", 111, Type.BOOLEAN, required=True, default=True),
    Field("category", 101, length=80),
    Field("description", 97),
    free_form("extra"),
    free_form("internal_info", 18, R),
    Field("is_smartnic", 53, Type.BOOLEAN, required=True, default=False),
    free_form("local_link_connection", 19),
    Field("name", 88),
    Field("node_uuid", required=True, length=36),
    Field("physical_network", 34, length=64),
    Field("portgroup_uuid", 24, length=36),
    Field("pxe_enabled", 19, Type.BOOLEAN, required=True, default=True),
    Field("vendor", 100, length=32),
    computed("links", 1, Type.LIST),
)

CHASSIS: tuple[Field, ...] = (
    Field("uuid", access=FieldAccess.CREATE, brief=True, required=True, length=36),
    moment("created_at"),
    moment("updated_at"),
    Field("description", brief=True),
    free_form("extra"),
    computed("links", 1, Type.LIST),
)

DEPLOY_TEMPLATE: tuple[Field, ...] = (
    Field("uuid", 55, access=FieldAccess.CREATE, brief=True, required=True, length=36),
    moment("created_at", 55),
    moment("updated_at", 55),
    Field("name", 55, brief=True, required=True),
    free_form("extra", 55),
    computed("links", 55, Type.LIST),
    Field("steps", 55, Type.LIST, sort=False, secret=True, required=True),
)

ALLOCATION: tuple[Field, ...] = tuple(
    dataclasses.replace(field, brief=True)
    for field in (
        Field("uuid", 52, access=FieldAccess.CREATE, required=True, length=36),
        moment("created_at", 52),
        moment("updated_at", 52),
        Field("candidate_nodes", 52, Type.LIST, FieldAccess.CREATE, sort=False, empty=[]),
        free_form("extra", 52),
        Field("last_error", 52, access=R),
        Field("name", 52),
        Field("node_uuid", 52, access=R, length=36),
        Field("owner", 60, access=FieldAccess.CREATE),
        Field("resource_class", 52, access=FieldAccess.CREATE, length=80),
        Field("state", 52, access=R, length=15),
        Field("traits", 52, Type.LIST, FieldAccess.CREATE, sort=False, empty=[]),
        computed("links", 52, Type.LIST),
    )
)

RUNBOOK: tuple[Field, ...] = (
    Field("uuid", 92, access=FieldAccess.CREATE, brief=True, required=True, length=36),
    moment("created_at", 92),
    moment("updated_at", 92),
    Field("name", 92, brief=True, required=True),
    Field("description", 112),
    flag("disable_ramdisk", 92),
    free_form("extra", 92),
    Field("owner", 92),
    flag("public", 92),
    computed("links", 92, Type.LIST),
    Field("steps", 92, Type.LIST, sort=False, secret=True, required=True),
    Field("traits", 112, Type.LIST, R, sort=False, empty=[]),
)

INSPECTION_RULE: tuple[Field, ...] = (
    Field("uuid", 96, access=FieldAccess.CREATE, brief=True, required=True, length=36),
    moment("created_at", 96),
    moment("updated_at", 96),
    Field("description", 96, brief=True),
    Field("phase", 96, brief=True, required=True, default="main", length=16),
    Field("priority", 96, Type.INTEGER, brief=True, required=True, default=0),
    flag("sensitive", 96),
    computed("links", 96, Type.LIST),
    # Null for a sensitive rule.
    Field("actions", 96, Type.LIST, sort=False, secret=True, required=True),
    Field("conditions", 96, Type.LIST, sort=False, secret=True, required=True, default=[]),
)


# The fields of read-only resources: conductors, history, runs, firmware.


CONDUCTOR: tuple[Field, ...] = (
    Field("hostname", 49, access=R, brief=True),
    Field("conductor_group", 49, access=R, brief=True),
    Field("alive", 49, Type.BOOLEAN, R, column="online", brief=True),
    moment("created_at", 49),
    moment("updated_at", 49),
    computed("drivers", 49, Type.LIST),
    computed("links", 49, Type.LIST),
)


def shown(*given: Field) -> tuple[Field, ...]:
    """Return fields that are read only, in every view, and not sorted by."""
    return tuple(dataclasses.replace(field, access=R, brief=True, sort=False) for field in given)


# The view of events keeps only the order of time, so this is the only sort key.
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
        computed("links", 78, Type.LIST),
    )
)

RUN: tuple[Field, ...] = shown(
    Field("uuid"),
    Field("node_uuid"),
    Field("verb"),
    Field("state"),
    Field("requester"),
    Field("project"),
    Field("request_id"),
    Field("conductor"),
    moment("started_at"),
    moment("ended_at"),
    computed("duration_seconds", 1, Type.NUMBER),
    Field("error", type=Type.OBJECT),
    Field("retry_of"),
    Field("cause"),
    computed("links", 1, Type.LIST),
)
WHOLE_RUN: tuple[Field, ...] = (
    *RUN,
    computed("steps", 1, Type.LIST),
    computed("eta", 1, Type.OBJECT),
    computed("batch", 1, Type.STRING),
)

_UNDER_WAY = tuple(computed(name, 1, Type.OBJECT) for name in ("place", "eta", "stop"))
LISTED_RUN: tuple[Field, ...] = (*RUN, *_UNDER_WAY)
"""The fields of a run in a list; those of runs under way are shown if a client names them."""

FLEET_RUN: tuple[Field, ...] = (
    *RUN[:-1],
    *(
        dataclasses.replace(Field(name), access=R, brief=True, sort=False)
        for name in ("node_name", "code")
    ),
    RUN[-1],
)
LISTED_FLEET_RUN: tuple[Field, ...] = (*FLEET_RUN, *_UNDER_WAY)
WHOLE_FLEET_RUN: tuple[Field, ...] = (
    *FLEET_RUN,
    *WHOLE_RUN[len(RUN) :],
)

HOLD: tuple[Field, ...] = shown(
    Field("uuid"),
    Field("node_uuid"),
    Field("kind"),
    Field("reason"),
    Field("blocks", type=Type.LIST),
    moment("until"),
    moment("created_at"),
    Field("created_by"),
    Field("project"),
    moment("ended_at"),
    Field("ended_by"),
    Field("end_reason"),
)


BIOS_SETTING: tuple[Field, ...] = (
    moment("created_at", 40),
    moment("updated_at", 40),
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
    computed("links", 40, Type.LIST),
)

FIRMWARE_COMPONENT: tuple[Field, ...] = (
    moment("created_at", 86),
    moment("updated_at", 86),
    Field("component", 86, access=R, brief=True),
    Field("initial_version", 86, access=R, brief=True),
    Field("current_version", 86, access=R, brief=True),
    Field("last_version_flashed", 86, access=R, brief=True),
    Field("vendor", 114, access=R, brief=True),
    Field("model", 114, access=R, brief=True),
    Field("serial_number", 114, access=R, brief=True),
)


# Fields visible at a version, and fields that a query may name.

_SHOWN = 64
"""Characters of an unknown name that its refusal repeats."""


@cache
def by_name(table: tuple[Field, ...]) -> Mapping[str, Field]:
    """Return name -> field."""
    return {field.name: field for field in table}


@cache
def blank(table: tuple[Field, ...]) -> JsonView:
    """Return column -> value of an empty row."""
    return {field.stored: field.default for field in table if field.stored is not None}


@cache
def visible(table: tuple[Field, ...], version: int) -> tuple[Field, ...]:
    """Return the fields shown by default at minor API ``version``, in wire order."""
    return tuple(field for field in table if field.since <= version and not field.asked)


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
            names = ", ".join(one.name for one in table if one.since <= version)
            reason = f"there is no field {errors.shown(raw, _SHOWN)}. Known here: {names}"
            raise errors.InvalidParameter(path="fields", reason=reason)
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
        seen = (one for one in table if one.since <= version)
        able = ("id", *(one.name for one in seen if one.sort and one.stored is not None))
        shown = errors.shown(key, _SHOWN)
        reason = f"{shown} cannot be sorted by. Possible are: {', '.join(able)}"
        raise errors.InvalidParameter(path="sort_key", reason=reason)
    if field.since > version:
        raise errors.NotAcceptable(what=f"Field {key}", since=field.since)
    return field.stored
