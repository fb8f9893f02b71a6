"""S2, cleaning states: when a machine is cleaned, what is seen, agents, deaths and docs."""

from __future__ import annotations

import contextlib
import pathlib
from collections.abc import Callable
from typing import Any, cast

import pytest
from oslo_config import cfg

from ironic_lite.core import config, options
from ironic_lite.db.engine.session import Database
from ironic_lite.domain import states, step_lists, steps
from ironic_lite.domain.steps import StepKind, collect
from ironic_lite.drivers import base
from ironic_lite.drivers.registry import Registry, Settings
from tests.support import crashes
from tests.support.cleaning_fixture import (
    AUTOMATED,
    begun,
    enroll_waiting,
    ring,
    stored,
    sweep,
    watched,
)
from tests.support.conductor_fixture import configure, drivers, listed, wait_for
from tests.support.docs_pages import lacks, section
from tests.support.operator import Json, Operator

# S2, cleaning states: when a machine is cleaned, and what is seen of it meanwhile.

Serve = Callable[..., Operator]


# -- when ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["automated_clean_enable", "automated_clean", "clean_nodes"])
def test_s2_01_an_option_switches_automated_cleaning_off(
    serve: Serve, tmp_path: pathlib.Path, name: str
) -> None:
    path = tmp_path / "test.conf"
    path.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n[conductor]\n{name} = false\n")
    conf = config.load("ironic-lite-api", ["--config-file", str(path)], conf=cfg.ConfigOpts())
    operator = serve(conductor__automated_clean_enable=conf.conductor.automated_clean_enable)
    node = operator.enroll("active")
    shown = operator.provision(node, "deleted")
    assert stored(shown) == ("available", None)
    assert begun(operator, node) == []
    # A manual clean is asked for, and not touched by the option.
    operator.provision(node, "manage")
    operator.clean(node, "deploy.erase_devices")
    assert begun(operator, node) == ["deploy.erase_devices"]


@pytest.mark.parametrize(
    ("option", "own", "cleans"),
    [
        (True, None, True),
        (True, False, False),
        (True, True, True),
        (False, None, False),
        (False, False, False),
        (False, True, True),
    ],
)
def test_s2_01_the_word_of_a_node_goes_before_the_option(
    serve: Serve, option: bool, own: bool | None, cleans: bool
) -> None:
    operator = serve(conductor__automated_clean_enable=option)
    node = operator.enroll()
    assert operator.patches(node, automated_clean=own).status == 200
    assert operator.provision(node, "provide")["provision_state"] == "available"
    assert begun(operator, node) == (AUTOMATED if cleans else [])


def test_s2_02_a_machine_is_cleaned_after_tear_down_and_before_it_is_available(
    serve: Serve,
) -> None:
    calls: list[str] = []
    seen: list[Json] = []

    def before(_kind: str, name: str) -> None:
        calls.append(name)
        if name == "execute_clean_step":
            seen.append(operator.shows(node))

    operator = serve(registry=watched(before))
    node = ""
    node = operator.enroll("active", instance_info={"image_source": "file:///x"})
    assert len(seen) == len(AUTOMATED)  # a managed node is cleaned when it is provided
    calls.clear()
    seen.clear()
    assert stored(operator.provision(node, "deleted")) == ("available", None)
    assert operator.rig.path(node)[-3:] == ["deleting", "cleaning", "available"]
    assert calls.index("tear_down") < calls.index("execute_clean_step")
    assert [stored(row) for row in seen] == [("cleaning", "available")] * 2
    assert [row["instance_info"] for row in seen] == [{}, {}]


