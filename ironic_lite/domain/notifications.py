"""The table of notifications: their events and payloads, without I/O.

Writers of events (``conductor.engine.task``, the API) hand them to ``rpc.notifier`` after the
commit, with the object they are about. Event types, payload objects, their versions and fields are
those of Ironic's notifications.

Source: S5.29.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ironic_lite.core import masking
from ironic_lite.core.json_types import Json, RowView
from ironic_lite.domain import fields, states, waiting
from ironic_lite.domain.fields import Field, Type
from ironic_lite.domain.states import Kind, State

LEVELS = ("debug", "info", "warning", "error", "critical")
"""Levels, least severe first."""

# -- payload objects -------------------------------------------------------------------------


class Shape(NamedTuple):
    """A payload object: name, version, the fields of ``table`` it shows.

    ``more`` holds keys whose values come from the event.
    """

    name: str
    version: str
    table: tuple[Field, ...]
    names: tuple[str, ...]
    more: tuple[str, ...] = ()


_KINDS_SHOWN = tuple(kind for kind in fields.INTERFACE_KINDS if kind != "firmware")
_NODE_NAMES = (
    *("boot_mode", "clean_step", "conductor_group", "console_enabled", "created_at"),
    *("deploy_step", "description", "disable_power_off", "driver", "extra", "fault"),
    *("inspection_finished_at", "inspection_started_at", "instance_uuid", "last_error"),
    *("lessee", "maintenance", "maintenance_reason", "name", "owner", "power_state"),
    *("properties", "protected", "protected_reason", "provision_state"),
    *("provision_updated_at", "resource_class", "retired", "retired_reason", "secure_boot"),
    *("target_power_state", "target_provision_state", "traits", "updated_at", "uuid"),
    *(f"{kind}_interface" for kind in _KINDS_SHOWN),
)
_PREVIOUS = ("previous_provision_state", "previous_target_provision_state")

NODE = Shape("NodePayload", "1.17", fields.NODE, _NODE_NAMES)
NODE_CRUD = NODE._replace(
    name="NodeCRUDPayload",
    version="1.15",
    names=(*_NODE_NAMES, "chassis_uuid", "driver_info", "instance_info"),
)
NODE_PROVISION = NODE._replace(
    name="NodeSetProvisionStatePayload",
    version="1.18",
    names=(*_NODE_NAMES, "driver_internal_info", "instance_info"),
    more=("event", *_PREVIOUS),
)
NODE_POWER = NODE._replace(name="NodeSetPowerStatePayload", more=("to_power",))
NODE_CORRECTED = NODE._replace(name="NodeCorrectedPowerStatePayload", more=("from_power",))


def _crud_shape(name: str, version: str, table: tuple[Field, ...]) -> Shape:
    """Return a payload of a whole resource, without fields that only this service has."""
    shown = (one.name for one in table if one.name not in {"internal_info", "links"})
    return Shape(f"{name}CRUDPayload", version, table, tuple(shown))


PORT = _crud_shape("Port", "1.8", fields.PORT)
PORTGROUP = _crud_shape("Portgroup", "1.3", fields.PORTGROUP)
VOLUME_CONNECTOR = _crud_shape("VolumeConnector", "1.0", fields.VOLUME_CONNECTOR)
VOLUME_TARGET = _crud_shape("VolumeTarget", "1.0", fields.VOLUME_TARGET)
CHASSIS = _crud_shape("Chassis", "1.0", fields.CHASSIS)
DEPLOY_TEMPLATE = _crud_shape("DeployTemplate", "1.0", fields.DEPLOY_TEMPLATE)
ALLOCATION = _crud_shape("Allocation", "1.1", fields.ALLOCATION)
RUNBOOK = _crud_shape("Runbook", "1.1", fields.RUNBOOK)
INSPECTION_RULE = _crud_shape("InspectionRule", "1.0", fields.INSPECTION_RULE)
SHAPES = (
    *(NODE, NODE_CRUD, NODE_PROVISION, NODE_POWER, NODE_CORRECTED),
    *(PORT, PORTGROUP, VOLUME_CONNECTOR, VOLUME_TARGET, CHASSIS, DEPLOY_TEMPLATE),
    *(ALLOCATION, RUNBOOK, INSPECTION_RULE),
)

# -- the table -------------------------------------------------------------------------------


class NotificationRule(NamedTuple):
    """The notification of one ``kind`` of events, or of one ``case`` of the kind.

    ``action`` is the middle of the event type, None for no notification; ``status`` its end, "" if
    the states decide. ``about`` describes in docs when this happens, or why there is no
    notification.
    """

    kind: str
    case: str | None
    action: str | None
    status: str
    shape: Shape | None
    about: str


def _silent_rule(kind: str, case: str | None, why: str) -> NotificationRule:
    return NotificationRule(kind, case, None, "", None, why)


def _crud_rules(what: str, shape: Shape) -> Iterator[NotificationRule]:
    for done, action in (("created", "create"), ("updated", "update"), ("deleted", "delete")):
        thing = what.replace("_", " ")
        about = f"{'An' if thing[0] in 'aeiou' else 'A'} {thing} has been {done}."
        word = what.replace("_", "")
        yield NotificationRule(f"{what}_{done}", None, f"{word}.{action}", "end", shape, about)


TABLE: tuple[NotificationRule, ...] = (
    NotificationRule(
        "provision",
        None,
        "node.provision_set",
        "",
        NODE_PROVISION,
        "A node has moved to another provision state.",
    ),
    # -- power --
    NotificationRule(
        "power",
        "start",
        "node.power_set",
        "start",
        NODE_POWER,
        "A power request is accepted, or the recorded power state is about to be restored.",
    ),
    NotificationRule(
        "power", "end", "node.power_set", "end", NODE_POWER, "The power request has succeeded."
    ),
    NotificationRule(
        "power", "fail", "node.power_set", "error", NODE_POWER, "The power request has failed."
    ),
    NotificationRule(
        "power",
        "reset",
        "node.power_set",
        "end",
        NODE_POWER,
        "The recorded power state of the machine has been restored.",
    ),
    NotificationRule(
        "power",
        "changed in a run",
        "node.power_set",
        "end",
        NODE_POWER,
        "A verb or one of its steps has switched the machine.",
    ),
    NotificationRule(
        "power",
        "found",
        "node.power_state_corrected",
        "success",
        NODE_CORRECTED,
        "The recorded power state has been set to the machine's, or to null if it cannot be read.",
    ),
    _silent_rule("power", "changed on request", "the notification of the request's end reports it"),
    # -- nodes, ports, chassis, templates --
    *_crud_rules("node", NODE_CRUD),
    NotificationRule(
        "node_updated",
        "maintenance",
        "node.maintenance_set",
        "end",
        NODE,
        "A request has changed a node's maintenance or its reason, and nothing else.",
    ),
    NotificationRule(
        "fault",
        None,
        "node.maintenance_set",
        "end",
        NODE,
        "The service has set maintenance because of a fault, or has removed it again.",
    ),
    NotificationRule(
        "traits_updated",
        None,
        "node.update",
        "end",
        NODE_CRUD,
        "The traits of a node have been set, added or removed.",
    ),
    *_crud_rules("port", PORT),
    *_crud_rules("portgroup", PORTGROUP),
    *_crud_rules("volume_connector", VOLUME_CONNECTOR),
    *_crud_rules("volume_target", VOLUME_TARGET),
    *_crud_rules("chassis", CHASSIS),
    *_crud_rules("deploy_template", DEPLOY_TEMPLATE),
    *_crud_rules("allocation", ALLOCATION),
    *_crud_rules("runbook", RUNBOOK),
    *_crud_rules("inspection_rule", INSPECTION_RULE),
    # -- without a notification --
    _silent_rule(
        "flow_started", None, "the moves of the node are reported; the run lists its steps"
    ),
    _silent_rule("flow_ended", None, "the moves of the node are reported; the run lists its steps"),
    _silent_rule(
        "step_started", None, "the moves of the node are reported; the run lists its steps"
    ),
    _silent_rule("step_ended", None, "the moves of the node are reported; the run lists its steps"),
    _silent_rule("step_waived", None, "the move that begins the retry is reported"),
    _silent_rule("agent_changed", None, "the steps start again; their results are reported"),
    _silent_rule("abort_requested", None, "the move that ends the run is reported"),
    _silent_rule("stop_requested", None, "the move that holds or ends the run is reported"),
    _silent_rule("stop_withdrawn", None, "the run continues; its results are reported"),
    _silent_rule("management", None, "Ironic has no such notification; the node shows the result"),
    _silent_rule("health", None, "Ironic has no such notification; history and node show it"),
    _silent_rule("network", None, "the network service reports its own changes"),
    _silent_rule("overdue", None, "the step continues; its end is reported"),
    _silent_rule("boot_retry", None, "the node still waits; its result is reported"),
    _silent_rule("taken_over", None, "the node continues; its results are reported"),
    _silent_rule("agent_refused", None, "the node still waits; its result is reported"),
    _silent_rule("hold_added", None, "Ironic has no such notification; history shows the hold"),
    _silent_rule("hold_ended", None, "Ironic has no such notification; history shows the hold"),
    _silent_rule("imported", None, "nothing has changed at the machine; history shows the import"),
    *(
        _silent_rule(f"batch_{what}", None, "Ironic has no batches")
        for what in ("started", "wave", "paused", "resumed", "aborted", "ended", "deleted")
    ),
    *(
        _silent_rule(f"webhook_{what}", None, "Ironic has no webhooks")
        for what in ("created", "updated", "deleted")
    ),
    _silent_rule("data_state", None, "Ironic has no such notification; fields=data_state shows it"),
    _silent_rule("erasure", None, "Ironic has no such notification; the record is readable"),
)

KINDS: tuple[str, ...] = tuple(dict.fromkeys(rule.kind for rule in TABLE))
"""The kinds of events."""

_NODELESS = frozenset(
    ("allocation", "batch", "chassis", "deploy_template", "inspection_rule", "runbook", "webhook")
)
NODELESS = frozenset(kind for kind in KINDS if kind.rpartition("_")[0] in _NODELESS)
"""The kinds of events of resources that belong to no node."""

_RULES = {(rule.kind, rule.case): rule for rule in TABLE}
_MAINTENANCE = frozenset({"maintenance", "maintenance_reason", "fault"})
_MOVING = states.of_kind(Kind.BUSY, Kind.WAIT)


def rule(event: RowView, beside: Sequence[RowView] = ()) -> NotificationRule | None:
    """Return the rule of an event; None for an unknown kind.

    :param event: a row for ``db.queries.events.add``.
    :param beside: all events of the same commit.
    """
    return _RULES.get((event["kind"], _event_case(event, beside)))


def _event_case(event: RowView, beside: Sequence[RowView]) -> str | None:
    """Return the case of an event, as rows of one kind can have several meanings."""
    if event["kind"] == "node_updated":
        changed = set((event.get("data") or {}).get("fields", ()))
        return "maintenance" if changed and changed <= _MAINTENANCE else None
    if event["kind"] != "power":
        return None
    if event["event"] != "changed":
        return str(event["event"])
    if any(one["kind"] == "power" and one["event"] == "end" for one in beside):
        return "changed on request"
    # The first read of a power state finds it; nothing was switched.
    return "changed in a run" if event["run_uuid"] and event["before"] else "found"


def _move_status(event: RowView) -> str:
    """Return the end of a move's event type, by its source and destination."""
    if event["event"] == "fail":
        return "error"
    moves = (State(event["before"]) in _MOVING, State(event["after"]) in _MOVING)
    return {(False, True): "start", (True, False): "end"}.get(moves, "success")


