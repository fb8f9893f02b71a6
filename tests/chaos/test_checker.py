"""The judge knows each kind of violation when he sees one, and takes none for another."""

from __future__ import annotations

import dataclasses
import json
import pathlib

import pytest

from tests.chaos import checker, faults, records
from tests.chaos.records import (
    Act,
    Batch,
    Delivery,
    Erasure,
    Event,
    Fault,
    Glance,
    History,
    Hook,
    Member,
    Node,
    Request,
    Run,
    Told,
    Wait,
)

NODE = "11111111-1111-4111-8111-111111111111"


def move(ident: int, event: str, before: str, after: str) -> Event:
    return Event(ident, NODE, "provision", event, before, after, "run-1", {})


def step(ident: int, kind: str) -> Event:
    data = {"step": "deploy.erase_devices", "ordinal": 0}
    return Event(ident, NODE, kind, "clean", None, None, "run-1", data)


def act(begin: float, end: float | None, **facts: object) -> Act:
    given = {"call": "erase_devices", "pid": 7, "token": "lock-7", "step": "run-1/0/0", **facts}
    return Act(NODE, begin=begin, end=end, **given)  # type: ignore[arg-type]


def data(ident: int, before: str, after: str) -> Event:
    return Event(ident, NODE, "data_state", None, before, after, "run-1", {})


def record(number: int = 1, **facts: object) -> Erasure:
    given = {"run": "run-1", "ordinal": 0, "attempt": 1, "result": "complete", "level": "clear"}
    given |= {"previous": None if number == 1 else f"sha256:digest-{number - 1}", "signed": True}
    names = {"uuid": f"erasure-{number}", "node": NODE, "digest": f"digest-{number}"}
    return Erasure(**{**names, **given, **facts})  # type: ignore[arg-type]


GOOD = History(
    requests=(
        Request(NODE, "clean", 1.0, 1.1, 202, "req-1"),
        Request(NODE, "patch", 9.0, 9.1, 200, "req-2", 1),
    ),
    acts=(act(2.0, 3.0),),
    events=(
        move(1, "clean", "manageable", "cleaning"),
        step(2, "step_started"),
        step(3, "step_ended"),
        move(4, "manage", "cleaning", "manageable"),
    ),
    runs=(Run("run-1", NODE, "clean", "req-1", "done", True, ("done",), erased=(0,)),),
    nodes=(Node(NODE, "manageable", "manageable", value=1),),
    waits=(Wait(NODE, ("manageable",), 0.5, 0.6, 200, 0, 0, "manageable"),),
    followed=tuple(Told(ident, NODE) for ident in range(1, 5)),
    upto=4,
    batches=(Batch("batch-1", "done", True, 1),),
    members=(Member("batch-1", NODE, 0, "done", "req-1", "run-1"),),
    glances=(Glance("batch-1", 2.5, ((0, "running", 1),)),),
    hooks=(Hook("hook-1", "active", 4),),
    erasures=(record(),),
    deliveries=(
        Delivery("hook-1", "evt_1_2", "digest-1", (1, 2), signed=True, accepted=True),
        Delivery("hook-1", "evt_3_4", "digest-2", (3, 4), signed=True, accepted=True),
    ),
)
"""A manual clean with one step, watched to its end, and a write after it, and no fault at all.

The clean is that of a batch, and a webhook tells of it.
"""


def changed(**parts: object) -> History:
    return dataclasses.replace(GOOD, **parts)  # type: ignore[arg-type]


def node(**facts: object) -> tuple[Node, ...]:
    return (dataclasses.replace(GOOD.nodes[0], **facts),)  # type: ignore[arg-type]


def run(**facts: object) -> tuple[Run, ...]:
    return (dataclasses.replace(GOOD.runs[0], **facts),)  # type: ignore[arg-type]


def asked(**facts: object) -> tuple[Request, ...]:
    return (*GOOD.requests, Request(NODE, **{"begin": 20.0, "end": 20.1, **facts}))  # type: ignore[arg-type]


def told(*idents: int, upto: int = 4) -> History:
    return changed(followed=tuple(Told(ident, NODE) for ident in idents), upto=upto)


