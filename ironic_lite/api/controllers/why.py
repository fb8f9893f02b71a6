"""The explanation of a node's state: GET /v1/nodes/{node}/why.

Ironic does not have it: every version of this API does.
"""

from __future__ import annotations

from ironic_lite.api.resources import bmc_orders, explanations
from ironic_lite.api.service import Service
from ironic_lite.api.validation import types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json


class Why(expose.Controller):
    """The explanation of a node's state."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self._orders = bmc_orders.Orders(service)

    @expose.expose("GET", "/nodes/{ident}/why", types.word)
    def show(self, request: Request, ident: str) -> Json:
        """Return what the node does or waits for, why it failed, and what it takes."""
        return explanations.show(self.service, request, ident, self._orders)
