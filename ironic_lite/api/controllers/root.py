"""Documents about the service and its caller: /, /v1, OpenAPI, whoami and shards."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple, TypedDict

import orjson

from ironic_lite.api import policy
from ironic_lite.api.http import expose, refusals
from ironic_lite.api.http.request import Request
from ironic_lite.api.policy.access import Access
from ironic_lite.api.resources.recent import Recent
from ironic_lite.api.service import Service
from ironic_lite.core import config
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import nodes
from ironic_lite.domain import versions

_DOCUMENTATION = "https://docs.openstack.org/api-ref/baremetal/"

# name -> the first minor version in which /v1 links to the collection
_COLLECTIONS = {
    "chassis": 1,
    "nodes": 1,
    "ports": 1,
    "drivers": 1,
    "heartbeat": 22,
    "lookup": 22,
    "portgroups": 23,
    "volume": 32,
    "conductors": 49,
    "allocations": 52,
    "events": 54,
    "deploy_templates": 55,
    "shards": 82,
    "continue_inspection": 84,
    "runbooks": 92,
    "inspection_rules": 96,
}


class ApiVersion(TypedDict):
    """A major version of the API."""

    id: str
    links: refusals.LinkList
    status: str
    min_version: str
    version: str


class ApiVersions(TypedDict):
    """The service and its major versions."""

    name: str
    description: str
    default_version: ApiVersion
    versions: list[ApiVersion]


def _version_document(base: str) -> ApiVersion:
    return {
        "id": "v1",
        "links": [{"href": f"{base}/v1/", "rel": "self"}],
        "status": "CURRENT",
        "min_version": versions.MIN_VERSION,
        "version": versions.MAX_VERSION,
    }


class Root(expose.Controller):
    """The documents / and /v1."""

    @expose.expose("GET", "")
    def root(self, request: Request) -> ApiVersions:
        """Name the service and its only major version."""
        version = _version_document(request.base)
        return {
            "name": "OpenStack Ironic API",
            "description": "A bare-metal provisioning service that speaks Ironic's API.",
            "default_version": version,
            "versions": [version],
        }

    @expose.expose("HEAD", "")
    def root_alive(self, request: Request) -> Any:
        """Respond to monitors, which check only the status."""
        return self.root(request)

    @expose.expose("HEAD", "/")
    def v1_alive(self, request: Request) -> Any:
        """Respond to monitors, which check only the status."""
        return self.v1(request)

    @expose.expose("GET", "/")
    def v1(self, request: Request) -> Json:
        """List the collections of the request's version."""
        base = request.base
        described = {"href": _DOCUMENTATION, "rel": "describedby", "type": "text/html"}
        return {
            "id": "v1",
            "links": [{"href": f"{base}/v1/", "rel": "self"}, described],
            "media_types": {
                "base": "application/json",
                "type": "application/vnd.openstack.ironic.v1+json",
            },
            "version": _version_document(base),
            **{
                name: refusals.link_pair(base, f"{name}/")
                for name, since in _COLLECTIONS.items()
                if since <= request.version
            },
        }


class Description(expose.Controller):
    """/v1/openapi.json at every version; old versions strip ``.json`` from paths."""

    @functools.cached_property
    def _document_bytes(self) -> bytes:
        """The document, made at the first request because it is big and rarely requested."""
        from ironic_lite.api import controllers, openapi  # noqa: PLC0415

        extensions = self.service.extensions
        rows = [row for each in controllers.of(extensions) for row in each.exposed()]
        return orjson.dumps(openapi.document(rows, *(each.answers() for each in extensions)))

    @expose.expose("GET", ("/openapi.json", "/openapi"))
    def show(self, request: Request) -> Any:
        """Describe this API as OpenAPI 3.1."""
        return orjson.Fragment(self._document_bytes)


# Rights of a caller, by the names of the policy's rules.
#
# All rules are asked once a minute for callers with the same rights, because asking all of them
# takes up to a tenth of a second.

KEPT_SECONDS = 60.0
_MOST = 256
"""Callers whose rights are kept."""


class Rights(NamedTuple):
    """The names of the rules that a caller passes.

    ``of_any`` hold for any object. ``of_own`` hold for objects that the caller's project owns;
    they are none without a project.
    """

    of_any: tuple[str, ...]
    of_own: tuple[str, ...]


class OwnRights:
    """Asks and keeps the rights of callers; one object serves all threads of a process.

    :param now: a clock in seconds that cannot be set.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self._recent: Recent[Rights] = Recent(KEPT_SECONDS, _MOST, now)

    def of(self, access: Access) -> Rights:
        """Return the rights of a caller, which may be a minute old."""
        return self._recent.of(access.key, lambda: _ask(access))


def _ask(access: Access) -> Rights:
    own = {f"{kind}.owner": access.project for kind in _KINDS} if access.project else None
    names = sorted(name for name in policy.BY_NAME if name.startswith("baremetal:"))
    return Rights(
        tuple(name for name in names if access.allows(name)),
        tuple(name for name in names if access.allows(name, own)) if own else (),
    )


_KINDS = (policy.NODE, policy.ALLOCATION, policy.RUNBOOK, policy.BATCH)


# The caller and the caller's rights, which Ironic does not tell.


class CallerDocument(TypedDict):
    """The caller, the caller's rights, and the service's version."""

    auth: Annotated[str, ("noauth", "http_basic", "keystone")]
    user: str | None
    name: str | None
    project: str | None
    roles: list[str]
    system: bool
    expires_at: Annotated[str | None, "date-time"]
    rules: list[str]
    own_rules: list[str]
    release: str
    version: str
    window: str | None


class Whoami(expose.Controller):
    """/v1/whoami."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self._rights = OwnRights()

    @expose.expose("GET", "/whoami")
    def show(self, request: Request) -> CallerDocument:
        """Return the caller, the rules that the caller passes, and the service's version."""
        access, api = request.access, self.service.conf.api
        rights = self._rights.of(access)
        addresses = (each.window(self.service.conf) for each in self.service.extensions)
        return {
            "auth": api.auth_strategy,
            "user": request.who.user,
            "name": access.name or request.who.user,
            "project": access.project,
            "roles": list(access.roles),
            "system": access.system or not access.limited,
            "expires_at": access.expires_at,
            "rules": list(rights.of_any),
            "own_rules": list(rights.of_own),
            "release": config.version(),
            "version": versions.MAX_VERSION,
            "window": next(filter(None, addresses), None),
        }


# Shards: parts of the nodes, which clients divide among themselves.

_SHARDS_SINCE = 82


class Shard(TypedDict):
    """A part of the nodes."""

    name: str
    count: int


class ShardList(TypedDict):
    """All shards."""

    shards: list[Shard]


class Shards(expose.Controller):
    """The number of nodes in each shard."""

    @expose.expose("GET", "/shards", since=_SHARDS_SINCE)
    def index(self, _request: Request) -> ShardList:
        """List the shards, the largest first; nodes without a shard count under ``None``."""
        found = self.service.database.read(nodes.count_by_shard)
        shards: list[Shard] = [
            {"name": str(shard["name"]), "count": shard["count"]} for shard in found
        ]
        return {"shards": shards}