def test_s2_03_erasing_disks_is_a_clean_step_and_the_configuration_stays(
    operator: Operator,
) -> None:
    node = operator.enroll(
        properties={"cpus": 8, "capabilities": "boot_mode:uefi"},
        extra={"rack": "r1"},
        resource_class="gold",
        name="metal-7",
    )
    boot_device = f"/v1/nodes/{node}/management/boot_device"
    assert operator.api.put(boot_device, {"boot_device": "disk", "persistent": True}).status == 204
    assert operator.api.put(f"/v1/nodes/{node}/traits", {"traits": ["CUSTOM_A"]}).status == 204
    port = {"node_uuid": node, "address": "52:54:00:00:00:07"}
    assert operator.api.post("/v1/ports", port).status == 201

    def configuration(*hidden: str) -> list[Any]:
        moving = {"provision_state", "provision_updated_at", "updated_at", *hidden}
        shown = {key: value for key, value in operator.shows(node).items() if key not in moving}
        paths = (boot_device, f"/v1/nodes/{node}/traits", f"/v1/nodes/{node}/ports?detail=true")
        return [shown, *(operator.api.get(path).json for path in paths)]

    before = configuration("driver_internal_info")
    settings = {"settings": [{"name": "turbo", "value": "on"}]}
    step = {"interface": "bios", "step": "apply_configuration", "args": settings}
    operator.provision(node, "clean", clean_steps=[step])
    with_settings = configuration()
    assert operator.provision(node, "provide")["provision_state"] == "available"
    assert "deploy.erase_devices" in begun(operator, node)
    assert configuration() == with_settings
    assert configuration("driver_internal_info") == before


# -- what is seen ----------------------------------------------------------------------------


def test_s2_13_the_step_is_saved_before_it_begins(serve: Serve) -> None:
    seen: list[tuple[Json, Json]] = []

    def before(_kind: str, name: str) -> None:
        if name == "execute_clean_step":
            seen.append((operator.shows(node), operator.rig.run(node)))

    operator = serve(registry=watched(before))
    node = operator.enroll()
    operator.provision(node, "provide")
    assert [f"{row['clean_step']['interface']}.{row['clean_step']['step']}" for row, _ in seen] == (
        AUTOMATED
    )
    for index, (row, run) in enumerate(seen):
        info = row["driver_internal_info"]
        assert row["clean_step"] == info["clean_steps"][index]
        assert (info["clean_step_index"], row["provision_state"]) == (index, "cleaning")
        states_ = [step["state"] for step in run["steps"]]
        assert states_ == ["done"] * index + ["running"] + ["pending"] * (1 - index)


def test_s2_14_result_of_a_long_step_is_saved_when_it_ends(serve: Serve) -> None:
    first = serve()
    node = enroll_waiting(first)
    first.provision(node, "provide")
    assert first.rig.step_states(node) == ["waiting", "pending"]
    ring(first, node)  # the first step has ended, the second waits in its turn
    wait_for(lambda: first.rig.step_states(node) == ["done", "waiting"])
    first.rig.settled(node)
    shown = first.shows(node)
    assert (shown["provision_state"], shown["clean_step"]["step"]) == (
        "clean wait",
        "erase_devices",
    )
    assert shown["driver_internal_info"]["clean_step_index"] == 1
    # Another conductor reads from there, and does not do the first step again.
    first.rig.bury()
    second = serve(DEFAULT__host="there")
    ring(second, node)
    second.rig.reaches(node, "available")
    assert begun(second, node) == AUTOMATED


def test_s2_15_the_clean_states_lie_between_deleted_and_available(operator: Operator) -> None:
    node = operator.enroll("active")
    operator.patches(node, driver_info__fake_fail_steps={"deploy.erase_devices": "no"})
    operator.provision(node, "deleted")
    assert operator.rig.path(node)[-3:] == ["deleting", "cleaning", "clean failed"]
    operator.patches(node, driver_info={})
    operator.provision(node, "provide")
    assert operator.rig.path(node)[-2:] == ["cleaning", "available"]
    # CLEANED and DELETED are passed within a transaction: nobody ever sees them (C3).
    passed = {(row.event, str(row.to)): row.via for row in states.TABLE if row.via}
    assert passed["clean", "cleaning"] == "deleted"
    assert passed["done", "available"] == "cleaned"
    told = {row[side] for row in operator.rig.events(node) for side in ("before", "after")}
    assert not told & {"cleaned", "deleted"}


@pytest.mark.parametrize("start", ["manageable", "clean failed"])
def test_s2_16_the_target_cleaned_starts_cleaning(operator: Operator, start: str) -> None:
    node = operator.enroll()
    if start == "clean failed":
        operator.patches(node, driver_info={"fake_fail_steps": {"power.cycle": "no"}})
        assert operator.clean(node, "power.cycle")["provision_state"] == start
    path = f"/v1/nodes/{node}/states/provision"
    assert operator.api.at(3).put(path, {"target": "cleaned"}).status == 406
    shown = operator.provision(node, "cleaned")
    assert stored(shown) == ("available", None)
    assert begun(operator, node)[-2:] == AUTOMATED
    assert '"available"' in operator.refused(node, "cleaned", 400)


