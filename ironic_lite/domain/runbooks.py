"""Approval of runbooks for nodes by traits, and the steps of a runbook; no I/O."""

from __future__ import annotations

from collections.abc import Collection

from ironic_lite import errors
from ironic_lite.core.json_types import JsonView
from ironic_lite.records import StoredStep

TRAITS_SINCE = 112
"""The version before which a runbook's name was its only trait."""


def check(book: JsonView, node_uuid: str, node_traits: Collection[str], version: int) -> None:
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
            f"runbook {book['uuid']} has no traits, so it fits no node; set some with PUT "
            f"/v1/runbooks/{book['uuid']}/traits"
        )
    else:
        reason = (
            f"runbook {book['uuid']} is not approved for node {node_uuid}: the node has none of "
            f"the traits {', '.join(sorted(wanted))}"
        )
    raise errors.InvalidParameter(path="runbook", reason=reason)


def steps(book: JsonView) -> list[StoredStep]:
    """Return the steps of a runbook as a request would list them, by their ``order``.

    Steps of the same order stay as they are listed.
    """
    return sorted(book["steps"], key=lambda step: int(step["order"]))
