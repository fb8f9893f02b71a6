"""Wait until a node is in a state: `api.watching.waits` on the rows of the database."""

from __future__ import annotations

from ironic_lite.api.policy.access import OWNERS
from ironic_lite.api.resources import node_lookup
from ironic_lite.api.service import Service
from ironic_lite.api.watching import waits
from ironic_lite.api.wire.request import Request
from ironic_lite.db.queries import runs


def reach(service: Service, request: Request, ident: str, wait: waits.Wait) -> None:
    """Return if the node is in a state that the request waits for.

    :raises errors.EndedOtherwise, errors.NotYet: as `waits.check_node`.
    :raises errors.NodeNotFound: as `node_lookup.fetch`.
    """
    columns = (*waits.NODE_COLUMNS, *OWNERS)
    row = node_lookup.fetch(service, request, ident, columns)
    redact = request.access.redactor()
    if redact is not None:
        redact(row)
    latest = lambda: service.database.read(lambda conn: runs.latest(conn, row["uuid"]))  # noqa: E731
    waits.check_node(request, wait, row, latest)
