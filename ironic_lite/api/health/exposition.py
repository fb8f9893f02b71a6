"""Metrics for Prometheus: counts of API and conductors, and nodes by state.

The first scrape loads the library, so a service without scrapes never loads it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ironic_lite import errors
from ironic_lite.api.service import Service
from ironic_lite.core import certificate_files, log_lines, metrics
from ironic_lite.core.json_types import Json
from ironic_lite.core.metrics import Family
from ironic_lite.db.queries import batches, conductors, holds, node_counts
from ironic_lite.domain.batches import NodeState

LOG = logging.getLogger(__name__)

PREFIX = "ironic_lite_"
_FRESH = 1.0  # seconds that values read from the database are reused
FLEET: Mapping[str, Family] = {
    "database_up": Family("Whether the database could be read.", ()),
    "nodes": Family("Nodes.", ("provision_state", "maintenance")),
    "nodes_by_data_state": Family("Nodes by the state of the last user's data.", ("state",)),
    "holds": Family("Holds in force on nodes.", ("kind",)),
    "batches": Family("Batches that have not ended.", ("state",)),
    "batch_nodes": Family("Nodes of batches that have not ended.", ("state",)),
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
        rows = service.database.read(conductors.told)
        for row in rows:
            row["up"] = service.fleet.lives(row)
        return {
            "database": 1,
            "conductors": rows,
            "nodes": service.database.read(node_counts.nodes),
            "holds": service.database.read(holds.by_kind),
            "batches": service.database.read(batches.by_state),
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
            whole, members = fleet["batches"]
            states = ("running", "paused", "aborted")
            found = [((state,), whole.get(state, 0)) for state in states]
            yield _fleet_family("batches", found)
            found = [((str(state),), members.get(state, 0)) for state in NodeState]
            yield _fleet_family("batch_nodes", found)
        yield _fleet_family("conductor_up", [((row["hostname"],), row["up"]) for row in rows])
        ages = [((row["hostname"],), row["age"]) for row in rows]
        yield _fleet_family("conductor_counts_age_seconds", ages)


def _fleet_family(name: str, found: Sequence[tuple[tuple[str, ...], float]]) -> Any:
    return _gauge_family(name, FLEET[name], found)


def _gauge_family(name: str, family: Family, found: Sequence[tuple[tuple[str, ...], float]]) -> Any:
    from prometheus_client import core  # noqa: PLC0415

    made = core.GaugeMetricFamily(PREFIX + name, family.text, labels=family.labels)
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
    made = kind(PREFIX + name, family.text, labels=names)
    for (_, host), one in series:
        labels = [*(str(one[label]) for label in family.labels), *([host] if whose else [])]
        if family.buckets:
            buckets = [(row["le"], row["value"]) for row in one["buckets"]]
            made.add_metric(labels, buckets, one["sum"])
        else:
            made.add_metric(labels, one["value"])
    return made
