"""Readiness of this API: its database, RPC, and a living conductor that answers.

A dead conductor counts as living for a minute, so one conductor's silence says nothing of the
others: the one that answered last is called first, and all others when it is silent.

Checks run on threads of their own, and the processes of an API reuse their results for a second. So
any number of requests costs no more than one, and no request waits longer than `LIMIT`.
"""

from __future__ import annotations

import logging
import mmap
import random
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from ironic_lite import errors
from ironic_lite.api.service import Service
from ironic_lite.core import context, log_lines
from ironic_lite.core.json_types import Json
from ironic_lite.db.queries import conductors
from ironic_lite.membership import ring

LOG = logging.getLogger(__name__)

LIMIT = 2.0
"""Seconds that all checks together may take."""
SILENT_SECONDS = 0.5
"""Seconds after which a conductor that has not answered is silent, and all others are called."""
FRESH_SECONDS = 1.0
"""Seconds that a result is reused."""
CHECKS = ("database", "conductors", "rpc")
"""The checks in their order; a failed check leaves the later ones unknown."""
_WORDS: Mapping[str, str] = {
    "database": "the database cannot be read",
    "conductors": "no conductor is alive",
    "rpc": "no living conductor answers calls",
}


class _Failed(Exception):
    """A check failed; the log contains the reason."""


class Page:
    """Memory with the last result, shared by the processes that are forked after it is made.

    Several processes may write at once. The checksum of a mixed result is then wrong.
    """

    _HEAD = struct.Struct("=II")

    def __init__(self) -> None:
        self.memory = mmap.mmap(-1, mmap.PAGESIZE)

    def write(self, result: Json) -> None:
        """Replace the result."""
        text = orjson.dumps(result)
        head = self._HEAD.pack(zlib.crc32(text), len(text))
        if len(head) + len(text) <= mmap.PAGESIZE:
            self.memory[: len(head) + len(text)] = head + text

    def read(self) -> Json | None:
        """Return the last result, None without one."""
        whole = self.memory[:]
        checksum, size = self._HEAD.unpack_from(whole)
        text = whole[self._HEAD.size : self._HEAD.size + size]
        if not text or zlib.crc32(text) != checksum:
            return None
        found: Json = orjson.loads(text)
        return found


class Readiness:
    """Checks if the service is ready; one object serves all threads of a process.

    :param service: returns the objects that requests use; may raise the errors of opening the
        database.
    :param page: the results that the processes of an API share; None for a single process.
    """

    def __init__(self, service: Callable[[], Service], page: Page | None = None) -> None:
        self._service = service
        self._page = page or Page()
        self._calls = _Calls()
        self._guard = threading.Lock()
        self._round: _Round | None = None
        self._was_ready: bool | None = None
        self._complaints = log_lines.LogThrottle()

    def ask(self) -> tuple[bool, Json]:
        """Return whether the service is ready, and the results as JSON.

        :raises errors.Unavailable: the system refuses a thread for the checks.
        """
        with self._guard:
            last = self._round
            if last is None or last.done.is_set():
                kept = self._page.read()
                if kept is not None and time.monotonic() - kept["begun"] <= FRESH_SECONDS:
                    return kept["ready"], kept["results"]
                last = self._begin_round(None if kept is None else kept["host"])
        last.done.wait(max(0.0, last.begun + LIMIT - time.monotonic()))
        ready, results = last.results()
        if ready is not self._was_ready:
            self._was_ready = ready
            if ready:
                self._complaints = log_lines.LogThrottle()
            failed = [name for name in CHECKS if results["checks"][name]["status"] == "failed"]
            if failed:
                LOG.warning("Not ready: %s", ", ".join(failed))
        return ready, results

    def _begin_round(self, host: str | None) -> _Round:
        """Begin new checks; the guard is held.

        :param host: the conductor that answered last.
        """
        found = _Round(self._service, self._calls, self._page, host, self._complaints)
        try:
            threading.Thread(target=found.run, name="readiness", daemon=True).start()
        except RuntimeError as why:
            text = f"The service has no thread ({why}); retry later."
            raise errors.Unavailable(text) from None
        self._round = found
        return found