def waited(*until: str, **facts: object) -> History:
    given = {"status": 200, "since": 0, "upto": 4, "shown": until[0], **facts}
    return changed(waits=(Wait(NODE, until, 1.0, 2.0, **given),))  # type: ignore[arg-type]


def again(*acts: Act, faults: tuple[Fault, ...] = ()) -> History:
    return changed(acts=acts, faults=faults)


def clean(by: str, *events: Event, **parts: object) -> History:
    """A node whose data are gone."""
    nodes = node(data_state="clean", data_state_by=by)
    return changed(nodes=nodes, events=(*GOOD.events, *events), **parts)


def batch(state: str, ended: bool, *states: str, concurrency: int = 1) -> History:
    """A batch with further nodes, which were not started."""
    more = (Member("batch-1", f"node-{number}", 0, one) for number, one in enumerate(states, 2))
    return changed(
        batches=(Batch("batch-1", state, ended, concurrency),), members=(*GOOD.members, *more)
    )


def two_runs(*, wave: int = 0, concurrency: int = 2, late: bool = False) -> History:
    """A second node of the batch, whose run overlaps that of the first unless it is late."""
    begin, end = (5, 6) if late else (3, 5)
    other = [
        dataclasses.replace(move(ident, *words), node="node-2", run="run-2")
        for ident, words in (
            (begin, ("clean", "manageable", "cleaning")),
            (end, ("manage", "cleaning", "manageable")),
        )
    ]
    return changed(
        runs=(*GOOD.runs, Run("run-2", "node-2", "clean", "req-2b", "done", True, ("done",))),
        events=tuple(sorted((*GOOD.events, *other), key=lambda one: one.id)),
        batches=(Batch("batch-1", "done", True, concurrency),),
        members=(*GOOD.members, Member("batch-1", "node-2", wave, "done", "req-2b", "run-2")),
    )


def glanced(*counts: tuple[int, str, int]) -> History:
    return changed(glances=(Glance("batch-1", 2.5, counts),))


def delivered(*deliveries: Delivery, cursor: int = 4) -> History:
    return changed(deliveries=deliveries, hooks=(Hook("hook-1", "active", cursor),))


def delivery(*events: int, **facts: object) -> Delivery:
    ident = f"evt_{events[0]}_{events[-1]}"
    given = {"body": f"digest of {ident}", "signed": True, "accepted": True, **facts}
    return Delivery("hook-1", ident, events=events, **given)  # type: ignore[arg-type]


KILLED = Fault("kill-conductor", 2.5, 6.0, (7,))
PAUSED = Fault("stop-conductor", 2.5, 6.0, (7,))
AWAY = Fault("database-restart", 2.4, 2.6)
OTHER = {"pid": 8, "token": "lock-8"}


def retried(*, force: bool = False, answered: bool = True, **first: object) -> History:
    """A step that must never run again was interrupted, and a retry ran it again."""
    failed = {"state": "failed", "steps": ("failed",), **first}
    second = Run("run-2", NODE, "clean", "req-3", "done", True, ("done",), retry_of="run-1")
    status, request_id = (202, "req-3") if answered else (None, None)
    return changed(
        requests=asked(what="retry", status=status, request_id=request_id, force=force),
        acts=(
            act(2.0, 3.0, again=False),
            act(22.0, 23.0, again=False, step="run-2/0/0"),
        ),
        events=(
            move(1, "clean", "manageable", "cleaning"),
            move(2, "fail", "cleaning", "clean failed"),
            dataclasses.replace(move(3, "retry", "clean failed", "cleaning"), run="run-2"),
            dataclasses.replace(move(4, "manage", "cleaning", "manageable"), run="run-2"),
        ),
        runs=(*run(**failed), second),
    )


