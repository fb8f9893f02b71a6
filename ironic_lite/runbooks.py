"""Whether a node may be told to do what a runbook says, and what it is told then; no I/O."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from ironic_lite import errors

Json = dict[str, Any]

TRAITS_SINCE = 112
"""Before, the name of a runbook was the trait by which it was matched."""


def check(
    book: Mapping[str, Any], node_uuid: str, node_traits: Collection[str], version: int
) -> None:
    """Refuse a runbook on a node that it is not approved for.

    :param book: uuid, name and traits of the runbook.
    :param version: the request's minor API version.
    :raises errors.InvalidParameter: node and runbook have no trait in common.
    """
    wanted = set(book["traits"] or ()) if version >= TRAITS_SINCE else {book["name"]}
    if wanted & set(node_traits):
        return
    if not wanted:
        reason = (
            f"runbook {book['uuid']} has no traits, so it is for no node; set some with "
            f"PUT /v1/runbooks/{book['uuid']}/traits"
        )
    else:
        reason = (
            f"runbook {book['uuid']} is not approved for node {node_uuid}: the node has none of "
            f"the traits {', '.join(sorted(wanted))}"
        )
    raise errors.InvalidParameter(path="runbook", reason=reason)


def steps(book: Mapping[str, Any]) -> list[Json]:
    """Return the steps of a runbook as a request would list them, by their ``order``.

    Steps of the same order stay as they are listed.
    """
    return sorted(book["steps"], key=lambda step: int(step["order"]))
