"""What each flow leaves in the history of its node: when it ends well, fails, or is called off."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from ironic_lite.conductor.engine import lists
from ironic_lite.core import clock
from ironic_lite.db.queries import events, nodes
from ironic_lite.domain import activities, history
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed

STEP = "bios.factory_reset"
HOUR: dict[str, Any] = {"fake_async_steps": ["*"], "fake_step_seconds": 3600}


class Flow(NamedTuple):
    """State before, endpoint and arguments; then as history tells of it: the flow, its first step,
    the activity of an error, state and target meanwhile."""

    before: str
    method: str
    args: dict[str, Any]
    name: str
    first: str
    activity: str
    state: str
    target: str


def verb(action: str) -> tuple[str, dict[str, Any]]:
    return action, {}


FLOWS = {
    "manual clean": Flow(
        *("manageable", "clean", {"clean_steps": listed(STEP)}),
        *("manual_cleaning", STEP, "cleaning", "cleaning", "manageable"),
    ),
    "automated clean": Flow(
        *("manageable", *verb("provide"), "automated_cleaning"),
        *("deploy.erase_devices_metadata", "cleaning", "cleaning", "available"),
    ),
    "deployment": Flow(
        *("available", "deploy", {}),
        *("deployment", "deploy.deploy", "deploying", "deploying", "active"),
    ),
    "service": Flow(
        *("active", "service", {"service_steps": listed("vendor.log_passthrough")}),
        *("servicing", "vendor.log_passthrough", "servicing", "servicing", "active"),
    ),
    "verification": Flow(
        *("enroll", *verb("manage"), "verification"),
        *("management.verify_access", "verify", "verifying", "manageable"),
    ),
}
WAITING = [name for name in FLOWS if name != "verification"]


@pytest.fixture
def asked(rig: ConductorFixture) -> ConductorFixture:
    """A conductor, asked by alice of the project metal."""
    rig.who = dataclasses.replace(rig.who, user="alice", project="metal")
    return rig


def told(rig: ConductorFixture, node: str) -> list[dict[str, Any]]:
    """Return the entries of a node's history, the oldest first."""
    rows = rig.database.read(
        lambda conn: events.entries(conn, node, marker=None, direction="asc", limit=1000, own={})
    )
    return [history.entry(row) for row in rows]


def kinds(rig: ConductorFixture, node: str) -> list[str]:
    """Return type and severity of each entry."""
    return [f"{entry['event_type']} {entry['severity']}" for entry in told(rig, node)]


def started(rig: ConductorFixture, flow: Flow, **told_: Any) -> str:
    """Start a flow on a new node, and wait until nobody works on it; return its UUID."""
    node = rig.node(flow.before, **told_)
    rig.call(flow.method, node, **flow.args)
    return node


def words(flow: Flow) -> str:
    return flow.name.replace("_", " ").capitalize()


# -- ends ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_that_ends_well_has_a_start_and_an_end(asked: ConductorFixture, name: str) -> None:
    flow = FLOWS[name]
    node = started(asked, flow)
    began, ended = told(asked, node)
    assert (began["event_type"], ended["event_type"]) == (f"{flow.name}_start", f"{flow.name}_end")
    assert began["event"].startswith(f"{words(flow)} begins, ")
    assert flow.first in began["event"]
    assert ended["event"] == f"{words(flow)} has ended well."
    for entry in (began, ended):
        assert (entry["severity"], entry["conductor"]) == ("INFO", "here")
        assert (entry["user"], entry["project"]) == ("alice", "metal")
        assert (entry["state"], entry["target_provision_state"]) == (flow.state, flow.target)
        assert entry["duration_seconds"] == 0


@pytest.mark.parametrize("name", WAITING)
def test_waiting_makes_no_entry(rig: ConductorFixture, name: str) -> None:
    flow = FLOWS[name]
    node = started(rig, flow, fake_async_steps=["*"])
    rig.reaches(node, flow.target)
    assert kinds(rig, node) == [f"{flow.name}_start INFO", f"{flow.name}_end INFO"]


@pytest.mark.parametrize("name", FLOWS)
def test_a_flow_that_fails_names_its_step_and_has_the_error(
    asked: ConductorFixture, name: str
) -> None:
    flow = FLOWS[name]
    node = started(asked, flow, fake_fail_steps={flow.first: "smoke"})
    _, ended, error = told(asked, node)
    assert (ended["event_type"], ended["severity"]) == (f"{flow.name}_end", "ERROR")
    assert ended["event"] == f"{words(flow)} failed at the step {flow.first}."
    assert (error["event_type"], error["severity"]) == (flow.activity, "ERROR")
    assert error["event"] == asked.get(node)["last_error"]
    assert (error["user"], error["project"]) == ("alice", "metal")
    assert (error["state"], error["target_provision_state"]) == (flow.state, flow.target)


