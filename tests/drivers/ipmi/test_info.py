"""driver_info of an IPMI BMC: what is taken, and that each bad value is refused by its name."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import masking
from ironic_lite.drivers.ipmi import info

LEAST = {"ipmi_address": "bmc-7"}
SECRET = "p\u00e4ssword-of-21-bytes"


def test_the_address_is_enough() -> None:
    assert info.parse(LEAST) == info.Info(address="bmc-7")


def test_driver_info_is_parsed_whole() -> None:
    found = info.parse(
        {
            "ipmi_address": "[2001:DB8::7]",
            "ipmi_port": "6230",
            "ipmi_username": "root",
            "ipmi_password": "calvin",
            "ipmi_priv_level": "operator",
            "ipmi_cipher_suite": "17",
            "ipmi_hex_kg_key": "4b657900",
            "ipmi_bridging": "dual",
            "ipmi_transit_channel": "0",
            "ipmi_transit_address": "0x82",
            "ipmi_target_channel": 7,
            "ipmi_target_address": "0x72",
            "ipmi_local_address": "0x20",
            "ipmi_force_boot_device": "yes",
            "ipmi_disable_boot_timeout": False,
            "ipmi_terminal_port": 8023,
        }
    )
    assert found == info.Info(
        address="2001:db8::7",
        port=6230,
        username="root",
        password="calvin",
        privilege="OPERATOR",
        cipher_suite=17,
        key=b"Key",
        bridge=info.Bridge((7, 0x72), (0, 0x82), 0x20),
        force_boot_device=True,
        disable_boot_timeout=False,
        terminal_port=8023,
    )


def test_login_of_digits_may_be_a_number() -> None:
    """Ironic's command line writes ``--driver-info ipmi_password=123456`` as a number."""
    found = info.parse({**LEAST, "ipmi_username": 1000, "ipmi_password": 123456})
    assert (found.username, found.password) == ("1000", "123456")
    shown = masking.field("driver_info", {"ipmi_password": 123456})
    assert shown == {"ipmi_password": masking.MASK}


@pytest.mark.parametrize("given", [True, "True", "yes", 1, False, "no", 0])
def test_switch_may_be_a_word_or_a_number(given: object) -> None:
    """Ironic's command line writes ``--driver-info ipmi_force_boot_device=1`` as a number."""
    found = info.parse({**LEAST, "ipmi_force_boot_device": given})
    assert found.force_boot_device is (given in (True, "True", "yes"))


@pytest.mark.parametrize("version", ["1.5", 1.5])
def test_the_old_version_has_another_interface(version: object) -> None:
    assert info.parse({**LEAST, "ipmi_protocol_version": version}).interface == "lan"


def test_a_secret_is_not_shown_with_the_rest() -> None:
    found = info.parse({**LEAST, "ipmi_password": "calvin", "ipmi_hex_kg_key": "4b6579"})
    assert "calvin" not in repr(found)
    assert "Key" not in repr(found)
    assert all(masking.secret(name) for name in ("ipmi_password", "ipmi_hex_kg_key"))


