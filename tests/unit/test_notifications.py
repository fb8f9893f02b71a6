"""Every event has a decision, and what is told has the form that consumers of Ironic's know."""

from __future__ import annotations

import ast
import datetime
import functools
import itertools
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite.core.masking import MASK
from ironic_lite.domain import fields, notifications, states
from ironic_lite.domain.states import State

CODE = pathlib.Path(__file__).parents[2] / "ironic_lite"
KIND = {"history.event_row": 2, "history.resource_event_row": 1}
"""The place of the kind among the arguments."""
COMPOSED = "f'{self.word}_{what}'"
"""How ``api.resources.crud`` makes the kinds of its families."""
Written = tuple[str, str | None]

# -- every event of the code base ------------------------------------------------------------


@pytest.fixture(autouse=True, scope="module")
def freed_trees() -> Iterator[None]:
    """Free the trees, because each garbage collection of a later test would visit them."""
    yield
    trees.cache_clear()
    calls.cache_clear()


@functools.cache
def trees() -> list[tuple[str, ast.Module]]:
    return [
        (str(path.relative_to(CODE)), ast.parse(path.read_text()))
        for path in sorted(CODE.rglob("*.py"))
    ]


@functools.cache
def calls(tree: ast.AST) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


def name(call: ast.Call) -> str:
    """Return the last two words of what is called, such as ``journal.event``; none is private."""
    *before, last = tail(call.func)
    return ".".join(word.lstrip("_") for word in [*before[-1:], last])


def tail(node: ast.expr) -> list[str]:
    """Return the words at the end of a dotted name; `ast.unparse` would render all before them."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        return [*tail(node.value)[-1:], node.attr]
    return [""]


def constant(node: ast.expr | None) -> str | None:
    return str(node.value) if isinstance(node, ast.Constant) else None


def of_journal(tree: ast.Module) -> Iterator[Written]:
    for call in calls(tree):
        if name(call) == "journal.event":
            kind = constant(call.args[0])
            assert kind is not None, f"{ast.unparse(call)}: write its kind as a string"
            said = [each.value for each in call.keywords if each.arg == "event"]
            yield kind, constant(said[0]) if said else None


def of_api(tree: ast.Module) -> Iterator[Written]:
    """Find the kinds given to ``event_row``, through functions that pass them on, too."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        parameters = [each.arg for each in function.args.args if each.arg != "self"]
        for call in calls(function):
            if name(call) not in KIND:
                continue
            kind = call.args[KIND[name(call)]]
            if isinstance(kind, ast.Name):
                yield from passed_on(tree, function.name, parameters.index(kind.id))
            elif ast.unparse(kind) != COMPOSED:
                assert isinstance(kind, ast.Constant), f"{ast.unparse(call)}: what kind is it?"
                yield str(kind.value), None


def passed_on(tree: ast.Module, function: str, place: int) -> Iterator[Written]:
    (module,) = (pathlib.Path(path).stem for path, one in trees() if one is tree)
    here = [call for call in calls(tree) if name(call).split(".")[-1] == function.lstrip("_")]
    others = [call for _, one in trees() if one is not tree for call in calls(one)]
    for call in [*here, *(each for each in others if name(each) == f"{module}.{function}")]:
        if len(call.args) > place:
            kinds = strings(tree, call.args[place])
            assert kinds, f"{ast.unparse(call)}: write its kind as a string"
            yield from ((kind, None) for kind in kinds)


def strings(tree: ast.Module, node: ast.expr) -> list[str]:
    """Return the string of an expression, or all that it may take from a table of the module."""
    if not isinstance(node, ast.Subscript):
        kind = constant(node)
        return [] if kind is None else [kind]
    tables = (each for each in tree.body if isinstance(each, ast.Assign))
    (table,) = (each for each in tables if ast.unparse(each.targets[0]) == ast.unparse(node.value))
    assert isinstance(table.value, ast.Dict), f"{ast.unparse(node)} is no table of kinds"
    return [str(constant(each)) for each in table.value.values]


