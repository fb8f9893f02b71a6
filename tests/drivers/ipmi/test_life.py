"""The whole life of a node of type ipmi, over HTTP, with a machine that is really switched."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from tests.emulators.ipmi import PASSWORD, Bmc
from tests.support.operator import Operator

RAW = {"interface": "vendor", "step": "send_raw", "args": {"raw_bytes": "0x06 0x01"}}
Serve = Callable[..., Operator]


def enroll(operator: Operator, bmc: Bmc, state: str = "manageable", **driver_info: Any) -> str:
    return operator.enroll(state, driver="ipmi", driver_info=bmc.driver_info(**driver_info))


def test_a_machine_lives_from_enroll_to_the_end(serve: Serve, bmc: Bmc) -> None:
    operator = serve()
    node = enroll(operator, bmc)
    shown = operator.shows(node)
    assert (shown["power_interface"], shown["management_interface"]) == ("ipmitool", "ipmitool")
    assert shown["vendor_interface"] == "ipmitool"
    assert shown["power_state"] == "power off"
    assert shown["driver_info"]["ipmi_password"] == "******"

    steps = [{"interface": "management", "step": "reset_bmc"}]
    assert operator.asks(node, "clean", clean_steps=steps).status == 202
    operator.rig.enters(node, "clean wait")
    operator.rig.reaches(node, "manageable")
    assert operator.shows(node)["last_error"] is None
    assert operator.provision(node, "provide")["provision_state"] == "available"
    assert operator.provision(node, "active")["provision_state"] == "active"
    bmc.power = False
    for target, on in (("power on", True), ("rebooting", True), ("soft power off", False)):
        answer = operator.api.put(f"/v1/nodes/{node}/states/power", {"target": target})
        assert answer.status == 202, answer.text
        operator.rig.settled(node)
        assert bmc.power is on
        assert operator.shows(node)["last_error"] is None
    assert operator.provision(node, "deleted")["provision_state"] == "available"
    assert "power 1" in bmc.actions
    assert operator.api.request("DELETE", f"/v1/nodes/{node}").status == 204


def test_validation_tells_of_each_interface(serve: Serve, bmc: Bmc) -> None:
    operator = serve()
    node = enroll(operator, bmc, "enroll")
    shown = operator.api.get(f"/v1/nodes/{node}/validate").json
    assert [shown[kind]["result"] for kind in ("power", "management")] == [True, True]
    assert operator.patches(node, driver_info__ipmi_bridging="single").status == 200
    told = operator.api.get(f"/v1/nodes/{node}/validate").json["power"]["reason"]
    assert "driver_info/ipmi_target_channel, driver_info/ipmi_target_address" in told


def test_nonsense_is_refused_when_it_is_written(serve: Serve, bmc: Bmc) -> None:
    operator = serve()
    node = enroll(operator, bmc, "enroll")
    answer = operator.patches(node, driver_info__ipmi_port="many")
    assert answer.status == 400
    assert "driver_info/ipmi_port" in answer.text
    assert operator.shows(node)["driver_info"]["ipmi_port"] == bmc.port


def test_a_wrong_password_is_what_the_operator_reads(serve: Serve, bmc: Bmc) -> None:
    operator = serve()
    node = enroll(operator, bmc, "enroll", ipmi_password="guess")
    shown = operator.provision(node, "manage")
    assert shown["provision_state"] == "enroll"
    assert "refused the login of user admin. Check ipmi_username" in shown["last_error"]
    assert operator.patches(node, driver_info__ipmi_password=PASSWORD).status == 200
    assert operator.provision(node, "manage")["provision_state"] == "manageable"


def test_a_machine_that_does_not_move_is_what_the_operator_reads(serve: Serve, bmc: Bmc) -> None:
    operator = serve()
    node = enroll(operator, bmc)
    bmc.jam()
    body = {"target": "power on", "timeout": 1}
    assert operator.api.put(f"/v1/nodes/{node}/states/power", body).status == 202
    operator.rig.settled(node)
    shown = operator.shows(node)
    assert shown["power_state"] == "power off"
    assert "not reached within 1 s; the BMC last showed the state power off" in shown["last_error"]


def test_no_log_tells_the_password(
    serve: Serve, bmc: Bmc, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    operator = serve()
    node = enroll(operator, bmc)
    bmc.stop()
    assert operator.api.get(f"/v1/nodes/{node}/management/boot_device").status >= 400
    body = {"target": "power on", "timeout": 5}
    assert operator.api.put(f"/v1/nodes/{node}/states/power", body).status == 202
    operator.rig.settled(node)
    told = operator.shows(node)["last_error"]
    assert "does not answer on UDP port" in told
    assert "ipmitool" in caplog.text
    assert PASSWORD not in caplog.text + told


def test_a_boot_device_is_set_and_shown(serve: Serve, bmc: Bmc) -> None:
    operator = serve()
    node = enroll(operator, bmc)
    path = f"/v1/nodes/{node}/management/boot_device"
    body = {"boot_device": "pxe", "persistent": False}
    assert operator.api.put(path, body).status == 204
    assert operator.api.get(path).json == body
    assert operator.api.get(f"{path}/supported").json == {
        "supported_boot_devices": ["pxe", "disk", "safe", "cdrom", "bios"]
    }
    assert operator.api.put(path, {"boot_device": "tape"}).status == 400


def test_a_forgetful_bmc_is_told_at_power_on(serve: Serve, bmc: Bmc) -> None:
    operator = serve()
    node = enroll(operator, bmc, ipmi_force_boot_device=True)
    path = f"/v1/nodes/{node}/management/boot_device"
    assert operator.api.put(path, {"boot_device": "pxe", "persistent": True}).status == 204
    operator.rig.settled(node)
    before = len(bmc.actions)
    assert operator.api.put(f"/v1/nodes/{node}/states/power", {"target": "power on"}).status == 202
    operator.rig.settled(node)
    assert bmc.actions[before:] == ["boot pxe", "power 1"]


def test_raw_commands_are_for_those_who_are_allowed(serve: Serve, bmc: Bmc) -> None:
    operator = serve()
    node = enroll(operator, bmc)
    told = operator.refused(node, "clean", 400, clean_steps=[RAW])
    assert "send_raw" in told


def test_raw_commands_are_sent_as_steps_if_allowed(
    serve: Serve, bmc: Bmc, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    operator = serve(api__disallow_clean_steps=[])
    node = enroll(operator, bmc)
    shown = operator.provision(node, "clean", clean_steps=[RAW])
    assert (shown["provision_state"], shown["last_error"]) == ("manageable", None)
    assert "raw command 0x06 0x01 was answered with 00 03 09 08 02" in caplog.text


def test_vendor_methods_are_listed_and_called(
    serve: Serve, bmc: Bmc, recorded: Callable[[], list[str]]
) -> None:
    operator = serve()
    node = enroll(operator, bmc)
    path = f"/v1/nodes/{node}/vendor_passthru"
    listed = operator.api.get(f"{path}/methods").json
    assert {name: about["http_methods"] for name, about in listed.items()} == {
        "bmc_reset": ["POST"],
        "send_raw": ["POST"],
    }
    recorded()
    answer = operator.api.post(f"{path}?method=bmc_reset", {"warm": False})
    assert answer.status == 202, answer.text
    operator.rig.settled(node)
    assert recorded() == ["mc reset cold"]
    answer = operator.api.post(f"{path}?method=send_raw", {"raw_bytes": "six"})
    assert (answer.status, "raw_bytes" in answer.text) == (400, True)


def test_a_service_without_ipmitool_says_so(
    serve: Serve, bmc: Bmc, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = serve()
    monkeypatch.setenv("PATH", "/nowhere")
    node = enroll(operator, bmc, "enroll")
    shown = operator.provision(node, "manage")
    assert shown["provision_state"] == "enroll"
    assert "install the package ipmitool" in shown["last_error"]


def test_a_machine_without_a_bmc_lives_too(serve: Serve, tmp_path: pathlib.Path) -> None:
    operator = serve()
    node = operator.enroll("active", driver="manual-management", driver_info={})
    shown = operator.shows(node)
    assert (shown["power_interface"], shown["management_interface"]) == ("fake", "noop")
    assert shown["vendor_interface"] == "no-vendor"
