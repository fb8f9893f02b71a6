"""Probes for monitoring: liveness, readiness, and metrics for Prometheus.

They are answered before versions and routes. All but ``/metrics`` need no login.
"""

from __future__ import annotations

import dataclasses
import logging
import mmap
import os
import random
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import orjson

from ironic_lite import errors, membership
from ironic_lite.api.http import request
from ironic_lite.api.http.request import Environ, StartResponse
from ironic_lite.api.service import Service
from ironic_lite.core import certificate_files, context, log_lines, metrics
from ironic_lite.core.json_types import Json
from ironic_lite.core.metrics import Family
from ironic_lite.core.options import Configuration
from ironic_lite.db.queries import conductors, holds
from ironic_lite.db.queries import nodes as stored_nodes

# Metrics for Prometheus: counts of API and conductors, and nodes by state.
#
# The first scrape loads the library, so a service without scrapes never loads it.

LOG = logging.getLogger(__name__)

METRIC_PREFIX = "ironic_lite_"
_FRESH = 1.0  # seconds that values read from the database are reused
FLEET_METRICS: Mapping[str, Family] = {
    "database_up": Family("Whether the database could be read.", ()),
    "nodes": Family("Nodes.", ("provision_state", "maintenance")),
    "nodes_by_data_state": Family("Nodes by the state of the last user's data.", ("state",)),
    "holds": Family("Holds in force on nodes.", ("kind",)),
    "conductor_up": Family("Whether a conductor is alive.", ("conductor",)),
    "conductor_counts_age_seconds": Family(
        "Seconds since a conductor reported its counts.", ("conductor",)
    ),
}
"""Values of the database, which are the same for every API process."""


class Exposition:
    """Answers a scrape; one object serves all threads of a process.

    :param service: returns the objects that requests use.
    """

    def __init__(self, service: Callable[[], Service]) -> None:
        self._service = service
        self._guard = threading.Lock()
        self._read_at = float("-inf")
        self._read: Json | None = None
        self._complaints = log_lines.LogThrottle()

    def text(self, accept: str, *, api: bool = True, fleet: bool = True) -> tuple[bytes, str]:
        """Return the answer and its content type.

        :param accept: the header of the request.
        :param api: include the counts of this API's processes.
        :param fleet: include the values that are the same for every API process.
        """
        from prometheus_client import exposition  # noqa: PLC0415

        encode, kind = exposition.choose_encoder(accept)
        registry = _Registry(
            {**metrics.BOARD.snapshot(), **certificate_files.gauges()} if api else {},
            self._fleet_values() if fleet else None,
        )
        return encode(registry), kind

    def _fleet_values(self) -> Json:
        """Return the values of the database; without a database, a result that says so."""
        with self._guard:
            if self._read is None or time.monotonic() - self._read_at > _FRESH:
                try:
                    with self._complaints:
                        self._read = self._read_database()
                except errors.Error as why:
                    if self._complaints.new(type(why).__name__):
                        LOG.warning("Metrics without the database: %s", why)
                    self._read = {"database": 0, "conductors": [], "nodes": []}
                self._read_at = time.monotonic()
            return self._read

    def _read_database(self) -> Json:
        service = self._service()
        rows = service.database.read(conductors.all_counters)
        for row in rows:
            row["up"] = service.fleet.lives(row)
        return {
            "database": 1,
            "conductors": rows,
            "nodes": service.database.read(stored_nodes.count_by_state),
            "holds": service.database.read(holds.by_kind),
            "features": [
                gauge
                for each in service.extensions
                if each.gauges is not None
                for gauge in service.database.read(each.gauges)
            ],
        }


