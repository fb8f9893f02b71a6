"""The OpenAPI document of the API."""

from __future__ import annotations

import functools
from typing import Any

import orjson

from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request


class Description(expose.Controller):
    """/v1/openapi.json at every version; old versions strip ``.json`` from paths."""

    @expose.expose("GET", "/openapi.json")
    def show(self, request: Request) -> Any:
        """Describe this API as OpenAPI 3.1."""
        return orjson.Fragment(_document_bytes())

    @expose.expose("GET", "/openapi")
    def show_unnamed(self, request: Request) -> Any:
        """Describe this API as OpenAPI 3.1."""
        return orjson.Fragment(_document_bytes())


@functools.cache
def _document_bytes() -> bytes:
    """Return the document, made at the first request because it is big and rarely requested."""
    from ironic_lite.api import controllers, openapi  # noqa: PLC0415

    rows = [row for each in controllers.ALL for row in each.exposed()]
    return orjson.dumps(openapi.document(rows))
