"""A driver written for the contract of release 1.0 works with this release, in each kind."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ironic_lite.drivers import base
from tests.support import plugin_wheels, service

pytestmark = pytest.mark.xdist_group("plugin")

NAME = "contract-1-0"
OTHERS = {"network": "noop", "storage": "noop"}
"""Interfaces beside those of the driver, where fake has none."""
ENABLED = "\n".join(
    (
        f"[DEFAULT]\nenabled_hardware_types = fake-hardware, {NAME}",
        *(f"enabled_{kind}_interfaces = {OTHERS.get(kind, 'fake')}, {NAME}" for kind in base.KINDS),
    )
)


@pytest.fixture(scope="module")
def metal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[service.Service]:
    """A service with the driver, which only its processes find."""
    folder = tmp_path_factory.mktemp("contract")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(plugin_wheels.install(folder, "contract_1_0")))
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        with service.service(ENABLED, warm=False) as found:
            found.start("ironic-lite")
            found.up()
            yield found


def test_contract_has_the_major_version_of_the_driver() -> None:
    assert base.CONTRACT.split(".")[0] == "1"


def test_driver_of_1_0_takes_a_machine_through_its_life(metal: service.Service) -> None:
    info = {"driver": NAME, "driver_info": {"contract_slot": 4}}
    refused = metal.ask("POST", "/v1/nodes", {**info, "driver_info": {"contract_slot": "x"}})
    assert refused.status_code == 400, refused.text
    assert "driver_info/contract_slot" in refused.text
    metal.create("old", **info)
    node = metal.get("/v1/nodes/old")
    assert {node[f"{kind}_interface"] for kind in base.KINDS} == {NAME}
    metal.provision("old", "manage", "manageable")
    assert [one["name"] for one in metal.get("/v1/nodes/old/bios")["bios"]] == ["Virtualization"]
    firmware = metal.get("/v1/nodes/old/firmware")["firmware"]
    assert [one["component"] for one in firmware] == ["bmc"]
    metal.provision("old", "inspect", "manageable")
    assert metal.get("/v1/nodes/old")["properties"]["cpu_arch"] == "x86_64"
    assert len(metal.get("/v1/nodes/old/ports")["ports"]) == 1
    rest = {"interface": "management", "step": "rest", "args": {"seconds": 1}}
    metal.provision("old", "clean", "manageable", clean_steps=[rest])
    notes = metal.get("/v1/nodes/old")["driver_internal_info"]["driver_notes"]
    assert notes["contract_rests"] == 1
    metal.provision("old", "provide", "available")
    metal.provision("old", "active", "active")
    assert metal.get("/v1/nodes/old")["power_state"] == base.POWER_ON
    metal.provision("old", "rescue", "rescue", rescue_password="a pass word")
    metal.provision("old", "unrescue", "active")
    metal.provision("old", "deleted", "available")
    answer = metal.ask("PUT", "/v1/nodes/old/vendor_passthru?method=repeat", {"a": 1})
    assert (answer.status_code, answer.json()) == (200, {"repeated": {"a": 1}})
