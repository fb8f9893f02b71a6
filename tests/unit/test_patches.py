"""A JSON patch is applied as a whole or refused as a whole, under the rules of the node's state."""

from __future__ import annotations

import copy
import time
from typing import Any

import jsonpatch
import jsonpointer
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.api.resources import patches
from ironic_lite.core import masking
from ironic_lite.domain import fields, states, versions
from ironic_lite.domain.states import State

UUID = "9c5f1c32-5a0c-4a3f-8a0a-6d1d0b0a9c77"
OTHER = "00000000-5a0c-4a3f-8a0a-6d1d0b0a9c77"
Json = dict[str, Any]


def row(**values: Any) -> Json:
    """A node as the database has it: manageable, and quiet."""
    return {
        **{field.stored: None for field in fields.NODE if field.stored},
        "uuid": UUID,
        "name": "one",
        "driver": "fake-hardware",
        "driver_info": {"fake_step_seconds": 1},
        "properties": {"cpus": 4, "list": ["a", "b"]},
        "instance_info": {},
        "maintenance": False,
        "protected": False,
        "retired": False,
        "console_enabled": False,
        "disable_power_off": False,
        "conductor_group": "",
        "provision_state": "manageable",
        **values,
    }


def op(kind: str, path: Any, *value: Any) -> Json:
    return {"op": kind, "path": path, **({"value": value[0]} if value else {})}


def of_node(before: Json, body: Any, version: int = versions.LAST) -> Json:
    operations = patches.read(fields.NODE, body, version=version)
    return patches.node(before, operations, version=version)


def of_chassis(before: Json, body: Any) -> Json:
    operations = patches.read(fields.CHASSIS, body, version=1)
    return patches.resource(fields.CHASSIS, before, operations, version=1, what="chassis")


def of_port(before: Json, owner: Json, *body: Any) -> Json:
    operations = patches.read(fields.PORT, list(body), version=versions.LAST)
    return patches.port(before, operations, version=versions.LAST, owner=owner)


def patch(*operations: Any, version: int = versions.LAST, **values: Any) -> Json:
    return of_node(row(**values), list(operations), version)


def refused(*operations: Any, **more: Any) -> errors.InvalidParameter:
    with pytest.raises(errors.InvalidParameter) as caught:
        patch(*operations, **more)
    return caught.value


def forbidden(*operations: Any, **more: Any) -> errors.Conflict:
    with pytest.raises(errors.Conflict) as caught:
        patch(*operations, **more)
    return caught.value


# -- the form of a patch ---------------------------------------------------------------------


@pytest.mark.parametrize("body", [None, {}, "x", 3, [3], [[]], [None]])
def test_a_patch_is_a_list_of_operations(body: Any) -> None:
    with pytest.raises(errors.InvalidParameter):
        of_node(row(), body)


@pytest.mark.parametrize(
    ("operation", "path"),
    [
        ({}, "0/op"),
        (op("test", "/name", "one"), "0/op"),
        ({"op": "move", "path": "/extra/a", "from": "/extra/b"}, "0/op"),
        ({"op": "copy", "path": "/extra/a", "from": "/extra/b"}, "0/op"),
        ({"op": ["add"], "path": "/name", "value": 1}, "0/op"),
        ({"op": "add", "value": 1}, "0/path"),
        (op("add", "", {}), "0/path"),
        (op("add", "/", {}), "0/path"),
        (op("add", "name", "x"), "0/path"),
        (op("add", "/extra/", "x"), "0/path"),
        (op("add", "/extra/a~2", "x"), "0/path"),
        (op("add", 5, "x"), "0/path"),
        (op("add", "/name"), "0/value"),
        (op("replace", "/extra/a"), "0/value"),
        ({**op("add", "/name", "x"), "from": "/extra"}, "0/from"),
        (op("remove", "/driver"), "0/path"),
        (op("replace", "/driver", None), "0/path"),
        (op("replace", "/name/first", "x"), "0/path"),
    ],
)
def test_a_malformed_operation_is_refused_by_its_place(operation: Any, path: str) -> None:
    assert refused(operation).facts["path"] == path


@pytest.mark.parametrize(
    "name",
    [field.name for field in fields.NODE if not field.patchable] + ["foo", "generation", "id"],
)
def test_other_fields_cannot_be_patched(name: str) -> None:
    fault = refused(op("add", f"/{name}", "x"))
    assert fault.message.startswith(f"Cannot patch /{name}. Only the following")


