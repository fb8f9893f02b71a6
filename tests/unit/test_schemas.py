"""Bodies are checked to the last key; every refusal names the JSON path of its fault."""

from __future__ import annotations

import base64
import copy
import gzip
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.api.validation import schemas
from ironic_lite.domain import fields, verbs, versions, vocabulary
from ironic_lite.domain.steps import StepKind

UUID = "9c5f1c32-5a0c-4a3f-8a0a-6d1d0b0a9c77"
MAC = "52:54:00:12:34:56"
STEP = {"interface": "raid", "step": "create_configuration"}
NETWORKS: dict[str, Any] = {"links": [], "networks": [], "services": []}
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=10)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


def refused(call: Callable[..., Any], *args: Any, **named: Any) -> errors.InvalidParameter:
    with pytest.raises(errors.InvalidParameter) as caught:
        call(*args, **named)
    return caught.value


def node(version: int = versions.LAST, **body: Any) -> dict[str, Any]:
    return schemas.node({"driver": "fake-hardware", **body}, version=version)


# -- nodes -----------------------------------------------------------------------------------


def test_a_node_comes_back_as_it_will_be_stored() -> None:
    assert node(
        uuid=UUID.upper(),
        name="rack1.node-7",
        conductor_group="Rack-1",
        properties=None,
        automated_clean="False",
        retired="true",
        retired_reason="fan",
        description=None,
    ) == {
        "driver": "fake-hardware",
        "uuid": UUID,
        "name": "rack1.node-7",
        "conductor_group": "rack-1",
        "properties": {},
        "automated_clean": False,
        "retired": True,
        "retired_reason": "fan",
        "description": None,
    }


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"driver_info": 3}, "driver_info"),
        ({"properties": []}, "properties"),
        ({"extra": "x"}, "extra"),
        ({"foo": 1}, "foo"),
        ({"provision_state": "active"}, "provision_state"),
        ({"traits": ["CUSTOM_A"]}, "traits"),
        ({"protected": True}, "protected"),
        ({"driver": None}, "driver"),
        ({"driver": ""}, "driver"),
        ({"driver": ["fake-hardware"]}, "driver"),
        ({"uuid": "1"}, "uuid"),
        ({"instance_uuid": "x" * 36}, "instance_uuid"),
        ({"name": "with space"}, "name"),
        ({"name": ""}, "name"),
        ({"name": UUID}, "name"),
        ({"name": "a" * 256}, "name"),
        ({"name": 7}, "name"),
        ({"resource_class": "a" * 81}, "resource_class"),
        ({"description": "a" * 4097}, "description"),
        ({"owner": "a" * 256}, "owner"),
        ({"owner": "a\x00"}, "owner"),
        ({"owner": "\ud800"}, "owner"),
        ({"maintenance": "perhaps"}, "maintenance"),
        ({"maintenance": 1}, "maintenance"),
        ({"conductor_group": "no space"}, "conductor_group"),
        ({"power_interface": ""}, "power_interface"),
        ({"instance_name": ""}, "instance_name"),
        ({"retired_reason": "why"}, "retired_reason"),
        ({"network_data": {**NETWORKS, "links": [{"id": "a"}]}}, "network_data/links/0/type"),
        ({"network_data": {**NETWORKS, "networks": {}}}, "network_data/networks"),
    ],
)
def test_a_bad_node_is_refused_by_the_path_of_its_fault(body: dict[str, Any], path: str) -> None:
    assert refused(node, **body).facts["path"] == path