class _Registry:
    """The registry that the library reads."""

    def __init__(self, own: Json, fleet: Json | None) -> None:
        self._own = own
        self._fleet_values = fleet

    def collect(self) -> Iterator[Any]:
        """Yield each family once, with all its series."""
        rows = self._fleet_values["conductors"] if self._fleet_values is not None else []
        for name, family in metrics.FAMILIES.items():
            series = [(("", ""), one) for one in self._own.get(name, ())]
            for row in rows:
                of = ("conductor", row["hostname"])
                series += [(of, one) for one in (row["counters"] or {}).get(name, ())]
            if series:
                yield _metric_family(name, family, series)
        if self._fleet_values is not None:
            yield from self._fleet_gauges(self._fleet_values)
        yield from self._gauges(rows)

    def _gauges(self, rows: Sequence[Json]) -> Iterator[Any]:
        """Yield what is measured when it is read, of this process and of living conductors."""
        told = [("", self._own), *((row["hostname"], row["counters"]) for row in rows if row["up"])]
        for name, family in metrics.GAUGES.items():
            wider = family._replace(labels=("conductor", *family.labels))
            found = [
                ((host, *(one[label] for label in family.labels)), one["value"])
                for host, values in told
                for one in (values or {}).get(name, ())
            ]
            if found or self._fleet_values is not None:
                yield _gauge_family(name, wider, found)

    @staticmethod
    def _fleet_gauges(fleet: Json) -> Iterator[Any]:
        rows = fleet["conductors"]
        yield _fleet_family("database_up", [((), fleet["database"])])
        if fleet["database"]:
            nodes = [((state, str(put).lower()), n) for state, put, n in fleet["nodes"].states]
            yield _fleet_family("nodes", nodes)
            data = [((state,), count) for state, count in fleet["nodes"].data_states.items()]
            yield _fleet_family("nodes_by_data_state", data)
            held = [((kind,), count) for kind, count in fleet["holds"].items()]
            yield _fleet_family("holds", held)
            for gauge in fleet["features"]:
                yield _gauge_family(*gauge)
        yield _fleet_family("conductor_up", [((row["hostname"],), row["up"]) for row in rows])
        ages = [((row["hostname"],), row["age"]) for row in rows]
        yield _fleet_family("conductor_counts_age_seconds", ages)


def _fleet_family(name: str, found: Sequence[tuple[tuple[str, ...], float]]) -> Any:
    return _gauge_family(name, FLEET_METRICS[name], found)


def _gauge_family(name: str, family: Family, found: Sequence[tuple[tuple[str, ...], float]]) -> Any:
    from prometheus_client import core  # noqa: PLC0415

    made = core.GaugeMetricFamily(METRIC_PREFIX + name, family.text, labels=family.labels)
    for labels, value in found:
        made.add_metric(labels, float(value))
    return made


def _metric_family(
    name: str, family: Family, series: Sequence[tuple[tuple[str, str], Json]]
) -> Any:
    from prometheus_client import core  # noqa: PLC0415

    whose = any(of for (of, _), _ in series)
    names = [*family.labels, *(["conductor"] if whose else [])]
    kind: Any = core.HistogramMetricFamily if family.buckets else core.CounterMetricFamily
    made = kind(METRIC_PREFIX + name, family.text, labels=names)
    for (_, host), one in series:
        labels = [*(str(one[label]) for label in family.labels), *([host] if whose else [])]
        if family.buckets:
            buckets = [(row["le"], row["value"]) for row in one["buckets"]]
            made.add_metric(labels, buckets, one["sum"])
        else:
            made.add_metric(labels, one["value"])
    return made


# Readiness of this API: its database, RPC, and a living conductor that answers.
#
# A dead conductor counts as living for a minute, so one conductor's silence says nothing of the
# others: the one that answered last is called first, and all others when it is silent.
#
# Checks run on threads of their own, and the processes of an API reuse their results for a second.
# So any number of requests costs no more than one, and none waits longer than `READINESS_SECONDS`.


READINESS_SECONDS = 2.0
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


class ReadinessPage:
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

    def __init__(self, service: Callable[[], Service], page: ReadinessPage | None = None) -> None:
        self._service = service
        self._page = page or ReadinessPage()
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
        last.done.wait(max(0.0, last.begun + READINESS_SECONDS - time.monotonic()))
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
        page: ReadinessPage,
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

    def _find_answer(self, service: Service, living: tuple[membership.Member, ...]) -> str | None:
        return self._calls.find_answer(service, living, self._host, self.begun + READINESS_SECONDS)

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
    return {"status": "failed", "reason": f"no answer within {READINESS_SECONDS:g} s"}