@pytest.mark.parametrize("field", [each for each in fields.NODE if each.patchable])
def test_a_field_newer_than_the_version_is_not_acceptable(field: fields.Field) -> None:
    if field.since > 1:
        with pytest.raises(errors.NotAcceptable):
            patch(op("add", f"/{field.name}", None), version=field.since - 1)


def test_keys_with_any_character_can_be_reached_from_1_98_on() -> None:
    held = {"a.b": 1, "c/d": 2}
    paths = (op("replace", "/extra/a.b", 3), op("remove", "/extra/c~1d"))
    assert patch(*paths, extra=held, version=98) == {"extra": {"a.b": 3}}
    refused(*paths, extra=held, version=97)


# -- its effect ------------------------------------------------------------------------------


def test_an_empty_patch_changes_nothing_in_any_state() -> None:
    for state in State:
        assert patch(provision_state=state.value, target_provision_state="active") == {}


def test_only_columns_that_change_come_back() -> None:
    assert patch(op("replace", "/name", "one"), op("add", "/extra", {})) == {}
    assert patch(op("replace", "/name", "two"), op("add", "/owner", "me")) == {
        "name": "two",
        "owner": "me",
    }


def test_nested_values_are_patched_in_their_column() -> None:
    before = row()
    held = copy.deepcopy(before)
    changed = of_node(
        before, [op("add", "/properties/list/-", "c"), op("remove", "/properties/cpus")]
    )
    assert changed == {"properties": {"list": ["a", "b", "c"]}}
    assert before == held


def test_a_null_column_takes_nested_values_as_an_empty_object_would() -> None:
    assert patch(op("add", "/extra/a", 1), extra=None) == {"extra": {"a": 1}}


def test_true_is_not_one() -> None:
    assert patch(op("replace", "/extra/a", True), extra={"a": 1}) == {"extra": {"a": True}}


@pytest.mark.parametrize(
    "operation",
    [
        op("remove", "/extra/absent"),
        op("replace", "/extra/absent", 1),
        op("add", "/extra/absent/deeper", 1),
        op("remove", "/properties/list/9"),
        op("replace", "/properties/list/x", 1),
        op("remove", "/properties/list/-"),
        op("add", "/properties/cpus/x", 1),
        op("remove", "/properties/list/0/x"),
    ],
)
def test_patch_that_cannot_be_applied_is_refused(operation: Json) -> None:
    assert "Couldn't apply patch" in refused(operation).message


@pytest.mark.parametrize(
    "operation",
    [
        op("add", "/driver_info/absent/deeper", 1),
        op("replace", "/driver_info/absent/deeper", 1),
        op("remove", "/driver_info/redfish_password/0"),
        op("add", "/driver_info/redfish_password/0/0", 1),
        op("add", "/driver_info/list/9/x", 1),
        op("add", "/driver_info/list/-/x", 1),
    ],
)
def test_a_refusal_repeats_nothing_that_is_stored(operation: Json) -> None:
    said = refused(operation, driver_info={"redfish_password": "hunter2", "list": ["hunter2"]})
    assert "hunter2" not in said.message
    assert "hunter2" not in str(said.facts)
    assert "jsonpointer" not in said.message


_PAIR: Json = {"name": "AdminPassword", "value": "s3cret"}
_PLACE: Json = {"path": "driver_info/ipmi_password", "value": "s3cret"}
_WRITTEN = ["driver_info/ipmi_password", "s3cret"]
_NOTED: Json = {"op": "set-plugin-data", "args": ["token", "s3cret"]}
_MASKED = "******"


@pytest.mark.parametrize(
    ("held", "operations"),
    [
        (_PAIR, [("replace", "/name", "x")]),
        (_PAIR, [("remove", "/name")]),
        (_PAIR, [("add", "/name", "x"), ("replace", "/name", "y")]),
        (_PAIR, [("replace", "", {"name": "x", "value": _MASKED})]),
        (_PLACE, [("replace", "/path", "extra/x")]),
        (_PLACE, [("replace", "", {"path": "extra/x", "value": _MASKED})]),
        (_WRITTEN, [("replace", "/0", "extra/x")]),
        (_WRITTEN, [("remove", "/0")]),
        (_WRITTEN, [("add", "/0", "extra/x")]),
        (_WRITTEN, [("replace", "", ["extra/x", _MASKED])]),
        (_NOTED, [("replace", "/args/0", "x")]),
        (_NOTED, [("replace", "/args", ["x", _MASKED])]),
    ],
    ids=repr,
)
@pytest.mark.parametrize("more", [False, True])
def test_a_secret_is_not_kept_under_another_name(
    held: Any, operations: list[tuple[Any, ...]], more: bool
) -> None:
    """Its name is what hides it; with another name, the client must send the value again."""
    wanted = [op(kind, f"/driver_info/all/0{place}", *to) for kind, place, *to in operations]
    if more:  # then items are found again by how they look alone
        wanted.append(op("add", "/driver_info/all/-", {"name": "z"}))
    stored = {"all": [copy.deepcopy(held), {"kept": 1}]}
    before = row(driver_info=copy.deepcopy(stored))
    with pytest.raises(errors.InvalidParameter) as caught:
        of_node(before, wanted)
    assert caught.value.facts["path"].startswith("driver_info/all/0")
    assert "s3cret" not in repr(caught.value)
    assert before["driver_info"] == stored


