"""Find the runbook that a request is about, and judge what its caller may do with it."""

from __future__ import annotations

from typing import Any

from ironic_lite import errors
from ironic_lite.api import policy, rules
from ironic_lite.api.exchange import Request
from ironic_lite.api.service import Service
from ironic_lite.db import runbooks

Json = dict[str, Any]

_LONGEST = 255
_USE = "baremetal:runbook:use"


def ident(word: str) -> str:
    """Return what stands for a runbook in a path: its UUID, or its name.

    :raises errors.RunbookNotFound: nothing that a runbook could be called.
    """
    if rules.uuid_like(word):
        return rules.uuid(word, "runbook")
    if not word.isascii() or len(word) > _LONGEST:
        raise errors.RunbookNotFound(runbook=word[:_LONGEST])
    return word


def find(service: Service, request: Request, word: str, *names: str, public: bool = False) -> Json:
    """Return a runbook as `judge` lets the caller have it.

    :param word: its UUID or name.
    :raises errors.RunbookNotFound: there is none, or none that the caller may see.
    """
    known = ident(word)
    row = service.database.read(lambda conn: runbooks.get(conn, known))
    judge(request, row, *names, public=public)
    return row


def to_use(service: Service, request: Request, word: str) -> Json:
    """Return a runbook that the caller may have nodes do."""
    return find(service, request, word, _USE, public=True)


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
