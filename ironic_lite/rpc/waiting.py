"""Calls that have come and find no free thread: each gives signs of life until it has one.

A caller who hears nothing for two seconds takes the conductor for dead, is told 503, and asks
another one from then on. The library gives signs only of calls that are being carried out. With
``local://`` nobody waits for signs: there a death is seen at once.

What nobody waits for any more, when its turn has come, is not begun: a caller of ``local://`` has
closed its connection then, and what one behind a broker does is told by `patience`.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from typing import Any

from ironic_lite import clock
from ironic_lite.rpc import failures, patience

LOG = logging.getLogger(__name__)

PAUSE = 0.5
"""Seconds between two signs: with the second that the library waits at first, less than a caller
does."""


class Waiting:
    """The calls of one server that no thread has begun; one object serves all threads."""

    def __init__(self, host: str) -> None:
        """``host`` is the name under which the server is called."""
        self._host = host
        self._calls: dict[Any, patience.Wait | None] = {}
        self._senders = patience.Senders()
        self._guard = threading.Lock()
        self._some = threading.Event()
        self._ended = False

    def start(self) -> None:
        """Begin to give signs."""
        threading.Thread(target=self._run, name="rpc-waiting", daemon=True).start()

    def end(self) -> None:
        """Give none any more."""
        self._ended = True
        self._some.set()

    def add(self, call: Any) -> None:
        """Note a call; ``call`` is a ``RpcIncomingMessage``."""
        note, now, wait = patience.Note.of(call.ctxt), clock.steady(), None
        with self._guard:
            if note:
                age = self._senders.age(note, now)
                bears = call.client_timeout or math.inf
                wait = patience.Wait(silence=bears, limit=note.limit, age=age, now=now)
            self._calls[call] = wait
        if not self._some.is_set():
            self._some.set()

    def begin(self, call: Any) -> bool:
        """Note that a thread has a call, and return whether it is to carry it out."""
        with self._guard:
            if call not in self._calls:
                return False  # its caller was asked
            wait = self._calls.pop(call)
        if _given_up(call):
            LOG.info("RPC method %s is not begun: its caller has given up", _method(call))
            return False
        if wait is None:
            return True
        now = clock.steady()
        if not wait.lasts(now):
            self._ask(call, wait)
            return False
        if wait.silent(now, begun=True):
            self._sign(call, wait)
        return True

    def _run(self) -> None:
        while not self._ended:
            self._some.wait()
            time.sleep(PAUSE)
            with self._guard:
                calls = list(self._calls.items())
                if not calls and not self._ended:
                    self._some.clear()
            for call, wait in calls:
                # Else nobody waits for signs, or not yet; each costs a message.
                if call.client_timeout and (wait is None or wait.silent(clock.steady())):
                    self._sign(call, wait)

    def _sign(self, call: Any, wait: patience.Wait | None) -> None:
        try:
            call.heartbeat()
        except Exception as why:  # whatever the transport raises: the next sign may get through
            LOG.debug("No sign of life for RPC method %s: %s", _method(call), why)
            return
        if wait:
            wait.sign(now := clock.steady())
            if not wait.lasts(now):
                self._ask_early(call, wait)

    def _ask_early(self, call: Any, wait: patience.Wait) -> None:
        """Do not let a caller wait for a thread that would only ask.

        An answer is tried for long where nobody takes any, and others wait here for their signs: so
        only one to whom a sign has just got through is asked.
        """
        with self._guard:
            if call not in self._calls:
                return
            del self._calls[call]
        self._ask(call, wait)

    def _ask(self, call: Any, wait: patience.Wait) -> None:
        """Begin nothing, and let the caller say it again if there is one."""
        LOG.log(
            logging.INFO if wait.known else logging.DEBUG,
            "RPC method %s is not begun unless its caller says it again: it may have given up",
            _method(call),
        )
        why = failures.Again(host=self._host, at=clock.steady())
        try:
            call.reply(failure=(type(why), why, None))
        except Exception as fault:  # whatever the transport raises: the caller hears nothing
            LOG.debug("RPC method %s could not be asked for: %s", _method(call), fault)


def _given_up(call: Any) -> bool:
    """Say whether the transport knows that the caller has gone; only ``local://`` does."""
    known = getattr(call, "given_up", None)
    return known is not None and bool(known())


def _method(call: Any) -> str:
    return str(call.message.get("method"))
