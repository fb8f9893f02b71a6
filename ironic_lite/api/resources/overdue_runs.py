"""Runs with a step that takes much longer than usual, or than its deadline."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from ironic_lite import errors
from ironic_lite.api.resources import queries
from ironic_lite.api.service import Service
from ironic_lite.core import clock
from ironic_lite.core.json_types import Row, RowView
from ironic_lite.db.queries import fleet_runs, overdue
from ironic_lite.domain import step_times

MOST = 1000
"""Runs that are listed, those that have been overdue longest among those that pass the filters."""


def page(
    service: Service, query: queries.Query, columns: Sequence[str], where: RowView
) -> list[Row]:
    """Return a page of overdue runs, those that have been overdue longest first.

    Statements: one for each 500 steps that have been under way for long, one for each step whose
    usual duration is not known, and one for each 1000 overdue runs until enough pass the filters.

    :param columns: of ``fleet_runs.page``, with uuid.
    :param where: the filters of ``fleet_runs.page``.
    :raises errors.NotFound: the marker is not one of these runs.
    """
    ordered = _find(service, where.get("of_owner"))
    rows = _filter(service, ordered, columns, where)
    if query.direction == "asc":
        rows.reverse()
    first = 0
    if query.marker is not None:
        found = [place for place, row in enumerate(rows, 1) if row["uuid"] == query.marker]
        if not found:
            raise errors.NotFound(what="Overdue run", ident=query.marker)
        first = found[0]
    return rows[first : first + query.limit]


def _filter(
    service: Service, ordered: Sequence[str], columns: Sequence[str], where: RowView
) -> list[Row]:
    """Return the first `MOST` of some runs that pass the filters, in their order."""
    found: list[Row] = []
    for first in range(0, len(ordered), MOST):
        some = ordered[first : first + MOST]
        chosen = {**where, "uuid": some}
        rows = service.database.read(
            lambda conn, chosen=chosen: fleet_runs.page(  # type: ignore[misc]
                conn, columns=columns, where=chosen, limit=MOST
            )
        )
        places = {uuid: place for place, uuid in enumerate(some)}
        found += sorted(rows, key=lambda row: places[row["uuid"]])
        if len(found) >= MOST:
            break
    return found[:MOST]


def _find(service: Service, owner: str | None) -> list[str]:
    """Return the UUIDs of overdue runs, those that have been overdue longest first."""
    now = clock.now()
    known: dict[str, datetime.datetime] = {}
    began = clock.ago(step_times.OVERDUE_SECONDS)
    for step in overdue.long_steps(service.database, began, owner=owner):
        usual = service.usual.of(
            step["interface"], step["step"], step["driver"], step["resource_class"]
        )
        late = step_times.overdue_of(usual, step["started_at"], now)
        since = late.since if late is not None else step["overdue_at"]
        if since is not None and (late is not None or overdue.is_marked(step)):
            known[step["run_uuid"]] = min(since, known.get(step["run_uuid"], since))
    return sorted(known, key=lambda run: known[run])
