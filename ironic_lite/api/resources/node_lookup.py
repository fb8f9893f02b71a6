"""Find the node that a path names: by UUID, or since 1.5 by name."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence

from ironic_lite import errors
from ironic_lite.api.http.request import Request
from ironic_lite.api.policy.access import OWNERS
from ironic_lite.api.service import Service
from ironic_lite.api.validation import rules
from ironic_lite.api.validation import rules as forms
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import nodes, paging

NAMES_SINCE = 5
_LONGEST = 255
_BELOW = "/nodes/"
_GENERATION = "generation"


def node(request: Request, ident: str) -> str:
    """Return ``ident`` in the database's form.

    :raises errors.InvalidParameter: neither a UUID nor a valid name.
    :raises errors.NodeNotFound: a name in a version before 1.5.
    """
    known = forms.ident(ident, "node")
    if request.version < NAMES_SINCE and not forms.uuid_like(ident):
        raise errors.NodeNotFound(node=ident)
    return known


def tag(row: JsonView) -> str:
    """Return the entity tag (RFC 9110, 8.8.3) of a node: its generation, which counts changes.

    :param row: with ``generation``.
    """
    return f'"{row[_GENERATION]}"'


def add_tag(request: Request, row: JsonView) -> None:
    """Add the node's entity tag to the answer, as `tag`."""
    request.answer.headers.append(("ETag", tag(row)))


def fetch(
    service: Service,
    request: Request,
    ident: str,
    columns: Sequence[str] | None = None,
    *,
    with_traits: bool = False,
    rules: Sequence[str] = (),
    enough: Callable[..., bool] = all,
) -> Json:
    """Return a node's columns (None for all), read by one statement, if the caller may see them.

    :param with_traits: adds the key ``traits``, a sorted list.
    :param rules: replace the rule of the route; ``enough=any`` if one passed rule suffices.
    :raises errors.NodeNotFound: the node does not exist, or the caller may not see it.
    :raises errors.Forbidden: the caller may see the node, but a rule forbids the operation.
    :raises errors.PreconditionFailed: the node has changed since the tag in If-Match.
    """
    known = node(request, ident)
    wanted = request.if_match if request.path.startswith(_BELOW) else frozenset()
    needed = (
        *(("uuid", *OWNERS) if request.access.limited else ()),
        *((_GENERATION,) if wanted else ()),
    )
    more = [] if columns is None else [name for name in needed if name not in columns]
    read = columns if columns is None else (*columns, *more)
    names = (f"{known}{request.suffix}", known) if request.path == f"{_BELOW}{ident}" else (known,)

    def find(name: str) -> Json:
        found = service.database.read(
            lambda conn: nodes.get(conn, name, read, with_traits=with_traits)
        )
        if request.access.limited:
            request.access.node(found, errors.NodeNotFound(node=known), *rules, enough=enough)
            # A conductor compares them again under the lock of the node.
            owners = (found["uuid"], found["owner"], found["lessee"])
            request.who = dataclasses.replace(request.who, owners=owners)
        return found

    row = _first_visible(names, find)
    if wanted and "*" not in wanted and tag(row) not in wanted:
        tags = ", ".join(sorted(wanted))[:_LONGEST]
        raise errors.PreconditionFailed(node=known, tag=tag(row), wanted=tags)
    for name in more:
        del row[name]
    return row


def _first_visible(names: Sequence[str], find: Callable[[str], Json]) -> Json:
    """Return the first node that the caller can see; try each name once."""
    *others, last = dict.fromkeys(names)
    for name in others:
        with contextlib.suppress(errors.NodeNotFound):
            return find(name)
    return find(last)


def fetch_beside(
    service: Service, request: Request, ident: str, columns: Sequence[str], rule: str
) -> tuple[Json, Json]:
    """Return a node whose rows in force the caller may see, and the filters of its rows.

    Runs under way and holds in force refuse operations, so they are for all who may see the node;
    the rest is for the projects of its time.

    :param rule: for rows of the caller's own project. If it allows none, it guards the node, too.
    :return: columns, and the filters of ``db.queries.paging`` for a list of one node.
    :raises errors.NodeNotFound, errors.Forbidden: as `fetch`.
    """
    own = own_filters(request, rule)
    rules = ("baremetal:node:get",) if any(own.values()) else (rule,)
    return fetch(service, request, ident, columns, rules=rules), own


