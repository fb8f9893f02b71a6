"""The verbs are those of the specifications: from which states, since which version, with what."""

from __future__ import annotations

import re

import pytest

from ironic_lite.domain import states, verbs
from ironic_lite.domain.states import Kind, State

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
    spared = {verb.target for verb in verbs.TABLE if verb.spares_protected}
    assert spared == {"deleted", "undeploy", "rebuild"}


def test_no_verb_makes_a_retired_node_available() -> None:
    # S4.7 and conflict C23
    spared = {verb.target for verb in verbs.TABLE if verb.spares_retired}
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
