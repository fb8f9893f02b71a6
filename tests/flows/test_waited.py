"""Who waits for an answer hears of a slow machine in time; work that nobody waits for has time."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import oslo_messaging
import pytest
from oslo_config import cfg

from ironic_lite.conductor import service
from ironic_lite.conductor.endpoints.with_deadline import WithDeadline
from ironic_lite.drivers import deadline
from ironic_lite.drivers.fake import management
from ironic_lite.rpc import server, stub, transport
from tests.support.conductor_fixture import ConductorFixture


@pytest.fixture
def left(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What a driver had when it was asked, in seconds."""
    found: list[float] = []

    def boot_device(*_: Any) -> dict[str, Any]:
        found.append(deadline.left())
        return {}

    monkeypatch.setattr(management.FakeManagement, "get_boot_device", boot_device)
    monkeypatch.setattr(management.FakeManagement, "set_boot_mode", boot_device)
    return found


def test_a_driver_has_less_time_than_its_caller_and_a_worker_has_all(
    rig: ConductorFixture, left: list[float]
) -> None:
    node = rig.node("active")
    endpoints = stub.connect(stub.to(rig.endpoints), WithDeadline(50.0))
    endpoints.get_boot_device(rig.who, node_uuid=node)
    assert 0 < left.pop() <= 50
    endpoints.change_node_boot_mode(rig.who, node_uuid=node, mode="uefi")
    rig.settled(node)
    assert left == [math.inf]
    assert deadline.left() == math.inf


def test_calls_over_rpc_have_it_from_the_time_of_rpc(
    rig: ConductorFixture, left: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[Any] = []

    def serve(_transport: object, _host: str, door: object) -> SimpleNamespace:
        served.append(door)
        return SimpleNamespace(threads=64)

    monkeypatch.setattr(service, "Server", serve)
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[], default_config_dirs=[])
    url = oslo_messaging.TransportURL.parse(conf, "fake:///")
    messaging = transport.Messaging(oslo_messaging.get_rpc_transport(conf, url), url)
    server.answer_seconds(messaging)
    conf.set_override("rpc_response_timeout", 20)
    runtime = rig.service.runtime
    service.Service(runtime.conf, runtime.database, runtime.registry, messaging)
    served[0].get_boot_device(rig.who, node_uuid=rig.node("active"))
    assert 15 < left.pop() <= 18
