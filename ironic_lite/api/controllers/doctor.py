"""The doctor: checks of the whole service, and of one node. Ironic does not have it."""

from __future__ import annotations

from ironic_lite.api.resources import examinations, node_lookup
from ironic_lite.api.service import Service
from ironic_lite.api.validation import types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json

_NODE = ("uuid", "name", "driver", "conductor_group")


class Doctor(expose.Controller):
    """/v1/doctor."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self._examinations = examinations.Examinations(service)

    @expose.expose("GET", "/doctor", types.word)
    def show(self, request: Request, node: str | None = None) -> Json:
        """Return the findings about the service, and about one node if it is named.

        The status is 200, whatever the findings are.
        """
        found = None
        if node is not None:
            found = node_lookup.fetch(self.service, request, node, _NODE)
        return self._examinations.examine(request.who, found)