BAD = {
    "accepted verb lost": changed(requests=asked(what="inspect", status=202, request_id="req-3")),
    "accepted write lost": changed(nodes=node(value=None)),
    "answer nobody can use": changed(requests=asked(what="patch", status=500, text="a bug")),
    "left unfinished": changed(runs=run(steps=("running",))),
    "ended wrong": changed(
        runs=(*GOOD.runs, Run("run-2", NODE, "clean", "req-1b", "failed", True))
    ),
    "request carried out twice": changed(
        runs=(*GOOD.runs, dataclasses.replace(GOOD.runs[0])), members=()
    ),
    "kept step ran again": changed(runs=run(kept=(0,))),
    "step in doubt ran again": retried(),
    "history broken": changed(nodes=node(state="available")),
    "step begun after its end": changed(events=(*GOOD.events, step(5, "step_started"))),
    "step run twice": again(act(2.0, 3.0), act(4.0, 5.0)),
    "two owners at once": again(act(2.0, 5.0, step=None), act(4.0, 6.0, step=None, **OTHER)),
    "not fenced": again(
        act(2.0, 3.0, step=None), act(4.0, 5.0, step=None, **OTHER), act(6.0, 7.0, step=None)
    ),
    "lock left": changed(nodes=node(reservation="conductor-1", lock_token="lock-7")),
    "process gone": changed(left=("conductor-1 ended with status -11",)),
    "event lost": told(1, 2, 4),
    "out of order": told(1, 3, 2, 4),
    "wait that lies": waited("active"),
    "batch over its bound": glanced((0, "starting", 1), (0, "running", 1)),
    "batch node twice": changed(
        members=(dataclasses.replace(GOOD.members[0], run=None, state="refused"),)
    ),
    "batch left open": batch("running", False, "pending"),
    "webhook gap": delivered(delivery(1, 2), delivery(4)),
    "clean without proof": clean("run-2", data(5, "unknown", "clean")),
    "erasure unrecorded": changed(erasures=()),
    "erasure chain broken": changed(erasures=(record(previous="sha256:gone"),)),
}
"""For each rule a history that breaks it, and no other."""