def test_a_secret_stays_where_its_name_does() -> None:
    held = [copy.deepcopy(one) for one in (_PAIR, _PLACE, _WRITTEN, _NOTED)]
    for operations in (
        [op("replace", "/driver_info/all", masking.mask(held)), op("add", "/driver_info/b", 1)],
        [op("add", "/driver_info/all/0/type", "Password"), op("add", "/driver_info/all/2/-", "x")],
    ):
        after = patch(*operations, driver_info={"all": held})["driver_info"]["all"]
        found = [after[0]["value"], after[1]["value"], after[2][1], after[3]["args"][1]]
        assert found == ["s3cret"] * 4
    renamed = (
        op("replace", "/driver_info/all/0/name", "x"),
        op("replace", "/driver_info/all/0/value", "plain"),
    )
    after = patch(*renamed, driver_info={"all": held})["driver_info"]["all"]
    assert after[0] == {"name": "x", "value": "plain"}


def test_many_patches_cannot_nest_deeper_than_one_body() -> None:
    deep: Json = {}
    for _ in range(20):
        deep = {"a": deep}
    assert patch(op("add", "/extra/a", deep), extra={}) == {"extra": {"a": deep}}
    again = op("add", "/extra/a" + "/a" * 20, deep)
    assert refused(again, extra={"a": deep}).facts["path"] == "extra"
    both = [op("add", "/extra/a", deep), again]
    with pytest.raises(errors.InvalidParameter, match="nested more than 25 levels"):
        of_node(row(extra={}), both)


def test_one_bad_operation_undoes_all() -> None:
    before = row(extra={"a": {"b": 1}})
    held = copy.deepcopy(before)
    with pytest.raises(errors.InvalidParameter):
        of_node(before, [op("add", "/extra/a/b", 2), op("remove", "/extra/c")])
    assert before == held


def test_later_operations_see_the_earlier_ones() -> None:
    changed = patch(op("add", "/extra", {"a": 1}), op("add", "/extra/b", 2), op("remove", "/name"))
    assert changed == {"extra": {"a": 1, "b": 2}, "name": None}


@pytest.mark.parametrize(
    ("operation", "path"),
    [
        (op("replace", "/driver_info", "x"), "driver_info"),
        (op("replace", "/name", "states"), "name"),
        (op("replace", "/instance_uuid", "x"), "instance_uuid"),
        (op("replace", "/resource_class", "a" * 81), "resource_class"),
        (op("replace", "/retired", "perhaps"), "retired"),
        (op("replace", "/parent_node", "one"), "parent_node"),
    ],
)
def test_values_are_checked_like_those_of_a_new_node(operation: Json, path: str) -> None:
    assert refused(operation).facts["path"] == path


def test_the_words_of_the_command_line_are_booleans() -> None:
    assert patch(op("add", "/retired", "True"))["retired"] is True


# -- fields that follow others ---------------------------------------------------------------


def test_removing_a_field_sets_its_default() -> None:
    held: Json = {"conductor_group": "a", "automated_clean": True, "disable_power_off": True}
    for name, default in (
        ("conductor_group", ""),
        ("automated_clean", None),
        ("disable_power_off", False),
    ):
        assert patch(op("remove", f"/{name}"), **held) == {name: default}
    assert patch(op("remove", "/properties")) == {"properties": {}}


@pytest.mark.parametrize(
    "operation", [op("remove", "/retired"), op("replace", "/retired", False)], ids=str
)
def test_a_node_taken_back_loses_the_reason_of_its_retirement(operation: Json) -> None:
    changed = patch(operation, retired=True, retired_reason="fan")
    assert changed == {"retired": False, "retired_reason": None}