@pytest.mark.parametrize(
    ("values", "missing"),
    [
        ({}, "driver_info/ipmi_address"),
        ({"ipmi_address": ""}, "driver_info/ipmi_address"),
        (
            {**LEAST, "ipmi_bridging": "single", "ipmi_target_channel": 1},
            "driver_info/ipmi_target_address",
        ),
        (
            {**LEAST, "ipmi_bridging": " Dual ", "ipmi_target_channel": 1},
            "driver_info/ipmi_transit_channel, driver_info/ipmi_transit_address, "
            "driver_info/ipmi_target_address",
        ),
    ],
)
def test_missing_keys_are_named_together(values: dict[str, Any], missing: str) -> None:
    with pytest.raises(errors.MissingParameter) as caught:
        info.parse(values)
    assert caught.value.facts["path"] == missing
    info.check(values)  # when it is written, more may follow


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("ipmi_address", True, "must be a string"),
        ("ipmi_address", "-oProxy", "is not a host name"),
        ("ipmi_address", "bmc:623", "ipmi_port"),
        ("ipmi_address", "bmc;reboot", "is not a host name"),
        ("ipmi_address", "a" * 254, "is not a host name"),
        ("ipmi_address", "bmc\n", "control characters"),
        ("ipmi_port", 0, "1 to 65535"),
        ("ipmi_port", 65536, "1 to 65535"),
        ("ipmi_port", True, "1 to 65535"),
        ("ipmi_port", "six", "1 to 65535"),
        ("ipmi_port", 6.5, "1 to 65535"),
        ("ipmi_username", ["root"], "must be a string, not list"),
        ("ipmi_username", "seventeen letters", "16 bytes"),
        ("ipmi_username", "a\0b", "NUL"),
        ("ipmi_password", 1e30, "must be a string"),
        ("ipmi_password", True, "must be a string"),
        ("ipmi_password", 10**20, "20 bytes"),
        ("ipmi_password", "a\0b", "NUL"),
        ("ipmi_password", "\udc80", "surrogate"),
        ("ipmi_password", SECRET, "20 bytes"),
        ("ipmi_priv_level", "ROOT", "one of ADMINISTRATOR, OPERATOR, USER, CALLBACK"),
        ("ipmi_protocol_version", "3.0", "one of 2.0, 1.5"),
        ("ipmi_protocol_version", [], "one of 2.0, 1.5"),
        ("ipmi_cipher_suite", 18, "0 to 17"),
        ("ipmi_cipher_suite", "best", "0 to 17"),
        ("ipmi_hex_kg_key", "abc", "even number"),
        ("ipmi_hex_kg_key", "xy", "even number"),
        ("ipmi_hex_kg_key", "11" * 21, "1 to 20 bytes"),
        ("ipmi_hex_kg_key", "0000", "zero"),
        ("ipmi_hex_kg_key", "110022", "zero byte"),
        ("ipmi_bridging", "triple", "one of no, single, dual"),
        ("ipmi_target_channel", 16, "0 to 15"),
        ("ipmi_target_address", 256, "0 to 255"),
        ("ipmi_target_address", "0xgg", "0 to 255"),
        ("ipmi_transit_channel", -1, "0 to 15"),
        ("ipmi_transit_address", None.__class__, "0 to 255"),
        ("ipmi_local_address", "20h", "0 to 255"),
        ("ipmi_force_boot_device", "perhaps", "true or false"),
        ("ipmi_force_boot_device", 2, "true or false"),
        ("ipmi_disable_boot_timeout", {}, "true or false"),
        ("ipmi_terminal_port", 70000, "1 to 65535"),
    ],
)
def test_a_bad_value_is_refused_by_its_name(key: str, value: object, reason: str) -> None:
    with pytest.raises(errors.InvalidParameter) as caught:
        info.check({**LEAST, key: value})
    assert caught.value.facts["path"] == f"driver_info/{key}"
    assert reason in caught.value.message
    assert caught.value.status == 400
    if key in {"ipmi_password", "ipmi_hex_kg_key"}:
        assert str(value) not in caught.value.message


def test_all_keys_have_a_bad_value_here() -> None:
    tried = test_a_bad_value_is_refused_by_its_name.pytestmark[0].args[1]  # type: ignore[attr-defined]
    assert {key for key, _, _ in tried} == set(info.FIELDS)


@pytest.mark.parametrize(
    ("key", "value"),
    [("ipmi_cipher_suite", 3), ("ipmi_hex_kg_key", "4b"), ("ipmi_password", "x" * 17)],
)
def test_the_old_version_lacks_something(key: str, value: object) -> None:
    with pytest.raises(errors.InvalidParameter, match=f"driver_info/{key}"):
        info.check({**LEAST, "ipmi_protocol_version": "1.5", key: value})


def test_keys_of_other_drivers_are_ignored() -> None:
    info.check({"redfish_address": 5, "deploy_kernel": None})
    assert set(info.properties()) == set(info.FIELDS)
