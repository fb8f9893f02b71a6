"""Verbs: their table, the checks of a request, holds, and locks as clients see them."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.api.controllers import provisioning
from ironic_lite.core import config, context
from ironic_lite.domain import holds, node_locks, states, verbs
from ironic_lite.domain.holds import ALLOCATION, ORDER, POWER, REMOVAL, Block, Hold
from ironic_lite.domain.states import Kind, State
from ironic_lite.domain.verb_refusals import VerbRequest

# The verbs are those of the specifications: from which states, since which version, with what.

# target | from | minimum version
LISTED = """
active    | available, deploy failed                                             | 1
deploy    | available, deploy failed                                             | 73
rebuild   | active, deploy failed, error                                         | 1
deleted   | active, error, deploy failed, wait call-back, rescue, rescue wait, rescue failed, \
unrescue failed, service wait, service failed                                     | 1
undeploy  | active, error, deploy failed, wait call-back, rescue, rescue wait, rescue failed, \
unrescue failed, service wait, service failed                                     | 1
manage    | enroll, available, clean failed, inspect failed, adopt failed        | 4
provide   | manageable, clean failed                                             | 4
cleaned   | manageable, clean failed                                             | 4
available | clean failed                                                         | 4
inspect   | manageable, inspect failed                                           | 6
abort     | clean wait, clean hold, wait call-back, deploy hold, inspect wait, rescue wait, \
service wait, service hold, service failed                                        | 13
clean     | manageable                                                           | 15
adopt     | manageable, adopt failed                                             | 17
rescue    | active, rescue, rescue failed, unrescue failed, service failed       | 38
unrescue  | rescue, rescue failed, unrescue failed                               | 38
unhold    | clean hold, deploy hold, service hold                                | 85
service   | active, service hold, service failed                                 | 87
retry     | clean failed, deploy failed, service failed                          | 1
"""
# target -> body key -> its minimum version there.
BODIES = {
    "active": {"configdrive": 1, "deploy_steps": 69},
    "rebuild": {"configdrive": 35, "deploy_steps": 69},
    "clean": {"clean_steps": 15, "disable_ramdisk": 70, "runbook": 92},
    "rescue": {"rescue_password": 38},
    "service": {"service_steps": 87, "runbook": 92, "disable_ramdisk": 108},
    "retry": {"retry": 1},
}
NEEDS = {
    "clean": {"clean_steps", "runbook"},  # S1.14
    "rescue": {"rescue_password"},
    "service": {"service_steps", "runbook"},
}


def rows() -> list[tuple[str, set[str], int]]:
    lines = [re.split(r"\s*\|\s*", line) for line in LISTED.strip().splitlines()]
    return [(name, set(re.split(r",\s*", froms)), int(since)) for name, froms, since in lines]


ROWS = rows()
TARGETS = [name for name, _, _ in ROWS]


def test_the_verbs_are_those_of_the_specifications() -> None:
    assert sorted(verbs.BY_TARGET) == sorted(TARGETS)
    assert len(verbs.TABLE) == len(TARGETS)


@pytest.mark.parametrize(("target", "froms", "since"), ROWS, ids=TARGETS)
def test_a_verb_starts_from_its_states_and_no_others(
    target: str, froms: set[str], since: int
) -> None:
    verb = verbs.BY_TARGET[target]
    assert {str(state) for state in State if verbs.possible(verb, state)} == froms


@pytest.mark.parametrize(("target", "froms", "since"), ROWS, ids=TARGETS)
def test_a_verb_exists_since_its_version(target: str, froms: set[str], since: int) -> None:
    assert verbs.BY_TARGET[target].since == since


def test_an_abort_of_some_waits_came_later() -> None:
    assert dict(verbs.BY_TARGET["abort"].state_since) == {"inspect wait": 41, "wait call-back": 110}
    assert not [verb for verb in verbs.TABLE if verb.state_since and verb.target != "abort"]


@pytest.mark.parametrize("target", TARGETS)
def test_a_body_may_hold_the_keys_of_its_verb_only(target: str) -> None:
    assert dict(verbs.BY_TARGET[target].allows) == BODIES.get(target, {})
    assert set(verbs.BY_TARGET[target].needs) == NEEDS.get(target, set())


def test_required_arguments_are_allowed_from_the_verbs_first_version() -> None:
    for verb in verbs.TABLE:
        if verb.needs:
            assert min(verb.allows[key] for key in verb.needs) == verb.since


def test_the_body_has_the_eight_keys_of_the_reference_and_one_of_ours() -> None:
    assert sorted(verbs.BODY_KEYS) == [
        "clean_steps",
        "configdrive",
        "deploy_steps",
        "disable_ramdisk",
        "rescue_password",
        "retry",
        "runbook",
        "service_steps",
        "target",
    ]
    used = {key for verb in verbs.TABLE for key in verb.allows}
    assert used | {"target"} == set(verbs.BODY_KEYS)


def test_a_key_in_the_wrong_body_can_be_told_where_it_belongs() -> None:
    assert verbs.owners("configdrive") == ["active", "rebuild"]
    assert verbs.owners("disable_ramdisk") == ["clean", "service"]
    assert verbs.owners("rescue_password") == ["rescue"]
    assert verbs.owners("target") == []


def test_maintenance_refuses_what_would_boot_a_machine_under_repair() -> None:
    # manage, provide, cleaned, deleted, inspect and abort are let in (C31).
    refused = {verb.target for verb in verbs.TABLE if not verb.in_maintenance}
    ironics = {"active", "deploy", "rebuild", "clean", "rescue", "unrescue", "service"}
    assert refused == {*ironics, "retry"}


def test_protected_nodes_keep_their_instance() -> None:
    spared = {verb.target for verb in verbs.TABLE if verb.refused_if_protected}
    assert spared == {"deleted", "undeploy", "rebuild"}


def test_no_verb_makes_a_retired_node_available() -> None:
    # S4.7 and conflict C23
    spared = {verb.target for verb in verbs.TABLE if verb.refused_if_retired}
    assert spared == {"provide", "cleaned", "available"}


@pytest.mark.parametrize("state", sorted(states.of_kind(Kind.BUSY)))
def test_no_verb_interrupts_a_conductor_at_work(state: State) -> None:
    assert [verb.target for verb in verbs.TABLE if verbs.possible(verb, state)] == []


def test_while_a_clean_waits_abort_is_the_only_verb() -> None:
    # S2.22, S5.16 and conflict C27
    admitted = [verb.target for verb in verbs.TABLE if verbs.possible(verb, State.CLEANWAIT)]
    assert admitted == ["abort"]


def test_every_state_that_nobody_works_on_can_be_left_by_a_verb() -> None:
    idle = states.of_kind(Kind.STABLE, Kind.WAIT, Kind.HELD, Kind.FAIL)
    assert all(any(verbs.possible(verb, state) for verb in verbs.TABLE) for state in idle)


@pytest.mark.parametrize(
    ("state", "version", "targets"),
    [
        ("enroll", 115, ["manage"]),
        ("enroll", 3, []),
        ("available", 115, ["active", "manage"]),
        ("clean failed", 115, ["manage", "provide", "available", "retry"]),
        ("wait call-back", 115, ["deleted", "abort"]),
        ("wait call-back", 109, ["deleted"]),
        ("cleaning", 115, []),
    ],
)
def test_state_offers_its_verbs_by_version(state: str, version: int, targets: list[str]) -> None:
    assert verbs.offered(State(state), version) == targets


# Checks of a requested verb: the first refusal, all refusals, and those of the node alone.

BOOK = {
    "uuid": "c4a0c3c2-5a06-4d9b-8d4c-6a5f5c5a4b11",
    "name": "CUSTOM_BOOK",
    "traits": ["CUSTOM_BOOK"],
    "disable_ramdisk": False,
    "steps": [{"interface": "bios", "step": "reset", "args": {}, "order": 1}],
}
NODE: dict[str, Any] = {
    **dict.fromkeys((*node_locks.COLUMNS, *verbs.MAINTENANCE_COLUMNS)),
    "uuid": "1be26c0b-03f2-4d2e-ae87-c02d7f33c123",
    "provision_state": "manageable",
    "maintenance": False,
    "protected": False,
    "retired": False,
    "data_state": None,
}
STEP = {"interface": "deploy", "step": "erase_devices"}
BAD_STEP = {"interface": "no such", "step": ""}
STEPS = st.lists(st.sampled_from([STEP, BAD_STEP, 5]), max_size=2)
ANY_BODY = st.fixed_dictionaries(
    {},
    optional={
        "clean_steps": STEPS,
        "service_steps": STEPS,
        "deploy_steps": STEPS,
        "runbook": st.sampled_from(["CUSTOM_BOOK", "absent"]),
        "configdrive": st.sampled_from([{}, {"meta": 1}, "http://192.0.2.1/drive", "no drive"]),
        "disable_ramdisk": st.booleans(),
        "rescue_password": st.just("secret"),
    },
)
NODES = st.fixed_dictionaries(
    {
        **{name: st.just(value) for name, value in NODE.items()},
        "provision_state": st.sampled_from([state.value for state in State]),
        "reservation": st.sampled_from([None, "host"]),
        "maintenance": st.booleans(),
        "protected": st.booleans(),
        "retired": st.booleans(),
        "data_state": st.sampled_from([None, "clean", "dirty"]),
        "traits": st.sampled_from([[], ["CUSTOM_BOOK"]]),
    }
)
VERSIONS = st.sampled_from([1, 15, 55, 86, 92, 115])
ANY_VERB = st.sampled_from(verbs.TABLE)
CONDUCTORS_OWN = (errors.NodeLocked, errors.NodeInMaintenance)


@pytest.fixture(scope="module")
def conf() -> Iterator[cfg.ConfigOpts]:
    """The default options, but cleaning is forbidden in maintenance."""
    own = cfg.ConfigOpts()
    config.register(own)
    own([], project=config.PROJECT, default_config_files=[], default_config_dirs=[])
    own.set_override("allow_provisioning_in_maintenance", False, "conductor")
    yield own
    own.clear()


def find(ident: str) -> dict[str, Any]:
    """Return the one runbook there is."""
    if ident != BOOK["name"]:
        raise errors.RunbookNotFound(runbook=ident)
    return BOOK


def same(one: errors.Error, other: errors.Error) -> bool:
    """Return whether a caller sees the same refusal."""
    return (one.code, one.message) == (other.code, other.message)


@given(verb=ANY_VERB, body=ANY_BODY, node=NODES, version=VERSIONS)
def test_first_refusal_is_the_one_that_check_raises(
    conf: Any, verb: verbs.Verb, body: dict[str, Any], node: dict[str, Any], version: int
) -> None:
    asked = VerbRequest(verb, body, node, version, conf)
    opened, found = provisioning.all_refusals(asked, find)
    try:
        accepted = provisioning.check_request(asked, find)
    except errors.Error as first:
        assert same(found[0], first)
    else:
        assert all(isinstance(one, CONDUCTORS_OWN) for one in found)
        assert opened == accepted


@given(verb=ANY_VERB, body=ANY_BODY, node=NODES, version=VERSIONS)
def test_refusals_of_the_node_are_the_same_for_every_body(
    conf: Any, verb: verbs.Verb, body: dict[str, Any], node: dict[str, Any], version: int
) -> None:
    asked = VerbRequest(verb, body, node, version, conf)
    _opened, every = provisioning.all_refusals(asked, find)
    bare = VerbRequest(verb, {}, node, version, conf)
    alone = provisioning.node_refusals(bare)
    assert all(any(same(one, other) for other in every) for one in alone)
    assert [one.message for one in provisioning.node_refusals(asked)] == [
        one.message for one in alone
    ]


def test_every_malformed_step_is_refused_by_its_path(conf: Any) -> None:
    body = {"clean_steps": [STEP, BAD_STEP, 5, {"step": "wait", "interface": "deploy", "at": 1}]}
    asked = VerbRequest(verbs.BY_TARGET["clean"], body, NODE, 115, conf)
    _opened, found = provisioning.all_refusals(asked, find)
    assert [one.facts["path"] for one in found] == [
        "clean_steps/1/interface",
        "clean_steps/1/step",
        "clean_steps/2",
        "clean_steps/3/at",
    ]


def test_locked_node_in_maintenance_has_both_refusals(conf: Any) -> None:
    node = {**NODE, "reservation": "host", "maintenance": True, "retired": True}
    asked = VerbRequest(verbs.BY_TARGET["provide"], {}, node, 115, conf)
    codes = [one.code for one in provisioning.node_refusals(asked)]
    assert codes == ["NodeRetired", "NodeLocked", "NodeInMaintenance"]


# Holds: the operations that each block refuses, their words, and the blocks of new ones.

NOON = datetime.datetime(2026, 11, 22, 12)

ERASES = {"deleted", "undeploy", "rebuild", "active", "deploy", "clean", "provide", "cleaned"}
ERASES |= {"retry", "service"}
HOLDABLE = {verb.target for verb in verbs.TABLE}
REFUSED: dict[str, set[str]] = {
    "erase": ERASES | {ALLOCATION},
    "use": {"active", "deploy", "rebuild", ALLOCATION},
    "verbs": (HOLDABLE - {"abort", "unhold"}) | {ALLOCATION},
    "power": {POWER},
    "machine": {ORDER},
    "forget": {REMOVAL},
}
"""What each block refuses, by the targets of verbs."""


def made(*blocks: str, **values: Any) -> Hold:
    """Return a hold."""
    given: dict[str, Any] = {
        "uuid": "h1",
        "kind": "audit",
        "reason": "case 7",
        "blocks": tuple(map(Block, blocks)),
        "until": None,
        "created_at": NOON,
        "created_by": "ann",
    }
    return Hold(**given | values)


@pytest.mark.parametrize("block", REFUSED)
@pytest.mark.parametrize("said", sorted(HOLDABLE | {ALLOCATION, POWER, REMOVAL, ORDER}))
def test_block_refuses_its_operations(block: str, said: str) -> None:
    operation = verbs.BY_TARGET[said].event if said in HOLDABLE else said
    why = holds.refusal("n1", [made(block)], operation, said)
    assert (why is not None) is (said in REFUSED[block])
    assert holds.refusable(operation) is (said not in ("abort", "unhold"))


def test_every_block_is_in_the_table() -> None:
    assert set(REFUSED) == set(map(str, Block)) == set(map(str, holds.REFUSED))


def test_first_hold_that_blocks_gives_the_sentence() -> None:
    end = datetime.datetime(2027, 1, 31)
    held = [
        made("use"),
        made("erase", "forget", uuid="h2", kind="legal", reason="case 2026-114.", until=end),
        made("verbs", uuid="h3"),
    ]
    why = holds.refusal("n1", held, "delete", "deleted")
    assert why is not None
    assert why.message == (
        "Node n1 is held (legal, by ann since 2026-11-22 12:00:00 UTC, until 2027-01-31 00:00:00 "
        "UTC): case 2026-114. It blocks erase, and so deleted. End the hold with DELETE "
        "/v1/nodes/n1/holds/h2 first."
    )
    assert (why.status, why.retryable, why.facts["hold"]) == (409, False, "h2")


def test_unknown_author_and_end_are_left_out() -> None:
    why = holds.refusal("n1", [made("power", created_by=None)], POWER, "power off")
    assert why is not None
    assert why.message.startswith(
        "Node n1 is held (audit, since 2026-11-22 12:00:00 UTC): case 7. It blocks power, and so "
        "power off."
    )


@pytest.mark.parametrize(
    ("kind", "named", "blocks"),
    [
        ("legal", None, ("erase", "forget")),
        ("hardware", [], ("use",)),
        ("freeze", None, ("verbs", "power", "forget")),
        ("freeze", ["power", "forget", "verbs"], ("verbs", "power", "forget")),
        ("audit", ["power", "erase", "power"], ("erase", "power")),
    ],
)
def test_kind_brings_its_blocks_or_the_request_names_them(
    kind: str, named: list[str] | None, blocks: tuple[str, ...]
) -> None:
    assert holds.blocks_of(kind, named) == blocks


def test_blocks_that_contradict_the_kind_are_refused() -> None:
    with pytest.raises(errors.InvalidParameter, match=r"blocks: the kind legal brings") as caught:
        holds.blocks_of("legal", ["power"])
    assert caught.value.facts["path"] == "blocks"


@pytest.mark.parametrize("named", [None, []])
def test_other_kinds_need_blocks(named: list[str] | None) -> None:
    with pytest.raises(errors.MissingParameter, match=r"erase, use, verbs, power, machine, forget"):
        holds.blocks_of("audit", named)


ROW = {**made("erase")._asdict(), "blocks": "erase", "ended_at": None}


@pytest.mark.parametrize(
    ("until", "ended_at", "shown"),
    [
        (None, None, None),
        (NOON, None, NOON),
        (NOON + datetime.timedelta(seconds=1), None, None),
        (NOON + datetime.timedelta(seconds=1), NOON, NOON),
    ],
)
def test_hold_ends_by_its_time_or_by_request(until: Any, ended_at: Any, shown: Any) -> None:
    document = holds.document({**ROW, "until": until, "ended_at": ended_at}, NOON)
    assert (document["ended_at"], document["blocks"]) == (shown, ["erase"])


def test_blocks_of_a_newer_release_are_left_out() -> None:
    assert holds.read({**ROW, "blocks": "erase,levitate"}).blocks == (Block.ERASE,)


# Locks as clients see them: since when, and for which work.

LOCKED_AT = datetime.datetime(2026, 11, 22, 12, 0, 0)
RUN = "0f7bd4bb-2b0c-4fa2-9f2f-6ac3c9a1a1b5"
ERASE = {"interface": "deploy", "step": "erase_devices"}
PLAIN = (
    "Node n1 is locked by host c1, please retry after the current operation is completed. "
    "It is held since 2026-11-22 12:00:00 UTC for "
)


def node(**values: Any) -> dict[str, Any]:
    """Return the row of a locked node."""
    row: dict[str, Any] = dict.fromkeys(node_locks.COLUMNS)
    row |= {"uuid": "n1", "provision_state": "manageable", "reservation": "c1"}
    return {**row, "locked_at": LOCKED_AT, **values}


BUSY = {"provision_state": "cleaning", "run_uuid": RUN, "clean_step": ERASE}
WAITING = {**BUSY, "provision_state": "clean wait"}


@pytest.mark.parametrize(
    ("values", "purpose"),
    [
        ({"lock_note": "conductor:power sync"}, "the power sync"),
        ({"lock_note": "conductor:power sync", **WAITING}, "the power sync"),
        ({"lock_note": "conductor:something newer"}, "something newer"),
        ({"lock_note": "req-1 ann"}, "the request req-1"),
        ({"lock_note": "req-1", **WAITING}, "the request req-1"),
        ({"lock_note": "req-1 ann", **BUSY}, f"the run {RUN}, step deploy.erase_devices"),
        ({"lock_note": "req-1", **BUSY, "clean_step": {}}, f"the run {RUN}"),
        (
            {"lock_note": "conductor:timer", **WAITING},
            f"the run {RUN}, step deploy.erase_devices",
        ),
        ({"lock_note": "conductor:time-outs"}, "the check of its time-out"),
    ],
)
def test_refusal_names_time_and_purpose(values: dict[str, Any], purpose: str) -> None:
    refusal = node_locks.refusal(node(**values))
    stop = " PUT /v1/nodes/n1/runs/current/stop ends it before its next step."
    assert refusal.message == f"{PLAIN}{purpose}.{stop if 'step' in purpose else ''}"
    assert (refusal.facts["host"], refusal.facts["since"]) == ("c1", "2026-11-22T12:00:00")
    assert bool(refusal.facts["run"]) is ("the run" in purpose)


def test_lock_of_an_older_release_gets_the_plain_sentence() -> None:
    old = node_locks.refusal(node(locked_at=None))
    assert old.message == errors.NodeLocked(node="n1", host="c1").message
    assert "for the run" in node_locks.refusal(node(locked_at=None, **BUSY)).message


def test_free_node_has_no_lock() -> None:
    assert node_locks.of(node(reservation=None)) is None
    assert "host unknown" in node_locks.refusal(node(reservation=None)).message


def test_note_has_the_request_and_its_user_or_the_internal_work() -> None:
    assert node_locks.note(context.Context("req-1", user="ann")) == "req-1 ann"
    assert node_locks.note(context.Context("req-1")) == "req-1"
    assert node_locks.note(context.internal("power sync")) == "conductor:power sync"
    assert len(node_locks.note(context.Context("req-1", user="a" * 999))) == 255
