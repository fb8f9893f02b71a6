"""Hardware types of online conductors, as registered in the database."""

from __future__ import annotations

import dataclasses
from http import HTTPStatus

from ironic_lite import errors
from ironic_lite.api.resources import queries
from ironic_lite.api.service import Service
from ironic_lite.api.validation import rules, types
from ironic_lite.api.wire import expose, links
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import conductors
from ironic_lite.domain import fields
from ironic_lite.rpc import interface

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


def _form_of_list(_self: Drivers, request: Request) -> None:
    queries.refuse_unknown(request.query, ("type", "detail", "fields"))
    if "detail" in request.query:
        rules.boolean(request.query["detail"], "detail")
    _chosen_fields(request)


def _form_of_one(_self: Drivers, request: Request) -> None:
    queries.refuse_unknown(request.query, ("fields",))
    _chosen_fields(request)


class Drivers(expose.Controller):
    """The collection /v1/drivers, its members, and their properties."""

    @expose.expose("GET", "/drivers", raw_query=True, form=_form_of_list)
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

    @expose.expose("GET", "/drivers/{name}", types.word, raw_query=True, form=_form_of_one)
    def show(self, request: Request, name: str) -> Json:
        """Return one hardware type with its interfaces."""
        queries.refuse_unknown(request.query, ("fields",))
        chosen = _chosen_fields(request)
        return _chosen_only(
            _driver_document(request, _find_driver(self.service, name), detail=True), chosen
        )

    @expose.expose("GET", "/drivers/{name}/properties", types.word)
    def properties(self, request: Request, name: str) -> dict[str, str]:
        """Return the keys of driver_info: key -> description, from a conductor."""
        return conductor(self.service, name).get_driver_properties(request.who, driver=name)

    @expose.expose(
        "GET",
        "/drivers/{name}/raid/logical_disk_properties",
        types.word,
        since=_RAID_SINCE,
        below=HTTPStatus.NOT_ACCEPTABLE,
    )
    def logical_disk_properties(self, request: Request, name: str) -> dict[str, str]:
        """Return the keys of a logical disk in target_raid_config: key -> description."""
        asked = conductor(self.service, name)
        try:
            return asked.get_raid_logical_disk_properties(request.who, driver=name)
        except errors.UnsupportedDriverExtension as why:
            raise errors.NotFound(why.message) from None


def conductor(service: Service, name: str) -> interface.Conductor:
    """Return an online conductor with the hardware type ``name``.

    :raises errors.DriverNotFound: no online conductor has the hardware type.
    """
    return service.reach(lambda: service.fleet.trusted(_find_driver(service, name).hosts))


def present(service: Service, _request: Request, name: str) -> None:
    """Refuse a hardware type that no online conductor has.

    :raises errors.DriverNotFound: as `conductor`.
    """
    _find_driver(service, name)


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
        "links": links.pair(base, f"drivers/{driver.name}"),
    }
    if version >= _PROPERTIES_SINCE:
        found["properties"] = links.pair(base, f"drivers/{driver.name}/properties")
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
