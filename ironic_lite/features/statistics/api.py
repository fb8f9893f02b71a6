"""Statistics of ended steps and numbers of nodes by their fields, which Ironic does not have."""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ironic_lite import errors
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request
from ironic_lite.api.policy import Rule
from ironic_lite.api.policy.node_rules import READER
from ironic_lite.api.resources import pages, queries
from ironic_lite.api.resources.recent import Recent
from ironic_lite.api.service import Extension, Service
from ironic_lite.api.validation import shapes
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes
from ironic_lite.domain import fields
from ironic_lite.features.statistics import rows
from ironic_lite.features.statistics.rules import StepFigures

if TYPE_CHECKING:
    from ironic_lite.api.openapi.parts import Schemas

# Numbers of nodes by their fields, for overviews of many nodes.

FIELDS = (
    *("provision_state", "power_state", "maintenance", "fault", "driver", "resource_class"),
    *("conductor_group", "shard", "retired", "data_state"),
)
FILTERS = tuple(one.name for one in queries.NODES.filters if one.name != "conductor")
"""Filters of a list of nodes, except the conductor, which no column contains."""
COUNTS_KEPT_SECONDS = 2.0
MOST_GROUPS = 1000
_MOST_FIELDS = 3
_MOST_KEPT = 64


def read(given: Mapping[str, str], *, version: int) -> tuple[tuple[str, ...], Json]:
    """Return the fields to count by, and the parsed filters.

    :param given: argument -> text.
    :raises errors.InvalidParameter: an unknown argument, or a value that cannot be read.
    :raises errors.NotAcceptable: a field or filter newer than ``version``.
    """
    if "conductor" in given:
        reason = "is computed for each node, so it cannot be counted; use conductor_group"
        raise errors.InvalidParameter(path="conductor", reason=reason)
    queries.refuse_unknown(given, ("by", *FILTERS))
    names = tuple(dict.fromkeys(name.strip() for name in given.get("by", "").split(",")))
    if len(names) > _MOST_FIELDS or not set(names) <= set(FIELDS):
        reason = f"must be one to {_MOST_FIELDS} of: {', '.join(FIELDS)}"
        raise errors.InvalidParameter(path="by", reason=reason)
    by = fields.select(fields.NODE, names, version)
    return by, queries.filters(queries.NODES, given, version=version)


