"""Heartbeats: whose are believed, what they cost, and that the agent is not kept waiting."""

from __future__ import annotations

import contextlib
import datetime
import functools
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor.endpoints import agent
from ironic_lite.core import clock
from ironic_lite.db.queries import nodes as db_nodes
from ironic_lite.domain import waiting as waits
from ironic_lite.drivers import base
from ironic_lite.drivers.fake.hardware import FakeDeploy
from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for
from tests.support.statements import count_statements

Json = dict[str, Any]
URL = "https://192.0.2.10:9999"
TOKEN = "t" * 43
FIRST = {"interface": "deploy", "step": "erase_devices", "priority": 0, "args": {}}
SECOND = {**FIRST, "step": "erase_devices_metadata"}
WAITING = ["clean wait", "wait call-back", "service wait", "rescue wait", "inspect wait"]


def beat(rig: ConductorFixture, node: str, **more: Any) -> None:
    body = {
        "callback_url": URL,
        "agent_version": "13.0.0",
        "agent_token": TOKEN,
        "agent_verify_ca": "PEM",
    }
    rig.ask("heartbeat", node, **{**body, **more})


def waiting(rig: ConductorFixture, state: str = "clean wait", **values: Any) -> str:
    return rig.node(state, driver_internal_info={"agent_secret_token": TOKEN}, **values)


def told(rig: ConductorFixture, node: str) -> Json:
    return dict(rig.settled(node)["driver_internal_info"])


def test_the_first_heartbeat_is_taken_down(rig: ConductorFixture) -> None:
    node = waiting(rig, "available")
    beat(rig, node)
    found = told(rig, node)
    assert found.pop("agent_last_heartbeat") is not None
    assert found == {
        "agent_secret_token": TOKEN,
        "agent_url": URL,
        "agent_version": "13.0.0",
        "agent_verify_ca": "PEM",
    }


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"agent_token": "s" * 43}, "agent_token"),
        ({"agent_token": "s" * 43, "callback_url": "https://192.0.2.66"}, "agent_token"),
        ({"callback_url": "http://192.0.2.10:9999"}, "callback_url"),
        ({"callback_url": "https://192.0.2.66:9999"}, "callback_url"),
        ({"agent_verify_ca": "OTHER"}, "agent_verify_ca"),
        ({"agent_verify_ca": None}, "agent_verify_ca"),
    ],
    ids=["token", "token and address", "http", "address", "certificate", "no certificate"],
)
def test_heartbeat_that_differs_from_the_first_agent_is_refused(
    rig: ConductorFixture, more: Json, path: str
) -> None:
    node = waiting(rig, "available")
    beat(rig, node)
    before = rig.settled(node)
    with pytest.raises(errors.InvalidParameter) as why:
        beat(rig, node, **more)
    assert why.value.facts["path"] == path
    assert TOKEN not in why.value.message
    assert rig.settled(node) == before


@pytest.mark.parametrize("state", ["active", "deploy failed", "rescue", "deleting"])
def test_a_machine_whose_ramdisk_has_gone_gets_no_token(rig: ConductorFixture, state: str) -> None:
    """The API saw a state in which one ran; the node went on before its lock was taken."""
    node = rig.node(state)
    with pytest.raises(errors.NodeNotFound):
        rig.endpoints.get_node_with_token(rig.who, node_uuid=node)
    assert rig.settled(node)["driver_internal_info"] == {}


def test_a_node_without_a_token_has_no_agent(rig: ConductorFixture) -> None:
    with pytest.raises(errors.InvalidParameter, match="agent_token"):
        beat(rig, rig.node("clean wait"))


def test_agent_without_a_token_does_not_learn_which_interface_is_missing(
    rig: ConductorFixture,
) -> None:
    node = waiting(rig, deploy_interface="gone")
    with pytest.raises(errors.InvalidParameter, match="agent_token"):
        beat(rig, node, agent_token="s" * 43)
    with pytest.raises(errors.InterfaceNotFound, match="gone"):
        beat(rig, node)


def test_a_node_that_is_worked_on_asks_the_agent_to_come_back(rig: ConductorFixture) -> None:
    node = waiting(rig)
    with rig.tasks.lock(rig.who, node), pytest.raises(errors.NodeLocked):
        beat(rig, node)
    assert "agent_url" not in told(rig, node)


@pytest.mark.parametrize("state", ["available", "manageable", "clean hold", *WAITING])
def test_a_heartbeat_costs_three_statements_at_most(rig: ConductorFixture, state: str) -> None:
    """Those of the API come before. A worker asks nothing on its own."""
    node = waiting(rig, state, clean_step={"interface": "deploy", "step": "x"})
    if state in WAITING:
        kind = "deploy" if state == "wait call-back" else state.partition(" ")[0]
        rig.edit(node, driver_internal_info={**told(rig, node), f"{kind}_step_index": 0})
    with count_statements(rig.database) as sent:
        beat(rig, node)
        assert rig.service.runtime.workers.wait_idle(60)
    assert len(sent) <= 3, str(sent)
    assert told(rig, node)["agent_url"] == URL


