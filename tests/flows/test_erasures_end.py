"""Erasing steps that end from outside, or whose end cannot be saved: each makes one record."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from typing import Any, cast

import pytest
import sqlalchemy as sa

from ironic_lite.core import clock, metrics
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import reports
from ironic_lite.db.tables import models
from ironic_lite.domain.steps import WAIT
from tests.support import crashes, db_faults
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for

pytestmark = [pytest.mark.feature("erasures"), pytest.mark.usefixtures("quick_retries")]

Json = dict[str, Any]
DISK: Json = {"name": "/dev/sda", "serial": "S1", "result": "erased", "level": "clear"}
BAD: Json = {"name": "/dev/sdb", "serial": "S2", "result": "failed", "why": "exit 5"}
ERASE = "deploy.erase_devices"
FOREVER: Json = {"fake_async_steps": [ERASE], "fake_step_seconds": 3600}


def records(rig: ConductorFixture, node: str) -> list[Json]:
    """Return the records of a node, the oldest first."""

    def read(conn: sa.Connection) -> list[str]:
        known = models.erasures.c
        chosen = sa.select(known.statement).where(known.node_uuid == node).order_by(known.id)
        return list(conn.execute(chosen).scalars())

    return [json.loads(one) for one in rig.database.read(read)]


def counted() -> float:
    """Return the number of all records that this process has counted."""
    found = metrics.BOARD.series().items()
    return sum(values[0] for key, values in found if key[0] == "erasures_total")


def waits(rig: ConductorFixture, **told: Any) -> str:
    """Return a node that waits for its erasing step, and whose data were gone before."""
    node = rig.node(**FOREVER, data_state="clean", **told)
    rig.ask("clean", node, clean_steps=listed(ERASE))
    rig.reaches(node, "clean wait")
    return node


def test_erasing_step_that_is_waited_for_too_long_is_recorded(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(conductor__clean_callback_timeout=1800)
    node = waits(rig)
    rig.edit(node, provision_updated_at=clock.after(-3600), wake_at=None)
    rig.sweep("time-outs")
    row = rig.reaches(node, "clean failed")
    (record,) = records(rig, node)
    run = {"uuid": rig.run(node)["uuid"], "node": node}
    assert (record["result"], record["run"].items() >= run.items()) == ("failed", True)
    assert record["error"].startswith("Timeout reached")
    assert record["not_known"] == "no report has come"
    assert row["data_state"] == "unknown"


def test_aborted_erasing_step_is_recorded(rig: ConductorFixture) -> None:
    node = waits(rig)
    rig.act("abort", node)
    row = rig.reaches(node, "clean failed")
    (record,) = records(rig, node)
    assert record["result"] == "failed"
    assert "abort" in record["error"].lower()
    assert row["data_state"] == "unknown"


def test_step_that_ended_is_not_recorded_again_by_a_later_failure(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(conductor__require_clean_data=True)
    node = rig.node(fake_erasures=[{**DISK, "result": "skipped"}])
    rig.ask("provide", node)
    row = rig.reaches(node, "clean failed")
    assert "not proven" in row["last_error"]
    (record,) = records(rig, node)
    assert (record["result"], record["error"]) == ("failed", None)


@pytest.mark.parametrize("disks", [[DISK], [DISK, BAD]], ids=["done", "failed"])
@pytest.mark.parametrize("what", ["write", "answer"])
def test_outage_neither_loses_nor_repeats_a_record(
    build: Callable[..., ConductorFixture],
    sqlite_database: Database,
    what: str,
    disks: list[Json],
) -> None:
    for n in itertools.count(1):
        sickness = db_faults.DatabaseFault(what, n, 3)
        rig, before = build(db_faults.database(sqlite_database, sickness)), counted()
        rig.database = sqlite_database
        node = rig.node(fake_erasures=disks)
        rig.ask("clean", node, clean_steps=listed(ERASE))
        rig.reaches(node, "clean failed" if BAD in disks else "manageable")
        assert rig.service.runtime.workers.wait_idle(60)
        (record,) = records(rig, node)
        assert record["result"] == ("partial" if BAD in disks else "complete")
        assert counted() == before + 1
        rig.bury()
        if not sickness.begun.is_set():
            break
    assert n > 2


class Refusing:
    """A database whose n-th write of a worker is rolled back by an error, not by an outage."""

    def __init__(self, inner: Database, n: int) -> None:
        self._inner = inner
        self.left = n

    def read(self, work: Callable[[Connection], Any]) -> Any:
        """Read as usual."""
        return self._inner.read(work)

    def write(self, work: Callable[[Connection], Any], **more: Any) -> Any:
        """Write, or fail at the end of the transaction."""
        if not threading.current_thread().name.startswith("worker"):
            return self._inner.write(work, **more)
        self.left -= 1
        if self.left:
            return self._inner.write(work, **more)

        def spoiled(conn: Connection) -> None:
            work(conn)
            raise RuntimeError("refused")

        return self._inner.write(spoiled, **more)


@pytest.mark.parametrize("titles", [[ERASE], [ERASE, "bios.factory_reset"]], ids=["one", "two"])
@pytest.mark.parametrize("disks", [[DISK], [DISK, BAD]], ids=["done", "failed"])
def test_end_that_cannot_be_saved_is_recorded_with_its_report(
    build: Callable[..., ConductorFixture],
    sqlite_database: Database,
    disks: list[Json],
    titles: list[str],
) -> None:
    seen = set()
    for n in itertools.count(1):
        database = Refusing(sqlite_database, n)
        rig, before = build(cast(Database, database)), counted()
        rig.database = sqlite_database
        node = rig.node(fake_erasures=disks)
        rig.ask("clean", node, clean_steps=listed(*titles))
        assert rig.service.runtime.workers.wait_idle(60)
        begun = [step for step in rig.run(node)["steps"][:1] if step["started_at"] is not None]
        found = records(rig, node)
        assert len(found) == len(begun), (n, begun)
        assert counted() == before + len(found)
        for record in found:
            named = [one["name"] for one in (*record["disks"], *record["not_erased"])]
            assert named == [one["name"] for one in disks]
            seen.add((begun[0]["state"], record["result"]))
            assert (rig.get(node)["data_state"] == "clean") is (record["result"] == "complete")
        rig.bury()
        if database.left > 0:
            break
    ends = {("failed", "partial")} if BAD in disks else {("done", "complete"), ("failed", "failed")}
    assert seen == ends


@pytest.mark.parametrize(
    ("disks", "result", "after"),
    [([DISK], "complete", "clean"), ([DISK, BAD], "partial", "dirty"), ([], "unknown", "unknown")],
)
def test_step_on_a_child_makes_a_record_of_the_child(
    rig: ConductorFixture, disks: list[Json], result: str, after: str
) -> None:
    parent = rig.node(data_state="clean")
    told: Json = {"fake_erasures": disks} if disks else {}
    child = rig.node(parent_node=parent, data_state="clean", **told)
    step = {**listed(ERASE)[0], "execute_on_child_nodes": True}
    row = rig.call("clean", parent, clean_steps=[*listed("bios.factory_reset"), step])
    assert row["provision_state"] == ("clean failed" if BAD in disks else "manageable")
    assert (row["data_state"], records(rig, parent)) == ("clean", [])
    (record,) = records(rig, child)
    run = rig.run(parent)["uuid"]
    assert (record["node"]["uuid"], record["run"]["uuid"]) == (child, run)
    assert record["run"]["node"] == parent
    assert (record["step"]["ordinal"], record["result"]) == (1, result)
    found = rig.get(child)
    assert (found["data_state"], found["data_state_by"]) == (after, run)
    assert [one["run_uuid"] for one in rig.events(child, "erasure")] == [run]


def on_child(title: str) -> Json:
    """Return a step that runs on the children of its node."""
    return {**listed(title)[0], "execute_on_child_nodes": True}


def test_deployment_that_runs_a_step_on_a_child_makes_the_child_dirty(
    rig: ConductorFixture,
) -> None:
    parent = rig.node("available")
    child = rig.node(parent_node=parent, data_state="clean")
    step = {**on_child("bios.factory_reset"), "priority": 50, "args": {}}
    rig.call("deploy", parent, deploy_steps=[step])
    found, run = rig.get(child), rig.run(parent)["uuid"]
    assert (found["data_state"], found["data_state_by"]) == ("dirty", run)


@pytest.mark.parametrize("before", ["clean", "dirty"])
def test_child_whose_erasing_step_a_crash_cuts_is_not_clean(
    build: Callable[..., ConductorFixture], before: str
) -> None:
    seen: list[str] = []

    def around(_kind: str, name: str, call: Any) -> Any:
        if name == "execute_clean_step":
            seen.append(rig.get(child)["data_state"])
        return call()

    rig = build(registry=crashes.Drivers(drivers(), around))
    parent = rig.node()
    child = rig.node(parent_node=parent, data_state=before, fake_erasures=[DISK])
    rig.call("clean", parent, clean_steps=[on_child(ERASE)])
    assert seen == ["unknown" if before == "clean" else "dirty"]
    assert rig.get(child)["data_state"] == "clean"


def test_child_stays_clean_if_its_failed_step_has_erased_all_disks(
    build: Callable[..., ConductorFixture],
) -> None:
    def around(_kind: str, name: str, call: Any) -> Any:
        found = call()
        if name == "execute_clean_step":
            raise RuntimeError("the BMC is gone")
        return found

    rig = build(registry=crashes.Drivers(drivers(), around))
    parent = rig.node()
    known: Json = {"data_state": "clean", "data_state_by": "declared", "data_state_at": clock.now()}
    child = rig.node(parent_node=parent, fake_erasures=[DISK], **known)
    row = rig.call("clean", parent, clean_steps=[on_child(ERASE)])
    assert row["provision_state"] == "clean failed"
    assert rig.get(child).items() >= known.items()


@pytest.mark.parametrize("permitted", [False, True])
def test_erasing_step_that_goes_on_by_itself_on_a_child_fails(
    build: Callable[..., ConductorFixture], permitted: bool
) -> None:
    rig = build(conductor__permit_child_node_step_async_result=permitted)
    parent = rig.node()
    child = rig.node(parent_node=parent, data_state="clean", **FOREVER)
    row = rig.call("clean", parent, clean_steps=[on_child(ERASE)])
    assert row["provision_state"] == "clean failed"
    assert "Clean the child node itself" in row["last_error"]
    (record,) = records(rig, child)
    assert (record["result"], record["not_known"]) == ("failed", "no report has come")
    assert rig.get(child)["data_state"] == "unknown"


def test_record_of_a_child_has_the_times_of_the_step_on_this_child(rig: ConductorFixture) -> None:
    parent = rig.node()
    children = [rig.node(parent_node=parent, fake_erasures=[DISK]) for _ in range(2)]
    rig.call("clean", parent, clean_steps=[on_child(ERASE)])
    (first,), (second,) = (records(rig, child) for child in children)
    for record in (first, second):
        step = record["step"]
        assert step["started_at"] <= step["ended_at"] == record["issued_at"]
    assert first["step"]["ended_at"] <= second["step"]["started_at"]


def test_record_does_not_have_the_secrets_of_its_node(rig: ConductorFixture) -> None:
    tool = {"name": "shred", "command": ["shred", "--key", "hunter22"], "exit": 0}
    told = {**DISK, "why": "with hunter22", "method": "overwrite by hunter22", "tools": [tool]}
    node = rig.node(driver_info={"fake_erasures": [told], "redfish_password": "hunter22"})
    rig.call("clean", node, clean_steps=listed(ERASE))
    (record,) = records(rig, node)
    assert record["result"] == "complete"
    assert "hunter22" not in json.dumps(record)
    assert record["disks"][0]["tools"][0]["command"] == ["shred", "--key", "******"]


def test_report_about_a_step_of_service_leaves_no_note(
    build: Callable[..., ConductorFixture],
) -> None:
    seen: list[str] = []

    def around(_kind: str, name: str, call: Any) -> Any:
        if name == "poll_step" and not seen:
            seen.append(name)
            call.args[0].report_erasure({})
            call.args[0].wake_after(0)
            return WAIT
        return call()

    rig = build(registry=crashes.Drivers(drivers(), around))
    node = rig.node("active", fake_async_steps=["*"], fake_step_seconds=0)
    rig.ask("service", node, service_steps=listed("vendor.log_passthrough"))
    wait_for(lambda: seen)
    row = rig.reaches(node, "active")
    assert seen
    assert "erasure_recorded" not in json.dumps(row["driver_internal_info"])


def put_inventory(rig: ConductorFixture, node: str, *disks: Json) -> None:
    """Store the result of an inspection."""
    found = {"disks": list(disks)}
    rig.database.write(lambda conn: reports.put_inventory(conn, node, found, {}, at=clock.now()))


@pytest.mark.parametrize("before", ["clean", "dirty"])
def test_disk_of_the_inventory_that_is_not_reported_makes_the_record_partial(
    build: Callable[..., ConductorFixture], before: str
) -> None:
    rig = build()
    node = rig.node(fake_erasures=[DISK], data_state=before)
    put_inventory(rig, node, DISK, {"name": "/dev/sdb", "serial": "S9", "size": 5})
    rig.ask("clean", node, clean_steps=listed(ERASE))
    row = rig.reaches(node, "manageable")
    (record,) = records(rig, node)
    (missing,) = record["not_erased"]
    assert (record["result"], missing["serial"], missing["result"]) == ("partial", "S9", "missing")
    assert "inspect the node again" in missing["why"]
    assert row["data_state"] == "unknown"


def test_node_with_an_unreported_disk_does_not_become_available(
    build: Callable[..., ConductorFixture],
) -> None:
    rig = build(conductor__require_clean_data=True)
    node = rig.node(fake_erasures=[DISK], data_state="dirty")
    put_inventory(rig, node, {"name": "/dev/sdb", "serial": "S9"})
    rig.ask("provide", node)
    row = rig.reaches(node, "clean failed")
    assert "are not proven to be erased (data_state is unknown)" in row["last_error"]
