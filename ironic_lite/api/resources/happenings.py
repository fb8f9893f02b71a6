"""Word what a request changed as an event row, to be added in the transaction of the change."""

from __future__ import annotations

from typing import Any

from ironic_lite import clock
from ironic_lite.context import Context


def of(
    who: Context, node_uuid: str | None, kind: str, data: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the row of an event for ``db.events.add``.

    :param node_uuid: None for what happened to no node: told to listeners, but kept nowhere.
    :param kind: what happened, such as ``port_created``; at most 32 characters.
    :param data: facts of it, nothing secret.
    """
    return {
        "at": clock.now(),
        "node_uuid": node_uuid,
        "kind": kind,
        "requester": who.user,
        "request_id": who.request_id,
        "data": data,
    }
