"""Wait until a node is in a state: `api.watching.waits` on the rows of the database."""

from __future__ import annotations

from collections.abc import Sequence

from ironic_lite.api.policy.access import OWNERS
from ironic_lite.api.resources import node_lookup
from ironic_lite.api.service import Service
from ironic_lite.api.watching import waits
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json, Row
from ironic_lite.db.queries import runs
from ironic_lite.records import Run


def fetch(
    service: Service,
    request: Request,
    ident: str,
    columns: Sequence[str],
    wait: waits.Wait | None,
    *,
    with_traits: bool = False,
) -> Json:
    """Return a node's columns, read in a state that the request waits for.

    :param wait: None to read the node as it is, by one statement.
    :param with_traits: adds the key ``traits``, as in `node_lookup.fetch`.
    :raises errors.EndedOtherwise, errors.NotYet: as `waits.check_node`.
    :raises errors.NodeNotFound: as `node_lookup.fetch`.
    """
    if wait is None:
        return node_lookup.fetch(service, request, ident, columns, with_traits=with_traits)
    redact = request.access.redactor()
    checked = (*waits.NODE_COLUMNS, *OWNERS)
    needed = tuple(dict.fromkeys((*columns, *checked)))
    found: Json = {}

    def read() -> Row:
        nonlocal found
        found = node_lookup.fetch(service, request, ident, needed, with_traits=with_traits)
        shown = {name: found[name] for name in checked}
        if redact is not None:
            redact(shown)
        return shown

    def latest(uuid: str) -> Run | None:
        return service.database.read(lambda conn: runs.latest(conn, uuid))

    waits.check_node(request, wait, read, latest)
    return {name: value for name, value in found.items() if name in columns or name == "traits"}