DEPLOYED = Event(6, NODE, "step_started", "deploy", None, None, "run-1", {})
ALSO_BAD = {
    "a verb with a key, and none of its tries has a run": (
        changed(
            requests=(
                *asked(what="inspect", status=None, request_id="req-3", key="k1"),
                *asked(what="inspect", status=202, request_id="req-4", key="k1")[2:],
            )
        ),
        {"accepted verb lost"},
    ),
    "a clean node that was deployed since": (
        clean("run-1", data(5, "unknown", "clean"), DEPLOYED),
        {"clean without proof"},
    ),
    "a clean node whose record says less": (
        clean("run-1", data(5, "unknown", "clean"), erasures=(record(result="partial"),)),
        {"clean without proof"},
    ),
    "a clean node whose record is of metadata": (
        clean("run-1", data(5, "unknown", "clean"), erasures=(record(level="none"),)),
        {"clean without proof"},
    ),
    "a state of data without its event": (clean("declared"), {"clean without proof"}),
    "a gap in the states of data": (
        clean("run-1", data(5, "dirty", "clean")),
        {"clean without proof"},
    ),
    "two records of one attempt": (
        changed(erasures=(record(), record(2))),
        {"erasure unrecorded"},
    ),
    "a record that was removed": (
        changed(erasures=(record(), record(3, attempt=2))),
        {"erasure chain broken"},
    ),
    "a record without a good signature": (
        changed(erasures=(record(signed=False),)),
        {"erasure chain broken"},
    ),
    "a step in doubt, after a retry that did not come to it": (
        dataclasses.replace(
            retried(),
            runs=(
                *retried().runs[:1],
                dataclasses.replace(retried().runs[1], retry_of="run-0"),
                Run("run-0", NODE, "clean", None, "failed", True, ("skipped",), retry_of="run-1"),
            ),
        ),
        {"step in doubt ran again", "ended wrong"},
    ),
    "a node in a busy state": (
        changed(nodes=node(state="cleaning"), events=GOOD.events[:3]),
        {"left unfinished", "ended wrong"},
    ),
    "a run without an end": (
        changed(runs=run(state="running", ended=False)),
        {"left unfinished"},
    ),
    "a run that is still the node's": (changed(nodes=node(run="run-1")), {"left unfinished"}),
    "a timer that is set": (changed(nodes=node(wakes=True)), {"left unfinished"}),
    "a run that is done, and a step of it is not": (
        changed(runs=run(steps=("done", "pending"))),
        {"left unfinished"},
    ),
    "a failure nobody explains": (
        changed(
            events=(GOOD.events[0], move(2, "fail", "cleaning", "clean failed")),
            runs=run(state="failed", steps=("failed",)),
            nodes=node(state="clean failed"),
        ),
        {"ended wrong"},
    ),
    "a failed run without a cause": (
        changed(
            events=(GOOD.events[0], move(2, "fail", "cleaning", "clean failed")),
            runs=run(state="failed", steps=("failed",), explained=False),
            nodes=node(state="clean failed", last_error="no disk"),
        ),
        {"ended wrong"},
    ),
    "a run that moved nothing": (
        changed(events=(), runs=run(steps=())),
        {"ended wrong"},
    ),
    "a move that the table has not": (
        changed(
            events=(move(1, "clean", "manageable", "cleaning"), move(2, "x", "cleaning", "active")),
            nodes=node(state="active"),
        ),
        {"history broken"},
    ),
    "a hole in the history": (changed(events=GOOD.events[1:]), {"history broken"}),
    "an older value than was accepted": (
        changed(requests=asked(what="patch", status=200, value=2)),
        {"accepted write lost"},
    ),
    "two owners, and a call within the call of the first": (
        again(
            act(2.0, 5.0, step=None),
            act(2.1, 2.2, step=None, call="get_power_state"),
            act(4.0, 6.0, step=None, **OTHER),
        ),
        {"two owners at once"},
    ),
    "a step run twice by another, though nobody was struck": (
        again(act(2.0, 3.0), act(4.0, 5.0, **OTHER)),
        {"step run twice"},
    ),
    "a step run twice, its owner struck too late": (
        again(act(2.0, 3.0), act(4.0, 5.0, **OTHER), faults=(Fault("kill", 5.5, 6.0, (7,)),)),
        {"step run twice"},
    ),
    "a step run twice, another struck": (
        again(act(2.0, 3.0), act(4.0, 5.0, **OTHER), faults=(Fault("kill", 2.5, 6.0, (9,)),)),
        {"step run twice"},
    ),
    "a step that must never be run twice, its owner killed": (
        again(act(2.0, None, again=False), act(4.0, 5.0, again=False, **OTHER), faults=(KILLED,)),
        {"step run twice"},
    ),
    "a follower that was told of nothing": (told(), {"event lost"}),
    "a follower that never came to the last event": (told(1, 2, 3), {"event lost"}),
    "a follower that is told late of what it lacked": (told(1, 2, 4, 3, 4), {"out of order"}),
    "a follower that was refused": (
        changed(refusals=("400 after 3",)),
        {"answer nobody can use"},
    ),
    "a wait for a state that was over": (
        waited("cleaning", since=4, upto=None),
        {"wait that lies"},
    ),
    "a wait that ended before the state began": (
        waited("cleaning", upto=0),
        {"wait that lies"},
    ),
    "a wait that shows another state": (
        waited("cleaning", shown="manageable"),
        {"wait that lies"},
    ),
    "a wait that failed": (waited("active", status=500), {"answer nobody can use"}),
    "runs of a batch that overlap": (two_runs(concurrency=1), {"batch over its bound"}),
    "a run of a wave before its turn": (two_runs(wave=1), {"batch over its bound"}),
    "a wave that began too early": (
        glanced((0, "pending", 1), (1, "starting", 1)),
        {"batch over its bound"},
    ),
    "a node of a batch with two runs": (
        changed(runs=(*GOOD.runs, dataclasses.replace(GOOD.runs[0], uuid="run-2", erased=()))),
        {"batch node twice", "request carried out twice", "ended wrong"},
    ),
    "a node of a batch whose run is another one": (
        changed(members=(dataclasses.replace(GOOD.members[0], run="run-2"),)),
        {"batch node twice"},
    ),
    "a paused batch without pending nodes": (batch("paused", False), {"batch left open"}),
    "a paused batch whose node is starting": (
        batch("paused", False, "starting"),
        {"batch left open"},
    ),
    "a batch that has ended too early": (
        batch("done", True, "pending"),
        {"batch left open"},
    ),
    "an aborted batch that does not end": (batch("aborted", False), {"batch left open"}),
    "a webhook that came to no end": (
        delivered(delivery(1, 2), cursor=2),
        {"webhook gap"},
    ),
    "a webhook that is suspended": (
        changed(hooks=(Hook("hook-1", "suspended", 4),)),
        {"webhook gap"},
    ),
    "a delivery that was refused, and the next one": (
        delivered(delivery(1, 2, accepted=False), delivery(3, 4)),
        {"webhook gap"},
    ),
    "an event that was delivered late": (
        delivered(delivery(1), delivery(3), delivery(2), delivery(4)),
        {"webhook gap"},
    ),
    "a delivery with two bodies": (
        delivered(delivery(1, 2, 3, 4), delivery(1, 2, 3, 4, body="another")),
        {"webhook gap"},
    ),
    "a delivery without a signature": (
        delivered(delivery(1, 2, 3, 4, signed=False)),
        {"webhook gap"},
    ),
    "a paused owner that goes on with the next step": (
        again(
            act(2.0, 6.1, step="run-1/0/0"),
            act(4.0, 12.0, step="run-1/0/0", **OTHER),
            act(9.0, 9.5, step="run-1/1/0"),
            faults=(PAUSED,),
        ),
        {"not fenced", "two owners at once"},
    ),
}

