"""``drivers.base`` is all that drivers of others import: it offers the whole contract."""

from __future__ import annotations

import importlib
import pathlib
from collections.abc import Iterator

from ironic_lite.domain import fields
from ironic_lite.drivers import base, contract

PROMISED = """
    BASES BIOS BOOT_MODES COMPONENTS DONE IMAGE_SCHEMES INDICATOR_STATES KINDS OPTIONAL_KINDS
    POWER_OFF POWER_ON RAID RAMDISKS REBOOT SOFT_POWER_OFF SOFT_REBOOT VIRTUAL_MEDIA WAIT
    Agent AgentReport Arg BiosSetting Boot Call Console Deploy Driver Firmware FirmwareComponent
    HardwareType Inspect Interface Management Network Node Outcome Port Power Proxy Rescue Step
    StepKind Storage StoredStep Task Vendor clean_step deploy_step driver_passthru passthru
    service_step verify_step
"""
"""What drivers of others may import: names may be added, and none may go."""


def _defined() -> Iterator[str]:
    """Give the public names of the modules of the contract, but for what they import."""
    for path in pathlib.Path(contract.__file__).parent.glob("[a-z]*.py"):
        module = importlib.import_module(f"{contract.__name__}.{path.stem}")
        for name, value in vars(module).items():
            if name in PROMISED.split() or getattr(value, "__module__", None) == module.__name__:
                yield name


def test_documented_names_exist() -> None:
    assert [name for name in PROMISED.split() if not hasattr(base, name)] == []


def test_the_whole_contract_is_offered() -> None:
    found = {name for name in _defined() if not name.startswith("_")}
    assert {"Task", "Power", "POWER_ON"} <= found
    assert found - set(base.__all__) == set()


def test_each_kind_has_its_class() -> None:
    assert set(base.BASES) == set(fields.INTERFACE_KINDS)
    assert all(getattr(base, one.__name__) is one for one in base.BASES.values())