STEPS = [{"interface": "deploy", "step": "erase_devices"}]
ENTRANCES = {
    "provide": {"manageable", "clean failed"},
    "cleaned": {"manageable", "clean failed"},
    "clean": {"manageable"},
}


@pytest.mark.parametrize("state", sorted(states.State))
def test_s2_17_a_request_leads_to_cleaning_from_two_states_only(
    operator: Operator, state: str
) -> None:
    for target, entrances in ENTRANCES.items():
        node = operator.rig.node(state)
        body = {"clean_steps": STEPS} if target == "clean" else {}
        if state in entrances:
            operator.provision(node, target, **body)
            assert operator.rig.path(node)[0] == "cleaning"
        else:
            operator.refused(node, target, 400, **body)
            assert operator.rig.path(node) == []


def failed(operator: Operator, *titles: str) -> str:
    """Return a node whose clean has failed, and which could be cleaned now."""
    node = operator.enroll(fake_fail_steps=dict.fromkeys([*AUTOMATED, "power.cycle"], "no"))
    shown = operator.clean(node, *titles) if titles else operator.provision(node, "provide")
    assert (shown["provision_state"], shown["maintenance"]) == ("clean failed", True)
    assert operator.patches(node, driver_info={}).status == 200
    return node


@pytest.mark.parametrize("titles", [(), ("power.cycle",)], ids=["automated", "manual"])
@pytest.mark.parametrize(
    ("target", "path"),
    [
        ("manage", ["manageable"]),
        ("provide", ["cleaning", "available"]),
        ("cleaned", ["cleaning", "available"]),
        ("available", ["available"]),
    ],
)
def test_s2_18_a_failed_clean_is_tried_again_or_skipped(
    operator: Operator, target: str, path: list[str], titles: tuple[str, ...]
) -> None:
    node = failed(operator, *titles)
    before, begun_before = operator.rig.path(node), begun(operator, node)
    shown = operator.provision(node, target)
    assert stored(shown) == (path[-1], None)
    assert operator.rig.path(node) == [*before, *path]
    again = AUTOMATED if "cleaning" in path else []
    assert begun(operator, node) == begun_before + again
    assert shown["clean_step"] == {}
    # What the failure has set aside, a person takes back.
    assert shown["maintenance"] is True


def test_s2_21_a_rebuild_cleans_nothing(operator: Operator) -> None:
    node = operator.enroll("active")
    before, path = begun(operator, node), operator.rig.path(node)
    assert operator.provision(node, "rebuild")["provision_state"] == "active"
    assert begun(operator, node) == before
    assert operator.rig.path(node) == [*path, "deploying", "active"]


# -- the wire --------------------------------------------------------------------------------


def test_s2_26_the_step_is_a_dictionary_or_nothing(operator: Operator) -> None:
    node = enroll_waiting(operator)
    assert operator.shows(node)["clean_step"] == {}  # C16
    assert operator.rig.get(node)["clean_step"] is None
    operator.provision(node, "provide")
    step = operator.shows(node)["clean_step"]
    assert (step["interface"], step["step"], step["priority"]) == (
        "deploy",
        "erase_devices_metadata",
        99,
    )
    refusal = operator.patches(node, clean_step={"step": "x"})
    assert (refusal.status, "clean_step" in refusal.text) == (400, True)
    operator.rig.ring(node)
    assert operator.rig.reaches(node, "available")["clean_step"] is None
    assert operator.shows(node)["clean_step"] == {}