LINKS: list[dict[str, Any]] = [
    {"id": "eth0", "type": "phy", "ethernet_mac_address": MAC, "mtu": 1500},
    {
        "id": "bond0",
        "type": "bond",
        "ethernet_mac_address": MAC,
        "bond_mode": "802.3ad",
        "bond_links": ["eth0"],
    },
    {"id": "v7", "type": "vlan", "vlan_mac_address": MAC, "vlan_link": "bond0", "vlan_id": 7},
]
V4: dict[str, Any] = {
    "id": "n4",
    "link": "eth0",
    "network_id": "n",
    "type": "ipv4",
    "ip_address": "192.0.2.7",
    "netmask": "255.255.255.0",
    "routes": [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "192.0.2.1"}],
}
V6: dict[str, Any] = {
    "id": "n6",
    "link": "v7",
    "network_id": "n",
    "type": "ipv6",
    "ip_address": "2001:db8::7/64",
    "netmask": "ffff:ffff:ffff:ffff::",
}
DNS = [{"type": "dns", "address": "192.0.2.53"}, {"type": "dns", "address": "2001:db8::53"}]
WHOLE = {"links": LINKS, "networks": [V4, V6, {**V6, "type": "ipv6_slaac"}], "services": DNS}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("links/0/ethernet_mac_address", None),
        ("links/0/ethernet_mac_address", "x"),
        ("links/0/mtu", "1500"),
        ("links/0/mtu", 0),
        ("links/0/type", "ethernet"),
        ("links/1/bond_mode", "fast"),
        ("links/1/bond_links", None),
        ("links/2/vlan_id", "7"),
        ("links/2/vlan_mac_address", None),
        ("networks/0/ip_address", "x"),
        ("networks/0/ip_address", "2001:db8::7"),
        ("networks/0/netmask", "255.0.255.0"),
        ("networks/0/network_id", None),
        ("networks/0/type", "ipv5"),
        ("networks/0/routes/0/gateway", None),
        ("networks/0/routes/0/network", "default"),
        ("networks/1/ip_address", "192.0.2.7"),
        ("networks/1/netmask", "64"),
        ("services/0/address", "dns.example.org"),
        ("services/1/type", "ntp"),
    ],
)
def test_network_data_follows_its_schema(path: str, value: object) -> None:
    """Ironic 39 refuses each of these values, too."""
    assert node(network_data=WHOLE)["network_data"] == WHOLE
    spoilt: Any = copy.deepcopy(WHOLE)
    *above, last = path.split("/")
    around = spoilt
    for word in above:
        around = around[int(word) if isinstance(around, list) else word]
    if value is None:
        del around[last]
    else:
        around[last] = value
    assert refused(node, network_data=spoilt).facts["path"] == f"network_data/{path}"


def test_the_sentence_says_that_it_is_the_schema_of_a_node() -> None:
    assert refused(node, foo=1).message.startswith("Schema error for node: foo: ")


def chassis(body: Any, *, version: int) -> Any:
    return schemas.resource(fields.CHASSIS, body, version=version, what="chassis")


@pytest.mark.parametrize("body", [None, [], "x", 3, True])
def test_a_body_that_is_no_object_is_refused(body: Any) -> None:
    for read in (schemas.node, schemas.port, chassis):
        refused(read, body, version=versions.LAST)


@pytest.mark.parametrize("field", [each for each in fields.NODE if each.creatable])
def test_a_newer_field_is_not_acceptable_unless_null(field: fields.Field) -> None:
    if field.since == 1:
        return
    with pytest.raises(errors.NotAcceptable):
        node(version=field.since - 1, **{field.name: "x"})
    assert field.name not in node(version=field.since - 1, **{field.name: None})


@pytest.mark.parametrize("name", sorted(vocabulary.RESERVED))
def test_names_of_sub_resources_are_reserved(name: str) -> None:
    assert "reserved" in refused(node, name=name).message


def test_old_versions_want_host_names() -> None:
    assert node(version=9, name="host-1.example.org")["name"] == "host-1.example.org"
    refused(node, version=9, name="host_1")
    refused(node, version=9, name="HOST-1")
    assert node(version=10, name="host_1~x")["name"] == "host_1~x"


def test_instance_name_follows_the_display_name() -> None:
    assert node(instance_info={"display_name": "web"})["instance_name"] == "web"
    assert node(instance_info={"display_name": "web"}, instance_name="db")["instance_name"] == "db"
    assert "instance_name" not in node(instance_info={"display_name": ["web"]})


