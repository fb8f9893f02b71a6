"""Statistics of ended steps and counts of nodes, which Ironic does not have."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.api.resources import node_counts, pages, query_values, step_statistics
from ironic_lite.api.service import Service
from ironic_lite.api.validation import types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json


def _form_of_counts(_self: Statistics, request: Request) -> None:
    node_counts.read(request.query, version=request.version)


class Statistics(expose.Controller):
    """/v1/stats."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self._statistics = step_statistics.StepStatistics(service.database)
        self._node_counts = node_counts.NodeCounts(service.database)

    @expose.expose("GET", "/stats/steps", types.word, types.word, types.word, types.word)
    def steps(
        self,
        _request: Request,
        step: str | None = None,
        driver: str | None = None,
        resource_class: str | None = None,
        since: str | None = None,
    ) -> Json:
        """Return durations and failures of ended steps, by step, driver and resource class."""
        interface, name = (None, None) if step is None else _read_title(step)
        start = None if since is None else query_values.moment(since, "since")
        return self._statistics.document(
            start, interface=interface, step=name, driver=driver, resource_class=resource_class
        )

    @expose.expose("GET", "/stats/nodes", raw_query=True, form=_form_of_counts)
    def nodes(self, request: Request) -> Json:
        """Return the numbers of nodes by up to three of their fields."""
        by, where = node_counts.read(request.query, version=request.version)
        return self._node_counts.document(by, pages.narrowed(request, where, "node"))


def _read_title(text: str) -> tuple[str, str]:
    interface, dot, name = text.partition(".")
    if not (interface and dot and name):
        reason = f"{text[:64]!r} is not of the form interface.step, such as deploy.erase_devices"
        raise errors.InvalidParameter(path="step", reason=reason)
    return interface, name
