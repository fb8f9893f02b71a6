"""The fields of read-only resources: conductors, history, runs, firmware."""

from __future__ import annotations

import dataclasses

from ironic_lite.domain.fields.field import Access, Field, Type, computed, moment

R = Access.READ

CONDUCTOR: tuple[Field, ...] = (
    Field("hostname", 49, access=R, brief=True),
    Field("conductor_group", 49, access=R, brief=True),
    Field("alive", 49, Type.BOOLEAN, R, column="online", brief=True),
    moment("created_at", 49),
    moment("updated_at", 49),
    computed("drivers", 49, Type.LIST),
    computed("links", 49, Type.LIST),
)


def _shown(*given: Field) -> tuple[Field, ...]:
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

# An addition to Ironic, shown at every version.
RUN: tuple[Field, ...] = _shown(
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
    computed("links", 1, Type.LIST),
)
WHOLE_RUN: tuple[Field, ...] = (
    *RUN,
    computed("steps", 1, Type.LIST),
    computed("eta", 1, Type.OBJECT),
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

HOLD: tuple[Field, ...] = _shown(
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

# An addition to Ironic, shown at every version.
BATCH: tuple[Field, ...] = _shown(
    Field("uuid"),
    Field("name"),
    Field("state"),
    Field("wave", type=Type.INTEGER),
    computed("waves", 1, Type.LIST),
    computed("counts", 1, Type.OBJECT),
    computed("failures_left", 1, Type.INTEGER),
    Field("max_failures", type=Type.INTEGER),
    computed("concurrency", 1, Type.INTEGER),
    computed("on_failures", 1, Type.STRING),
    computed("between_waves", 1, Type.STRING),
    Field("request", type=Type.OBJECT, asked=True),
    computed("eta", 1, Type.STRING),
    Field("requester"),
    Field("project"),
    Field("paused_by"),
    moment("created_at"),
    moment("updated_at"),
    moment("ended_at"),
)
BATCH_NODE: tuple[Field, ...] = _shown(
    Field("uuid"),
    Field("name"),
    Field("wave", type=Type.INTEGER),
    Field("result"),
    Field("was"),
    Field("run"),
    Field("tries", type=Type.INTEGER),
    Field("error", type=Type.OBJECT),
    moment("started_at"),
    moment("ended_at"),
)

ERASURE: tuple[Field, ...] = _shown(
    Field("uuid"),
    Field("node_uuid"),
    Field("node_name"),
    Field("run_uuid"),
    moment("at"),
    Field("result"),
    Field("level"),
    Field("serials", type=Type.LIST),
    Field("key"),
    Field("sha256"),
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