def test_a_secret_in_the_wrong_place_is_not_repeated() -> None:
    assert "sesame" not in refused(node, driver_info="sesame").message
    steps = {"interface": "raid", "step": "x", "args": {"password": "sesame"}}
    assert "sesame" not in refused(schemas.request_steps, StepKind.CLEAN, steps).message


@given(st.dictionaries(st.sampled_from([each.name for each in fields.NODE]) | st.text(), JSON))
def test_any_node_body_is_read_or_refused(body: dict[str, Any]) -> None:
    try:
        schemas.node(body, version=versions.LAST)
    except errors.InvalidRequest as fault:
        assert fault.message


# -- ports and chassis -----------------------------------------------------------------------


def port(version: int = versions.LAST, **body: Any) -> dict[str, Any]:
    return schemas.port({"address": MAC, "node_uuid": UUID, **body}, version=version)


def test_a_port_is_stored_in_lower_case() -> None:
    link = {"switch_id": "0A:1B:2C:3D:4E:5F", "port_id": "Eth1/1", "switch_info": "tor"}
    found = port(address=MAC.upper(), local_link_connection=link)
    assert found["address"] == MAC
    assert found["local_link_connection"]["switch_id"] == "0a:1b:2c:3d:4e:5f"


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ({"address": "52:54:00"}, "address"),
        ({"address": None}, "address"),
        ({"node_uuid": "x"}, "node_uuid"),
        ({"node_uuid": None}, "node_uuid"),
        ({"node_ident": "rack1"}, "node_uuid"),
        ({"physical_network": ""}, "physical_network"),
        ({"physical_network": "a" * 65}, "physical_network"),
        ({"vendor": "a" * 33}, "vendor"),
        ({"internal_info": {}}, "internal_info"),
        ({"foo": 1}, "foo"),
        ({"local_link_connection": {"switch_id": "0a:1b:2c:3d:4e:5f"}}, "local_link_connection"),
        (
            {"local_link_connection": {"switch_id": "tor", "port_id": "1"}},
            "local_link_connection/switch_id",
        ),
        ({"local_link_connection": {"speed": 1}}, "local_link_connection/speed"),
        (
            {
                "is_smartnic": True,
                "local_link_connection": {"switch_id": "0a1b2c3d4e5f0011", "port_id": "1"},
            },
            "local_link_connection",
        ),
    ],
)
def test_a_bad_port_is_refused_by_the_path_of_its_fault(body: dict[str, Any], path: str) -> None:
    assert refused(port, **body).facts["path"] == path


@pytest.mark.parametrize(
    "link",
    [
        {},
        {"switch_id": "0a1b2c3d4e5f0011", "port_id": "1"},
        {"port_id": "rep0-0", "hostname": "smart"},
        {"network_type": "unmanaged"},
    ],
)
def test_a_port_may_be_plugged_in_these_ways(link: dict[str, Any]) -> None:
    assert port(local_link_connection=link)["local_link_connection"] == link


def test_a_port_names_its_node_in_one_way() -> None:
    found = schemas.port({"address": MAC, "node_ident": "rack1"}, version=94)
    assert found["node_ident"] == "rack1"
    with pytest.raises(errors.NotAcceptable):
        schemas.port({"address": MAC, "node_ident": "rack1"}, version=93)
    refused(schemas.port, {"address": MAC}, version=versions.LAST)


def test_the_type_of_a_network_needs_its_version() -> None:
    with pytest.raises(errors.NotAcceptable):
        port(version=63, local_link_connection={"network_type": "unmanaged"})


def test_a_chassis_has_a_description_and_extra() -> None:
    assert chassis({"description": "row 4", "extra": {"a": 1}}, version=1) == {
        "description": "row 4",
        "extra": {"a": 1},
    }
    assert refused(chassis, {"description": "a" * 256}, version=1)


