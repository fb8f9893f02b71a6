"""S4, retirement: no way leads back, nobody looks after the machine, and clients know the words."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator

import pytest

from ironic_lite.db.queries import allocations
from ironic_lite.domain import fields, states, verbs
from ironic_lite.domain.states import Kind, State
from tests.support import configurations
from tests.support.cleaning_fixture import overdue, sweep, watched
from tests.support.conductor_fixture import listed, wait_for
from tests.support.database_rows import new_uuid
from tests.support.docs_pages import lacks, section
from tests.support.operator import Json, Operator
from tests.support.real_socket import baremetal, listening

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import openstack

Serve = Callable[..., Operator]
ON, OFF = "power on", "power off"
BODIES: dict[str, Json] = {
    "clean": {"clean_steps": listed("deploy.erase_devices")},
    "service": {"service_steps": listed("vendor.log_passthrough")},
    "rescue": {"rescue_password": "sesame"},
}


# -- no way to available ---------------------------------------------------------------------


def rest(operator: Operator, node: str) -> None:
    """Let all time pass that can pass: timers ring, owners are found, waits end."""
    sweep(operator, "orphans")
    operator.rig.settled(node)
    row = wait_for(lambda: (row := operator.rig.settled(node))["wake_at"] is None and row)
    if states.kind(State(row["provision_state"])) is Kind.WAIT:
        overdue(operator, node)
        operator.rig.settled(node)


def walk(operator: Operator, node: str, *targets: str) -> list[str]:
    """Ask for verbs, each after all time has passed, and return the states the node saw."""
    for target in targets:
        operator.asks(node, target, **BODIES.get(target, {}))
        rest(operator, node)
    return [operator.shows(node)["provision_state"], *operator.rig.path(node)]


@pytest.mark.parametrize("state", sorted(set(State) - {State.AVAILABLE}))
def test_s4_13_nothing_makes_a_retired_node_available(serve: Serve, state: State) -> None:
    operator = serve(conductor__node_locked_retry_interval=0)
    seen = set()
    for target in (verb.target for verb in verbs.TABLE):
        for goal in {states.STATES[state].target, None}:
            heading = str(goal) if goal else None
            node = operator.rig.node(state, retired=True, target_provision_state=heading)
            seen |= set(walk(operator, node, target, "unhold"))
    assert "available" not in seen
    assert seen - {str(state)}  # some of them were carried out


def test_s4_13_search_for_a_free_machine_finds_no_retired_one(operator: Operator) -> None:
    node = operator.enroll("active")
    assert operator.patches(node, retired=True).status == 200
    operator.provision(node, "deleted")
    assert operator.api.get("/v1/nodes?provision_state=available").json["nodes"] == []
    for target in ("active", "deploy"):
        operator.refused(node, target, 400)
    assert operator.shows(node)["instance_uuid"] is None


# -- nobody looks ----------------------------------------------------------------------------


def differs(operator: Operator, **fields: object) -> str:
    """Add a node whose machine is off, while the database says that it is on."""
    notes = {"driver_notes": {"fake_power_state": OFF}}
    return operator.rig.node("active", power_state=ON, driver_internal_info=notes, **fields)


def real(operator: Operator, node: str) -> str:
    """Return what the machine is."""
    notes = operator.shows(node)["driver_internal_info"]["driver_notes"]
    return str(notes["fake_power_state"])


def test_s4_14_power_of_a_retired_machine_is_not_compared(serve: Serve) -> None:
    asked: list[str] = []
    operator = serve(registry=watched(lambda _kind, name: asked.append(name)))
    node = differs(operator)
    assert operator.patches(node, retired=True).status == 200
    before = operator.rig.get(node)
    sweep(operator, "power sync")
    assert "get_power_state" not in asked  # its BMC is not even asked
    other = differs(operator)
    sweep(operator, "power sync")
    assert (real(operator, node), real(operator, other)) == (OFF, ON)
    assert operator.rig.get(node) == before
    assert operator.patches(node, retired=False).status == 200
    sweep(operator, "power sync")
    assert real(operator, node) == ON


def test_s4_14_a_retired_machine_that_is_silent_is_no_fault(serve: Serve) -> None:
    operator = serve(conductor__power_state_sync_max_retries=0)
    told = {"fake_fail_power": "cable cut"}
    node, other = (operator.rig.node("active", driver_info=told) for _ in range(2))
    assert operator.patches(node, retired=True).status == 200
    for _ in range(3):
        sweep(operator, "power sync")
    assert operator.shows(other)["fault"] == "power failure"
    assert (operator.shows(node)["fault"], operator.shows(node)["maintenance"]) == (None, False)
    # And one whose fault was found before is not brought back from it.
    assert operator.patches(other, retired=True).status == 200
    assert operator.patches(other, driver_info={}).status == 200
    sweep(operator, "power recovery")
    assert operator.shows(other)["maintenance"] is True
    assert operator.patches(other, retired=False).status == 200
    sweep(operator, "power recovery")
    assert operator.shows(other)["maintenance"] is False


def test_s4_14_a_machine_retired_during_the_round_is_left_alone(serve: Serve) -> None:
    def before(_kind: str, name: str) -> None:
        if name == "get_power_state" and operator.rig.get(node)["reservation"] is None:
            assert operator.patches(node, retired=True).status == 200

    operator = serve(registry=watched(before))
    node = differs(operator)
    sweep(operator, "power sync")
    assert operator.shows(node)["retired"] is True
    assert (real(operator, node), operator.shows(node)["power_state"]) == (OFF, ON)


def test_s4_14_time_outs_and_recovery_still_see_it(operator: Operator) -> None:
    waiting = operator.rig.node("clean wait", target_provision_state="available", retired=True)
    overdue(operator, waiting)
    assert operator.rig.settled(waiting)["provision_state"] == "clean failed"
    left = operator.rig.node("cleaning", target_provision_state="available", retired=True)
    sweep(operator, "orphans")
    operator.rig.reaches(left, "manageable")


def test_s4_14_a_search_that_is_taken_over_leaves_it_out(operator: Operator) -> None:
    about = {"power_state": ON, "resource_class": "big", "retired": True}
    retired = operator.rig.node("available", **about)  # by other means: S4.3 refuses it
    left = {"uuid": new_uuid(), "state": "allocating", "conductor": "gone"}
    left["resource_class"] = "big"
    operator.rig.database.write(lambda conn: allocations.insert(conn, left))
    sweep(operator, "allocations")
    found = wait_for(lambda: _settled(operator, left["uuid"]))
    assert (found["state"], found["node_uuid"]) == ("error", None)
    assert operator.shows(retired)["instance_uuid"] is None


def _settled(operator: Operator, uuid: str) -> Json | None:
    row = operator.rig.database.read(lambda conn: allocations.get(conn, uuid))
    return None if row["state"] == "allocating" else row


def test_s4_14_every_round_of_the_conductor_is_one_of_these(operator: Operator) -> None:
    rounds = set(operator.rig.service.sweeps.plan)
    leave_it_out = {"power sync", "power recovery", "sensors", "allocations"}
    see_it = {
        "time-outs",
        "boot retries",
        "orphans",
        "consoles",
        "moved nodes",
        "joins and leaves",
        "hanging work",
    }
    see_it |= {"overdue steps", "discoveries"}  # a retired node may be cleaned, too
    if "batches" in configurations.FEATURES:
        see_it |= {"batches"}  # the verbs refuse it as they refuse requests
    if "search" in configurations.FEATURES:
        see_it |= {"changes for the search", "search terms"}  # it is found as others are
    of_no_node = {"old history", "old files", "old keys", "old batches", "webhooks"}
    of_no_node |= {"evidence key"}
    assert rounds - of_no_node == leave_it_out | see_it


# -- clients ---------------------------------------------------------------------------------


@pytest.fixture
def url(operator: Operator) -> Iterator[str]:
    """Where the operator's service listens."""
    with listening(operator) as found:
        yield found


