"""S3, deploy steps: interfaces of before them, deployments that move, and what is written."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import pytest
from oslo_config import cfg

from ironic_lite.core import clock, config
from ironic_lite.db.queries import conductors
from ironic_lite.rpc import pins
from tests.support import real_socket
from tests.support.operator import Json, Operator

DOCS = pathlib.Path(__file__).parents[2] / "docs"
Outside = Callable[..., Operator]


def notes(shown: Json) -> Json:
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
    assert (shown["deploy_step"], notes(shown)) == (
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
    assert notes(shown).get("deploy_steps") is None
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
    assert pins.pinned(conf) is None
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
