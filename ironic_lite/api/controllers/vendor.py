"""Vendor passthru: requests handed on, unread, to what only one vendor's driver has."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Any

import orjson

from ironic_lite import errors
from ironic_lite.api.controllers import drivers
from ironic_lite.api.resources import idents
from ironic_lite.api.validation import types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.exchange import Request

Json = dict[str, Any]
Handler = Callable[..., Any]

_ROUTED = ("uuid", "driver", "conductor_group")
_PLAIN = ("Content-Type", "text/plain; charset=utf-8")


def _relay(verb: str, path: str) -> Handler:
    """Return the handler of one HTTP method; the vendor's method is the query's or the path's."""

    # Clients of Ironic send one with GET and DELETE, too: which subscription, for example.
    @expose.expose(verb, path, types.word, types.word, body=expose.WHOLE)
    def relay(self: Any, request: Request, ident: str, method: str) -> Any:
        """Hand a request on, and answer as the vendor's method does."""
        if not method:
            raise errors.MissingParameter(path="method")
        info = {} if request.json is None else request.json
        if not isinstance(info, dict):
            raise errors.InvalidParameter(path="body", reason="must be a JSON object")
        told = {"vendor_method": method, "http_method": verb, "info": info}
        return _answer(request, self.call(request, ident, told))

    return relay


def _answer(request: Request, told: Json) -> Any:
    if told["async"]:
        request.answer.status = HTTPStatus.ACCEPTED
        return None
    result = told["return"]
    if told["attach"] and isinstance(result, str):
        request.answer.headers.append(_PLAIN)
        return orjson.Fragment(result.encode("utf-8", "replace"))
    # A body of its own tells a method that returned nothing from one that is still at work.
    return orjson.Fragment(b"null") if result is None else result


class NodeVendor(expose.Controller):
    """/v1/nodes/{node}/vendor_passthru."""

    get = _relay("GET", "/nodes/{ident}/vendor_passthru")
    post = _relay("POST", "/nodes/{ident}/vendor_passthru")
    put = _relay("PUT", "/nodes/{ident}/vendor_passthru")
    patch = _relay("PATCH", "/nodes/{ident}/vendor_passthru")
    delete = _relay("DELETE", "/nodes/{ident}/vendor_passthru")
    # The command line client names the method in the path.
    get_named = _relay("GET", "/nodes/{ident}/vendor_passthru/{method}")
    post_named = _relay("POST", "/nodes/{ident}/vendor_passthru/{method}")
    put_named = _relay("PUT", "/nodes/{ident}/vendor_passthru/{method}")
    patch_named = _relay("PATCH", "/nodes/{ident}/vendor_passthru/{method}")
    delete_named = _relay("DELETE", "/nodes/{ident}/vendor_passthru/{method}")

    @expose.expose("GET", "/nodes/{ident}/vendor_passthru/methods", types.word)
    def methods(self, request: Request, ident: str) -> Json:
        """Return the vendor's methods and how each is called."""
        row = idents.fetch(self.service, request, ident, _ROUTED)
        conductor = self.service.conductor_of(row)
        return conductor.get_node_vendor_passthru_methods(request.who, node_uuid=row["uuid"])

    def call(self, request: Request, ident: str, told: Json) -> Json:
        """Ask the node's conductor."""
        row = idents.fetch(self.service, request, ident, _ROUTED)
        conductor = self.service.conductor_of(row)
        return conductor.vendor_passthru(request.who, node_uuid=row["uuid"], **told)


class DriverVendor(expose.Controller):
    """/v1/drivers/{name}/vendor_passthru, for what is about no single node."""

    get = _relay("GET", "/drivers/{name}/vendor_passthru")
    post = _relay("POST", "/drivers/{name}/vendor_passthru")
    put = _relay("PUT", "/drivers/{name}/vendor_passthru")
    patch = _relay("PATCH", "/drivers/{name}/vendor_passthru")
    delete = _relay("DELETE", "/drivers/{name}/vendor_passthru")
    get_named = _relay("GET", "/drivers/{name}/vendor_passthru/{method}")
    post_named = _relay("POST", "/drivers/{name}/vendor_passthru/{method}")
    put_named = _relay("PUT", "/drivers/{name}/vendor_passthru/{method}")
    patch_named = _relay("PATCH", "/drivers/{name}/vendor_passthru/{method}")
    delete_named = _relay("DELETE", "/drivers/{name}/vendor_passthru/{method}")

    @expose.expose("GET", "/drivers/{name}/vendor_passthru/methods", types.word)
    def methods(self, request: Request, name: str) -> Json:
        """Return the methods of the hardware type's default vendor interface."""
        conductor = drivers.conductor(self.service, name)
        return conductor.get_driver_vendor_passthru_methods(request.who, driver=name)

    def call(self, request: Request, ident: str, told: Json) -> Json:
        """Ask any conductor that drives this hardware type."""
        conductor = drivers.conductor(self.service, ident)
        return conductor.driver_vendor_passthru(request.who, driver=ident, **told)
