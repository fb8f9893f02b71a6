"""The conductor's last check before a call begins: its caller must still wait.

Without a broker, a caller that has given up has closed its connection; `deadlines` judges callers
behind a broker. A call that waits for a free thread sends no keepalives, so an API keeps the number
of its calls small (`send_limit`).
"""

from __future__ import annotations

import logging
import math
import threading
from typing import Any

from ironic_lite.core import clock
from ironic_lite.rpc import failures
from ironic_lite.rpc.deadlines import call_keepalives, deadlines

LOG = logging.getLogger(__name__)


class Admission:
    """Admits the calls of one server; one object serves all its threads."""

    def __init__(self, host: str) -> None:
        """Store ``host``, the name under which the server is called."""
        self._host = host
        self._senders = deadlines.ClockOffsets()
        self._guard = threading.Lock()

    def admit(self, call: Any) -> None:
        """Return if a call is to be run now.

        :param call: a message, with the attributes in oslo.messaging's guide for drivers.
        :raises failures.Again: its caller has given up, or may have.
        """
        if _given_up(call):
            self._refuse_call(call, logging.INFO)
        note = deadlines.CallDeadline.of(call.ctxt)
        if note is None:
            return  # a cast, or no broker
        with self._guard:
            age = self._senders.age(note, clock.steady())
        silence = call.client_timeout or math.inf
        if not deadlines.waits(age, silence=silence, limit=note.limit):
            self._refuse_call(call, logging.DEBUG if age is None else logging.INFO)
        if deadlines.sign_is_due(age, silence=silence):
            call_keepalives.send_keepalive(call)

    def _refuse_call(self, call: Any, level: int) -> None:
        LOG.log(
            level,
            "RPC method %s is not begun unless its caller repeats it: it may have given up",
            call.message.get("method"),
        )
        raise failures.Again(host=self._host, at=clock.steady())


def _given_up(call: object) -> bool:
    """Return whether the caller is known to be gone; a broker does not report it."""
    known = getattr(call, "given_up", None)
    return known is not None and bool(known())
