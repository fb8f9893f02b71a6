"""A real agent with the hardware manager that reports erasures, on disks that are files."""

from __future__ import annotations

import dataclasses
import json
import os
import ssl
import urllib.request
from typing import Any

from tests.emulators.agent import process, service
from tests.support import real_agent
from tests.support.fake_task import node

Json = dict[str, Any]


@dataclasses.dataclass
class Erased:
    """What the agent answers about a step, and the serial numbers of disks that hold only zeros."""

    command: Json
    blank: set[str]

    @property
    def disks(self) -> dict[str, Json]:
        """The facts of each disk, by serial number."""
        report = (self.command["command_result"] or {}).get("clean_result")
        report = report or self.command["command_error"]["erasure"]
        return {one["serial"]: one for one in report["disks"]}


def erase(*serials: str, step: str = "erase_devices", **info: Any) -> Erased:
    """Run a step on a machine that has the disk F1 and these."""
    with process.agent([real_agent.MAC]) as machine, service.serve(node().uuid) as heard:
        paths = {"F1": machine.folder / "disk.img"}
        paths |= {serial: machine.add_disk(serial) for serial in serials}
        for path in paths.values():
            path.write_bytes(os.urandom(process.DISK_BYTES))
        machine.add_evidence()
        machine.api = heard.url
        machine.start()
        settings = {"agent_erase_devices_iterations": 0, **info}
        params = {
            "node": node(driver_internal_info=settings).as_dict(),
            "ports": [],
            "step": {"step": step, "interface": "deploy"},
        }
        command = _post(heard.beat(), {"name": "clean.execute_clean_step", "params": params})
        zeros = bytes(process.DISK_BYTES)
        return Erased(command, {name for name, path in paths.items() if path.read_bytes() == zeros})


def _post(beat: Json, body: Json) -> Json:
    """Send a command to the agent of a heartbeat, and return it when it has ended."""
    context = ssl.create_default_context(cadata=beat["agent_verify_ca"])
    request = urllib.request.Request(
        f"{beat['callback_url']}/v1/commands/?wait=true&agent_token={beat['agent_token']}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), urllib.request.HTTPSHandler(context=context)
    )
    with opener.open(request, timeout=process.PATIENCE) as answer:
        found: Json = json.load(answer)
    return found


def test_plain_disk_is_erased_and_verified() -> None:
    done = erase("F2")
    assert done.command["command_status"] == "SUCCEEDED", done.command
    assert done.blank == {"F1", "F2"}
    report = done.command["command_result"]["clean_result"]
    assert report["kind"] == "ironic_lite.erasure_result/1"
    assert report["managers"]["evidence"] == "1"
    assert len(report["disks"]) == 2
    found = done.disks["F1"]
    assert (found["result"], found["level"], found["method"]) == (
        "erased",
        "clear",
        "overwrite, zeros",
    )
    counts = found["verification"]
    assert counts["samples"] > 60
    assert counts["samples"] == counts["changed"] == counts["blank"]
    assert found["size"] == process.DISK_BYTES
    (tool,) = found["tools"]
    assert (tool["name"], tool["exit"]) == ("shred", 0)


def test_failed_disk_does_not_hide_the_others() -> None:
    done = erase("BAD")
    assert done.command["command_status"] == "FAILED"
    assert "BAD" in done.command["command_error"]["details"]
    assert done.blank == {"F1"}
    results = {serial: disk["result"] for serial, disk in done.disks.items()}
    assert results == {"F1": "erased", "BAD": "failed"}
    assert done.disks["BAD"]["level"] == "none"
    assert done.disks["BAD"]["verification"]["changed"] == 0


def test_service_that_reads_reports_gets_the_failed_disk_as_a_result() -> None:
    done = erase("BAD", erasure_reports=True)
    assert done.command["command_status"] == "SUCCEEDED", done.command
    assert (done.disks["F1"]["result"], done.disks["BAD"]["result"]) == ("erased", "failed")


def test_overwriting_without_a_pass_is_a_failure() -> None:
    """The agent believes the exit status of ``shred``, which has written nothing."""
    done = erase(agent_erase_devices_zeroize=False)
    assert done.command["command_status"] == "FAILED"
    assert done.disks["F1"]["result"] == "failed"
    assert "unchanged" in done.disks["F1"]["why"]


def test_purge_falls_back_to_the_agents_way_for_a_disk_without_sanitize() -> None:
    done = erase(erase_method="purge")
    assert done.blank == {"F1"}
    assert done.disks["F1"]["level"] == "clear"


def test_metadata_step_never_has_a_level() -> None:
    done = erase(step="erase_devices_metadata")
    assert done.command["command_status"] == "SUCCEEDED", done.command
    assert done.disks["F1"]["level"] == "none"
    assert done.blank == set()