def test_unprotecting_clears_the_reason_and_ending_maintenance_its_fault() -> None:
    changed = patch(op("remove", "/protected"), protected=True, protected_reason="x")
    assert changed == {"protected": False, "protected_reason": None}
    held: Json = {"maintenance": True, "maintenance_reason": "x", "fault": "clean failure"}
    changed = patch(op("replace", "/maintenance", False), **held)
    assert changed == {"maintenance": False, "maintenance_reason": None, "fault": None}


def test_instance_name_follows_the_display_name() -> None:
    named = op("add", "/instance_info/display_name", "web")
    assert patch(named)["instance_name"] == "web"
    assert patch(named, op("add", "/instance_name", "db"))["instance_name"] == "db"
    held: Json = {"instance_info": {"display_name": "web"}, "instance_name": "web"}
    gone = op("remove", "/instance_info/display_name")
    assert patch(gone, **held) == {"instance_info": {}, "instance_name": None}
    assert patch(gone, **{**held, "instance_name": "db"}) == {"instance_info": {}}
    other = op("replace", "/instance_info/display_name", "mail")
    assert patch(other, **held)["instance_name"] == "mail"
    assert "instance_name" not in patch(other, **{**held, "instance_name": "db"})


# -- what states forbid ----------------------------------------------------------------------

MOVING = [
    state
    for state in State
    if states.STATES[state].target and state not in states.PATCHABLE_IN_TRANSITION
]


@pytest.mark.parametrize("state", State)
def test_a_node_on_its_way_is_left_alone(state: State) -> None:
    held: Json = {
        "provision_state": state.value,
        "target_provision_state": states.STATES[state].target,
    }
    if state in MOVING or state is State.INSPECTING:
        assert "state transition is in progress" in forbidden(op("remove", "/name"), **held).message
    else:
        assert patch(op("remove", "/name"), **held) == {"name": None}


def test_old_versions_may_patch_while_inspecting() -> None:
    held: Json = {"provision_state": "inspecting", "target_provision_state": "manageable"}
    assert patch(op("remove", "/name"), version=38, **held) == {"name": None}


@pytest.mark.parametrize("state", MOVING)
def test_a_node_may_be_retired_in_any_transient_state(state: State) -> None:
    held: Json = {"provision_state": state.value, "target_provision_state": "available"}
    retire = (op("add", "/retired", True), op("add", "/retired_reason", "fan"))
    assert patch(*retire, **held) == {"retired": True, "retired_reason": "fan"}
    forbidden(*retire, op("remove", "/name"), **held)


def test_a_broken_node_in_maintenance_may_be_freed() -> None:
    held: Json = {"provision_state": "deploying", "target_provision_state": "active"}
    free = op("remove", "/instance_uuid")
    held["instance_uuid"] = UUID
    assert patch(free, maintenance=True, **held) == {"instance_uuid": None}
    forbidden(free, **held)
    forbidden(free, op("remove", "/name"), maintenance=True, **held)


@pytest.mark.parametrize("state", [State.ACTIVE, State.CLEANFAIL, State.RESCUE, State.ERROR])
def test_interfaces_change_only_in_some_states_or_in_maintenance(state: State) -> None:
    changed = op("replace", "/power_interface", "fake")
    held: Json = {"provision_state": state.value}
    forbidden(changed, **held)
    assert patch(changed, power_interface="fake", **held) == {}
    assert patch(changed, maintenance=True, **held) == {"power_interface": "fake"}
    assert patch(changed) == {"power_interface": "fake"}


def test_the_resource_class_of_an_active_node_stays_even_in_maintenance() -> None:
    changed = op("replace", "/resource_class", "b")
    forbidden(changed, provision_state="active", resource_class="a", maintenance=True)
    assert patch(changed, provision_state="active") == {"resource_class": "b"}
    assert patch(changed, resource_class="a") == {"resource_class": "b"}


def test_only_a_used_node_can_be_protected() -> None:
    protect = op("add", "/protected", True)
    forbidden(protect)
    for state in ("active", "rescue"):
        assert patch(protect, provision_state=state) == {"protected": True}
    assert refused(op("add", "/protected_reason", "x")).facts["path"] == "protected_reason"


