"""Turn rows of the database into documents of the API.

A `Plan` is made once per (resource, version, fields) and cached. It lists the columns to fetch, and
changes fetched rows in place, only where the wire differs from the column.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import orjson

from ironic_lite.api.http.refusals import Linker
from ironic_lite.api.policy.access import OWNERS, REDACTED
from ironic_lite.core import masking
from ironic_lite.core.json_types import Row
from ironic_lite.domain import fields, waiting
from ironic_lite.domain.states import State

Shape = Callable[[Any], Any]

_AVAILABLE_SINCE = 2
_INSPECT_WAIT_SINCE = 39
_NOTES, _HEARD = "driver_internal_info", "agent_heard_at"


# Compared by identity, because each resource exists once and is a key of the cache of `plan`.
@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class Resource:
    """A shown resource: its collection's name in paths, its fields, and its link lists.

    ``key`` is the column that names a member in paths. ``below`` are the link lists and their
    versions; they are left out when the caller chose fields. ``needs`` are the columns for a
    computed field, or for the rule that decides whether the caller may see a field.
    """

    collection: str
    table: tuple[fields.Field, ...]
    key: str = "uuid"
    below: tuple[tuple[str, int], ...] = ()
    needs: tuple[tuple[str, tuple[str, ...]], ...] = ()


NODES = Resource(
    "nodes",
    fields.NODE,
    below=(("ports", 1), ("states", 14), ("portgroups", 24), ("volume", 32)),
    needs=(
        ("conductor", ("driver", "conductor_group")),
        (_NOTES, (_HEARD,)),
        *((name, OWNERS) for name in REDACTED),
    ),
)
PORTS = Resource("ports", fields.PORT)
PORTGROUPS = Resource("portgroups", fields.PORTGROUP, below=(("ports", 23),))
VOLUME_CONNECTORS = Resource("volume/connectors", fields.VOLUME_CONNECTOR)
VOLUME_TARGETS = Resource("volume/targets", fields.VOLUME_TARGET)
CHASSIS = Resource("chassis", fields.CHASSIS, below=(("nodes", 1),))
DEPLOY_TEMPLATES = Resource("deploy_templates", fields.DEPLOY_TEMPLATE)
ALLOCATIONS = Resource("allocations", fields.ALLOCATION)
RUNBOOKS = Resource("runbooks", fields.RUNBOOK)
INSPECTION_RULES = Resource("inspection_rules", fields.INSPECTION_RULE)
_DURATION = (("duration_seconds", ("started_at", "ended_at")),)
NODES_RUNS = Resource("runs", fields.WHOLE_RUN, needs=_DURATION)
RUNS = Resource("runs", fields.WHOLE_FLEET_RUN, needs=_DURATION)
_LISTED = (*_DURATION, *((name, ("state",)) for name in ("place", "eta", "stop")))
LISTED_NODES_RUNS = Resource("runs", fields.LISTED_RUN, needs=_LISTED)
LISTED_RUNS = Resource("runs", fields.LISTED_FLEET_RUN, needs=_LISTED)


@dataclasses.dataclass(frozen=True, slots=True)
class Plan:
    """A plan to fetch and show one choice of fields.

    ``columns`` are selected. ``computed`` are shown fields without a column, except links; the
    caller supplies their values. ``empties`` replace null. ``shapes`` convert values that are not
    null. ``drops`` are columns that are selected but not shown. ``names`` are pairs (column, field)
    with different names.
    """

    columns: tuple[str, ...]
    computed: frozenset[str]
    collection: str
    key: str
    empties: tuple[tuple[str, Any], ...]
    shapes: tuple[tuple[str, Shape], ...]
    names: tuple[tuple[str, str], ...]
    drops: tuple[str, ...]
    below: tuple[str, ...]
    texts: tuple[str, ...]

    @property
    def listed(self) -> str:
        """The key of the rows in a list's body: the last word of the collection."""
        return self.collection.rpartition("/")[2]

    def show(self, row: Row, linker: Linker) -> Row:
        """Return the document of one row, as `show_all`."""
        return self.show_all([row], linker)[0]

    def show_texts(
        self, rows: list[Row], linker: Linker, compute: Callable[[Row], None] | None = None
    ) -> list[Row]:
        """Do the same as `show_all` for rows whose columns ``texts`` are JSON text."""
        shaped = {column for column, _ in self.shapes}
        for column in self.texts:
            # Text without a conversion is passed on as stored.
            read = orjson.loads if column in shaped else orjson.Fragment
            for row in rows:
                if row[column] is not None:
                    row[column] = read(row[column])
        return self.show_all(rows, linker, compute)

    def show_all(
        self, rows: list[Row], linker: Linker, compute: Callable[[Row], None] | None = None
    ) -> list[Row]:
        """Turn ``rows`` into documents in place, field after field, and return them.

        :param rows: each with a value for each of ``columns``, and of ``computed`` where known.
        :param compute: adds values of ``computed`` to a row, and hides fields that the caller may
            not see (`Access.redactor`); values still missing are null.
        """
        for name in self.computed:
            for row in rows:
                row.setdefault(name)
        if compute is not None:
            for row in rows:
                compute(row)
        self._translate_values(rows)
        linker.fill(rows, self.key, self.below)
        for column, name in self.names:
            for row in rows:
                row[name] = row.pop(column)
        for column in self.drops:
            for row in rows:
                del row[column]
        return rows

    def _translate_values(self, rows: list[Row]) -> None:
        if _HEARD in self.columns:
            for row in rows:
                row[_NOTES] = waiting.shown_notes(row)
        for column, shape in self.shapes:
            for row in rows:
                if row[column]:
                    row[column] = shape(row[column])
        for column, empty in self.empties:
            for row in rows:
                if row[column] is None:
                    row[column] = empty


