"""Changes of rows that need no stop: made in small parts, while the service runs on them.

A schema migration (``alembic/versions``) changes tables, and is quick. What has to be changed in
many rows is a `Change` here: the release that brings it reads rows of both forms and writes the new
one, and operators have the rest rewritten by ``ironic-lite-dbsync online_data_migrations``, at any
time before the release that knows the new form only. That one's schema migration is named by
``before``: it refuses to begin while rows of the old form are left.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from ironic_lite import errors
from ironic_lite.db.session import Connection, Database

PART = 50
"""Rows of one transaction: few enough that nobody waits for it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """One change of data.

    :ivar name: what operators are shown: ``snake_case``.
    :ivar before: the schema revision that needs it done.
    :ivar left: returns how many rows are of the old form; one statement over an index.
    :ivar act: rewrites at most so many rows, and returns how many; nothing but statements.
    """

    name: str
    before: str
    left: Callable[[Connection], int]
    act: Callable[[Connection, int], int]


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
    """What one change has come to: rows that were of the old form, and that were rewritten."""

    name: str
    found: int
    done: int


CHANGES: tuple[Change, ...] = ()
"""None yet: all rows that a release has written are of the form that this one writes."""


def run(database: Database, most: int | None = None) -> list[Outcome]:
    """Carry out all changes, in their order, part by part.

    :param most: rows in all at which to stop, None for no limit.
    :raises errors.Unavailable: the database is away; what is done is done.
    """
    outcomes = []
    for change in CHANGES:
        found = database.read(change.left)
        done = _run(database, change, most)
        if most is not None:
            most -= done
        outcomes.append(Outcome(change.name, found, done))
    return outcomes


def _run(database: Database, change: Change, most: int | None) -> int:
    done = 0
    while most is None or done < most:
        size = PART if most is None else min(PART, most - done)
        changed = database.write(lambda conn, size=size: change.act(conn, size))  # type: ignore[misc]
        done += changed
        if changed < size:
            break
    return done


def left(conn: Connection) -> dict[str, int]:
    """Return how many rows of the old form each change has left, those with none not named."""
    counts = {change.name: change.left(conn) for change in CHANGES}
    return {name: count for name, count in counts.items() if count}


def refuse(conn: Connection, found: str | None, wanted: str) -> None:
    """Make sure that a schema migration finds no rows of a form that its release does not know.

    :param found: the revision before, None for an empty database.
    :param wanted: the revision after.
    :raises errors.Error: naming what has to be done first; nothing has changed.
    """
    needed = [each for each in CHANGES if found is not None and found < each.before <= wanted]
    open_ = {each.name: each.left(conn) for each in needed}
    if any(open_.values()):
        rows = ", ".join(f"{name}: {count}" for name, count in open_.items() if count)
        raise errors.Error(
            f"Rows of an older form are left in the database ({rows}): run ironic-lite-dbsync "
            "online_data_migrations of the release before, then upgrade."
        )