def test_an_available_node_cannot_be_retired() -> None:
    forbidden(op("add", "/retired", True), provision_state="available")
    assert refused(op("add", "/retired_reason", "x")).facts["path"] == "retired_reason"
    both = (op("add", "/retired", False), op("add", "/retired_reason", "x"))
    assert refused(*both, retired=True).facts["path"] == "retired_reason"


def test_an_instance_is_not_replaced_by_another() -> None:
    forbidden(op("replace", "/instance_uuid", OTHER), instance_uuid=UUID)
    assert patch(op("add", "/instance_uuid", OTHER)) == {"instance_uuid": OTHER}
    assert patch(op("add", "/instance_uuid", UUID), instance_uuid=UUID) == {}


def test_the_driver_stays_while_the_console_runs() -> None:
    forbidden(op("replace", "/driver", "redfish"), console_enabled=True)
    forbidden(op("add", "/console_interface", "no-console"), console_enabled=True)
    assert patch(op("replace", "/driver", "redfish")) == {"driver": "redfish"}


def test_a_chassis_is_unset_from_1_25_on() -> None:
    gone = op("remove", "/chassis_uuid")
    assert patch(gone, version=25, chassis_uuid=UUID) == {"chassis_uuid": None}
    with pytest.raises(errors.NotAcceptable):
        patch(gone, version=24, chassis_uuid=UUID)


# -- ports -----------------------------------------------------------------------------------

PORT: Json = {
    "uuid": OTHER,
    "address": "52:54:00:12:34:56",
    "node_uuid": UUID,
    "pxe_enabled": True,
    "is_smartnic": False,
    "available_for_dynamic_portgroup": True,
}


def port(operation: Json, **owner: Any) -> Json:
    full = {"uuid": UUID, "provision_state": "manageable", **owner}
    return of_port(PORT, full, operation)


def test_the_address_of_a_used_node_stays() -> None:
    moved = op("replace", "/address", "AA:54:00:12:34:56")
    for used in ({"provision_state": "active"}, {"instance_uuid": UUID}):
        with pytest.raises(errors.Conflict):
            port(moved, **used)
        assert port(moved, maintenance=True, **used) == {"address": "aa:54:00:12:34:56"}


@pytest.mark.parametrize("state", ["active", "available", "clean wait"])
def test_the_connection_of_a_port_changes_only_before_use(state: str) -> None:
    moved = op("replace", "/pxe_enabled", False)
    with pytest.raises(errors.Conflict):
        port(moved, provision_state=state)
    assert port(moved) == {"pxe_enabled": False}
    assert port(op("replace", "/extra", {"a": 1}), provision_state=state) == {"extra": {"a": 1}}


@pytest.mark.parametrize("name", ["address", "node_uuid"])
def test_a_port_keeps_address_and_node(name: str) -> None:
    with pytest.raises(errors.InvalidParameter):
        port(op("remove", f"/{name}"))


def test_removing_flags_of_a_port_sets_their_defaults() -> None:
    found = of_port({**PORT, "pxe_enabled": False}, row(), op("remove", "/pxe_enabled"))
    assert found == {"pxe_enabled": True}


def test_a_chassis_is_patched_without_rules() -> None:
    before = {"uuid": UUID, "description": "a", "extra": {}}
    patch = [op("remove", "/description")]
    found = of_chassis(before, patch)
    assert found == {"description": None}


# -- anything at all -------------------------------------------------------------------------

VALUES = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.just({"a": [1]})
PATHS = st.lists(
    st.sampled_from([*fields.by_name(fields.NODE), "a", "0", "-", "list", "cpus", "~", ""])
).map(lambda parts: "/" + "/".join(parts))


@given(
    st.lists(
        st.fixed_dictionaries(
            {"op": st.sampled_from(["add", "replace", "remove"]), "path": PATHS},
            optional={"value": VALUES},
        ),
        max_size=4,
    ),
    st.sampled_from(list(State)),
)
def test_any_patch_is_applied_or_refused_and_never_spoils_the_node(
    operations: list[Json], state: State
) -> None:
    before = row(provision_state=state.value)
    held = copy.deepcopy(before)
    try:
        changed = of_node(before, operations)
    except (errors.InvalidRequest, errors.Conflict):
        changed = {}
    assert before == held
    assert changed.keys() <= before.keys()


def test_sending_back_the_masked_driver_info_keeps_the_password() -> None:
    stored = {"redfish_address": "http://bmc", "redfish_password": "s3cret"}
    shown = {"redfish_address": "http://other", "redfish_password": "******"}
    changed = patch(op("replace", "/driver_info", shown), driver_info=stored)
    assert changed["driver_info"] == {**shown, "redfish_password": "s3cret"}


