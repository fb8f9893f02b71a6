"""The two documents that every client reads first: / and /v1."""

from __future__ import annotations

from ironic_lite.api.wire import expose, links
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
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


def _version_document(base: str) -> Json:
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
    def root(self, request: Request) -> Json:
        """Name the service and its only major version."""
        version = _version_document(request.base)
        return {
            "name": "OpenStack Ironic API",
            "description": "A bare-metal provisioning service that speaks Ironic's API.",
            "default_version": version,
            "versions": [version],
        }

    @expose.expose("HEAD", "")
    def root_alive(self, request: Request) -> Json:
        """Respond to monitors, which check only the status."""
        found: Json = self.root(request)
        return found

    @expose.expose("HEAD", "/")
    def v1_alive(self, request: Request) -> Json:
        """Respond to monitors, which check only the status."""
        found: Json = self.v1(request)
        return found

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
                name: links.pair(base, f"{name}/")
                for name, since in _COLLECTIONS.items()
                if since <= request.version
            },
        }
