"""S3, deploy steps: what they are, their order, and what clients see of them."""

from __future__ import annotations

import itertools
import json
import pathlib
from collections.abc import Callable
from importlib import metadata
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.core import clock, config, options
from ironic_lite.db.queries import conductors
from ironic_lite.domain import steps
from ironic_lite.drivers import base, registry
from ironic_lite.rpc import contract
from tests.support import real_socket
from tests.support.operator import Json, Operator

ROOT = pathlib.Path(__file__).parents[2]
FAKE = ["deploy.deploy", "deploy.write_image", "deploy.boot_instance"]
LIMIT = {"interface": "power", "step": "limit", "args": {"watts": 9}, "priority": 50}
SETTINGS = {"settings": [{"name": "boot", "value": "fast"}]}
RESET = {"interface": "bios", "step": "apply_configuration", "args": SETTINGS}
Outside = Callable[..., Operator]


def titles(listed: list[Json]) -> list[str]:
    return [f"{step['interface']}.{step['step']}" for step in listed]


def waiting(operator: Operator, *steps: str, **fields: Any) -> str:
    """Return an available node on which these steps, or all, wait for an hour."""
    node = operator.enroll("available", **fields)
    told = {"fake_async_steps": steps or ["*"], "fake_step_seconds": 3600}
    assert operator.patches(node, driver_info=told).status == 200
    return node


def split(title: str) -> Json:
    return dict(zip(("interface", "step"), title.split("."), strict=True))


def notes(shown: Json) -> Json:
    """Return what the node shows of a deployment in driver_internal_info."""
    info = shown["driver_internal_info"]
    return {key: info[key] for key in info if "deploy_step" in key}


# -- what a deploy step is -------------------------------------------------------------------


def test_s3_01_a_mark_makes_a_deploy_step_with_priority_and_arguments(outside: Outside) -> None:
    operator = outside()
    node = waiting(operator, power_interface="metered")
    listed = operator.provision(node, "active")["driver_internal_info"]["deploy_steps"]
    limit = next(step for step in listed if step["step"] == "limit")
    assert limit["priority"] == 90
    assert limit["argsinfo"] == {
        "watts": {"description": "The limit, a number. Default: none.", "required": False}
    }
    assert {step["argsinfo"] for step in listed if step is not limit} == {None}


@pytest.mark.parametrize("priority", [-1, 1.0, 1.5, True, "10", None, 2**64], ids=repr)
def test_s3_02_a_priority_that_is_no_whole_number_is_refused_at_import(priority: Any) -> None:
    with pytest.raises(errors.InvalidParameter, match="priority"):
        base.deploy_step(priority=priority)


@pytest.mark.parametrize(
    "info",
    [
        {"size": {"required": True}},
        {"size": {"description": ""}},
        {"size": {"description": "GiB", "default": 1}},
        {"size": {"description": "GiB", "required": "yes"}},
        {"a size": {"description": "GiB"}},
        ["size"],
    ],
    ids=repr,
)
def test_s3_03_arguments_that_are_not_described_are_refused_at_import(info: Any) -> None:
    with pytest.raises(errors.InvalidParameter, match="args"):
        base.deploy_step(priority=1, argsinfo=info)


def test_s3_03_arguments_need_not_be_given_unless_they_are_required(operator: Operator) -> None:
    node = operator.enroll("available")
    step = {**RESET, "priority": 50}
    said = operator.refused(node, "active", 400, deploy_steps=[{**step, "args": {}}])
    assert "bios.apply_configuration is missing these required arguments: settings" in said
    wrong = {**SETTINGS, "colour": "red"}
    said = operator.refused(node, "active", 400, deploy_steps=[{**step, "args": wrong}])
    assert "bios.apply_configuration has these unexpected arguments: colour" in said
    shown = operator.provision(node, "active", deploy_steps=[step])
    assert shown["provision_state"] == "active"


