"""A deployment from Debian's docker-registry with a pull secret, by the real agent."""

from __future__ import annotations

import base64
import gzip
import json
import pathlib
import secrets
from collections.abc import Iterator
from typing import Any

import pytest
import requests

from tests.emulators import images
from tests.emulators.agent import process
from tests.emulators.registry import PASSWORD
from tests.support import docker_registry, http_nodes
from tests.support.configurations import FEATURES
from tests.support.docker_registry import DockerRegistry
from tests.support.http_nodes import asks, reaches
from tests.support.service import PATIENCE, Service, service, until

MAC = "52:54:00:00:00:01"
NAME = "team/image"
SYSTEM, ARM, LATER = (images.disk(text) for text in (b"system\n", b"arm\n", b"moved\n"))
SETTINGS = """
node_locked_retry_interval = 1
[DEFAULT]
debug = true
enabled_deploy_interfaces = direct,fake
enabled_raid_interfaces = no-raid,fake
[oci]
permit_fallback_to_http_transport = true
[agent]
deploy_logs_collect = always
deploy_logs_local_path = {logs}
[database]
encryption_keys = {key}
"""


@pytest.fixture
def known(tmp_path: pathlib.Path) -> Iterator[DockerRegistry]:
    """A registry with an image for two architectures."""
    with docker_registry.serve(tmp_path) as found:
        found.put_disks(NAME, "1", {"amd64": SYSTEM, "arm64": ARM})
        yield found


@pytest.fixture
def machine() -> Iterator[process.Agent]:
    """A machine with a real agent, not started."""
    with process.agent([MAC]) as found:
        found.environment["MACHINE_SENDS_LOG"] = "1"
        found.parameters["debug"] = "true"
        yield found


@pytest.fixture
def up(machine: process.Agent) -> Iterator[Service]:
    """A service whose database is encrypted."""
    key = base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()
    with service(SETTINGS.format(logs=machine.folder / "kept", key=key)) as found:
        found.start()
        found.up()
        machine.api = found.url
        yield found


def everything(up: Service, folder: pathlib.Path) -> dict[str, bytes]:
    """Return what the service has written and what it answers."""
    kept = [path for root in (up.folder, folder) if root.exists() for path in root.rglob("*")]
    found = {str(path): path.read_bytes() for path in kept if path.is_file()}
    logs = {path: gzip.decompress(text) for path, text in found.items() if path.endswith(".gz")}
    assert b"image_request_authorization" in b"".join(logs.values())
    found |= logs
    node = up.get("/v1/nodes/m1")
    paths = ["/v1/nodes/m1", "/v1/nodes/detail", "/v1/events", "/v1/nodes/m1/runs"]
    paths += ["/v1/nodes/m1/history", "/v1/nodes/m1/validate", "/v1/nodes/m1/why"]
    paths.append(f"/v1/doctor?node={node['uuid']}")
    for run in up.get("/v1/nodes/m1/runs")["runs"]:
        paths += [f"/v1/nodes/m1/runs/{run['uuid']}", f"/v1/nodes/m1/runs/{run['uuid']}/log"]
    found |= {path: up.ask("GET", path).content for path in paths}
    return found


def patch(up: Service, **values: Any) -> None:
    ops = [{"op": "add", "path": f"/{name}", "value": value} for name, value in values.items()]
    assert up.ask("PATCH", "/v1/nodes/m1", ops).status_code == 200


def test_an_image_of_a_registry_is_deployed_by_a_token_of_its_own(
    up: Service, machine: process.Agent, known: DockerRegistry
) -> None:
    info = {
        "image_source": f"oci://{known.address}/{NAME}:1",
        "image_pull_secret": known.secret,
        "capabilities": {"boot_mode": "bios"},
    }
    http_nodes.enrol(
        up,
        MAC,
        deploy_interface="direct",
        automated_clean=False,
        properties={"cpu_arch": "ppc64le"},
        instance_info=info,
    )
    asks(up, "provide")
    up.settled("m1", "available")
    asks(up, "active")
    failed = reaches(up, "deploy failed")
    assert "no disk image for ppc64le; it has amd64/raw, arm64/raw" in failed["last_error"]
    patch(up, properties={"cpu_arch": "x86_64"})
    asks(up, "active")
    until(lambda: up.get("/v1/nodes/m1")["provision_state"] == "wait call-back", "the ramdisk")
    known.put_disks(NAME, "1", {"amd64": LATER})  # the tag moves
    machine.start()
    active = up.settled("m1", "active")
    assert (machine.folder / "disk.img").read_bytes().startswith(SYSTEM)
    assert active["instance_info"]["image_pull_secret"] == "******"
    notes = active["driver_internal_info"]
    assert notes["driver_notes"]["oci_image"]["disktype"] == "raw"
    assert known.tokens
    found = everything(up, machine.folder / "kept")
    assert len(found) > 10
    for secret in (PASSWORD, base64.b64encode(known.secret.encode()).decode(), *known.tokens):
        forms = (secret.encode(), base64.b64encode(f"Bearer {secret}".encode()))
        places = [place for place, text in found.items() for form in forms if form in text]
        assert places == [], secret[:12]
    if "doctor" in FEATURES:
        doctor = json.loads(found[f"/v1/doctor?node={active['uuid']}"])
        (check,) = [one for one in doctor["checks"] if one["name"] == "image"]
        assert check["status"] == "ok"


def test_a_token_of_the_service_can_pull_one_repository(known: DockerRegistry) -> None:
    """What the agent has is worth nothing elsewhere."""
    known.put_disks("team/other", "1", {"amd64": ARM})
    token = known.signer.token(f"repository:{NAME}:pull")
    headers = {"Authorization": f"Bearer {token}", "Accept": "*/*"}

    def status(method: str, path: str) -> int:
        answer = requests.request(method, f"{known.url}{path}", headers=headers, timeout=PATIENCE)
        return answer.status_code

    assert status("GET", f"/v2/{NAME}/tags/list") == 200
    assert status("GET", "/v2/team/other/tags/list") == 401
    assert status("POST", f"/v2/{NAME}/blobs/uploads/") == 401
