"""Events as clients see them, and the filters that choose among them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import NamedTuple

import orjson

from ironic_lite.core.json_types import Json, RowView
from ironic_lite.domain import history, notifications

_OPTIONS = orjson.OPT_NAIVE_UTC
_FIELDS: Mapping[str, str] = {
    # key of the document: column
    "at": "at",
    "node": "node_uuid",
    "name": "name",
    "kind": "kind",
    "event": "event",
    "before": "before",
    "after": "after",
    "run": "run_uuid",
    "requester": "requester",
    "project": "project",
    "request_id": "request_id",
    "conductor": "conductor",
}


class Event:
    """One event; its line is made once for all streams."""

    def __init__(self, row: RowView) -> None:
        self.row = row
        self.id: int = row["id"]

    @property
    def document(self) -> Json:
        """The event as an object of the API."""
        shown = {key: self.row[column] for key, column in _FIELDS.items()}
        if self.row["kind"] in notifications.NODELESS:
            shown["node"] = None  # the column has a UUID made of that of the resource
        data = self.row["data"] or {}
        if history.UNMASKED in data:
            data = {name: value for name, value in data.items() if name != history.UNMASKED}
        return {"cursor": str(self.id), **shown, "data": data}

    @cached_property
    def line(self) -> bytes:
        """The event as a line of a stream."""
        return orjson.dumps(self.document, option=_OPTIONS) + b"\n"

    @cached_property
    def unnamed(self) -> Event:
        """The event without the name of its node, for projects that may not see the node now."""
        return Event({**self.row, "name": None})


class Filter(NamedTuple):
    """Chooses events; None accepts every value.

    :ivar nodes: UUIDs of nodes.
    :ivar runs: UUIDs of runs.
    :ivar owner: the only project whose events are shown: those of batches and nodes that it owned
        when they were written.
    """

    nodes: frozenset[str] | None = None
    runs: frozenset[str] | None = None
    kinds: frozenset[str] | None = None
    owner: str | None = None

    def accepts(self, event: Event) -> bool:
        """Return whether an event passes."""
        row = event.row
        return (
            (self.nodes is None or row["node_uuid"] in self.nodes)
            and (self.runs is None or row["run_uuid"] in self.runs)
            and (self.kinds is None or row["kind"] in self.kinds)
            and (self.owner is None or row["owner"] == self.owner)
        )

    def shown(self, event: Event) -> Event:
        """Return an accepted event as the reader may see it."""
        row = event.row
        visible = self.owner is None or self.owner in (row["node_owner"], row["node_lessee"])
        return event if visible or row["name"] is None else event.unnamed

    @property
    def where(self) -> dict[str, Collection[str]]:
        """The filter for `db.queries.feed.page`."""
        given: dict[str, Collection[str] | None] = {
            "node_uuid": self.nodes,
            "run_uuid": self.runs,
            "kind": self.kinds,
            "owner": None if self.owner is None else (self.owner,),
        }
        return {column: values for column, values in given.items() if values is not None}
