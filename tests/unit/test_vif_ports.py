"""Which port or portgroup a VIF is attached to, by the table of what a node has."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.drivers import noop
from ironic_lite.records import Port, Portgroup

Json = dict[str, Any]


def port(uuid: str, group: str | None = None, **more: Any) -> Port:
    held = {"internal_info": {noop.VIF: "other"}} if more.pop("used", False) else {}
    blank: Json = {"internal_info": {}, "physical_network": None, "pxe_enabled": True}
    return Port({"uuid": uuid, "portgroup_uuid": group, **blank, **held, **more})


def group(uuid: str, **more: Any) -> Portgroup:
    held = {"internal_info": {noop.VIF: "other"}} if more.pop("used", False) else {}
    blank: Json = {"internal_info": {}, "physical_network": None}
    return Portgroup({"uuid": uuid, **blank, **held, **more})


@pytest.mark.parametrize(
    ("ports", "groups", "chosen"),
    [
        ([port("a"), port("b")], [], "a"),
        ([port("a", used=True), port("b")], [], "b"),
        ([port("a", pxe_enabled=False), port("b")], [], "b"),
        ([port("a"), port("b", "g")], [group("g")], "g"),
        ([port("a", pxe_enabled=False), port("b", "g", pxe_enabled=False)], [group("g")], "g"),
        ([port("a")], [group("g")], "a"),
        (
            [port("a", pxe_enabled=False), port("b", "g", used=True), port("c", "g")],
            [group("g")],
            "c",
        ),
        ([port("a"), port("b", "g")], [group("g", used=True)], "a"),
    ],
    ids=[
        *("the first", "a free one", "one to boot from", "a portgroup", "a portgroup first"),
        *("no empty portgroup", "a portgroup in use by ports", "a used portgroup"),
    ],
)
def test_the_best_is_chosen(ports: list[Port], groups: list[Portgroup], chosen: str) -> None:
    assert noop.choose_card({"id": "vif"}, ports, groups).uuid == chosen


@pytest.mark.parametrize(
    ("ports", "groups", "more"),
    [
        ([], [], {}),
        ([port("a", used=True)], [], {}),
        ([port("a"), port("b", used=True)], [], {"port_uuid": "b"}),
        ([port("a")], [], {"port_uuid": "elsewhere"}),
        ([port("a")], [group("g")], {"portgroup_uuid": "g"}),
        ([port("a", "g")], [group("g", used=True)], {}),
        ([port("a", "g")], [group("g", used=True)], {"port_uuid": "a"}),
        ([port("a", "g"), port("b", "g", used=True)], [group("g")], {"portgroup_uuid": "g"}),
    ],
    ids=["none", "used", "named used", "stranger", "empty", "group used", "member", "split"],
)
def test_nothing_is_free(ports: list[Port], groups: list[Portgroup], more: Json) -> None:
    with pytest.raises(errors.InvalidRequest, match="vif, not enough free physical ports"):
        noop.choose_card({"id": "vif", **more}, ports, groups)


def test_named_port_is_used_if_it_is_free() -> None:
    ports, groups = [port("a"), port("b"), port("c", "g")], [group("g")]
    for named in ({"port_uuid": "b"}, {"portgroup_uuid": "g"}):
        assert noop.choose_card({"id": "vif", **named}, ports, groups).uuid in named.values()


def test_a_known_physical_network_decides() -> None:
    ports = [
        port("a", physical_network="left"),
        port("b"),
        port("c", physical_network="right", pxe_enabled=False),
        port("d", "g"),
    ]
    chosen = noop.choose_card({"id": "vif"}, ports, [group("g")], {"right"})
    assert chosen.uuid == "c"
    used = [port("c", physical_network="right", used=True)]
    assert noop.choose_card({"id": "vif"}, [*ports[:2], *used], [], {"right"}).uuid == "b"
    with pytest.raises(errors.InvalidRequest):
        noop.choose_card({"id": "vif"}, [ports[0], *used], [], {"right"})
