"""Event rows for changes by requests, to be added in the transaction of the change."""

from __future__ import annotations

from ironic_lite.core import clock
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json


def of(who: Context, node_uuid: str | None, kind: str, data: Json | None = None) -> Json:
    """Return the row of an event for ``db.queries.events.add``.

    :param node_uuid: None for an event without a node: it is sent to listeners and not stored.
    :param kind: the kind of event, such as ``port_created``; at most 32 characters.
    :param data: facts about the event, without secrets.
    """
    return {
        "at": clock.now(),
        "node_uuid": node_uuid,
        "kind": kind,
        "requester": who.user,
        "request_id": who.request_id,
        "data": data,
    }
