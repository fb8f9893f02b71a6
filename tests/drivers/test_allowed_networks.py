"""Addresses that users of the API write lead to no service that trusts this machine."""

from __future__ import annotations

import datetime
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import bounded_http, config, networks
from ironic_lite.drivers import allowed_networks, base
from ironic_lite.drivers.agent import client
from ironic_lite.drivers.ipmi import power as ipmi_power
from ironic_lite.drivers.redfish import power as redfish_power
from ironic_lite.drivers.redfish.bmc import connection
from tests.emulators import liar as liars
from tests.support import fake_task

Allow = Callable[..., None]
REDFISH, IPMI = redfish_power.RedfishPower(), ipmi_power.IpmiPower()
GROUPS = ("redfish", "ipmi", "agent")


@pytest.fixture
def allow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Allow]:
    """A function that sets what all three groups allow."""
    monkeypatch.setattr(connection, "LINKS", connection.BmcLinks())

    def put(*texts: str) -> None:
        for group in GROUPS:
            config.CONF.set_override("allowed_networks", list(texts), group=group)

    yield put
    for group in GROUPS:
        config.CONF.clear_override("allowed_networks", group=group)


def at(address: str) -> fake_task.FakeTask:
    return fake_task.FakeTask(redfish_address=address, ipmi_address=address)


@pytest.mark.parametrize(
    ("address", "default"),
    [
        ("192.0.2.7", True),
        ("2001:db8::7", True),
        ("64:ff9b::192.0.2.7", True),
        ("127.0.0.1", False),
        ("127.8.9.10", False),
        ("0.0.0.0", False),
        ("169.254.169.254", False),
        ("224.0.0.1", False),
        ("255.255.255.255", False),
        ("::", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("64:ff9b::7f00:1", False),
        ("fe80::1%eth0", False),
        ("ff02::1", False),
        ("100.100.100.200", False),
        ("100.100.100.201", True),
        ("fd00:ec2::254", False),
        ("fd00:ec2::255", True),
    ],
)
def test_local_and_metadata_addresses_are_closed_by_default(address: str, default: bool) -> None:
    assert networks.may_manage(address, []) is default
    assert networks.may_manage(address, ["0.0.0.0/0", "::/0"]) is True
    assert networks.may_manage(address, ["198.51.100.0/24"]) is False


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "127.1", "2130706433", "0x7f.1"]
)
def test_nothing_is_sent_to_this_machine_and_nothing_of_it_is_told(allow: Allow, host: str) -> None:
    """However its address is written: as a number, in IPv6, as a name."""
    allow()
    with liars.Liar() as service:
        service.tricks[f"GET {liars.ROOT}"] = liars.says(200, b"AKIAIOSFODNN7EXAMPLE")
        port = service.address.rpartition(":")[2]
        with pytest.raises(errors.InvalidParameter) as caught:
            REDFISH.get_power_state(at(f"http://{host}:{port}"))
        assert service.log == []
    assert caught.value.facts["path"] == "driver_info/redfish_address"
    assert "[redfish]allowed_networks" in caught.value.message


def test_a_refused_literal_is_told_by_validation(allow: Allow) -> None:
    allow("192.0.2.0/24")
    for interface in (REDFISH, IPMI):
        interface.validate(at("192.0.2.9"))
        with pytest.raises(errors.InvalidParameter, match="allowed_networks"):
            interface.validate(at("198.51.100.9"))


def resolving(answers: Sequence[str], asked: list[str]) -> Callable[..., list[Any]]:
    """Return a resolver that gives another address each time."""
    left = list(answers)

    def resolve(host: str, port: int, *_: Any, **__: Any) -> list[Any]:
        asked.append(host)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (left.pop(0), port))]

    return resolve


def test_the_judged_address_is_the_one_that_is_connected_to(
    allow: Allow, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name is resolved once for each connection."""
    allow("127.0.0.1/32")
    asked: list[str] = []
    with liars.Liar() as good, liars.Liar() as other:
        port = int(good.address.rpartition(":")[2])
        monkeypatch.setattr(socket, "getaddrinfo", resolving(["127.0.0.1", "127.0.0.2"], asked))
        limits = bounded_http.Limits(connect=5, whole=5, size=100_000)
        judge = allowed_networks.judge("redfish")
        first = bounded_http.Connection("bmc.example", port, limits=limits, judge=judge)
        with first.exchange("GET", liars.ROOT, {"Connection": "close"}) as answer:
            assert answer.status == 200
        second = bounded_http.Connection("bmc.example", port, limits=limits, judge=judge)
        with pytest.raises(bounded_http.AddressRefused):
            second.exchange("GET", liars.ROOT, {})
        assert asked == ["bmc.example"] * 2
        assert other.log == []
        first.close()


def test_ipmitool_gets_the_address_that_was_judged(
    allow: Allow, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    allow("192.0.2.7/32")
    program = tmp_path / "ipmitool"
    program.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/said\necho Chassis Power is on\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    asked: list[str] = []
    monkeypatch.setattr(socket, "getaddrinfo", resolving(["192.0.2.7", "127.0.0.1"], asked))
    assert IPMI.get_power_state(at("bmc.example")) == base.POWER_ON
    with pytest.raises(errors.InvalidParameter, match="driver_info/ipmi_address"):
        IPMI.get_power_state(at("bmc.example"))
    said = (tmp_path / "said").read_text()
    assert said.count("\n") == 1
    assert "-H 192.0.2.7 " in said
    assert "bmc.example" not in said


def test_an_agent_is_not_contacted_at_a_closed_address(allow: Allow) -> None:
    allow()
    with liars.Liar() as service:
        task = at("192.0.2.1")
        task.agent = base.Agent(
            url=service.address,
            token="t" * 32,
            verify_ca=None,
            version="11.0.0",
            heard_at=datetime.datetime(2026, 1, 1),
        )
        with pytest.raises(errors.AgentRefused, match=r"\[agent\]allowed_networks"):
            client.AgentClient(task).commands()
        assert service.log == []


def test_a_network_that_is_none_is_refused_with_its_option() -> None:
    with pytest.raises(ValueError, match=r"not a network such as 192\.0\.2\.0/24"):
        config.CONF.set_override("allowed_networks", ["192.0.2.0/99"], group="redfish")