def test_s3_04_one_method_is_a_clean_step_and_a_deploy_step(outside: Outside) -> None:
    operator = outside()
    node = operator.enroll("available", power_interface="metered")
    assert "power.limit" not in operator.rig.started(node)  # 0 as a clean step
    operator.provision(node, "manage")
    shown = operator.clean(node, "power.limit")
    assert shown["driver_internal_info"]["driver_notes"]["limits"] == [None]
    operator.provision(node, "provide")
    shown = operator.provision(node, "active")  # 90 as a deploy step
    assert shown["driver_internal_info"]["driver_notes"]["limits"] == [None, None]


def test_s3_05_a_step_that_does_not_say_so_is_not_cut_off(operator: Operator) -> None:
    node = waiting(operator)
    steps = [{**RESET, "priority": 200}]
    operator.provision(node, "active", deploy_steps=steps)
    shown = operator.provision(node, "abort")
    assert shown["provision_state"] == "wait call-back"
    assert shown["deploy_step"] == {**steps[0], "abort_after": True}
    operator.rig.ring(node)
    operator.rig.reaches(node, "deploy failed")
    assert operator.rig.started(node)[-1] == "bios.apply_configuration"


def test_s3_05_older_clients_cannot_abort_a_deployment(operator: Operator) -> None:
    node = waiting(operator)
    operator.provision(node, "active")
    path = f"/v1/nodes/{node}/states/provision"
    assert operator.api.at(109).put(path, {"target": "abort"}).status == 406
    assert operator.api.at(110).put(path, {"target": "abort"}).status == 202


# -- when they run ---------------------------------------------------------------------------


def test_s3_06_any_interface_may_have_deploy_steps(outside: Outside) -> None:
    operator = outside()
    node = operator.enroll("available", power_interface="metered")
    before = len(operator.rig.started(node))
    operator.provision(node, "active")
    assert operator.rig.started(node)[before:] == [FAKE[0], "power.limit", *FAKE[1:]]


def test_s3_07_deploy_steps_run_one_by_one_by_falling_priority(outside: Outside) -> None:
    operator = outside()
    node = operator.enroll("available", power_interface="metered")
    never = {"interface": "deploy", "step": "boot_instance", "args": {}, "priority": 0}
    last = {**RESET, "priority": 10}
    shown = operator.provision(node, "active", deploy_steps=[never, last, LIMIT])
    assert shown["driver_internal_info"]["driver_notes"]["limits"] == [9]
    steps = operator.rig.run(node)["steps"]
    # raid.apply_configuration, with 0, is not there at all.
    wanted = [*FAKE[:2], "power.limit", "bios.apply_configuration"]
    assert titles(steps) == wanted
    assert [step["priority"] for step in steps] == [100, 80, 50, 10]
    for one, following in itertools.pairwise(steps):
        assert one["ended_at"] <= following["started_at"]


def test_s3_07_equal_priorities_go_by_their_interfaces(outside: Outside) -> None:
    operator = outside()
    node = operator.enroll("available", power_interface="metered")
    steps = [{**RESET, "priority": 80}, {**LIMIT, "priority": "80"}]
    operator.provision(node, "active", deploy_steps=steps)
    wanted = [FAKE[0], "power.limit", FAKE[1], "bios.apply_configuration", FAKE[2]]
    assert titles(operator.rig.run(node)["steps"]) == wanted


def test_s3_08_no_option_changes_or_disables_them(serve: Callable[..., Operator]) -> None:
    off = [f"{title}:0" for title in FAKE]
    operator = serve(
        conductor__clean_step_priority_override=off,
        conductor__verify_step_priority_override=off,
        deploy__erase_devices_priority=0,
        deploy__delete_configuration_priority=500,
    )
    node = operator.enroll("available")
    operator.provision(node, "active")
    assert titles(operator.rig.run(node)["steps"]) == FAKE
    assert not [name for name in every_option() if "deploy_step" in name and "priority" in name]


def test_s3_09_a_deployment_is_made_of_steps(operator: Operator) -> None:
    node = operator.enroll("available", fake_fail_steps={FAKE[1]: "no space"})
    operator.provision(node, "active")
    run = operator.rig.run(node)
    assert (run["verb"], titles(run["steps"])) == ("active", FAKE)
    assert [step["state"] for step in run["steps"][:2]] == ["done", "failed"]


