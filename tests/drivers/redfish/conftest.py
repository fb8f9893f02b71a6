"""Emulators, and a task that knows a BMC."""

from __future__ import annotations

import dataclasses
import pathlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite.core import config
from ironic_lite.drivers.redfish import management, power
from ironic_lite.drivers.redfish.bmc import connection, sessions
from tests.emulators import bmc, redfish
from tests.emulators import liar as liars
from tests.support import fake_task


class BmcTask(fake_task.FakeTask):
    """A task whose pauses are real, but short: nothing here needs a second."""

    def pause(self, seconds: float) -> None:
        super().pause(seconds)
        time.sleep(min(seconds, 0.02))


def task_at(address: str, **driver_info: Any) -> BmcTask:
    """Return a task on a node behind the BMC at ``address``."""
    return BmcTask(
        fake_task.node(driver="redfish", driver_info={"redfish_address": address} | driver_info)
    )


REDFISH = dataclasses.replace(
    fake_task.FAKE,
    hardware_type="redfish",
    management=management.RedfishManagement(),
    power=power.RedfishPower(),
)


def task_of(machine: bmc.Machine, **driver_info: Any) -> BmcTask:
    """Return a task on the node of a machine, with real power and management."""
    info = {**machine.driver_info, **driver_info}
    return BmcTask(fake_task.node(driver="redfish", driver_info=info), driver=REDFISH)


def wait_for_answers(seconds: float) -> None:
    """Give BMCs so many seconds for an answer, from now to the end of the test.

    Logins are ended: each keeps the time-out that it was made with.
    """
    REDFISH.power.close()
    config.CONF.set_override("read_timeout", seconds, group="redfish")


@pytest.fixture(scope="session")
def the_emulator() -> Iterator[redfish.Emulator]:
    with redfish.Emulator(count=40) as running:
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
    monkeypatch.setattr(connection, "LINKS", connection.Links())
    sessions._warn_of.cache_clear()
    conf = config.CONF
    for name in ("read_timeout", "connect_timeout"):  # a busy machine may stand still for a while
        conf.set_override(name, 60, group="redfish")
    conf.set_override("connection_retry_interval", 0, group="redfish")
    yield
    for name in ("read_timeout", "connect_timeout", "connection_retry_interval"):
        conf.clear_override(name, group="redfish")