class NodeCounts:
    """Counts nodes, and keeps each result for `COUNTS_KEPT_SECONDS`.

    :param now: a clock in seconds that cannot be set.
    """

    def __init__(self, database: Database, now: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._recent: Recent[Json] = Recent(COUNTS_KEPT_SECONDS, _MOST_KEPT, now)

    def document(self, by: tuple[str, ...], where: JsonView) -> Json:
        """Return the numbers of the nodes that match ``where``, the largest first.

        :param where: filters, narrowed to the nodes that the caller may list. Callers with equal
            filters share a result.
        :raises errors.InvalidParameter: there are more than `MOST_GROUPS` groups.
        """
        key = (by, *sorted((name, repr(value)) for name, value in where.items()))
        return self._recent.of(key, lambda: self._count(by, where))

    def _count(self, by: tuple[str, ...], where: JsonView) -> Json:
        rows = self._database.read(
            lambda conn: nodes.counts(conn, by=by, where=where, most=MOST_GROUPS + 1)
        )
        if len(rows) > MOST_GROUPS:
            reason = f"makes more than {MOST_GROUPS} groups; name fewer fields, or add a filter"
            raise errors.InvalidParameter(path="by", reason=reason)
        known = fields.by_name(fields.NODE)
        empty = [known[name].empty for name in by]
        counts: dict[tuple[Any, ...], int] = {}
        for *values, count in rows:
            # A field that is shown as "unknown" while unset has one group for both.
            shown = tuple(blank if v is None else v for v, blank in zip(values, empty, strict=True))
            counts[shown] = counts.get(shown, 0) + count
        ordered = sorted(counts.items(), key=lambda one: (-one[1], str(one[0])))
        return {
            "by": list(by),
            "of": sum(counts.values()),
            "counts": [{**dict(zip(by, key, strict=True)), "count": n} for key, n in ordered],
        }


# Statistics of ended steps: read once a minute, by one request at a time.

KEPT_SECONDS = 60.0
_PATIENCE = 2.0
"""Seconds that a request waits for the one before it."""


class StepStatistics:
    """Reads and keeps the statistics; one object serves all threads of a process.

    :param now: a clock in seconds that cannot be set.
    """

    def __init__(self, database: Database, now: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._now = now
        self._turn = threading.Lock()
        self._kept: StepFigures | None = None
        self._read_at = float("-inf")

    def document(self, since: datetime.datetime | None, **where: str | None) -> Json:
        """Return the statistics of the chosen steps.

        :param since: only steps that ended then or later.
        :param where: values by name: interface, step, driver, resource_class.
        :raises errors.Unavailable: another request has read the steps for too long.
        """
        kept = self._current()
        return {"steps": kept.grouped(since=since, **where), "of": kept.count, "from": kept.first}

    def _current(self) -> StepFigures:
        """Return the statistics of this minute, which never change; others group them meanwhile."""
        if not self._turn.acquire(timeout=_PATIENCE):
            raise errors.Unavailable(_BUSY)
        try:
            if self._kept is None or self._now() - self._read_at >= KEPT_SECONDS:
                self._kept = None  # the memory of two is not needed
                self._kept = self._database.read(lambda conn: StepFigures(rows.newest(conn)))
                self._read_at = self._now()
            return self._kept
        finally:
            self._turn.release()


_BUSY = "The statistics of steps are being read for another request; retry in a moment."


class Statistics(expose.Controller):
    """/v1/stats."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self._statistics = StepStatistics(service.database)
        self._node_counts = NodeCounts(service.database)

    @expose.expose("GET", "/stats/steps")
    def steps(
        self,
        _request: Request,
        step: str | None = None,
        driver: str | None = None,
        resource_class: str | None = None,
        since: str | None = None,
    ) -> Json:
        """Return durations and failures of ended steps, by step, driver and resource class."""
        interface, name = (None, None) if step is None else _read_title(step)
        start = None if since is None else queries.read_moment(since, "since")
        return self._statistics.document(
            start, interface=interface, step=name, driver=driver, resource_class=resource_class
        )

    @expose.expose("GET", "/stats/nodes", raw_query=True)
    def nodes(self, request: Request) -> Json:
        """Return the numbers of nodes by up to three of their fields."""
        by, where = read(request.query, version=request.version)
        return self._node_counts.document(by, pages.narrowed(request, where, "node"))


def _read_title(text: str) -> tuple[str, str]:
    interface, dot, name = text.partition(".")
    if not (interface and dot and name):
        reason = f"{text[:64]!r} is not of the form interface.step, such as deploy.erase_devices"
        raise errors.InvalidParameter(path="step", reason=reason)
    return interface, name


def _answers() -> Mapping[str, Schemas]:
    from ironic_lite.api.openapi.answers import TEXT, TEXT_OR_NULL  # noqa: PLC0415
    from ironic_lite.api.openapi.parts import Schemas, object_with_all  # noqa: PLC0415

    seconds: Json = {"type": ["number", "null"]}
    statistics = object_with_all(
        steps={
            "type": "array",
            "items": object_with_all(
                **dict.fromkeys(("interface", "step", "kind"), TEXT),
                **dict.fromkeys(("driver", "resource_class"), TEXT_OR_NULL),
                **{name: {"type": "integer"} for name in ("count", "failed", "aborted")},
                codes={"type": "object", "additionalProperties": {"type": "integer"}},
                **dict.fromkeys(("p50", "p90", "p99", "longest"), seconds),
            ),
        },
        of={"type": "integer"},
        **{"from": {"type": ["string", "null"], "format": "date-time"}},
    )
    counts = object_with_all(
        by={"type": "array", "items": {"enum": list(FIELDS)}, "minItems": 1, "maxItems": 3},
        of={"type": "integer"},
        counts={
            "type": "array",
            "items": shapes.closed(
                ("count",),
                **{name: {"type": ["string", "boolean", "null"]} for name in FIELDS},
                count={"type": "integer"},
            ),
        },
    )
    query: Json = {"by": TEXT, **dict.fromkeys(FILTERS, TEXT)}
    return {
        "GET /stats/steps": Schemas(statistics),
        "GET /stats/nodes": Schemas(counts, query=query),
    }


EXTENSION = Extension(
    (Statistics,),
    (
        Rule(
            "baremetal:statistics:get",
            READER,
            "Read durations and failures of the steps of all nodes.",
            ("GET /stats/steps",),
        ),
    ),
    _answers,
)
