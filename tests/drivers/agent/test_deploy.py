"""The deploy interfaces with an agent: order, real images, and ramdisks as instances."""

from __future__ import annotations

import dataclasses
import hashlib
import http.server
import pathlib
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import config
from ironic_lite.domain import steps
from ironic_lite.drivers import base
from ironic_lite.drivers.agent.deploy import (
    AgentDeploy,
    CustomAgentDeploy,
    DirectDeploy,
    RamdiskDeploy,
)
from ironic_lite.drivers.boot.network import IPXEBoot
from ironic_lite.drivers.redfish.boot import RedfishVirtualMediaBoot
from tests.emulators.agent import process
from tests.support import fake_task
from tests.support.fake_task import FakeTask, node
from tests.support.real_agent import until

# What each deploy interface with an agent does by itself, and in which order.

ORDERS: dict[str, tuple[AgentDeploy, list[tuple[int, str]]]] = {
    "direct": (
        DirectDeploy(),
        [
            (100, "deploy.deploy"),
            (80, "deploy.write_image"),
            (60, "deploy.prepare_instance_boot"),
            (40, "deploy.tear_down_agent"),
            (30, "deploy.switch_to_tenant_network"),
            (20, "deploy.boot_instance"),
        ],
    ),
    "custom-agent": (
        CustomAgentDeploy(),
        [(100, "deploy.deploy"), (40, "deploy.tear_down_agent"), (20, "deploy.boot_instance")],
    ),
    "ramdisk": (RamdiskDeploy(), [(100, "deploy.deploy")]),
}


@pytest.mark.parametrize("name", ORDERS)
def test_steps_come_in_the_order_that_templates_are_written_for(name: str) -> None:
    """Those of agents and templates go in between by their priorities; each may be run again."""
    interface, wanted = ORDERS[name]
    found = steps.collect("deploy", interface, steps.StepKind.DEPLOY)
    assert sorted(((one.priority, one.title) for one in found), reverse=True) == wanted
    assert all(one.rerunnable for one in found)


# In which order a machine is deployed by each deploy interface with an agent.

EXPECTED_ORDERS: dict[type[base.Deploy], list[tuple[str, int]]] = {
    DirectDeploy: [
        ("deploy.deploy", 100),
        ("deploy.write_image", 80),
        ("deploy.prepare_instance_boot", 60),
        ("deploy.tear_down_agent", 40),
        ("deploy.switch_to_tenant_network", 30),
        ("deploy.boot_instance", 20),
    ],
    CustomAgentDeploy: [
        ("deploy.deploy", 100),
        ("deploy.tear_down_agent", 40),
        ("deploy.boot_instance", 20),
    ],
}
"""What templates and requests count on, by Ironic's names and priorities: steps of an agent go in
between."""


@pytest.mark.parametrize("interface", EXPECTED_ORDERS, ids=lambda one: str(one.__name__))
def test_the_ramdisk_comes_before_the_image_and_goes_before_the_instance(
    interface: type[base.Deploy],
) -> None:
    found = steps.collect("deploy", interface(), base.StepKind.DEPLOY)
    ordered = sorted(found, key=lambda step: -step.priority)
    assert [(step.title, step.priority) for step in ordered] == EXPECTED_ORDERS[interface]


# The deploy interface ``direct`` with a real agent: it writes a real image to its disk, a file.

MIB = 1024 * 1024
DEPLOY = base.StepKind.DEPLOY
TEAR_DOWN: base.StoredStep = {
    "step": "tear_down_agent",
    "interface": "deploy",
    "priority": 40,
    "args": {},
}


def _image() -> bytes:
    """Return a disk image with one partition, and a content that is not all zeros."""
    entry = struct.pack("<B3sB3sII", 0x80, b"\0\2\0", 0x83, b"\xff\xff\xff", 2048, 2048)
    boot = b"\0" * 446 + entry + b"\0" * 48 + b"\x55\xaa"
    return boot.ljust(MIB, b"\0") + b"the system\n" * 50_000


