"""Changes that the API itself writes, marked for requests with an Idempotency-Key.

The mark is made in the transaction of the change. So a repetition after a crash knows whether the
change was made, and a slow first attempt cannot make it after a repetition.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import TypeVar

from ironic_lite.api.service import Service
from ironic_lite.api.wire.request import Request
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import idempotency

T = TypeVar("T")


def write(service: Service, request: Request, work: Callable[[Connection], T]) -> T:
    """Return the result of ``work`` after the commit of its transaction.

    :raises errors.KeyInUse: a repetition has taken the request over.
    """
    claim = request.call.claim
    if claim is None:
        return service.database.write(work)

    def marked(conn: Connection) -> T:
        idempotency.mark(conn, claim)
        return work(conn)

    return service.database.write(marked)


def subject(request: Request) -> str:
    """Return the UUID of a resource that the request creates without naming one."""
    claim = request.call.claim
    return claim.subject if claim is not None else str(uuid.uuid4())