@pytest.mark.parametrize("name", WAITING)
def test_a_flow_that_is_called_off_is_no_error(asked: ConductorFixture, name: str) -> None:
    flow = FLOWS[name]
    node = started(asked, flow, **HOUR)
    asked.edit(node, **abortable(asked, node))
    asked.act("abort", node)
    _, ended, abort, *rest = told(asked, node)
    assert (ended["event_type"], ended["severity"]) == (f"{flow.name}_end", "INFO")
    assert ended["event"] == f"{words(flow)} was aborted at the step {flow.first}."
    assert (abort["event_type"], abort["severity"]) == (flow.activity, "INFO")
    assert "By request, the " in abort["event"]
    assert abort["user"] == "alice"
    again = ["From service failed to active." in entry["event"] for entry in rest]
    assert again == ([True] if name == "service" else [])


def abortable(rig: ConductorFixture, node: str) -> dict[str, Any]:
    """Return the columns that make the waiting step one that may be cut short."""
    row = rig.get(node)
    names = ("clean_step", "deploy_step", "service_step")
    return {name: {**row[name], "abortable": True} for name in names if row[name]}


def test_an_abort_that_has_to_wait_is_told_when_it_is_asked_for(asked: ConductorFixture) -> None:
    node = started(asked, FLOWS["manual clean"], **HOUR)
    asked.act("abort", node)
    request = told(asked, node)[-1]
    assert (request["event_type"], request["severity"]) == ("cleaning", "INFO")
    assert (request["user"], request["state"]) == ("alice", "clean wait")
    assert STEP in request["event"]
    asked.ring(node)
    asked.reaches(node, "clean failed")
    expected = ["cleaning INFO", "manual_cleaning_end INFO", "cleaning INFO"]
    assert kinds(asked, node)[1:] == expected


# -- flows that have not begun, or nobody ended ----------------------------------------------


def test_a_list_that_is_refused_is_an_error_without_a_flow(rig: ConductorFixture) -> None:
    node = rig.node()
    rig.clean(node, "bios.nothing")
    [error] = told(rig, node)
    assert (error["event_type"], error["severity"]) == ("cleaning", "ERROR")
    assert error["event"] == rig.get(node)["last_error"]


def test_cleaning_that_is_switched_off_leaves_no_entry(rig: ConductorFixture) -> None:
    node = rig.node(automated_clean=False)
    rig.act("provide", node)
    assert rig.get(node)["provision_state"] == "available"
    assert told(rig, node) == []


def test_a_flow_without_steps_begins_and_ends(build: Callable[..., ConductorFixture]) -> None:
    rig = build(
        conductor__clean_step_priority_override=[
            {"deploy.erase_devices": 0, "deploy.erase_devices_metadata": 0}
        ]
    )
    node = rig.node()
    rig.act("provide", node)
    began, _ = told(rig, node)
    assert began["event"] == "Automated cleaning begins, no steps."
    assert kinds(rig, node) == ["automated_cleaning_start INFO", "automated_cleaning_end INFO"]


def test_a_time_out_ends_the_flow_at_the_step_that_waited(rig: ConductorFixture) -> None:
    node = started(rig, FLOWS["manual clean"], **HOUR)
    rig.edit(node, provision_updated_at=clock.after(-7200), wake_at=clock.after(-7200))
    rig.sweep("time-outs")
    rig.reaches(node, "clean failed")
    _, ended, error = told(rig, node)
    assert ended["event"] == f"Manual cleaning failed at the step {STEP}."
    assert "Timeout" in error["event"]
    assert (error["state"], error["user"]) == ("clean wait", "conductor:time-outs")
    assert error["duration_seconds"] >= 7200


def test_another_verb_ends_the_flow_it_replaces(rig: ConductorFixture) -> None:
    node = started(rig, FLOWS["deployment"], **HOUR)
    rig.call("delete", node)
    assert kinds(rig, node)[:2] == ["deployment_start INFO", "deployment_end INFO"]
    assert told(rig, node)[1]["event"] == "Deployment was aborted at the step deploy.deploy."
    assert rig.runs(node)[0]["error"]["step"] == "deploy.deploy"


def test_deleting_tells_of_its_cleaning(rig: ConductorFixture) -> None:
    node = rig.node("active")
    rig.call("delete", node)
    assert kinds(rig, node) == ["automated_cleaning_start INFO", "automated_cleaning_end INFO"]


# -- errors without steps --------------------------------------------------------------------


@pytest.mark.parametrize(
    "case",
    [
        ("manageable", "inspect", {}, "inspect", "introspection"),
        ("manageable", *verb("adopt"), "adopt", "adoption"),
        ("active", "rescue", {"rescue_password": "sesame-7"}, "rescue", "rescue"),
        ("rescue", "unrescue", {}, "unrescue", "rescue"),
        ("active", "delete", {}, "delete", "unprovision"),
        ("enroll", *verb("manage"), "verify", "verify"),
    ],
    ids=lambda case: case[3],
)
def test_a_verb_that_fails_is_an_error(
    rig: ConductorFixture, case: tuple[str, str, dict[str, Any], str, str]
) -> None:
    before, method, args, broken, activity = case
    node = rig.node(before, fake_fail_verbs={broken: "smoke"})
    rig.call(method, node, **args)
    error = told(rig, node)[-1]
    assert (error["event_type"], error["severity"]) == (activity, "ERROR")
    assert "smoke" in error["event"]
    assert error["event"] == rig.get(node)["last_error"]