def of_families() -> Iterator[Written]:
    """Find the kinds composed of a family's word and what has become of a member."""
    known = dict(trees())
    whats = became(known["api/resources/crud.py"])
    for tree in known.values():
        for node in ast.walk(tree):
            for word in words(node) if isinstance(node, ast.ClassDef) else ():
                yield from ((f"{word}_{what}", None) for what in whats | became(tree))


def became(tree: ast.Module) -> set[str]:
    found = [call for call in calls(tree) if name(call).endswith(".record")]
    told = [call.args[2] for call in found if len(call.args) > 3]
    whats = {constant(what) for what in told}
    assert None not in whats, "write as a string what has become of the member"
    return {str(what) for what in whats}


def words(family: ast.ClassDef) -> Iterator[str]:
    bases = [ast.unparse(base) for base in family.bases]
    if any(base.startswith(("crud.", "_Volumes")) for base in bases):
        for node in family.body:
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "word":
                yield str(constant(node.value))


def of_rows(tree: ast.Module) -> Iterator[Written]:
    """Find the kinds of rows that are written out where they are added."""
    if any(name(call) == "events.add" for call in calls(tree)):
        for node in ast.walk(tree):
            if isinstance(node, ast.Dict):
                row = {constant(key): constant(value) for key, value in pairs(node)}
                if row.get("kind") is not None:
                    yield str(row["kind"]), row.get("event")


def pairs(node: ast.Dict) -> Iterator[tuple[ast.expr | None, ast.expr]]:
    return zip(node.keys, node.values, strict=True)


@functools.cache
def written() -> frozenset[Written]:
    """Return (kind, event) of every event that the code writes."""
    finders = (of_journal, of_api, of_rows)
    found = (one for _, tree in trees() for find in finders for one in find(tree))
    return frozenset(itertools.chain(found, of_families()))


def row(kind: str, event: str | None = None, **more: Any) -> dict[str, Any]:
    blank = dict.fromkeys(("before", "after", "data", "run_uuid"))
    return {**blank, "kind": kind, "event": event, **more}


def test_the_scan_sees_what_is_written() -> None:
    kinds = {kind for kind, _ in written()}
    assert {"provision", "step_started", "power", "fault", "taken_over"} <= kinds
    assert {"node_created", "node_updated", "traits_updated", "port_deleted"} <= kinds
    assert {"chassis_created", "chassis_updated", "deploy_template_deleted"} <= kinds
    assert {"portgroup_created", "volume_connector_updated", "volume_target_deleted"} <= kinds
    assert {("power", "start"), ("power", "end"), ("power", "fail")} <= written()


def test_every_event_of_the_code_base_has_a_decision() -> None:
    undecided = {one for one in written() if notifications.rule(row(*one)) is None}
    assert undecided == set(), "give each of them a row in ironic_lite.domain.notifications.TABLE"


def test_every_row_is_for_an_event_that_is_written() -> None:
    kinds = {kind for kind, _ in written()}
    assert {rule.kind for rule in notifications.TABLE} - kinds == set()


def test_events_are_written_where_the_scan_looks() -> None:
    writers = {path for path, tree in trees() for call in calls(tree) if name(call) == "events.add"}
    known = {path for path, tree in trees() if [*of_api(tree), *of_rows(tree)]}
    others = {"api/resources/crud.py"}
    assert writers - known == others


def test_no_row_is_there_twice() -> None:
    keys = [(rule.kind, rule.case) for rule in notifications.TABLE]
    assert len(keys) == len(set(keys))


def test_a_row_that_tells_nobody_says_why() -> None:
    assert [rule for rule in notifications.TABLE if not rule.about] == []


# -- what each case is told as ---------------------------------------------------------------

NODE: dict[str, Any] = {
    **{field.stored: None for field in fields.NODE if field.stored},
    "uuid": "1be26c0b-03f2-4d2e-ae87-c02d7f33c781",
    "driver": "fake-hardware",
}


def told(*events: dict[str, Any]) -> list[tuple[str, str]]:
    return [(notice.event_type, notice.level) for notice in notifications.of(events, NODE)]


