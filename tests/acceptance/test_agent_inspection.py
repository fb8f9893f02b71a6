"""Real ramdisk agents that report to real processes of ours, and those that run on between verbs.

Machines are fake: switching one on does nothing, so a test starts its agent where the machine would
have booted it.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from tests.emulators.agent import process
from tests.support import http_nodes, plugin_wheels
from tests.support.http_nodes import asks, reaches, told
from tests.support.service import PATIENCE, ROOT, SCRIPTS, Service, environment, service, until

MAC = "52:54:00:00:00:01"
Json = dict[str, Any]

SETTINGS = """
node_locked_retry_interval = 1
[DEFAULT]
enabled_hardware_types = fake-hardware,manual-management
enabled_deploy_interfaces = custom-agent,fake
enabled_inspect_interfaces = agent,no-inspect,fake
enabled_power_interfaces = agent,fake
[inspector]
hooks = ramdisk-error,validate-interfaces,ports,architecture,memory,cpus,boot-mode,root-device
[agent]
deploy_logs_local_path = {logs}
"""
FAST = "[deploy]\nfast_track = true\n"


@pytest.fixture
def machine() -> Iterator[process.Agent]:
    """A machine with a real agent, not started."""
    with process.agent([MAC]) as found:
        found.parameters["inspection_dhcp_wait_timeout"] = "0"
        found.environment["MACHINE_IP"] = "192.0.2.9"  # that of a loop is no card's
        yield found


@pytest.fixture
def up(machine: process.Agent, request: pytest.FixtureRequest) -> Iterator[Service]:
    """A service that the machine's agent knows as its own."""
    more = SETTINGS.format(logs=machine.folder / "kept") + getattr(request, "param", "")
    with service(more) as found:
        with found.settings.open("a", encoding="utf-8") as settings:
            settings.write(f"[service_catalog]\nendpoint_override = {found.url}\n")
        found.start()
        found.up()
        machine.api = found.url
        yield found


fast = pytest.mark.parametrize("up", [FAST], indirect=True, ids=["fast track"])


def powered(up: Service, node: str) -> list[str]:
    """Return what the power of a node has become, one after the other."""
    path = up.folder / "state" / "ironic-lite.sqlite"
    asked = "SELECT after FROM events WHERE node_uuid = ? AND kind = 'power' ORDER BY id"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return [after for (after,) in connection.execute(asked, (node,))]


def restarts(machine: process.Agent) -> list[str]:
    """Return what would have restarted the machine, or switched it off."""
    words = ("reboot", "poweroff", "shutdown")
    return [line for line in machine.calls() if any(word in line for word in words)]


def enrol(up: Service, **fields: Any) -> str:
    """Create a manageable node, of which no card is known."""
    return http_nodes.enrol(
        up, inspect_interface="agent", deploy_interface="custom-agent", **fields
    )


def boots(up: Service, machine: process.Agent, query: str = "") -> None:
    """Start the machine's agent as its ramdisk does that is to inspect."""
    machine.parameters["inspection_callback_url"] = f"{up.url}/v1/continue_inspection{query}"
    machine.start()


# -- inspection ------------------------------------------------------------------------------


@pytest.mark.parametrize("known", ["by its card", "by its parameters"])
def test_a_machine_tells_what_it_is_made_of(
    up: Service, machine: process.Agent, known: str
) -> None:
    node = enrol(up)
    if known == "by its card":
        http_nodes.add_port(up, node, MAC)
    asks(up, "inspect")
    reaches(up, "inspect wait")
    boots(up, machine, "" if known == "by its card" else f"?node_uuid={node}")
    found = up.settled("m1", "manageable")
    assert found["power_state"] == "power off"
    assert found["properties"] == {
        "cpu_arch": "x86_64",
        "memory_mb": 2048,
        "cpus": 2,
        "capabilities": "boot_mode:bios",
    }
    cards = up.get(f"/v1/ports?node={node}")["ports"]
    assert [one["address"] for one in cards] == [MAC]
    kept = up.get("/v1/nodes/m1/inventory")
    assert kept["inventory"]["disks"][0]["serial"] == "F1"
    assert kept["plugin_data"]["configuration"]["managers"][0]["name"] == "FileMachine"
    assert "logs" not in kept["plugin_data"]


