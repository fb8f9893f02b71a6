"""Lines of a run: gathered in its work, written with its saves, bounded and without secrets."""

from __future__ import annotations

import logging
import re
import uuid
from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite.api.resources import run_documents
from ironic_lite.conductor.engine import history
from ironic_lite.core import log_lines, metrics
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import runs
from tests.flows.test_children import family, on_children
from tests.support import crashes, db_faults
from tests.support.cleaning_fixture import watched
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for
from tests.support.statements import count_statements

LOG = logging.getLogger("ironic_lite.drivers.redfish.power")
AGENT = logging.getLogger("ironic_lite.drivers.agent.client")
SECRET = "hunter2-of-the-bmc"
STEPS = ["bios.factory_reset", "raid.delete_configuration"]
Build = Callable[..., ConductorFixture]


@pytest.fixture(autouse=True)
def as_configured(caplog: pytest.LogCaptureFixture) -> None:
    """Loggers pass INFO, as in the service."""
    caplog.set_level(logging.INFO, "ironic_lite")


def call_bmc(method: str = "POST", path: str = "/redfish/v1/Systems/1") -> None:
    with metrics.BMCS.call("redfish", method, f"{method} {path}", reads=method == "GET") as one:
        one.result, one.answer = metrics.OK, "204"


def acting(act: Callable[[], object], name: str = "execute_clean_step") -> Any:
    """Return drivers that do something before each of their calls of one name."""
    return watched(lambda _kind, called: act() if called == name else None)


def rows(rig: ConductorFixture, run: str) -> list[str]:
    return [row.text for row in rig.database.read(lambda c: runs.log_rows(c, run))]


def log_of(rig: ConductorFixture, node: str) -> str:
    """Return the log of the node's newest run, as the API shows it."""
    run = cast(Any, rig.run(node))
    return run_documents.LogReader(rig.database, run).text()


def texts(log: str) -> list[str]:
    return [line[28:] for line in log.splitlines()]


def test_log_of_a_failed_clean_reads_in_order(build: Build) -> None:
    def act() -> None:
        call_bmc()
        LOG.info("Node %s: trying again", node)

    rig = build(registry=acting(act))
    node = rig.node(fake_fail_steps={STEPS[1]: "the controller is broken"})
    rig.clean(node, *STEPS)
    found = [one.partition(" 0.0")[0] for one in texts(log_of(rig, node))]
    assert found[0].startswith("run      clean, manageable -> cleaning (tester, req-test-")
    assert found[1:] == [
        "run      Manual cleaning begins, 2 steps: bios.factory_reset, raid.delete_configuration",
        "run      bios.factory_reset begins",
        "bmc      POST /redfish/v1/Systems/1 204",
        "driver   trying again",
        "run      bios.factory_reset is done",
        "run      raid.delete_configuration begins",
        "bmc      POST /redfish/v1/Systems/1 204",
        "driver   trying again",
        "run      raid.delete_configuration failed: Clean step raid.delete_configuration failed: "
        "the controller is broken",
        "run      Manual cleaning failed at the step raid.delete_configuration",
        "run      fail, cleaning -> clean failed",
    ]


def test_lines_cost_one_statement_in_a_save_and_none_without(build: Build) -> None:
    counts = []
    for act in (lambda: None, call_bmc):
        rig = build(registry=acting(act))
        node = rig.node()
        rig.clean(node, *STEPS)
        with count_statements(rig.database) as sent:
            rig.clean(node, *STEPS)
        counts.append(sum(not one.startswith("SELECT") for one in sent))
        about = [one for one in sent if "run_logs" in one]
        assert all(one.startswith("INSERT INTO run_logs") for one in about), about
        rig.bury()
    assert counts[1] == counts[0] + len(STEPS)


def test_no_secret_of_the_node_reaches_its_log(build: Build) -> None:
    said = f"login with {SECRET} and token=hunter3 at https://ann:hunter4@bmc/x?key=hunter5"

    def act() -> None:
        call_bmc(path=f"/redfish/v1/{SECRET}")
        LOG.warning("Node %s: %s", node, said)
        AGENT.warning("agent_token=hunter6 refused: %s", SECRET)
        for source in ("ramdisk", "agent", "bmc"):
            log_lines.note_run_line(
                source, f"X-Auth-Token: hunter7 {{'password': 'hunter8'}} {said}"
            )

    rig = build(registry=acting(act))
    node = rig.node(
        driver_info={
            "redfish_password": SECRET,
            "fake_fail_steps": {STEPS[0]: "see https://ann:hunter9@bmc/?q=hunter9"},
        },
        instance_info={"image_url": "http://images/hunter-image"},
    )
    rig.clean(node, *STEPS)
    log = log_of(rig, node)
    assert "hunter" not in log
    assert log.count("******") > 10
    assert {one.split()[0] for one in texts(log)} == {"run", "bmc", "agent", "driver", "ramdisk"}