@pytest.mark.parametrize(
    ("before", "event", "after", "status", "level"),
    [
        ("manageable", "clean", "cleaning", "start", "info"),
        ("enroll", "manage", "verifying", "start", "info"),
        ("clean failed", "provide", "cleaning", "start", "info"),
        ("clean hold", "unhold", "clean wait", "start", "info"),
        ("cleaning", "manage", "manageable", "end", "info"),
        ("deploying", "done", "active", "end", "info"),
        ("clean wait", "abort", "clean failed", "end", "info"),
        ("cleaning", "hold", "clean hold", "end", "info"),
        ("cleaning", "wait", "clean wait", "success", "info"),
        ("clean wait", "resume", "cleaning", "success", "info"),
        ("deleting", "clean", "cleaning", "success", "info"),
        ("available", "manage", "manageable", "success", "info"),
        ("cleaning", "fail", "clean failed", "error", "error"),
        ("verifying", "fail", "enroll", "error", "error"),
        ("clean wait", "fail", "clean failed", "error", "error"),
    ],
)
def test_a_move_ends_by_what_it_leaves_and_where_it_leads(
    before: str, event: str, after: str, status: str, level: str
) -> None:
    move = row("provision", event, before=before, after=after)
    assert told(move) == [(f"baremetal.node.provision_set.{status}", level)]


def test_every_transition_is_told() -> None:
    for transition in states.TABLE:
        for source in transition.sources:
            after = states.follow(State(source), transition.event)
            move = row("provision", transition.event, before=str(source), after=str(after))
            assert len(told(move)) == 1


ON, OFF = "power on", "power off"


@pytest.mark.parametrize(
    ("event", "said"),
    [
        (row("power", "start", before=OFF, after=ON), [("power_set.start", "info")]),
        (row("power", "end", before=OFF, after=ON), [("power_set.end", "info")]),
        (row("power", "fail", before=OFF, after=OFF), [("power_set.error", "error")]),
        (row("power", "reset", after=ON), [("power_set.end", "info")]),
        (
            row("power", "changed", before=OFF, after=ON),
            [("power_state_corrected.success", "info")],
        ),
        (
            row("power", "changed", before=ON, after=None),
            [("power_state_corrected.success", "info")],
        ),
        (
            row("power", "changed", before=OFF, after=ON, run_uuid="a-run"),
            [("power_set.end", "info")],
        ),
        (
            row("power", "changed", before=None, after=ON, run_uuid="a-run"),
            [("power_state_corrected.success", "info")],
        ),
    ],
    ids=lambda value: "-".join(map(str, value.values())) if isinstance(value, dict) else "",
)
def test_power(event: dict[str, Any], said: list[tuple[str, str]]) -> None:
    assert told(event) == [(f"baremetal.node.{kind}", level) for kind, level in said]


def test_a_power_request_that_fails_tells_what_was_asked_for() -> None:
    fail = row("power", "fail", before=OFF, after=OFF, data={"error": "smoke", "wanted": ON})
    (found,) = notifications.of([fail], NODE)
    assert found.more == {"to_power": ON}


def test_a_power_request_that_ends_is_told_once() -> None:
    end = row("power", "end", before=OFF, after=ON)
    changed = row("power", "changed", before=OFF, after=ON)
    assert told(end, changed) == [("baremetal.node.power_set.end", "info")]
    assert told(changed, end) == [("baremetal.node.power_set.end", "info")]


@pytest.mark.parametrize(
    ("changed", "action"),
    [
        (["maintenance", "maintenance_reason"], "maintenance_set"),
        (["fault", "maintenance", "maintenance_reason"], "maintenance_set"),
        (["maintenance_reason"], "maintenance_set"),
        (["maintenance", "name"], "update"),
        (["extra"], "update"),
        ([], "update"),
    ],
    ids=str,
)
def test_maintenance_alone_has_a_type_of_its_own(changed: list[str], action: str) -> None:
    assert told(row("node_updated", data={"fields": changed})) == [
        (f"baremetal.node.{action}.end", "info")
    ]


