"""Recorded machines of Dell as nodes of the hardware type ``idrac``."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from tests.emulators.bmc import dell
from tests.recorded import facts, recordings
from tests.recorded.day import Day
from tests.recorded.strict_bmc import StrictBmc
from tests.support.operator import Operator

Json = dict[str, Any]

KINDS = ("bios", "inspect", "management", "power", "raid", "vendor")
INTERFACES: Json = {
    **{f"{kind}_interface": "idrac-redfish" for kind in KINDS},
    "boot_interface": "idrac-redfish-virtual-media",
    "deploy_interface": "ramdisk",
}
CLEARING = {
    "conductor__verify_step_priority_override": [{"management.clear_job_queue": 90.0}],
}


def names() -> list[Any]:
    """Return the recordings of machines of Dell."""
    found = []
    for name in recordings.names():
        tree = recordings.load(name).documents
        maker = str(tree[facts.systems(tree)[0]].get("Manufacturer"))
        if maker.startswith("Dell"):
            found.append(pytest.param(name, marks=pytest.mark.xdist_group(name)))
    return found


@pytest.fixture
def bmc(request: pytest.FixtureRequest) -> Iterator[StrictBmc]:
    documents = copy.deepcopy(recordings.load(request.param).documents)
    system = facts.systems(documents)[0]
    dell.extend_recorded(documents, system, str(facts.manager(documents, documents[system])))
    with StrictBmc(documents, system) as running:
        yield running


def enrolled(operator: Operator, bmc: StrictBmc, **more: Any) -> Day:
    """Return the day of a node of the machine in ``enroll``."""
    day = Day(operator, bmc)
    info = {**bmc.driver_info, "deploy_iso": "http://192.0.2.80/agent.iso"}
    fields = {**INTERFACES, "automated_clean": False, **more}
    day.node = operator.enroll("enroll", driver="idrac", driver_info=info, **fields)
    return day


def posts(bmc: StrictBmc, word: str) -> int:
    return sum(title.startswith("POST") and word in title for title, _status in bmc.changes)


each = pytest.mark.parametrize("bmc", names(), indirect=True)


@each
@pytest.mark.parametrize("operator", [CLEARING], indirect=True)
def test_verification_clears_the_queue_only_if_a_job_is_left(
    operator: Operator, bmc: StrictBmc
) -> None:
    day = enrolled(operator, bmc)
    assert day.goes("manage")["provision_state"] == "manageable"
    assert (posts(bmc, "DeleteJobQueue"), bmc.idrac.cleared) == (0, [])

    dell.put_job(bmc)
    other = enrolled(operator, bmc)
    shown = other.goes("manage")
    assert (shown["provision_state"], shown["last_error"]) == ("manageable", None)
    assert (posts(bmc, "DeleteJobQueue"), bmc.idrac.cleared) == (1, ["JID_CLEARALL"])


@each
def test_cleaning_brings_the_known_good_state(operator: Operator, bmc: StrictBmc) -> None:
    day = enrolled(operator, bmc)
    day.goes("manage")
    dell.put_job(bmc)
    bmc.idrac.lc_status = ["Initializing", "Ready"]
    assert day.clean("management.known_good_state") is None
    assert (bmc.idrac.resets, bmc.idrac.cleared) == (["Graceful"], ["JID_CLEARALL"])


@each
def test_inspection_finds_the_tag_and_the_switches(operator: Operator, bmc: StrictBmc) -> None:
    day = enrolled(operator, bmc)
    day.goes("manage")
    shown = day.goes("inspect")
    assert (shown["provision_state"], shown["last_error"]) == ("manageable", None)
    found = day.api.get(f"{day.path}/inventory").json
    tag = bmc.tree[bmc.system]["SKU"]
    assert found["inventory"]["system_vendor"]["serial_number"] == tag
    wanted = {
        entry["FQDD"]
        for path, document in bmc.tree.items()
        for entry in (document, *(document.get("Members") or ()))
        if "DellSwitchConnections" in path
        and entry.get("SwitchConnectionID", "No Link") != "No Link"
    }
    assert set(found["plugin_data"].get("parsed_lldp", {})) == wanted
    ports = day.api.get(f"{day.path}/ports").json["ports"]
    assert {one["address"] for one in ports} == facts.addresses(bmc.recorded, bmc.system)


@each
def test_a_machine_goes_from_enroll_to_active(operator: Operator, bmc: StrictBmc) -> None:
    instance = {"boot_iso": "http://192.0.2.80/root.iso", "ramdisk_image_download_source": "http"}
    day = enrolled(operator, bmc, instance_info=instance)
    for verb, state in (("manage", "manageable"), ("provide", "available"), ("active", "active")):
        shown = day.goes(verb)
        assert (shown["provision_state"], shown["last_error"]) == (state, None)
    assert bmc.power == "On"
    assert bmc.booted[-1] in {"VCD-DVD", "Cd"}
    assert bool(bmc.idrac.imports) is (bmc.booted[-1] == "VCD-DVD")
