"""Changing and removing a member of a small family: one transaction, then listeners are told.

History is of nodes, and keeps nothing of this.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from ironic_lite import clock
from ironic_lite.api import expose, happenings
from ironic_lite.api.exchange import Request
from ironic_lite.db.session import Connection

Json = dict[str, Any]


class Family(Protocol):
    """A module of queries on one family."""

    def get(self, conn: Connection, ident: str, /, *, hold: bool = False) -> Json:
        """Return one row; with ``hold`` nobody else changes it before the transaction ends."""

    def update(self, conn: Connection, uuid: str, values: Mapping[str, Any], /) -> None:
        """Change one row."""

    def delete(self, conn: Connection, ident: str, /) -> None:
        """Remove one row."""


class Controller(expose.Controller):
    """The methods of one family; its events are ``<word>_created``, ``_updated``, ``_deleted``."""

    family: Family
    word: str

    def change(self, request: Request, ident: str, judge: Callable[[Json], Json]) -> Json:
        """Change a member, and return it as it is now.

        :param judge: returns the changes of the row it is given, or refuses them.
        """

        def write(conn: Connection) -> tuple[Json, Json]:
            # Held, so that of two patches that add to the same value none is lost.
            before = self.family.get(conn, ident, hold=True)
            changes = judge(before)
            if changes:
                changes["updated_at"] = clock.now()
                self.family.update(conn, before["uuid"], changes)
            return changes, {**before, **changes}

        changes, row = self.service.database.write(write)
        if changes:
            self.tell(request, "updated", row)
        return row

    def remove(self, request: Request, ident: str) -> None:
        """Remove a member; it is read before only if somebody listens."""
        listened = self.service.notifier.on

        def write(conn: Connection) -> Json | None:
            gone = self.family.get(conn, ident) if listened else None
            self.family.delete(conn, ident)
            return gone

        gone = self.service.database.write(write)
        if gone:
            self.tell(request, "deleted", gone)

    def tell(self, request: Request, what: str, row: Json) -> None:
        """Tell listeners of a member that was ``created``, ``updated`` or ``deleted``."""
        told = happenings.of(request.who, None, f"{self.word}_{what}")
        self.service.notifier.tell(request.who, [told], row)