def test_work_without_a_run_leaves_no_lines(build: Build) -> None:
    rig = build(registry=acting(call_bmc, "set_power_state"))
    node = rig.node(power_state="power on")
    rig.call("change_node_power_state", node, target="power off")
    assert rig.get(node)["power_state"] == "power off"
    with count_statements(rig.database) as sent:
        rig.call("change_node_power_state", node, target="power on")
    assert not [one for one in sent if "run_logs" in one]


def test_poll_without_news_leaves_no_line(rig: ConductorFixture) -> None:
    node = rig.node(fake_async_steps=["*"], fake_step_seconds=3600)
    rig.clean(node, *STEPS)
    rig.reaches(node, "clean wait")
    run = rig.run(node)["uuid"]

    def poll(*methods: str, log: bool = False) -> int:
        before = len(rows(rig, run))
        with rig.tasks.lock(rig.who, node) as task:
            for method in methods:
                call_bmc(method)
            if log:
                LOG.info("Node %s: the job has not ended", node)
            task.wake_after(3600)
            task.save_on_release = True
        return len(rows(rig, run)) - before

    assert poll("GET", "GET") == 0
    assert poll("GET", "POST") == 1
    assert poll("GET", log=True) == 1
    assert poll() == 0


def test_lines_of_a_step_on_children_belong_to_the_run_of_the_parent(build: Build) -> None:
    rig = build(registry=acting(call_bmc))
    made = family(rig, "clean", count=2)
    made.run("clean", on_children("bios.factory_reset"))
    log = log_of(rig, made.parent)
    assert log.count("POST /redfish/v1/Systems/1 204") == 2


def test_very_many_lines_of_one_step_lack_the_middle(build: Build) -> None:
    def act() -> None:
        for number in range(20_000):
            log_lines.note_run_line("driver", f"line {number}")

    rig = build(registry=acting(act))
    node = rig.node()
    rig.clean(node, STEPS[0])
    (text,) = rows(rig, rig.run(node)["uuid"])
    assert len(text.encode()) < 160 * 1024
    assert "lines left out here)" in text
    assert ("line 0\n" in text, "line 19999" in text, "line 9999\n" in text) == (True, True, False)


def test_log_of_a_run_is_bounded_and_says_so(rig: ConductorFixture) -> None:
    node = rig.node(fake_async_steps=["*"], fake_step_seconds=3600)
    rig.clean(node, *STEPS)
    rig.reaches(node, "clean wait")
    run = rig.run(node)["uuid"]
    for number in range(40):
        with rig.tasks.lock(rig.who, node) as task:
            for line in range(100):
                log_lines.note_run_line("driver", f"save {number} line {line} {'x' * 200}")
            task.wake_after(number)
            task.save()
        assert sum(len(one.encode()) for one in rows(rig, run)) <= history.LOG_LIMIT
        if number == 20:  # as after a restart of the conductor
            history.LOG_SIZES = type(history.LOG_SIZES)()
    log = log_of(rig, node)
    assert log.count("KiB of lines left out here)") == 1
    assert ("save 0 line 0 " in log, "save 39 line 99 " in log) == (True, True)
    assert "save 20 line 1 " not in log
    head = log.index("left out here")
    assert log.index("save 0 line 99 ") < head < log.index("save 39 line 0 ")


def test_the_size_of_a_log_is_remembered_only_until_its_run_ends(rig: ConductorFixture) -> None:
    node = rig.node(fake_async_steps=["*"], fake_step_seconds=3600)
    rig.clean(node, "deploy.erase_devices")
    rig.reaches(node, "clean wait")
    run = rig.run(node)["uuid"]
    assert history.LOG_SIZES.known(run) is not None
    rig.act("abort", node)
    assert history.LOG_SIZES.known(run) is None


