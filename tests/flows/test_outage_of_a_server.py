"""A server that ends connections in mid-commit costs no run and no request; skipped without one."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import sqlalchemy as sa

from ironic_lite.db.engine import session
from ironic_lite.db.tables import migrate
from tests.support import database_servers
from tests.support.conductor_fixture import ConductorFixture


@contextlib.contextmanager
def ending(thread: str) -> Iterator[tuple[session.Database, list[int]]]:
    """Give a database that ends each second connection that a thread of this name commits over."""
    numbers = itertools.count()
    ended: list[int] = []

    def end(conn: Any) -> None:
        if threading.current_thread().name.startswith(thread) and next(numbers) % 2 == 0:
            number = conn.exec_driver_sql("SELECT pg_backend_pid()").scalar()
            database_servers.admin("postgresql", f"SELECT pg_terminate_backend({number})")
            ended.append(number)

    with contextlib.ExitStack() as open_:
        url = open_.enter_context(database_servers.own_database("postgresql", "outage"))
        database = open_.enter_context(contextlib.closing(session.open_database(url)))
        migrate.upgrade(database)
        sa.event.listen(database.engine, "commit", end)
        yield database, ended


def test_a_clean_survives_the_end_of_each_second_commit(
    build: Callable[..., ConductorFixture],
) -> None:
    with ending("worker") as (database, ended):
        rig = build(database)
        node = rig.node()
        row = rig.clean(node, "bios.factory_reset", "raid.delete_configuration")
        assert (row["provision_state"], row["last_error"]) == ("manageable", None)
        assert rig.started(node) == ["bios.factory_reset", "raid.delete_configuration"]
        assert rig.run(node)["state"] == "done"
        rig.bury()
        assert rig.service.runtime.workers.wait_idle(10)
    assert len(ended) > 2


def test_callers_hear_nothing_of_the_end_of_each_second_commit(
    build: Callable[..., ConductorFixture],
) -> None:
    with ending("caller") as (database, ended):
        rig = build(database)
        node = rig.node("active", power_state="power off")
        asked: list[str] = []

        def call() -> None:
            rig.call("change_node_power_state", node, target="power on")
            rig.call("set_boot_device", node, device="pxe")
            rig.call("do_node_tear_down", node)
            asked.append(rig.reaches(node, "available")["provision_state"])

        caller = threading.Thread(target=call, name="caller")
        caller.start()
        caller.join(60)
        assert asked == ["available"]
        assert rig.run(node)["state"] == "done"
        assert [one["event"] for one in rig.events(node, "management")] == ["end"]
        rig.bury()
        assert rig.service.runtime.workers.wait_idle(10)
    assert len(ended) > 2