@pytest.fixture
def web() -> Iterator[dict[str, bytes]]:
    """A web server of the files that a test puts in; ``url`` is where they are."""
    files: dict[str, bytes] = {"jammy.raw": _image()}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = files.get(self.path.lstrip("/"))
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            self.wfile.write(body or b"")

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    files["url"] = f"http://127.0.0.1:{server.server_address[1]}".encode()
    yield files
    server.shutdown()
    server.server_close()
    thread.join()


def _ask_for(task: FakeTask, web: dict[str, bytes], **more: Any) -> None:
    task.node.provision_state = "deploying"
    task.node.instance_info = {
        "image_source": f"{web['url'].decode()}/jammy.raw",
        "image_checksum": hashlib.sha256(web["jammy.raw"]).hexdigest(),
        "image_disk_format": "raw",
        "capabilities": {"boot_mode": "bios"},
        **more,
    }


def _run(task: FakeTask, name: str) -> None:
    """Run a step of the interface to its end, as the engine would."""
    deploy = DirectDeploy()
    step: base.StoredStep = {"step": name, "interface": "deploy", "priority": 0, "args": {}}
    if deploy.execute_deploy_step(task, step) is base.WAIT:
        until(lambda: deploy.poll_step(task, DEPLOY, step) is base.DONE)


def test_an_image_is_written_byte_for_byte(
    task: FakeTask, machine: process.Agent, web: dict[str, bytes]
) -> None:
    """While it arrives: it is raw."""
    _ask_for(task, web)
    _run(task, "write_image")
    disk = (machine.folder / "disk.img").read_bytes()
    assert disk.startswith(web["jammy.raw"])
    _run(task, "prepare_instance_boot")
    assert task.driver.management.get_boot_device(task) is not None


def test_another_image_than_was_asked_for_fails_in_the_agents_words(
    task: FakeTask, web: dict[str, bytes]
) -> None:
    """The digest is that of the agent's own download."""
    _ask_for(task, web)
    web["jammy.raw"] += b"!"
    with pytest.raises(errors.AgentCommandFailed, match="checksum"):
        _run(task, "write_image")


def test_an_image_that_is_not_there_fails_in_the_agents_words(
    task: FakeTask, web: dict[str, bytes]
) -> None:
    """The address is in its sentence."""
    _ask_for(task, web, image_source=f"{web['url'].decode()}/none.raw")
    with pytest.raises(errors.AgentCommandFailed, match=r"none\.raw"):
        _run(task, "write_image")


def test_the_password_of_an_image_is_not_told(task: FakeTask, web: dict[str, bytes]) -> None:
    """The agent quotes the address, and what it says stands in last_error."""
    place = web["url"].decode().replace("http://", "http://admin:hush@")
    _ask_for(task, web, image_source=f"{place}/none.raw?signature=hush")
    with pytest.raises(errors.AgentCommandFailed, match=r"none\.raw") as why:
        _run(task, "write_image")
    assert "hush" not in str(why.value) + repr(why.value.facts)


def test_a_disk_without_a_partition_table_is_no_instance(
    task: FakeTask, web: dict[str, bytes]
) -> None:
    """The agent looks at what it has written."""
    web["jammy.raw"] = b"no disk at all" * MIB
    _ask_for(task, web)
    with pytest.raises(errors.AgentCommandFailed, match="partition"):
        _run(task, "write_image")


def test_a_conductor_that_died_finds_the_image_under_way(
    task: FakeTask, machine: process.Agent, web: dict[str, bytes]
) -> None:
    """What is kept on the node is enough, and so is what the agent knows."""
    _ask_for(task, web)
    deploy = DirectDeploy()
    step: base.StoredStep = {"step": "write_image", "interface": "deploy", "args": {}}
    assert deploy.execute_deploy_step(task, step) is base.WAIT
    task.keep("agent_command", None)  # the conductor died before it was written down
    assert DirectDeploy().execute_deploy_step(task, step) is base.WAIT
    until(lambda: deploy.poll_step(task, DEPLOY, step) is base.DONE)
    assert (machine.folder / "disk.img").read_bytes().startswith(web["jammy.raw"])