def test_s2_27_a_node_and_the_detailed_list_show_the_step(operator: Operator) -> None:
    node = enroll_waiting(operator, name="metal-7")
    operator.provision(node, "provide")
    step = operator.rig.get(node)["clean_step"]
    assert step["step"] == "erase_devices_metadata"
    for path in (f"/v1/nodes/{node}", "/v1/nodes/metal-7", f"/v1/nodes/{node}?fields=clean_step"):
        assert operator.api.get(path).json["clean_step"] == step
        if "fields" not in path:
            assert operator.api.at(7).get(path.replace("metal-7", node)).json["clean_step"] == step
            assert "clean_step" not in operator.api.at(6).get(path.replace("metal-7", node)).json
    for path in ("/v1/nodes/detail", "/v1/nodes?detail=true", "/v1/nodes?fields=uuid,clean_step"):
        (row,) = operator.api.get(path).json["nodes"]
        assert row["clean_step"] == step


def test_s2_30_the_conductor_cleans_at_the_end_of_tear_down_by_itself(serve: Serve) -> None:
    asked: list[str] = []
    held: list[tuple[str, str, str]] = []

    def before(_kind: str, name: str) -> None:
        if name in ("tear_down", "execute_clean_step"):
            row = operator.rig.get(node)
            asked.append(name)
            held.append((row["lock_token"], row["run_uuid"], row["provision_state"]))

    operator = serve(registry=watched(before))
    node = ""
    node = operator.enroll()
    operator.clean(node, "deploy.erase_devices")  # an API server starts one by RPC
    operator.provision(node, "provide")
    operator.provision(node, "active")
    runs = len(operator.rig.runs(node))
    asked.clear()
    held.clear()
    operator.provision(node, "deleted")
    assert asked == ["tear_down", "execute_clean_step", "execute_clean_step"]
    assert [state for *_, state in held] == ["deleting", "cleaning", "cleaning"]
    # One lock and one run from tear down to the last clean step: no second request was needed.
    assert len({entry[:2] for entry in held}) == 1
    assert [run["verb"] for run in operator.rig.runs(node)[runs:]] == ["deleted"]


def test_s2_31_a_client_that_knows_nothing_of_cleaning_goes_on_as_before(
    operator: Operator,
) -> None:
    node = operator.enroll("available")
    old = operator.api.at(1)
    path = f"/v1/nodes/{node}"
    assert not {"clean_step", "automated_clean", "fault"} & set(old.get(path).json)
    assert old.get(path).json["provision_state"] is None
    for target, state in (("active", "active"), ("deleted", None)):
        assert old.put(f"{path}/states/provision", {"target": target}).status == 202
        operator.rig.settled(node)
        assert old.get(path).json["provision_state"] == state
    assert begun(operator, node)[-2:] == AUTOMATED
    for target in ("provide", "cleaned", "available", "clean"):
        body: Json = {"target": target}
        if target == "clean":
            body["clean_steps"] = STEPS
        assert old.put(f"{path}/states/provision", body).status == 406
    assert operator.shows(node)["provision_state"] == "available"


def test_s2_32_client_that_waits_for_an_instance_to_go_sees_the_known_words(serve: Serve) -> None:
    seen: list[Json] = []

    def before(_kind: str, name: str) -> None:
        if name == "execute_clean_step":
            seen.append(operator.shows(node))

    operator = serve(registry=watched(before))
    node = ""
    node = operator.enroll("active")
    told = {
        "fake_async_steps": ["*"],
        "fake_step_seconds": 3600,
        "fake_fail_steps": {"deploy.erase_devices_metadata": "no"},
    }
    instance = "0b7a2f2e-5d0c-4b0e-8a51-6a5b0f8d6e01"
    assert operator.patches(node, instance_uuid=instance, driver_info=told).status == 200
    seen.clear()
    seen.append(operator.provision(node, "deleted"))
    ring(operator, node)
    operator.rig.reaches(node, "clean failed")
    seen.append(operator.shows(node))
    assert [row["provision_state"] for row in seen] == ["cleaning", "clean wait", "clean failed"]
    assert [(row["instance_uuid"], row["instance_info"]) for row in seen] == [(None, {})] * 3
    words = {"cleaning", "clean wait", "clean failed", "available"}
    assert words <= {str(state) for state in states.State}
    assert (states.Momentary.CLEANED, states.Momentary.DELETED) == ("cleaned", "deleted")


@pytest.mark.parametrize(("start", "verb"), [("manageable", "provide"), ("active", "deleted")])
def test_s2_39_new_and_used_machines_get_the_same_baseline(
    operator: Operator, start: str, verb: str
) -> None:
    node = operator.enroll(start)
    before = len(begun(operator, node))
    assert operator.provision(node, verb)["provision_state"] == "available"
    assert begun(operator, node)[before:] == AUTOMATED