def said(url: str, *words: str) -> str:
    """Run a command that works, and return what it says."""
    done = baremetal(url, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_s4_11_the_command_line_sets_unsets_and_lists(operator: Operator, url: str) -> None:
    node = operator.enroll(name="old-3")
    operator.enroll("available", name="young")
    said(url, "node", "set", "--retired", "--retired-reason", "out of warranty", "old-3")
    shown = operator.shows(node)
    assert (shown["retired"], shown["retired_reason"]) == (True, "out of warranty")

    def names(*more: str) -> list[str]:
        rows: list[Json] = json.loads(said(url, "node", "list", *more, "-f", "json"))
        return [row["name"] for row in rows]

    assert names("--retired") == ["old-3"]
    assert sorted(names()) == ["old-3", "young"]
    said(url, "node", "unset", "--retired", "old-3")
    shown = operator.shows(node)
    assert (shown["retired"], shown["retired_reason"]) == (False, None)
    assert names("--retired") == []


def test_s4_15_the_library_sets_and_filters(operator: Operator, url: str) -> None:
    node = operator.enroll(name="old-3")
    operator.enroll(name="young")
    cloud = openstack.connect(
        auth_type="none", endpoint=url, baremetal_endpoint_override=url, load_yaml_config=False
    )
    cloud.baremetal.update_node(node, is_retired=True, retired_reason="out of warranty")
    found = list(cloud.baremetal.nodes(is_retired=True, details=True))
    assert [(one.name, one.is_retired, one.retired_reason) for one in found] == [
        ("old-3", True, "out of warranty")
    ]
    assert [one.name for one in cloud.baremetal.nodes(is_retired=False, details=True)] == ["young"]
    cloud.baremetal.update_node(node, is_retired=False)
    assert cloud.baremetal.get_node(node).retired_reason is None


def test_s4_15_the_fields_and_their_use_are_documented() -> None:
    used = section("retirement.rst", "Retire a machine that is in use")
    assert lacks(used, "/retired", "/retired_reason", "409", "?retired=true") == []
    assert lacks(section("retirement.rst", "Retiring machines"), "``manageable``") == []
    assert lacks(section("retirement.rst", "Bring it back"), '"value": false', "cleared") == []
    free = section("retirement.rst", "Retire a machine that is free")
    assert lacks(free, "409", "manage") == []
    rules = section("retirement.rst", "The rules")
    since = {field.since for field in fields.NODE if field.name.startswith("retired")}
    assert since == {61}
    assert lacks(rules, "every state except ``available``", "lock", "1.61", "rebuilding") == []
    assert lacks(rules, "``provide``, ``cleaned`` and ``available``: 409", "power states") == []
    clients = ("node set --retired --retired-reason", "node unset --retired", "list --retired")
    assert lacks(rules, *clients, "is_retired=True") == []
