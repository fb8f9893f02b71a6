"""Judge what the caller of a request may do with a runbook, and find one to use."""

from __future__ import annotations

from typing import Any

from ironic_lite import errors
from ironic_lite.api import policy
from ironic_lite.api.resources import families
from ironic_lite.api.service import Service
from ironic_lite.api.wire.exchange import Request
from ironic_lite.db import runbooks
from ironic_lite.db.session import Connection

Json = dict[str, Any]

_USE = "baremetal:runbook:use"


def to_use(service: Service, request: Request, word: str) -> Json:
    """Return a runbook that the caller may have nodes do.

    :param word: its UUID or name.
    :raises errors.RunbookNotFound: there is none, or none that the caller may see.
    """
    known = families.known(runbooks.FAMILY, "runbook", word)

    def look(_conn: Connection, row: Json) -> None:
        judge(request, row, _USE, public=True)

    return families.fetch(service, runbooks.FAMILY, known, look)


def judge(request: Request, row: Json, *names: str, public: bool = False) -> None:
    """Refuse what the caller may not do with a runbook.

    :param names: of rules; none for that of the route.
    :param public: a public one is as good as the caller's own.
    :raises errors.RunbookNotFound: the caller may not see it.
    :raises errors.Forbidden: the caller may see it, and no more.
    """
    own = {**row, "owner": request.access.project} if public and row["public"] else row
    missing = errors.RunbookNotFound(runbook=row["uuid"])
    request.access.owned(policy.RUNBOOK, own, missing, names)