def own_filters(request: Request, rule: str) -> Json:
    """Return the filters of a list of one node's rows, by owner and lessee of their time.

    :param rule: about nodes; without a filter if the caller passes it for all nodes.
    """
    sides = request.access.own_sides(rule)
    return (
        {}
        if sides is None
        else {paging.OWN_OWNER: sides["owner"], paging.OWN_LESSEE: sides["lessee"]}
    )


def judge(
    conn: Connection, request: Request, node_uuid: str, missing: errors.Error, *rules: str
) -> None:
    """Check the caller's rights on an object of a node; one statement if rules bind the caller.

    :param missing: the error of a missing object, raised if the caller may not see this one.
    :param rules: replace the rule of the route.
    :raises errors.Forbidden: the caller may see the object, but a rule forbids the operation.
    """
    if request.access.limited:
        request.access.node(nodes.get(conn, node_uuid, OWNERS), missing, *rules)


def where_visible(service: Service, request: Request, where: JsonView) -> Json:
    """Return the filters of a list about all nodes, for what the caller may see of it.

    ``of_owner`` is added for a caller bound to a project, and ``node`` becomes ``node_uuid``.

    A UUID may be that of a node which was deleted or belongs to another project now, because the
    rows are chosen by the owner of their time.

    :raises errors.NodeNotFound: no node has this name, or the caller may not see it.
    """
    found, owner = dict(where), request.access.only()
    if owner is not None:
        found[paging.OF_OWNER] = owner
    if "node" in found:
        ident = found.pop("node")
        if forms.uuid_like(ident):
            found["node_uuid"] = forms.uuid(ident, "node")
        else:
            found["node_uuid"] = fetch(service, request, ident, ("uuid",))["uuid"]
    return found


# Nodes that a request lists by UUID or name, read together.

LISTED_COLUMNS = tuple(dict.fromkeys(("uuid", "name", "provision_state", *OWNERS)))
"""Columns of the nodes that are returned."""
_PART = 500


def named_nodes(
    service: Service, request: Request, given: Sequence[object], *, with_traits: bool = False
) -> list[Json]:
    """Return the nodes of a list, which is the key ``nodes`` of the body, in its order.

    At most two statements read 500 nodes. A node that is listed twice is returned twice.

    :param given: UUIDs and names; the caller bounds their number.
    :raises errors.InvalidParameter: an entry is no UUID or name of a node.
    :raises errors.NodeNotFound: a node does not exist, or the caller may not see it.
    """
    names: list[str] = []
    for index, ident in enumerate(given):
        if not isinstance(ident, str):
            reason = "is not the UUID or the name of a node"
            raise errors.InvalidParameter(path=f"nodes/{index}", reason=reason)
        names.append(node(request, ident))
    by_name: dict[str, Json] = {}
    for column in ("uuid", "name"):
        wanted = [name for name in names if rules.uuid_like(name) is (column == "uuid")]
        for row in read_nodes(service, column, wanted, with_traits=with_traits):
            by_name[row[column]] = row
    return [visible_node(request, by_name, name) for name in names]


def read_nodes(
    service: Service, column: str, values: Sequence[str], *, with_traits: bool = False
) -> list[Json]:
    """Return nodes by the values of a column, a few hundred with each statement."""

    def work(conn: Connection) -> list[Json]:
        found: list[Json] = []
        for first in range(0, len(values), _PART):
            found += nodes.page(
                conn,
                columns=LISTED_COLUMNS,
                where={column: values[first : first + _PART], "include_children": True},
                limit=_PART,
                with_traits=with_traits,
            )
        return found

    return service.database.read(work)


def visible_node(request: Request, found: JsonView, name: str) -> Json:
    """Return one of the nodes that were found.

    :raises errors.NodeNotFound: it is not among them, or the caller may not see it.
    """
    row: Json | None = found.get(name) or found.get(name.lower())
    missing = errors.NodeNotFound(node=name)
    if row is None:
        raise missing
    request.access.node(row, missing, "baremetal:node:get")
    return row
