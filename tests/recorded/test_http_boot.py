"""Recorded machines whose firmware boots from a URL, and those whose BMC takes none."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.recorded import facts, recordings
from tests.recorded.day import Day
from tests.recorded.strict_bmc import StrictBmc
from tests.support.operator import Operator

Tree = dict[str, facts.Json]

ISO = "http://192.0.2.80/root.iso"
REFUSAL = "boot_interface: this BMC takes no HttpBootUri: use redfish-virtual-media or http-ipxe"


def offers(tree: Tree, system: str) -> tuple[bool, bool]:
    """Return whether a system lists UefiHttp, and whether it has a place for the URL."""
    boots = [tree[place]["Boot"] for place in places(tree, system)]
    listed = [one.get("BootSourceOverrideTarget@Redfish.AllowableValues") or () for one in boots]
    return any("UefiHttp" in one for one in listed), any("HttpBootUri" in one for one in boots)


def places(tree: Tree, system: str) -> list[str]:
    """Return the documents with a Boot object."""
    found = (system, facts.settings(tree, system))
    return [place for place in found if place and "Boot" in tree.get(place, {})]


def names(wanted: Callable[[tuple[bool, bool]], bool]) -> list[Any]:
    found = []
    for name in recordings.names():
        tree = recordings.load(name).documents
        system = facts.systems(tree)[0]
        if places(tree, system) and wanted(offers(tree, system)):
            found.append(pytest.param(name, marks=pytest.mark.xdist_group(name)))
    return found


@pytest.fixture
def bmc(request: pytest.FixtureRequest) -> Iterator[StrictBmc]:
    tree = copy.deepcopy(recordings.load(request.param).documents)
    with StrictBmc(tree, facts.systems(tree)[0]) as running:
        yield running


def enrolled(operator: Operator, bmc: StrictBmc) -> Day:
    """Return the day of a manageable node whose instance is an ISO image."""
    day = Day(operator, bmc)
    day.node = operator.enroll(
        "enroll",
        driver="redfish",
        driver_info={**bmc.driver_info, "deploy_iso": "http://192.0.2.80/agent.iso"},
        boot_interface="redfish-https",
        deploy_interface="ramdisk",
        automated_clean=False,
        instance_info={"boot_iso": ISO, "ramdisk_image_download_source": "http"},
    )
    day.goes("manage")
    return day


@pytest.mark.parametrize("bmc", names(lambda found: found[0]), indirect=True)
def test_machine_boots_its_instance_from_a_url(operator: Operator, bmc: StrictBmc) -> None:
    place = places(bmc.tree, bmc.system)[-1]
    bmc.tree[place]["Boot"].setdefault("HttpBootUri", None)  # as newer firmware of BMCs has it
    day = enrolled(operator, bmc)
    for verb, state in (("provide", "available"), ("active", "active")):
        shown = day.goes(verb)
        assert (shown["provision_state"], shown["last_error"]) == (state, None)
    assert (bmc.power, bmc.booted[-1], bmc.read_by_http[-1]) == ("On", "UefiHttp", ISO)
    shown = day.goes("deleted")
    assert (shown["provision_state"], shown["last_error"]) == ("available", None)
    boots = [bmc.tree[place]["Boot"] for place in places(bmc.tree, bmc.system)]
    assert any(one.get("BootSourceOverrideEnabled") == "Disabled" for one in boots)


@pytest.mark.parametrize("bmc", names(lambda found: not all(found)), indirect=True)
def test_bmc_that_takes_no_url_is_refused_before_it_gets_an_order(
    operator: Operator, bmc: StrictBmc
) -> None:
    day = enrolled(operator, bmc)
    day.goes("provide")
    before = list(bmc.changes)
    # Asks a BMC with a settings resource, too, of which the power sweep reads only the system.
    shown = day.api.get(f"{day.path}/validate").json["boot"]
    assert (shown["result"], shown["reason"]) == (False, REFUSAL)
    answer = operator.asks(day.node, "active")
    assert answer.status == 400
    assert REFUSAL in answer.text
    assert bmc.changes == before
