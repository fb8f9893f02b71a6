"""A conductor whose row is removed while it works comes back by itself, and loses nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import metrics
from ironic_lite.db.queries import conductors
from ironic_lite.db.tables import models
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed
from tests.support.statements import count_statements

Build = Callable[..., ConductorFixture]


def remove(rig: ConductorFixture) -> None:
    """Remove the conductor's row, and with it what it can drive."""
    host = rig.service.runtime.host
    gone = models.conductors.delete().where(models.conductors.c.hostname == host)
    rig.database.write(lambda conn: conn.execute(gone))
    assert host not in known(rig)


def known(rig: ConductorFixture) -> dict[str, conductors.MemberRow]:
    """Return the conductors on the list by name."""
    return {row["hostname"]: row for row in rig.database.read(conductors.members)}


def offered(rig: ConductorFixture) -> list[tuple[Any, ...]]:
    """Return what conductors can drive."""
    names = ("hostname", "hardware_type", "interface_type", "interface_name", "is_default")
    found = map(dict, rig.database.read(conductors.interfaces))
    return sorted(tuple(row[name] for name in names) for row in found)


def test_conductor_whose_row_is_removed_registers_again_with_its_drivers(
    build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    rig = build(conductor__conductor_group="east")
    before, drives = known(rig)["here"], offered(rig)
    remove(rig)
    for _ in range(3):
        rig.service.keepalive.beat()
    after = known(rig)["here"]
    assert {**after, "updated_at": None} == {**before, "updated_at": None}
    assert offered(rig) == drives
    assert rig.database.read(lambda conn: conductors.get(conn, "here"))["version"]
    said = [line for line in caplog.messages if "row of conductor here was removed" in line]
    assert len(said) == 1


def test_draining_conductor_does_not_register_again(build: Build) -> None:
    rig = build()
    remove(rig)
    rig.service.runtime.draining.set()
    rig.service.keepalive.beat()
    assert known(rig) == {}


def test_conductor_keeps_the_nodes_it_works_on(build: Build) -> None:
    step = crashes.Held()
    rig = build(registry=step.drivers(drivers()))
    node = rig.node()
    rig.ask("clean", node, clean_steps=listed("power.cycle"))
    assert step.reached.wait(60)
    token = rig.get(node)["lock_token"]
    remove(rig)
    other = build(DEFAULT__host="other")
    other.service.orphans.sweep()
    assert rig.get(node)["lock_token"] == token, "its lease lives"
    expires = rig.get(node)["lock_expires"]
    rig.service.keepalive.beat()
    assert rig.get(node)["lock_token"] == token
    assert rig.get(node)["lock_expires"] > expires
    step.opened.set()
    row = rig.reaches(node, "manageable")
    assert (row["last_error"], rig.step_states(node)) == (None, ["done"])


def test_conductor_that_registers_again_confirms_its_locks_first(build: Build) -> None:
    rig = build()
    fence = rig.service.runtime.fence
    assert fence.holds(0)
    remove(rig)
    rig.service.keepalive.beat()
    assert not fence.holds(0), "who removes rows may have removed locks"
    rig.service.keepalive.beat()
    assert fence.holds(0)


def test_conductor_whose_name_was_taken_writes_and_sends_nothing(build: Build) -> None:
    first = build()
    node = first.node()
    with first.tasks.lock(first.who, node) as task:
        second = build()
        first.service.keepalive.beat()
        with pytest.raises(errors.Stopping):
            task.confirm_lock()
    first.service.stop(timeout=5)
    assert known(second)["here"]["online"]
    second.service.keepalive.beat()
    assert second.service.runtime.fence.holds(0)


# A conductor tells what it has counted with each sign of life, and sends nothing more for it.


def test_the_sign_of_life_carries_the_counts(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = metrics.BmcCounters()
    made.note("ipmi", "power", metrics.OK, 0.1)
    monkeypatch.setattr(metrics, "BMCS", made)
    with count_statements(rig.database) as sent:
        rig.service.keepalive.beat()
    assert len(sent) == 1, str(sent)
    told = rig.database.read(lambda conn: conductors.counters(conn, "here"))
    counted = told["counters"] or {}
    assert made.snapshot().items() <= counted.items()  # beside what this process counts
