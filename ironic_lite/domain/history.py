"""The history of a node as a view of its events, and the text of entries; no I/O.

The table ``events`` is the only source of history, so history cannot miss a change. An entry is one
event in the form of Ironic's clients: errors, and the begin and end of flows. The other events
(moves, single steps, power) appear in the runs of a node.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from ironic_lite.core import clock, masking
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json, JsonView, RowView
from ironic_lite.domain import activities
from ironic_lite.domain.states import State
from ironic_lite.records import Event, Node

ERROR, INFO = "ERROR", "INFO"
MONITORING = "monitoring"
FOR_PARENT = "for_parent"
"""The event of a step that a node ran for its parent, and that belongs to no run of the node."""
UNMASKED = "unmasked"
"""In the data of older events: the error with its secrets, which nothing shows."""

OF_IRONIC = "ironic_history"
"""The kind of events that are entries of Ironic's history. Their times are older than their ids, so
only the history shows them."""

TOLD: Mapping[str, frozenset[str] | None] = {
    # kind of event -> its cases that are entries; None: every one
    "flow_started": None,
    "flow_ended": None,
    "provision": frozenset({"fail", "abort"}),
    "abort_requested": None,
    "stop_requested": None,
    "stop_withdrawn": None,
    "step_waived": None,
    "power": frozenset({"fail"}),
    "step_ended": frozenset({FOR_PARENT}),
    "management": frozenset({"fail"}),
    "fault": None,
    "health": None,
    "taken_over": None,
    "agent_refused": None,
    "hold_added": None,
    "hold_ended": None,
    "imported": None,
    OF_IRONIC: None,
}

# -- the name of an entry --------------------------------------------------------------------

_IDENT = re.compile(r"00000000-0000-8000-8([0-9a-f]{3})-([0-9a-f]{12})")


def ident(event_id: int) -> str:
    """Return the UUID of an event's entry: version 8, ending in the event's id.

    So an entry is found by the primary key, and the UUIDs of a node's entries are in their order.
    """
    return f"00000000-0000-8000-8{event_id >> 48:03x}-{event_id & (1 << 48) - 1:012x}"


def event_id(uuid: str) -> int | None:
    """Return the event id in the UUID ``ident``; None for any other UUID."""
    found = _IDENT.fullmatch(uuid.lower())
    return int(found[1] + found[2], 16) if found else None


# -- while it happens ------------------------------------------------------------------------


def told(kind: str, event: str | None) -> bool:
    """Return whether an event becomes an entry."""
    which = TOLD.get(kind, frozenset())
    return which is None or event in which


STANDING = ("provision_state", "target_provision_state", "provision_updated_at")
"""Columns of a node that `standing_of` reads."""


def standing(node: Node) -> Json:
    """Return the data of a node that an entry shows beside the columns of its event."""
    return standing_of({name: getattr(node, name) for name in STANDING})


def standing_of(node: JsonView) -> Json:
    """Do the same as `standing` for a row with `STANDING`.

    :returns: state, target, and seconds: how long the node has been in this state.
    """
    since = node["provision_updated_at"]
    return {
        "state": node["provision_state"],
        "target": node["target_provision_state"],
        "seconds": None if since is None else max(0, int((clock.now() - since).total_seconds())),
    }


def hidden(data: Json | None, hide: Callable[[str], str]) -> Json | None:
    """Return the data of an event with its error masked, as last_error is.

    :param hide: the mask of the node's texts.
    """
    error = (data or {}).get("error")
    if data is None or not isinstance(error, str) or (shown := hide(error)) == error:
        return data
    return {**data, "error": shown}


# -- old and new values ----------------------------------------------------------------------

_LONGEST_VALUE = 256
_LONGEST_CHANGES = 8 * 1024
_NEVER_SHOWN = frozenset({"configdrive", "user_data"})
_SIDES = ("old", "new")
_Sides = tuple[Any, ...]


def changes(before: RowView, written: RowView) -> list[Json]:
    """Return ``path``, ``old`` and ``new`` of each value that a change of a node replaces.

    Secrets are masked, also within texts. ``old_length`` or ``new_length`` stands for a value of
    more than 256 characters, and for every value, if need be of whole fields, if the list would
    have more than 8 KiB.

    :param before: the columns of the change, and `masking.TEXT_FIELDS`.
    """
    rows = (before, {**before, **written})
    old, new = map(masking.mask_of_node, rows)

    def hide(text: str) -> str:
        return new(old(text))

    raw = {name: tuple(row.get(name) for row in rows) for name in written}
    whole = [
        (name, tuple(_shown(masking.field(name, one), hide) for one in raw[name])) for name in raw
    ]
    found = [one for name, pair in whole for one in _differences(name, raw[name], pair, hide)]
    forms = [(found, _LONGEST_VALUE), (found, 0), (whole, 0)]
    lists = [[_change(*one, longest) for one in some] for some, longest in forms]
    return next((one for one in lists if len(orjson.dumps(one)) <= _LONGEST_CHANGES), lists[-1])


def _shown(value: object, hide: Callable[[str], str]) -> Any:
    if isinstance(value, dict):
        return {
            hide(name): masking.MASK if name in _NEVER_SHOWN else _shown(held, hide)
            for name, held in value.items()
        }
    if isinstance(value, list):
        return [_shown(item, hide) for item in value]
    return hide(value) if isinstance(value, str) else value


def _differences(
    path: str, raw: _Sides, masked: _Sides, hide: Callable[[str], str]
) -> Iterator[tuple[str, _Sides]]:
    """Yield each path at which values differ, and the masked values."""
    if raw[0] == raw[1] and _text(raw[0]) == _text(raw[1]):
        return
    # Null and an object without keys have nothing below them.
    if not any(raw) or not all(one is None or isinstance(one, dict) for one in (*raw, *masked)):
        yield path, masked
        return
    for key in {**(raw[0] or {}), **(raw[1] or {})}:
        below = tuple((side or {}).get(key) for side in raw)
        known = tuple((side or {}).get(hide(key)) for side in masked)
        if below == (None, None) and any(key not in (side or {}) for side in raw):
            yield f"{path}/{hide(key)}", below  # null on one side, nothing on the other
        yield from _differences(f"{path}/{hide(key)}", below, known, hide)


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True, default=str)  # True is not 1


def _change(path: str, values: _Sides, longest: int) -> Json:
    change: Json = {"path": path}
    for side, value in zip(_SIDES, values, strict=True):
        size = len(value if isinstance(value, str) else orjson.dumps(value))
        fits = value is None or size <= longest
        change |= {side: value} if fits else {f"{side}_length": size}
    return change


def readable(data: Json | None, hidden: Collection[str] | None, project: str | None) -> Json | None:
    """Return the data of an event with the changes that a reader may see.

    :param hidden: fields of which the reader may see no value; None for no changes at all.
    :param project: the only project of which the reader may see something, which gets its own side
        of a change of the owner; None for every project.
    """
    if data is None or "changes" not in data:
        return data
    listed = [] if hidden is None else data["changes"]
    owners = next((change for change in listed if change["path"] == "owner"), None)
    foreign = {
        side
        for side in _SIDES
        if project is not None and owners is not None and owners.get(side) != project
    }
    kept = [
        {name: held for name, held in change.items() if name.partition("_")[0] not in foreign}
        for change in listed
        if change["path"].partition("/")[0] not in (hidden or ())
    ]
    rest = {name: held for name, held in data.items() if name != "changes"}
    return rest if hidden is None else {**rest, "changes": kept}


# -- afterwards ------------------------------------------------------------------------------


class _Told(NamedTuple):
    type: str
    severity: str
    text: str


def entry(event: Event) -> Json:
    """Return an event as an entry of history.

    :param event: all columns of a row that is ``told``.
    :returns: the fields of an entry, without links.
    """
    data = event["data"] or {}
    said = _TELLERS[event["kind"]](event, data)
    return {
        "uuid": ident(event["id"]),
        "created_at": event["at"],
        "severity": said.severity,
        "event_type": said.type,
        "event": said.text,
        "conductor": event["conductor"],
        "user": event["requester"],
        "project": data.get("project"),
        "state": data.get("state"),
        "target_provision_state": data.get("target"),
        "duration_seconds": data.get("seconds"),
    }


def _flow_name(flow: str | None) -> str:
    return str(flow).replace("_", " ").capitalize()


def _flow_started(event: Event, data: JsonView) -> _Told:
    steps = data.get("steps") or []
    count = "1 step" if len(steps) == 1 else f"{len(steps)} steps"
    listed = f"{count}: {', '.join(steps)}" if steps else "no steps"
    begins = "begins anew" if data.get("anew") else "begins"
    return _Told(
        f"{event['event']}_start", INFO, f"{_flow_name(event['event'])} {begins}, {listed}."
    )


def _flow_ended(event: Event, data: JsonView) -> _Told:
    outcome, step = data.get("outcome"), data.get("step")
    ends = {"failed": "failed", "aborted": "was aborted"}
    where = f" at the step {step}" if step and outcome in ends else ""
    text = f"{_flow_name(event['event'])} {ends.get(str(outcome), 'has ended well')}{where}."
    return _Told(f"{event['event']}_end", ERROR if outcome == "failed" else INFO, text)


def _move_entry(event: Event, data: JsonView) -> _Told:
    severity = INFO if event["event"] == "abort" else ERROR
    moved = f"From {event['before']} to {event['after']}."
    text = data.get("error")
    if text is None or event["before"] == State.SERVICEFAIL:  # an abort has an entry already
        text = f"{text} {moved}" if text else moved
    return _Told(_activity_of(event["before"]), severity, text)


def _abort_requested(_event: Event, data: JsonView) -> _Told:
    text = (
        f"An abort was requested. It follows the step {data.get('step')}, which has to end first."
    )
    return _Told(_activity_of(data.get("state")), INFO, text)


def _stop_requested(event: Event, data: JsonView) -> _Told:
    after = data.get("after")
    place = "the step under way" if after is None else f"step {after}"
    why = f": {data['reason']}" if data.get("reason") else "."
    text = f"A stop ({event['event']}) of the run after {place} was requested{why}"
    return _Told(_activity_of(data.get("state")), INFO, text)


def _stop_withdrawn(event: Event, data: JsonView) -> _Told:
    text = f"The requested stop ({event['event']}) of the run was taken back."
    return _Told(_activity_of(data.get("state")), INFO, text)


def _step_waived(_event: Event, data: JsonView) -> _Told:
    text = f"The step {data.get('step')} was waived: {data.get('reason')}"
    return _Told(_activity_of(data.get("state")), INFO, text)


def _power_entry(_event: Event, data: JsonView) -> _Told:
    return _Told("power", ERROR, str(data.get("error")))


def _management_entry(_event: Event, data: JsonView) -> _Told:
    return _Told("management", ERROR, str(data.get("error")))


def _step_ended(_event: Event, data: JsonView) -> _Told:
    about = f"The step {data.get('step')} of the parent node {data.get('parent')}"
    if "error" in data:
        return _Told("parent_step", ERROR, f"{about} failed here: {data['error']}")
    return _Told("parent_step", INFO, f"{about} has been done here.")


def _fault_entry(event: Event, data: JsonView) -> _Told:
    if "error" not in data:
        return _Told(MONITORING, INFO, f"The power state can be read again: {event['after']}.")
    watched = event["event"] == "power failure"
    return _Told(MONITORING if watched else _activity_of(data.get("state")), ERROR, data["error"])


def _health_entry(event: Event, _data: JsonView) -> _Told:
    now, before = (event[name] or "unknown" for name in ("after", "before"))
    return _Told(MONITORING, INFO, f"The health of the machine is {now}; it was {before}.")


def _taken_over(_event: Event, data: JsonView) -> _Told:
    return _Told("takeover", INFO, f"Taken over from the conductor {data.get('from')}.")


def _agent_refused(_event: Event, data: JsonView) -> _Told:
    text = f"A ramdisk at {data.get('address')} was refused: {data.get('reason')}"
    return _Told("ramdisk", ERROR, text)


def _hold_added(_event: Event, data: JsonView) -> _Told:
    blocks = ", ".join(data.get("blocks") or ())
    until = f" until {data['until']}" if data.get("until") else ""
    text = f"A hold ({data.get('kind')}) blocks {blocks}{until}: {data.get('reason')}"
    return _Told("hold", INFO, text)


def _hold_ended(_event: Event, data: JsonView) -> _Told:
    why = f": {data['reason']}" if data.get("reason") else "."
    return _Told("hold", INFO, f"A hold ({data.get('kind')}) was ended{why}")


def _imported(event: Event, data: JsonView) -> _Told:
    power = data.get("power_state") or "unknown"
    text = f"Imported from Ironic {data.get('release')}, in {data.get('state')}, power: {power}."
    return _Told("import", INFO, text)


def _of_ironic(_event: Event, data: JsonView) -> _Told:
    return _Told(
        str(data.get("event_type") or "provisioning"),
        str(data.get("severity") or INFO),
        str(data.get("error") or ""),
    )


def _activity_of(state: str | None) -> str:
    """Return Ironic's word for the work in a state; entries of flows are named by their flow."""
    found = activities.of(state or "")
    return "provisioning" if found is None else found.history


