"""Numbers of nodes by their fields, for overviews of many nodes."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from ironic_lite import errors
from ironic_lite.api.resources import queries
from ironic_lite.api.resources.recent import Recent
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes
from ironic_lite.domain import fields

FIELDS = (
    *("provision_state", "power_state", "maintenance", "fault", "driver", "resource_class"),
    *("conductor_group", "shard", "retired", "data_state"),
)
FILTERS = tuple(one.name for one in queries.NODES.filters if one.name != "conductor")
"""Filters of a list of nodes, except the conductor, which no column contains."""
KEPT_SECONDS = 2.0
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
    """Counts nodes, and keeps each result for `KEPT_SECONDS`.

    :param now: a clock in seconds that cannot be set.
    """

    def __init__(self, database: Database, now: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._recent: Recent[Json] = Recent(KEPT_SECONDS, _MOST_KEPT, now)

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
