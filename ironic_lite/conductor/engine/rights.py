"""Rights that are checked again when work begins, because they were checked at its request."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.core.context import Context
from ironic_lite.domain import retries
from ironic_lite.records import Node, Run


def check_owners(who: Context, node: str, owner: str | None, lessee: str | None) -> None:
    """Refuse work on a node that has changed hands since the caller's rights were checked.

    :param node: its UUID, with the owner and the lessee that it has now.
    :raises errors.RightsLost: they are others.
    """
    if who.owners is None or who.owners[0] != node:
        return
    change = retries.change_of_hands(who.owners[1:], (owner, lessee))
    if change:
        raise errors.RightsLost(node=node, change=change)


def check_repetition(run: Run, node: Node) -> None:
    """Refuse to repeat a run, which no client asks for, on a node that has changed hands.

    :param run: with the owner and the lessee that the node had when the run began.
    :raises errors.RightsLost: they are others now.
    """
    change = retries.change_of_hands_since(run, node.owner, node.lessee)
    if change:
        raise errors.RightsLost(node=node.uuid, change=change)