def test_a_power_change_that_fails_is_an_error(asked: ConductorFixture) -> None:
    node = asked.node("active", power_state="power off", fake_fail_power="smoke")
    asked.call("change_node_power_state", node, target="power on")
    [error] = told(asked, node)
    assert (error["event_type"], error["severity"], error["user"]) == ("power", "ERROR", "alice")
    assert error["event"] == asked.get(node)["last_error"]
    assert (error["state"], error["target_provision_state"]) == ("active", None)


@pytest.mark.parametrize(
    ("broken", "name"),
    [
        ("tear_down_cleaning", "manual clean"),
        ("clean_up", "deployment"),
        ("tear_down_service", "service"),
    ],
)
def test_failed_clean_up_after_an_abort_is_an_error_too(
    build: Callable[..., ConductorFixture], broken: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Those that the fake driver can wait in need no ramdisk; where none is booted none is put away.
    monkeypatch.setattr(lists, "needs_ramdisk", lambda *_: True)

    def around(_kind: str, called: str, call: Callable[[], Any]) -> Any:
        if called == broken:
            raise KeyError("a bug")
        return call()

    rig = build(registry=crashes.Drivers(drivers(), around))
    node = started(rig, FLOWS[name], **HOUR)
    rig.edit(node, **abortable(rig, node))
    rig.act("abort", node)
    last = told(rig, node)[-1]
    assert last["event_type"] == FLOWS[name].activity
    assert rig.get(node)["last_error"] in last["event"]
    assert "Also, " in last["event"]
    texts = [entry["event"] for entry in told(rig, node)]
    assert len(texts) == len(set(texts))


def test_a_power_change_cut_short_is_an_error(rig: ConductorFixture) -> None:
    node = rig.node("active", target_power_state="power on", power_state="power off")
    ended = nodes.ENDED
    rig.database.write(lambda conn: nodes.lock(conn, node, host="gone", token="its", expires=ended))
    rig.sweep("orphans")
    [error] = told(rig, node)
    assert (error["event_type"], error["severity"]) == ("power", "ERROR")
    assert error["event"] == rig.get(node)["last_error"]


def test_a_list_that_is_made_anew_says_so(rig: ConductorFixture) -> None:
    node = rig.node("cleaning", target_provision_state="available")
    with rig.tasks.lock(rig.who, node) as task:
        for steps in (listed(STEP), []):
            task.run_record.begin_flow(activities.CLEAN, steps)
        task.save()
    first, again = told(rig, node)
    assert first["event"] == f"Automated cleaning begins, 1 step: {STEP}."
    assert again["event"] == "Automated cleaning begins anew, no steps."


def test_a_machine_lost_and_found_is_told(build: Callable[..., ConductorFixture]) -> None:
    rig = build(conductor__power_state_sync_max_retries=0)
    node = rig.node("active", power_state="power on", fake_fail_power="smoke")
    rig.sweep("power sync")
    rig.edit(node, driver_info={})
    rig.sweep("power recovery")
    lost, found = told(rig, node)
    assert (lost["event_type"], lost["severity"]) == ("monitoring", "ERROR")
    assert "smoke" in lost["event"]
    assert (found["event_type"], found["severity"]) == ("monitoring", "INFO")
    assert found["event"].startswith("The power state can be read again")


def test_work_of_a_dead_conductor_that_is_taken_over_is_told(rig: ConductorFixture) -> None:
    node = rig.node("inspecting", target_provision_state="manageable")
    rig.sweep("orphans")
    rig.reaches(node, "manageable")
    (taken,) = told(rig, node)
    assert (taken["event_type"], taken["severity"]) == ("takeover", "INFO")
    assert taken["user"] == "conductor:recovery"


# -- what may not be seen --------------------------------------------------------------------


def test_arguments_of_steps_are_not_in_history(rig: ConductorFixture) -> None:
    node = rig.node()
    args = {"settings": [{"name": "admin_password", "value": "sesame"}]}
    step = {**listed("bios.apply_configuration")[0], "args": args}
    rig.call("clean", node, clean_steps=[step])
    assert len(told(rig, node)) == 2
    assert "sesame" not in str(rig.events(node))


# -- the names of entries --------------------------------------------------------------------


@pytest.mark.parametrize("number", [0, 1, 255, 2**31, 2**48 - 1, 2**48, 2**60 - 1])
def test_an_entrys_uuid_leads_back_to_its_event(number: int) -> None:
    name = history.ident(number)
    assert (uuid.UUID(name).version, uuid.UUID(name).variant) == (8, uuid.RFC_4122)
    assert history.event_id(name) == number
    assert history.event_id(name.upper()) == number
    assert history.ident(number + 1) > name or number == 2**60 - 1


@pytest.mark.parametrize(
    "name", ["", "current", str(uuid.UUID(int=1)), f"{history.ident(1)}0", f" {history.ident(1)}"]
)
def test_other_names_lead_nowhere(name: str) -> None:
    assert history.event_id(name) is None