@pytest.mark.parametrize("state", WAITING)
def test_a_sign_of_life_gives_an_agent_more_time_but_no_inspection(
    rig: ConductorFixture, state: str
) -> None:
    """A ramdisk whose report was refused goes on to its lookup; its node must not wait for ever."""
    since = datetime.datetime(2020, 1, 1)
    node = waiting(rig, state, provision_updated_at=since)
    beat(rig, node)
    assert (rig.settled(node)["provision_updated_at"] == since) is (state == "inspect wait")
    assert told(rig, node)["agent_url"] == URL


def test_the_agent_has_its_answer_before_it_is_called_back(
    build: Callable[..., ConductorFixture],
) -> None:
    called, answered = threading.Event(), threading.Event()

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == "heartbeat":
            called.set()
            assert answered.wait(60)
        return call()

    registry = cast(Registry, crashes.Drivers(drivers(), around, more=("heartbeat",)))
    rig = build(registry=registry)
    node = waiting(rig)
    beat(rig, node)
    answered.set()
    assert called.wait(60)
    rig.settled(node)


def test_many_heartbeats_at_once_lose_no_continuation(
    build: Callable[..., ConductorFixture],
) -> None:
    """Several at once for each of many nodes, more than there are workers; steps end in the middle.

    Who is refused comes again, as an agent does. Once a heartbeat that was sent after the end of a
    step has been taken, nobody need send another one: the step's end has been seen, and once.
    """
    asked: Counter[str] = Counter()
    ended: dict[str, threading.Event] = {}

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name != "heartbeat":
            return call()
        node = cast(Any, call).args[0].node
        over = ended[node.uuid].is_set() and node.clean_step == FIRST
        asked[node.uuid] += 1
        if asked[node.uuid] == 3:
            ended[node.uuid].set()  # after this heartbeat was told that it goes on
        return over

    registry = cast(Registry, crashes.Drivers(drivers(), around, more=("heartbeat",)))
    rig = build(registry=registry, conductor__workers_pool_size=4)
    told = {"clean_steps": [FIRST, SECOND], "clean_step_index": 0, "declarative_cleaning": True}
    for _ in range(6):
        node = waiting(rig, clean_step=FIRST, target_provision_state="manageable")
        rig.edit(node, driver_internal_info={"agent_secret_token": TOKEN, **told})
        ended[node] = threading.Event()

    agents = [
        threading.Thread(target=_speak, args=(rig, node, ended[node]), daemon=True)
        for node in ended
        for _ in range(3)
    ]
    for one in agents:
        one.start()
    for one in agents:
        one.join(60)
    assert not any(one.is_alive() for one in agents)
    for node in ended:
        rig.reaches(node, "manageable")
        assert rig.path(node) == ["cleaning", "manageable"]
        assert rig.started(node) == ["deploy.erase_devices_metadata"]


def _speak(rig: ConductorFixture, node: str, ended: threading.Event) -> None:
    """Send heartbeats until one is taken that was sent after the end of the step."""
    last = False
    while not last:
        last = ended.is_set()
        try:
            beat(rig, node)
        except (errors.NodeLocked, errors.Conflict, errors.NoFreeWorker):
            last = False
        except errors.InvalidParameter:  # another one was taken: the ramdisk has done its work
            assert last


class Asked(FakeDeploy):
    """A deploy interface that asks an agent about its step, which goes on and on."""

    def heartbeat(self, task: base.Task) -> bool:
        task.wake_after(0)
        return False

    def poll_step(self, task: base.Task, *_: Any) -> base.Outcome:
        task.keep("asked", task.recall("asked", 0) + 1)
        task.wake_after(600)
        return base.WAIT


def asked(build: Callable[..., ConductorFixture]) -> tuple[ConductorFixture, str]:
    rig = build(registry=cast(Registry, crashes.Replaced(drivers(), deploy=Asked())))
    told = {"clean_steps": [FIRST], "clean_step_index": 0, "agent_secret_token": TOKEN}
    return rig, rig.node("clean wait", driver_internal_info=told, clean_step=FIRST)


def test_to_ask_the_agent_after_a_heartbeat_costs_no_further_statement(
    build: Callable[..., ConductorFixture],
) -> None:
    """What was found is written as the lock is given back."""
    rig, node = asked(build)
    with count_statements(rig.database) as sent:
        beat(rig, node)
        assert rig.service.runtime.workers.wait_idle(60)
    assert len(sent) == 4, str(sent)
    found = rig.get(node)
    assert found["driver_internal_info"]["driver_notes"] == {"asked": 1}
    assert (found["reservation"], found["lock_token"], found["lock_expires"]) == (None, None, None)
    assert found["wake_at"] > clock.now()
    assert rig.tasks.locks.held == frozenset()


