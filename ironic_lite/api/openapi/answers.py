"""Schemas of single routes that no table of fields describes.

The key of a row is ``METHOD /path``, as in the policy's table. The route's own row describes what
a row leaves out. `document` refuses a route that neither a table nor a row describes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from http import HTTPStatus

from ironic_lite.api.openapi import parts
from ironic_lite.api.openapi.parts import Schemas
from ironic_lite.api.validation import shapes
from ironic_lite.core import metrics
from ironic_lite.core.json_types import Json
from ironic_lite.domain import fields, verbs

TEXT: Json = {"type": "string"}
TEXT_OR_NULL: Json = {"type": ["string", "null"]}


FLAG: Json = {"type": "boolean"}
_COUNT: Json = {"type": "integer", "minimum": 0}
OBJECT: Json = {"type": "object"}


_object_with_all = parts.object_with_all
_LIST: Json = {"type": "array"}
_NAMED_IN_QUERY = {"node_uuid": TEXT}

# -- / and /v1 -------------------------------------------------------------------------------

_V1: Json = {"type": "object", "required": ["id", "links", "media_types", "version"]}

# -- sub-resources of nodes ------------------------------------------------------------------

_VIFS = _object_with_all(vifs={"type": "array", "items": shapes.opened(("id",), id=TEXT)})
_VIF = shapes.opened(("id",), id=TEXT, port_uuid=TEXT_OR_NULL, portgroup_uuid=TEXT_OR_NULL)

# -- states, steps ---------------------------------------------------------------------------

_BODIES: Mapping[str, Json] = {
    "target": {"enum": [verb.target for verb in verbs.TABLE]},
    "configdrive": {"type": ["string", "object", "null"]},
    "rescue_password": {"type": ["string", "null"]},
    "disable_ramdisk": {"type": ["boolean", "null"]},
    "runbook": {"type": ["string", "null"]},
}
_PROVISION = shapes.closed(
    ("target",),
    **{
        key: _BODIES.get(key) or {"anyOf": [shapes.schema(key), {"type": "null"}]}
        for key in verbs.BODY_KEYS
    },
)
_STEP = shapes.opened(
    ("interface", "step", "priority", "abortable", "args"),
    interface={"enum": list(shapes.STEP_INTERFACES)},
    step=TEXT,
    priority={"type": "number"},
    abortable=FLAG,
    args={
        "type": "array",
        "items": shapes.opened(("name",), name=TEXT, description=TEXT, required=FLAG),
    },
)
_VALIDATION: Json = {
    "type": "object",
    "additionalProperties": shapes.opened(
        ("result",), result={"type": ["boolean", "null"]}, reason=TEXT_OR_NULL
    ),
}

# -- indicators, virtual media, vendor methods -----------------------------------------------

_DRIVES: Json = {"type": "array", "items": OBJECT}
_METHODS: Json = {"type": "object", "additionalProperties": OBJECT}
# The vendor method defines its input and output.
_VENDOR = Schemas(
    parts.ANY,
    takes=parts.ANY,
    also={HTTPStatus.ACCEPTED: None, HTTPStatus.NO_CONTENT: None},
    refusals=(HTTPStatus.CONFLICT,),
    other_type="text/plain",
)

# -- drivers, conductors, agents -------------------------------------------------------------

_DRIVER = shapes.closed(
    name=TEXT,
    hosts=parts.STRINGS,
    links=parts.LINKS,
    properties=parts.LINKS,
    type={"enum": ["dynamic"]},
    **{f"default_{kind}_interface": TEXT_OR_NULL for kind in fields.INTERFACE_KINDS},
    **{f"enabled_{kind}_interfaces": parts.STRINGS for kind in fields.INTERFACE_KINDS},
)
_PROPERTY = _object_with_all(
    **{"group": TEXT, "order": {"type": "integer"}, "required": FLAG, "secret": FLAG},
    **{"default": TEXT_OR_NULL, "example": TEXT_OR_NULL, "description": TEXT},
)
_COUNTED = ("bmc_calls_total", "bmc_retries_total", "bmc_call_seconds")
_COUNTERS = shapes.opened(
    ("hostname", "updated_at", "since", *_COUNTED),
    hostname=TEXT,
    updated_at={"type": ["string", "null"], "format": "date-time"},
    since=TEXT_OR_NULL,
    **dict.fromkeys((*_COUNTED, *metrics.FAMILIES, *metrics.GAUGES), _LIST),
)
_FOUND: Json = {"type": "object", "properties": {"node": OBJECT, "config": OBJECT}}

_WAITED = (HTTPStatus.FAILED_DEPENDENCY, HTTPStatus.GATEWAY_TIMEOUT)
_WAIT = {"wait": {"type": "integer", "minimum": 1}, "until": TEXT}
OF_WAIT = Schemas(beside=_WAIT, refusals=_WAITED)
_STATES = Schemas({"$ref": "#/components/schemas/NodeStates"})
_WAITING_STATES = dataclasses.replace(_STATES, refusals=_WAITED)
_BOOT_DEVICE = Schemas(
    _object_with_all(boot_device=TEXT_OR_NULL, persistent={"type": ["boolean", "null"]}),
    # Reading it needs the lock of the node.
    refusals=(HTTPStatus.CONFLICT,),
)

ROUTES: Mapping[str, Schemas] = {
    "HEAD ": Schemas(),
    "GET /": Schemas(_V1),
    "HEAD /": Schemas(),
    "GET /openapi.json": Schemas(OBJECT),
    "GET /openapi": Schemas(OBJECT),
    "GET /nodes/{ident}/vifs": Schemas(_VIFS),
    "POST /nodes/{ident}/vifs": Schemas(takes=_VIF),
    "GET /nodes/{ident}": OF_WAIT,
    "GET /nodes/{ident}/runs/{run}": OF_WAIT,
    "GET /runs/{run}": OF_WAIT,
    "GET /nodes/{ident}/runs/{run}/log": Schemas(other_type="text/plain"),
    "PUT /nodes/{ident}/runs/{run}/stop": Schemas(
        takes=shapes.schema("stop"), refusals=(HTTPStatus.CONFLICT,)
    ),
    "DELETE /nodes/{ident}/runs/{run}/stop": Schemas(refusals=(HTTPStatus.CONFLICT,)),
    "PUT /nodes/{ident}/data_state": Schemas(
        takes=shapes.schema("data_state"), refusals=(HTTPStatus.CONFLICT,)
    ),
    "POST /nodes/{ident}/holds": Schemas(
        {"$ref": "#/components/schemas/NodesHolds"},
        takes=shapes.schema("hold"),
        refusals=(HTTPStatus.CONFLICT,),
    ),
    "POST /holds": Schemas(
        _object_with_all(held=_COUNT, left=_COUNT, more=FLAG),
        takes=shapes.schema("holds"),
        refusals=(HTTPStatus.NOT_FOUND,),
    ),
    "POST /holds/end": Schemas(
        _object_with_all(
            ended=_COUNT,
            left=_COUNT,
            more=FLAG,
            nodes={
                "type": "array",
                "items": _object_with_all(uuid=TEXT, name=TEXT_OR_NULL, code=TEXT, text=TEXT),
            },
        ),
        takes=shapes.schema("holds_end"),
        refusals=(HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT),
    ),
    "GET /nodes/{ident}/states": _WAITING_STATES,
    "GET /nodes/states": _STATES,
    "GET /nodes/states/{node_ident}": _STATES,
    "PUT /nodes/{ident}/states/provision": Schemas(takes=_PROVISION),
    "PUT /nodes/{ident}/states/raid": Schemas(takes=OBJECT),
    "GET /nodes/{ident}/validate": Schemas(_VALIDATION),
    "GET /nodes/validate": Schemas(_VALIDATION, refusals=(HTTPStatus.NOT_FOUND,)),
    # A plan with faults has status 422, and so has an Idempotency-Key of another request.
    "POST /nodes/{ident}/plan": Schemas(
        takes=_PROVISION, as_well=(HTTPStatus.UNPROCESSABLE_ENTITY,)
    ),
    "GET /nodes/{ident}/cleaning/steps": Schemas(
        {"type": "array", "items": _STEP},
        also={HTTPStatus.ACCEPTED: _object_with_all(message=TEXT)},
    ),
    "GET /nodes/{ident}/management/boot_device": _BOOT_DEVICE,
    "GET /nodes/management/boot_device": _BOOT_DEVICE,
    "GET /nodes/management/boot_device/{node_ident}": _BOOT_DEVICE,
    "GET /nodes/{ident}/vmedia": Schemas(_DRIVES),
    "PUT /nodes/{ident}/traits": Schemas(takes=_object_with_all(traits=parts.STRINGS)),
    "PUT /nodes/{ident}/traits/{trait}": Schemas(takes={"type": ["object", "null"]}),
    "POST /events": Schemas(takes=shapes.schema("events")),
    "PUT /runbooks/{ident}/traits": Schemas(takes=_object_with_all(traits=parts.STRINGS)),
    "PUT /runbooks/{ident}/traits/{trait}": Schemas(takes={"type": ["object", "null"]}),
    "GET /nodes/{ident}/bios/{setting}": Schemas({"type": "object"}),
    "GET /drivers": Schemas(
        _object_with_all(drivers={"type": "array", "items": _DRIVER}),
        query={"type": {"enum": ["classic", "dynamic"]}, "detail": FLAG, "fields": TEXT},
    ),
    "GET /drivers/{name}": Schemas(_DRIVER, query={"fields": TEXT}),
    "GET /drivers/{name}/properties/detail": Schemas(
        {"type": "object", "additionalProperties": _PROPERTY}
    ),
    "GET /conductors/{hostname}/counters": Schemas(_COUNTERS),
    "GET /lookup": Schemas(
        _FOUND,
        query={**_NAMED_IN_QUERY, "addresses": TEXT},
        # The conductor writes a token.
        refusals=(HTTPStatus.CONFLICT,),
    ),
    "POST /continue_inspection": Schemas(
        {"type": "object", "required": ["uuid"]},
        takes=OBJECT,
        query=_NAMED_IN_QUERY,
        refusals=(HTTPStatus.NOT_FOUND,),
    ),
    **{
        f"GET /{whose}/vendor_passthru/methods": Schemas(_METHODS)
        for whose in ("nodes/{ident}", "drivers/{name}")
    },
    **{
        f"{method} /{whose}/vendor_passthru{more}": _VENDOR
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        for whose in ("nodes/{ident}", "drivers/{name}")
        for more in ("", "/{method}")
    },
}
