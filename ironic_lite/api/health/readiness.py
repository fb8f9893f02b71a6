"""Readiness of this process: its database, RPC, and a living conductor.

Checks run on one thread of their own, and their results are reused for a second. So any number of
requests costs no more than one, and no request waits longer than `LIMIT`.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from ironic_lite import errors
from ironic_lite.api.service import Service
from ironic_lite.core import context
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import conductors
from ironic_lite.membership import ring

LOG = logging.getLogger(__name__)

LIMIT = 2.0
"""Seconds that all checks together may take."""
_FRESH = 1.0  # seconds that a result is reused
CHECKS = ("database", "conductors", "rpc")
"""The checks in their order; a failed check leaves the later ones unknown."""
_WORDS: Mapping[str, str] = {
    "database": "the database cannot be read",
    "conductors": "no conductor is alive",
    "rpc": "a living conductor does not answer calls",
}


class _Failed(Exception):
    """A check failed; the log contains the reason."""


class Readiness:
    """Checks if the service is ready; one object serves all threads of a process.

    :param service: returns the objects that requests use; may raise the errors of opening the
        database.
    """

    def __init__(self, service: Callable[[], Service]) -> None:
        self._service = service
        self._guard = threading.Lock()
        self._round: _Round | None = None
        self._was_ready: bool | None = None

    def ask(self) -> tuple[bool, Json]:
        """Return whether the service is ready, and the results as JSON.

        :raises errors.Unavailable: the system refuses a thread for the checks.
        """
        with self._guard:
            last = self._round
            if last is None or (last.done.is_set() and time.monotonic() - last.begun > _FRESH):
                last = _Round(self._service)
                try:
                    threading.Thread(target=last.run, name="readiness", daemon=True).start()
                except RuntimeError as why:
                    text = f"The service has no thread ({why}); retry later."
                    raise errors.Unavailable(text) from None
                self._round = last
        last.done.wait(max(0.0, last.begun + LIMIT - time.monotonic()))
        ready, results = last.results()
        if ready is not self._was_ready:
            self._was_ready = ready
            failed = [name for name in CHECKS if results["checks"][name]["status"] == "failed"]
            if failed:
                LOG.warning("Not ready: %s", ", ".join(failed))
        return ready, results


class _Round:
    """One round of checks."""

    def __init__(self, service: Callable[[], Service]) -> None:
        self.begun = time.monotonic()
        self.done = threading.Event()
        self._open = service
        self._found: dict[str, Json] = {}

    def results(self) -> tuple[bool, Json]:
        """Return whether all checks passed, and their results as JSON."""
        found = dict(self._found)
        if not self.done.is_set():
            at = next((name for name in CHECKS if name not in found), CHECKS[-1])
            found[at] = {"status": "failed", "reason": f"no answer within {LIMIT:g} s"}
        ready = all(found.get(name, {}).get("status") == "ok" for name in CHECKS)
        shown = {name: found.get(name, {"status": "unknown"}) for name in CHECKS}
        return ready, {"status": "ready" if ready else "not ready", "checks": shown}

    def run(self) -> None:
        """Make all checks."""
        try:
            service = self._check_part("database", self._open)
            rows = self._check_part("database", lambda: service.database.read(conductors.members))
            self._found["database"] = {"status": "ok"}
            living = service.fleet.living(rows)
            if not living:
                raise self._failed_part("conductors", None)
            self._found["conductors"] = {"status": "ok", "alive": len(living)}
            self._check_part("rpc", lambda: _call_conductor(service, living))
            self._found["rpc"] = {"status": "ok"}
        except _Failed:
            pass
        finally:
            self.done.set()

    def _check_part(self, name: str, act: Callable[[], object]) -> Any:
        try:
            return act()
        except Exception as why:
            raise self._failed_part(name, why) from None

    def _failed_part(self, name: str, why: Exception | None) -> _Failed:
        # The probe needs no login, so addresses and other details appear only in the log.
        self._found[name] = {"status": "failed", "reason": _WORDS[name]}
        if why is not None:
            known = isinstance(why, errors.Error)
            LOG.info("Not ready, %s: %s", name, why, exc_info=None if known else why)
        return _Failed(name)


def _call_conductor(service: Service, living: tuple[ring.Member, ...]) -> None:
    """Call any living conductor, without use of the database or a machine."""
    one = random.choice(living)
    who, driver = context.internal("readiness"), min(one.drivers, default="none")
    conductor = service.conductor(one.host, timeout=LIMIT)
    try:
        conductor.get_driver_properties(who, driver=driver)
    except errors.Unavailable:
        raise
    except errors.Error as why:  # a refusal is an answer, too
        LOG.debug("Conductor %s refused the readiness call: %s", one.host, why)