EXCUSED = {
    "a clean node that was deployed before": clean(
        "run-1", dataclasses.replace(DEPLOYED, id=5), data(6, "unknown", "clean")
    ),
    "a clean node by declaration": clean("declared", data(5, "unknown", "clean")),
    "a step that ran again makes another record": changed(
        erasures=(record(), record(2, attempt=2))
    ),
    "a step in doubt is run again by force": retried(force=True),
    "a retry without an answer may have been forced": retried(force=True, answered=False),
    "a retry repeats a step that was done and does not last": retried(done=(0,)),
    "a step is run again after a crash": again(
        act(2.0, None), act(4.0, 5.0, **OTHER), faults=(KILLED,)
    ),
    "a call is under way while its caller is paused": again(
        act(2.0, 6.1), act(4.0, 5.0, **OTHER), faults=(PAUSED,)
    ),
    "a call is made by a caller that was paused before it": again(
        act(2.0, 2.1, step="run-1/0/0"),
        act(4.0, 5.0, step="run-1/1/0", **OTHER),
        act(6.1, 6.2, step="run-1/1/0"),
        faults=(PAUSED, Fault("stop-conductor", 4.5, 5.5, (8,))),
    ),
    "a step that is under way when its lock is lost calls another interface": again(
        act(2.0, 4.5, call="boot_instance"),
        act(4.0, 4.1, call="boot_instance", **OTHER),
        act(4.4, 4.5, call="set_power_state", step=None),
        faults=(AWAY,),
    ),
    "a step is run again when the database was away": again(
        act(2.0, 3.0), act(4.0, 5.0, **OTHER), faults=(AWAY,)
    ),
    "a write without an answer": changed(
        requests=asked(what="patch", status=None, value=2), nodes=node(value=2)
    ),
    "a verb without an answer": changed(requests=asked(what="inspect", status=None)),
    "a repetition with a key was answered for its first try": changed(
        requests=(
            dataclasses.replace(GOOD.requests[0], status=None, key="k1"),
            *asked(what="clean", status=202, request_id="req-3", key="k1")[1:],
        )
    ),
    "a repetition with a key was answered for a try without an answer": changed(
        requests=(
            dataclasses.replace(GOOD.requests[0], status=None, request_id=None, key="k1"),
            *asked(what="clean", status=202, request_id="req-3", key="k1")[1:],
        ),
        members=(),
    ),
    "an event is told again after a cut": told(1, 2, 3, 2, 3, 4),
    "an event comes after the follower's time": told(1, 2, 3, upto=3),
    "a wait that sees a state in passing": waited("active", "cleaning", shown="cleaning"),
    "a wait for the state before the request": waited("manageable", upto=0),
    "a wait that is not over, or failed": changed(
        waits=tuple(
            Wait(NODE, ("active",), 1.0, 2.0, status, 4) for status in (424, 503, 504, None)
        )
    ),
    "a paused batch waits for an operator": batch("paused", False, "pending", "skipped"),
    "runs of a batch overlap as far as they may": two_runs(),
    "a run of a wave comes after the one before": two_runs(wave=1, concurrency=1, late=True),
    "a delivery is repeated, and was refused before": delivered(
        delivery(1, 2, accepted=False), delivery(1, 2), delivery(1, 2), delivery(3, 4)
    ),
    "a refusal": changed(requests=asked(what="inspect", status=409)),
}


