"""driver_info of Redfish nodes: every key, what it becomes, and what is refused in which words."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.drivers.redfish.bmc import info


def parsed(**values: Any) -> info.Info:
    return info.parse({"redfish_address": "https://bmc"} | values)


@pytest.mark.parametrize(
    ("given", "address", "prefix"),
    [
        ("bmc.example.org", "https://bmc.example.org", "/redfish/v1/"),
        ("http://10.0.0.1", "http://10.0.0.1", "/redfish/v1/"),
        ("HTTPS://BMC.example.org:443/", "https://bmc.example.org", "/redfish/v1/"),
        ("http://bmc:80", "http://bmc", "/redfish/v1/"),
        ("http://bmc:443", "http://bmc:443", "/redfish/v1/"),
        ("bmc:8443", "https://bmc:8443", "/redfish/v1/"),
        (" https://bmc ", "https://bmc", "/redfish/v1/"),
        ("https://bmc/redfish/v1", "https://bmc", "/redfish/v1/"),
        ("https://proxy/rack1/bmc7/redfish/v1/", "https://proxy", "/rack1/bmc7/redfish/v1/"),
        ("2001:db8::1", "https://[2001:db8::1]", "/redfish/v1/"),
        ("http://2001:db8::1", "http://[2001:db8::1]", "/redfish/v1/"),
        ("[2001:DB8::1]:8000", "https://[2001:db8::1]:8000", "/redfish/v1/"),
        ("https://[2001:db8::1]/custom", "https://[2001:db8::1]", "/custom/"),
    ],
)
def test_an_address_becomes_scheme_host_port_and_the_path_of_the_root(
    given: str, address: str, prefix: str
) -> None:
    node = parsed(redfish_address=given)
    assert (node.address, node.root_prefix) == (address, prefix)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("address", "ftp://bmc", "needs http or https"),
        ("address", "https://", "does not name a host"),
        ("address", "https://b mc", "must not contain spaces"),
        ("address", "https://bmc:99999", "is not a host with an optional port"),
        ("address", "https://bmc:x", "is not a host with an optional port"),
        ("address", "https://bmc:0", "port 0"),
        ("address", "https://[2001:db8::1", "is not a host"),
        ("address", "https://-bmc", "does not name a host"),
        ("address", f"https://{'b' * 254}", "more than 253 characters"),
        ("address", "https://root:calvin@bmc", "must not contain credentials"),
        ("address", "https://bmc/redfish?x=1", r"without \? or #"),
        ("address", True, "must be a string, not bool"),
        ("address", "https://bmc\x00", "NUL"),
        ("system_id", "1", "must be the path of a system"),
        ("system_id", "https://bmc/redfish/v1/Systems/1", "must be the path of a system"),
        ("system_id", "//evil/redfish", "must be the path of a system"),
        ("system_id", ["/a"], "must be a string, not list"),
        ("username", 1e30, "must be a string, not float"),
        ("password", {}, "must be a string, not dict"),
        ("password", "\ud800", "lone surrogates"),
        ("verify_ca", "/no/such/file", "must be true, false, or the name of a PEM file"),
        ("verify_ca", "a" * 5000, "must be true, false, or the name of a PEM file"),
        ("verify_ca", 0.5, "must be true, false, or the name of a PEM file"),
        ("auth_type", "magic", "must be one of auto, basic, session"),
        ("auth_type", True, "must be one of"),
        ("tls_minimum_version", "1.0", "must be one of 1.1, 1.2, 1.3"),
        ("tls_ciphers", "ROT13", "names no cipher"),
    ],
)
def test_a_value_that_cannot_be_used_is_named_with_the_reason(
    name: str, value: Any, said: str
) -> None:
    with pytest.raises(errors.InvalidParameter, match=f"driver_info/redfish_{name}: .*{said}"):
        parsed(**{"redfish_username": "root", f"redfish_{name}": value})
    with pytest.raises(errors.InvalidParameter, match=said):
        info.check({f"redfish_{name}": value})


@pytest.mark.parametrize(("given", "text"), [(12345, "12345"), (-1, "-1"), (1.5, "1.5")])
def test_login_of_digits_may_be_a_number(given: object, text: str) -> None:
    """Ironic's command line sends ``--driver-info redfish_password=12345`` as a number."""
    found = parsed(redfish_username=given, redfish_password=given)
    assert (found.username, found.password) == (text, text)


@pytest.mark.parametrize("value", [-1, "soon", 1.5, True, []])
def test_seconds_are_whole_and_not_negative(value: Any) -> None:
    with pytest.raises(errors.InvalidParameter, match="must be a whole number of seconds"):
        parsed(firmware_update_unresponsive_bmc_wait=value)


@pytest.mark.parametrize("value", [300, "300"])
def test_seconds_may_come_as_text(value: Any) -> None:
    assert parsed(firmware_update_unresponsive_bmc_wait=value).unresponsive_wait == 300


@pytest.mark.parametrize(
    ("given", "verify"),
    [
        (True, True),
        (False, False),
        ("True", True),
        ("no", False),
        ("0", False),
        ("on", True),
        (1, True),
    ],
)
def test_verification_may_come_as_text(given: Any, verify: bool) -> None:
    assert parsed(redfish_verify_ca=given).verify is verify


def test_verification_may_name_a_file_or_folder_below_the_one_of_the_operator(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "rack").mkdir()
    (tmp_path / "rack" / "ca.pem").touch()

    def verify(name: str) -> bool | str:
        given = {"redfish_address": "bmc", "redfish_verify_ca": name}
        return info.parse(given, ca_folder=str(tmp_path)).verify

    assert verify("rack") == str(tmp_path / "rack")
    for name in ("rack/ca.pem", str(tmp_path / "rack" / "ca.pem"), "rack/../rack/ca.pem"):
        assert verify(name) == str(tmp_path / "rack" / "ca.pem")


def test_defaults_are_the_only_system_verified_without_login() -> None:
    assert parsed() == info.Info("https://bmc")
    assert info.parse({"redfish_address": "bmc"}, auth_type="basic").auth_type == "basic"


def test_empty_values_count_as_missing() -> None:
    empty = {f"redfish_{name}": "" for name in ("username", "password", "system_id", "auth_type")}
    assert parsed(**empty, redfish_verify_ca=None) == parsed()


def test_a_password_needs_a_user() -> None:
    with pytest.raises(errors.MissingParameter, match="driver_info/redfish_username"):
        parsed(redfish_password="secret")


def test_password_is_in_no_repr_and_no_error() -> None:
    assert "secret" not in repr(parsed(redfish_username="root", redfish_password="secret"))
    with pytest.raises(errors.InvalidParameter) as caught:
        parsed(redfish_address="https://root:secret@bmc")
    assert "secret" not in str(caught.value)


def test_a_slash_at_the_end_of_a_system_id_counts_for_nothing() -> None:
    given = parsed(redfish_system_id="/redfish/v1/Systems/1/").system_id
    assert given == "/redfish/v1/Systems/1"


def test_a_system_id_with_odd_characters_is_quoted_once() -> None:
    odd = parsed(redfish_system_id="/redfish/v1/Systems/ä%20b").system_id
    assert odd == "/redfish/v1/Systems/%C3%A4%20b"


def test_the_manual_names_every_key() -> None:
    manual = pathlib.Path(__file__).parents[3] / "docs" / "redfish.rst"
    text = manual.read_text(encoding="utf-8")
    assert [name for name in info.FIELDS if f"``{name}``" not in text] == []