_TELLERS: Mapping[str, Callable[[Event, JsonView], _Told]] = {
    "flow_started": _flow_started,
    "flow_ended": _flow_ended,
    "provision": _move_entry,
    "abort_requested": _abort_requested,
    "stop_requested": _stop_requested,
    "stop_withdrawn": _stop_withdrawn,
    "step_waived": _step_waived,
    "power": _power_entry,
    "step_ended": _step_ended,
    "management": _management_entry,
    "fault": _fault_entry,
    "health": _health_entry,
    "taken_over": _taken_over,
    "agent_refused": _agent_refused,
    "hold_added": _hold_added,
    "hold_ended": _hold_ended,
    "imported": _imported,
    OF_IRONIC: _of_ironic,
}


# Event rows for changes by requests, to be added in the transaction of the change.


def event_row(who: Context, node_uuid: str, kind: str, data: Json | None = None) -> Json:
    """Return the row of an event of a node for ``db.queries.events.add``.

    :param kind: the kind of event, such as ``port_created``; at most 32 characters.
    :param data: facts about the event, without secrets.
    """
    return {
        "at": clock.now(),
        "node_uuid": node_uuid,
        "kind": kind,
        **who.recorded(),
        "data": data,
    }


def resource_event_row(
    who: Context, kind: str, row: JsonView, data: JsonView | None = None
) -> Json:
    """Return the row of an event of a resource that belongs to no node.

    Its owner reads the event, and the system scope.

    :param kind: the word of the resource and what has become of it, such as ``runbook_updated``.
    :param row: uuid; name and owner if it has them.
    :param data: further facts about the event, without secrets.
    """
    word = kind.rpartition("_")[0]
    about = {word: row["uuid"], **({"name": row["name"]} if "name" in row else {})}
    # In place of a node's UUID. Clients choose the UUIDs of resources, also those of nodes.
    key = str(uuid.uuid5(uuid.UUID(row["uuid"]), word))
    return {**event_row(who, key, kind, {**about, **(data or {})}), "owner": row.get("owner")}