def test_the_client_inspects_a_machine(up: Service, machine: process.Agent) -> None:
    """The unmodified program, and the unmodified agent."""
    node = enrol(up)
    command = ["baremetal", "node", "inspect", "m1", "--wait", str(int(PATIENCE))]
    access = {"OS_AUTH_TYPE": "none", "OS_ENDPOINT": up.url, "PATH": os.environ["PATH"]}
    with subprocess.Popen(
        [str(SCRIPTS / command[0]), *command[1:]],
        env=environment(**access),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as client:
        reaches(up, "inspect wait")
        boots(up, machine, f"?node_uuid={node}")
        said, _ = client.communicate(timeout=PATIENCE)
    assert client.returncode == 0, said
    assert up.get("/v1/nodes/m1")["provision_state"] == "manageable"


def test_collector_failure_fails_the_inspection_in_its_words(
    up: Service, machine: process.Agent
) -> None:
    node = enrol(up)
    asks(up, "inspect")
    reaches(up, "inspect wait")
    machine.parameters["inspection_collectors"] = "default,nonsense"
    boots(up, machine, f"?node_uuid={node}")
    found = reaches(up, "inspect failed")
    assert "nonsense" in found["last_error"]
    assert found["properties"] == {}


def test_a_conductor_that_is_killed_meanwhile_takes_the_report_afterwards(
    up: Service, machine: process.Agent
) -> None:
    """The agent sends its report again as long as nobody takes it."""
    node = enrol(up)
    asks(up, "inspect")
    reaches(up, "inspect wait")
    for one in up.running():
        one.clear()
    boots(up, machine, f"?node_uuid={node}")
    until(lambda: "Posting collected data" in machine.log(), "the report")
    up.start()
    up.up()
    up.settled("m1", "manageable")


# -- hooks of a site -------------------------------------------------------------------------

PAGE = (
    (ROOT / "docs/inspection.rst")
    .read_text(encoding="utf-8")
    .partition("Port a hook of Ironic\n=")[2]
)
HOOKS = """
[inspector]
hooks = $default_hooks,resource-class,port-bios-name
[site_hooks]
classes_file = {classes}
"""
CLASS = {"name": "baremetal.small", "model": "", "cpu": "file", "memory_gb": 1, "disk_gb": 0}


def block(language: str) -> str:
    """Return the first block of a language on the page about hooks."""
    found = re.search(rf"^\.\. code-block:: {language}\n\n((?: +.*\n|\n)+)", PAGE, re.MULTILINE)
    assert found
    return textwrap.dedent(found[1])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[pathlib.Path]:
    """The hooks of the page as a package, installed where only these processes look."""
    folder = tmp_path_factory.mktemp("hooks")
    package = folder / "site-hooks"
    package.mkdir()
    package.joinpath("site_hooks.py").write_text(block("python"), encoding="utf-8")
    package.joinpath("setup.cfg").write_text(block("cfg"), encoding="utf-8")
    package.joinpath("pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
    )
    target = plugin_wheels.install(folder, "site-hooks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(target))
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        yield folder


@contextlib.contextmanager
def hooked(machine: process.Agent, classes: pathlib.Path, hooks: str = HOOKS) -> Iterator[Service]:
    """Run a service with the hooks of the site."""
    more = SETTINGS.partition("[inspector]")[0] + hooks.format(classes=classes)
    with service(more, warm=False) as found:
        with found.settings.open("a", encoding="utf-8") as settings:
            settings.write(f"[service_catalog]\nendpoint_override = {found.url}\n")
        machine.api = found.url
        yield found


def classes(site: pathlib.Path, *known: Json) -> pathlib.Path:
    path = site / "classes.json"
    path.write_text(json.dumps(known), encoding="utf-8")
    return path


def test_ported_hooks_of_a_package_run_in_an_inspection(
    site: pathlib.Path, machine: process.Agent
) -> None:
    with hooked(machine, classes(site, CLASS, {**CLASS, "name": "large", "memory_gb": 512})) as up:
        up.start()
        up.up()
        node = enrol(up)
        asks(up, "inspect")
        reaches(up, "inspect wait")
        boots(up, machine, f"?node_uuid={node}")
        found = up.settled("m1", "manageable")
        assert found["resource_class"] == "baremetal.small"
        (card,) = up.get(f"/v1/ports/detail?node={node}")["ports"]
        assert (card["address"], card["pxe_enabled"]) == (MAC, False)
        assert (
            card["extra"]["bios_name"]
            == up.get("/v1/nodes/m1/inventory")["inventory"]["interfaces"][0]["name"]
        )


def test_exception_of_a_ported_hook_leaves_node_and_ports_as_they_were(
    site: pathlib.Path, machine: process.Agent
) -> None:
    with hooked(machine, classes(site, {"name": "half"})) as up:
        up.start()
        up.up()
        node = enrol(up, resource_class="before")
        asks(up, "inspect")
        reaches(up, "inspect wait")
        boots(up, machine, f"?node_uuid={node}")
        found = reaches(up, "inspect failed")
        assert "hook resource-class: KeyError: 'model'" in found["last_error"]
        assert (found["resource_class"], found["properties"]) == ("before", {})
        assert up.get(f"/v1/ports?node={node}")["ports"] == []
        assert up.ask("GET", "/v1/nodes/m1/inventory").status_code == 404


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ("resource-klass", r"called resource-klass; there is .*port-bios-name.*resource-class"),
        ("resource-class", r"the hook resource-class cannot be loaded: FileNotFoundError"),
    ],
    ids=["misspelt", "without its file"],
)
def test_hook_that_cannot_be_used_stops_the_start(
    site: pathlib.Path, machine: process.Agent, wrong: str, said: str
) -> None:
    hooks = HOOKS.replace("resource-class", wrong)
    with hooked(machine, site / "absent.json", hooks) as up:
        program = up.start("ironic-lite-conductor")
        assert program.process.wait(PATIENCE) == 2
        (line,) = program.said().splitlines()
    assert re.search(rf"\[inspector\]hooks: .*{said}", line)