def found(history: History) -> set[str]:
    return {one.rule for one in checker.check(history)}


def test_nothing_is_found_where_nothing_is() -> None:
    assert checker.check(GOOD) == []
    assert checker.check(History()) == []


@pytest.mark.parametrize("rule", checker.RULES)
def test_each_rule_is_broken_by_a_history_made_for_it(rule: str) -> None:
    assert found(BAD[rule]) == {rule}


@pytest.mark.parametrize("name", ALSO_BAD)
def test_checker_finds_other_violations(name: str) -> None:
    history, rules = ALSO_BAD[name]
    assert found(history) == rules


@pytest.mark.parametrize("name", EXCUSED)
def test_checker_accepts_effects_of_faults(name: str) -> None:
    assert checker.check(EXCUSED[name]) == []


def test_a_violation_says_where_and_what() -> None:
    (one,) = checker.check(BAD["lock left"])
    assert str(one) == f"lock left: node {NODE}: it is still locked by conductor-1"


def test_a_history_is_the_same_after_it_was_written_down(tmp_path: pathlib.Path) -> None:
    history = again(act(2.0, None), act(4.0, 5.0, **OTHER), faults=(KILLED, AWAY))
    records.dump(history, tmp_path / "history.json")
    assert records.load(tmp_path / "history.json") == history


def test_the_journal_is_read_though_a_caller_died(tmp_path: pathlib.Path) -> None:
    facts = {"node": NODE, "call": "erase_devices", "token": "lock-7", "again": True}
    begin = {"what": "begin", "pid": 7, "step": "run-1/0/0", **facts}
    rows = [
        {**begin, "id": "7-1", "at": 4.0},
        {**begin, "id": "7-0", "at": 2.0},
        {"what": "agent", "node": NODE, "at": 2.5},
        {"what": "end", "id": "7-0", "at": 3.0},
    ]
    path = tmp_path / "journal"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert records.read_acts(path) == (act(2.0, 3.0), act(4.0, None))
    assert records.read_acts(tmp_path / "none") == ()


# -- what is going to happen -----------------------------------------------------------------

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "faults.rst"
ALL = {"postgresql", "mysql", "rabbit", "cluster", "clocks", "small disk"}


def test_a_seed_repeats_the_choice_of_faults() -> None:
    one, same, other = (
        faults.plan(seed, faults.GROUPS, ALL, around=True, count=30) for seed in (1, 1, 2)
    )
    assert one == same != other
    assert len(one) == 30


def test_every_kind_comes_before_any_comes_again() -> None:
    for around in (False, True):
        kinds = [kind for kind in faults.TABLE if kind.around is around]
        planned = faults.plan(1, faults.GROUPS, ALL, around=around, count=len(kinds))
        assert {one.kind for one in planned} == set(kinds)


def test_plan_leaves_out_faults_of_absent_parts() -> None:
    planned = faults.plan(1, faults.GROUPS, {"sqlite"}, around=True, count=9)
    assert {one.kind.name for one in planned} == {"rival"}
    assert faults.plan(1, ("broker",), {"sqlite"}, around=True, count=9) == []


def test_the_page_tells_of_every_fault_and_every_rule() -> None:
    text = PAGE.read_text(encoding="utf-8")
    for kind in faults.TABLE:
        assert f"\n{kind.name:<18} {kind.group:<10} " in text
    for rule in checker.RULES:
        assert f"\n{rule:<25} " in text