def test_the_agent_switches_its_machine_off(mortal: tuple[process.Agent, FakeTask]) -> None:
    """It is asked to, and the power is looked at until it is off."""
    machine, task = mortal
    task.node.power_state = base.POWER_ON
    task.driver.power.set_power_state(task, base.POWER_ON)
    deploy = DirectDeploy()
    assert deploy.execute_deploy_step(task, TEAR_DOWN) is base.WAIT
    until(lambda: any("poweroff" in call for call in machine.calls()))
    assert deploy.poll_step(task, DEPLOY, TEAR_DOWN) is base.WAIT
    task.driver.power.set_power_state(task, base.POWER_OFF)
    assert deploy.poll_step(task, DEPLOY, TEAR_DOWN) is base.DONE
    assert task.agent is None


def test_a_ramdisk_that_cannot_be_asked_is_switched_off_hard(
    mortal: tuple[process.Agent, FakeTask],
) -> None:
    """A lost agent loses nothing: the image is on the disk."""
    machine, task = mortal
    task.driver.power.set_power_state(task, base.POWER_ON)
    machine.kill()
    assert DirectDeploy().execute_deploy_step(task, TEAR_DOWN) is base.DONE
    assert task.driver.power.get_power_state(task) == base.POWER_OFF


def test_agent_that_must_not_switch_off_gets_no_power_off(
    task: FakeTask, machine: process.Agent
) -> None:
    """As driver_info/deploy_forces_oob_reboot says."""
    task.node.driver_info = {"deploy_forces_oob_reboot": True}
    assert DirectDeploy().execute_deploy_step(task, TEAR_DOWN) is base.DONE
    assert not [call for call in machine.calls() if "poweroff" in call]


def test_switch_written_as_the_word_false_is_false(mortal: tuple[process.Agent, FakeTask]) -> None:
    """Ironic's command line writes ``--driver-info deploy_forces_oob_reboot=False`` as text."""
    machine, task = mortal
    task.node.driver_info = {"deploy_forces_oob_reboot": "False"}
    task.driver.power.set_power_state(task, base.POWER_ON)
    assert DirectDeploy().execute_deploy_step(task, TEAR_DOWN) is base.WAIT
    until(lambda: any("poweroff" in call for call in machine.calls()))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("deploy_forces_oob_reboot", "perhaps"),
        ("image_http_proxy", "socks5://proxy:1080"),
        ("image_https_proxy", ["http://proxy:3128"]),
        ("image_no_proxy", {"host": "a"}),
        ("image_http_proxy", "proxy 3128"),
        ("image_download_source", "swift"),
    ],
)
def test_settings_of_a_deployment_are_refused_when_they_are_written(key: str, value: Any) -> None:
    """The agent would report a proxy only minutes after the request."""
    with pytest.raises(errors.InvalidParameter, match=f"driver_info/{key}"):
        DirectDeploy().check_driver_info({key: value})


def test_proxies_are_urls_or_host_and_port() -> None:
    for proxy in ("http://proxy:3128", "HTTPS://ann:hush@proxy", "proxy.example.org:3128"):
        DirectDeploy().check_driver_info({"image_http_proxy": proxy, "image_no_proxy": "a, .b"})


def test_a_ramdisk_that_stays_on_listens_no_more(mortal: tuple[process.Agent, FakeTask]) -> None:
    """It is still there when its machine is plugged into the networks of the instance."""
    machine, task = mortal
    task.node.disable_power_off = True
    task.driver.power.set_power_state(task, base.POWER_ON)
    assert DirectDeploy().execute_deploy_step(task, TEAR_DOWN) is base.DONE
    assert task.driver.power.get_power_state(task) == base.POWER_ON
    assert task.agent is None
    until(lambda: any("ip link set" in call and "down" in call for call in machine.calls()))


