"""The stop of a run: hold or abort it when a step has ended.

Ironic does not have stops: every version of this API has them.
"""

from __future__ import annotations

import logging
from http import HTTPStatus

from ironic_lite import errors
from ironic_lite.api.resources import changes, node_lookup, run_stops
from ironic_lite.api.validation import rules, types
from ironic_lite.api.wire import expose
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.domain.run_stops import How, Stop

LOG = logging.getLogger(__name__)

_PATH = "/nodes/{ident}/runs/{run}/stop"
_NODE = ("uuid", "driver", "conductor_group")


class RunStops(expose.Controller):
    """/v1/nodes/{node}/runs/{run}/stop."""

    @expose.expose(
        "PUT",
        _PATH,
        types.word,
        types.word,
        status=HTTPStatus.ACCEPTED,
        body=expose.WHOLE,
        first=node_lookup.present,
    )
    def ask(self, request: Request, ident: str, run: str) -> Json:
        """Hold or abort a run when the step under way has ended; three statements and an event.

        ``current`` is the active run.
        """
        given = run_stops.read_body(request.json)
        node = node_lookup.fetch(self.service, request, ident, _NODE)
        known = _read_run(run)
        cleans = self.service.conf.conductor.automated_clean_enable

        def write(conn: Connection) -> run_stops.Asked:
            return run_stops.ask(conn, node["uuid"], known, given, request.who, cleans=cleans)

        asked = changes.write(self.service, request, write)
        stop = asked.stop
        if asked.waits and stop.how is How.ABORT and stop.after is None:
            self._cast(request, node, stop)
        return stop.document

    @expose.expose("DELETE", _PATH, types.word, types.word, status=HTTPStatus.NO_CONTENT)
    def take_back(self, request: Request, ident: str, run: str) -> None:
        """Take a stop back that has not happened."""
        node = node_lookup.fetch(self.service, request, ident, _NODE)
        known = _read_run(run)

        def write(conn: Connection) -> None:
            run_stops.take_back(conn, node["uuid"], known, request.who)

        changes.write(self.service, request, write)

    def _cast(self, request: Request, node: JsonView, stop: Stop) -> None:
        """Ask the conductor to end the wait; without it, the run is aborted when the wait ends."""
        try:
            conductor = self.service.conductor_of(node)
            conductor.stop_run(request.who, node_uuid=node["uuid"], run_uuid=stop.run)
        except errors.Error as why:
            LOG.warning("Node %s: its conductor was not asked to stop now: %s", node["uuid"], why)


def _read_run(run: str) -> str | None:
    """Return the UUID of a run, None for ``current``."""
    if run == "current":
        return None
    if not rules.uuid_like(run):
        raise errors.NotFound(what="Run", ident=run)
    known: str = rules.uuid(run, "run")
    return known
