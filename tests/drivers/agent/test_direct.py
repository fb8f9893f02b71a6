"""The deploy interface ``direct`` with a real agent: it writes a real image to its disk, a file."""

import hashlib
import http.server
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.drivers import base
from ironic_lite.drivers.agent.direct import DirectDeploy
from tests.emulators.agent import process
from tests.support.fake_task import FakeTask
from tests.support.real_agent import until

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