@pytest.mark.parametrize(
    ("what", "word"),
    [
        ("node", "node"),
        ("port", "port"),
        ("portgroup", "portgroup"),
        ("volume_connector", "volumeconnector"),
        ("volume_target", "volumetarget"),
        ("chassis", "chassis"),
        ("deploy_template", "deploytemplate"),
    ],
)
@pytest.mark.parametrize("kind", ["created", "updated", "deleted"])
def test_change_of_a_stored_resource_is_notified(what: str, word: str, kind: str) -> None:
    assert told(row(f"{what}_{kind}")) == [(f"baremetal.{word}.{kind[:-1]}.end", "info")]


def test_a_fault_is_told_as_the_maintenance_it_leads_to() -> None:
    fault = row("fault", "rescue abort failure", data={"error": "smoke"})
    assert told(fault) == [("baremetal.node.maintenance_set.end", "info")]


@pytest.mark.parametrize("kind", ["step_started", "step_ended", "taken_over", "abort_requested"])
def test_steps_are_not_told(kind: str) -> None:
    assert told(row(kind)) == []


def test_a_kind_that_the_table_lacks_is_no_fault_at_run_time() -> None:
    assert told(row("of_tomorrow")) == []


# -- payloads --------------------------------------------------------------------------------


def names(text: str) -> set[str]:
    return set(text.split())


# Field names and versions as consumers know them, by payload object.
OF_NODE = names(
    "clean_step conductor_group console_enabled created_at deploy_step description "
    "disable_power_off driver extra boot_mode secure_boot inspection_finished_at "
    "inspection_started_at instance_uuid last_error maintenance maintenance_reason fault "
    "bios_interface boot_interface console_interface deploy_interface inspect_interface "
    "management_interface network_interface power_interface raid_interface rescue_interface "
    "storage_interface vendor_interface name owner lessee power_state properties protected "
    "protected_reason provision_state provision_updated_at resource_class retired "
    "retired_reason target_power_state target_provision_state traits updated_at uuid"
)
KNOWN: dict[str, tuple[str, set[str]]] = {
    "NodePayload": ("1.17", OF_NODE),
    "NodeCRUDPayload": ("1.15", OF_NODE | {"chassis_uuid", "driver_info", "instance_info"}),
    "NodeSetProvisionStatePayload": (
        "1.18",
        OF_NODE
        | {"driver_internal_info", "instance_info", "event"}
        | {"previous_provision_state", "previous_target_provision_state"},
    ),
    "NodeSetPowerStatePayload": ("1.17", OF_NODE | {"to_power"}),
    "NodeCorrectedPowerStatePayload": ("1.17", OF_NODE | {"from_power"}),
    "PortCRUDPayload": (
        "1.8",
        names(
            "address extra local_link_connection pxe_enabled node_uuid portgroup_uuid "
            "physical_network created_at updated_at uuid is_smartnic name description vendor "
            "category available_for_dynamic_portgroup"
        ),
    ),
    "PortgroupCRUDPayload": (
        "1.3",
        names(
            "address category extra mode name node_uuid physical_network properties "
            "standalone_ports_supported created_at updated_at uuid dynamic_portgroup"
        ),
    ),
    "VolumeConnectorCRUDPayload": (
        "1.0",
        names("connector_id extra node_uuid type created_at updated_at uuid"),
    ),
    "VolumeTargetCRUDPayload": (
        "1.0",
        names(
            "boot_index extra node_uuid properties volume_id volume_type created_at updated_at uuid"
        ),
    ),
    "ChassisCRUDPayload": ("1.0", names("description extra created_at updated_at uuid")),
    "AllocationCRUDPayload": (
        "1.1",
        names(
            "candidate_nodes created_at extra last_error name node_uuid owner resource_class "
            "state traits updated_at uuid"
        ),
    ),
    "RunbookCRUDPayload": (
        "1.1",
        names(
            "created_at description disable_ramdisk extra name owner public steps traits "
            "updated_at uuid"
        ),
    ),
    "InspectionRuleCRUDPayload": (
        "1.0",
        names("actions conditions created_at description phase priority sensitive updated_at uuid"),
    ),
    "DeployTemplateCRUDPayload": ("1.0", names("name steps extra created_at updated_at uuid")),
}