# -- fast track ------------------------------------------------------------------------------


@fast
def test_a_ramdisk_runs_on_and_is_used_without_a_reboot(
    up: Service, machine: process.Agent
) -> None:
    node = enrol(up)
    asks(up, "inspect")
    reaches(up, "inspect wait")
    boots(up, machine, f"?node_uuid={node}")
    up.settled("m1", "manageable")
    until(lambda: told(up).get("agent_url"), "a heartbeat")
    before = powered(up, node)
    asks(up, "provide")
    assert up.settled("m1", "available")["power_state"] == "power on"
    assert machine.ran() == ["erase_devices_metadata", "scrub", "erase_devices"]
    up.provision("m1", "manage", "manageable")
    up.provision("m1", "inspect", "manageable")
    up.provision("m1", "provide", "available")
    assert powered(up, node) == before
    asks(up, "active")
    up.settled("m1", "active")
    assert machine.running
    assert machine.ran()[-1] == "scrub"
    assert "agent_url" not in told(up)


@fast
def test_a_ramdisk_that_is_silent_is_not_used(up: Service, machine: process.Agent) -> None:
    enrol(up, driver_info={"fast_track": False})
    asks(up, "provide")
    assert reaches(up, "clean wait")["power_state"] == "power on"


@fast
def test_a_machine_without_a_bmc_is_driven_by_its_agent(
    up: Service, machine: process.Agent
) -> None:
    """Somebody boots the ramdisk by hand; nothing is ever switched off."""
    node = up.create(
        "m1",
        driver="manual-management",
        power_interface="agent",
        boot_interface="fake",
        deploy_interface="custom-agent",
        inspect_interface="agent",
    )
    http_nodes.add_port(up, node, MAC)
    asks(up, "manage")
    failed = until(lambda: up.get("/v1/nodes/m1")["last_error"], "a refusal")
    assert "Boot the ramdisk on it by hand" in failed
    machine.start()
    until(lambda: told(up).get("agent_url"), "a heartbeat")
    up.provision("m1", "manage", "manageable")
    up.provision("m1", "inspect", "manageable")
    assert up.get("/v1/nodes/m1")["properties"]["cpus"] == 2
    up.provision("m1", "provide", "available")
    assert restarts(machine) == []
    up.provision("m1", "active", "active")
    assert machine.ran() == ["erase_devices_metadata", "scrub", "erase_devices", "scrub"]
    until(lambda: restarts(machine), "the restart")
    assert powered(up, node) in ([], ["power on"])