# -- steps -----------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [StepKind.CLEAN, StepKind.SERVICE])
def test_steps_are_handed_on_in_the_order_given(kind: StepKind) -> None:
    steps = [STEP, {**STEP, "args": {"a": 1}, "order": 2, "execute_on_child_nodes": True}]
    assert schemas.request_steps(kind, steps) == steps


@pytest.mark.parametrize(
    ("steps", "path"),
    [
        (None, "clean_steps"),
        ([], "clean_steps"),
        ({}, "clean_steps"),
        ("x", "clean_steps"),
        ([1], "clean_steps/0"),
        ([{"step": "x"}], "clean_steps/0/interface"),
        ([STEP, {"interface": "raid"}], "clean_steps/1/step"),
        ([{**STEP, "interface": "network"}], "clean_steps/0/interface"),
        ([{**STEP, "interface": ["raid"]}], "clean_steps/0/interface"),
        ([{**STEP, "step": ""}], "clean_steps/0/step"),
        ([{**STEP, "step": 1}], "clean_steps/0/step"),
        ([{**STEP, "args": []}], "clean_steps/0/args"),
        ([{**STEP, "priority": 1}], "clean_steps/0/priority"),
        ([{**STEP, "order": -1}], "clean_steps/0/order"),
        ([{**STEP, "execute_on_child_nodes": "yes"}], "clean_steps/0/execute_on_child_nodes"),
        (
            [{**STEP, "limit_child_node_execution": ["x"]}],
            "clean_steps/0/limit_child_node_execution/0",
        ),
    ],
)
def test_bad_clean_steps_are_refused_by_the_path_of_their_fault(steps: Any, path: str) -> None:
    fault = refused(schemas.request_steps, StepKind.CLEAN, steps)
    assert fault.facts["path"] == path
    assert fault.message.startswith("Invalid clean_steps") or "child" in path


@pytest.mark.parametrize(
    ("step", "path"),
    [
        (STEP, "deploy_steps/0/args"),
        ({**STEP, "args": {}}, "deploy_steps/0/priority"),
        ({**STEP, "args": {}, "priority": -1}, "deploy_steps/0/priority"),
        ({**STEP, "args": {}, "priority": 1.5}, "deploy_steps/0/priority"),
        ({**STEP, "args": {}, "priority": "high"}, "deploy_steps/0/priority"),
        ({**STEP, "args": {}, "priority": 1, "order": 1}, "deploy_steps/0/order"),
    ],
)
def test_bad_deploy_steps_are_refused_by_the_path_of_their_fault(step: Any, path: str) -> None:
    assert refused(schemas.request_steps, StepKind.DEPLOY, [step]).facts["path"] == path


def test_deploy_steps_take_priorities_as_digits_too() -> None:
    steps = [{**STEP, "args": {}, "priority": "90"}, {**STEP, "args": {}, "priority": 0}]
    assert schemas.request_steps(StepKind.DEPLOY, steps) == steps
    assert schemas.request_steps(StepKind.DEPLOY, []) == []


def test_a_step_the_operator_forbids_is_refused() -> None:
    raw = {"interface": "vendor", "step": "send_raw"}
    fault = refused(
        schemas.request_steps, StepKind.CLEAN, [STEP, raw], disallowed=["vendor.send_raw"]
    )
    assert "not allowed" in fault.message
    assert fault.facts["path"] == "clean_steps/1/step"


@given(st.sampled_from([StepKind.CLEAN, StepKind.DEPLOY, StepKind.SERVICE]), JSON)
def test_any_list_of_steps_is_read_or_refused(kind: StepKind, steps: Any) -> None:
    try:
        schemas.request_steps(kind, steps)
    except errors.InvalidParameter as fault:
        assert fault.facts["path"].startswith(f"{kind}_steps")


# -- the provision body ----------------------------------------------------------------------