def notice(
    shape: notifications.Shape, about: dict[str, Any] | None = None
) -> notifications.Notification:
    return notifications.Notification(
        "some.type", "info", shape, about or NODE, dict.fromkeys(shape.more)
    )


@pytest.mark.parametrize("shape", notifications.SHAPES, ids=lambda shape: shape.name)
def test_a_payload_has_the_fields_of_its_version(shape: notifications.Shape) -> None:
    payload = notice(shape).payload()
    version, known = KNOWN[shape.name]
    assert payload["ironic_object.name"] == shape.name
    assert payload["ironic_object.namespace"] == "ironic"
    assert payload["ironic_object.version"] == version
    assert set(payload["ironic_object.data"]) == known


def test_all_payload_objects_are_used() -> None:
    assert {rule.shape for rule in notifications.TABLE if rule.shape} == set(notifications.SHAPES)


def test_a_move_tells_where_the_node_came_from() -> None:
    move = row("provision", "clean", before="manageable", after="cleaning")
    about = {**NODE, "provision_state": "cleaning", "target_provision_state": "manageable"}
    (found,) = notifications.of([move], about, previous_target="available")
    data = found.payload(["CUSTOM_A"])["ironic_object.data"]
    assert data["event"] == "clean"
    assert data["previous_provision_state"] == "manageable"
    assert data["previous_target_provision_state"] == "available"
    assert (data["provision_state"], data["traits"]) == ("cleaning", ["CUSTOM_A"])


def test_times_are_whole_seconds_of_utc() -> None:
    at = datetime.datetime(2030, 1, 2, 3, 4, 5, 678)
    data = notice(notifications.NODE, {**NODE, "created_at": at}).payload()["ironic_object.data"]
    assert (data["created_at"], data["updated_at"]) == ("2030-01-02T03:04:05Z", None)


def test_the_last_heartbeat_is_the_one_that_the_api_has_recorded() -> None:
    notes = {"agent_last_heartbeat": "2030-01-02T03:04:05"}
    later = datetime.datetime(2030, 1, 2, 4)
    about = {**NODE, "driver_internal_info": notes, "agent_heard_at": later}
    shape = next(one for one in notifications.SHAPES if "driver_internal_info" in one.names)
    data = notice(shape, about).payload()["ironic_object.data"]
    assert data["driver_internal_info"]["agent_last_heartbeat"] == later.isoformat()


def test_an_empty_object_is_one_and_not_null() -> None:
    data = notice(notifications.NODE_CRUD).payload()["ironic_object.data"]
    assert (data["clean_step"], data["extra"], data["instance_info"]) == ({}, {}, {})


@pytest.mark.parametrize("shape", notifications.SHAPES, ids=lambda shape: shape.name)
def test_no_secret_is_told(shape: notifications.Shape) -> None:
    objects = [name for name in shape.names if is_object(shape, name)]
    held = {"ok": "shown", "redfish_password": "sesame", "deep": [{"agent_token": "sesame"}]}
    about = {**NODE, **dict.fromkeys(objects, held), "last_error": "no https://me:sesame@bmc/"}
    payload = notice(shape, about).payload()
    assert "sesame" not in str(payload)
    for name in objects:
        shown = payload["ironic_object.data"][name]
        assert (shown["ok"], shown["redfish_password"]) == ("shown", MASK)


def is_object(shape: notifications.Shape, name: str) -> bool:
    field = fields.by_name(shape.table)[name]
    return field.type is fields.Type.OBJECT or field.secret


def test_a_config_drive_is_a_secret_where_it_stands() -> None:
    about = {**NODE, "instance_info": {"configdrive": "sesame", "image_source": "http://i"}}
    data = notice(notifications.NODE_CRUD, about).payload()["ironic_object.data"]
    assert data["instance_info"] == {"configdrive": MASK, "image_source": "http://i"}