def test_s2_39_earlier_manual_cleans_do_not_change_the_automated_one(operator: Operator) -> None:
    node = operator.enroll(fake_fail_steps={"power.cycle": "no"})
    shown = operator.clean(node, "power.cycle", "bios.factory_reset", disable_ramdisk=True)
    assert shown["provision_state"] == "clean failed"
    assert operator.patches(node, driver_info={}, maintenance=False).status == 200
    for verb in ("available", "active"):
        operator.provision(node, verb)
    before = len(begun(operator, node))
    assert operator.provision(node, "deleted")["provision_state"] == "available"
    assert begun(operator, node)[before:] == AUTOMATED


# S2, cleaning states: the steps of an agent, and what a clean must remember of it (S2.29).

METADATA, DEVICES, BURN = "deploy.erase_devices_metadata", "deploy.erase_devices", "deploy.burn_in"
Seen = list[tuple[str, Json]]


def ramdisk(version: str, priority: float, **more: str) -> Json:
    """Return a ramdisk whose agent knows one step."""
    step = {"interface": "deploy", "step": "burn_in", "priority": priority}
    return {"version": version, "clean_steps": [step], **more}


CHANGING = [ramdisk("1", 50), ramdisk("2", 5, at=BURN)]


@pytest.fixture
def seen(serve: Serve) -> tuple[Operator, Seen]:
    """A service, and what GET shows of its one node as each clean step begins."""
    shown: Seen = []

    def before(_kind: str, name: str) -> None:
        if name == "execute_clean_step":
            (row,) = operator.api.get("/v1/nodes/detail").json["nodes"]
            shown.append((steps.title(row["clean_step"]), row["driver_internal_info"]))

    operator = serve(registry=watched(before))
    return operator, shown


def enroll(operator: Operator, ramdisks: list[Json]) -> str:
    """Return a manageable node that boots these ramdisks."""
    node = operator.enroll()
    assert operator.patches(node, driver_info={"fake_agent": ramdisks}).status == 200
    return node


def test_s2_29_another_hardware_manager_restarts_an_automated_clean(
    seen: tuple[Operator, Seen],
) -> None:
    operator, shown = seen
    node = enroll(operator, CHANGING)
    told = operator.shows(node)["driver_info"]
    assert operator.asks(node, "provide").status == 202
    row = operator.rig.reaches(node, "available")
    # The step that the new agent was given is refused; then everything is run, in the new order.
    ran = [METADATA, BURN, METADATA, DEVICES, BURN]
    assert [title for title, _ in shown] == begun(operator, node) == ran
    versions = [info["hardware_manager_version"]["fake"] for _, info in shown]
    assert versions == ["1", "1", "2", "2", "2"]
    assert [info["clean_step_index"] for _, info in shown] == [0, 1, 0, 1, 2]
    assert (stored(row), row["last_error"], row["maintenance"]) == (
        ("available", None),
        None,
        False,
    )
    # C17: what the clean remembers is not kept in the operator's driver_info.
    assert operator.shows(node)["driver_info"] == told
    assert row["driver_internal_info"]["hardware_manager_version"] == {"fake": "2"}


def test_s2_29_unchanged_hardware_manager_does_not_restart_a_clean(
    seen: tuple[Operator, Seen],
) -> None:
    operator, shown = seen
    node = enroll(operator, CHANGING[:1])
    operator.asks(node, "provide")
    operator.rig.reaches(node, "available")
    assert [title for title, _ in shown] == [METADATA, BURN, DEVICES]


def test_s2_29_a_manual_clean_is_not_begun_again(seen: tuple[Operator, Seen]) -> None:
    operator, shown = seen
    node = enroll(operator, CHANGING)
    asked = [METADATA, BURN, DEVICES]
    assert operator.asks(node, "clean", clean_steps=listed(*asked)).status == 202
    assert stored(operator.rig.reaches(node, "manageable")) == ("manageable", None)
    # Only the step that was refused is given to the new agent.
    assert [title for title, _ in shown] == [METADATA, BURN, BURN, DEVICES]