# The deploy interface ``ramdisk``: what it asks of the boot interface and of the power.

RAMDISK = RamdiskDeploy()
MAC = "52:54:00:00:00:01"


@pytest.fixture
def folder(tmp_path: pathlib.Path) -> Iterator[pathlib.Path]:
    """A service that serves files, with a kernel and a ramdisk."""
    conf = config.CONF
    conf([], default_config_files=[], default_config_dirs=[])
    given: dict[tuple[str | None, str], Any] = {
        (None, "state_path"): str(tmp_path / "state"),
        ("conductor", "file_url_allowed_paths"): [str(tmp_path)],
        ("deploy", "http_url"): "http://192.0.2.1:8080",
        ("dhcp", "dhcp_provider"): "none",
    }
    for (group, name), value in given.items():
        conf.set_override(name, value, group=group)
    for name in ("kernel", "ramdisk"):
        (tmp_path / name).write_text(name)
    yield tmp_path
    for group, name in given:
        conf.clear_override(name, group=group)
    conf.reset()


@pytest.fixture
def ramdisk_task(folder: pathlib.Path) -> FakeTask:
    """A task on a machine that boots by ipxe."""
    info = {name: f"file://{folder / name}" for name in ("kernel", "ramdisk")}
    driver = dataclasses.replace(fake_task.FAKE, boot=IPXEBoot(), deploy=RAMDISK)
    port = base.Port({"address": MAC, "pxe_enabled": True})
    found = node(instance_info={**info, "ramdisk_kernel_arguments": "console=ttyS0"})
    return FakeTask(found, driver=driver, ports=[port])


def scripts(folder: pathlib.Path) -> dict[str, str]:
    found = (folder / "state").rglob("pxelinux.cfg/*")
    return {path.name: path.read_text() for path in found}


def power(task: FakeTask) -> str:
    return str(task.driver.power.get_power_state(task))


def test_an_instance_in_memory_is_started_and_boots_each_time(
    ramdisk_task: FakeTask, folder: pathlib.Path
) -> None:
    RAMDISK.validate(ramdisk_task)
    RAMDISK.prepare(ramdisk_task)
    step = fake_task.step("deploy.deploy")
    assert RAMDISK.execute_deploy_step(ramdisk_task, step) is None
    (text,) = scripts(folder).values()
    assert "console=ttyS0" in text
    assert "ipa-api-url" not in text
    assert power(ramdisk_task) == base.POWER_ON
    chosen = ramdisk_task.driver.management.get_boot_device(ramdisk_task)
    assert chosen == {"boot_device": "pxe", "persistent": True}


def test_a_clean_or_service_in_between_leaves_it_to_be_booted_again(
    ramdisk_task: FakeTask, folder: pathlib.Path
) -> None:
    """The ramdisk with the agent takes its place for that time."""
    RAMDISK.deploy(ramdisk_task)
    ramdisk_task.driver.boot.clean_up_ramdisk(ramdisk_task)
    assert scripts(folder) == {}
    RAMDISK.tear_down_service(ramdisk_task)
    assert len(scripts(folder)) == 1
    assert power(ramdisk_task) == base.POWER_ON


def test_tear_down_removes_power_and_files(ramdisk_task: FakeTask, folder: pathlib.Path) -> None:
    RAMDISK.deploy(ramdisk_task)
    RAMDISK.tear_down(ramdisk_task)
    RAMDISK.clean_up(ramdisk_task)
    assert scripts(folder) == {}
    assert power(ramdisk_task) == base.POWER_OFF


