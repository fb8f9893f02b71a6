"""Deployments from a registry: one digest for all retries, and a new one for the next request."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite.core import config
from ironic_lite.domain.examination import Status
from ironic_lite.features.doctor import work
from tests.emulators import registry as emulator
from tests.emulators.registry import PASSWORD, Registry
from tests.support import fake_task
from tests.support.conductor_fixture import ConductorFixture

FIRST, SECOND, THIRD = b"first", b"second", b"third"


@pytest.fixture
def known(tmp_path: pathlib.Path) -> Iterator[Registry]:
    """A registry of plain http."""
    config.CONF.set_override("state_path", str(tmp_path / "state"))
    config.CONF.set_override("permit_fallback_to_http_transport", True, "oci")
    with emulator.serve() as found:
        found.put_disk(FIRST)
        yield found
    config.CONF.clear_override("state_path")
    config.CONF.clear_override("permit_fallback_to_http_transport", "oci")


def info(known: Registry) -> dict[str, Any]:
    return {
        "image_source": known.source(),
        "image_pull_secret": known.secret,
        "capabilities": {"boot_mode": "bios"},
    }


def test_a_retry_keeps_the_digest_and_a_new_request_reads_the_tag(
    rig: ConductorFixture, known: Registry
) -> None:
    node = rig.node(
        "available", deploy_interface="direct", instance_info=info(known), automated_clean=False
    )

    def fails(verb: str) -> str:
        """Start a deployment, let it fail in its first step, and return the layer's digest."""
        rig.ask(verb, node)
        rig.reaches(node, "wait call-back")
        rig.ask("abort", node)
        row = rig.reaches(node, "deploy failed")
        assert PASSWORD not in str(row["driver_internal_info"])
        return str(row["driver_internal_info"]["driver_notes"]["oci_image"]["layer"])

    assert fails("deploy") == emulator.digest(FIRST)
    known.put_disk(SECOND)
    assert fails("retry") == emulator.digest(FIRST)
    assert fails("active") == emulator.digest(SECOND)
    known.put_disk(THIRD)
    rig.ask("deleted", node)
    row = rig.reaches(node, "available")
    assert "oci_image" not in row["driver_internal_info"].get("driver_notes", {})


def test_the_conductor_downloads_from_a_registry_without_tokens(
    rig: ConductorFixture, known: Registry
) -> None:
    known.login = "basic"
    node = rig.node("available", deploy_interface="direct", instance_info=info(known))
    config.CONF.set_override("http_url", "http://192.0.2.1", "deploy")
    try:
        rig.ask("deploy", node)
        row = rig.reaches(node, "wait call-back")
    finally:
        config.CONF.clear_override("http_url", "deploy")
    assert row["driver_internal_info"]["driver_notes"]["oci_image"]["basic"] is True
    assert [path for path in known.asked if "/blobs/" in path]
    assert PASSWORD not in str(row["driver_internal_info"])


def test_the_doctor_asks_the_registry_of_a_node(known: Registry) -> None:
    about = {"properties": {"cpu_arch": "x86_64"}, "instance_info": info(known)}
    subject = work.NodeSubject(config.CONF, fake_task.FakeTask(fake_task.node(**about)))
    (found,) = work.find_image(subject)
    assert found.status is Status.OK
    assert emulator.digest(FIRST) in found.text
    other = {**about, "instance_info": {"image_source": "http://192.0.2.1/a"}}
    subject = work.NodeSubject(config.CONF, fake_task.FakeTask(fake_task.node(**other)))
    assert list(work.find_image(subject)) == []
