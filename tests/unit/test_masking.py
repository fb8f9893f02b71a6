"""Secrets are hidden wherever they stand, and nothing is copied when there are none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite.core import masking
from ironic_lite.domain import fields
from ironic_lite.images import published

SCALARS = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=12,
)


@pytest.mark.parametrize(
    "key",
    [
        "password",
        "redfish_password",
        "ipmi_password",
        "ipmi_hex_kg_key",
        "adminPass",
        "admin_pass",
        "snmp_auth_key",
        "snmp_priv_key",
        "agent_secret_token",
        "image_pull_secret",
        "rescue_password",
        "hashed_rescue_password",
        "API_KEY",
        "image_request_authorization",
        "ssh_private_key",
        "passphrase",
    ],
)
def test_a_secret_is_hidden_under_any_usual_name(key: str) -> None:
    assert masking.mask({key: "open sesame", "b": 1}) == {key: masking.MASK, "b": 1}


@pytest.mark.parametrize(
    "key",
    ["redfish_address", "redfish_username", "deploy_kernel", "snmp_user", "compass", "bypass"],
)
def test_ordinary_keys_stay_readable(key: str) -> None:
    assert masking.mask({key: "plain"}) == {key: "plain"}


def test_secrets_are_found_at_any_depth_and_hidden_whole() -> None:
    steps = [{"step": "apply", "args": {"settings": [{"AdminPassword": "x"}]}}]
    shown = masking.field("driver_internal_info", {"clean_steps": steps, "token": {"a": ["b"]}})
    assert shown["clean_steps"][0]["args"]["settings"] == [{"AdminPassword": masking.MASK}]
    assert shown["token"] == masking.MASK


def test_a_null_secret_shows_that_it_is_not_set() -> None:
    assert masking.mask({"redfish_password": None}) == {"redfish_password": None}


def test_the_password_in_a_url_is_hidden() -> None:
    shown = masking.mask({"image_source": "https://me:sesame@images/a?b=c@d"})
    assert shown == {"image_source": "https://me:******@images/a?b=c@d"}
    assert masking.mask(["http://me@host/", "a@b"]) == ["http://me@host/", "a@b"]


def test_the_name_of_a_file_for_one_machine_is_not_told() -> None:
    node = "6e0b0a1e-1d6b-4f0a-9d4e-0123456789ab"
    for _ in range(50):
        name = published.secret_name(node, ".iso")
        secret = name[len(node) + 1 : -len(".iso")]
        assert masking.unguessable(f"http://192.0.2.1/media/{name}") == secret
        shown = masking.address(f"http://192.0.2.1/media/{name}")
        assert shown == f"http://192.0.2.1/media/{node}-******.iso"
        bare = published.secret_name(node, "")
        assert masking.address(f"http://192.0.2.1/images/{bare}") == (
            f"http://192.0.2.1/images/{node}-******"
        )
    for open_name in (f"http://192.0.2.1/{node}/kernel", f"http://192.0.2.1/{node}-debian.iso"):
        assert masking.unguessable(open_name) is None
        assert masking.address(open_name) == open_name


def test_an_address_is_shown_without_what_signs_it() -> None:
    shown = masking.address("https://me:sesame@images/a.iso?expires=9&signature=cafe")
    assert shown == "https://me:******@images/a.iso?******"
    assert masking.address("https://images/a.iso") == "https://images/a.iso"


def test_signed_image_url_is_shown_and_survives_being_sent_back() -> None:
    """Clients compare it with what they want; docs/security.rst says what follows from that."""
    signed = "https://me:sesame@images/a.iso?expires=9&signature=cafe"
    stored = {"image_source": signed, "image_checksum": "00"}
    shown = masking.field("instance_info", stored)
    assert shown["image_source"] == signed.replace("sesame", masking.MASK)
    sent = {**shown, "image_checksum": "11"}
    assert masking.restore("instance_info", sent, stored) == {**stored, "image_checksum": "11"}


def test_configdrive_and_image_url_are_hidden_in_instance_info_alone() -> None:
    held = {"configdrive": "H4sI", "image_url": "http://temporary/", "image_source": "http://x/"}
    assert masking.field("instance_info", held) == {
        "configdrive": masking.MASK,
        "image_url": masking.MASK,
        "image_source": "http://x/",
    }
    assert masking.field("driver_info", held) is held


def test_nothing_is_copied_when_nothing_is_hidden() -> None:
    held = {"a": {"b": [1, {"c": "d"}]}, "e": None}
    assert masking.field("driver_info", held) is held


def test_every_field_that_callers_fill_with_passwords_is_masked() -> None:
    """The arguments of a step are shown in the step that runs, too."""
    marked = {field.name for field in fields.NODE if field.secret}
    steps = {"clean_step", "deploy_step", "service_step"}
    assert marked == {"driver_info", "driver_internal_info", "instance_info", *steps}


@given(JSON)
def test_masking_does_not_change_its_argument(value: Any) -> None:
    before = repr(value)
    masking.mask(value)
    assert repr(value) == before


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.text(min_size=1, max_size=20))
def test_no_secret_survives_in_any_surrounding(around: dict[str, Any], secret: str) -> None:
    shown = masking.mask({**around, "deep": [{"password": {"really": f"<{secret}>"}}]})
    assert shown["deep"] == [{"password": masking.MASK}]


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4))
def test_masked_value_may_be_sent_back_without_losing_a_secret(around: dict[str, Any]) -> None:
    stored = {
        **around,
        "redfish_password": "s3cret",
        "proxy": "http://me:mine@proxy/",
        "deep": {"token": "t"},
        "setting": {"name": "admin_password", "value": "v"},
    }
    assert masking.restore("driver_info", masking.field("driver_info", stored), stored) == stored


def test_a_new_secret_and_a_mask_over_nothing_are_taken_as_they_are() -> None:
    stored = {"redfish_password": "old"}
    given = {"redfish_password": "new", "ipmi_password": masking.MASK}
    assert masking.restore("driver_info", given, stored) == given


@pytest.mark.parametrize(
    ("stored", "given"),
    [(1, True), (0, False), (1, 1.0), ([1], [True]), ({"n": 1}, {"n": True})],
    ids=repr,
)
def test_values_of_another_type_are_changes(stored: Any, given: Any) -> None:
    """Python takes True for 1, JSON does not."""
    assert repr(masking.restore("driver_info", {"a": given}, {"a": stored})) == repr({"a": given})


def _login(user: str, password: str, **more: Any) -> dict[str, Any]:
    return {"user": user, "password": password, **more}


_LOGINS = [_login("a", "s1"), _login("b", "s2"), _login("c", "s3")]
_A, _B, _C = (_login(one["user"], masking.MASK) for one in _LOGINS)


@pytest.mark.parametrize(
    ("given", "meant"),
    {
        "as it was": ([_A, _B, _C], ["s1", "s2", "s3"]),
        "the first is gone": ([_B, _C], ["s2", "s3"]),
        "one more before them": ([_login("z", "new"), _A, _B, _C], ["new", "s1", "s2", "s3"]),
        "in another order": ([_C, _A, _B], ["s3", "s1", "s2"]),
        "one is changed": ([_A, {**_B, "port": 1}, _C], ["s1", "s2", "s3"]),
        "one is changed, two moved": ([_C, {**_B, "port": 1}, _A], ["s3", "s2", "s1"]),
        "one has a new password": ([_A, _login("b", "new"), _C], ["s1", "new", "s3"]),
        "nobody can know": ([{**_B, "port": 1}], [masking.MASK]),
    }.values(),
)
def test_secrets_stay_in_lists_whose_items_come_go_and_move(
    given: list[Any], meant: list[str]
) -> None:
    stored = {"deep": {"logins": _LOGINS}}
    restored = masking.restore("driver_info", {"deep": {"logins": given}}, stored)
    found = restored["deep"]["logins"]
    assert [one["password"] for one in found] == meant
    assert [{**one, "password": 0} for one in found] == [{**one, "password": 0} for one in given]


def test_the_value_of_a_setting_with_a_secret_name_is_hidden() -> None:
    settings = [{"name": "AdminPassword", "value": "s"}, {"name": "BootMode", "value": "uefi"}]
    shown = masking.field("clean_step", {"args": {"settings": settings}})
    assert [one["value"] for one in shown["args"]["settings"]] == [masking.MASK, "uefi"]


PLACES = [
    "driver_info/ipmi_password",
    "/driver_info/deep/api_key",
    "driver_info.ipmi_password",
    "token",
]


@pytest.mark.parametrize("path", PLACES)
def test_value_for_a_secret_path_is_masked_and_kept(path: str) -> None:
    """Actions of inspection rules name their arguments, or give them in their order."""
    stored: list[dict[str, Any]] = [
        {"op": "set-attribute", "args": {"path": path, "value": {"any": "s"}}},
        {"op": "set-attribute", "args": [path, "s"]},
        {"op": "set-attribute", "args": ["driver_info/ipmi_port", 623]},
    ]
    shown = masking.field("actions", stored)
    assert shown[0]["args"] == {"path": path, "value": masking.MASK}
    assert shown[1]["args"] == [path, masking.MASK]
    assert shown[2] is stored[2]
    assert masking.restore("actions", shown, stored) == stored
    shown[2] = {**shown[2], "args": ["driver_info/ipmi_port", 624]}
    assert masking.restore("actions", shown, stored) == [*stored[:2], shown[2]]
    changed = [{"op": "set-attribute", "args": [path, "new"]}]
    assert masking.restore("actions", changed, stored) == changed


@pytest.mark.parametrize("path", ["extra/token", "token"])
def test_value_for_a_port_is_masked_behind_port_and_path(path: str) -> None:
    port = "52:54:00:00:00:01"
    stored = [{"op": "set-port-attribute", "args": [port, path, "s"]}]
    shown = masking.field("actions", stored)
    assert shown[0]["args"] == [port, path, masking.MASK]
    assert masking.restore("actions", shown, stored) == stored
    elsewhere = [{**shown[0], "args": [port, "extra/shown", masking.MASK]}]
    assert masking.restore("actions", elsewhere, stored) == elsewhere
    args = [port, "extra/shown", "s"]
    masking.forget_renamed("args", args, [port, path, "s"])
    assert args == [port, "extra/shown", masking.MASK]


def test_a_list_that_begins_with_an_address_is_no_secret() -> None:
    held = ["https://images.example.org/token/x", "tokens", "a/b"]
    assert masking.mask(held) is held


def test_words_are_secret_places_in_arguments_alone() -> None:
    held = {"args": ["a token is missing", "error"], "traits": ["token", "other"]}
    assert masking.mask(held) is held
