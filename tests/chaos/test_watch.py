"""The watch: a conductor that was silent before its death was silent, too."""

from __future__ import annotations

import contextlib
import functools
import time

from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.tables import models
from tests.chaos.watch import SILENT, Watch
from tests.support.conductor_fixture import wait_for

HOST = models.conductors.c.hostname == "c1"


def sign(conn: Connection, *, first: bool = False) -> None:
    """Write a heartbeat."""
    values = {"hostname": "c1", "updated_at": clock.now()}
    if first:
        values |= {"conductor_group": "", "online": True, "created_at": clock.now()}
        conn.execute(models.conductors.insert(), values)
    else:
        conn.execute(models.conductors.update().where(HOST).values(values))


def test_silence_before_a_death_is_that_of_both_processes(sqlite_database: Database) -> None:
    sqlite_database.write(functools.partial(sign, first=True))
    watch = Watch(sqlite_database.engine.url.render_as_string(hide_password=False))
    watch.pid_of = lambda _host: 1
    watch.start()
    with contextlib.closing(watch):
        time.sleep(SILENT + 0.2)
        watch.pid_of = lambda _host: 2
        sqlite_database.write(sign)
        (silent,) = wait_for(lambda: [one for one in watch.starved if one.kind == "silent"])
    assert set(silent.pids) == {1, 2}