class _Calls:
    """Calls of conductors on threads: at most one at a time for each conductor."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running: set[str] = set()
        self._answered: dict[str, float] = {}
        self._why: errors.Error | None = None

    def find_answer(
        self, service: Service, living: tuple[membership.Member, ...], host: str | None, end: float
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

    def _call(self, service: Service, members: Iterable[membership.Member], end: float) -> None:
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

    def _run(self, service: Service, one: membership.Member, end: float) -> None:
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


def _call_conductor(service: Service, one: membership.Member, seconds: float) -> None:
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


_TEXT = "text/plain; charset=UTF-8"
_JSON = "application/json"
_PARTS = ("api", "fleet")
_METHODS = frozenset({"GET", "HEAD"})


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """The answer of a probe."""

    status: int
    body: bytes
    kind: str


@dataclasses.dataclass(frozen=True, slots=True)
class Probe:
    """One path.

    ``guarded`` means that a login is needed, as for any request. ``any_method`` is set for a path
    that load balancers ask with other methods, such as OPTIONS. ``immediate`` means that the answer
    waits for nothing, so an event loop may give it.
    """

    path: str
    ask: Callable[[Environ], Answer]
    guarded: bool = False
    any_method: bool = False
    immediate: bool = False

    def takes(self, method: str) -> bool:
        """Return whether the probe answers this method."""
        return self.any_method or method in _METHODS

    def answer(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Answer a request that `middleware` has opened."""
        environ[request.CALL].route = self.path
        found = self.ask(environ)
        headers = [
            ("Content-Type", found.kind),
            ("Cache-Control", "no-store"),
            ("X-Content-Type-Options", "nosniff"),
        ]
        return request.send(environ, start_response, found.status, found.body, headers)


def probe_table(
    conf: Configuration, service: Callable[[], Service], page: ReadinessPage | None = None
) -> Mapping[str, Probe]:
    """Return the enabled probes by path.

    :param service: returns the objects that requests use.
    :param page: what the processes of an API share of their readiness.
    """
    readiness, exposition = Readiness(service, page), Exposition(service)

    def ready(_environ: Environ) -> Answer:
        well, results = readiness.ask()
        status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
        return Answer(status, orjson.dumps(results), _JSON)

    def scraped(environ: Environ) -> Answer:
        parts = _asked_parts(environ)
        accept = environ.get("HTTP_ACCEPT") or ""
        text, kind = exposition.text(accept, api="api" in parts, fleet="fleet" in parts)
        return Answer(HTTPStatus.OK, text, kind)

    found = [Probe("/livez", _answer_alive, immediate=True), Probe("/readyz", ready)]
    if conf.healthcheck.enabled:
        off = conf.healthcheck.disable_by_file_path
        found.append(
            Probe("/healthcheck", lambda asked: _answer_healthcheck(asked, off), any_method=True)
        )
    if conf.metrics.enabled:
        found.append(Probe("/metrics", scraped, guarded=not conf.metrics.public))
    return {probe.path: probe for probe in found}


def _answer_alive(_environ: Environ) -> Answer:
    """Answer that the process is alive, without any check."""
    return Answer(HTTPStatus.OK, b'{"status":"alive"}', _JSON)


def _answer_healthcheck(environ: Environ, off: str | None) -> Answer:
    """Answer like oslo.middleware's healthcheck, which load balancers know."""
    away = off is not None and os.path.exists(off)
    reasons = [] if off is None else ["DISABLED BY FILE" if away else "OK"]
    status = HTTPStatus.SERVICE_UNAVAILABLE if away else HTTPStatus.OK
    if environ["REQUEST_METHOD"] == "HEAD" and not away:
        return Answer(HTTPStatus.NO_CONTENT, b"", _TEXT)
    if _JSON in (environ.get("HTTP_ACCEPT") or ""):
        return Answer(status, orjson.dumps({"detailed": False, "reasons": reasons}), _JSON)
    return Answer(status, "\n".join(reasons).encode(), _TEXT)


def _asked_parts(environ: Environ) -> tuple[str, ...]:
    query: Json = request.parse_query(environ.get("QUERY_STRING") or "")
    only = query.pop("only", None)
    if query or only not in {None, *_PARTS}:
        name = next(iter(query), "only")
        raise errors.InvalidParameter(path=name, reason="only=api and only=fleet are known")
    return _PARTS if only is None else (only,)
