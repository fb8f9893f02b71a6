"""Configurations that no agent can build are refused before anything is touched."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.drivers.agent import software_raid

Json = dict[str, Any]
BY_AGENT = {"controller": "software"}
FIRST: Json = {"raid_level": "1", "size_gb": 100, **BY_AGENT}
SECOND: Json = {"raid_level": "0", "size_gb": "MAX", **BY_AGENT}


def test_configuration_that_an_agent_can_build_is_accepted() -> None:
    for disks in ([FIRST], [{**FIRST, "size_gb": "MAX"}], [FIRST, SECOND]):
        assert software_raid.check({"logical_disks": disks}) == disks


def test_volumes_of_real_controllers_have_no_such_rules() -> None:
    disks = [{"raid_level": "5", "size_gb": "MAX"}] * 3
    assert software_raid.check({"logical_disks": disks}) == disks


CASES: dict[str, tuple[list[Json], str, str]] = {
    "three": ([FIRST, SECOND, {**FIRST}], "logical_disks/2", "at most 2 volumes"),
    "first level": ([{**FIRST, "raid_level": "0"}], "logical_disks/0/raid_level", "level 1"),
    "second level": (
        [FIRST, {**SECOND, "raid_level": "5+0"}],
        "logical_disks/1/raid_level",
        "not one of 0, 1, 5, 6, 1.0",
    ),
    "all of the disk twice": (
        [{**FIRST, "size_gb": "MAX"}, SECOND],
        "logical_disks/1/size_gb",
        "only one",
    ),
    "one name twice": (
        [{**FIRST, "volume_name": "a"}, {**SECOND, "volume_name": "a"}],
        "logical_disks/1/volume_name",
        "another volume",
    ),
    "only one of them by software": (
        [FIRST, {"raid_level": "0", "size_gb": 1}],
        "logical_disks/1/controller",
        "for all volumes or for none",
    ),
    "names of disks": (
        [{**FIRST, "physical_disks": ["sda", "sdb"]}],
        "logical_disks/0/physical_disks",
        "hints",
    ),
    "a number of disks": (
        [{**FIRST, "number_of_physical_disks": 2}],
        "logical_disks/0/number_of_physical_disks",
        "would take all disks",
    ),
    "a kind of disk": (
        [FIRST, {**SECOND, "disk_type": "ssd"}],
        "logical_disks/1/disk_type",
        "physical_disks",
    ),
    "an interface": (
        [{**FIRST, "interface_type": "sas"}],
        "logical_disks/0/interface_type",
        "physical_disks",
    ),
    "nothing": ([{**FIRST, "size_gb": 0}], "logical_disks/0/size_gb", "at least"),
}


@pytest.mark.parametrize("case", CASES)
def test_configuration_that_no_agent_can_build_is_refused_by_its_path(case: str) -> None:
    disks, path, words = CASES[case]
    with pytest.raises(errors.InvalidParameter, match=words) as caught:
        software_raid.check({"logical_disks": disks}, "target_raid_config")
    assert caught.value.facts["path"] == f"target_raid_config/{path}"
