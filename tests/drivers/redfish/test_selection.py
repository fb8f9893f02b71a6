"""Choosing disks: what must hold for any machine and any wish, and what is chosen of what."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.drivers.redfish.disk_selection import (
    GIB,
    LEVELS,
    ControllerDisks,
    DiskChoice,
    RaidDisk,
    choose_disks,
    volume_capacity,
)

Json = dict[str, Any]


def disk(name: str, gib: int = 100, **more: Any) -> RaidDisk:
    return RaidDisk(**{"path": f"/{name}", "name": name, "size": gib * GIB, **more})


def controller(*sizes: int, name: str = "A", levels: Any = LEVELS, **more: Any) -> ControllerDisks:
    disks = tuple(disk(f"{name}{at}", size, **more) for at, size in enumerate(sizes))
    return ControllerDisks(name, disks, None if levels is None else frozenset(levels))


def wish(raid_level: str = "1", size_gb: Any = 10, **more: Any) -> Json:
    return {"raid_level": raid_level, "size_gb": size_gb, **more}


def chosen(wishes: list[Json], *controllers: ControllerDisks) -> list[list[str]]:
    found = choose_disks([(f"d/{at}", one) for at, one in enumerate(wishes)], controllers)
    return [[one.name for one in choice.disks] for choice in found]


def refused(wishes: list[Json], *controllers: ControllerDisks) -> str:
    with pytest.raises(errors.InvalidParameter) as refusal:
        chosen(wishes, *controllers)
    return refusal.value.message


# -- what always holds -----------------------------------------------------------------------

KINDS = st.sampled_from(["hdd", "ssd", None])
INTERFACES = st.sampled_from(["sata", "sas", "nvme", None])


@st.composite
def machines(draw: st.DrawFn) -> list[ControllerDisks]:
    found = []
    for number in range(draw(st.integers(1, 3))):
        disks = tuple(
            disk(
                f"{number}-{at}",
                draw(st.sampled_from([1, 10, 50, 100])),
                kind=draw(KINDS),
                interface=draw(INTERFACES),
                trouble=draw(st.sampled_from([None, None, None, "in volume 7"])),
            )
            for at in range(draw(st.integers(0, 10)))
        )
        levels = draw(st.none() | st.frozensets(st.sampled_from(sorted(LEVELS))))
        found.append(ControllerDisks(str(number), disks, levels))
    return found


@st.composite
def wishes(draw: st.DrawFn) -> Json:
    found: Json = wish(
        draw(st.sampled_from(sorted(LEVELS))),
        draw(st.just("MAX") | st.integers(1, 300)),
    )
    for key, values in {
        "share_physical_disks": st.booleans(),
        "disk_type": st.sampled_from(["hdd", "ssd"]),
        "interface_type": st.sampled_from(["sata", "sas"]),
        "number_of_physical_disks": st.integers(1, 9),
    }.items():
        if draw(st.integers(0, 3)) == 0:
            found[key] = draw(values)
    if draw(st.integers(0, 5)) == 0:
        found["controller"] = str(draw(st.integers(0, 2)))
        names = [f"{found['controller']}-{at}" for at in range(10)]
        found["physical_disks"] = draw(
            st.lists(st.sampled_from(names), min_size=1, max_size=6, unique=True)
        )
    return found


def check(choice: DiskChoice, controllers: list[ControllerDisks]) -> None:
    """What each volume by itself must be."""
    level = LEVELS[choice.wanted["raid_level"]]
    count = len(choice.disks)
    assert count == len({one.path for one in choice.disks})
    assert count >= level.least
    assert not (level.even and count % 2)
    assert choice.wanted.get("number_of_physical_disks", count) == count
    assert set(choice.disks) <= set(choice.controller.disks)
    assert choice.controller in controllers
    assert choice.controller.levels is None or choice.wanted["raid_level"] in (
        choice.controller.levels
    )
    assert all(one.trouble is None for one in choice.disks)
    whole = volume_capacity(
        choice.wanted["raid_level"], count, min(one.size for one in choice.disks)
    )
    assert 0 < choice.room <= whole
    if choice.size is not None:
        assert choice.size == choice.wanted["size_gb"] * GIB <= choice.room
    names = choice.wanted.get("physical_disks")
    if names is not None:
        assert {one.name for one in choice.disks} == set(names)
        return
    assert len({(one.kind, one.interface) for one in choice.disks}) == 1
    assert choice.wanted.get("disk_type") in {None, choice.disks[0].kind}
    assert choice.wanted.get("interface_type") in {None, choice.disks[0].interface}


def used(choice: DiskChoice) -> int:
    """Return the bytes of each disk that a volume takes."""
    data = LEVELS[choice.wanted["raid_level"]].data(len(choice.disks))
    return -(-(choice.room if choice.size is None else choice.size) // data)


@settings(deadline=None)
@given(st.lists(wishes(), min_size=1, max_size=5), machines())
def test_chosen_disks_suit_the_volume(asked: list[Json], there: list[ControllerDisks]) -> None:
    try:
        found = choose_disks([(f"d/{at}", one) for at, one in enumerate(asked)], there)
    except errors.InvalidParameter as why:
        assert why.facts["path"].startswith("d/")
        return
    assert [choice.wanted for choice in found] == asked
    load: dict[str, int] = {}
    for choice in found:
        check(choice, there)
        for one in choice.disks:
            load[one.path] = load.get(one.path, 0) + used(choice)
    for mine in found:
        for other in found:
            if mine is not other and {*mine.disks} & {*other.disks}:
                assert mine.wanted["share_physical_disks"] and other.wanted["share_physical_disks"]
                assert set(mine.disks) == set(other.disks)
                assert mine.wanted["raid_level"] == other.wanted["raid_level"]
    sizes = {one.path: one.size for each in there for one in each.disks}
    assert all(load[path] <= sizes[path] for path in load)


@settings(deadline=None)
@given(st.lists(wishes(), min_size=1, max_size=4), machines(), st.randoms())
def test_the_order_in_which_a_bmc_lists_things_does_not_matter(
    asked: list[Json], there: list[ControllerDisks], dice: Any
) -> None:
    def answer(controllers: list[ControllerDisks]) -> Any:
        try:
            return chosen(asked, *controllers)
        except errors.InvalidParameter as why:
            return why.facts["path"]

    shuffled = [
        ControllerDisks(one.name, tuple(dice.sample(one.disks, len(one.disks))), one.levels)
        for one in dice.sample(there, len(there))
    ]
    assert answer(shuffled) == answer(there)


# -- what is chosen of what ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "sizes", "disks"),
    [
        (wish("1", 50), [100, 60, 60, 40], ["A1", "A2"]),
        (wish("1", 70), [100, 60, 60, 80], ["A3", "A0"]),
        (wish("0", 150), [100, 100, 100], ["A0", "A1"]),
        (wish("5", 250), [100] * 6, ["A0", "A1", "A2", "A3"]),
        (wish("1+0", 250), [100] * 8, ["A0", "A1", "A2", "A3", "A4", "A5"]),
        (wish("1", "MAX"), [100, 200, 200], ["A1", "A2"]),
        (wish("5", "MAX", number_of_physical_disks=4), [100] * 6, ["A2", "A3", "A4", "A5"]),
        (wish("1", 10, number_of_physical_disks=3), [100] * 4, ["A0", "A1", "A2"]),
    ],
)
def test_few_and_small_disks_are_taken(asked: Json, sizes: list[int], disks: list[str]) -> None:
    assert chosen([asked], controller(*sizes)) == [disks]


@pytest.mark.parametrize(
    ("level", "least", "data"),
    [
        ("0", 1, 1),
        ("1", 2, 1),
        ("5", 3, 2),
        ("6", 4, 2),
        ("1+0", 4, 2),
        ("5+0", 6, 4),
        ("6+0", 8, 4),
    ],
)
def test_levels_take_so_many_disks_and_give_so_much(level: str, least: int, data: int) -> None:
    assert len(chosen([wish(level)], controller(*[100] * 9))[0]) == least
    assert volume_capacity(level, least, 100) == data * 100
    said = refused([wish(level)], controller(*[100] * (least - 1)))
    assert said == (
        f"d/0: RAID {level} needs {least} free disks of one kind, there are {least - 1}"
    )


def test_named_disks_go_first_and_max_gets_what_is_left() -> None:
    asked = [
        wish("1", "MAX"),
        wish("1", 10),
        wish("1", 10, controller="A", physical_disks=["A0", "A5"]),
    ]
    assert chosen(asked, controller(100, 100, 100, 100, 100, 100)) == [
        ["A3", "A4"],
        ["A1", "A2"],
        ["A0", "A5"],
    ]


def test_disks_are_shared_only_by_those_that_say_so_and_only_while_there_is_room() -> None:
    share = wish("1", 60, share_physical_disks=True)
    small = wish("1", 30, share_physical_disks=True)
    alone = wish("1", 5)
    found = chosen([share, small, alone, share], controller(*[100] * 6))
    assert found == [["A0", "A1"], ["A0", "A1"], ["A2", "A3"], ["A4", "A5"]]
    rest = wish("1", "MAX", share_physical_disks=True)
    choices = choose_disks([("a", share), ("b", rest)], [controller(100, 100)])
    assert [choice.room // GIB for choice in choices] == [100, 40]


def test_volumes_go_to_the_controller_that_has_the_disks_or_was_named() -> None:
    two = (controller(100, name="A"), controller(100, 100, 100, name="B"))
    assert chosen([wish("1")], *two) == [["B0", "B1"]]
    assert chosen([wish("0", controller="B")], *two) == [["B0"]]
    assert refused([wish("1", controller="A")], *two).startswith("d/0: RAID 1 needs 2 free disks")
    assert refused([wish("1", controller="C")], *two) == (
        "d/0/controller: there is no 'C'; the RAID controllers of the machine are: A, B"
    )
    assert refused([wish("1")]) == "d/0: the RAID controllers of the machine are: none"


def test_max_goes_where_most_room_is() -> None:
    two = (controller(100, 100, name="A"), controller(200, 200, name="B"))
    assert chosen([wish("1", "MAX")], *two) == [["B0", "B1"]]
    assert chosen([wish("1", 10)], *two) == [["A0", "A1"]]


def test_a_controller_that_does_not_make_the_level_is_passed_over() -> None:
    simple = controller(100, 100, 100, name="A", levels=["0", "1"])
    better = controller(100, 100, 100, name="B", levels=["5"])
    silent = controller(100, 100, 100, name="C", levels=None)
    assert chosen([wish("5")], simple, better, silent) == [["B0", "B1", "B2"]]
    assert chosen([wish("5")], simple, silent) == [["C0", "C1", "C2"]]
    assert refused([wish("5")], simple) == (
        "d/0/raid_level: 5 is not possible: controller A makes 0, 1"
    )


def test_disks_of_two_kinds_are_not_mixed_unless_named() -> None:
    mixed = ControllerDisks(
        "A", (disk("A0", kind="ssd"), disk("A1", kind="hdd"), disk("A2", kind="hdd")), None
    )
    assert chosen([wish("1")], mixed) == [["A1", "A2"]]
    assert chosen([wish("1", controller="A", physical_disks=["A0", "A1"])], mixed)
    assert refused([wish("1", disk_type="ssd")], mixed) == (
        "d/0: RAID 1 needs 2 free disks of one kind (ssd), there are 1"
    )


def test_disks_that_are_not_free_are_left_alone_and_named_in_the_refusal() -> None:
    there = ControllerDisks("A", (disk("A0", trouble="it is in volume V1"), disk("A1")), None)
    assert refused([wish("1")], there) == (
        "d/0: RAID 1 needs 2 free disks of one kind, there are 1. Not free: A0: it is in volume V1"
    )
    asked = wish("1", controller="A", physical_disks=["A1", "A0"])
    assert refused([asked], there) == (
        "d/0/physical_disks/1: disk A0 cannot be used: it is in volume V1"
    )


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"physical_disks": ["A0", "X"]}, "physical_disks/1: 'X' does not exist; controller A has"),
        ({"physical_disks": ["A0"]}, "physical_disks: RAID 1 needs 2 disks or more, not 1"),
        (
            {"physical_disks": ["A0", "A1"], "size_gb": 500},
            "size_gb: these disks have room for 100",
        ),
        (
            {"physical_disks": ["A0", "A1"], "number_of_physical_disks": 3},
            "number_of_physical_disks: 3, but 2 disks are named",
        ),
        ({"size_gb": 500}, "500 GiB do not fit: the free disks give 100 GiB"),
        ({"number_of_physical_disks": 1}, "RAID 1 needs 2 disks or more, not 1"),
        (
            {"raid_level": "1+0", "number_of_physical_disks": 5},
            "RAID 1+0 needs 4 disks or more, an",
        ),
        ({"raid_level": "2"}, "raid_level: 2 is not possible by Redfish"),
    ],
)
def test_a_refusal_says_what_is_wrong_and_what_there_is(asked: Json, said: str) -> None:
    message = refused([wish(**{"controller": "A", **asked})], controller(*[100] * 6))
    assert message.startswith((f"d/0/{said}", f"d/0: {said}"))


def test_disks_count_as_people_do() -> None:
    disks = tuple(disk(f"Bay {number}") for number in (10, 9, 2, 1))
    assert chosen([wish("1")], ControllerDisks("A", disks, None)) == [["Bay 1", "Bay 2"]]


def test_of_two_controllers_of_one_name_it_must_be_said_whose_disks_are_named() -> None:
    """Their disks have the same names too: the wrong ones would be taken, with all on them."""
    twins = [
        ControllerDisks(name, (disk("0"), disk("1")), frozenset(LEVELS), "PERC H755")
        for name in ("RAID.Slot.1", "RAID.Slot.2")
    ]
    named: Json = {"physical_disks": ["0", "1"]}
    assert refused([wish(controller="PERC H755", **named)], *twins) == (
        "d/0/controller: 'PERC H755' may be any of RAID.Slot.1, RAID.Slot.2; use one of them"
    )
    for one in twins:
        [choice] = choose_disks([("d", wish(controller=one.name, **named))], twins)
        assert choice.controller is one
    assert chosen([wish(controller="PERC H755")], *twins) == [["0", "1"]]


def test_an_id_is_meant_before_a_name() -> None:
    first = ControllerDisks("A", (disk("a0"), disk("a1")), None, "B")
    second = ControllerDisks("B", (disk("b0"), disk("b1")), None, "A")
    assert chosen([wish(controller="A")], first, second) == [["a0", "a1"]]


def test_volume_with_the_rest_of_named_disks_comes_after_sized_ones() -> None:
    share: Json = {"share_physical_disks": True, "controller": "A", "physical_disks": ["A0", "A1"]}
    choices = choose_disks(
        [("a", wish(size_gb="MAX", **share)), ("b", wish(size_gb=40, **share))],
        [controller(100, 100)],
    )
    assert [choice.room // GIB for choice in choices] == [60, 100]
    assert [choice.last for choice in choices] == [True, False]
