"""Steps that only a ramdisk's agent knows, and agents that change in the middle of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.conductor.engine import notes, stepper
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import reports
from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for
from tests.support.crashes import Scene, Stage
from tests.support.operator import Operator

Json = dict[str, Any]

BURN: Json = {
    "interface": "deploy",
    "step": "burn_in",
    "priority": 50,
    "abortable": True,
    "argsinfo": {"hours": {"description": "how long", "required": False}},
    "reboot_requested": True,
}
SCRUB: Json = {"interface": "raid", "step": "scrub", "priority": 5}
VERSION = {"fake": "1"}


def agent(*more: Json, **lists: list[Json]) -> list[Json]:
    """Return a value of ``fake_agent``; ``more`` are the ramdisks after the first."""
    return [{"version": "1", **lists}, *more]


def newer(at: str, version: str = "2", **lists: list[Json]) -> Json:
    return {"version": version, "at": at, **lists}


def info(row: Json) -> Json:
    return dict(row["driver_internal_info"])


def copy(rig: ConductorFixture, node: str) -> Any:
    return rig.database.read(lambda conn: reports.get_agent_steps(conn, node))


def told(rig: ConductorFixture, node: str) -> list[str]:
    """Return the steps of the newest run: ``name state attempt`` by ordinal."""
    rows = sorted(rig.run(node)["steps"], key=lambda row: row["ordinal"])
    assert [row["ordinal"] for row in rows] == list(range(len(rows)))
    return [f"{row['step']} {row['state']} {row['attempt']}" for row in rows]


# -- what an agent lists ---------------------------------------------------------------------


def test_an_automated_clean_runs_what_the_agent_lists_among_the_rest(rig: ConductorFixture) -> None:
    steps = [BURN, SCRUB, {**SCRUB, "step": "never", "priority": 0}]
    node = rig.node(fake_agent=agent(clean_steps=steps))
    rig.ask("provide", node)
    rig.reaches(node, "available")
    assert rig.path(node) == ["cleaning", "clean wait", "cleaning", "available"]
    assert rig.started(node) == [
        "deploy.erase_devices_metadata",
        "deploy.burn_in",
        "deploy.erase_devices",
        "raid.scrub",
    ]


def test_steps_of_an_agent_that_bear_names_of_the_services_own_are_left_out(
    rig: ConductorFixture, caplog: pytest.LogCaptureFixture
) -> None:
    """A list that names ``reboot`` means the service's: the agent's could never be run."""
    steps = [BURN, {**BURN, "step": "reboot", "priority": 5}, {**SCRUB, "step": "wait"}]
    node = rig.node(fake_agent=agent(clean_steps=steps))
    rig.ask("provide", node)
    assert rig.reaches(node, "available")["last_error"] is None
    assert not {"deploy.reboot", "raid.wait"} & set(rig.started(node))
    assert copy(rig, node) == {"deploy": [{**BURN, "requires_ramdisk": True}]}
    assert "deploy.reboot of its agent is left out" in caplog.text
    assert "raid.wait of its agent is left out" in caplog.text


def test_while_the_ramdisk_runs_its_list_is_shown_as_by_ironic_and_then_it_goes(
    rig: ConductorFixture,
) -> None:
    node = rig.node(
        fake_agent=agent(clean_steps=[BURN, SCRUB]),
        fake_async_steps=["deploy.burn_in"],
        fake_step_seconds=3600,
    )
    row = rig.clean(node, "deploy.burn_in", "raid.scrub")
    assert (row["provision_state"], info(row).get("clean_step_index")) == ("clean wait", None)
    assert "agent_cached_clean_steps" not in info(row)
    rig.ring(node)
    wait_for(lambda: rig.get(node)["provision_state"] == "manageable")
    row = rig.settled(node)
    assert not [key for key in info(row) if key.startswith("agent_")]
    assert info(row)["hardware_manager_version"] == VERSION
    assert "driver_notes" not in info(row) or "fake_ramdisk" not in info(row)["driver_notes"]
    assert list(copy(rig, node)) == ["deploy", "raid"]


def test_a_step_that_waits_finds_the_list_in_the_notes(rig: ConductorFixture) -> None:
    node = rig.node(fake_agent=agent(clean_steps=[BURN]))
    rig.ask("clean", node, clean_steps=listed("deploy.burn_in", "power.wait"))
    wait_for(lambda: (rig.get(node)["clean_step"] or {}).get("step") == "wait")
    row = rig.settled(node)
    cached = info(row)["agent_cached_clean_steps"]
    assert cached == {"deploy": [{**BURN, "requires_ramdisk": True}]}
    assert info(row)["agent_cached_clean_steps_refreshed"]
    assert info(row)["clean_steps"][0]["abortable"] is True
    assert info(row)["clean_steps"][0]["priority"] == 50
    assert rig.act("abort", node)["provision_state"] == "clean failed"
    assert "agent_cached_clean_steps" not in info(rig.settled(node))
    assert copy(rig, node) == cached


def test_the_list_goes_when_the_machine_is_switched_off(rig: ConductorFixture) -> None:
    node = rig.node(fake_agent=agent(clean_steps=[BURN]), power_state="power on")
    rig.ask("clean", node, clean_steps=listed("power.power_off", "power.wait"))
    wait_for(lambda: (rig.get(node)["clean_step"] or {}).get("step") == "wait")
    assert not [key for key in info(rig.settled(node)) if key.startswith("agent_cached")]
    assert copy(rig, node)


@pytest.mark.parametrize(
    ("wanted", "says"),
    [
        (listed("deploy.burn_in", "deploy.nothing"), "does not support this clean step"),
        ([{**listed("deploy.burn_in")[0], "args": {"days": 1}}], "unexpected arguments: days"),
    ],
)
def test_a_manual_clean_is_checked_once_the_agent_has_spoken_and_nothing_runs(
    rig: ConductorFixture, wanted: list[Json], says: str
) -> None:
    node = rig.node(fake_agent=agent(clean_steps=[BURN]))
    rig.ask("clean", node, clean_steps=wanted)
    row = rig.reaches(node, "clean failed")
    assert rig.path(node) == ["cleaning", "clean wait", "cleaning", "clean failed"]
    assert says in row["last_error"]
    assert rig.started(node) == []
    assert copy(rig, node)  # that run has told, all the same


def test_without_its_ramdisk_an_agents_step_is_not_there(
    build: Callable[..., ConductorFixture],
) -> None:
    called: list[str] = []

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        called.append(name)
        return call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    node = rig.node(fake_agent=agent(clean_steps=[BURN]))
    row = rig.clean(node, "deploy.burn_in", disable_ramdisk=True)
    assert row["provision_state"] == "clean failed"
    assert "does not support this clean step: deploy.burn_in" in row["last_error"]
    assert rig.path(node) == ["cleaning", "clean failed"]
    assert copy(rig, node) is None
    assert "agent_steps" not in called  # not even one that still runs is asked


def test_an_agent_does_not_steer_the_engine(rig: ConductorFixture) -> None:
    steering = {"abort_after": True, "execute_on_child_nodes": True, "args": {"hours": 9}}
    limit = {"limit_child_node_execution": ["5d6de9a0-0000-4000-8000-000000000000"]}
    node = rig.node(
        fake_agent=agent(clean_steps=[{**BURN, **steering, **limit}]),
        fake_async_steps=["deploy.burn_in"],
    )
    rig.node("active", parent_node=node)
    rig.ask("provide", node)
    rig.reaches(node, "available")
    assert told(rig, node)[1] == "burn_in done 1"
    assert copy(rig, node)["deploy"] == [{**BURN, "requires_ramdisk": True}]


def test_an_agent_that_lists_nonsense_fails_the_clean_by_name(rig: ConductorFixture) -> None:
    node = rig.node(fake_agent=agent(clean_steps=[BURN]))

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        found = call()
        if name == "agent_steps" and found is not None:
            found.steps[next(iter(found.steps))]["fake"][0]["priority"] = "high"
        return found

    registry = cast(Registry, crashes.Drivers(drivers(), around))
    object.__setattr__(rig.service.runtime, "registry", registry)
    rig.ask("provide", node)
    row = rig.reaches(node, "clean failed")
    assert "manager fake lists a step that cannot be used: priority" in row["last_error"]
    assert copy(rig, node) is None


def test_an_agent_that_lists_too_much_fails_the_clean_of_its_node(rig: ConductorFixture) -> None:
    large = {**BURN, "argsinfo": {"hours": {"description": "x" * (notes.MOST_KIB * 1024)}}}
    node = rig.node(fake_agent=agent(clean_steps=[large]))
    rig.ask("provide", node)
    row = rig.reaches(node, "clean failed")
    assert "agent_steps would take 2048 KiB of JSON" in row["last_error"]
    assert copy(rig, node) is None


def test_a_node_without_an_agent_has_nothing_of_all_this(rig: ConductorFixture) -> None:
    node = rig.node()
    rig.ask("provide", node)
    row = rig.reaches(node, "available")
    assert set(info(row)) == {"clean_steps"}
    assert copy(rig, node) is None


def test_servicing_runs_an_agents_steps(rig: ConductorFixture) -> None:
    node = rig.node("active", fake_agent=agent(service_steps=[SCRUB]))
    rig.ask("service", node, service_steps=listed("raid.scrub"))
    rig.reaches(node, "active")
    assert rig.started(node) == ["raid.scrub"]
    assert rig.path(node) == ["servicing", "service wait", "servicing", "active"]
    assert not [key for key in info(rig.get(node)) if key.startswith("agent_")]


# -- deployment ------------------------------------------------------------------------------

PARTITION: Json = {"interface": "deploy", "step": "partition", "priority": 90}
IDLE: Json = {"interface": "raid", "step": "tune", "priority": 0}


def test_an_agents_deploy_steps_join_the_list_when_it_speaks(rig: ConductorFixture) -> None:
    node = rig.node("available", fake_agent=agent(deploy_steps=[PARTITION, IDLE]))
    rig.ask("deploy", node)
    rig.reaches(node, "active")
    assert rig.started(node) == [
        "deploy.deploy",
        "deploy.partition",
        "deploy.write_image",
        "deploy.boot_instance",
    ]
    assert rig.path(node) == ["deploying", "wait call-back", "deploying", "active"]
    assert told(rig, node) == [
        "deploy done 1",
        "partition done 1",
        "write_image done 1",
        "boot_instance done 1",
    ]


def test_an_agent_that_adds_nothing_changes_no_list(rig: ConductorFixture) -> None:
    node = rig.node("available", fake_agent=agent(deploy_steps=[IDLE]))
    rig.ask("deploy", node)
    rig.reaches(node, "active")
    assert told(rig, node) == ["deploy done 1", "write_image done 1", "boot_instance done 1"]


def test_a_requested_step_may_be_one_that_only_the_agent_has(rig: ConductorFixture) -> None:
    node = rig.node("available", fake_agent=agent(deploy_steps=[IDLE]))
    wanted = {"interface": "raid", "step": "tune", "priority": 70, "args": {}}
    rig.ask("deploy", node, deploy_steps=[wanted])
    rig.reaches(node, "active")
    assert rig.started(node)[1:3] == ["deploy.write_image", "raid.tune"]


def test_a_requested_step_that_the_agent_does_not_have_either_fails_the_deployment(
    rig: ConductorFixture,
) -> None:
    node = rig.node("available", fake_agent=agent(deploy_steps=[IDLE]))
    wanted = {"interface": "raid", "step": "tuen", "priority": 70, "args": {}}
    rig.ask("deploy", node, deploy_steps=[wanted])
    row = rig.reaches(node, "deploy failed")
    assert "does not support this deploy step: raid.tuen" in row["last_error"]
    assert rig.started(node) == ["deploy.deploy"]


# -- another agent ---------------------------------------------------------------------------

NEW = {**BURN, "priority": 5}
TWO_AGENTS = agent(
    newer("deploy.erase_devices", clean_steps=[NEW, SCRUB]), clean_steps=[BURN, SCRUB]
)


@pytest.mark.parametrize("waits", [[], ["deploy.erase_devices"]], ids=["at once", "when polled"])
def test_an_automated_clean_begins_again_with_the_list_of_the_new_agent(
    rig: ConductorFixture, waits: list[str]
) -> None:
    node = rig.node(fake_agent=TWO_AGENTS, fake_async_steps=waits)
    rig.ask("provide", node)
    row = rig.reaches(node, "available")
    assert told(rig, node) == [
        "erase_devices_metadata done 1",
        "burn_in done 1",
        "erase_devices aborted 1",
        "erase_devices_metadata done 1",
        "erase_devices done 1",
        "burn_in done 1",
        "scrub done 1",
    ]
    run = rig.run(node)
    assert (run["state"], run["error"]) == ("done", None)
    refused = run["steps"][2]["error"]
    assert (refused["code"], refused["retryable"]) == ("AgentChanged", True)
    assert len(rig.events(node, "agent_changed")) == 1
    assert info(row)["hardware_manager_version"] == {"fake": "2"}
    assert "agent_changes" not in info(row)
    assert row["last_error"] is None
    assert copy(rig, node)["deploy"][0]["priority"] == 5
    ordinals = [row["data"]["ordinal"] for row in rig.events(node, "step_started")]
    assert ordinals == [0, 1, 2, 3, 4, 5, 6]


def test_while_a_step_of_the_new_list_runs_the_wire_shows_that_list(
    build: Callable[..., ConductorFixture],
) -> None:
    seen: list[Json] = []

    def around(_kind: str, name: str, call: Any) -> Any:
        if name == "execute_clean_step" and call.args[1]["step"] == "burn_in":
            seen.append(rig.get(node))
        return call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    disks = agent(newer("raid.scrub", clean_steps=[NEW]), clean_steps=[SCRUB])
    node = rig.node(fake_agent=disks)
    rig.ask("provide", node)
    rig.reaches(node, "available")
    (row,) = seen
    assert [step["step"] for step in info(row)["clean_steps"]] == [
        "erase_devices_metadata",
        "erase_devices",
        "burn_in",
    ]
    assert info(row)["clean_step_index"] == 2
    assert info(row)["clean_steps"][2] == row["clean_step"]
    assert row["clean_step"]["reboot_requested"] is True
    assert info(row)["agent_changes"] == {"count": 1, "first": 3}


@pytest.mark.parametrize("waits", [[], ["deploy.burn_in"]], ids=["at once", "when polled"])
@pytest.mark.parametrize(
    ("kind", "state"), [("clean", "manageable"), ("service", "active"), ("deploy", "available")]
)
def test_any_other_run_gives_the_same_step_to_the_new_agent(
    rig: ConductorFixture, kind: str, state: str, waits: list[str]
) -> None:
    lists: Any = {f"{kind}_steps": [BURN, SCRUB]}
    node = rig.node(
        state, fake_agent=agent(newer("deploy.burn_in", **lists), **lists), fake_async_steps=waits
    )
    wanted = {} if kind == "deploy" else {f"{kind}_steps": listed("raid.scrub", "deploy.burn_in")}
    rig.ask(kind, node, **wanted)
    row = rig.reaches(node, {"clean": "manageable"}.get(kind, "active"))
    steps = told(rig, node)
    assert "burn_in done 2" in steps
    assert [step for step in steps if step.endswith(" 2")] == ["burn_in done 2"]
    assert rig.started(node).count("deploy.burn_in") == 2
    assert rig.started(node).count("raid.scrub") == 1
    assert info(row)["hardware_manager_version"] == {"fake": "2"}
    assert "agent_changes" not in info(row)
    assert rig.run(node)["state"] == "done"


@pytest.mark.parametrize("manual", [False, True])
def test_an_agent_that_changes_for_ever_fails_the_run(rig: ConductorFixture, manual: bool) -> None:
    disks = [newer("deploy.burn_in", str(n), clean_steps=[BURN]) for n in range(2, 9)]
    node = rig.node(fake_agent=agent(*disks, clean_steps=[BURN]))
    if manual:
        rig.ask("clean", node, clean_steps=listed("deploy.burn_in"))
    else:
        rig.ask("provide", node)
    row = rig.reaches(node, "clean failed")
    assert "deploy.burn_in failed" in row["last_error"]
    assert f"for the {stepper.MOST_CHANGES + 1}th time" in row["last_error"]
    assert rig.started(node).count("deploy.burn_in") == stepper.MOST_CHANGES + 1
    steps = told(rig, node)
    assert [step for step in steps if " failed " in step] == [
        f"burn_in failed {stepper.MOST_CHANGES + 1 if manual else 1}"
    ]
    assert not [step for step in steps if " running " in step or " pending " in step]
    assert "agent_changes" not in info(row)
    rig.edit(node, driver_info={"fake_agent": agent(clean_steps=[BURN])}, maintenance=False)
    rig.ask("provide", node)
    rig.reaches(node, "available")


def test_a_deployment_fails_so_too(rig: ConductorFixture) -> None:
    lists: Any = {"deploy_steps": [PARTITION]}
    disks = [newer("deploy.partition", str(n), **lists) for n in range(2, 9)]
    node = rig.node("available", fake_agent=agent(*disks, **lists))
    rig.ask("deploy", node)
    row = rig.reaches(node, "deploy failed")
    assert f"for the {stepper.MOST_CHANGES + 1}th time" in row["last_error"]
    assert "agent_changes" not in info(row)
    assert rig.run(node)["error"]["step"] == "deploy.partition"
    rig.edit(node, driver_info={"fake_agent": agent(**lists)})
    rig.ask("deploy", node)
    rig.reaches(node, "active")


def test_an_abort_that_waits_for_the_step_comes_before_the_new_agent(rig: ConductorFixture) -> None:
    slow = {**BURN, "abortable": False}
    disks = agent(newer("deploy.burn_in", clean_steps=[slow]), clean_steps=[slow])
    node = rig.node(fake_agent=disks)
    rig.edit(node, driver_info={"fake_agent": disks, "fake_async_steps": ["deploy.burn_in"]})
    rig.ask("clean", node, clean_steps=listed("power.wait", "deploy.burn_in"))
    wait_for(lambda: (rig.settled(node)["clean_step"] or {}).get("step") == "wait")
    rig.edit(
        node,
        driver_info={
            "fake_agent": disks,
            "fake_async_steps": ["deploy.burn_in"],
            "fake_step_seconds": 3600,
        },
    )
    rig.call("continue_node_clean", node)
    assert rig.settled(node)["clean_step"]["step"] == "burn_in"
    row = rig.act("abort", node)
    assert row["clean_step"]["abort_after"] is True
    rig.ring(node)
    row = rig.reaches(node, "clean failed")
    assert "aborted after the step" in row["last_error"]
    assert rig.step_states(node) == ["done", "aborted"]
    assert not row["maintenance"]


# -- an agent with heartbeats ----------------------------------------------------------------


def test_a_heartbeat_may_bring_the_news(build: Callable[..., ConductorFixture]) -> None:
    news: list[errors.AgentChanged] = []

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == "heartbeat" and news:
            raise news.pop()
        return name == "heartbeat" or call()

    registry = cast(Registry, crashes.Drivers(drivers(), around, more=("heartbeat",)))
    rig = build(registry=registry, agent__require_tls=False)
    node = rig.node(fake_agent=agent(clean_steps=[BURN]))
    rig.ask("clean", node, clean_steps=listed("deploy.burn_in", "power.wait", "bios.wait"))
    wait_for(lambda: (rig.get(node)["clean_step"] or {}).get("step") == "wait")
    rig.settled(node)
    token = rig.endpoints.get_node_with_token(rig.who, node_uuid=node)["agent_token"]

    def beat() -> Json:
        beat_ = {"callback_url": "http://a:9999", "agent_version": "11", "agent_token": token}
        rig.ask("heartbeat", node, **beat_)
        return rig.settled(node)

    news.append(errors.AgentChanged(reason="now it is version 2"))
    row = beat()
    assert row["clean_step"]["interface"] == "power"
    assert told(rig, node) == ["burn_in done 1", "wait waiting 2", "wait pending 0"]
    assert beat()["clean_step"]["interface"] == "bios"
    assert beat()["provision_state"] == "manageable"


# -- death -----------------------------------------------------------------------------------


def steps_at_the_end(rig: ConductorFixture, node: str) -> list[str]:
    """Return the steps of the newest run, none of which is under way, and the words of each."""
    steps = told(rig, node)
    assert not [step for step in steps if step.split()[1] in ("pending", "running", "waiting")]
    return steps


def done(steps: list[str]) -> list[str]:
    return [step.split()[0] for step in steps if step.split()[1] == "done"]


@pytest.mark.parametrize("manual", [False, True], ids=["automated", "manual"])
def test_a_conductor_may_die_at_any_commit_of_such_a_clean(stage: Stage, manual: bool) -> None:
    titles = ["deploy.burn_in", "deploy.erase_devices", "raid.scrub"]
    agents = {"fake_agent": TWO_AGENTS, "fake_async_steps": ["deploy.erase_devices"]}
    scene = Scene("manageable", "provide", {}, "available", columns=agents)
    if manual:
        scene = scene._replace(
            method="clean", args={"clean_steps": listed(*titles)}, end="manageable"
        )
    for moment in stage.moments("commit", least=16):
        heir, node = moment.play(scene.begin, scene.ask)
        if not heir.runs(node):  # it died before it had accepted the verb
            continue
        row = heir.reaches(node, scene.end)
        assert (heir.run(node)["state"], row["last_error"]) == ("done", None)
        assert done(steps_at_the_end(heir, node))[-1] == "scrub"
        assert "agent_changes" not in info(row)
        assert info(row)["hardware_manager_version"] == {"fake": "2"}


def test_a_conductor_may_die_at_any_commit_of_a_deployment_whose_agent_adds_steps(
    stage: Stage,
) -> None:
    columns = {"fake_agent": agent(deploy_steps=[PARTITION])}
    scene = Scene("available", "deploy", {}, "active", columns=columns)
    for moment in stage.moments("commit", least=10):
        heir, node = moment.play(scene.begin, scene.ask)
        if not heir.runs(node):
            continue
        steps = steps_at_the_end(heir, node)
        if heir.get(node)["provision_state"] == "active":
            assert done(steps) == ["deploy", "partition", "write_image", "boot_instance"]
        else:
            # The agent's step does not say that it may be run twice; it was the one under way.
            assert heir.get(node)["provision_state"] == "deploy failed"
            assert "partition failed 1" in steps


# -- over HTTP -------------------------------------------------------------------------------


@pytest.fixture
def operator(sqlite_database: Database) -> Iterator[Operator]:
    found = Operator(sqlite_database)
    yield found
    found.close()


def steps_of(operator: Operator, node: str, query: str = "") -> Any:
    answer = operator.api.get(f"/v1/nodes/{node}/cleaning/steps{query}")
    assert answer.status == 200, answer.text
    return answer.json


def test_the_list_of_clean_steps_waits_for_the_first_agent_and_then_stays(
    operator: Operator,
) -> None:
    node = operator.enroll(fake_agent=agent(clean_steps=[BURN, SCRUB]))
    answer = operator.api.get(f"/v1/nodes/{node}/cleaning/steps")
    assert answer.status == 202
    assert answer.headers["retry-request-after"] == "-1"
    assert node in answer.json["message"]
    operator.asks(node, "clean", clean_steps=listed("deploy.burn_in"))
    operator.rig.reaches(node, "manageable")
    assert {
        "interface": "deploy",
        "step": "burn_in",
        "priority": 50,
        "abortable": True,
        "args": [{"name": "hours", "description": "how long", "required": False}],
    } in steps_of(operator, node)
    enabled = [step["step"] for step in steps_of(operator, node, "?min_priority=1")]
    assert enabled == ["erase_devices_metadata", "burn_in", "erase_devices", "scrub"]
    # It outlives the ramdisk and its notes; the next agent refreshes it.
    assert "agent_cached_clean_steps" not in operator.shows(node)["driver_internal_info"]
    disks = agent(clean_steps=[{**SCRUB, "step": "polish"}])
    assert operator.patches(node, driver_info__fake_agent=disks).status == 200
    assert "burn_in" in [step["step"] for step in steps_of(operator, node)]
    operator.asks(node, "clean", clean_steps=listed("raid.polish"))
    operator.rig.reaches(node, "manageable")
    names = [step["step"] for step in steps_of(operator, node)]
    assert "polish" in names
    assert "burn_in" not in names


def test_while_the_ramdisk_boots_the_answer_says_how_long_to_wait(operator: Operator) -> None:
    node = operator.enroll(fake_agent=agent(clean_steps=[BURN]))
    operator.patches(node, driver_info__fake_step_seconds=3600)
    operator.provision(node, "clean", clean_steps=listed("deploy.burn_in"))
    answer = operator.api.get(f"/v1/nodes/{node}/cleaning/steps")
    assert (answer.status, answer.headers["retry-request-after"]) == (202, "60")


def test_the_runs_of_a_node_tell_of_both_lists(operator: Operator) -> None:
    node = operator.enroll(fake_agent=TWO_AGENTS)
    operator.asks(node, "provide")
    operator.rig.reaches(node, "available")
    run = operator.api.get(f"/v1/nodes/{node}/runs").json["runs"][0]
    whole = operator.api.get(f"/v1/nodes/{node}/runs/{run['uuid']}").json
    states = [step["state"] for step in whole["steps"]]
    assert states == ["done", "done", "aborted", "done", "done", "done", "done"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("fake_step_second", 1),
        ("fake_async_steps", ["deploy.erase_device"]),
        ("fake_agent", [{"clean_steps": [{"interface": "deploy"}]}]),
    ],
)
def test_typing_errors_are_refused_when_they_are_written(
    operator: Operator, key: str, value: Any
) -> None:
    info = {key: value}
    answer = operator.api.post("/v1/nodes", {"driver": "fake-hardware", "driver_info": info})
    assert answer.status == 400
    assert f"driver_info/{key}" in answer.text
    node = operator.enroll("enroll")
    before = operator.rig.get(node)
    answer = operator.patches(node, driver_info=info)
    assert answer.status == 400
    assert f"driver_info/{key}" in answer.text
    assert operator.rig.get(node) == before