def test_lines_are_stored_once_if_the_answer_of_the_database_is_lost(
    build: Build, sqlite_database: Database
) -> None:
    for n in range(1, 4):
        fault = db_faults.DatabaseFault("answer", n)
        database = db_faults.database(sqlite_database, fault)
        rig = build(database, registry=acting(call_bmc))
        rig.database = sqlite_database
        node = rig.node()
        rig.clean(node, *STEPS)
        wait_for(fault.begun.is_set)
        assert log_of(rig, node).count("POST /redfish/v1/Systems/1 204") == len(STEPS)
        rig.bury()


def test_lines_before_a_failed_save_are_written_with_the_fail_state(build: Build) -> None:
    def act() -> None:
        call_bmc()
        raise ZeroDivisionError("a bug of a driver")

    rig = build(registry=acting(act))
    node = rig.node()
    assert rig.clean(node, *STEPS)["provision_state"] == "clean failed"
    found = texts(log_of(rig, node))
    assert any(one.startswith("bmc      POST") for one in found)
    assert any("unexpected ZeroDivisionError: a bug of a driver" in one for one in found)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_log_of_a_run_with_a_crash_shows_both_conductors(
    build: Build, sqlite_database: Database
) -> None:
    life = crashes.Life()

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == "execute_clean_step":
            call_bmc(path="/redfish/v1/first")
            life.spend("call")
        return call()

    mortal = crashes.database(sqlite_database, life)
    rig = build(mortal, registry=cast(Any, crashes.Drivers(drivers(), around)))
    rig.database = sqlite_database
    node = rig.node()
    life.arm(call=2)  # in the second step
    rig.ask("clean", node, clean_steps=listed(*STEPS))
    wait_for(lambda: life.dead)
    rig.bury()
    assert rig.service.runtime.workers.wait_idle(60)
    heir = build(sqlite_database, registry=acting(lambda: call_bmc(path="/redfish/v1/second")))
    heir.reaches(node, "manageable")
    found = [one.partition(" 0.0")[0] for one in texts(log_of(heir, node))]
    assert found[2:] == [
        "run      bios.factory_reset begins",
        "bmc      POST /redfish/v1/first 204",
        "run      bios.factory_reset is done",
        "run      raid.delete_configuration begins",
        "run      Taken over from the conductor here",
        "run      raid.delete_configuration runs again",
        "run      raid.delete_configuration begins",
        "bmc      POST /redfish/v1/second 204",
        "run      raid.delete_configuration is done",
        "run      Manual cleaning has ended well",
        found[-1],
    ]
    assert found[-1].startswith("run      manage, cleaning -> manageable (conductor:recovery, ")


def test_late_lines_of_a_removed_run_fail_no_save(rig: ConductorFixture) -> None:
    log = history.RunLog()
    log.run = str(uuid.uuid4())
    log.add("bmc", "too late")
    with rig.tasks.lock(rig.who, rig.node()) as task:
        log.prepare(task.node)
        rig.database.write(log.write)
    log.settle()


def test_lines_after_the_end_of_a_run_belong_to_it(rig: ConductorFixture) -> None:
    node = rig.node(fake_async_steps=["*"], fake_step_seconds=3600)
    rig.clean(node, *STEPS)
    run = rig.run(node)["uuid"]
    with rig.tasks.lock(rig.who, node) as task:
        log_lines.note_run_line("run", "before the end")
        task.move("fail")
        log_lines.note_run_line("run", "after the end")
        task.node.extra = {"a": 1}
        task.save()
    assert [one.rpartition("      ")[2] for one in rows(rig, run)] == [
        "before the end",
        "after the end",
    ]


def test_conductor_logs_one_line_for_each_verb_at_its_end(
    build: Build, caplog: pytest.LogCaptureFixture
) -> None:
    rig = build()
    good, bad = rig.node(), rig.node(fake_fail_steps={STEPS[1]: "broken"})

    def moves() -> list[str]:
        return [one.getMessage() for one in caplog.records if " -> " in one.getMessage()]

    for node, end in (
        (good, r"manage, cleaning -> manageable, run {run} after \d+\.\d s"),
        (bad, r"fail, cleaning -> clean failed, run {run} after \d+\.\d s \(.*broken.*\)"),
    ):
        caplog.clear()
        rig.clean(node, *STEPS)
        (said,) = wait_for(moves)
        run = cast(Any, rig.run(node))["uuid"]
        assert re.fullmatch(rf"Node {node}: {end.format(run=run)}", said), said
