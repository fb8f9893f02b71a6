"""Find a runbook, and check what the caller may do with it."""

from __future__ import annotations

from ironic_lite import errors
from ironic_lite.api import policy
from ironic_lite.api.resources import crud
from ironic_lite.api.service import Service
from ironic_lite.api.wire.request import Request
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import runbooks

_USE = "baremetal:runbook:use"


def to_use(service: Service, request: Request, word: str) -> Json:
    """Return a runbook that the caller may run on nodes.

    :param word: its UUID or name.
    :raises errors.RunbookNotFound: it does not exist, or the caller may not see it.
    """
    known = crud.known(runbooks.FAMILY, "runbook", word)

    def look(_conn: Connection, row: Json) -> None:
        judge(request, row, _USE, public=True)

    return crud.fetch(service, runbooks.FAMILY, known, look)


def judge(request: Request, row: Json, *names: str, public: bool = False) -> None:
    """Refuse an operation that the caller may not do on a runbook.

    :param names: rules to pass; without names, the rule of the route.
    :param public: treat a public runbook as the caller's own.
    :raises errors.RunbookNotFound: the caller may not see it.
    :raises errors.Forbidden: the caller may see it, but a rule forbids the operation.
    """
    own = {**row, "owner": request.access.project} if public and row["public"] else row
    missing = errors.RunbookNotFound(runbook=row["uuid"])
    request.access.owned(policy.RUNBOOK, own, missing, names)