def test_s2_12_steps_of_an_agent_with_one_priority_run_by_their_names(
    operator: Operator,
) -> None:
    names = ("z_last", "a_first", "m_middle")
    ours = [{"interface": "deploy", "step": name, "priority": 10} for name in names]
    node = enroll(operator, [{"version": "1", "clean_steps": ours}])
    operator.asks(node, "provide")
    operator.rig.reaches(node, "available")
    # C8: nobody can give them another priority here, so they are not refused.
    wanted = ["a_first", "erase_devices", "m_middle", "z_last"]
    assert begun(operator, node) == [METADATA, *(f"deploy.{name}" for name in wanted)]


def test_s2_29_notes_of_a_step_are_on_the_node(operator: Operator) -> None:
    node = operator.enroll()
    settings = [{"name": "turbo", "value": "on"}]
    step = {**listed("bios.apply_configuration")[0], "args": {"settings": settings}}
    row = operator.provision(node, "clean", clean_steps=[step])
    assert row["driver_internal_info"]["driver_notes"]["fake_bios_settings"] == settings
    assert row["driver_info"] == {}


# S2.24: a conductor dies while it cleans, and the one that comes after runs the step again.

pytestmark = pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnhandledThreadExceptionWarning"  # threads of the dead end by Died
)


class Stage:
    """Where the conductor ``here`` dies after a call of a driver, and another goes on."""

    def __init__(self, database: Database, serve: Serve) -> None:
        self._database = database
        self._serve = serve

    def die(
        self, name: str, count: int, target: str, *, told: Json | None = None, **body: Any
    ) -> str:
        """Start a clean, end the conductor after the n-th call of this name; return the node.

        :param told: what steers the fake machine.
        """
        life = crashes.Life()

        def around(_kind: str, called: str, call: Callable[[], Any]) -> Any:
            life.check()
            found = call()
            if called == name:
                life.spend("call")
            return found

        registry = cast(Registry, crashes.Drivers(drivers(), around))
        first = Operator(crashes.database(self._database, life), registry=registry)
        node = first.enroll()
        assert first.patches(node, driver_info=told or {}).status == 200
        life.arm(call=count)
        with contextlib.suppress(crashes.Died):
            first.asks(node, target, **body)
        wait_for(lambda: life.dead)
        first.rig.bury()
        assert first.rig.service.runtime.workers.wait_idle(60)
        return node

    def restarted(self) -> Operator:
        """Start the same conductor again: it takes back what it held."""
        return self._serve()

    def survived(self) -> Operator:
        """Let another conductor find out."""
        crashes.forget(self._database)
        other = self._serve(DEFAULT__host="there")
        sweep(other, "orphans")
        return other


@pytest.fixture
def stage(sqlite_database: Database, serve: Serve) -> Stage:
    """A stage on the test's database."""
    return Stage(sqlite_database, serve)


MANUAL = ["bios.factory_reset", "raid.delete_configuration", "power.cycle"]
ENDINGS: dict[str, tuple[str, Json, list[str]]] = {
    "provide": ("available", {}, AUTOMATED),
    "clean": ("manageable", {"clean_steps": listed(*MANUAL)}, MANUAL),
}


@pytest.mark.parametrize("successor", [Stage.restarted, Stage.survived])
@pytest.mark.parametrize("target", ENDINGS)
def test_s2_24_a_conductor_that_takes_over_runs_the_step_again(
    stage: Stage, target: str, successor: Callable[[Stage], Operator]
) -> None:
    end, body, steps = ENDINGS[target]
    # The second step has had its effect when the conductor dies, and nobody knows.
    node = stage.die("execute_clean_step", 2, target, **body)
    operator = successor(stage)
    row = operator.rig.reaches(node, end)
    assert stored(row) == (end, None)
    assert begun(operator, node) == [steps[0], steps[1], *steps[1:]]
    (run,) = operator.rig.runs(node)[-1:]
    assert (run["state"], row["maintenance"], row["last_error"]) == ("done", False, None)
    assert [(one["state"], one["attempt"]) for one in run["steps"]] == [
        ("done", 2 if place == 1 else 1) for place in range(len(steps))
    ]


