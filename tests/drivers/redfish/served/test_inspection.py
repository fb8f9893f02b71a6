"""What operators see of an inspection by Redfish: its end, its faults, and the client's file."""

from __future__ import annotations

import json
import logging
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ironic_lite.core import config
from tests.emulators import bmc
from tests.support import real_socket
from tests.support.redfish_faults import USERS, falls_silent, nothing_held, repair, says
from tests.support.redfish_service import RedfishOperator

A, B = "12:44:6a:3b:04:01", "12:44:6a:3b:04:02"
KEPT = ("properties", "extra", "driver_info", "inspection_finished_at")


def ports(operator: RedfishOperator, node: str) -> list[str]:
    return [one["address"] for one in operator.api.get(f"/v1/nodes/{node}/ports").json["ports"]]


def inventory(operator: RedfishOperator, node: str) -> dict[str, Any] | None:
    answer = operator.api.get(f"/v1/nodes/{node}/inventory")
    assert answer.status in {200, 404}
    return answer.json if answer.status == 200 else None


def test_an_inspection_is_shown_as_a_whole(operator: RedfishOperator, machine: bmc.Machine) -> None:
    node = operator.at(machine)
    assert operator.shows(node)["inspect_interface"] == "redfish"
    assert inventory(operator, node) is None
    shown = operator.provision(node, "inspect")
    assert (shown["provision_state"], shown["last_error"]) == ("manageable", None)
    assert shown["properties"] == {
        "memory_mb": 98304,
        "local_gb": 1116,
        "cpu_arch": "x86_64",
        "cpus": 32,
        "vendor": "Contoso",
        "capabilities": "boot_mode:uefi",
    }
    assert ports(operator, node) == [A, B]
    found = inventory(operator, node)
    assert found is not None
    assert [one["mac_address"] for one in found["inventory"]["interfaces"]] == [A, B]
    assert (machine.changes(), USERS["root"] in json.dumps(found)) == ([], False)


def test_a_second_one_finds_the_same_and_what_is_new(
    operator: RedfishOperator, machine: bmc.Machine
) -> None:
    node = operator.at(machine)
    operator.provision(node, "inspect")
    before = (operator.shows(node)["properties"], ports(operator, node), inventory(operator, node))
    operator.provision(node, "inspect")
    after = (operator.shows(node)["properties"], ports(operator, node), inventory(operator, node))
    assert after == before
    machine["EthernetInterfaces/NIC1-2"]["MACAddress"] = "12:44:6a:3b:04:09"
    machine[machine.system]["MemorySummary"]["TotalSystemMemoryGiB"] = 192
    shown = operator.provision(node, "inspect")
    assert shown["properties"]["memory_mb"] == 2 * 98304
    # A port is never taken away: somebody may need it.
    assert ports(operator, node) == [A, B, "12:44:6a:3b:04:09"]


@pytest.fixture(params=["disabled", "active"])
def add_ports(request: pytest.FixtureRequest) -> Iterator[str]:
    config.CONF.set_override("add_ports", request.param, group="inspector")
    yield str(request.param)
    config.CONF.clear_override("add_ports", group="inspector")


def test_ports_are_added_as_was_configured(
    operator: RedfishOperator, machine: bmc.Machine, add_ports: str
) -> None:
    node = operator.at(machine)
    shown = operator.provision(node, "inspect")
    assert ports(operator, node) == []
    if add_ports == "active":
        assert shown["provision_state"] == "inspect failed"
        assert says(shown, r"NIC1-1, NIC1-2 matches \[inspector\]add_ports.* active")
    else:
        assert shown["provision_state"] == "manageable"


def test_a_machine_that_is_enrolled_twice_is_told_of(
    operator: RedfishOperator, machine: bmc.Machine, caplog: pytest.LogCaptureFixture
) -> None:
    node, other = operator.at(machine), operator.at(machine)
    operator.provision(node, "inspect")
    with caplog.at_level(logging.WARNING):
        shown = operator.provision(other, "inspect")
    assert (shown["provision_state"], ports(operator, other)) == ("manageable", [])
    assert f"no port is added for network card {A}: it is a port of node {node}" in caplog.text


# -- trouble ---------------------------------------------------------------------------------


def _forbids(machine: bmc.Machine) -> None:
    machine.users["root"] = "another"
    machine.forget_sessions()


def _forbids_in_the_middle(machine: bmc.Machine) -> None:
    def play(handler: bmc.Handler) -> None:
        _forbids(machine)
        handler.truth()

    # Of no importance in itself.
    machine.tricks[f"GET {machine.places.chassis}/PCIeDevices/NIC1"] = play


