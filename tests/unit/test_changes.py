"""Old and new values of a change of a node: masked, bounded, and only for those who may read."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ironic_lite.core.masking import MASK
from ironic_lite.domain import history

Json = dict[str, Any]
PASSWORD = "hunter2hunter2"


def changed(before: Json, written: Json) -> list[Json]:
    return history.changes({**dict.fromkeys(written), **before}, written)


def test_each_value_has_its_path_and_both_sides() -> None:
    before = {"driver_info": {"redfish_address": "https://a", "redfish_username": "root"}}
    written = {
        "driver_info": {"redfish_address": "https://b", "redfish_username": "root", "x": [1]},
        "resource_class": "gpu",
    }
    assert changed(before, written) == [
        {"path": "driver_info/redfish_address", "old": "https://a", "new": "https://b"},
        {"path": "driver_info/x", "old": None, "new": [1]},
        {"path": "resource_class", "old": None, "new": "gpu"},
    ]


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ({"a": 1}, {"a": True}, {"path": "extra/a", "old": 1, "new": True}),
        ({"a": [0]}, {"a": [False]}, {"path": "extra/a", "old": [0], "new": [False]}),
        ({}, {"a": None}, {"path": "extra/a", "old": None, "new": None}),
        ({"a": {"b": None}}, {"a": {}}, {"path": "extra/a/b", "old": None, "new": None}),
        (None, {}, {"path": "extra", "old": None, "new": {}}),
        ({}, None, {"path": "extra", "old": {}, "new": None}),
        ({"a": None}, {"a": {}}, {"path": "extra/a", "old": None, "new": {}}),
        ({}, {"a": {}}, {"path": "extra/a", "old": None, "new": {}}),
    ],
    ids=str,
)
def test_values_that_only_python_takes_for_equal_are_changes(
    old: Json, new: Json, shown: Json
) -> None:
    assert changed({"extra": old}, {"extra": new}) == [shown]


SECRET_VALUES: dict[str, tuple[str, Any]] = {
    "a secret key": ("driver_info", {"redfish_password": PASSWORD}),
    "a secret key in an object": ("extra", {"a": {"api_key": PASSWORD}}),
    "a list under a secret key": ("extra", {"tokens": [PASSWORD]}),
    "a login in a URL": ("instance_info", {"image_source": f"https://u:{PASSWORD}@host/x"}),
    "a query of a URL": ("instance_info", {"image_source": f"https://host/x?sig={PASSWORD}"}),
    "a URL in a text": ("description", f"get it at https://u:{PASSWORD}@host/x please"),
    "an assignment in a text": ("description", f"password={PASSWORD}"),
    "an option in a text": ("driver_info", {"kernel_append_params": f"rescue_token={PASSWORD} a"}),
    "a text in a list": ("extra", {"notes": [[f"secret: {PASSWORD}"]]}),
    "a URL as a key": ("extra", {f"https://u:{PASSWORD}@host": 1}),
    "a URL as a key of a new object": ("extra", {"a": {f"https://u:{PASSWORD}@host": 1}}),
    "a config drive": ("instance_info", {"configdrive": {"user_data": PASSWORD}}),
    "a config drive elsewhere": ("extra", {"configdrive": PASSWORD}),
    "user data": ("instance_info", {"user_data": PASSWORD}),
    "user data in a new object": ("extra", {"boot": {"user_data": PASSWORD}}),
    "a setting": ("extra", {"list": [{"name": "admin_password", "value": PASSWORD}]}),
    "a write": ("extra", {"list": ["/driver_info/redfish_password", PASSWORD]}),
    "an address made for one machine": ("instance_info", {"image_url": PASSWORD}),
}


@pytest.mark.parametrize("case", SECRET_VALUES)
@pytest.mark.parametrize("side", ["old", "new"])
def test_secrets_are_on_neither_side(case: str, side: str) -> None:
    name, value = SECRET_VALUES[case]
    empty: Any = "" if isinstance(value, str) else {}
    rows = ({name: value}, {name: empty}) if side == "old" else ({name: empty}, {name: value})
    found = changed(*rows)
    assert found, "the change itself is shown"
    assert PASSWORD not in json.dumps(found)


@pytest.mark.parametrize("side", ["old", "new"])
def test_known_secret_is_masked_in_other_texts(side: str) -> None:
    own = {"driver_info": {"redfish_password": PASSWORD}}
    texts = {"description": f"it is {PASSWORD}", "extra": {"a": {"b": [PASSWORD]}, PASSWORD: 1}}
    before: Json = {"description": None, "extra": {}, "driver_info": {}}
    rows = ({**before, **own}, {**own, **texts})
    if side == "old":
        rows = ({**before, **own, **texts}, before)
    found = changed(*rows)
    assert PASSWORD not in json.dumps(found)
    by_path = {change["path"]: change for change in found}
    assert by_path["description"][side] == f"it is {MASK}"
    if side == "old":
        assert by_path["driver_info/redfish_password"] == {
            **{"path": "driver_info/redfish_password", "old": MASK, "new": None},
        }


def test_keys_of_an_object_in_place_of_null_have_their_own_paths() -> None:
    rows: list[Json] = [{"extra": None}, {"extra": {"rack": "r02", "api_key": {"a": 1}}}]
    assert changed(*rows) == [
        {"path": "extra/rack", "old": None, "new": "r02"},
        {"path": "extra/api_key", "old": None, "new": MASK},
    ]


def test_new_password_is_a_change_without_values() -> None:
    rows = [{"driver_info": {"redfish_password": word}} for word in ("one", "two")]
    assert changed(*rows) == [{"path": "driver_info/redfish_password", "old": MASK, "new": MASK}]


def test_password_named_as_a_field_does_not_hide_the_field() -> None:
    """Else a reader without the right to driver_info would get its values."""
    own = {"redfish_password": "driver_info", "a": 1}
    data = {"changes": changed({"driver_info": own}, {"driver_info": {**own, "a": 2}})}
    assert data["changes"] == [{"path": "driver_info/a", "old": 1, "new": 2}]
    assert history.readable(data, frozenset({"driver_info"}), None) == {"changes": []}


def test_long_values_are_lengths() -> None:
    rows: list[Json] = [{"extra": {"a": "x" * size, "b": ["y" * size]}} for size in (256, 257)]
    assert changed(*rows) == [
        {"path": "extra/a", "old": "x" * 256, "new_length": 257},
        {"path": "extra/b", "old_length": 260, "new_length": 261},
    ]


@pytest.mark.parametrize(
    ("count", "key", "paths"), [(40, "k", 40), (3000, "k", 1), (1, "k" * 100_000, 1)]
)
def test_changes_of_an_event_have_at_most_8_kib(count: int, key: str, paths: int) -> None:
    rows: list[Json] = [
        {"extra": {f"{key}{place}": side * 250 for place in range(count)}} for side in "ab"
    ]
    found = changed(*rows)
    assert len(json.dumps(found)) <= 8 * 1024
    assert len(found) == paths
    assert all(change.keys() == {"path", "old_length", "new_length"} for change in found)


@pytest.mark.parametrize("value", [None, True, 0, 1.5, "", [], {}, "\ud7ff", [None]])
def test_any_value_may_come_and_go(value: Any) -> None:
    for before, after in ((value, "other"), ("other", value)):
        found = changed({"extra": {"a": before}}, {"extra": {"a": after}})
        assert found == [{"path": "extra/a", "old": before, "new": after}]


LISTED: list[Json] = [
    {"path": "driver_info/redfish_address", "old": "https://a", "new_length": 300},
    {"path": "name", "old": "a", "new": "b"},
]
MOVED: list[Json] = [*LISTED, {"path": "owner", "old": "p-old", "new": "p-new"}]


def test_reader_sees_only_fields_that_it_may_read() -> None:
    data = {"fields": ["driver_info", "name"], "changes": LISTED}
    assert history.readable(data, frozenset(), None) == data
    assert history.readable(data, frozenset({"driver_info"}), None) == {
        "fields": ["driver_info", "name"],
        "changes": LISTED[1:],
    }
    assert history.readable(data, None, None) == {"fields": ["driver_info", "name"]}
    assert history.readable(None, frozenset(), None) is None


@pytest.mark.parametrize(
    ("project", "sides"),
    [
        (None, {"old", "new", "new_length"}),
        ("p-old", {"old"}),
        ("p-new", {"new", "new_length"}),
        ("p-third", set()),
    ],
)
def test_project_sees_its_own_side_of_a_change_of_owner(
    project: str | None, sides: set[str]
) -> None:
    found = history.readable({"changes": MOVED}, frozenset(), project)
    assert found is not None
    shown = [set(change) - {"path"} for change in found["changes"]]
    assert set().union(*shown) == sides


def test_owner_that_is_a_length_shows_neither_side() -> None:
    listed = [{**LISTED[1]}, {"path": "owner", "old_length": 5, "new_length": 5}]
    found = history.readable({"changes": listed}, frozenset(), "p-old")
    assert found == {"changes": [{"path": "name"}, {"path": "owner"}]}