def test_a_machine_that_is_adopted_boots_it_the_next_time(
    ramdisk_task: FakeTask, folder: pathlib.Path
) -> None:
    RAMDISK.adopt(ramdisk_task)
    assert len(scripts(folder)) == 1
    assert ramdisk_task.node.power_state is None


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"kernel": None}, "instance_info/kernel"),
        ({"kernel": "ftp://files.example.org/kernel"}, "instance_info/kernel"),
        ({"ramdisk_kernel_arguments": "a ; b"}, "instance_info/ramdisk_kernel_arguments"),
        ({"configdrive": {"meta_data": {}}}, "instance_info/configdrive"),
    ],
    ids=["no kernel", "no such scheme", "an end of the line", "a configuration drive"],
)
def test_ramdisk_that_could_not_boot_is_refused_by_its_path(
    ramdisk_task: FakeTask, change: dict[str, Any], path: str
) -> None:
    ramdisk_task.node.instance_info = {**ramdisk_task.node.instance_info, **change}
    for act in (RAMDISK.validate, RAMDISK.prepare):
        with pytest.raises((errors.InvalidParameter, errors.MissingParameter), match=path):
            act(ramdisk_task)


def test_an_image_that_is_another_than_was_said_leaves_the_machine_as_it_is(
    ramdisk_task: FakeTask, folder: pathlib.Path
) -> None:
    (folder / "live.iso").write_bytes(b"an ISO")
    ramdisk_task.node.instance_info = {
        "boot_iso": f"file://{folder}/live.iso",
        "image_checksum": "0" * 64,
    }
    ramdisk_task.driver.power.set_power_state(ramdisk_task, base.POWER_ON)
    RAMDISK.validate(ramdisk_task)
    with pytest.raises(errors.ImageUnusable, match="its sha256 is"):
        RAMDISK.prepare(ramdisk_task)
    assert (power(ramdisk_task), scripts(folder)) == (base.POWER_ON, {})


@pytest.mark.parametrize("shared", [True, False], ids=["link", "copy"])
def test_image_that_is_replaced_after_its_check_is_not_booted(
    ramdisk_task: FakeTask, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch, shared: bool
) -> None:
    """The cache replaces a file when its server has another content for another node."""
    image = folder / "live.iso"
    image.write_bytes(b"an ISO")
    image.chmod(0o644)
    digest = hashlib.sha256(b"an ISO").hexdigest()
    ramdisk_task.node.instance_info = {"boot_iso": image.as_uri(), "image_checksum": digest}

    def replace(*, changes: bool) -> None:
        (folder / "other").write_bytes(b"another")
        (folder / "other").chmod(0o644 if shared else 0o600)
        (folder / "other").replace(image)

    RAMDISK.deploy(ramdisk_task)
    RAMDISK.tear_down(ramdisk_task)
    monkeypatch.setattr(ramdisk_task, "confirm_lock", replace)
    with pytest.raises(errors.ImageUnusable, match="its sha256 is"):
        RAMDISK.deploy(ramdisk_task)
    assert not [file for file in (folder / "state").rglob("*") if file.suffix == ".iso"]


def test_a_boot_interface_that_brings_a_configuration_drive_is_given_one_that_is_one(
    ramdisk_task: FakeTask,
) -> None:
    ramdisk_task.driver = dataclasses.replace(ramdisk_task.driver, boot=RedfishVirtualMediaBoot())
    ramdisk_task.node.driver_info = {
        "redfish_address": "http://192.0.2.9",
        "redfish_system_id": "/redfish/v1/Systems/1",
    }
    ramdisk_task.node.instance_info = {"boot_iso": "http://192.0.2.1/live.iso"}
    good: list[Any] = [{"meta_data": {}}, "http://192.0.2.1/drive.gz"]
    bad: list[Any] = [{"files": {}}, "no base64", "file:///etc/passwd"]
    for drive in good:
        ramdisk_task.node.instance_info["configdrive"] = drive
        RAMDISK.validate(ramdisk_task)
    for drive in bad:
        ramdisk_task.node.instance_info["configdrive"] = drive
        with pytest.raises(errors.InvalidParameter, match="instance_info/configdrive"):
            RAMDISK.validate(ramdisk_task)