def test_a_database_too_busy_to_note_a_look_ends_no_run(
    build: Callable[..., ConductorFixture], monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, node = asked(build)
    save, busy = db_nodes.save, [errors.Unavailable("The database is busy.")]

    def once(*args: Any, **kwargs: Any) -> None:
        if busy:
            raise busy.pop()
        save(*args, **kwargs)

    monkeypatch.setattr(db_nodes, "save", once)
    beat(rig, node)
    found = rig.settled(node)
    assert (found["provision_state"], found["last_error"], busy) == ("clean wait", None, [])
    assert found["driver_internal_info"]["driver_notes"] == {"asked": 1}


def test_a_heartbeat_that_ends_nothing_takes_no_lock(rig: ConductorFixture) -> None:
    """A step of a BMC's waits for its own end: one look, one note, and no worker."""
    node = waiting(rig, clean_step=FIRST)
    with count_statements(rig.database) as sent:
        beat(rig, node)
    assert [line.split()[0] for line in sent] == ["SELECT", "UPDATE"]
    assert "reservation" not in sent[1].partition("WHERE")[0]
    assert rig.service.runtime.workers.busy == 0


def test_a_flood_for_a_locked_node_takes_no_worker_and_writes_nothing(
    rig: ConductorFixture,
) -> None:
    node = waiting(rig)
    workers = rig.service.runtime.workers
    while workers.busy < 19:  # of 20: one is kept for requests
        workers.claim()
    with rig.tasks.lock(rig.who, node), count_statements(rig.database) as sent:
        for _ in range(3):
            with pytest.raises(errors.NodeLocked):  # and not NoFreeWorker
                beat(rig, node)
    assert [line.split()[0] for line in sent] == ["SELECT"] * 3
    for _ in range(workers.busy):
        workers.leave()


def test_few_agent_calls_wait_for_locks_at_once(
    rig: ConductorFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each that waits holds a thread: one for a node, so many in all; the others come again."""
    monkeypatch.setattr(agent, "MOST_WAIT", 2)
    rig.service.runtime.conf.set_override("node_locked_retry_interval", 600, "conductor")
    nodes = [rig.node("inspect wait") for _ in range(3)]
    report: Json = {"inventory": {}, "plugin_data": {}}

    def wait(method: str, node: str, **args: Any) -> threading.Thread:
        def call() -> None:
            with contextlib.suppress(errors.NodeLocked):  # the service stops
                rig.ask(method, node, **args)

        waits = threading.Thread(target=call, daemon=True)
        waits.start()
        wait_for(lambda: rig.endpoints.lock_waiters.held_by(node))
        return waits

    with contextlib.ExitStack() as locks:
        for node in nodes:
            locks.enter_context(rig.tasks.lock(rig.who, node))
        waiting = [
            wait("get_node_with_token", nodes[0]),
            wait("continue_inspection", nodes[1], **report),
        ]
        for node in nodes:
            with pytest.raises(errors.NodeLocked):
                rig.ask("get_node_with_token", node)
            with pytest.raises(errors.NodeLocked):
                rig.ask("continue_inspection", node, **report)
    rig.ask("get_node_with_token", nodes[2])  # nobody works on it any more
    rig.service.runtime.stopping.set()
    for one in waiting:
        one.join(60)
    assert rig.endpoints.lock_waiters.held == 0


def test_death_in_a_verb_leaves_no_pin_that_swallows_a_heartbeat(stage: crashes.Stage) -> None:
    pin, pinned = waits.agent_pin(URL, TOKEN, "PEM", "13.0.0"), list[int]()

    def recorded(node: str) -> bool:
        return stage.database.write(lambda conn: db_nodes.record_heartbeat(conn, node, pin=pin))

    def begin(rig: ConductorFixture) -> str:
        node = waiting(rig, "manageable")
        beat(rig, node)
        assert recorded(node)
        pinned.append(rig.get(node)["generation"])
        return node

    def clean(rig: ConductorFixture, node: str) -> None:
        rig.ask("clean", node, clean_steps=listed("bios.factory_reset"))

    for moment in stage.moments("commit"):
        node = moment.die(begin, clean)
        row = moment.rig.get(node)
        begun = row["run_uuid"] is not None or row["reservation"] is not None
        assert recorded(node) is (not begun and row["generation"] == pinned[-1])
        rig = moment.heir()
        crashes.rests(rig, node)
        assert recorded(node) is (rig.get(node)["generation"] == pinned[-1])
        assert (rig.get(node)["generation"] == pinned[-1]) is (rig.runs(node) == [])


def test_death_after_the_pin_leaves_an_agent_that_the_api_hears(stage: crashes.Stage) -> None:
    pin = waits.agent_pin(URL, TOKEN, "PEM", "13.0.0")
    for moment in stage.moments("commit"):
        node = moment.die(lambda rig: waiting(rig, "available"), beat)
        assert moment.rig.get(node)["agent_pin"] == pin
        record = functools.partial(db_nodes.record_heartbeat, uuid=node, pin=pin)
        assert stage.database.write(record)
