"""Schemas of single routes that no table of fields describes.

The key of a row is ``METHOD /path``, as in the policy's table. The route's own row describes what
a row leaves out. `document` refuses a route that neither a table nor a row describes.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from http import HTTPStatus

from ironic_lite.api.openapi import of_fleet, parts, plan_documents, webhook_documents
from ironic_lite.api.openapi.route_schemas import Schemas
from ironic_lite.api.resources import bmc_orders
from ironic_lite.api.validation import shapes
from ironic_lite.core import metrics
from ironic_lite.core.json_types import Json
from ironic_lite.domain import (
    examination,
    fields,
    notifications,
    run_stops,
    states,
    verbs,
)
from ironic_lite.domain.erasure_records import DataState


def _object_with_some(**properties: Json) -> Json:
    """Return the schema of an object with any of these keys, and no others."""
    return {"type": "object", "properties": properties, "additionalProperties": False}


_object_with_all = parts.object_with_all
_TEXT: Json = {"type": "string"}
_TEXT_OR_NULL: Json = {"type": ["string", "null"]}
_FLAG: Json = {"type": "boolean"}
_OBJECT: Json = {"type": "object"}
_LIST: Json = {"type": "array"}
_NAMED_IN_QUERY = {"node_uuid": _TEXT}

# -- / and /v1 -------------------------------------------------------------------------------

_VERSION = _object_with_all(
    id=_TEXT, links=parts.LINKS, status=_TEXT, min_version=_TEXT, version=_TEXT
)
_ROOT = _object_with_all(
    name=_TEXT,
    description=_TEXT,
    default_version=_VERSION,
    versions={"type": "array", "items": _VERSION},
)
_V1: Json = {"type": "object", "required": ["id", "links", "media_types", "version"]}

# -- sub-resources of nodes ------------------------------------------------------------------

_VOLUME = _object_with_all(links=parts.LINKS, connectors=parts.LINKS, targets=parts.LINKS)
_VIFS = _object_with_all(
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
_CHILDREN = _object_with_all(children=parts.STRINGS, links=_object_with_all(href=_TEXT, rel=_TEXT))
_SHARDS = _object_with_all(
    shards={"type": "array", "items": _object_with_all(name=_TEXT, count={"type": "integer"})}
)

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

# -- indicators, virtual media, vendor methods -----------------------------------------------

_LAMP = _object_with_all(
    name=_TEXT,
    component=_TEXT,
    readonly=_FLAG,
    states=parts.STRINGS,
    links=parts.LINKS,
)
_LAMPS = _object_with_all(indicators={"type": "array", "items": _LAMP})
_LAMP_STATE = _object_with_all(state=_TEXT_OR_NULL)
_DRIVES: Json = {"type": "array", "items": _OBJECT}
_METHODS: Json = {"type": "object", "additionalProperties": _OBJECT}
# The vendor method defines its input and output.
_VENDOR = Schemas(
    parts.ANY,
    takes=parts.ANY,
    also={HTTPStatus.ACCEPTED: None, HTTPStatus.NO_CONTENT: None},
    refusals=(HTTPStatus.CONFLICT,),
    other_type="text/plain",
)

# -- drivers, conductors, agents -------------------------------------------------------------

_DRIVER = _object_with_some(
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

_WAITED = (HTTPStatus.FAILED_DEPENDENCY, HTTPStatus.GATEWAY_TIMEOUT)
_WAIT = {"wait": {"type": "integer", "minimum": 1}, "until": _TEXT}
_BATCH: Json = {"$ref": "#/components/schemas/Batches"}
_CHANGED_BATCH: Json = {
    "anyOf": [
        _BATCH,
        {"type": "object", "properties": {"refused": _OBJECT}, "required": ["refused"]},
    ]
}
_OF_WAIT = Schemas(beside=_WAIT, refusals=_WAITED)
_STATES = Schemas({"$ref": "#/components/schemas/NodeStates"})
_WAITING_STATES = dataclasses.replace(_STATES, refusals=_WAITED)
_EVENT = _object_with_all(
    cursor=_TEXT,
    at={"type": "string", "format": "date-time"},
    node=_TEXT_OR_NULL,
    name=_TEXT_OR_NULL,
    kind={"enum": list(notifications.KINDS)},
    event=_TEXT_OR_NULL,
    before=_TEXT_OR_NULL,
    after=_TEXT_OR_NULL,
    run=_TEXT_OR_NULL,
    requester=_TEXT_OR_NULL,
    project=_TEXT_OR_NULL,
    request_id=_TEXT_OR_NULL,
    conductor=_TEXT_OR_NULL,
    data=_OBJECT,
)
_EVENTS = Schemas(
    _object_with_all(events={"type": "array", "items": _EVENT}, cursor=_TEXT, trimmed=_FLAG),
    query={
        "since": {"type": "string", "pattern": "^([0-9]{1,18}|now)$"},
        "node": _TEXT,
        "run": _TEXT,
        "kind": _TEXT,
        "limit": {"type": "integer", "minimum": 1, "maximum": 1000},
        "wait": {"type": "integer", "minimum": 1},
        "follow": _FLAG,
    },
    other_type="application/x-ndjson",
)
_FINDING = _object_with_all(
    name=_TEXT,
    where=_TEXT,
    status={"enum": [str(status) for status in examination.Status]},
    ms={"type": "integer"},
    text=_TEXT,
    do=_TEXT_OR_NULL,
)
_DOCTOR = Schemas(
    _object_with_all(
        status={"enum": [str(status) for status in examination.Status]},
        at={"type": "string", "format": "date-time"},
        checks={"type": "array", "items": _FINDING},
    ),
    refusals=(HTTPStatus.NOT_FOUND,),
)
_OBJECT_OR_NULL: Json = {"type": ["object", "null"]}
_VERB_OFFERED = _object_with_all(
    target={"enum": [verb.target for verb in verbs.TABLE]},
    leads_to=_TEXT,
    after=_TEXT_OR_NULL,
    refused=_OBJECT_OR_NULL,
)
_WHY = _object_with_all(
    node=_TEXT,
    name=_TEXT_OR_NULL,
    provision_state=_TEXT,
    kind={"enum": [kind.value for kind in states.Kind]},
    since={"type": ["string", "null"], "format": "date-time"},
    says=_TEXT,
    do=_TEXT_OR_NULL,
    lock=_OBJECT_OR_NULL,
    run=_OBJECT_OR_NULL,
    waits_for=_OBJECT_OR_NULL,
    failure=_OBJECT_OR_NULL,
    maintenance=_OBJECT_OR_NULL,
    holds={"type": "array", "items": _OBJECT},
    data_state={"enum": [str(state) for state in DataState]},
    batch=_OBJECT_OR_NULL,
    overdue=_OBJECT_OR_NULL,
    verbs={"type": "array", "items": _VERB_OFFERED},
    orders={
        "type": "array",
        "items": _object_with_all(
            order={"enum": [order.name for order in bmc_orders.ORDERS]},
            targets={"type": "array", "items": {"type": ["string", "boolean"]}},
            refused=_OBJECT_OR_NULL,
        ),
    },
)
_STOP = _object_with_all(
    how={"enum": [str(how) for how in run_stops.How]},
    after={"type": ["integer", "null"]},
    reason=_TEXT,
    requester=_TEXT_OR_NULL,
    at={"type": "string", "format": "date-time"},
    progress={"enum": [str(progress) for progress in run_stops.Progress]},
)
_BOOT_DEVICE = Schemas(
    _object_with_all(boot_device=_TEXT_OR_NULL, persistent={"type": ["boolean", "null"]}),
    # Reading it needs the lock of the node.
    refusals=(HTTPStatus.CONFLICT,),
)
_CONSOLE = Schemas(
    _object_with_all(console_enabled=_FLAG, console_info={"type": ["object", "null"]})
)
# A plan with faults has this status, and so has an Idempotency-Key of another request.
_PLAN_OR_FAULT: Json = {
    "anyOf": [plan_documents.PLAN, {"$ref": "#/components/schemas/Fault"}],
}

ROUTES: Mapping[str, Schemas] = {
    "GET ": Schemas(_ROOT),
    "HEAD ": Schemas(),
    "GET /": Schemas(_V1),
    "HEAD /": Schemas(),
    "GET /openapi.json": Schemas(_OBJECT),
    "GET /openapi": Schemas(_OBJECT),
    "GET /shards": Schemas(_SHARDS),
    "GET /volume": Schemas(_VOLUME),
    "GET /nodes/{ident}/volume": Schemas(_VOLUME),
    "GET /nodes/{ident}/children": Schemas(_CHILDREN),
    "GET /nodes/{ident}/vifs": Schemas(_VIFS),
    "POST /nodes/{ident}/vifs": Schemas(takes=_VIF),
    "GET /events": _EVENTS,
    "GET /doctor": _DOCTOR,
    "GET /stats/steps": Schemas(of_fleet.STEP_STATISTICS),
    "GET /stats/nodes": Schemas(of_fleet.NODE_COUNTS, query=of_fleet.NODE_COUNTS_QUERY),
    "GET /whoami": Schemas(of_fleet.WHOAMI),
    "GET /webhooks": Schemas(webhook_documents.WEBHOOKS),
    "GET /webhooks/{ident}": Schemas(webhook_documents.WEBHOOK),
    "GET /webhooks/{ident}/failed": Schemas(webhook_documents.FAILED),
    "POST /webhooks": Schemas(
        webhook_documents.WEBHOOK,
        takes=shapes.schema("webhook"),
        refusals=(HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND),
    ),
    "PATCH /webhooks/{ident}": Schemas(
        webhook_documents.WEBHOOK,
        takes={"type": "array", "items": _OBJECT},
        refusals=(HTTPStatus.CONFLICT,),
    ),
    "POST /webhooks/{ident}/replay": Schemas(
        webhook_documents.WEBHOOK,
        takes=shapes.schema("webhook_replay"),
        refusals=(HTTPStatus.CONFLICT,),
    ),
    "GET /nodes/{ident}": _OF_WAIT,
    "GET /nodes/{ident}/runs/{run}": _OF_WAIT,
    "GET /runs/{run}": _OF_WAIT,
    "GET /nodes/{ident}/runs/{run}/log": Schemas(other_type="text/plain"),
    "GET /nodes/{ident}/why": Schemas(_WHY),
    "PUT /nodes/{ident}/runs/{run}/stop": Schemas(
        _STOP, takes=shapes.schema("stop"), refusals=(HTTPStatus.CONFLICT,)
    ),
    "DELETE /nodes/{ident}/runs/{run}/stop": Schemas(refusals=(HTTPStatus.CONFLICT,)),
    "GET /batches/{ident}": _OF_WAIT,
    "POST /batches": Schemas(
        _BATCH, takes=shapes.schema("batch"), also={200: _OBJECT}, refusals=(404,)
    ),
    "PUT /batches/{ident}/state": Schemas(_CHANGED_BATCH, takes=shapes.schema("batch_state")),
    "PUT /nodes/{ident}/data_state": Schemas(
        takes=shapes.schema("data_state"), refusals=(HTTPStatus.CONFLICT,)
    ),
    "GET /erasures/{erasure}": Schemas(_OBJECT),
    "GET /erasures/{erasure}/signature": Schemas(other_type="application/octet-stream"),
    "GET /erasures/keys/{key}": Schemas(other_type="application/x-pem-file"),
    "POST /nodes/{ident}/holds": Schemas(
        {"$ref": "#/components/schemas/NodesHolds"},
        takes=shapes.schema("hold"),
        refusals=(HTTPStatus.CONFLICT,),
    ),
    "GET /nodes/{ident}/states": _WAITING_STATES,
    "GET /nodes/states": _STATES,
    "GET /nodes/states/{node_ident}": _STATES,
    "PUT /nodes/{ident}/states/provision": Schemas(takes=_PROVISION),
    "PUT /nodes/{ident}/states/raid": Schemas(takes=_OBJECT),
    "GET /nodes/{ident}/validate": Schemas(_VALIDATION),
    "GET /nodes/validate": Schemas(_VALIDATION, refusals=(HTTPStatus.NOT_FOUND,)),
    "POST /nodes/{ident}/plan": Schemas(
        plan_documents.PLAN,
        takes=_PROVISION,
        also={HTTPStatus.UNPROCESSABLE_ENTITY: _PLAN_OR_FAULT},
    ),
    "GET /nodes/{ident}/cleaning/steps": Schemas(
        {"type": "array", "items": _STEP},
        also={HTTPStatus.ACCEPTED: _object_with_all(message=_TEXT)},
    ),
    "GET /nodes/{ident}/management/boot_device": _BOOT_DEVICE,
    "GET /nodes/management/boot_device": _BOOT_DEVICE,
    "GET /nodes/management/boot_device/{node_ident}": _BOOT_DEVICE,
    "GET /nodes/{ident}/management/boot_device/supported": Schemas(
        _object_with_all(supported_boot_devices=parts.STRINGS)
    ),
    "GET /nodes/{ident}/management/indicators": Schemas(_LAMPS),
    "GET /nodes/{ident}/management/indicators/{component}": Schemas(
        {"anyOf": [_LAMPS, _LAMP_STATE]}
    ),
    "GET /nodes/{ident}/management/indicators/{component}/{indicator}": Schemas(_LAMP_STATE),
    "GET /nodes/{ident}/vmedia": Schemas(_DRIVES),
    "GET /nodes/{ident}/inventory": Schemas(
        _object_with_all(inventory=_OBJECT, plugin_data=_OBJECT)
    ),
    "GET /nodes/{ident}/traits": Schemas(_object_with_all(traits=parts.STRINGS)),
    "PUT /nodes/{ident}/traits": Schemas(takes=_object_with_all(traits=parts.STRINGS)),
    "PUT /nodes/{ident}/traits/{trait}": Schemas(takes={"type": ["object", "null"]}),
    "GET /nodes/{ident}/states/console": _CONSOLE,
    "GET /nodes/states/console": _CONSOLE,
    "GET /nodes/states/console/{node_ident}": _CONSOLE,
    "POST /events": Schemas(takes=shapes.schema("events")),
    "GET /runbooks/{ident}/traits": Schemas(_object_with_all(traits=parts.STRINGS)),
    "PUT /runbooks/{ident}/traits": Schemas(takes=_object_with_all(traits=parts.STRINGS)),
    "PUT /runbooks/{ident}/traits/{trait}": Schemas(takes={"type": ["object", "null"]}),
    "GET /nodes/{ident}/bios/{setting}": Schemas({"type": "object"}),
    "GET /drivers": Schemas(
        _object_with_all(drivers={"type": "array", "items": _DRIVER}),
        query={"type": {"enum": ["classic", "dynamic"]}, "detail": _FLAG, "fields": _TEXT},
    ),
    "GET /drivers/{name}": Schemas(_DRIVER, query={"fields": _TEXT}),
    "GET /conductors/{hostname}/counters": Schemas(_COUNTERS),
    "GET /lookup": Schemas(
        _FOUND,
        query={**_NAMED_IN_QUERY, "addresses": _TEXT},
        # The conductor writes a token.
        refusals=(HTTPStatus.CONFLICT,),
    ),
    "POST /continue_inspection": Schemas(
        {"type": "object", "required": ["uuid"]},
        takes=_OBJECT,
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