@pytest.mark.parametrize("body", [None, [], "clean", {}, {"target": None}, {"clean_steps": []}])
def test_a_body_without_target_says_what_is_missing(body: Any) -> None:
    with pytest.raises(errors.MissingParameter, match="Missing mandatory parameter: target"):
        schemas.provision(body)


def test_an_unknown_key_of_the_provision_body_is_named() -> None:
    fault = refused(schemas.provision, {"target": "clean", "steps": []})
    known = ", ".join(sorted(verbs.BODY_KEYS))
    assert fault.message == f"Unexpected arguments: steps. Known here: {known}."


def test_nulls_count_as_not_given_and_words_as_booleans() -> None:
    body = {"target": "clean", "configdrive": None, "disable_ramdisk": "yes"}
    assert schemas.provision(body) == {"target": "clean", "disable_ramdisk": True}


@pytest.mark.parametrize(
    "body",
    [
        {"target": 3},
        {"target": ""},
        {"target": "rescue", "rescue_password": "  "},
        {"target": "rescue", "rescue_password": 12345},
        {"target": "clean", "disable_ramdisk": "maybe"},
        {"target": "clean", "runbook": 1},
    ],
)
def test_a_bad_provision_value_is_refused(body: Any) -> None:
    fault = refused(schemas.provision, body)
    assert fault.facts["path"] in body
    assert "12345" not in fault.message


def test_a_configdrive_is_an_object_a_url_or_a_gzipped_iso() -> None:
    iso = base64.encodebytes(gzip.compress(b"CD001" * 100)).decode()
    drive: dict[str, Any] = {"meta_data": {"a": 1}, "user_data": "#!/bin/sh", "vendor_data": {}}
    for good in (iso, "http://images/drive.iso", drive, {"user_data": None}):
        assert schemas.configdrive(good, version=versions.LAST) == good


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ("", "configdrive"),
        ("plain text", "configdrive"),
        (base64.b64encode(b"not gzip").decode(), "configdrive"),
        ("H4", "configdrive"),
        (5, "configdrive"),
        ([], "configdrive"),
        ({"meta_data": "x"}, "configdrive/meta_data"),
        ({"user_data": 5}, "configdrive/user_data"),
        ({"files": {}}, "configdrive/files"),
    ],
)
def test_any_other_configdrive_is_refused(given: Any, path: str) -> None:
    assert refused(schemas.configdrive, given, version=versions.LAST).facts["path"] == path


def test_a_configdrive_object_needs_its_version() -> None:
    cases: list[tuple[int, Any]] = [(55, {"meta_data": {}}), (58, {"vendor_data": {}})]
    for version, drive in cases:
        with pytest.raises(errors.NotAcceptable):
            schemas.configdrive(drive, version=version)
        schemas.configdrive(drive, version=version + 1)


# -- traits ----------------------------------------------------------------------------------


def test_traits_come_back_sorted_and_once() -> None:
    body = {"traits": ["HW_CPU_X86_VMX", "CUSTOM_B", "CUSTOM_A", "CUSTOM_B"]}
    assert schemas.trait_list(body) == ["CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_VMX"]
    assert schemas.trait_list({"traits": []}) == []


@pytest.mark.parametrize("body", [None, {}, [], {"traits": None}])
def test_a_body_without_traits_says_what_is_missing(body: Any) -> None:
    with pytest.raises(errors.MissingParameter):
        schemas.trait_list(body)


@pytest.mark.parametrize(
    ("traits", "path"),
    [
        ("CUSTOM_A", "traits"),
        (["custom_a"], "traits/0"),
        (["CUSTOM_A", "GOLD"], "traits/1"),
        (["CUSTOM_"], "traits/0"),
        ([7], "traits/0"),
        (["CUSTOM_" + "A" * 250], "traits/0"),
    ],
)
def test_bad_traits_are_refused(traits: Any, path: str) -> None:
    assert refused(schemas.trait_list, {"traits": traits}).facts["path"] == path
