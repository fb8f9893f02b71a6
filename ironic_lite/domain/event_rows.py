"""Event rows for changes by requests, to be added in the transaction of the change."""

from __future__ import annotations

import uuid

from ironic_lite.core import clock
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json, JsonView


def of(who: Context, node_uuid: str, kind: str, data: Json | None = None) -> Json:
    """Return the row of an event of a node for ``db.queries.events.add``.

    :param kind: the kind of event, such as ``port_created``; at most 32 characters.
    :param data: facts about the event, without secrets.
    """
    return {
        "at": clock.now(),
        "node_uuid": node_uuid,
        "kind": kind,
        **who.recorded(),
        "data": data,
    }


def of_resource(who: Context, kind: str, row: JsonView, data: JsonView | None = None) -> Json:
    """Return the row of an event of a resource that belongs to no node.

    Its owner reads the event, and the system scope.

    :param kind: the word of the resource and what has become of it, such as ``runbook_updated``.
    :param row: uuid; name and owner if it has them.
    :param data: further facts about the event, without secrets.
    """
    word = kind.rpartition("_")[0]
    about = {word: row["uuid"], **({"name": row["name"]} if "name" in row else {})}
    # In place of a node's UUID. Clients choose the UUIDs of resources, also those of nodes.
    key = str(uuid.uuid5(uuid.UUID(row["uuid"]), word))
    return {**of(who, key, kind, {**about, **(data or {})}), "owner": row.get("owner")}