def every_option() -> list[str]:
    return [str(option.dest) for group in options.GROUPS.values() for option in group]


# -- what a node shows -----------------------------------------------------------------------


def test_s3_10_a_node_shows_the_step_under_way(operator: Operator) -> None:
    node = waiting(operator)
    assert operator.shows(node)["deploy_step"] == {}
    shown = operator.provision(node, "active")
    assert shown["deploy_step"] == {
        "interface": "deploy",
        "step": "deploy",
        "priority": 100,
        "abortable": True,
        "argsinfo": None,
    }
    operator.rig.ring(node)
    operator.rig.reaches(node, "active")
    assert operator.shows(node)["deploy_step"] == {}


def test_s3_11_a_node_shows_the_list_and_the_place_in_it(operator: Operator) -> None:
    node = operator.enroll("available")
    wait = {"interface": "deploy", "step": "wait", "args": {}, "priority": 90}
    info = operator.provision(node, "active", deploy_steps=[wait])["driver_internal_info"]
    assert titles(info["deploy_steps"]) == [FAKE[0], "deploy.wait", *FAKE[1:]]
    assert info["deploy_step_index"] == 1
    assert operator.shows(node)["deploy_step"] == info["deploy_steps"][1]
    operator.rig.call("continue_node_deploy", node)
    assert notes(operator.shows(node)) == {"deploy_steps": None, "user_deploy_steps": [wait]}


def test_s3_12_the_node_alternates_between_two_states(operator: Operator) -> None:
    node = operator.enroll("available")
    operator.patches(node, driver_info={"fake_async_steps": ["*"]})
    before = len(operator.rig.path(node))
    assert operator.asks(node, "active").status == 202
    operator.rig.reaches(node, "active")
    path = operator.rig.path(node)[before:]
    assert path == ["deploying", "wait call-back"] * 3 + ["deploying", "active"]


def test_s3_13_the_step_is_shown_from_1_44_on_the_list_always(operator: Operator) -> None:
    node = waiting(operator)
    operator.provision(node, "active")
    for path in (f"/v1/nodes/{node}", "/v1/nodes/detail"):
        old, new = (operator.api.at(minor).get(path).json for minor in (43, 44))
        if path.endswith("detail"):
            old, new = old["nodes"][0], new["nodes"][0]
        assert "deploy_step" not in old
        assert new["deploy_step"]["step"] == "deploy"
        for shown in (old, new):
            assert notes(shown).keys() == {
                *("deploy_steps", "deploy_step_index", "user_deploy_steps"),
            }
    chosen = f"/v1/nodes/{node}?fields=deploy_step"
    assert operator.api.at(43).get(chosen).status == 406
    assert set(operator.api.at(44).get(chosen).json) == {"deploy_step", "links"}


def failed(operator: Operator) -> str:
    """Return a node whose second deploy step has failed."""
    node = operator.enroll("available", fake_fail_steps={FAKE[1]: "no space"})
    shown = operator.provision(node, "active")
    assert shown["provision_state"] == "deploy failed"
    return node


def test_s3_14_after_a_failure_the_step_names_the_failed_one(operator: Operator) -> None:
    node = failed(operator)
    shown = operator.shows(node)
    assert titles([shown["deploy_step"]]) == FAKE[1:2]
    assert shown["last_error"] == "Deploy step deploy.write_image failed: no space"
    assert titles(notes(shown)["deploy_steps"]) == FAKE
    assert notes(shown)["deploy_step_index"] == 1


@pytest.mark.parametrize(
    ("verb", "end", "left"),
    [
        ("active", "active", {"deploy_steps": None, "user_deploy_steps": []}),
        ("rebuild", "active", {"deploy_steps": None, "user_deploy_steps": []}),
        ("deleted", "available", {}),
    ],
)
def test_s3_14_the_next_try_or_tear_down_empties_it(
    operator: Operator, verb: str, end: str, left: Json
) -> None:
    node = failed(operator)
    operator.patches(node, driver_info={})
    shown = operator.provision(node, verb)
    assert (shown["provision_state"], shown["deploy_step"]) == (end, {})
    assert notes(shown) == left