class _Round:
    """One round of checks."""

    def __init__(
        self,
        service: Callable[[], Service],
        calls: _Calls,
        page: Page,
        host: str | None,
        complaints: log_lines.LogThrottle,
    ) -> None:
        self.begun = time.monotonic()
        self.done = threading.Event()
        self._open = service
        self._calls = calls
        self._page = page
        self._host = host
        self._complaints = complaints
        self._found: dict[str, Json] = {}

    def results(self) -> tuple[bool, Json]:
        """Return whether all checks passed, and their results as JSON."""
        found = dict(self._found)
        if not self.done.is_set():
            at = next((name for name in CHECKS if name not in found), CHECKS[-1])
            found[at] = _silence()
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
            host = self._check_part("rpc", lambda: self._find_answer(service, living))
            if host:
                self._host = host
                service.fleet.trust(host)
            self._found["rpc"] = {"status": "ok"} if host else _silence()
        except _Failed:
            pass
        finally:
            self.done.set()
            ready, results = self.results()
            kept = {"begun": self.begun, "host": self._host, "ready": ready, "results": results}
            self._page.write(kept)

    def _find_answer(self, service: Service, living: tuple[ring.Member, ...]) -> str | None:
        return self._calls.find_answer(service, living, self._host, self.begun + LIMIT)

    def _check_part(self, name: str, act: Callable[[], object]) -> Any:
        try:
            return act()
        except Exception as why:
            raise self._failed_part(name, why) from None

    def _failed_part(self, name: str, why: Exception | None) -> _Failed:
        # The probe needs no login, so addresses and other details appear only in the log.
        self._found[name] = {"status": "failed", "reason": _WORDS[name]}
        if why is not None and self._complaints.new(f"{name} {type(why).__name__}"):
            known = isinstance(why, errors.Error)
            LOG.info("Not ready, %s: %s", name, why, exc_info=None if known else why)
        return _Failed(name)


def _silence() -> Json:
    return {"status": "failed", "reason": f"no answer within {LIMIT:g} s"}


class _Calls:
    """Calls of conductors on threads: at most one at a time for each conductor."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: set[str] = set()
        self._answered: dict[str, float] = {}
        self._why: errors.Error | None = None

    def find_answer(
        self, service: Service, living: tuple[ring.Member, ...], host: str | None, end: float
    ) -> str | None:
        """Return the first conductor that answers, None if some are silent at the end.

        :param host: the conductor to call first, if it lives.
        :param end: the last moment, by the monotonic clock.
        :raises errors.Error: the last one of all calls, which have failed.
        """
        begun = time.monotonic()
        hosts = {one.host: one for one in living}
        first = hosts.get(host) if host else None
        first = first or random.choice(living)  # spreads the calls; no secret
        self._call(service, [first], end)
        found = self._wait(hosts, begun, min(end, begun + SILENT_SECONDS))
        if found is None:
            self._call(service, [one for one in living if one is not first], end)
            found = self._wait(hosts, begun, end)
        with self._changed:
            if found is None and self._why is not None and not self._running.intersection(hosts):
                raise self._why
        return found

    def _call(self, service: Service, members: Iterable[ring.Member], end: float) -> None:
        """Call conductors; one that has not answered an earlier call is not called again."""
        for one in members:
            with self._changed:
                if one.host in self._running:
                    continue
                self._running.add(one.host)
            body = threading.Thread(
                target=self._run, args=(service, one, end), name="readiness-call", daemon=True
            )
            try:
                body.start()
            except RuntimeError as why:
                self._end(one.host, errors.Unavailable(f"The service has no thread ({why})."))

    def _run(self, service: Service, one: ring.Member, end: float) -> None:
        failed: errors.Error | None = errors.NoConductor(host=one.host)
        try:
            _call_conductor(service, one, max(0.1, end - time.monotonic()))
            failed = None
        except errors.Error as why:
            failed = why
        finally:
            self._end(one.host, failed)

    def _end(self, host: str, why: errors.Error | None) -> None:
        with self._changed:
            self._running.discard(host)
            self._why = why
            if why is None:
                self._answered[host] = time.monotonic()
            self._changed.notify_all()

    def _wait(self, hosts: Iterable[str], begun: float, end: float) -> str | None:
        """Return a conductor that has answered since ``begun``, None at ``end`` or if all fail."""
        with self._changed:
            while True:
                for host in hosts:
                    if self._answered.get(host, -1.0) >= begun:
                        return host
                left = end - time.monotonic()
                if left <= 0 or not self._running.intersection(hosts):
                    return None
                self._changed.wait(left)


def _call_conductor(service: Service, one: ring.Member, seconds: float) -> None:
    """Call a conductor, without use of the database or a machine.

    :raises errors.Unavailable: it does not answer.
    """
    who, driver = context.internal("readiness"), min(one.drivers, default="none")
    conductor = service.conductor(one.host, timeout=seconds)
    try:
        conductor.get_driver_properties(who, driver=driver)
    except errors.Unavailable:
        raise
    except errors.Error as why:  # a refusal is an answer, too
        LOG.debug("Conductor %s refused the readiness call: %s", one.host, why)
