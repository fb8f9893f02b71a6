"""Machines with disks, by a BMC of our own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ironic_lite.core import config
from tests.emulators import bmc


@pytest.fixture(autouse=True)
def limits() -> Iterator[None]:
    config.CONF.set_override("raid_config_timeout", 1000, group="redfish")
    yield
    config.CONF.clear_override("raid_config_timeout", group="redfish")


@pytest.fixture
def machine() -> Iterator[bmc.Machine]:
    with bmc.serve() as running:
        running.tree[running.system]["PowerState"] = "On"
        yield running
