"""Hardware types, conductors, and vendor passthru."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import orjson

from ironic_lite import errors
from ironic_lite.api.http import expose, refusals
from ironic_lite.api.http.request import Request
from ironic_lite.api.resources import bmc_orders, pages, preferred, queries
from ironic_lite.api.service import Service
from ironic_lite.api.validation import rules
from ironic_lite.core import metrics
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import conductors
from ironic_lite.domain import fields
from ironic_lite.rpc import contract

_RAID_SINCE = 12
_PROPERTIES_SINCE = 14
_TYPE_SINCE = 30
_FIELDS_SINCE = 77
_DYNAMIC = "dynamic"
_TYPES = (_DYNAMIC, "classic")
_NODE = fields.by_name(fields.NODE)
# Documents of drivers got the first kinds one version before nodes.
_KIND_SINCE = {
    kind: since if since > _TYPE_SINCE + 1 else _TYPE_SINCE
    for kind, since in ((kind, _NODE[f"{kind}_interface"].since) for kind in fields.INTERFACE_KINDS)
}


@dataclasses.dataclass(slots=True)
class Driver:
    """A hardware type: its hosts and, by kind, the enabled interfaces and the default."""

    name: str
    hosts: dict[str, None] = dataclasses.field(default_factory=dict)
    enabled: dict[str, dict[str, None]] = dataclasses.field(default_factory=dict)
    defaults: dict[str, str] = dataclasses.field(default_factory=dict)


class Drivers(expose.Controller):
    """The collection /v1/drivers, its members, and their properties."""

    @expose.expose("GET", "/drivers", raw_query=True)
    def index(self, request: Request) -> Json:
        """Return all hardware types; there is no paging."""
        given = request.query
        queries.refuse_unknown(given, ("type", "detail", "fields"))
        chosen = _chosen_fields(request)
        detail = _wants_detail(request)
        if _wanted_type(request) == "classic":
            return {"drivers": []}
        found = _all_drivers(self.service)
        shown = (_driver_document(request, found[name], detail=detail) for name in sorted(found))
        return {"drivers": [_chosen_only(document, chosen) for document in shown]}

    @expose.expose("GET", "/drivers/{name}", raw_query=True)
    def show(self, request: Request, name: str) -> Json:
        """Return one hardware type with its interfaces."""
        queries.refuse_unknown(request.query, ("fields",))
        chosen = _chosen_fields(request)
        return _chosen_only(
            _driver_document(request, _find_driver(self.service, name), detail=True), chosen
        )

    @expose.expose("GET", "/drivers/{name}/properties")
    def properties(self, request: Request, name: str) -> dict[str, str]:
        """Return the keys of driver_info: key -> description, from a conductor."""
        return conductor_with(self.service, name).get_driver_properties(request.who, driver=name)

    @expose.expose("GET", "/drivers/{name}/properties/detail")
    def property_details(self, request: Request, name: str) -> Json:
        """Return the keys of driver_info with the facts that a form needs, from a conductor."""
        asked = conductor_with(self.service, name)
        return asked.get_driver_property_details(request.who, driver=name)

    @expose.expose(
        "GET",
        "/drivers/{name}/raid/logical_disk_properties",
        since=_RAID_SINCE,
        below=HTTPStatus.NOT_ACCEPTABLE,
    )
    def logical_disk_properties(self, request: Request, name: str) -> dict[str, str]:
        """Return the keys of a logical disk in target_raid_config: key -> description."""
        asked = conductor_with(self.service, name)
        try:
            return asked.get_raid_logical_disk_properties(request.who, driver=name)
        except errors.UnsupportedDriverExtension as why:
            raise errors.NotFound(why.message) from None


def conductor_with(service: Service, name: str) -> contract.Conductor:
    """Return an online conductor with the hardware type ``name``.

    :raises errors.DriverNotFound: no online conductor has the hardware type.
    """
    return service.reach(lambda: service.fleet.trusted(_find_driver(service, name).hosts))


def _find_driver(service: Service, name: str) -> Driver:
    found = _all_drivers(service).get(name)
    if found is None:
        raise errors.DriverNotFound(driver=name)
    return found


def _all_drivers(service: Service) -> dict[str, Driver]:
    rows = service.database.read(conductors.interfaces)
    living = {row["hostname"] for row in rows if service.fleet.lives(row)}
    found: dict[str, Driver] = {}
    for row in rows:
        if row["hostname"] not in living:
            continue
        name = row["hardware_type"]
        driver = found.setdefault(name, Driver(name))
        driver.hosts[row["hostname"]] = None
        driver.enabled.setdefault(row["interface_type"], {})[row["interface_name"]] = None
        if row["is_default"]:
            driver.defaults.setdefault(row["interface_type"], row["interface_name"])
    return found


def _driver_document(request: Request, driver: Driver, *, detail: bool) -> Json:
    base, version = request.base, request.version
    found: Json = {
        "name": driver.name,
        "hosts": sorted(driver.hosts),
        "links": refusals.link_pair(base, f"drivers/{driver.name}"),
    }
    if version >= _PROPERTIES_SINCE:
        found["properties"] = refusals.link_pair(base, f"drivers/{driver.name}/properties")
    if version >= _TYPE_SINCE:
        found["type"] = _DYNAMIC
    if detail:
        for kind, since in _KIND_SINCE.items():
            if since <= version:
                found[f"default_{kind}_interface"] = driver.defaults.get(kind)
                found[f"enabled_{kind}_interfaces"] = sorted(driver.enabled.get(kind, ()))
    return found


_NAMES = frozenset(
    {
        *("name", "hosts", "links", "properties", "type"),
        *(f"default_{kind}_interface" for kind in fields.INTERFACE_KINDS),
        *(f"enabled_{kind}_interfaces" for kind in fields.INTERFACE_KINDS),
    }
)


def _chosen_fields(request: Request) -> tuple[str, ...] | None:
    asked = request.query.get("fields")
    if asked is None:
        return None
    if request.version < _FIELDS_SINCE:
        raise errors.NotAcceptable(what="The argument fields", since=_FIELDS_SINCE)
    names = tuple(part.strip().lower() for part in asked.split(",") if part.strip())
    for name in names:
        if name not in _NAMES:
            reason = f"there is no field {name!r}. Known here: {', '.join(sorted(_NAMES))}"
            raise errors.InvalidParameter(path="fields", reason=reason)
    return names


def _wants_detail(request: Request) -> bool:
    """Return whether to build documents with interfaces: for ``detail``, or to choose fields."""
    given = request.query
    if "detail" not in given:
        return "fields" in given
    if request.version < _TYPE_SINCE:
        raise errors.NotAcceptable(what="The argument detail", since=_TYPE_SINCE)
    wanted = rules.boolean(given["detail"], "detail")
    if wanted and "fields" in given:
        raise errors.InvalidParameter(path="detail", reason="cannot be used together with fields")
    return wanted or "fields" in given


def _wanted_type(request: Request) -> str | None:
    wanted = request.query.get("type")
    if wanted is None:
        return None
    if request.version < _TYPE_SINCE:
        raise errors.NotAcceptable(what="The argument type", since=_TYPE_SINCE)
    if wanted not in _TYPES:
        raise errors.InvalidParameter(path="type", reason=f"must be one of {', '.join(_TYPES)}")
    return wanted


def _chosen_only(document: Json, chosen: tuple[str, ...] | None) -> Json:
    if chosen is None:
        return document
    return {name: value for name, value in document.items() if name in chosen or name == "links"}


# Conductors: their hosts, liveness, hardware types and counters.

Rows = list[Json]

_CONDUCTORS_SINCE = 49


class Conductors(expose.Controller):
    """The collection /v1/conductors and its members.

    There are few conductors, so one statement reads all, and pages are made here.
    """

    @expose.expose("GET", "/conductors", since=_CONDUCTORS_SINCE, raw_query=True)
    def index(self, request: Request) -> Json:
        """Return a page of conductors, including offline ones."""
        query = pages.query(self.service, request, queries.CONDUCTORS)
        rows = self._conductor_rows(with_drivers="drivers" in query.fields)
        # Python cannot compare None with a value; NULL comes first, as in the database.
        rows.sort(key=lambda row: (row[query.sort] is not None, row[query.sort], row["id"]))
        if query.direction == "desc":
            rows.reverse()
        some = _rows_after(rows, query.marker)[: query.limit]
        shown = [_conductor_document(request, row, query.fields) for row in some]
        keys = [row["hostname"] for row in some]
        return pages.body(request, query, "conductors", shown, keys)

    @expose.expose("GET", "/conductors/{hostname}", since=_CONDUCTORS_SINCE, raw_query=True)
    def show(self, request: Request, hostname: str) -> Json:
        """Return one conductor."""
        chosen = queries.one(queries.CONDUCTORS, request.query, version=request.version)
        names = chosen or tuple(field.name for field in fields.CONDUCTOR)
        for row in self._conductor_rows(with_drivers="drivers" in names):
            if row["hostname"] == hostname:
                return _conductor_document(request, row, names)
        raise errors.ConductorNotFound(conductor=hostname)

    @expose.expose("GET", "/conductors/{hostname}/counters", since=_CONDUCTORS_SINCE)
    def counters(self, request: Request, hostname: str) -> Json:
        """Return the counters of one conductor since its start: one statement."""
        row = self.service.database.read(lambda conn: conductors.counters(conn, hostname))
        counters = row["counters"] or metrics.BmcCounters().snapshot() | {"since": None}
        return {"hostname": hostname, "updated_at": row["updated_at"], **counters}

    def _conductor_rows(self, *, with_drivers: bool) -> Rows:
        """Return all conductors with ``online`` (liveness) and ``drivers`` (hardware types)."""
        rows = self.service.database.read(conductors.all)
        drivers = self._hardware_types() if with_drivers else {}
        for row in rows:
            row["online"] = self.service.fleet.lives(row)
            row["drivers"] = sorted(drivers.get(row["hostname"], ())) if row["online"] else []
        return rows

    def _hardware_types(self) -> dict[str, set[str]]:
        rows = self.service.database.read(conductors.members)
        return {row["hostname"]: row["hardware_types"] for row in rows}


def _rows_after(rows: Rows, marker: str | None) -> Rows:
    if marker is None:
        return rows
    for place, row in enumerate(rows):
        if row["hostname"] == marker:
            return rows[place + 1 :]
    raise errors.NotFound(what="Marker", ident=marker)


def _conductor_document(request: Request, row: Json, names: tuple[str, ...]) -> Json:
    known = fields.by_name(fields.CONDUCTOR)
    found = {name: row[known[name].stored or name] for name in names if name != "links"}
    found["links"] = refusals.link_pair(request.base, f"conductors/{row['hostname']}")
    return found


# Vendor passthru: requests passed on to vendor methods of drivers without interpretation.

Handler = Callable[..., Any]

_PLAIN = (
    ("Content-Type", "text/plain; charset=utf-8"),
    ("X-Content-Type-Options", "nosniff"),  # the text of a machine is never a page
)


_OF_NODE = ("/nodes/{ident}/vendor_passthru", "/nodes/{ident}/vendor_passthru/{method}")
_OF_DRIVER = ("/drivers/{name}/vendor_passthru", "/drivers/{name}/vendor_passthru/{method}")


def _relay_method(verb: str, paths: tuple[str, ...]) -> Handler:
    """Return the handler of one HTTP method; query or path name the vendor method."""

    # Clients of Ironic send a body with GET and DELETE too, for example to name a subscription.
    # The command line client names the method in the path.
    @expose.expose(verb, paths, body=expose.WHOLE, around=preferred.vendor)
    def relay(self: Any, request: Request, ident: str, method: str) -> preferred.Accepted:
        """Pass a request on to the vendor method and return its response."""
        if not method:
            raise errors.MissingParameter(path="method")
        info = {} if request.json is None else request.json
        if not isinstance(info, dict):
            raise errors.InvalidParameter(path="body", reason="must be a JSON object")
        arguments = {"vendor_method": method, "http_method": verb, "info": info}
        node, outcome = self.call(request, ident, arguments)
        body = _answer_outcome(request, outcome)
        return preferred.Accepted(node, ended=not outcome["async"], body=body)

    return relay


def _answer_outcome(request: Request, outcome: Json) -> Any:
    if outcome["async"]:
        request.answer.status = HTTPStatus.ACCEPTED
        return None
    result = outcome["return"]
    if outcome["attach"] and isinstance(result, str):
        request.answer.headers.extend(_PLAIN)
        return orjson.Fragment(result.encode("utf-8", "replace"))
    # The body null distinguishes a finished method without result from one that is still running.
    return orjson.Fragment(b"null") if result is None else result


class NodeVendor(expose.Controller):
    """/v1/nodes/{node}/vendor_passthru."""

    get = _relay_method("GET", _OF_NODE)
    post = _relay_method("POST", _OF_NODE)
    put = _relay_method("PUT", _OF_NODE)
    patch = _relay_method("PATCH", _OF_NODE)
    delete = _relay_method("DELETE", _OF_NODE)

    @expose.expose("GET", "/nodes/{ident}/vendor_passthru/methods")
    def methods(self, request: Request, ident: str) -> Json:
        """Return the vendor methods of a node with their HTTP methods and arguments."""
        conductor, uuid = bmc_orders.conductor_of(self.service, request, ident)
        return conductor.get_node_vendor_passthru_methods(request.who, node_uuid=uuid)

    def call(self, request: Request, ident: str, arguments: Json) -> tuple[str, Json]:
        """Call the method at the node's conductor; return the node's UUID and the outcome."""
        conductor, node = bmc_orders.conductor_of(self.service, request, ident)
        return node, conductor.vendor_passthru(request.who, node_uuid=node, **arguments)


class DriverVendor(expose.Controller):
    """/v1/drivers/{name}/vendor_passthru, for methods that do not concern a single node."""

    get = _relay_method("GET", _OF_DRIVER)
    post = _relay_method("POST", _OF_DRIVER)
    put = _relay_method("PUT", _OF_DRIVER)
    patch = _relay_method("PATCH", _OF_DRIVER)
    delete = _relay_method("DELETE", _OF_DRIVER)

    @expose.expose("GET", "/drivers/{name}/vendor_passthru/methods")
    def methods(self, request: Request, name: str) -> Json:
        """Return the methods of the hardware type's default vendor interface."""
        conductor = conductor_with(self.service, name)
        return conductor.get_driver_vendor_passthru_methods(request.who, driver=name)

    def call(self, request: Request, ident: str, arguments: Json) -> tuple[str, Json]:
        """Call the method at any conductor with this hardware type; there is no node."""
        conductor = conductor_with(self.service, ident)
        return "", conductor.driver_vendor_passthru(request.who, driver=ident, **arguments)
