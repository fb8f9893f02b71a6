"""What single routes take and answer that no table of fields tells.

A row is ``METHOD /path``, as in the policy's table; what it leaves out is as the route's own row
says. `document` refuses a route that neither a table nor a row describes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

from ironic_lite import fields, metrics, verbs
from ironic_lite.api.openapi import parts
from ironic_lite.api.validation import shapes

Json = dict[str, Any]


@dataclasses.dataclass(frozen=True, slots=True)
class Told:
    """What is known of one route.

    ``answer`` is the schema of its answer's body, None for no body; ``takes`` that of a body that
    the handler reads itself. ``query`` are the arguments of a query it reads itself: name, schema.
    ``also`` are other good statuses, with the schema of their bodies; ``refusals`` what the route
    refuses with besides what `refusals` knows. ``plain`` says that an answer may be plain text.
    """

    answer: Json | None = None
    takes: Json | None = None
    query: Mapping[str, Json] = dataclasses.field(default_factory=dict)
    also: Mapping[int, Json | None] = dataclasses.field(default_factory=dict)
    refusals: tuple[int, ...] = ()
    plain: bool = False


def _object(**properties: Json) -> Json:
    """Return the schema of an object with all of these keys, and no others."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _some(**properties: Json) -> Json:
    """Return the schema of an object with any of these keys, and no others."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


_TEXT: Json = {"type": "string"}
_TEXT_OR_NULL: Json = {"type": ["string", "null"]}
_FLAG: Json = {"type": "boolean"}
_OBJECT: Json = {"type": "object"}
_LIST: Json = {"type": "array"}
_NAMED_IN_QUERY = {"node_uuid": _TEXT}

# -- / and /v1 -------------------------------------------------------------------------------

_VERSION = _object(id=_TEXT, links=parts.LINKS, status=_TEXT, min_version=_TEXT, version=_TEXT)
_ROOT = _object(
    name=_TEXT,
    description=_TEXT,
    default_version=_VERSION,
    versions={"type": "array", "items": _VERSION},
)
_V1: Json = {"type": "object", "required": ["id", "links", "media_types", "version"]}

# -- what hangs below nodes ------------------------------------------------------------------

_VOLUME = _object(links=parts.LINKS, connectors=parts.LINKS, targets=parts.LINKS)
_VIFS = _object(
    vifs={
        "type": "array",
        "items": {"type": "object", "properties": {"id": _TEXT}, "required": ["id"]},
    }
)
_VIF = {
    "type": "object",
    "properties": {"id": _TEXT, "port_uuid": _TEXT_OR_NULL, "portgroup_uuid": _TEXT_OR_NULL},
    "required": ["id"],
}
_CHILDREN = _object(children=parts.STRINGS, links=_object(href=_TEXT, rel=_TEXT))
_SHARDS = _object(shards={"type": "array", "items": _object(name=_TEXT, count={"type": "integer"})})

# -- states, steps ---------------------------------------------------------------------------

_BODIES: Mapping[str, Json] = {
    "target": {"enum": [verb.target for verb in verbs.TABLE]},
    "configdrive": {"type": ["string", "object", "null"]},
    "rescue_password": {"type": ["string", "null"]},
    "disable_ramdisk": {"type": ["boolean", "null"]},
    "runbook": {"type": ["string", "null"]},
}
_PROVISION: Json = {
    "type": "object",
    "properties": {
        key: _BODIES.get(key) or {"anyOf": [shapes.schema(key), {"type": "null"}]}
        for key in verbs.BODY_KEYS
    },
    "required": ["target"],
    "additionalProperties": False,
}
_STEP = {
    "type": "object",
    "properties": {
        "interface": {"enum": list(shapes.STEP_INTERFACES)},
        "step": _TEXT,
        "priority": {"type": "number"},
        "abortable": _FLAG,
        "args": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": _TEXT, "description": _TEXT, "required": _FLAG},
                "required": ["name"],
            },
        },
    },
    "required": ["interface", "step", "priority", "abortable", "args"],
}
_VALIDATION: Json = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "properties": {"result": {"type": ["boolean", "null"]}, "reason": _TEXT_OR_NULL},
        "required": ["result"],
    },
}

# -- lamps, drives, methods ------------------------------------------------------------------

_LAMP = _object(
    name=_TEXT,
    component=_TEXT,
    readonly=_FLAG,
    states=parts.STRINGS,
    links=parts.LINKS,
)
_LAMPS = _object(indicators={"type": "array", "items": _LAMP})
_LAMP_STATE = _object(state=_TEXT_OR_NULL)
_DRIVES: Json = {"type": "array", "items": _OBJECT}
_METHODS: Json = {"type": "object", "additionalProperties": _OBJECT}
# The method says what goes in and what comes out.
_VENDOR = Told(
    parts.ANY,
    takes=parts.ANY,
    also={HTTPStatus.ACCEPTED: None, HTTPStatus.NO_CONTENT: None},
    refusals=(HTTPStatus.CONFLICT,),
    plain=True,
)

# -- drivers, conductors, agents -------------------------------------------------------------

_DRIVER = _some(
    name=_TEXT,
    hosts=parts.STRINGS,
    links=parts.LINKS,
    properties=parts.LINKS,
    type={"enum": ["dynamic"]},
    **{f"default_{kind}_interface": _TEXT_OR_NULL for kind in fields.INTERFACE_KINDS},
    **{f"enabled_{kind}_interfaces": parts.STRINGS for kind in fields.INTERFACE_KINDS},
)
_COUNTED = ("bmc_calls_total", "bmc_retries_total", "bmc_call_seconds")
_COUNTERS: Json = {
    "type": "object",
    "properties": {
        "hostname": _TEXT,
        "updated_at": {"type": ["string", "null"], "format": "date-time"},
        "since": _TEXT_OR_NULL,
        **dict.fromkeys((*_COUNTED, *metrics.FAMILIES, *metrics.GAUGES), _LIST),
    },
    "required": ["hostname", "updated_at", "since", *_COUNTED],
}
_FOUND: Json = {"type": "object", "properties": {"node": _OBJECT, "config": _OBJECT}}

ROUTES: Mapping[str, Told] = {
    "GET ": Told(_ROOT),
    "HEAD ": Told(),
    "GET /": Told(_V1),
    "HEAD /": Told(),
    "GET /openapi.json": Told(_OBJECT),
    "GET /openapi": Told(_OBJECT),
    "GET /shards": Told(_SHARDS),
    "GET /volume": Told(_VOLUME),
    "GET /nodes/{ident}/volume": Told(_VOLUME),
    "GET /nodes/{ident}/children": Told(_CHILDREN),
    "GET /nodes/{ident}/vifs": Told(_VIFS),
    "POST /nodes/{ident}/vifs": Told(takes=_VIF),
    "GET /nodes/{ident}/states": Told({"$ref": "#/components/schemas/NodeStates"}),
    "PUT /nodes/{ident}/states/provision": Told(takes=_PROVISION),
    "PUT /nodes/{ident}/states/raid": Told(takes=_OBJECT),
    "GET /nodes/{ident}/validate": Told(_VALIDATION),
    "GET /nodes/validate": Told(_VALIDATION, refusals=(HTTPStatus.NOT_FOUND,)),
    "GET /nodes/{ident}/cleaning/steps": Told(
        {"type": "array", "items": _STEP}, also={HTTPStatus.ACCEPTED: _object(message=_TEXT)}
    ),
    "GET /nodes/{ident}/management/boot_device": Told(
        _object(boot_device=_TEXT_OR_NULL, persistent={"type": ["boolean", "null"]})
    ),
    "GET /nodes/{ident}/management/boot_device/supported": Told(
        _object(supported_boot_devices=parts.STRINGS)
    ),
    "GET /nodes/{ident}/management/indicators": Told(_LAMPS),
    "GET /nodes/{ident}/management/indicators/{component}": Told({"anyOf": [_LAMPS, _LAMP_STATE]}),
    "GET /nodes/{ident}/management/indicators/{component}/{indicator}": Told(_LAMP_STATE),
    "GET /nodes/{ident}/vmedia": Told(_DRIVES),
    "GET /nodes/{ident}/inventory": Told(_object(inventory=_OBJECT, plugin_data=_OBJECT)),
    "GET /nodes/{ident}/traits": Told(_object(traits=parts.STRINGS)),
    "PUT /nodes/{ident}/traits": Told(takes=_object(traits=parts.STRINGS)),
    "PUT /nodes/{ident}/traits/{trait}": Told(takes={"type": ["object", "null"]}),
    "GET /nodes/{ident}/states/console": Told(
        _object(console_enabled=_FLAG, console_info={"type": ["object", "null"]})
    ),
    "POST /events": Told(takes=shapes.schema("events")),
    "GET /runbooks/{ident}/traits": Told(_object(traits=parts.STRINGS)),
    "PUT /runbooks/{ident}/traits": Told(takes=_object(traits=parts.STRINGS)),
    "PUT /runbooks/{ident}/traits/{trait}": Told(takes={"type": ["object", "null"]}),
    "GET /nodes/{ident}/bios/{setting}": Told({"type": "object"}),
    "GET /drivers": Told(
        _object(drivers={"type": "array", "items": _DRIVER}),
        query={"type": {"enum": ["classic", "dynamic"]}, "detail": _FLAG, "fields": _TEXT},
    ),
    "GET /drivers/{name}": Told(_DRIVER, query={"fields": _TEXT}),
    "GET /conductors/{hostname}/counters": Told(_COUNTERS),
    "GET /lookup": Told(
        _FOUND,
        query={**_NAMED_IN_QUERY, "addresses": _TEXT},
        # It makes a token.
        refusals=(HTTPStatus.CONFLICT,),
    ),
    "POST /continue_inspection": Told(
        {"type": "object", "required": ["uuid"]},
        takes=_OBJECT,
        query=_NAMED_IN_QUERY,
        refusals=(HTTPStatus.NOT_FOUND,),
    ),
    **{
        f"GET /{whose}/vendor_passthru/methods": Told(_METHODS)
        for whose in ("nodes/{ident}", "drivers/{name}")
    },
    **{
        f"{method} /{whose}/vendor_passthru{more}": _VENDOR
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        for whose in ("nodes/{ident}", "drivers/{name}")
        for more in ("", "/{method}")
    },
}
