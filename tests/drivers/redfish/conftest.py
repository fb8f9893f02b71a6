"""Emulators, and a task that knows a BMC."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

import pytest

from ironic_lite.core import config
from ironic_lite.drivers.redfish.bmc import connection
from tests.emulators import liar as liars
from tests.emulators import redfish
from tests.support.bmc_tasks import BmcTask, task_at


@pytest.fixture(scope="session")
def the_emulator() -> Iterator[redfish.Emulator]:
    running = redfish.Emulator(count=40)
    with running:
        yield running


@pytest.fixture
def emulator(the_emulator: redfish.Emulator) -> redfish.Emulator:
    return the_emulator


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[pathlib.Path, pathlib.Path]:
    return redfish.certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def emulated(emulator: redfish.Emulator) -> BmcTask:
    """A machine of the emulator that no other test has touched."""
    number = next(_NUMBERS)
    return task_at(emulator.address, redfish_system_id=emulator.machines[number].system_id)


@pytest.fixture
def machine(emulated: BmcTask) -> BmcTask:
    """The same, where there is no other machine."""
    return emulated


_NUMBERS = iter(range(40))


@pytest.fixture
def liar() -> Iterator[liars.Liar]:
    with liars.Liar() as running:
        yield running


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No pause between attempts, no sessions left from another test."""
    monkeypatch.setattr(connection, "LINKS", connection.BmcLinks())
    connection._warn_of_address.cache_clear()
    conf = config.CONF
    for name in ("read_timeout", "connect_timeout"):  # a busy machine may stand still for a while
        conf.set_override(name, 60, group="redfish")
    conf.set_override("connection_retry_interval", 0, group="redfish")
    yield
    for name in ("read_timeout", "connect_timeout", "connection_retry_interval"):
        conf.clear_override(name, group="redfish")
