"""Queries on webhooks: their number, changes that lose to others, deliveries put aside."""

from __future__ import annotations

import functools
import threading
import time
import uuid
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.features.webhooks import rows, rules
from tests.support.at_once import at_once

pytestmark = pytest.mark.feature("webhooks")


def row_of(**values: Any) -> dict[str, Any]:
    return {
        **dict.fromkeys(rows.COLUMNS[1:]),
        **rows.BLANK,
        "uuid": str(uuid.uuid4()),
        "url": "https://hooks.example.org/",
        "kinds": ["provision"],
        "secret": {"current": "whsec_AAAA"},
        "state": "active",
        "generation": 1,
        "position": 0,
        "created_at": clock.now(),
        **values,
    }


def add(database: Database, **values: Any) -> str:
    row = row_of(**values)
    database.write(functools.partial(rows.add, values=row))
    return str(row["uuid"])


def get(database: Database, hook: str) -> dict[str, Any]:
    return database.read(functools.partial(rows.get, uuid=hook))


def put_aside(database: Database, hook: str, count: int) -> None:
    def work(conn: Connection) -> None:
        for number in range(count):
            values = {"webhook_uuid": hook, "position": number, "first": number + 1}
            outcome = {"last": number + 1, "status": 422, "answer": "no", "at": clock.now()}
            rows.put_aside(conn, {**values, **outcome})

    database.write(work)


def test_webhooks_are_limited_and_listed_in_their_order(database: Database) -> None:
    made = [add(database) for _ in range(rules.MOST)]
    with pytest.raises(errors.TooManyWebhooks):
        add(database)
    assert [row["uuid"] for row in database.read(rows.every)] == made
    database.write(functools.partial(rows.remove, uuid=made[7]))
    assert add(database) not in made
    with pytest.raises(errors.NotFound):
        database.write(functools.partial(rows.remove, uuid=made[7]))


def test_limit_holds_for_requests_at_once(database: Database) -> None:
    for _ in range(rules.MOST - 1):
        add(database)
    added = threading.Event()

    def slow(conn: Connection) -> None:
        rows.add(conn, row_of())
        added.set()
        time.sleep(0.3)  # the others count before the commit

    def work(number: int) -> None:
        if number == 0:
            database.write(slow)
        elif added.wait(10):
            add(database)

    made = at_once(4, work)
    assert [isinstance(one, errors.TooManyWebhooks) for one in made] == [False, True, True, True]
    assert len(database.read(rows.every)) == rules.MOST


def test_values_are_read_as_they_were_written(database: Database) -> None:
    large = 2**53 + 1
    hook = add(database, position=large, first=large + 1, last=large + 2, nodes=["a"])
    row = get(database, hook)
    assert (row["position"], row["first"], row["last"]) == (large, large + 1, large + 2)
    assert (row["kinds"], row["nodes"]) == (["provision"], ["a"])
    assert row["secret"] == {"current": "whsec_AAAA"}


def test_change_of_an_older_row_is_not_written(database: Database) -> None:
    hook = add(database)
    old = get(database, hook)
    change = functools.partial(rows.change, row=old)
    assert database.write(functools.partial(change, values={"position": 5}))
    assert not database.write(functools.partial(change, values={"position": 3}))
    row = get(database, hook)
    assert (row["position"], row["generation"]) == (5, 2)


def test_oldest_deliveries_put_aside_are_forgotten(database: Database) -> None:
    hook, other = add(database), add(database)
    put_aside(database, other, 2)
    put_aside(database, hook, rules.MOST_FAILURES + 3)
    kept = database.read(functools.partial(rows.failures, uuid=hook))
    assert [one["position"] for one in kept] == list(range(3, rules.MOST_FAILURES + 3))
    assert len(database.read(functools.partial(rows.failures, uuid=other))) == 2
    one = functools.partial(rows.failure, ident=kept[0]["id"])
    assert database.read(functools.partial(one, uuid=hook))["position"] == 3
    with pytest.raises(errors.NotFound):
        database.read(functools.partial(one, uuid=other))


def test_removed_webhook_takes_its_deliveries_along(database: Database) -> None:
    hook, other = add(database), add(database)
    put_aside(database, hook, 2)
    put_aside(database, other, 1)
    database.write(functools.partial(rows.remove, uuid=hook))
    assert database.read(functools.partial(rows.failures, uuid=hook)) == []
    assert len(database.read(functools.partial(rows.failures, uuid=other))) == 1
