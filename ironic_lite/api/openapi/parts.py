"""Recurring schemas of the OpenAPI document: resources, arguments and errors."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import types as python_types
import typing
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import Any

import wsme.types

from ironic_lite import errors
from ironic_lite.api.http import refusals
from ironic_lite.api.resources import patches, queries, views
from ironic_lite.api.validation import shapes, types
from ironic_lite.core.json_types import Json
from ironic_lite.domain import versions
from ironic_lite.domain.fields import Field, Type


@dataclasses.dataclass(frozen=True, slots=True)
class Schemas:
    """The schemas of one route.

    ``answer`` is for the response body, None without a body. ``takes`` is for a request body that
    the handler parses itself, ``query`` (name -> schema) for query arguments that it parses itself.
    ``beside`` are query arguments beside those of the resource's table.
    ``also`` are other success statuses with the schemas of their bodies; ``as_well`` are statuses
    of refusals that may have the answer as their body, too. ``refusals`` are error statuses beyond
    those of `refusal_statuses`; with 412, the route takes If-Match. ``other_type`` is another
    content type that a response may have.
    """

    answer: Json | None = None
    takes: Json | None = None
    query: Mapping[str, Json] = dataclasses.field(default_factory=dict)
    beside: Mapping[str, Json] = dataclasses.field(default_factory=dict)
    also: Mapping[int, Json | None] = dataclasses.field(default_factory=dict)
    as_well: tuple[int, ...] = ()
    refusals: tuple[int, ...] = ()
    other_type: str = ""


# Answers and headers of requests that heed the header Prefer, and of requests that wait.
#
# The rows of `ANSWERS` have the names of the functions of `resources.preferred`.


def object_with_all(**properties: Json) -> Json:
    """Return the schema of an object with all of these keys, and no others."""
    return shapes.closed(tuple(properties), **properties)


_ENDED = HTTPStatus.OK
_GOES_ON = HTTPStatus.ACCEPTED
_RUN: Json = {"$ref": "#/components/schemas/Run"}
_TEXT: Json = {"type": "string"}
_END: Json = {
    **object_with_all(node=_TEXT, kind={"enum": ["power", "management"]}, event=_TEXT),
    "description": "The event that has ended the work.",
}
_MAINTENANCE = object_with_all(node=_TEXT, maintenance={"type": "boolean"})

PREFERENCE_ANSWERS: Mapping[str, Mapping[int, Json | None]] = {
    "verb": {_ENDED: _RUN, _GOES_ON: _RUN},
    "operation": {_ENDED: _END, _GOES_ON: None},
    "vendor": {},
    "change": {_ENDED: _MAINTENANCE},
    "at_once": {},
    "steps": {},
}
"""Function -> the answers, with the schemas of their bodies, that only a preference brings."""

FAILING_PREFERENCES = frozenset({"verb", "operation", "vendor"})
"""Functions that answer 424 if the work fails."""

PREFERENCE_TEXTS: Mapping[int, str] = {
    _ENDED: "With Prefer: wait=N, the work has ended well.",
    _GOES_ON: "Accepted. With Prefer: wait=N, the work goes on after N seconds; only then a "
    "request for a verb is answered with its run (x-preferred-content).",
}

_APPLIED = "PreferenceApplied"
_MONITOR = "Monitor"
_AGAIN = "RetryAfter"

ANSWER_HEADERS: Mapping[str, Json] = {
    _APPLIED: {
        "description": "The preferences that were applied (RFC 7240, 3).",
        "schema": _TEXT,
        "example": "wait=50",
    },
    _MONITOR: {
        "description": 'The run of the request, with rel="monitor".',
        "schema": _TEXT,
        "example": "</v1/nodes/1be26c0b-03f2-4d2e-ae87-c02d7f33c123/runs/"
        '2f4c7a0e-6b1d-4a53-9a35-5d6f0f0f7d55>; rel="monitor"',
    },
    _AGAIN: {
        "description": "Seconds after which a repetition may succeed. python-ironicclient does not "
        "get this header.",
        "schema": {"type": "string", "pattern": "^[0-9]+$"},
        "example": "1",
    },
}
"""Headers of answers, for ``components``."""

_NAMES = {_APPLIED: "Preference-Applied", _MONITOR: "Link", _AGAIN: "Retry-After"}
_OF_REFUSALS: Mapping[int, tuple[str, ...]] = {
    HTTPStatus.CONFLICT: (_AGAIN, _APPLIED),
    HTTPStatus.FAILED_DEPENDENCY: (_MONITOR, _APPLIED),
    HTTPStatus.SERVICE_UNAVAILABLE: (_AGAIN, _APPLIED),
    HTTPStatus.GATEWAY_TIMEOUT: (_AGAIN,),
}


def headers_of_success(preferred: str) -> Json:
    """Return the headers of a success.

    :param preferred: the function of `resources.preferred`, "" for none.
    """
    if not preferred:
        return {}
    return _references((_APPLIED, _MONITOR) if preferred == "verb" else (_APPLIED,))


def _references(keys: tuple[str, ...]) -> Json:
    return {_NAMES[key]: {"$ref": f"#/components/headers/{key}"} for key in keys}


LINKS: Json = {
    "type": "array",
    "items": shapes.closed(("href", "rel"), href=_TEXT, rel=_TEXT, type=_TEXT),
}
ANY: Json = {}
STRINGS: Json = {"type": "array", "items": {"type": "string"}}
TEXTS: Json = {"type": "object", "additionalProperties": {"type": "string"}}

_SHOWN: Mapping[Type, Json] = {
    Type.STRING: {"type": ["string", "null"]},
    Type.BOOLEAN: {"type": ["boolean", "null"]},
    Type.OBJECT: {"type": ["object", "null"]},
    Type.LIST: {"type": ["array", "null"]},
    Type.NUMBER: {"type": ["number", "null"]},
    Type.INTEGER: {"type": ["integer", "null"]},
    Type.TIME: {"type": ["string", "null"], "format": "date-time"},
}
# `rules` accepts words for booleans.
_WRITTEN: Mapping[Type, Json] = {**_SHOWN, Type.BOOLEAN: {"type": ["boolean", "string", "null"]}}
_ARGUMENTS: Mapping[int, Json] = {
    id(types.word): {"type": "string"},
    id(types.integer): {"type": "integer"},
    id(types.number): {"type": "number"},
    id(types.boolean): {"type": "boolean"},
    id(wsme.types.text): {"type": "string"},
}


_PLAIN: Mapping[object, Json] = {
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    str: {"type": "string"},
    datetime.datetime: {"type": "string", "format": "date-time"},
    Json: {"type": "object"},
    dict[str, str]: TEXTS,
    refusals.LinkList: LINKS,
}


def is_typed(kind: Any) -> bool:
    """Return whether a type that a handler returns describes its answer."""
    documents = (kind, *typing.get_args(kind))
    return kind == dict[str, str] or any(typing.is_typeddict(each) for each in documents)


def typed(kind: Any) -> Json:
    """Return the schema of a typed document, or of one of its values.

    :param kind: a ``TypedDict``, an enumeration, a plain type, a list or a union of these, or an
        ``Annotated`` one with a format (str) or the possible values (tuple).
    :raises TypeError: another type.
    """
    if kind in _PLAIN:
        return dict(_PLAIN[kind])
    if typing.is_typeddict(kind):
        hints = typing.get_type_hints(kind, include_extras=True)
        return object_with_all(**{name: typed(value) for name, value in hints.items()})
    origin, parts = typing.get_origin(kind), typing.get_args(kind)
    if origin is typing.Annotated:
        more = {"format": parts[1]} if isinstance(parts[1], str) else {"enum": list(parts[1])}
        return {**typed(parts[0]), **more}
    if origin is list:
        return {"type": "array", "items": typed(parts[0])}
    if origin is python_types.UnionType:
        return _any_of([typed(part) for part in parts if part is not type(None)], len(parts))
    if isinstance(kind, type) and issubclass(kind, enum.StrEnum):
        return {"type": "string", "enum": [str(member) for member in kind]}
    raise TypeError(f"{kind!r} has no schema")


def _any_of(schemas: list[Json], size: int) -> Json:
    """Return the schema of a value that has one of some, or is null if there are fewer of them."""
    null: list[Any] = [{"type": "null"}] if size > len(schemas) else []
    if len(schemas) > 1 and any(len(schema) > 1 for schema in schemas):
        return {"anyOf": [*schemas, *null]}
    merged = {**schemas[0], "type": [schema["type"] for schema in [*schemas, *null]]}
    return {**merged, "enum": [*merged["enum"], None]} if "enum" in merged and null else merged


def argument(kind: object) -> Json:
    """Return the schema of an argument that WSME parses.

    :param kind: a type of ``types``.
    :raises LookupError: an unknown type.
    """
    return dict(_ARGUMENTS[id(kind)])


# -- resources -------------------------------------------------------------------------------


def shown(table: tuple[Field, ...], below: Mapping[str, int] | None = None) -> Json:
    """Return the schema of a resource in a response; versions leave out fields they do not have.

    :param below: the link lists of the resource, each with its version.
    """
    properties: Json = {}
    for field in table:
        schema = LINKS if field.name == "links" else dict(_SHOWN[field.type])
        properties[field.name] = {**schema, **_since_mark(field.since)}
    for name, since in (below or {}).items():
        # The links to the nodes of a chassis are in a nested list, as in Ironic.
        schema = {"type": "array", "items": LINKS} if name == "nodes" else LINKS
        properties[name] = {**schema, **_since_mark(since)}
    return shapes.closed(**properties)


def created(table: tuple[Field, ...]) -> Json:
    """Return the schema of a resource in a POST."""
    properties = {
        field.name: {**_bounded_schema(field), **_since_mark(field.since)}
        for field in table
        if field.creatable
    }
    return {"type": "object", "properties": properties}


def patched(table: tuple[Field, ...]) -> Json:
    """Return the schema of a JSON PATCH (RFC 6902) of a resource."""
    names = "|".join(field.name for field in table if field.patchable)
    return {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {
                "op": {"enum": list(patches.OPERATIONS)},
                "path": {"type": "string", "pattern": f"^/({names})(/.*)?$"},
                "value": ANY,
            },
            "required": ["op", "path"],
        },
    }


def _bounded_schema(field: Field) -> Json:
    schema = dict(_WRITTEN[field.type])
    if field.type is Type.STRING and field.length is not None:
        schema["maxLength"] = field.length
    return schema


def _since_mark(version: int) -> Json:
    return {"x-since": f"1.{version}"} if version > 1 else {}


def below(resource: views.Resource | None) -> dict[str, int]:
    """Return the link lists of a resource with their versions."""
    return dict(resource.below) if resource is not None else {}


# -- queries ---------------------------------------------------------------------------------


def fields_of(resource: queries.Resource) -> Json:
    """Return the argument ``fields``."""
    names = ", ".join(field.name for field in resource.table)
    about = f"Show only these fields, separated by commas: {names}."
    return _query_parameter("fields", {"type": "string"}, resource.fields_since, about)


def detail_of(resource: queries.Resource) -> list[Json]:
    """Return the argument ``detail``, if the resource has it."""
    if resource.detail_since is None:
        return []
    return [
        _query_parameter("detail", {"type": "boolean"}, resource.detail_since, "Show all fields.")
    ]


def paging(resource: queries.Resource) -> list[Json]:
    """Return the arguments of every list, and the filters of this resource."""
    keys = ["id", *(one.name for one in resource.table if one.sort and one.stored is not None)]
    found = [
        _query_parameter("limit", {"type": "integer"}, 1, "Largest number of rows in a page."),
        _query_parameter("marker", {"type": "string"}, 1, "Start after this row."),
        _query_parameter("sort_key", {"enum": keys}, 1, "Sort by this field."),
        _query_parameter("sort_dir", {"enum": ["asc", "desc"]}, 1, "Sort direction."),
    ]
    for one in resource.filters:
        found.append(
            _query_parameter(one.name, {"type": "string"}, one.since, "Show only matching rows.")
        )
    return found


def _query_parameter(name: str, schema: Json, since: int, about: str) -> Json:
    return {
        "name": name,
        "in": "query",
        "schema": schema,
        "description": about,
        **_since_mark(since),
    }


# -- headers and errors ----------------------------------------------------------------------

VERSION_HEADER: Json = {
    "name": "X-OpenStack-Ironic-API-Version",
    "in": "header",
    "description": "The requested microversion; the newest if the header is left out.",
    "schema": {"type": "string", "pattern": r"^(latest|1\.[1-9][0-9]{0,2})$"},
    "example": versions.MAX_VERSION,
}
MATCH_HEADER: Json = {
    "name": "If-Match",
    "in": "header",
    "description": "Change the resource only if its ETag is still one of these.",
    "schema": {"type": "string", "pattern": r'^(\*|"[0-9]{1,18}"(, "[0-9]{1,18}")*)$'},
    "example": '"7"',
}
PREFER_HEADER: Json = {
    "name": "Prefer",
    "in": "header",
    "description": "wait=N: wait up to N seconds for the lock of the node, then for the end of the "
    "work. respond-async: answer as soon as the request is accepted (RFC 7240).",
    "schema": {
        "type": "string",
        "pattern": "^(respond-async|wait=[0-9]+|respond-async, wait=[0-9]+)$",
    },
    "example": "wait=50",
}
KEY_HEADER: Json = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Carry the request out once: a repetition with the same key gets the answer of "
    "the first, with Idempotent-Replay: true. A bare word, or a string in double quotes.",
    "schema": {"type": "string", "pattern": "^[A-Za-z0-9_.:-]{1,255}$"},
    "example": "8e03978e-40d5-43dd-bc93-6894a57f9324",
}
_EARLY = (
    # for a write in an older version
    HTTPStatus.METHOD_NOT_ALLOWED,
    # for a body that does not arrive, and for agents; the table of errors has the other statuses
    HTTPStatus.REQUEST_TIMEOUT,
    HTTPStatus.TOO_MANY_REQUESTS,
)
_FAULT: Json = {
    "description": "Older clients read a nested string: error_message contains the JSON object.",
    "anyOf": [
        {
            "type": "object",
            "properties": {"error_message": {"type": "string"}},
            "required": ["error_message"],
        },
        {
            "type": "object",
            "properties": {"faultcode": {"type": "string"}, "faultstring": {"type": "string"}},
            "required": ["faultcode", "faultstring"],
        },
    ],
}


def statuses() -> list[int]:
    """Return the status codes of all refusals, from the table of errors and before its use."""
    known = {one.status for one in _error_classes(errors.Error)} | {*_EARLY}
    # StepsUnavailable is not a refusal: its 202 means that the result is not ready.
    return sorted(int(one) for one in known if one >= HTTPStatus.BAD_REQUEST)


def _error_classes(kind: type[errors.Error]) -> Iterator[type[errors.Error]]:
    yield kind
    for one in kind.__subclasses__():
        yield from _error_classes(one)


def refusal_responses() -> dict[str, Json]:
    """Return the responses to refused requests, for ``components``."""
    content = {"application/json": {"schema": {"$ref": "#/components/schemas/Fault"}}}
    found: dict[str, Json] = {}
    for code in statuses():
        found[f"Refused{code}"] = {"description": HTTPStatus(code).phrase, "content": content}
        if headers := _references(_OF_REFUSALS.get(code, ())):
            found[f"Refused{code}"]["headers"] = headers
    return found


def fault() -> Json:
    """Return the schema of an error body."""
    return _FAULT
