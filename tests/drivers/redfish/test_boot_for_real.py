"""A machine behind a BMC that others wrote boots our medium; its real agent tells what it is."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite.conductor import fileserver
from ironic_lite.core import config
from ironic_lite.drivers import base
from ironic_lite.drivers.redfish import boot
from tests.emulators import machines
from tests.emulators.agent import service
from tests.support import bmc_tasks, fake_task
from tests.support.conductor_fixture import wait_for

BOOT = boot.RedfishVirtualMediaBoot()
TOKEN = "made-before-the-boot-0123456789-0123456789a"


@pytest.fixture
def rack() -> Iterator[machines.Rack]:
    with machines.serve() as found:
        yield found


@pytest.fixture
def api() -> Iterator[service.Service]:
    with service.serve("00000000-1111-4222-8333-444444444444") as found:
        yield found


@pytest.fixture
def conductor(tmp_path: pathlib.Path, api: service.Service) -> Iterator[None]:
    """The file server and the options of a conductor."""
    conf = config.CONF
    conf.set_override("state_path", str(tmp_path / "state"))
    conf.set_override("endpoint_override", api.url, group="service_catalog")
    conf.set_override("file_url_allowed_paths", [str(tmp_path)], group="conductor")
    server = fileserver.FileServer("127.0.0.1", 0, 8)
    server.start()
    conf.set_override("http_url", f"http://127.0.0.1:{server.port}", group="deploy")
    yield
    server.stop()
    conf.clear_override("state_path")
    conf.clear_override("endpoint_override", group="service_catalog")
    conf.clear_override("file_url_allowed_paths", group="conductor")
    conf.clear_override("http_url", group="deploy")


def task_of(machine: machines.Machine, address: str, folder: pathlib.Path) -> bmc_tasks.BmcTask:
    info: dict[str, Any] = {"redfish_address": address, "redfish_system_id": machine.system_id}
    for name in ("deploy_kernel", "deploy_ramdisk", "bootloader"):
        (folder / name).write_bytes(name.encode() * 100)
        info[name] = f"file://{folder}/{name}"
    driver = dataclasses.replace(bmc_tasks.REDFISH, boot=BOOT)
    port = base.Port({"address": machine.mac, "pxe_enabled": True})
    node = fake_task.node(driver="redfish", driver_info=info)
    return bmc_tasks.BmcTask(node, driver=driver, ports=[port])


@pytest.mark.usefixtures("conductor")
def test_a_real_agent_comes_up_from_the_medium_with_the_token_on_it(
    rack: machines.Rack, api: service.Service, tmp_path: pathlib.Path
) -> None:
    machine = rack[0]
    task = task_of(machine, rack.address, tmp_path)
    BOOT.prepare_ramdisk(task, {"ipa-agent-token": TOKEN})
    assert not machine.agent.running
    task.driver.power.set_power_state(task, base.POWER_ON)
    beat = api.beat()
    assert beat["callback_url"] == machine.agent.url
    (given,) = machine.boots
    assert (given["ipa-agent-token"], given["boot_method"]) == (TOKEN, "vmedia")
    assert given["BOOTIF"] == f"01-{machine.mac.replace(':', '-')}"
    task.driver.power.set_power_state(task, base.POWER_OFF)
    wait_for(lambda: not machine.agent.running)
    BOOT.prepare_instance(task)
    task.driver.power.set_power_state(task, base.POWER_ON)
    wait_for(lambda: machine.on)
    assert (machine.agent.running, len(machine.boots), machine.faults) == (False, 1, [])