def linker(plan: Plan, base: str) -> Linker:
    """Return the maker of links for the rows of ``plan``; ``base`` is ``Request.base``."""
    return Linker(base, plan.collection)


@lru_cache(maxsize=512)
def plan(resource: Resource, names: tuple[str, ...], version: int, *, full: bool) -> Plan:
    """Return the plan for the fields ``names`` at minor version ``version``.

    :param full: True adds the link lists of a resource (the caller chose no fields).
    """
    known = fields.by_name(resource.table)
    shown = tuple(dict.fromkeys(known[name] for name in names))
    stored = tuple(field for field in shown if field.stored is not None)
    columns = tuple(str(field.stored) for field in stored)
    needed = tuple(
        column for name, columns_ in resource.needs if name in names for column in columns_
    )
    drops = tuple(dict.fromkeys(c for c in (resource.key, *needed) if c not in columns))
    return Plan(
        columns=(*columns, *drops),
        computed=frozenset(f.name for f in shown if f.stored is None) - {"links"},
        collection=resource.collection,
        key=resource.key,
        empties=tuple((str(f.stored), f.empty) for f in stored if f.empty is not None),
        shapes=tuple((str(f.stored), s) for f in stored for s in _field_shapes(f, version)),
        names=tuple((str(f.stored), f.name) for f in stored if f.stored != f.name),
        drops=drops,
        below=tuple(name for name, since in resource.below if full and since <= version),
        texts=tuple(str(f.stored) for f in stored if f.type is fields.Type.OBJECT),
    )


def _field_shapes(field: fields.Field, version: int) -> list[Shape]:
    shapes: list[Shape] = []
    if field.secret:
        shapes.append(masking.shape(field.name))
    if field.name == "provision_state":
        if version < _AVAILABLE_SINCE:
            shapes.append(_unless_available)
        if version < _INSPECT_WAIT_SINCE:
            shapes.append(_inspecting_state)
    return shapes


def _unless_available(state: str) -> str | None:
    """Show null for available: versions before 1.2 have no name for that state.

    Source: S5.2.
    """
    return None if state == State.AVAILABLE else state


def _inspecting_state(state: str | None) -> str | None:
    return State.INSPECTING.value if state == State.INSPECTWAIT else state
