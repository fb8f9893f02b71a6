"""What stands for a node in a path: its UUID, or since 1.5 its name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ironic_lite import errors
from ironic_lite.api.policy.access import OWNERS
from ironic_lite.api.service import Service
from ironic_lite.api.validation import rules as forms
from ironic_lite.api.wire.exchange import Request
from ironic_lite.db import nodes
from ironic_lite.db.session import Connection

NAMES_SINCE = 5
_LONGEST = 255
_BELOW = "/nodes/"
_GENERATION = "generation"


def node(request: Request, ident: str) -> str:
    """Return ``ident`` as the database knows it.

    :raises errors.NodeNotFound: nothing a node could be called, or a name before 1.5.
    """
    if forms.uuid_like(ident):
        return forms.uuid(ident, "node")
    if request.version < NAMES_SINCE or not ident.isascii() or len(ident) > _LONGEST:
        raise errors.NodeNotFound(node=ident[:_LONGEST])
    return ident


def tag(row: Mapping[str, Any]) -> str:
    """Return the entity tag (RFC 9110, 8.8.3) of a node: it counts its changes.

    :param row: with ``generation``.
    """
    return f'"{row[_GENERATION]}"'


def fetch(
    service: Service,
    request: Request,
    ident: str,
    columns: Sequence[str] | None = None,
    *,
    with_traits: bool = False,
    rules: Sequence[str] = (),
    enough: Callable[..., bool] = all,
) -> dict[str, Any]:
    """Return a node's columns (None for all), in one statement, if the caller may have them.

    :param with_traits: adds the key ``traits``, a sorted list.
    :param rules: to be passed instead of the route's; ``enough`` is ``any`` if one of them is.
    :raises errors.NodeNotFound: there is no such node, or none that the caller may see.
    :raises errors.Forbidden: the caller may not do with it what the route is for.
    :raises errors.PreconditionFailed: the request is for the node as it was before, by If-Match.
    """
    known = node(request, ident)
    wanted = request.if_match if request.path.startswith(_BELOW) else frozenset()
    needed = (*(OWNERS if request.access.limited else ()), *((_GENERATION,) if wanted else ()))
    more = [] if columns is None else [name for name in needed if name not in columns]
    read = columns if columns is None else (*columns, *more)
    names = (f"{known}{request.suffix}", known) if request.path == f"{_BELOW}{ident}" else (known,)

    def find(name: str) -> dict[str, Any]:
        found = service.database.read(
            lambda conn: nodes.get(conn, name, read, with_traits=with_traits)
        )
        request.access.node(found, errors.NodeNotFound(node=known), *rules, enough=enough)
        return found

    row = _first(names, find)
    if wanted and "*" not in wanted and tag(row) not in wanted:
        told = ", ".join(sorted(wanted))[:_LONGEST]
        raise errors.PreconditionFailed(node=known, tag=tag(row), wanted=told)
    for name in more:
        del row[name]
    return row


def _first(names: Sequence[str], find: Callable[[str], dict[str, Any]]) -> dict[str, Any]:
    """Return the first node that there is for the caller; a name that recurs is one."""
    *others, last = dict.fromkeys(names)
    for name in others:
        with contextlib.suppress(errors.NodeNotFound):
            return find(name)
    return find(last)


def judge(
    conn: Connection, request: Request, node_uuid: str, missing: errors.Error, *rules: str
) -> None:
    """Judge what is asked of what hangs below a node: one statement, where rules bind the caller.

    :param missing: what is raised, too, if there is no such thing.
    :param rules: to be passed instead of the route's.
    :raises errors.Forbidden: the caller may not do with it what the route is for.
    """
    if request.access.limited:
        request.access.node(nodes.get(conn, node_uuid, OWNERS), missing, *rules)
