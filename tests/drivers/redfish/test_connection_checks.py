"""Checks of the way to a Redfish BMC: the layer that is broken fails, with advice."""

from __future__ import annotations

import pathlib
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite.core import config
from ironic_lite.doctor import node, rounds
from ironic_lite.domain.examination import Finding
from ironic_lite.drivers import deadline
from tests.emulators import bmc
from tests.support import certificates, fake_task
from tests.support.bmc_tasks import REDFISH, BmcTask

WAY = ("bmc_address", "bmc_port", "bmc_tls", "bmc_root", "bmc_login", "power")
SECRET = "s3cret-w0rd"


@pytest.fixture
def machine() -> Iterator[bmc.Machine]:
    with bmc.serve(users={"root": SECRET}) as running:
        yield running


def examined(machine: bmc.Machine, seconds: float = 60, **info: Any) -> dict[str, Finding]:
    """Return the findings about a machine's node by name, each with advice if it is bad."""
    row = fake_task.node(
        driver="redfish",
        driver_info={**machine.driver_info, **info},
        boot_interface="redfish-virtual-media",
    )
    subject: Any = node.Subject(config.CONF, BmcTask(row, driver=REDFISH))
    with deadline.until(seconds), deadline.limit(seconds):
        found = rounds.Examiner().examine(
            rounds.lines("node", node.table_of(subject), subject), seconds
        )
    for finding in found:
        assert bool(finding.do) == (finding.status != "ok"), finding
        assert SECRET not in f"{finding.text}{finding.do}"
    return {finding.name: finding for finding in found}


def statuses(found: dict[str, Finding]) -> list[str]:
    return [str(found[name].status) for name in WAY]


def test_every_layer_of_a_sound_bmc_is_ok(machine: bmc.Machine) -> None:
    found = examined(machine)
    # Plain HTTP is a warning.
    assert statuses(found) == ["ok", "ok", "warning", "ok", "ok", "ok"]
    assert found["bmc_login"].text.startswith("user root reads the system (")
    assert found["power"].text == "the machine is in power off"
    assert str(found["virtual_media"].status) == "ok"
    assert machine.changes() == []


def test_unknown_name_fails_the_first_check(machine: bmc.Machine) -> None:
    found = examined(machine, redfish_address="http://bmc.invalid")
    assert statuses(found) == ["failed", *["unknown"] * 5]
    assert "bmc.invalid cannot be resolved" in found["bmc_address"].text
    assert machine.log == []


def test_address_outside_the_allowed_networks_is_not_connected_to(machine: bmc.Machine) -> None:
    config.CONF.set_override("allowed_networks", ["192.0.2.0/24"], "redfish")
    try:
        port = machine.url.rpartition(":")[2]
        found = examined(machine, redfish_address=f"http://localhost:{port}")
    finally:
        config.CONF.clear_override("allowed_networks", "redfish")
    assert statuses(found) == ["failed", *["unknown"] * 5]
    assert "[redfish]allowed_networks" in found["bmc_address"].text
    assert machine.log == []


def test_closed_port_fails_the_second_check(machine: bmc.Machine) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{unused.getsockname()[1]}"
        found = examined(machine, redfish_address=address)
    assert statuses(found) == ["ok", "failed", *["unknown"] * 4]
    assert "connection refused" in found["bmc_port"].text


def test_untrusted_certificate_fails_the_check_of_tls(tmp_path: pathlib.Path) -> None:
    certificate, key = certificates.write(tmp_path, 100)
    with bmc.serve(users={"root": SECRET}, tls=(str(certificate), str(key))) as machine:
        found = examined(machine)
        assert statuses(found) == ["ok", "ok", "failed", *["unknown"] * 3]
        assert "redfish_verify_ca" in found["bmc_tls"].text
        trusted = examined(machine, redfish_verify_ca=str(certificate))
        assert statuses(trusted) == ["ok"] * 6
        blind = examined(machine, redfish_verify_ca=False)
        assert statuses(blind) == ["ok", "ok", "warning", "ok", "ok", "ok"]
        assert "not verified" in blind["bmc_tls"].text


@pytest.mark.parametrize(("days", "status"), [(12, "warning"), (-2, "failed")])
def test_end_of_the_certificate_of_a_bmc_is_reported(
    tmp_path: pathlib.Path, days: int, status: str
) -> None:
    certificate, key = certificates.write(tmp_path, days)
    with bmc.serve(tls=(str(certificate), str(key))) as machine:
        found = examined(machine, redfish_verify_ca=str(certificate))
    assert str(found["bmc_tls"].status) == status
    assert ("expired" if days < 0 else "valid for 1") in found["bmc_tls"].text


def test_server_that_is_no_bmc_fails_the_check_of_the_root(machine: bmc.Machine) -> None:
    found = examined(machine, redfish_address=f"{machine.url}/elsewhere")
    assert statuses(found) == ["ok", "ok", "warning", "failed", "unknown", "unknown"]
    assert "redfish_address" in found["bmc_root"].do


def test_wrong_password_fails_the_check_of_the_login(machine: bmc.Machine) -> None:
    found = examined(machine, redfish_password="wrong")
    assert statuses(found) == ["ok", "ok", "warning", "ok", "failed", "unknown"]
    assert "refused the credentials of user root" in found["bmc_login"].text
    assert "redfish_password" in found["bmc_login"].do


def test_wrong_system_fails_the_check_of_the_login(machine: bmc.Machine) -> None:
    found = examined(machine, redfish_system_id="/redfish/v1/Systems/none")
    assert str(found["bmc_login"].status) == "failed"
    assert machine.system in found["bmc_login"].text


def test_silent_bmc_fails_in_time(machine: bmc.Machine) -> None:
    machine.tricks["*"] = bmc.silent
    found = examined(machine, seconds=2)
    assert statuses(found)[:4] == ["ok", "ok", "warning", "failed"]
    machine.tricks.clear()


def test_machine_without_a_virtual_cd_is_a_failed_check(machine: bmc.Machine) -> None:
    for path, document in machine.tree.items():
        if "VirtualMedia/" in path or ("/VirtualMedia" in path and "MediaTypes" in document):
            document["MediaTypes"] = ["USBStick"]
    found = examined(machine)
    assert str(found["virtual_media"].status) == "failed"
    assert "ipxe" in found["virtual_media"].do


def test_other_boot_mode_is_a_warning(machine: bmc.Machine) -> None:
    found = examined(machine)
    mode = found["boot_mode"].text.split(",")[0]
    assert str(found["boot_mode"].status) == "ok"
    other = {"uefi": "bios", "bios": "uefi"}[mode]
    config.CONF.set_override("default_boot_mode", other, "deploy")
    try:
        changed = examined(machine)["boot_mode"]
    finally:
        config.CONF.clear_override("default_boot_mode", "deploy")
    assert str(changed.status) == "warning"
    assert changed.text == f"the machine is in {mode} mode, the node in {other}"