def test_s2_24_step_that_only_an_agent_knows_is_run_again(stage: Stage) -> None:
    """Nobody has marked it as one that may be run twice: in a clean every step may."""
    ours = {"interface": "deploy", "step": "burn_in", "priority": 50}
    told = {"fake_agent": [{"version": "1", "clean_steps": [ours]}]}
    node = stage.die("execute_clean_step", 2, "provide", told=told)
    operator = stage.survived()
    operator.rig.reaches(node, "available")
    first, last = AUTOMATED
    assert begun(operator, node) == [first, "deploy.burn_in", "deploy.burn_in", last]


MOMENTS = [
    ("prepare_cleaning", 1),
    *(("execute_clean_step", count) for count in range(1, 4)),
    ("tear_down_cleaning", 1),
]


@pytest.mark.parametrize(("name", "count"), MOMENTS)
def test_s2_24_death_repeats_one_step_at_most(stage: Stage, name: str, count: int) -> None:
    wanted = [*MANUAL[:2], "deploy.erase_devices"]  # which needs a ramdisk
    node = stage.die(name, count, "clean", clean_steps=listed(*wanted))
    operator = stage.survived()
    operator.rig.reaches(node, "manageable")
    done = begun(operator, node)
    assert len(done) <= len(wanted) + 1
    assert list(dict.fromkeys(done)) == wanted


# S2, cleaning states: what the documentation owes to operators.

CLEANING = "cleaning.rst"


def test_s2_33_page_says_how_cleaning_works_and_is_configured() -> None:
    how = section(CLEANING, "Cleaning")
    assert lacks(how, "after ``deleted``", "``provide``", "priority is above 0", "``clean``") == []
    automated = section(CLEANING, "Automated cleaning")
    ranks = sorted(step_lists.RANKS[StepKind.CLEAN].items(), key=lambda each: -each[1])
    places = [automated.index(f"``{kind}``") for kind, _ in ranks]
    assert places == sorted(places)  # equal priorities, in their true order
    assert lacks(automated, "falling priority", "logs an error", "0 leaves a step out") == []
    names = {option.dest for option in (*options.GROUPS["conductor"], *options.GROUPS["deploy"])}
    told = [
        "automated_clean_enable",
        "clean_step_priority_override",
        *sorted(name for name in names if name.endswith("_priority")),
    ]
    assert set(told) <= names
    assert lacks(automated, *told, "/automated_clean", "clean_nodes", "rebuild never cleans") == []


def test_s2_33_page_says_what_the_steps_do_and_how_interfaces_differ() -> None:
    text = section(CLEANING, "Differences between interfaces")
    conf = configure(DEFAULT__enabled_hardware_types=["fake-hardware", "redfish"])
    registry = Registry.load(Settings.read(conf))
    rows = [
        f"- ``{step.title}`` - ``{name}`` - {step.priority}"
        for kind in base.KINDS
        for name, interface in registry.interfaces[kind].items()
        for step in collect(kind, interface, StepKind.CLEAN)
    ]
    assert len(rows) >= 9
    assert lacks(text, *rows) == []
    assert lacks(text, "Out of band", "in band", "ramdisk", "not* erased", "Effect") == []


def test_s2_34_page_names_the_risks_that_remain() -> None:
    text = section("security.rst", "What remains although machines are cleaned")
    assert lacks(text, "firmware", "BMC", "network", "ramdisk", "root on a machine") == []
    assert lacks(text, "does not make a machine trustworthy", "priority 0") == []


def test_s2_35_cleaning_can_be_abused_to_empty_the_pool() -> None:
    text = section("security.rst", "Cleaning as a denial of service")
    assert lacks(text, "hours", "empty the pool", "deploy and delete", "quotas") == []
    assert lacks(text, "for administrators", "max_concurrent_clean") == []
    names = {option.dest for option in options.GROUPS["conductor"]}
    assert {"max_concurrent_clean", "max_concurrent_deploy"} <= names


def test_s2_36_tear_down_takes_longer_than_old_clients_think() -> None:
    text = section("upgrading.rst", "Deleting takes longer")
    assert lacks(text, "``deleted``", "hours", "compute services", "time-out", "raise") == []
    assert lacks(section("upgrading.rst", "Clients that know fewer states"), "clean wait") == []
