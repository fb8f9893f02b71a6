"""Machines whose firmware is updated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite.core import config
from tests.emulators import bmc


@pytest.fixture
def served() -> Iterator[bmc.Machine]:
    with bmc.serve() as machine:
        yield machine


@pytest.fixture
def option() -> Iterator[Any]:
    """A function that sets ``[redfish]firmware_update_<name>`` for one test."""
    names = []

    def set_option(name: str, value: int) -> None:
        names.append(f"firmware_update_{name}")
        config.CONF.set_override(names[-1], value, group="redfish")

    yield set_option
    for name in names:
        config.CONF.clear_override(name, group="redfish")
