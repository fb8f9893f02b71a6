"""Checks of a requested verb: the first refusal, all refusals, and those of the node alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.api.resources import verb_checks
from ironic_lite.core import config
from ironic_lite.domain import node_locks, verbs
from ironic_lite.domain.states import State

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
BODIES = st.fixed_dictionaries(
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
VERBS = st.sampled_from(verbs.TABLE)
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


@given(verb=VERBS, body=BODIES, node=NODES, version=VERSIONS)
def test_first_refusal_is_the_one_that_check_raises(
    conf: Any, verb: verbs.Verb, body: dict[str, Any], node: dict[str, Any], version: int
) -> None:
    asked = verb_checks.Asked(verb, body, node, version, conf)
    opened, found = verb_checks.refusals(asked, find)
    try:
        accepted = verb_checks.check(asked, find)
    except errors.Error as first:
        assert same(found[0], first)
    else:
        assert all(isinstance(one, CONDUCTORS_OWN) for one in found)
        assert opened == accepted


@given(verb=VERBS, body=BODIES, node=NODES, version=VERSIONS)
def test_refusals_of_the_node_are_the_same_for_every_body(
    conf: Any, verb: verbs.Verb, body: dict[str, Any], node: dict[str, Any], version: int
) -> None:
    asked = verb_checks.Asked(verb, body, node, version, conf)
    _opened, every = verb_checks.refusals(asked, find)
    bare = verb_checks.Asked(verb, {}, node, version, conf)
    alone = verb_checks.node_refusals(bare)
    assert all(any(same(one, other) for other in every) for one in alone)
    assert [one.message for one in verb_checks.node_refusals(asked)] == [
        one.message for one in alone
    ]


def test_every_malformed_step_is_refused_by_its_path(conf: Any) -> None:
    body = {"clean_steps": [STEP, BAD_STEP, 5, {"step": "wait", "interface": "deploy", "at": 1}]}
    asked = verb_checks.Asked(verbs.BY_TARGET["clean"], body, NODE, 115, conf)
    _opened, found = verb_checks.refusals(asked, find)
    assert [one.facts["path"] for one in found] == [
        "clean_steps/1/interface",
        "clean_steps/1/step",
        "clean_steps/2",
        "clean_steps/3/at",
    ]


def test_locked_node_in_maintenance_has_both_refusals(conf: Any) -> None:
    node = {**NODE, "reservation": "host", "maintenance": True, "retired": True}
    asked = verb_checks.Asked(verbs.BY_TARGET["provide"], {}, node, 115, conf)
    codes = [one.code for one in verb_checks.node_refusals(asked)]
    assert codes == ["NodeRetired", "NodeLocked", "NodeInMaintenance"]