def test_s3_14_tear_down_of_a_waiting_deployment_empties_it_too(operator: Operator) -> None:
    node = waiting(operator)
    assert operator.provision(node, "active")["deploy_step"] != {}
    operator.rig.edit(node, driver_info={})
    shown = operator.provision(node, "deleted")
    assert (shown["provision_state"], shown["deploy_step"]) == ("available", {})
    assert notes(shown) == {}


def test_s3_15_a_node_that_was_never_deployed_shows_nothing_of_it(operator: Operator) -> None:
    for state in ("enroll", "manageable", "available"):
        shown = operator.shows(operator.enroll(state))
        assert shown["deploy_step"] == {}
        assert notes(shown) == {}


# -- what an interface does ------------------------------------------------------------------


def test_s3_16_an_interface_tells_its_steps_and_runs_them(outside: Outside) -> None:
    operator = outside()
    node = operator.enroll("available", deploy_interface="scripted")
    shown = operator.provision(node, "active")
    assert shown["driver_internal_info"]["driver_notes"]["acts"] == ["first", "second"]
    assert titles(operator.rig.run(node)["steps"]) == ["deploy.first", "deploy.second"]


def test_s3_17_a_step_is_done_or_goes_on_by_itself_or_fails(outside: Outside) -> None:
    operator = outside()
    node = operator.enroll("available", deploy_interface="signs")
    shown = operator.provision(node, "active")
    assert (shown["provision_state"], shown["deploy_step"]["step"]) == ("wait call-back", "waiting")
    assert operator.rig.step_states(node) == ["done", "waiting", "pending"]
    operator.reports(node)
    operator.rig.reaches(node, "deploy failed")
    assert operator.rig.step_states(node) == ["done", "done", "failed"]
    assert operator.rig.run(node)["error"]["code"] == "DeployStepFailed"
    assert operator.shows(node)["last_error"] == (
        "Deploy step deploy.failing failed: the disk is gone"
    )


def test_s3_18_one_engine_runs_clean_and_deploy_steps(outside: Outside) -> None:
    operator = outside()
    told = {"fake_async_steps": ["power.limit"], "fake_step_seconds": 3600}
    limit = {"interface": "power", "step": "limit", "args": {"watts": 9}}
    others = [{**split(title), "args": {}, "priority": 0} for title in FAKE]
    tales = []
    for start, verb, body, end in (
        ("manageable", "clean", {"clean_steps": [limit]}, "manageable"),
        ("available", "active", {"deploy_steps": [{**limit, "priority": 9}, *others]}, "active"),
    ):
        node = operator.enroll(start, power_interface="metered")
        operator.patches(node, driver_info=told)
        before = len(operator.rig.events(node))
        operator.provision(node, verb, **body)
        operator.rig.ring(node)
        operator.rig.reaches(node, end)
        events = operator.rig.events(node)[before:]
        told_of = [event for event in events if event["kind"] != "data_state"]
        tales.append([(event["kind"], (event["data"] or {}).get("step")) for event in told_of])
    assert tales[0] == tales[1]
    steps = [(kind, step) for kind, step in tales[0] if step]
    assert steps == [("step_started", "power.limit"), ("step_ended", "power.limit")]


def test_s3_24_every_deploy_step_has_a_test_that_names_it() -> None:
    tests = "".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    found = [
        step.title
        for kind in base.KINDS
        for point in metadata.entry_points(group=f"{registry.INTERFACES}.{kind}")
        for step in steps.collect(kind, point.load(), base.StepKind.DEPLOY)
    ]
    assert set(FAKE) <= set(found)
    assert [title for title in found if f'"{title}"' not in tests] == []


# S3, deploy steps: interfaces of before them, deployments that move, and what is written.

DOCS = pathlib.Path(__file__).parents[2] / "docs"


