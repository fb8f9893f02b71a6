"""The plan of a batch: the nodes that would refuse its request as they are now."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence

from ironic_lite import errors
from ironic_lite.api.resources import batch_requests, bmc_orders, node_holds, verb_checks
from ironic_lite.api.service import Service
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import holds as rows
from ironic_lite.db.queries import nodes
from ironic_lite.domain import holds, verbs
from ironic_lite.domain.holds import Hold

_COLUMNS = tuple(
    name
    for name in dict.fromkeys(
        ("uuid", "name", "provision_state", "disable_power_off", *verb_checks.COLUMNS)
    )
    if name != "held"  # the holds are read
)
_PART = 500
_SHOWN = 20


def refusals(service: Service, request: Request, wanted: batch_requests.Wanted) -> Json:
    """Return the number of nodes that would refuse the request, and the first of them.

    A lock is no refusal, because the batch waits for its end. The conductors check more.

    :return: ``count``, and ``first`` with uuid, name, code and text of at most 20 nodes.
    """
    found: list[Json] = []
    count = 0
    for first in range(0, len(wanted.nodes), _PART):
        uuids = [node["uuid"] for node in wanted.nodes[first : first + _PART]]
        read = functools.partial(_read, uuids=uuids, project=node_holds.reader(request))
        for node, held in service.database.read(read):
            why = next(_refusals(service, request, wanted.request, node, held), None)
            if why is not None:
                count += 1
                about = {"uuid": node["uuid"], "name": node["name"]}
                found += [{**about, "code": why.code, "text": why.message}][: _SHOWN - len(found)]
    return {"count": count, "first": found}


def _read(
    conn: Connection, uuids: Sequence[str], project: str | None
) -> list[tuple[Json, Sequence[Hold]]]:
    """Return nodes in this order, each with its holds in force."""
    where = {"uuid": uuids, "include_children": True}
    known = {row["uuid"]: row for row in nodes.page(conn, columns=_COLUMNS, where=where)}
    held = rows.in_force_of(conn, uuids, project)
    return [(known[uuid], held.get(uuid, ())) for uuid in uuids if uuid in known]


def _refusals(
    service: Service, request: Request, body: JsonView, node: Json, held: Sequence[Hold]
) -> Iterator[errors.Error]:
    if "power" in body:
        yield from _of_power(node, held, body["power"])
        return
    verb = verbs.BY_TARGET[body["target"]]
    asked = verb_checks.Asked(verb, body, node, request.version, service.conf, held)
    for why in verb_checks.node_refusals(asked):
        if not isinstance(why, errors.NodeLocked):
            yield why


def _of_power(node: Json, held: Sequence[Hold], goal: str) -> Iterator[errors.Error]:
    try:
        bmc_orders.check_power_state(node, goal)
    except errors.Error as why:
        yield why
    refusal = holds.refusal(node["uuid"], held, holds.POWER, goal)
    if refusal is not None:
        yield refusal
