"""A real agent with our hardware manager, and records whose signatures openssl verifies.

The disks are files, which the agent's own code overwrites with ``shred``.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.emulators.agent import process
from tests.support import http_nodes
from tests.support.http_nodes import asks, reaches
from tests.support.service import Service, service

pytestmark = pytest.mark.feature("erasures")

MAC = "52:54:00:00:00:01"
Json = dict[str, Any]
SETTINGS = """
clean_callback_timeout = 1800
evidence_key_file = {key}
require_clean_data = true
[deploy]
shred_random_overwrite_iterations = 0
[DEFAULT]
enabled_deploy_interfaces = custom-agent
"""


@pytest.fixture
def machine() -> Iterator[process.Agent]:
    """A machine with two disks full of data, whose ramdisk reports erasures; not started."""
    with process.agent([MAC]) as found:
        found.add_disk("F2")
        found.add_evidence()
        yield found


@pytest.fixture
def up(machine: process.Agent, tmp_path: pathlib.Path) -> Iterator[Service]:
    """A service with a key, which the machine's agent knows as its own."""
    key = tmp_path / "evidence.pem"
    command = ["openssl", "genpkey", "-algorithm", "ed25519", "-out", str(key)]
    subprocess.run(command, check=True, capture_output=True)
    key.chmod(0o600)
    with service(SETTINGS.format(key=key)) as found:
        found.start()
        found.up()
        machine.api = found.url
        yield found


def provides(up: Service, machine: process.Agent) -> str:
    """Fill the disks with data, and ask for an automated clean; return the node's UUID."""
    node = http_nodes.enrol(up, MAC, deploy_interface="custom-agent")
    for disk in machine.disks:
        pathlib.Path(disk["name"]).write_bytes(os.urandom(process.DISK_BYTES))
    asks(up, "provide")
    reaches(up, "clean wait")
    machine.start()
    return node


def record_of(up: Service, node: str, folder: pathlib.Path) -> Json:
    """Return the only record of erased disks, after openssl has verified its signature."""
    listed = up.get(f"/v1/nodes/{node}/erasures")["erasures"]
    row, *older = [one for one in listed if one["serials"]]
    known = up.get(f"/v1/erasures/{row['uuid']}")
    if older:  # the step before has erased metadata
        assert known["previous"] == f"sha256:{older[0]['sha256']}"
    paths = {
        "e.json": f"erasures/{row['uuid']}",
        "e.sig": f"erasures/{row['uuid']}/signature",
        "key.pub": f"erasures/keys/{known['issuer']['key']}",
    }
    for name, path in paths.items():
        answer = requests.get(f"{up.url}/v1/{path}", timeout=60)
        assert answer.status_code == 200, answer.text
        (folder / name).write_bytes(answer.content)
    assert verifies(folder)
    changed = (folder / "e.json").read_bytes()
    (folder / "e.json").write_bytes(changed.replace(b'"F1"', b'"F9"'))
    assert not verifies(folder)
    found: Json = known
    return found


def verifies(folder: pathlib.Path) -> bool:
    """Return whether openssl accepts the signature of the record in a folder."""
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "key.pub", "-rawin"]
    command += ["-in", "e.json", "-sigfile", "e.sig"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


def state(up: Service) -> str:
    """Return the state of the node's data."""
    found: str = up.get("/v1/nodes/m1?fields=data_state")["data_state"]
    return found


def test_automated_clean_ends_with_a_signed_record_and_clean_data(
    up: Service, machine: process.Agent, tmp_path: pathlib.Path
) -> None:
    node = provides(up, machine)
    up.settled("m1", "available")
    for disk in machine.disks:
        assert not any(pathlib.Path(disk["name"]).read_bytes())
    assert state(up) == "clean"
    record = record_of(up, node, tmp_path)
    assert (record["result"], record["level"], record["error"]) == ("complete", "clear", None)
    assert record["step"]["step"] == "erase_devices"
    assert record["ramdisk"]["managers"]["evidence"] == "1"
    assert [disk["serial"] for disk in record["disks"]] == ["F1", "F2"]
    for disk in record["disks"]:
        assert disk["size"] == process.DISK_BYTES
        assert disk["tools"][0]["name"] == "shred"
        counts = disk["verification"]
        # The step before has blanked both ends of the first disk.
        assert counts["samples"] == counts["blank"] > 60
        assert counts["changed"] > 30
        assert counts["unchanged"] == counts["unreadable"] == 0


def test_disk_that_fails_ends_the_clean_with_a_signed_record_of_all_disks(
    up: Service, machine: process.Agent, tmp_path: pathlib.Path
) -> None:
    machine.add_disk("BAD")
    node = provides(up, machine)
    failed = reaches(up, "clean failed")
    assert "BAD" in failed["last_error"]
    assert "deploy.erase_devices" in failed["last_error"]
    assert state(up) == "unknown"
    record = record_of(up, node, tmp_path)
    assert (record["result"], record["level"]) == ("partial", "clear")
    assert [disk["serial"] for disk in record["disks"]] == ["F1", "F2"]
    (bad,) = record["not_erased"]
    assert (bad["serial"], bad["result"], bad["level"]) == ("BAD", "failed", "none")
    assert bad["verification"]["unchanged"] > 60
    assert "BAD" in record["error"]
