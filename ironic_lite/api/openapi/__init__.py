"""The OpenAPI document, generated from the tables that the service uses itself.

`document` walks the table of routes. ``parts`` describes resources, arguments and refusals from the
tables of fields, queries and errors. ``answers`` has the schemas that no table contains.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from typing import Any

from ironic_lite.api import policy
from ironic_lite.api.http.expose import Route
from ironic_lite.api.openapi import parts
from ironic_lite.api.openapi.answers import ROUTES
from ironic_lite.api.openapi.parts import Schemas
from ironic_lite.api.resources import preferred, queries, views
from ironic_lite.api.validation import shapes
from ironic_lite.core import deprecations
from ironic_lite.core.json_types import Json
from ironic_lite.domain import fields, versions

# Status codes of the refusals of a route, derived from its row in the table of routes.

_OF_AGENTS = ("/lookup", "/heartbeat", "/continue_inspection")
_READING = frozenset({"GET", "HEAD"})

Applies = Callable[[Route], bool]


def _may_be_missing(route: Route) -> bool:
    """Return whether a named object may be missing, or the route is missing in older versions."""
    asked = any(name == "node_ident" for name, _, _ in route.arguments)
    return "{" in route.path or route.since > 1 or asked


def takes_match(route: Route) -> bool:
    """Return whether If-Match can make a change depend on a version of the node, or its part."""
    part = "{" in route.path and route.path.startswith(("/ports/", "/portgroups/", "/volume/"))
    return route.method != "GET" and (part or route.path.startswith("/nodes/"))


def takes_key(route: Route) -> bool:
    """Return whether a request can have an Idempotency-Key."""
    return route.method not in _READING and not policy.public(route.path)


def _may_fail(route: Route) -> bool:
    """Return whether a request can wait for work that may fail."""
    return route.prefers in parts.FAILING_PREFERENCES and not route.path.startswith("/drivers/")


_REFUSALS: tuple[tuple[HTTPStatus, Applies], ...] = (
    # Unknown arguments, a path that is not text, a malformed Authorization header.
    (HTTPStatus.BAD_REQUEST, lambda _: True),
    (HTTPStatus.UNAUTHORIZED, lambda route: not policy.public(route.path)),
    (
        HTTPStatus.FORBIDDEN,
        lambda route: policy.guard(route.method, route.path) is not None,
    ),
    (HTTPStatus.NOT_FOUND, _may_be_missing),
    (
        HTTPStatus.METHOD_NOT_ALLOWED,
        lambda route: route.below is HTTPStatus.METHOD_NOT_ALLOWED,
    ),
    # An unsupported version.
    (HTTPStatus.NOT_ACCEPTABLE, lambda _: True),
    (HTTPStatus.REQUEST_TIMEOUT, lambda route: route.receives),
    (HTTPStatus.CONFLICT, lambda route: route.method not in _READING),
    (HTTPStatus.PRECONDITION_FAILED, takes_match),
    (HTTPStatus.REQUEST_ENTITY_TOO_LARGE, lambda route: route.receives),
    # Of ramdisks, or with an Idempotency-Key while too many answers are kept.
    (
        HTTPStatus.TOO_MANY_REQUESTS,
        lambda route: route.path.startswith(_OF_AGENTS) or takes_key(route),
    ),
    # The Idempotency-Key belongs to another request.
    (HTTPStatus.UNPROCESSABLE_ENTITY, takes_key),
    # With Prefer: wait=N, the work has failed.
    (HTTPStatus.FAILED_DEPENDENCY, _may_fail),
    # An error of the service or of a BMC.
    (HTTPStatus.INTERNAL_SERVER_ERROR, lambda _: True),
    # Too many requests, or an unavailable database or conductor.
    (HTTPStatus.SERVICE_UNAVAILABLE, lambda _: True),
)


def refusal_statuses(route: Route, *, paged: bool) -> set[int]:
    """Return the status codes of a route's refusals, without those of its row in `answers`.

    :param paged: the route is a list with a marker.
    """
    found = {int(status) for status, applies in _REFUSALS if applies(route)}
    return found | {int(HTTPStatus.NOT_FOUND)} if paged else found


Operation = tuple[Route, Callable[..., Any]]

_MEMBER = re.compile(r"\{(\w+)\}")
_TABLES: Mapping[str, str] = {"bios": "BIOS_SETTINGS"}
"""Collections whose table in `queries` has another name."""
_EMPTY = (type(None), preferred.Accepted)
"""Types that handlers return whose answers have no body, unless a preference brings one."""
_HOW = (
    "Its answer is described by the type that its handler returns, such as a `TypedDict`, by a "
    "`queries.Resource` named as the collection in its path (ROUTES for /routes), or by a row of "
    "`api.openapi.answers.ROUTES`."
)


class Undescribed(Exception):
    """A route whose request or response no table describes."""


def document(rows: Iterable[Operation], *answers: Mapping[str, Schemas]) -> Json:
    """Return the whole document.

    :param rows: routes with their handlers.
    :param answers: rows of features as in `answers.ROUTES`.
    :raises Undescribed: no table describes a route.
    """
    paths: Json = {}
    known = {key: row for table in (ROUTES, *answers) for key, row in table.items()}
    for route, handler in sorted(rows, key=lambda row: (row[0].path, row[0].method)):
        path = "/" if not route.path else f"/v1{route.path.rstrip('/')}"
        paths.setdefault(path, {})[route.method.lower()] = _describe_operation(
            route, handler, known
        )
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Bare Metal",
            "version": versions.MAX_VERSION,
            "description": "The API of Ironic as implemented by this service. x-since is the first "
            "microversion with an element, x-policy the rule that guards it.",
        },
        "paths": paths,
        "components": {
            "schemas": {
                "Fault": parts.fault(),
                "NodeStates": parts.shown(fields.NODE),
                **_resource_schemas(),
            },
            "responses": parts.refusal_responses(),
            "headers": dict(parts.ANSWER_HEADERS),
            "parameters": {
                "Version": parts.VERSION_HEADER,
                "IfMatch": parts.MATCH_HEADER,
                "Prefer": parts.PREFER_HEADER,
                "IdempotencyKey": parts.KEY_HEADER,
            },
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
            },
        },
        "security": [{}, {"basic": []}, {"token": []}],
    }


def _describe_operation(
    route: Route, handler: Callable[..., object], table: Mapping[str, Schemas]
) -> Json:
    function = inspect.unwrap(handler)
    schemas = _route_schemas(route, function, table)
    lines = (inspect.getdoc(function) or "").splitlines()
    rule = policy.guard(route.method, route.path)
    found: Json = {
        "operationId": _operation_id(route),
        "summary": lines[0] if lines else "",
        "tags": [(route.path.split("/")[1:] or ["versions"])[0] or "versions"],
        "parameters": [*_header_parameters(route, schemas), *_route_parameters(route, schemas)],
        "responses": _route_responses(route, schemas),
    }
    if route.since > 1:
        found["x-since"] = f"1.{route.since}"
    if rule is not None:
        found["x-policy"] = rule.name
    if deprecations.find(f"{route.method} /v1{route.path}"):
        found["deprecated"] = True
    body = _body_schema(route, schemas)
    if body is not None:
        # A body without required keys may be left out.
        required = bool(body.get("required")) or body.get("type") == "array"
        found["requestBody"] = {
            "required": required,
            "content": {"application/json": {"schema": body}},
        }
    return found


def _operation_id(route: Route) -> str:
    words = _MEMBER.sub(r"by-\1", route.path).strip("/").replace("/", "-") or "root"
    return f"{route.method.lower()}-{words}{'' if route.path else '-versions'}"


# -- schemas of a route ----------------------------------------------------------------------


def _route_schemas(
    route: Route, function: Callable[..., object], table: Mapping[str, Schemas]
) -> Schemas:
    known = table.get(f"{route.method} {route.path}")
    resource = resource_name(route.path)
    returns = typing.get_type_hints(function)["return"]
    if known is not None and known.answer is not None:
        return known
    found = known or Schemas()
    if parts.is_typed(returns):
        return dataclasses.replace(found, answer=parts.typed(returns))
    if returns in _EMPTY:
        return found
    if resource is not None and (known is None or known.beside):
        return dataclasses.replace(found, answer=_of_collection(route, resource).answer)
    if known is not None:
        return known
    raise Undescribed(f"{route.method} {route.path} is not described. {_HOW}")


def _of_collection(route: Route, name: str) -> Schemas:
    """Return the schemas of a collection or of its members."""
    if _is_member(route.path) or route.method != "GET":
        return Schemas({"$ref": f"#/components/schemas/{_schema_name(name)}"})
    word = next(one for one in reversed(_path_words(route.path)) if one != "detail")
    items = {"$ref": f"#/components/schemas/{_schema_name(name)}"}
    listed = {word: {"type": "array", "items": items}}
    return Schemas(shapes.closed((word,), **listed, next={"type": "string", "format": "uri"}))


def _path_words(path: str) -> list[str]:
    return [word for word in path.split("/") if word and not word.startswith("{")]


def _is_member(path: str) -> bool:
    """Return whether a path leads to one member: by its name, or because there is only one."""
    name, last = resource_name(path), _path_words(path)[-1]
    alone = name is not None and name.endswith(f"{last.upper()}S") and last not in _TABLES
    return path.endswith("}") or alone


def resource_name(path: str) -> str | None:
    """Return the name of the resource in `queries` for a path, or None."""
    ends = [word for word in path.split("/") if word]
    if ends and ends[-1] == "detail":
        ends.pop()
    if ends and ends[-1].startswith("{"):
        ends.pop()
    if not ends or ends[-1].startswith("{"):
        return None
    before = [word.upper() for word in ends[:-1] if not word.startswith("{")]
    last = _TABLES.get(ends[-1], ends[-1]).upper()
    for name in ("_".join([*before[-1:], last]), last, f"{last}S"):
        if name in queries.RESOURCES:
            return name
    return None


# -- arguments and bodies --------------------------------------------------------------------


def _header_parameters(route: Route, schemas: Schemas) -> list[Json]:
    matches = takes_match(route) or HTTPStatus.PRECONDITION_FAILED in schemas.refusals
    names = ("Version", *(("IfMatch",) if matches else ()))
    names += ("Prefer",) if route.prefers else ()
    names += ("IdempotencyKey",) if takes_key(route) else ()
    return [{"$ref": f"#/components/parameters/{name}"} for name in names]


def _route_parameters(route: Route, schemas: Schemas) -> list[Json]:
    places = _MEMBER.findall(route.path)
    in_path = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in places
    ]
    if route.raw_query:
        return in_path + _query_parameters(route, schemas)
    free = route.arguments if route.body != "typed" else ()
    return in_path + [
        {"name": name, "in": "query", "required": must, "schema": parts.argument(kind)}
        for name, kind, must in free
    ]


def _query_parameters(route: Route, schemas: Schemas) -> list[Json]:
    """Return the query arguments that the handler parses itself, from its table."""
    name = resource_name(route.path)
    if schemas.query or name is None:
        if not schemas.query:
            raise Undescribed(f"{route.method} {route.path}: its query is not described. {_HOW}")
        return [{"name": one, "in": "query", "schema": how} for one, how in schemas.query.items()]
    resource = queries.RESOURCES[name]
    if _is_member(route.path):
        beside = [
            {"name": one, "in": "query", "schema": how} for one, how in schemas.beside.items()
        ]
        return [parts.fields_of(resource), *beside]
    chosen = [parts.fields_of(resource), *parts.detail_of(resource)]
    if route.path.endswith("/detail"):
        chosen = []
    return [*(parts.paging(resource) if resource.paged else []), *chosen]


def _body_schema(route: Route, schemas: Schemas) -> Json | None:
    if route.body == "ignored":
        return None
    if schemas.takes is not None:
        return schemas.takes
    if route.body == "typed":
        return _typed_body(route)
    name = resource_name(route.path)
    if name is None:
        raise Undescribed(f"{route.method} {route.path}: its body is not described. {_HOW}")
    table = queries.RESOURCES[name].table
    return parts.patched(table) if route.method == "PATCH" else parts.created(table)


def _typed_body(route: Route) -> Json:
    properties = {name: parts.argument(kind) for name, kind, _ in route.arguments}
    return shapes.closed([name for name, _, must in route.arguments if must], **properties)


# -- responses -------------------------------------------------------------------------------


def _route_responses(route: Route, schemas: Schemas) -> Json:
    fault: Json = {"$ref": "#/components/schemas/Fault"}
    answers = {route.status: schemas.answer, **schemas.also}
    answers |= {status: {"anyOf": [schemas.answer, fault]} for status in schemas.as_well}
    preferred = parts.PREFERENCE_ANSWERS.get(route.prefers, {})
    found: Json = {}
    for status, schema in {**answers, **preferred}.items():
        other_type = schemas.other_type if status == route.status else ""
        response = found[str(int(status))] = _describe_response(status, schema, other_type)
        if status in preferred:
            response["description"] = parts.PREFERENCE_TEXTS[status]
        if status == route.status and status in preferred and "content" in response:
            # OpenAPI has no answer that only sometimes has a body.
            response["x-preferred-content"] = response.pop("content")
        if headers := parts.headers_of_success(route.prefers):
            response["headers"] = headers
    refused = refusal_statuses(route, paged=_is_paged(route)) | {*map(int, schemas.refusals)}
    for code in sorted(refused):
        found.setdefault(str(code), {"$ref": f"#/components/responses/Refused{code}"})
    return found


def _is_paged(route: Route) -> bool:
    """Return whether a route is a list with pages."""
    name = resource_name(route.path)
    asked = route.method == "GET" and route.raw_query and name is not None
    return asked and queries.RESOURCES[str(name)].paged


def _describe_response(status: int, schema: Json | None, other_type: str) -> Json:
    described: Json = {"description": HTTPStatus(status).phrase}
    if schema is not None:
        described["content"] = {"application/json": {"schema": schema}}
    if other_type:
        described.setdefault("content", {})[other_type] = {"schema": {"type": "string"}}
    return described


def _resource_schemas() -> Json:
    found: Json = {}
    for name, resource in queries.RESOURCES.items():
        below = parts.below(getattr(views, name, None))
        found[_schema_name(name)] = parts.shown(_member_fields(name, resource), below)
    return found


def _member_fields(name: str, resource: queries.Resource) -> tuple[fields.Field, ...]:
    """Return the fields of a member, which may be more than those in lists."""
    return queries.RESOURCES.get(name.removesuffix("S"), resource).table


def _schema_name(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


# The OpenAPI document, generated from the tables that the service uses itself.
#
# ``document`` walks the table of routes. ``parts`` describes resources, arguments and refusals from
# the tables of fields, queries and errors. ``answers`` has the schemas that no table contains.
