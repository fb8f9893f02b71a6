"""What switches say of themselves, as a ramdisk passes it on."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite.domain import lldp


def test_a_whole_frame_is_read() -> None:
    frame = [
        [1, "0464649b32f300"],
        [2, "0773776974636831706f727437"],
        [3, "0078"],
        [4, "706f72742037"],
        [5, "737769746368310a00"],
        [6, "4a756e69706572"],
        [7, "00140004"],
        [8, "0501c000020b020000023f00"],
        [8, "110220010db8000000000000000000000001020000023f00"],
        [127, "0080c2010066"],
        [127, "0080c303000a0474657374"],
        [127, "0080c2030066047465737431"],
        [127, "0080c2030067047465737432"],
        [127, "0080c2070300000007"],
        [127, "00120f0405ea"],
        [0, ""],
    ]
    assert lldp.parse(frame) == {
        "switch_chassis_id": "64:64:9b:32:f3:00",
        "switch_port_id": "switch1port7",
        "switch_port_description": "port 7",
        "switch_system_name": "switch1",
        "switch_system_description": "Juniper",
        "switch_capabilities_support": ["Bridge", "Router"],
        "switch_capabilities_enabled": ["Bridge"],
        "switch_mgmt_addresses": ["192.0.2.11", "2001:db8::1"],
        "switch_port_untagged_vlan_id": 102,
        "switch_port_vlans": [{"id": 102, "name": "test"}, {"id": 103, "name": "test"}],
        "switch_port_link_aggregation_support": True,
        "switch_port_link_aggregation_enabled": True,
        "switch_port_link_aggregation_id": 7,
        "switch_port_mtu": 1514,
    }


def test_no_more_is_read_than_a_frame_can_hold() -> None:
    """Each address is added to a list: what a stranger makes of millions must not be his choice."""
    found = lldp.parse([[8, "0501c000020b"]] * 5000 + [[5, "6c617465"]])
    assert len(found.pop("switch_mgmt_addresses")) == lldp.MOST
    assert found == {}


@pytest.mark.parametrize(
    ("digits", "found"),
    [
        (
            "00120f01036c01001e",
            {
                "switch_port_autonegotiation_support": True,
                "switch_port_autonegotiation_enabled": True,
                "switch_port_physical_capabilities": [
                    "1000BASE-T fdx",
                    "100BASE-TX fdx",
                    "100BASE-TX hdx",
                    "10BASE-T fdx",
                    "10BASE-T hdx",
                ],
                "switch_port_mau_type": "1000BASE-T full duplex",
            },
        ),
        (
            "00120f01000000ffff",
            {
                "switch_port_autonegotiation_support": False,
                "switch_port_autonegotiation_enabled": False,
                "switch_port_physical_capabilities": [],
            },
        ),
        (
            "0080c202060067",
            {
                "switch_port_protocol_vlan_support": True,
                "switch_port_protocol_vlan_enabled": True,
                "switch_port_protocol_vlan_ids": [103],
            },
        ),
        ("0080c2040200aa", {"switch_protocol_identities": ["00aa"]}),
        ("0080c2060042", {"switch_port_management_vlan_id": 66}),
    ],
)
def test_facts_of_a_port_are_read(digits: str, found: Any) -> None:
    name = [5, "737769746368310a00"]
    whole = {**found, "switch_system_name": "switch1"}
    assert lldp.parse([[127, digits], name]) == whole
    broken = [[127, digits[:places]] for places in range(8, len(digits), 2)]
    assert lldp.parse([*broken, name, ["x"], [127, 7], [127, "0"]]) == {
        "switch_system_name": "switch1"
    }


def test_address_of_a_switchs_management_may_be_a_mac() -> None:
    assert lldp.parse([[8, "0706525400000001020000023f00"], [8, "050652540000"]]) == {
        "switch_mgmt_addresses": ["52:54:00:00:00:01"]
    }


@pytest.mark.parametrize(
    "tlvs",
    [
        *([[7, "0014"]], [[1, "045254"]], [[127, "0080c303000a0474"]], [[127, "0080c20703"]]),
        *(None, {}, "x", [], [None], [7], [["1", "04"]], [[1, None]], [[1, "0"]], [[1, "zz"]]),
        *([[1, ""]], [[2, "04"]], [[2, "0403"]], [[8, "05"]], [[127, "0080c201"]], [[1, 2, 3]]),
        *([[127, "0080c203"]], [[127, "00120f04aa"]], [[8, ""]], [[127, ""]], [[126, "00"]], "ab"),
    ],
    ids=str,
)
def test_malformed_tlvs_are_left_out(tlvs: Any) -> None:
    assert lldp.parse(tlvs) == {}


def test_addresses_of_a_port_are_addresses() -> None:
    assert lldp.parse([[2, "03525400000001"]]) == {"switch_port_id": "52:54:00:00:00:01"}
    assert lldp.parse([[1, "0501c0000201"]]) == {"switch_chassis_id": "192.0.2.1"}
