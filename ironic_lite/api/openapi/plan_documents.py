"""Schemas of plans: the steps of a verb, what they destroy and how long they take."""

from __future__ import annotations

from ironic_lite.api.openapi import parts
from ironic_lite.core.json_types import Json
from ironic_lite.domain import step_effects

_TEXT: Json = {"type": "string"}
_TEXT_OR_NULL: Json = {"type": ["string", "null"]}
_FLAG: Json = {"type": "boolean"}
_OBJECT: Json = {"type": "object"}
_NUMBER_OR_NULL: Json = {"type": ["integer", "null"]}
_DESTROYS: Json = {
    "type": ["array", "null"],
    "items": {"enum": list(step_effects.DESTROYED)},
}
_DURATION: Json = {
    "type": ["object", "null"],
    "properties": {
        "p50": {"type": "number"},
        "p90": {"type": "number"},
        "samples": {"type": "integer"},
    },
    "required": ["p50", "p90", "samples"],
}
_PLANNED_STEP = parts.object_with_all(
    ordinal={"type": "integer"},
    interface=_TEXT,
    step=_TEXT,
    args=_OBJECT,
    priority={"type": "number"},
    abortable=_FLAG,
    by={"enum": ["ramdisk", "bmc", "service", "children", None]},
    known=_TEXT_OR_NULL,
    destroys=_DESTROYS,
    restarts=_NUMBER_OR_NULL,
    lasting=_FLAG,
    usual_seconds=_DURATION,
    **{"from": parts.object_with_all(what=_TEXT, name=_TEXT_OR_NULL)},
)
PLAN = parts.object_with_all(
    target=_TEXT,
    accepted=_FLAG,
    leads_to=_TEXT_OR_NULL,
    faults={
        "type": "array",
        "items": parts.object_with_all(path=_TEXT_OR_NULL, code=_TEXT, text=_TEXT),
    },
    steps={"type": "array", "items": _PLANNED_STEP},
    ramdisk={"type": ["boolean", "null"]},
    restarts=_NUMBER_OR_NULL,
    destroys=_DESTROYS,
    seconds=_DURATION,
    complete=_FLAG,
    incomplete=_TEXT_OR_NULL,
)
