"""Nodes that need a person: GET /v1/attention, one document for all of the fleet.

Ironic does not have it: every version of this API does.
"""

from __future__ import annotations

import datetime
import threading
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from ironic_lite import errors
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request
from ironic_lite.api.policy import Rule
from ironic_lite.api.policy.access import OWNERS
from ironic_lite.api.policy.node_rules import ANY_READER
from ironic_lite.api.resources import node_lookup, pages, queries, run_documents
from ironic_lite.api.resources.recent import Recent
from ironic_lite.api.service import Extension, Service
from ironic_lite.core import clock
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import conductors, nodes
from ironic_lite.domain import causes
from ironic_lite.features.attention import rows, rules

if TYPE_CHECKING:
    from ironic_lite.api.openapi.parts import Schemas

FILTERS = tuple(one.name for one in queries.NODES.filters if one.name not in ("conductor", "cause"))
"""Filters of a list of nodes, except the conductor, which no column contains."""
KEPT_SECONDS = 2.0
_MOST_KEPT = 64
_TURNS = 16
_PATIENCE = 5.0
"""Seconds that a request waits for the one before it."""
_BUSY = "What needs a person is being read for another request; retry in a moment."
_STATES = 100  # more than there are


class _FleetFacts(NamedTuple):
    """Rows and numbers of the nodes that a caller may list."""

    fleet: Mapping[str, int]
    needs: rules.Needs
    chosen: list[rules.Cause]
    details: Mapping[int, Json]
    runs: Mapping[str, int]
    failures: Mapping[str, int]