@pytest.mark.parametrize(
    ("operation", "path"),
    [
        (op("add", "/driver_info/redfish_password", _MASKED), "0/value"),
        (op("add", "/driver_info/ipmi_password", _MASKED), "0/value"),
        (op("add", "/instance_info/settings", {"a": [_MASKED]}), "instance_info/settings/a/0"),
        (op("add", "/instance_info/image_url", _MASKED), "instance_info/image_url"),
        (
            op("add", "/driver_info/iso", f"http://ann:{_MASKED}@host/x.iso"),
            "driver_info/iso",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_mask_that_stands_for_no_stored_secret_is_refused(operation: Json, path: str) -> None:
    held: Json = {"redfish_password": "s3cret"}
    assert refused(operation, driver_info=held).facts["path"] == path


# -- large ones ------------------------------------------------------------------------------

PARTS = st.sampled_from(["a", "b", "0", "1", "2", "7", "-", "name", "path", "value"])
DEEP = st.recursive(
    st.none() | st.integers(0, 3) | st.text("ab", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("ab012"), inner, max_size=3)
    ),
    max_leaves=8,
)


def _whole_patch(before: Json, operations: list[Json]) -> Json | None:
    """Return what the library makes of it all at once, None if it refuses."""
    try:
        return dict(jsonpatch.apply_patch(before, operations))
    except (jsonpatch.JsonPatchException, jsonpointer.JsonPointerException, TypeError, ValueError):
        return None


@settings(max_examples=60, deadline=None)
@given(
    st.dictionaries(st.sampled_from(["a", "b", "name"]), DEEP, max_size=3),
    st.lists(
        st.builds(
            op,
            st.sampled_from(["add", "add", "replace", "remove"]),
            st.lists(PARTS, min_size=1, max_size=3).map(lambda parts: "/".join(["/extra", *parts])),
            DEEP,
        ),
        max_size=6,
    ),
)
def test_operations_do_what_the_library_makes_of_them_together(
    extra: Json, operations: list[Json]
) -> None:
    sent = [
        {key: value for key, value in each.items() if each["op"] != "remove" or key != "value"}
        for each in operations
    ]
    wanted = _whole_patch({"extra": extra}, sent)
    before = {"uuid": UUID, "description": None, "extra": extra}
    try:
        found = of_chassis(before, sent)
    except errors.InvalidParameter:
        assert wanted is None
    else:
        assert wanted == {"extra": extra, **found}


def test_a_patch_costs_what_it_is_long_and_its_field_large() -> None:
    """A copy of the field for each operation took five seconds."""
    operations = [op("add", f"/extra/k{place % 100}", place) for place in range(5_000)]
    began = time.process_time()
    changed = patch(*operations, extra={f"x{place}": place for place in range(40_000)})
    assert time.process_time() - began < 3
    assert len(changed["extra"]) == 40_100


@pytest.mark.parametrize(
    ("kind", "value"), [("add", 7), ("replace", "/b/password"), ("replace", "a" * 100)]
)
def test_long_lists_are_not_changed_over_and_over(kind: str, value: Any) -> None:
    stored = {"list": ["/a/password", *[0] * 20_000]}
    operations = [op(kind, "/extra/list/0", value if place % 2 else "/c/pass") for place in (1, 2)]
    assert patch(*operations[:1], extra=stored)["extra"]["list"][0] == value
    assert "long lists" in str(refused(*operations * 50, extra=stored))


def test_a_field_grows_to_a_mebibyte_by_patches_and_not_further() -> None:
    most = patches.MOST_KIB * patches.KIB
    stored = {"a": "x" * (most - 100)}
    assert patch(op("add", "/extra/b", 1), extra=stored)["extra"]["b"] == 1
    told = refused(op("add", "/extra/b", "x" * 200), extra=stored)
    assert (told.facts["path"], "1024 KiB" in str(told)) == ("extra", True)
    over = {"a": "x" * most, "b": "x" * 1000}  # of an older release
    assert patch(op("remove", "/extra/b"), extra=over)["extra"] == {"a": "x" * most}


def test_a_configuration_drive_does_not_count_against_its_field() -> None:
    stored = {"configdrive": "x" * 2 * patches.MOST_KIB * patches.KIB}
    changed = patch(op("add", "/instance_info/a", 1), instance_info=stored)
    assert changed["instance_info"] == {**stored, "a": 1}
