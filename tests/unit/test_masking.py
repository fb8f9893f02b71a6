"""Secrets are hidden wherever they stand, and nothing is copied when there are none."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ironic_lite.core import masking
from ironic_lite.core.masking import TextMask, known_secrets
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
    assert masking.mask("https://me:se@same@images/a@b") == "https://me:******@images/a@b"
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


_KEYS = ("api", "private", "access", "auth", "priv", "encryption", "encrypted", "kg")
_EVERYWHERE = (
    *("password", "pass_word", "passwd", "passphrase", "passcode", "pswd", "secret", "token"),
    *("credential", "fernetkey", "sslkey", "sshkey", "authorization", "rabbitcookie"),
    *(f"{kind}{link}key" for kind in _KEYS for link in ("", "_")),
    *("db_pass", "db-pass", "admin_pass", "old_admin_password"),
)
_IN_OBJECTS = ("adminpass", "pass")
_IN_TEXTS = ("configdrive", "cookie", "db_passes")
_FROM_STRANGERS = (
    *("pw", "pwd", "old_pwd", "passwd_old", "login", "pin", "key", "keys", "hostkey"),
    *("community", "cookie", "license"),
)


@pytest.mark.parametrize("shape", [str, str.upper, str.title, "a_{}".format])
@pytest.mark.parametrize("name", _EVERYWHERE)
def test_names_of_the_table_are_secret_in_objects_and_in_texts(
    name: str, shape: Callable[[str], str]
) -> None:
    key = shape(name)
    assert masking.secret(key)
    assert masking.mask({key: "sesame"}) == {key: masking.MASK}
    assert masking.masked_without_login({key: "sesame"}) == {key: masking.MASK}
    for hide in (masking.PROSE, masking.TextMask()):
        assert hide(f"with {key}=sesame now") == f"with {key}={masking.MASK} now"
        assert hide(f'{{"{key}": "sesame"}}') == f'{{"{key}": "{masking.MASK}"}}'


@pytest.mark.parametrize("name", _IN_OBJECTS)
def test_names_that_are_ordinary_words_of_texts_are_secret_in_objects(name: str) -> None:
    assert masking.secret(name)
    assert masking.masked_without_login({name: "sesame"}) == {name: masking.MASK}


@pytest.mark.parametrize("name", _IN_TEXTS)
def test_names_of_what_nodes_do_not_hold_are_secret_in_texts(name: str) -> None:
    assert masking.PROSE(f"{name}=sesame") == f"{name}={masking.MASK}"


@pytest.mark.parametrize("name", _FROM_STRANGERS)
def test_further_names_are_secret_without_a_login(name: str) -> None:
    assert masking.masked_without_login({name: "sesame"}) == {name: masking.MASK}


# Secrets in free text: known ones, and words after names that say so.

SECRET = "hunter2"


@pytest.mark.parametrize(
    "text",
    [
        "GET /v1/commands?wait=true&agent_token=hunter2 HTTP/1.1",
        "password=hunter2, next",
        "{'password': 'hunter2', 'a': 1}",
        '{"x": {"api_key": "hunter2"}}',
        r"body {\"password\": \"hunter2\"}",
        "X-Auth-Token: hunter2",
        "Authorization: Basic hunter2",
        "'Authorization': 'Bearer hunter2', 'Accept': 1",
        "Authorization: hunter2",
        "curl --password hunter2 --user ann",
        "--ipmi-password=hunter2",
        "rescue_password: hunter2",
        "https://ann:hunter2@host/path",
        "https://host/path?sig=hunter2 next",
        "PASSWORD => hunter2",
        'password = "hunter2 with a blank" next',
        "agent_token: b'hunter2'",
        "configdrive: 'hunter2=='",
        "Set-Cookie: hunter2",
        "admin_pass=hunter2",
        "ipa-api-token=hunter2",
        "ipmitool -U root -P hunter2 power on",
        "['ipmitool', '-P', 'hunter2', 'power']",
        "curl -u ann:hunter2 https://host/",
        "curl --user=ann:hunter2",
    ],
)
def test_secret_is_hidden_by_its_name(text: str) -> None:
    shown = TextMask()(text)
    assert (SECRET in shown, "******" in shown) == (False, True), shown


@pytest.mark.parametrize(
    "text",
    [
        "nvme nvme1: I/O 512 QID 3 timeout, aborting",
        "redfish_password is missing",
        "token: None",
        "key=value monkey=banana",
        "Accepted password for root",
        "http://host/redfish/v1 answered 404",
        "curl -u https://host/ -p 80",
        "a disk -Part 3, -P",
    ],
)
def test_harmless_text_stays(text: str) -> None:
    assert TextMask([SECRET])(text) == text


def test_known_secret_is_hidden_in_every_form() -> None:
    secret = 'cal"vin/\u00e4 1'
    hide = TextMask(
        known_secrets(driver_info={"redfish_password": secret, "redfish_username": "u"})
    )
    for text in (
        secret,
        r"cal\"vin/" + "\u00e4 1",
        r"cal\"vin/\u00e4 1",
        "cal%22vin/%C3%A4%201",
        "cal%22vin%2F%C3%A4%201",
    ):
        assert hide(f"at {text}, u") == "at ******, u"


def test_short_secret_is_hidden_as_a_whole_word() -> None:
    hide = TextMask(known_secrets(driver_info={"ipmi_password": "abc"}))
    assert hide("abc abcd 'abc'") == "****** abcd '******'"


def test_secrets_of_a_node_are_found_where_they_stand() -> None:
    found = set(
        known_secrets(
            driver_info={"snmp": {"auth_key": "k-e-y"}, "list": [{"password": ["one", "two"]}]},
            instance_info={"image_url": "http://x/y?sig=1", "configdrive": "H4sIA", "a": "b"},
            driver_internal_info={"agent_secret_token": "tok", "url": "http://ann:pw-of-ann@h/"},
            other={"password": 123456, "secret": True},
        )
    )
    expected = {"123456", "k-e-y", "one", "two", "http://x/y?sig=1", "H4sIA", "tok", "pw-of-ann"}
    assert found == expected


@pytest.mark.parametrize(
    "text",
    ["a-" * 2000 + "secret", "token" * 800, "http://" * 600, "--" * 2000, 'token\\"' * 500],
    ids=lambda text: str(text[:6]),
)
def test_no_text_takes_long(text: str) -> None:
    started = time.process_time()
    TextMask([SECRET])(text)
    assert time.process_time() - started < 1.0


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("driver_info/ipmi_password: must be a text", "driver_info/ipmi_password: must be a text"),
        ("ipmi_password: is missing", "ipmi_password: is missing"),
        ("X-Auth-Token: missing", "X-Auth-Token: missing"),
        ("X-Auth-Token: deadbeef", "X-Auth-Token: ******"),
        ("password: sesame", "password: ******"),
        ("User or password are wrong", "User or password are wrong"),
        ("ipmi_password: hunter2 is short", "ipmi_password: ****** is short"),
        ("ipmi_password=hunter", "ipmi_password=******"),
        ("{'ipmi_password': 'hunter'}", "{'ipmi_password': '******'}"),
        ("see https://ann:hunter@bmc/?a=hunter", "see https://ann:******@bmc/?******"),
    ],
)
def test_explanation_after_a_colon_stays_in_prose(text: str, shown: str) -> None:
    assert TextMask(prose=True)(text) == shown


@pytest.mark.parametrize("secret", ["hunter", 'with "quotes"', "", "back\\slash"])
def test_json_stays_json(secret: str) -> None:
    document = {"redfish_password": secret, "redfish_address": "bmc"}
    shown = json.loads(TextMask(prose=True)(json.dumps({"driver_info": document})))
    assert shown == {"driver_info": {**document, "redfish_password": "******"}}
    assert "bmc" in json.loads(TextMask()(json.dumps({"body": json.dumps(document)})))["body"]


def test_words_beside_the_secrets_of_a_note_stay() -> None:
    note = {"mode": "deploy", "device": "cdrom", "params": {"ipa-agent-token": "sesame-42"}}
    hide = TextMask(known_secrets(driver_internal_info={"driver_notes": {"secret_medium": note}}))
    assert hide("deploy.linger from cdrom with sesame-42") == "deploy.linger from cdrom with ******"
