"""Checks of the way to an IPMI BMC: program, name, login."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from ironic_lite.core import config
from ironic_lite.doctor import node, rounds
from ironic_lite.domain.examination import Finding
from ironic_lite.drivers.ipmi import power
from tests.emulators import ipmi
from tests.support import fake_task
from tests.support.bmc_tasks import BmcTask, Program

WAY = ("ipmitool", "bmc_address", "power")


def examined(driver_info: dict[str, Any]) -> dict[str, Finding]:
    driver = dataclasses.replace(fake_task.FAKE, hardware_type="ipmi", power=power.IpmiPower())
    row = fake_task.node(driver="ipmi", driver_info=driver_info, boot_interface="fake")
    subject: Any = node.Subject(config.CONF, BmcTask(row, driver=driver))
    lines = rounds.lines("node", node.table_of(subject), subject)
    found = rounds.Examiner().examine(lines, 60)
    assert all(bool(one.do) == (one.status != "ok") for one in found)
    return {one.name: one for one in found}


def statuses(found: dict[str, Finding]) -> list[str]:
    return [str(found[name].status) for name in WAY]


def test_missing_program_is_a_failed_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    found = examined({"ipmi_address": "127.0.0.1"})
    assert statuses(found) == ["failed", "unknown", "unknown"]
    assert "Install the package ipmitool" in found["ipmitool"].do


def test_unknown_name_is_a_failed_check(program: Program) -> None:
    program("exit 1")
    found = examined({"ipmi_address": "bmc.invalid"})
    assert statuses(found) == ["ok", "failed", "unknown"]
    assert "bmc.invalid" in found["bmc_address"].text


def test_wrong_password_fails_the_power_read(bmc: ipmi.Bmc) -> None:
    assert statuses(examined(bmc.driver_info())) == ["ok", "ok", "ok"]
    found = examined(bmc.driver_info(ipmi_password="wrong"))
    assert statuses(found) == ["ok", "ok", "failed"]
    assert "ipmi_password" in found["power"].text
    assert "wrong" not in found["power"].text