# -- from event to notification --------------------------------------------------------------


@dataclasses.dataclass(frozen=True, slots=True)
class Notification:
    """One notification to be sent; its payload is built only when it is sent.

    ``about`` are the columns of the object as committed, ``more`` the values of ``shape.more``.
    """

    event_type: str
    level: str
    shape: Shape
    about: RowView
    more: RowView

    @property
    def lacks_traits(self) -> bool:
        """True if the payload shows traits that ``about`` does not have."""
        return "traits" in self.shape.names and "traits" not in self.about

    def payload(self, traits: Sequence[str] | None = None) -> Json:
        """Return the versioned object as plain JSON types, secrets masked.

        :param traits: of the node, where ``about`` lacks them; None if unknown.
        """
        row = {"traits": traits, **self.about}
        if row.get("agent_heard_at"):
            row["driver_internal_info"] = waiting.shown_notes(row)
        known = fields.by_name(self.shape.table)
        data = {name: _shown_value(known[name], row.get(name)) for name in self.shape.names}
        return {
            "ironic_object.name": self.shape.name,
            "ironic_object.namespace": "ironic",
            "ironic_object.version": self.shape.version,
            "ironic_object.data": {**data, **self.more},
        }


def of(
    events: Sequence[RowView], about: RowView, *, previous_target: str | None = None
) -> list[Notification]:
    """Return the notifications of the events of one commit.

    :param events: rows for ``db.queries.events.add``.
    :param about: the columns of the object the events are about: node, port or chassis.
    :param previous_target: the node's target_provision_state before the commit.
    """
    found = []
    for event in events:
        known = rule(event, events)
        if known is None or known.action is None or known.shape is None:
            continue
        status = known.status or _move_status(event)
        found.append(
            Notification(
                f"baremetal.{known.action}.{status}",
                "error" if status == "error" else "info",
                known.shape,
                about,
                _additional_values(known.shape, event, previous_target),
            )
        )
    return found


def _additional_values(shape: Shape, event: RowView, previous_target: str | None) -> RowView:
    values = {
        "event": event.get("event"),
        "previous_provision_state": event.get("before"),
        "previous_target_provision_state": previous_target,
        # A failure is reported by its own notification only.
        "to_power": (event.get("data") or {}).get("wanted") or event.get("after"),
        "from_power": event.get("before"),
    }
    return {name: values[name] for name in shape.more}


def _shown_value(field: Field, value: object) -> Any:
    """Return a column's value in the form for consumers, masked as in API responses."""
    if field.type is Type.TIME:
        return f"{value:%Y-%m-%dT%H:%M:%SZ}" if value else None
    if field.type is Type.OBJECT and value is None:
        return {}
    return masking.field(field.name, value)
