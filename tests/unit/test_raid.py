"""What target_raid_config may say, and what a node shows of the volumes it has."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.domain import raid

GOOD: dict[str, Any] = {"raid_level": "1", "size_gb": 100}
FULL: dict[str, Any] = {
    "raid_level": "5+0",
    "size_gb": "MAX",
    "volume_name": "data",
    "is_root_volume": True,
    "share_physical_disks": False,
    "disk_type": "ssd",
    "interface_type": "sas",
    "number_of_physical_disks": 6,
    "controller": "RAID.1",
    "physical_disks": ["d1", "d2"],
}


def told(config: Any, root: str = "") -> errors.InvalidParameter:
    with pytest.raises(errors.InvalidParameter) as refusal:
        raid.check(config, root)
    return refusal.value


def of(disk: Any) -> dict[str, Any]:
    return {"logical_disks": [disk]}


@pytest.mark.parametrize("level", ["JBOD", "0", "1", "2", "5", "6", "1+0", "5+0", "6+0"])
def test_supported_raid_levels_are_accepted(level: str) -> None:
    assert raid.check(of({**GOOD, "raid_level": level})) == [{**GOOD, "raid_level": level}]


@pytest.mark.parametrize(
    "change",
    [
        {},
        {"size_gb": 0},
        {"size_gb": "MAX"},
        {"number_of_physical_disks": 1},
        {"physical_disks": ["d1"], "controller": "c"},
        {"physical_disks": [{"size": ">= 100"}, {"size": ">= 100"}], "controller": "software"},
        {"disk_type": "hdd", "interface_type": "scsi"},
        FULL,
    ],
)
def test_supported_disk_properties_are_accepted(change: dict[str, Any]) -> None:
    assert raid.check(of({**GOOD, **change})) == [{**GOOD, **change}]


BAD: dict[str, list[Any]] = {
    "raid_level": [None, 1, "7", "10", "raid1", "", [], {}],
    "size_gb": [None, -1, 1.5, True, "max", "100", [], 2**70],
    "volume_name": [None, "", "  ", 1, []],
    "is_root_volume": [None, "true", 1, []],
    "share_physical_disks": [None, "no", 0],
    "disk_type": [None, "nvme", "SSD", 1, []],
    "interface_type": [None, "nvme", "SAS", {}],
    "number_of_physical_disks": [None, 0, -1, "3", True, 2.0],
    "controller": [None, "", 5, []],
    "physical_disks": [None, [], "d1", {}, [1], [""], ["a", {"b": 1}], [{"a": 1}], [{}, {}]],
}
CASES = [(key, value) for key, values in BAD.items() for value in values]


@pytest.mark.parametrize(("key", "value"), CASES)
def test_a_bad_value_is_refused_by_its_path(key: str, value: Any) -> None:
    fault = told(of({**GOOD, "controller": "c", key: value}), "target_raid_config")
    assert fault.facts["path"] == f"target_raid_config/logical_disks/0/{key}"
    assert fault.message.startswith(f"target_raid_config/logical_disks/0/{key}: ")


def test_a_disk_cannot_be_used_twice() -> None:
    fault = told(of({**GOOD, "controller": "c", "physical_disks": ["a", "b", "a"]}))
    assert fault.message == "logical_disks/0/physical_disks: 'a' is named twice"


def test_disks_need_a_controller_to_be_found_at() -> None:
    fault = told(of({**GOOD, "physical_disks": ["a", "b"]}))
    assert fault.message == "logical_disks/0/controller: is required with physical_disks"


@pytest.mark.parametrize("key", ["raid_level", "size_gb"])
def test_missing_required_key_is_named(key: str) -> None:
    disk = {name: value for name, value in GOOD.items() if name != key}
    assert told(of(disk)).message == f"logical_disks/0/{key}: is required"


@pytest.mark.parametrize(
    ("config", "path"),
    [
        (None, ""),
        ([], ""),
        ("raid", ""),
        (1, ""),
        ({}, "logical_disks"),
        ({"logical_disks": None}, "logical_disks"),
        ({"logical_disks": []}, "logical_disks"),
        ({"logical_disks": {}}, "logical_disks"),
        ({"logical_disks": [GOOD], "controllers": []}, "controllers"),
        ({"logical_disks": [None]}, "logical_disks/0"),
        ({"logical_disks": [GOOD, "x"]}, "logical_disks/1"),
        ({"logical_disks": [GOOD, {**GOOD, "colour": "red"}]}, "logical_disks/1/colour"),
    ],
)
def test_invalid_configuration_is_refused_by_its_path(config: Any, path: str) -> None:
    assert told(config).facts["path"] == path


def test_there_is_one_root_volume_at_most() -> None:
    root = {**GOOD, "is_root_volume": True}
    fault = told({"logical_disks": [GOOD, root, GOOD, root]})
    assert fault.message == (
        "logical_disks/3/is_root_volume: there is a root volume already, logical_disks/1"
    )


def test_all_faults_are_told_at_once_but_a_flood_is_cut() -> None:
    fault = told({"logical_disks": [{"size_gb": -1}, {"raid_level": "9", "size_gb": 1}]})
    assert [part.partition(":")[0] for part in fault.message.split("; ")] == [
        "logical_disks/0/raid_level",
        "logical_disks/0/size_gb",
        "logical_disks/1/raid_level",
    ]
    assert fault.facts["path"] == "logical_disks/0/raid_level"
    assert told({"logical_disks": [{}] * 100}).message.endswith("; and 190 more")


def test_a_long_value_is_not_repeated_as_a_whole() -> None:
    fault = told(of({"raid_level": "9" * 100_000, "size_gb": 1, "k" * 100_000: 1}))
    assert len(fault.message) < 1000


def test_the_outline_lets_empty_pass_and_values_be() -> None:
    assert raid.outline({}) == {}
    assert raid.outline({"logical_disks": [1]}) == {"logical_disks": [1]}
    wrongs: list[Any] = [None, [], "", 0, False, {"logical_disks": []}, {"disks": []}]
    for wrong in wrongs:
        with pytest.raises(errors.InvalidParameter):
            raid.outline(wrong)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*FULL, "logical_disks", "x"]), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(deadline=None)
@given(JSON)
def test_configuration_is_valid_or_refused_with_a_path(config: Any) -> None:
    try:
        disks = raid.check(config, "root")
    except errors.InvalidParameter as fault:
        assert fault.facts["path"].startswith("root")
    else:
        assert disks == config["logical_disks"]


def test_the_properties_are_described() -> None:
    assert set(raid.properties()) == set(FULL)
    required = {name for name, text in raid.properties().items() if text.endswith("Required.")}
    assert required == {"raid_level", "size_gb"}


# -- what is to be built, and what was -------------------------------------------------------


@pytest.mark.parametrize(
    ("root", "other", "left"), [(True, True, [0, 1, 2]), (True, False, [1]), (False, True, [0, 2])]
)
def test_the_arguments_of_a_step_choose_volumes(root: bool, other: bool, left: list[int]) -> None:
    disks = [{"n": 0}, {"n": 1, "is_root_volume": True}, {"n": 2, "is_root_volume": False}]
    found = raid.wanted(disks, create_root_volume=root, create_nonroot_volumes=other)
    assert [disk["n"] for disk in found] == left


def test_arguments_that_leave_nothing_are_refused() -> None:
    with pytest.raises(errors.InvalidParameter, match="leave no volume"):
        raid.wanted([GOOD], create_root_volume=True, create_nonroot_volumes=False)
    with pytest.raises(errors.InvalidParameter, match="create_root_volume: 'yes' is not true"):
        raid.wanted([GOOD], create_root_volume="yes", create_nonroot_volumes=True)


ROOT = {**GOOD, "is_root_volume": True, "root_device_hint": {"wwn": "0x6000"}}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (None, "raid_level:1"),
        ("", "raid_level:1"),
        ("boot_mode:uefi", "boot_mode:uefi,raid_level:1"),
        ("raid_level:5,boot_mode:uefi", "boot_mode:uefi,raid_level:1"),
        ({"boot_mode": "uefi"}, {"boot_mode": "uefi", "raid_level": "1"}),
    ],
)
def test_the_root_volume_is_what_schedulers_and_deployments_see(before: Any, after: Any) -> None:
    known = {"cpus": 4, "capabilities": before, "root_device": {"name": "/dev/sda"}}
    assert raid.described(known, [GOOD, ROOT]) == {
        "cpus": 4,
        "capabilities": after,
        "local_gb": 100,
        "root_device": {"wwn": "0x6000"},
    }


def test_volumes_without_a_root_leave_the_properties_and_none_takes_the_hint() -> None:
    known = {"local_gb": 5, "root_device": {"name": "/dev/sda"}, "capabilities": "a:b"}
    assert raid.described(known, [GOOD]) == known
    assert raid.described(known, []) == {"local_gb": 5, "capabilities": "a:b"}


def test_the_hint_of_a_root_volume_goes_with_it_and_that_of_an_operator_stays() -> None:
    mine, theirs = {"root_device": {"wwn": "0x6000"}}, {"root_device": {"name": "/dev/sda"}}
    assert raid.described(mine, [GOOD], [ROOT]) == {}
    assert raid.described(theirs, [GOOD], [ROOT]) == theirs
    nameless = {**GOOD, "is_root_volume": True}
    assert "root_device" not in raid.described(mine, [nameless], [ROOT])
    assert raid.described(theirs, [nameless], [ROOT])["root_device"] == theirs["root_device"]
    assert raid.described(mine, [GOOD, ROOT], [ROOT])["root_device"] == mine["root_device"]


def test_a_node_without_volumes_has_an_empty_configuration() -> None:
    assert raid.built([]) == {}
    found = raid.built([GOOD])
    assert found["logical_disks"] == [GOOD]
    assert found["last_updated"].endswith("+00:00")
