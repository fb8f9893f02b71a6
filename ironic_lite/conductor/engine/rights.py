"""Rights that are checked again when work begins, because they were checked at its request."""

from __future__ import annotations

import pathlib
import time

from ironic_lite import errors
from ironic_lite.core.context import Context
from ironic_lite.core.options import Configuration
from ironic_lite.domain import retries
from ironic_lite.records import Node, Run

_WRITTEN_SECONDS = 1.0
"""Time for the end of a change of a password file, because ``htpasswd`` writes it in place."""


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


def lost_login(conf: Configuration, user: str | None) -> str | None:
    """Return why a user can no longer log in, None if the user can, or if it is not known here.

    Only ``[api]auth_strategy = http_basic`` can be asked, on a machine with its file of users.
    """
    if conf.api.auth_strategy != "http_basic" or not user:
        return None
    path = pathlib.Path(conf.http_basic_auth_user_file)
    try:
        if _has_user(path, user):
            return None
        time.sleep(_WRITTEN_SECONDS)
        if _has_user(path, user):
            return None
    except OSError:
        return None
    return f"the user {user} is not in {path.name} any more"


def _has_user(path: pathlib.Path, user: str) -> bool:
    lines = path.read_bytes().decode(errors="replace").splitlines()
    return user in {line.strip().partition(":")[0] for line in lines}