def old_notes(shown: Json) -> Json:
    info = shown["driver_internal_info"]
    return {key: info[key] for key in info if "deploy_step" in key}


def deployed(shown: Json) -> int:
    """Return how often an interface of the old kind has deployed the node."""
    return int(shown["driver_internal_info"]["driver_notes"]["old_deployed"])


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if "old way" in record.getMessage()]


def test_s3_19_an_interface_without_steps_deploys_in_one_piece(
    outside: Outside,
    caplog: pytest.LogCaptureFixture,
) -> None:
    operator = outside()
    node = operator.enroll("available", deploy_interface="old")
    shown = operator.provision(node, "active")
    assert (shown["provision_state"], deployed(shown)) == ("active", 1)
    assert (shown["deploy_step"], old_notes(shown)) == (
        {},
        {"deploy_steps": None, "user_deploy_steps": []},
    )
    (said,) = warnings(caplog)
    assert "Deploy interface Old has no deploy steps" in said
    assert "deprecated" in said
    assert "deploy_step" in said
    assert "let deployments under way end before such an upgrade" in said
    assert operator.provision(node, "rebuild")["provision_state"] == "active"


@pytest.mark.parametrize("waits", [False, True])
def test_deployment_in_one_piece_makes_the_data_dirty(outside: Outside, waits: bool) -> None:
    operator = outside()
    info = {"old_waits": True} if waits else {}
    node = operator.enroll("available", deploy_interface="old", driver_info=info)
    path = f"/v1/nodes/{node}/data_state"
    declared = operator.api.put(path, {"data_state": "clean", "reason": "new disks"})
    assert declared.status < 300, declared.text
    shown = operator.provision(node, "active")
    assert shown["provision_state"] == ("wait call-back" if waits else "active")
    (run,) = operator.rig.runs(node)[-1:]
    row = operator.rig.get(node)
    assert (row["data_state"], row["data_state_by"]) == ("dirty", run["uuid"])


@pytest.mark.parametrize("whose", ["driver", "request", "template"])
def test_s3_19_steps_of_others_do_not_take_the_place_of_the_old_way(
    outside: Outside, caplog: pytest.LogCaptureFixture, whose: str
) -> None:
    operator = outside()
    power = "metered" if whose == "driver" else "fake"
    node = operator.enroll("available", deploy_interface="old", power_interface=power)
    settings = {"settings": [{"name": "boot", "value": "fast"}]}
    step = {"interface": "bios", "step": "apply_configuration", "priority": 200, "args": settings}
    if whose == "template":
        made = operator.api.post("/v1/deploy_templates", {"name": "CUSTOM_FAST", "steps": [step]})
        assert made.status == 201, made.text
        path = f"/v1/nodes/{node}/traits"
        assert operator.api.put(path, {"traits": ["CUSTOM_FAST"]}).status == 204
        assert operator.patches(node, instance_info={"traits": ["CUSTOM_FAST"]}).status == 200
    asked = {"deploy_steps": [step]} if whose == "request" else {}
    shown = operator.provision(node, "active", **asked)
    assert (shown["provision_state"], deployed(shown)) == ("active", 1)
    steps = [one["step"] for one in operator.rig.run(node)["steps"]]
    wanted = ["deploy", "limit"] if whose == "driver" else ["apply_configuration", "deploy"]
    assert steps == wanted
    assert len(warnings(caplog)) == 1


def test_s3_19_an_interface_whose_steps_are_all_disabled_has_no_old_way(
    operator: Operator, caplog: pytest.LogCaptureFixture
) -> None:
    node = operator.enroll("available")
    fake = ("deploy", "write_image", "boot_instance")
    off = [{"interface": "deploy", "step": step, "args": {}, "priority": 0} for step in fake]
    shown = operator.provision(node, "active", deploy_steps=off)
    assert shown["provision_state"] == "deploy failed"
    assert "No deploy steps returned" in shown["last_error"]
    assert warnings(caplog) == []