def _loses_memory(machine: bmc.Machine) -> None:
    machine[machine.system]["MemorySummary"] = None
    machine.tricks[f"GET {machine.system}/Memory"] = bmc.says(500)


TROUBLES: dict[str, tuple[Callable[[bmc.Machine], Any], tuple[str, ...]]] = {
    "breaks": (lambda m: m.tricks.update({"*": bmc.says(500)}), ("HTTP 500",)),
    "falls silent": (falls_silent, ("no complete answer within",)),
    "falls silent in the middle": (
        lambda m: falls_silent(m, f"GET {m.system}/Processors/*"),
        ("no complete answer within",),
    ),
    "hangs up": (lambda m: m.tricks.update({"GET *": bmc.hangs_up}), ("hung up without",)),
    "talks nonsense": (
        lambda m: m.tricks.update({f"GET {m.system}": bmc.speaks_html}),
        ("cannot be used",),
    ),
    "forbids it": (_forbids, ("refused the credentials of user root",)),
    "forbids it in the middle": (_forbids_in_the_middle, ("refused the credentials of user root",)),
    "does not say its memory": (
        _loses_memory,
        ("does not report memory_mb", "Memory: .*HTTP 500", "node's properties"),
    ),
}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_trouble_fails_the_inspection_and_changes_nothing(
    operator: RedfishOperator, machine: bmc.Machine, trouble: str
) -> None:
    spoil, words = TROUBLES[trouble]
    summary = dict(machine[machine.system]["MemorySummary"])
    node = operator.at(machine)
    before = operator.shows(node)
    spoil(machine)
    shown = operator.provision(node, "inspect")
    assert shown["provision_state"] == "inspect failed"
    assert says(shown, "Failed to inspect node", *words)
    assert nothing_held(shown)
    assert {key: shown[key] for key in KEPT} == {key: before[key] for key in KEPT}
    assert (ports(operator, node), inventory(operator, node)) == ([], None)
    repair(machine)
    machine[machine.system]["MemorySummary"] = summary
    assert operator.patches(node, driver_info__redfish_password=USERS["root"]).status == 200
    shown = operator.provision(node, "inspect")
    assert (shown["provision_state"], ports(operator, node)) == ("manageable", [A, B])


def _restarts_silently(machine: bmc.Machine) -> None:
    machine.habits.restart_status = 0
    machine.restart()


PASSING: dict[str, Callable[[bmc.Machine], Any]] = {
    "sessions run out": lambda machine: machine.forget_sessions(),
    "the BMC restarts": lambda machine: machine.restart(),
    "the BMC restarts and breaks connections": _restarts_silently,
}


@pytest.mark.parametrize("what", PASSING)
@pytest.mark.parametrize("where", ["Processors", "Processors/CPU2", "EthernetInterfaces"])
def test_passing_bmc_fault_does_not_fail_an_inspection(
    operator: RedfishOperator, machine: bmc.Machine, what: str, where: str
) -> None:
    node = operator.at(machine)
    title = f"GET {machine.system}/{where}"

    def play(handler: bmc.Handler) -> None:
        del machine.tricks[title]
        PASSING[what](machine)
        handler.truth()

    machine.tricks[title] = play
    shown = operator.provision(node, "inspect")
    assert (shown["provision_state"], shown["last_error"]) == ("manageable", None)
    assert title not in machine.tricks
    found = inventory(operator, node)
    assert found is not None
    assert (found["inventory"]["cpu"]["count"], "faults" in found["plugin_data"]) == (32, False)
    assert ports(operator, node) == [A, B]


# -- the client ------------------------------------------------------------------------------


def test_the_command_line_client_saves_the_inventory(
    operator: RedfishOperator, machine: bmc.Machine, tmp_path: pathlib.Path
) -> None:
    node = operator.at(machine)
    with real_socket.listening(operator) as url:
        file = tmp_path / "inventory.json"
        done = real_socket.baremetal(url, "node", "inventory", "save", node, "--file", str(file))
        assert done.returncode != 0
        assert "inventory record for node" in done.stderr
        done = real_socket.baremetal(url, "node", "inspect", node, "--wait", "60")
        assert done.returncode == 0, done.stderr
        done = real_socket.baremetal(url, "node", "inventory", "save", node, "--file", str(file))
        assert done.returncode == 0, done.stderr
    assert json.loads(file.read_text()) == inventory(operator, node)
