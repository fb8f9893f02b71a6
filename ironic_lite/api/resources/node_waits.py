"""Wait until a node is in a state: `api.watching.waits` on the rows of the database."""

from __future__ import annotations

from ironic_lite.api.policy.access import OWNERS
from ironic_lite.api.resources import node_lookup
from ironic_lite.api.service import Service
from ironic_lite.api.watching import waits
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Row
from ironic_lite.db.queries import runs
from ironic_lite.records import Run


def reach(service: Service, request: Request, ident: str, wait: waits.Wait) -> None:
    """Return if the node is in a state that the request waits for.

    :raises errors.EndedOtherwise, errors.NotYet: as `waits.check_node`.
    :raises errors.NodeNotFound: as `node_lookup.fetch`.
    """
    redact = request.access.redactor()

    def read() -> Row:
        row = node_lookup.fetch(service, request, ident, (*waits.NODE_COLUMNS, *OWNERS))
        if redact is not None:
            redact(row)
        return row

    def latest(uuid: str) -> Run | None:
        return service.database.read(lambda conn: runs.latest(conn, uuid))

    waits.check_node(request, wait, read, latest)
