"""Holds of a node in requests: those that refuse operations, and the body of a new one.

Whether a node is held is read with the node (the column ``held`` of ``db.queries.nodes.get``), so
requests for a node without holds cost no further statement. The conductor checks again under the
node's lock.
"""

from __future__ import annotations

import datetime
from typing import Any

from ironic_lite import errors
from ironic_lite.api.service import Service
from ironic_lite.api.validation import rules, shapes
from ironic_lite.api.wire.request import Request
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.queries import holds as rows
from ironic_lite.domain import holds
from ironic_lite.domain.holds import Hold

_LONGEST = 255


READ = "baremetal:node:hold:get"
"""The rule for reading the holds of a caller's own project, and their reasons."""


def reads_reason(request: Request, row: JsonView) -> bool:
    """Return whether the caller may read the reason of a hold; ``row`` has `holds.PROJECTS`."""
    mine = request.access.project is not None and row["project"] == request.access.project
    return mine or request.access.reads(READ, row)


def reader(request: Request) -> str | None:
    """Return the project to whose holds the reasons are bound that the caller reads; None: all."""
    every = request.access.own_sides(READ) is None
    return None if every else request.access.project or ""


def of(service: Service, request: Request, node: JsonView) -> list[Hold]:
    """Return the holds in force as the caller reads them: no statement if the node has none.

    :param node: with uuid and ``held``.
    """
    if not node["held"]:
        return []
    project = reader(request)
    return service.database.read(lambda conn: rows.in_force(conn, node["uuid"], project))


def refuse(service: Service, request: Request, node: JsonView, operation: str, said: str) -> None:
    """Refuse an operation on a node; ``node`` as `of`, the others as ``domain.holds.refusal``.

    :raises errors.NodeHeld: a hold blocks it.
    """
    why = holds.refusal(node["uuid"], of(service, request, node), operation, said)
    if why is not None:
        raise why


def read_body(body: Any) -> Json:
    """Return the columns of a new hold that its request contains.

    :raises errors.InvalidParameter, errors.MissingParameter: with the path of the value.
    """
    shapes.check("hold", body, "", "Schema error for hold")
    reason = rules.text(body["reason"].strip(), "reason", least=1, length=_LONGEST)
    until = body.get("until")
    return {
        "kind": body["kind"],
        "reason": reason,
        "blocks": ",".join(holds.blocks_of(body["kind"], body.get("blocks"))),
        "until": None if until is None else _read_end(until),
    }


def _read_end(text: str) -> datetime.datetime:
    """Return the end of a hold, naive UTC; a time without an offset is UTC."""
    try:
        found = datetime.datetime.fromisoformat(text)
        at = (found.astimezone(datetime.UTC) if found.tzinfo else found).replace(tzinfo=None)
    except (ValueError, OverflowError):
        reason = f"{text!r} is not a time of ISO 8601, such as 2030-01-31T18:00:00Z"
        raise errors.InvalidParameter(path="until", reason=reason) from None
    if at <= clock.now():
        reason = f"{text!r} is not in the future; leave it out for a hold without an end"
        raise errors.InvalidParameter(path="until", reason=reason)
    return at