def test_s3_19_deployment_without_steps_is_not_repeated_after_a_crash(outside: Outside) -> None:
    operator = outside()
    node = operator.rig.node("deploying", deploy_interface="old", target_provision_state="active")
    operator.rig.service.orphans.sweep()
    operator.rig.reaches(node, "deploy failed")
    shown = operator.shows(node)
    assert "went away" in shown["last_error"]
    assert "old_deployed" not in str(shown["driver_internal_info"])


def test_s3_20_unknown_steps_do_not_matter_to_other_verbs(outside: Outside) -> None:
    operator = outside()
    node = operator.enroll("manageable", deploy_interface="silent")
    for verb, end in (
        ("inspect", "manageable"),
        ("provide", "available"),
        ("manage", "manageable"),
        ("adopt", "active"),
        ("deleted", "available"),
    ):
        assert operator.provision(node, verb)["provision_state"] == end
    said = operator.asks(node, "active")
    assert "nobody may ask" in said.text  # it is really this interface


def test_s3_21_a_heartbeat_without_a_list_ends_the_old_way(outside: Outside) -> None:
    operator = outside()
    node = operator.enroll("available", deploy_interface="old", driver_info={"old_waits": True})
    shown = operator.provision(node, "active")
    assert (shown["provision_state"], shown["target_provision_state"]) == (
        "wait call-back",
        "active",
    )
    assert old_notes(shown).get("deploy_steps") is None
    operator.reports(node)
    operator.rig.reaches(node, "active")
    assert deployed(operator.shows(node)) == 1


def leave(operator: Operator) -> None:
    """Let the operator's conductor die, and be known as dead."""
    operator.rig.bury()
    operator.rig.database.write(lambda conn: conductors.offline(conn, "here", clock.now()))


@pytest.mark.parametrize("speaks", ["timer", "agent"])
def test_s3_22_a_deployment_goes_on_with_any_conductor(outside: Outside, speaks: str) -> None:
    first = outside()
    node = first.enroll("available", deploy_interface="fake" if speaks == "timer" else "signs")
    first.patches(node, driver_info={"fake_async_steps": ["*"], "fake_step_seconds": 3600})
    assert first.provision(node, "active")["provision_state"] == "wait call-back"
    leave(first)
    second = outside(DEFAULT__host="there")
    if speaks == "timer":
        second.rig.ring(node)
        second.rig.reaches(node, "active")
    else:
        second.reports(node)
        second.rig.reaches(node, "deploy failed")  # by its third step, after the one that waited
    run = second.rig.run(node)
    assert (run["conductor"], len(run["steps"])) == ("there", 3)
    assert len([one for one in second.rig.started(node) if one.startswith("deploy.erase")]) in (
        0,
        2,
    )


def test_s3_22_a_pin_in_an_old_file_stops_nothing_and_means_nothing(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "ironic.conf"
    path.write_text("[DEFAULT]\npin_release_version = queens\n")
    conf = config.load("ironic-lite", ["--config-file", str(path)], conf=cfg.ConfigOpts())
    assert contract.pinned_release(conf) is None
    assert "``pin_release_version``" in (DOCS / "specifications.rst").read_text()


def test_s3_23_the_command_line_shows_the_step(operator: Operator) -> None:
    node = operator.enroll("available", fake_fail_steps={"deploy.write_image": "no space"})
    operator.provision(node, "active")
    chosen = ("--fields", "deploy_step", "driver_internal_info", "-f", "json")
    with real_socket.listening(operator) as url:
        done = real_socket.baremetal(url, "node", "show", node, *chosen)
    assert done.returncode == 0, done.stderr
    shown = json.loads(done.stdout)
    assert shown["deploy_step"]["step"] == "write_image"
    assert len(shown["driver_internal_info"]["deploy_steps"]) == 3


def test_s3_23_the_documentation_speaks_of_the_field() -> None:
    page = " ".join((DOCS / "deploying.rst").read_text().split())
    assert "``deploy_step`` The step under way, ``{}`` without one; from API version 1.44" in page
    assert "``deploy_steps`` is the list, ``deploy_step_index`` the place in it" in page
    assert "stay to be looked at, until the next ``active``, ``rebuild`` or ``deleted``" in page
