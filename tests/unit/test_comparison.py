"""Differences between Ironic and this service: values, rules, and the report."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ironic_lite.core import masking
from ironic_lite.core.json_types import Json

pytestmark = pytest.mark.feature("move_in")
comparison = pytest.importorskip("ironic_lite.features.move_in.comparison")
differences = pytest.importorskip("ironic_lite.features.move_in.differences")

NODE: Json = {
    "uuid": "n1",
    "name": "r7-01",
    "links": [{"href": "http://there/", "rel": "self"}],
    "ports": [{"href": "http://there/ports", "rel": "self"}],
    "nodes": [[{"href": "http://there/nodes", "rel": "self"}]],
    "conductor": "c1",
    "power_state": "power off",
    "updated_at": "2026-01-01T00:00:00+00:00",
    "provision_state": "clean failed",
    "clean_step": {"step": "erase_devices"},
    "driver_internal_info": {"is_whole_disk_image": True, "clean_steps": []},
    "bios_interface": None,
    "health": "OK",
    "extra": {"rack": "a", "list": [{"x": 1}, {"x": 2}]},
    "traits": ["B", "A"],
}


def report(here: Any, there: Any = NODE, resource: str = "nodes", name: str = "n1") -> Json:
    """Return the report on one object, None for no object."""
    found = comparison.ComparisonReport()
    both = ({} if one is None else {"": one} for one in (there, here))
    found.compare(resource, name, *both)
    document: Json = found.document()
    return document


def paths(document: Json) -> list[str]:
    """Return the paths of unexpected differences."""
    return [one["path"] for one in document["differences"]]


def expected(document: Json) -> dict[str, int]:
    """Return the numbers of expected differences by their rules."""
    return {one["rule"]: one["count"] for one in document["expected"]}


def test_equal_objects_have_no_difference() -> None:
    found = report({**NODE, "traits": ["A", "B"]})
    assert (found["differences"], found["expected"], found["exit"]) == ([], [], 0)
    assert found["compared"] == {"nodes": 1}


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"extra": {**NODE["extra"], "rack": "b"}}, "nodes.extra.rack"),
        ({"extra": {**NODE["extra"], "list": [{"x": 1}, {"x": 3}]}}, "nodes.extra.list[].x"),
        ({"extra": {**NODE["extra"], "list": []}}, "nodes.extra.list"),
        ({"extra": {**NODE["extra"], "list": [{"x": True}, {"x": 2}]}}, "nodes.extra.list[].x"),
        ({"power_state": "power on"}, "nodes.power_state"),
        ({"name": None}, "nodes.name"),
        ({"bios_interface": 5, "traits": ["A"]}, "nodes.traits"),
        ({"driver_internal_info": {"clean_steps": []}}, "nodes.driver_internal_info.is_whole_disk"),
        ({"new": None}, "nodes.new"),
    ],
)
def test_changed_value_is_a_difference(change: Json, path: str) -> None:
    found = report({**NODE, **change})
    assert [one.startswith(path) for one in paths(found)] == [True]
    assert found["exit"] == 1


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"links": [{"href": "http://here/", "rel": "self"}]}, "links"),
        ({"ports": [{"href": "http://here/ports", "rel": "self"}]}, "links"),
        ({"nodes": [[{"href": "http://here/nodes", "rel": "self"}]]}, "links"),
        ({"conductor": "c2"}, "conductor"),
        ({"power_state": None}, "power state"),
        ({"updated_at": "2026-01-02T00:00:00+00:00"}, "power reading"),
        ({"clean_step": {}}, "steps"),
        ({"driver_internal_info": {"is_whole_disk_image": True}}, "driver_internal_info"),
        ({"bios_interface": "no-bios"}, "defaults"),
        ({"health": None}, "health"),
        ({"name": masking.MASK}, "masks"),
    ],
)
def test_expected_difference_is_counted_with_its_rule(change: Json, rule: str) -> None:
    found = report({**NODE, **change})
    assert (paths(found), expected(found), found["exit"]) == ([], {rule: 1}, 0)


def test_step_of_a_node_that_has_not_failed_is_a_difference() -> None:
    active = {**NODE, "provision_state": "active"}
    found = report({**active, "clean_step": {}}, active)
    assert paths(found) == ["nodes.clean_step.step"]


def test_object_of_one_side_is_a_difference() -> None:
    (gone,) = report(None)["differences"]
    (new,) = report(NODE, None)["differences"]
    assert (gone["path"], gone["count"], "here" in gone["examples"][0]) == ("nodes", 1, False)
    assert (new["path"], "there" in new["examples"][0]) == ("nodes", False)


HISTORY = next(one for one in comparison.DETAILS if one.key == "history")


def history(*times: int, event: str = "x") -> dict[str, Json]:
    """Return the entries of a node by their names, each with a UUID of its own."""
    entries = [{"created_at": f"2026-01-{day:02}", "event": event} for day in times]
    found: dict[str, Json] = comparison.objects(HISTORY, {"history": entries})
    return found


@pytest.mark.parametrize(
    ("there", "here", "count"),
    [((1, 2, 3), (2, 3, 4), 0), ((1, 2, 3), (1, 3), 1), ((1, 3), (1, 2, 3), 1), ((1, 2), (), 2)],
)
def test_entries_at_the_ends_of_a_history_are_expected(
    there: tuple[int, ...], here: tuple[int, ...], count: int
) -> None:
    found = comparison.ComparisonReport()
    found.compare("nodes/history", "n1", history(*there), history(*here))
    assert sum(one["count"] for one in found.document()["differences"]) == count


def test_event_of_the_import_and_fractions_of_seconds_are_expected() -> None:
    found = comparison.ComparisonReport()
    there, here = (
        comparison.objects(HISTORY, {"history": [{"created_at": at, "event": "x"}, *more]})
        for at, more in (
            ("2026-01-02T03:04:05+00:00", []),
            (
                "2026-01-02T03:04:05.6+00:00",
                [{"created_at": "2026-01-01", "event": "y", "event_type": "import"}],
            ),
        )
    )
    found.compare("nodes/history", "n1", there, here)
    at = {"updated_at": "2026-01-02T03:04:05+00:00"}
    found.compare("ports", "p1", {"": at}, {"": {"updated_at": "2026-01-02T03:04:05.7+00:00"}})
    found.compare("ports", "p2", {"": at}, {"": {"updated_at": "2026-01-02T03:04:06+00:00"}})
    document = found.document()
    assert [(one["path"], one["count"]) for one in document["differences"]] == [
        ("ports.updated_at", 1)
    ]
    assert {one["rule"]: one["count"] for one in document["expected"]} == {"times": 2, "history": 1}


def test_secrets_are_masked_before_they_are_compared() -> None:
    nodes, bios = comparison.LISTINGS[0], comparison.DETAILS[1]
    info = {"configdrive": "s3cret", "redfish_password": "s3cret"}
    node = {"uuid": "n", "instance_info": info, "driver_info": {"a": "http://u:s3cret@h/"}}
    setting = {"name": "AdminPhrase", "value": "s3cret", "attribute_type": "Password"}
    properties = {"auth_password": "s3cret", "auth_username": "u"}
    target = {"uuid": "t", "properties": properties}
    found = [
        comparison.objects(nodes, {"nodes": [node]}),
        comparison.objects(bios, {"bios": [setting]}),
        comparison.objects(comparison.LISTINGS[5], {"targets": [target]}),
    ]
    assert "s3cret" not in json.dumps(found)


def test_report_has_three_examples_of_each_path_and_the_largest_first() -> None:
    found = comparison.ComparisonReport()
    for number in range(5):
        here = {**NODE, "extra": {"rack": "b\x1b[2J" + "x" * 500}}
        if number == 4:
            here = {**here, "owner": "p"}
        found.compare("nodes", f"n{number}", {"": NODE}, {"": here})
    first, *_, last = found.document()["differences"]
    assert (first["count"], len(first["examples"])) == (5, 3)
    assert (last["path"], last["count"]) == ("nodes.owner", 1)
    text = "\n".join(comparison.lines(found.document()))
    assert "r7-01" in text
    assert "\x1b" not in text
    assert max(map(len, text.splitlines())) < 1000


def test_number_of_paths_is_bounded() -> None:
    found = report({"uuid": "n1", "extra": {f"k{one}": 1 for one in range(5000)}}, {"extra": {}})
    assert len(found["differences"]) == comparison.MOST_PATHS + 1
    assert found["differences"][0]["path"] == comparison.OTHER_PATHS


def test_body_without_its_list_is_no_list_of_objects() -> None:
    assert comparison.objects(comparison.LISTINGS[0], {"nodes": [5]}) is None
    assert comparison.objects(comparison.LISTINGS[0], {}) is None


def test_boot_device_of_a_bmc_that_is_silent_for_one_service_is_expected() -> None:
    found = comparison.ComparisonReport()
    device = {"boot_device": "disk", "persistent": True}
    found.compare("nodes/boot device", "n1", {"": "status 504"}, {"": device})
    found.compare("nodes/boot device", "n2", {"": device}, {"": {**device, "persistent": False}})
    unset = {"boot_device": None, "persistent": False}
    found.compare("nodes/boot device", "n3", {"": unset}, {"": {**unset, "persistent": None}})
    document = found.document()
    assert [(one["rule"], one["count"]) for one in document["expected"]] == [("boot device", 2)]
    assert [one["path"] for one in document["differences"]] == ["nodes/boot device.persistent"]


IMPORT: Json = {
    "selection": {"groups": [], "nodes": []},
    "left_out": [{"uuid": "n2", "name": "r7-02"}],
    "maps": {
        "names": {"driver": {"ilo": "redfish"}, "storage": {"cinder": "noop"}},
        "paths": [["/etc/ironic/ca", "/etc/ironic-lite/ca"]],
    },
}


def moved(there: Json, here: Json, document: Json = IMPORT) -> tuple[list[str], dict[str, int]]:
    """Return the unexpected paths and the expected numbers of one node after an import."""
    found = comparison.ComparisonReport(differences.MoveNotes.read([document]))
    found.compare("nodes", "n1", {"": there}, {"": here} if here else {})
    return paths(found.document()), expected(found.document())


@pytest.mark.parametrize(
    ("there", "here"),
    [
        ({"driver": "ilo", "bios_interface": "ilo"}, {"driver": "redfish", "bios_interface": "x"}),
        ({"driver": "ilo", "driver_info": {"ilo_address": "h"}}, {"driver": "redfish"}),
        ({"storage_interface": "cinder"}, {"storage_interface": "noop"}),
        (
            {"driver_info": {"redfish_verify_ca": "/etc/ironic/ca/a.pem"}},
            {"driver_info": {"redfish_verify_ca": "/etc/ironic-lite/ca/a.pem"}},
        ),
    ],
)
def test_names_that_the_import_has_mapped_are_expected(there: Json, here: Json) -> None:
    unexpected, rules = moved(there, here)
    assert (unexpected, list(rules)) == ([], ["maps"])


@pytest.mark.parametrize(
    ("there", "here"),
    [
        ({"driver": "ilo"}, {"driver": "ipmi"}),
        ({"storage_interface": "cinder"}, {"storage_interface": "external"}),
        ({"driver_info": {"a": "/etc/ironic/ca"}}, {"driver_info": {"a": "/etc/x"}}),
    ],
)
def test_other_names_than_those_of_the_maps_are_differences(there: Json, here: Json) -> None:
    unexpected, rules = moved(there, here)
    assert (len(unexpected), rules) == (1, {})


def test_left_out_node_and_its_parts_are_expected() -> None:
    found = comparison.ComparisonReport(differences.MoveNotes.read([IMPORT]))
    for ident in ("n1", "n2"):
        found.compare("nodes", ident, {"": {"uuid": ident}}, {})
        found.compare("ports", f"p{ident}", {"": {"uuid": f"p{ident}", "node_uuid": ident}}, {})
    assert paths(found.document()) == ["nodes", "ports"]
    assert expected(found.document()) == {"left out": 2}


@pytest.mark.parametrize(
    ("selection", "absent"),
    [
        ({"groups": ["rack"], "nodes": []}, True),
        ({"groups": [], "nodes": ["r7-02"]}, True),
        ({"groups": ["row"], "nodes": []}, False),
        ({"groups": [], "nodes": ["r7-01"]}, False),
        ({"groups": [], "nodes": []}, False),
    ],
)
def test_nodes_that_were_not_selected_are_expected(selection: Json, absent: bool) -> None:
    node = {"uuid": "n1", "name": "r7-01", "conductor_group": "Row"}
    unexpected, rules = moved(node, {}, {**IMPORT, "selection": selection})
    assert (unexpected == [], "left out" in rules) == (absent, absent)


def test_secrets_that_the_import_drops_are_expected() -> None:
    there = {"instance_info": {"rescue_password": "******", "a": 1}}
    assert moved(there, {"instance_info": {"a": 1}}) == ([], {"dropped": 1})
    setting = {"name": "s", "value": "******", "attribute_type": "Password"}
    found = report({**setting, "value": None}, setting, "nodes/bios")
    assert expected(found) == {"dropped": 1}
    error = {"provision_state": "error", "target_provision_state": "available"}
    assert moved(error, {**error, "target_provision_state": None}) == ([], {"targets": 1})