class Attention(expose.Controller):
    """/v1/attention."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self._recent: Recent[Json] = Recent(KEPT_SECONDS, _MOST_KEPT)
        self._turns = [threading.Lock() for _ in range(_TURNS)]

    @expose.expose("GET", "/attention", raw_query=True)
    def show(self, request: Request) -> Json:
        """Return what needs a person, by cause: at most twelve statements in two seconds."""
        given = request.query
        if "conductor" in given:
            reason = "is computed for each node, so it cannot be grouped; use conductor_group"
            raise errors.InvalidParameter(path="conductor", reason=reason)
        queries.refuse_unknown(given, ("cause", "limit", *FILTERS))
        keys = queries.read_causes(given["cause"], "cause") if "cause" in given else []
        limit = queries.read_limit(given.get("limit"), rules.MOST_CAUSES)
        kept = {name: text for name, text in given.items() if name in FILTERS}
        where = queries.filters(queries.NODES, kept, version=request.version)
        where = pages.narrowed(request, where, "node")
        chosen = sorted((name, repr(value)) for name, value in where.items())
        key = (request.access.key, *sorted(keys), *chosen)
        turn = self._turns[hash(key) % _TURNS]  # equal questions wait for one answer
        if not turn.acquire(timeout=_PATIENCE):
            raise errors.Unavailable(_BUSY)
        try:
            found = self._recent.of(key, lambda: self._document(request, where, keys))
        finally:
            turn.release()
        shown, cut = found["causes"][:limit], found["causes"][limit:]
        if "project" in where:
            shown = self._without_others(where, shown)
        left_out = found["causes_left_out"] + sum(one["nodes"] for one in cut)
        return {**found, "causes_left_out": left_out, "causes": shown}

    def _without_others(self, where: JsonView, shown: list[Json]) -> list[Json]:
        """Return causes without the names of nodes that have left the project meanwhile."""
        uuids = [one["uuid"] for cause in shown for one in cause["sample"]]
        chosen: Json = {"columns": ("uuid",), "where": {**where, "uuid": uuids}}
        found = self.service.database.read(lambda conn: nodes.page(conn, **chosen)) if uuids else ()
        own = {node["uuid"] for node in found}
        return [
            {**cause, "sample": [one for one in cause["sample"] if one["uuid"] in own]}
            for cause in shown
        ]

    def _document(self, request: Request, where: JsonView, keys: Collection[str]) -> Json:
        now = clock.now()
        found = self.service.database.read(
            lambda conn: self._read(conn, request, where, keys, since=rules.hours_since(now))
        )
        shown = rules.fitting([*self._causes(found, now)])
        needs = found.needs
        parts = {
            name: read(self.service, request)
            for each in self.service.extensions
            for name, read in each.attention.items()
        }
        batches = parts.get("batches")
        down, lonely = self._conductors(request)
        document: Json = {
            "at": now,
            "status": "ok",
            "needs_human": needs.nodes,
            "of": sum(found.fleet.values()),
            "causes_left_out": 0 if keys else needs.listed + needs.rest - _count(shown),
            "silenced": dict(needs.silenced),
            "causes": shown,
            "fleet": dict(sorted(found.fleet.items(), key=lambda one: -one[1])),
            "runs": dict(found.runs),
            "failures": rules.failures_by_hour(found.failures, now),
            "batches": batches and rules.paused_first(batches),
            "conductors": down,
            "findings": None,
            "certificates": None,
            "webhooks": parts.get("webhooks"),
        }
        document["status"] = rules.status(document, group_without_conductor=lonely)
        return document

    def _read(
        self,
        conn: Connection,
        request: Request,
        where: JsonView,
        keys: Collection[str],
        *,
        since: datetime.datetime,
    ) -> _FleetFacts:
        own = node_lookup.own_filters(request, run_documents.READ_OF_FLEET)
        counted = nodes.counts(conn, by=("provision_state",), where=where, most=_STATES)
        fleet: dict[str, int] = {str(state): int(number) for state, number in counted}
        late = rows.late_steps(conn, where)
        groups = rows.groups(conn, where, own, {step.node_id for step in late})
        numbers = rules.numbers(groups, late)
        rest = sum(fleet.get(state, 0) for state in causes.FAIL_STATES) - numbers[rules.FAILED]
        for kind, most in ((rules.UNVERIFIED, rows.MOST_FAILED), (rules.OVERDUE, rows.MOST_LATE)):
            if numbers[kind] >= most:
                rest += rows.count(conn, kind, where) - most
        needs = rules.needs_human(groups, late, max(0, rest))
        chosen = rules.chosen(needs, keys)
        details = rows.details(conn, chosen, where, own)
        _redact(request, details.values())
        running, failures = rows.runs(conn, where, own, since)
        return _FleetFacts(fleet, needs, chosen, details, running, failures)

    def _causes(self, found: _FleetFacts, now: datetime.datetime) -> list[Json]:
        steps = [one.step for one in found.chosen if one.step is not None]
        usual = self.service.usual.of_all(steps, None, None)
        shown = []
        for one in found.chosen:
            known = usual.get(one.step) if one.step is not None else None
            p90 = known.p90 if known is not None else None
            shown.append(rules.cause_document(one, found.details, p90, now))
        return shown

    def _conductors(self, request: Request) -> tuple[list[Json] | None, bool]:
        """Return the dead conductors, and whether a group with nodes has no living one."""
        if not request.access.allows("baremetal:conductor:get"):
            return None, False
        found = self.service.database.read(conductors.members)
        living = {one["conductor_group"] for one in found if self.service.fleet.lives(one)}
        down = [
            {"hostname": one["hostname"], "seen_at": one["updated_at"]}
            for one in found
            if one["online"] and not self.service.fleet.lives(one)
        ]
        lonely = self.service.database.read(lambda conn: rows.has_group_without(conn, living))
        return down, lonely


def _redact(request: Request, found: Iterable[Json]) -> None:
    """Hide ``last_error`` of nodes, where a rule hides it from the caller."""
    if (redact := request.access.redactor()) is None:
        return
    for node in found:
        shown = {name: node[name] for name in ("last_error", *OWNERS)}
        redact(shown)
        node["last_error"] = shown["last_error"]


def _count(shown: list[Json]) -> int:
    return sum(one["nodes"] for one in shown)


def _answers() -> Mapping[str, Schemas]:
    from ironic_lite.api.openapi.answers import (  # noqa: PLC0415
        OBJECT,
        TEXT,
        TEXT_OR_NULL,
    )
    from ironic_lite.api.openapi.parts import Schemas, object_with_all  # noqa: PLC0415

    number: Json = {"type": "integer"}
    moment: Json = {"type": ["string", "null"], "format": "date-time"}
    seconds: Json = {"type": ["number", "null"]}
    numbers: Json = {"type": "object", "additionalProperties": number}
    some: Json = {"type": ["array", "null"], "items": OBJECT}
    cause = object_with_all(
        cause=TEXT,
        kind={"enum": list(rules.KINDS)},
        **dict.fromkeys(("verb", "step", "code"), TEXT_OR_NULL),
        **dict.fromkeys(("text", "example"), TEXT),
        **dict.fromkeys(("nodes", "retrying", "silenced"), number),
        **dict.fromkeys(("first_at", "last_at"), moment),
        sample={"type": "array", "items": object_with_all(uuid=TEXT, name=TEXT_OR_NULL)},
        do=TEXT_OR_NULL,
        verbs={"type": "array", "items": TEXT},
        **dict.fromkeys(("usual_p90", "longest_seconds"), seconds),
        href=TEXT_OR_NULL,
    )
    document = object_with_all(
        at=moment,
        status={"enum": ["ok", "warning", "critical"]},
        **dict.fromkeys(("needs_human", "of", "causes_left_out"), number),
        causes={"type": "array", "items": cause, "maxItems": rules.MOST_CAUSES},
        **dict.fromkeys(("silenced", "fleet", "runs"), numbers),
        failures=object_with_all(
            seconds=number, counts={"type": "array", "items": number}, **{"from": moment}
        ),
        **dict.fromkeys(("batches", "conductors", "findings", "certificates", "webhooks"), some),
    )
    query: Json = dict.fromkeys(("cause", "limit", *FILTERS), TEXT)
    return {"GET /attention": Schemas(document, query=query)}


EXTENSION = Extension(
    (Attention,),
    (
        Rule(
            "baremetal:attention:get",
            ANY_READER,
            "See what needs a person among the nodes that the caller may list.",
            ("GET /attention",),
        ),
    ),
    _answers,
)
