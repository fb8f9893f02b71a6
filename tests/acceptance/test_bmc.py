"""Orders to a BMC through the command line of python-ironicclient as it is, on real processes.

It has no commands for virtual media and indicators; those are asked over HTTP, across real RPC.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest

from tests.emulators import bmc
from tests.emulators.bmc import dell
from tests.support import real_socket, service
from tests.support.service import CONDUCTOR_UP, Service
from tests.support.webhook_receiver import Receiver

WATCHED = """\
sync_power_state_interval = 1
[webhooks]
allow_http = true
allowed_networks = 127.0.0.0/8
[DEFAULT]
enabled_hardware_types = redfish
enabled_boot_interfaces = redfish-virtual-media
"""


@pytest.fixture
def running() -> Iterator[Service]:
    """A service with a machine in use."""
    with service.service() as found:
        found.start()
        found.up()
        found.create("r1")
        for target, state in (("manage", "manageable"), ("adopt", "active")):
            found.provision("r1", target, state)
        yield found


def saying(found: Service) -> Callable[..., str]:
    """Return a function that runs a command which succeeds, and gives what it printed."""

    def run(*words: str) -> str:
        done = real_socket.baremetal(found.url, *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def rested(found: Service, **values: Any) -> dict[str, Any]:
    """Wait until the node shows these values and nobody works on it."""

    def look() -> dict[str, Any] | None:
        node: dict[str, Any] = found.get("/v1/nodes/r1")
        fits = all(node[key] == value for key, value in values.items())
        return node if fits and node["reservation"] is None else None

    node = service.until(look, f"r1 {values}")
    assert node is not None
    return node


def test_the_command_line_client_gives_orders(running: Service) -> None:
    run = saying(running)
    run("node", "boot", "mode", "set", "r1", "uefi")
    rested(running, boot_mode="uefi", last_error=None)
    run("node", "secure", "boot", "on", "r1")
    rested(running, secure_boot=True)
    run("node", "secure", "boot", "off", "r1")
    rested(running, secure_boot=False)
    run("node", "inject", "nmi", "r1")
    kept = running.get("/v1/nodes/r1")["driver_internal_info"]["driver_notes"]
    assert kept["fake_nmis"] == 1


def test_the_command_line_client_calls_vendors_methods(running: Service) -> None:
    run = saying(running)
    listed = orjson.loads(run("node", "passthru", "list", "r1", "-f", "json"))
    names = {one["Name"]: one for one in listed}
    assert set(names) == {"blink", "echo", "leaflet", "remember"}
    assert names["remember"]["Supported HTTP methods"] == "DELETE, PATCH, POST, PUT"
    run("node", "passthru", "call", "r1", "remember", "--arg", "value=7")
    run("node", "passthru", "call", "r1", "blink")

    def blinked() -> bool:
        kept = running.get("/v1/nodes/r1")["driver_internal_info"]["driver_notes"]
        assert kept["fake_vendor_value"] == 7
        return bool(kept.get("fake_vendor_blinks") == 1)

    service.until(blinked, "a worker's call")
    rested(running, last_error=None)
    run("node", "passthru", "call", "r1", "remember", "--http-method", "DELETE")
    kept = running.get("/v1/nodes/r1")["driver_internal_info"]["driver_notes"]
    assert "fake_vendor_value" not in kept
    listed = orjson.loads(run("driver", "passthru", "list", "fake-hardware", "-f", "json"))
    assert {one["name"] for one in listed} == {"note", "repeat"}
    # This client cannot print what a driver's method returns; one that returns nothing works.
    run("driver", "passthru", "call", "fake-hardware", "note")
    log = "The fake vendor was called for no node."
    service.until(lambda: any(log in one.said() for one in running.running()), log)
    refused = real_socket.baremetal(running.url, "node", "passthru", "call", "r1", "explode")
    assert refused.returncode != 0
    assert "there is no vendor method 'explode'" in refused.stderr


@pytest.mark.feature("webhooks")
def test_health_of_a_machine_reaches_node_events_and_webhooks() -> None:
    """The power comparison reads it without a further request."""
    with (
        bmc.serve(users={"root": "s3cret-w0rd"}) as machine,
        Receiver().serving() as receiver,
        service.service(WATCHED) as found,
    ):
        status = machine.tree[machine.system]["Status"] = {"Health": "OK"}
        found.start()
        found.up()
        hook = {"url": receiver.url, "kinds": ["health"], "since": "0"}
        assert found.ask("POST", "/v1/webhooks", hook).status_code == 201
        found.create("r1", driver="redfish", driver_info=machine.driver_info)
        found.provision("r1", "manage", "manageable")
        rested(found, health="OK")
        before = len(machine.log)
        status["Health"] = "Critical"
        rested(found, health="Critical")
        assert set(machine.log[before:]) == {f"GET {machine.system}"}
        assert [one["name"] for one in found.get("/v1/nodes?health=Critical")["nodes"]] == ["r1"]
        events = found.get("/v1/events?since=0&kind=health")["events"]
        assert [(one["before"], one["after"]) for one in events] == [
            (None, "OK"),
            ("OK", "Critical"),
        ]
        wanted = [int(one["cursor"]) for one in events]
        service.until(lambda: receiver.cursors() == wanted, "the webhook")


def test_lamps_and_virtual_media_over_http(running: Service) -> None:
    lamps = running.get("/v1/nodes/r1/management/indicators")["indicators"]
    assert [one["name"] for one in lamps] == ["led-0@chassis", "led@system"]
    path = "/v1/nodes/r1/management/indicators/led@system"
    assert running.ask("PUT", path, {"state": "blinking"}).status_code == 204
    assert running.get(path) == {"state": "blinking"}
    image = {"device_type": "cdrom", "image_url": "http://192.0.2.1/tools.iso"}
    assert running.ask("POST", "/v1/nodes/r1/vmedia", image).status_code == 204

    def inserted(count: int) -> bool:
        drives = running.get("/v1/nodes/r1/vmedia")
        return bool(sum(one["inserted"] for one in drives) == count)

    service.until(lambda: inserted(1), "an image in a drive")
    rested(running, last_error=None)
    assert running.ask("DELETE", "/v1/nodes/r1/vmedia").status_code == 204
    service.until(lambda: inserted(0), "empty drives")
    leaflet = running.ask("GET", "/v1/nodes/r1/vendor_passthru?method=leaflet")
    assert leaflet.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert leaflet.text.endswith("\nis not there.\n")


DELL = """\
[DEFAULT]
enabled_hardware_types = idrac
enabled_management_interfaces = idrac-redfish
enabled_boot_interfaces = redfish-virtual-media
"""
RESET, READINESS = "POST *iDRACReset", "POST *GetRemoteServicesAPIStatus"


def test_idrac_is_reset_once_though_its_conductor_is_killed_twice_meanwhile() -> None:
    """The first kill loses the answer to the reset, the second one comes while the iDRAC starts."""
    with (
        bmc.serve(make="dell", users={"root": "calvin"}) as machine,
        service.service(DELL) as found,
    ):
        dell.put_job(machine)
        machine.idrac.lc_status = ["Initializing", "Ready"]
        program = found.start()
        found.up()
        found.create("r1", driver="idrac", driver_info=machine.driver_info)
        found.provision("r1", "manage", "manageable")
        killed: list[int] = []

        def kill(handler: bmc.Handler) -> None:
            killed.append(program.pids(CONDUCTOR_UP)[-1])
            os.kill(killed[-1], signal.SIGKILL)
            handler.truth()

        machine.tricks[RESET] = kill
        machine.tricks[READINESS] = bmc.says_first(1, kill)
        steps = [{"interface": "management", "step": "known_good_state"}]
        node = found.provision("r1", "clean", "manageable", clean_steps=steps)
        assert len(set(killed)) == 2
        assert len(program.pids(CONDUCTOR_UP)) == 3
        assert machine.idrac.resets == ["Graceful"]
        assert machine.idrac.cleared == ["JID_CLEARALL"]
        assert node["last_error"] is None
        assert not node["maintenance"]
        assert node["driver_internal_info"].get("driver_notes") is None
