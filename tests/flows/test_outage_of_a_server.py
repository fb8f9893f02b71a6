"""A server that ends a worker's connection in mid-commit costs no run; skipped if there is none."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from ironic_lite.db import migrate, session
from tests.db import servers
from tests.flows.rig import Rig


def test_a_clean_survives_the_end_of_each_second_commit(build: Callable[..., Rig]) -> None:
    numbers, ended = itertools.count(), []

    def end(conn: Any) -> None:
        if threading.current_thread().name.startswith("worker") and next(numbers) % 2 == 0:
            number = conn.exec_driver_sql("SELECT pg_backend_pid()").scalar()
            servers.admin("postgresql", f"SELECT pg_terminate_backend({number})")
            ended.append(number)

    with contextlib.ExitStack() as open_:
        url = open_.enter_context(servers.own_database("postgresql", "outage"))
        database = open_.enter_context(contextlib.closing(session.open_database(url)))
        migrate.upgrade(database)
        sa.event.listen(database.engine, "commit", end)
        rig = build(database)
        node = rig.node()
        row = rig.clean(node, "bios.factory_reset", "raid.delete_configuration")
        assert (row["provision_state"], row["last_error"]) == ("manageable", None)
        assert rig.started(node) == ["bios.factory_reset", "raid.delete_configuration"]
        assert rig.run(node)["state"] == "done"
        rig.bury()
        assert rig.service.desk.workers.wait_idle(10)
    assert len(ended) > 2
