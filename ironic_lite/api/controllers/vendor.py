"""Vendor passthru: requests passed on to vendor methods of drivers without interpretation."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import orjson

from ironic_lite import errors
from ironic_lite.api.controllers import drivers
from ironic_lite.api.resources import node_lookup, preferred
from ironic_lite.api.validation import types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json

Handler = Callable[..., Any]

_ROUTED = ("uuid", "driver", "conductor_group")
_PLAIN = (
    ("Content-Type", "text/plain; charset=utf-8"),
    ("X-Content-Type-Options", "nosniff"),  # the text of a machine is never a page
)


def _relay_method(verb: str, path: str) -> Handler:
    """Return the handler of one HTTP method; query or path name the vendor method."""

    first = node_lookup.present if path.startswith("/nodes/") else drivers.present

    # Clients of Ironic send a body with GET and DELETE too, for example to name a subscription.
    @expose.expose(
        verb,
        path,
        types.word,
        types.word,
        body=expose.WHOLE,
        first=first,
        around=preferred.vendor,
    )
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

    get = _relay_method("GET", "/nodes/{ident}/vendor_passthru")
    post = _relay_method("POST", "/nodes/{ident}/vendor_passthru")
    put = _relay_method("PUT", "/nodes/{ident}/vendor_passthru")
    patch = _relay_method("PATCH", "/nodes/{ident}/vendor_passthru")
    delete = _relay_method("DELETE", "/nodes/{ident}/vendor_passthru")
    # The command line client names the method in the path.
    get_named = _relay_method("GET", "/nodes/{ident}/vendor_passthru/{method}")
    post_named = _relay_method("POST", "/nodes/{ident}/vendor_passthru/{method}")
    put_named = _relay_method("PUT", "/nodes/{ident}/vendor_passthru/{method}")
    patch_named = _relay_method("PATCH", "/nodes/{ident}/vendor_passthru/{method}")
    delete_named = _relay_method("DELETE", "/nodes/{ident}/vendor_passthru/{method}")

    @expose.expose("GET", "/nodes/{ident}/vendor_passthru/methods", types.word)
    def methods(self, request: Request, ident: str) -> Json:
        """Return the vendor methods of a node with their HTTP methods and arguments."""
        row = node_lookup.fetch(self.service, request, ident, _ROUTED)
        conductor = self.service.conductor_of(row)
        return conductor.get_node_vendor_passthru_methods(request.who, node_uuid=row["uuid"])

    def call(self, request: Request, ident: str, arguments: Json) -> tuple[str, Json]:
        """Call the method at the node's conductor; return the node's UUID and the outcome."""
        row = node_lookup.fetch(self.service, request, ident, _ROUTED)
        conductor = self.service.conductor_of(row)
        node = row["uuid"]
        return node, conductor.vendor_passthru(request.who, node_uuid=node, **arguments)


class DriverVendor(expose.Controller):
    """/v1/drivers/{name}/vendor_passthru, for methods that do not concern a single node."""

    get = _relay_method("GET", "/drivers/{name}/vendor_passthru")
    post = _relay_method("POST", "/drivers/{name}/vendor_passthru")
    put = _relay_method("PUT", "/drivers/{name}/vendor_passthru")
    patch = _relay_method("PATCH", "/drivers/{name}/vendor_passthru")
    delete = _relay_method("DELETE", "/drivers/{name}/vendor_passthru")
    get_named = _relay_method("GET", "/drivers/{name}/vendor_passthru/{method}")
    post_named = _relay_method("POST", "/drivers/{name}/vendor_passthru/{method}")
    put_named = _relay_method("PUT", "/drivers/{name}/vendor_passthru/{method}")
    patch_named = _relay_method("PATCH", "/drivers/{name}/vendor_passthru/{method}")
    delete_named = _relay_method("DELETE", "/drivers/{name}/vendor_passthru/{method}")

    @expose.expose("GET", "/drivers/{name}/vendor_passthru/methods", types.word)
    def methods(self, request: Request, name: str) -> Json:
        """Return the methods of the hardware type's default vendor interface."""
        conductor = drivers.conductor(self.service, name)
        return conductor.get_driver_vendor_passthru_methods(request.who, driver=name)

    def call(self, request: Request, ident: str, arguments: Json) -> tuple[str, Json]:
        """Call the method at any conductor with this hardware type; there is no node."""
        conductor = drivers.conductor(self.service, ident)
        return "", conductor.driver_vendor_passthru(request.who, driver=ident, **arguments)
