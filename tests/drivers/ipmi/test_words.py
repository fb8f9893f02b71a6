"""What is said to ipmitool, its logins, causes and counts, and lost locks."""

from __future__ import annotations

import pathlib
import time
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import config, log_lines, masking, metrics
from ironic_lite.domain import failures
from ironic_lite.drivers import base, deadline
from ironic_lite.drivers.ipmi import faults, info, management, power, tool
from ironic_lite.drivers.ipmi.faults import IpmiRetry
from tests.support import expiring_locks, fake_task
from tests.support.bmc_tasks import BmcTask, Program, task_with

# What is said to ipmitool, and what is made of its words: no program runs here.

NODE = info.parse({"ipmi_address": "bmc-7", "ipmi_username": "root", "ipmi_password": "calvin"})
NO_SESSION = "Error: Unable to establish IPMI v2 / RMCP+ session"


# -- the command line --------------------------------------------------------------------------


def test_the_shortest_line() -> None:
    line = tool.command_line(info.parse({"ipmi_address": "bmc-7"}), ("power", "status"))
    told = ["-v", "-I", "lanplus", "-H", "bmc-7", "-p", "623", "-L", "ADMINISTRATOR"]
    assert line[:10] == ["ipmitool", *told]
    assert line[-3:] == ["-E", "power", "status"]


def test_user_suite_and_version() -> None:
    line = tool.command_line(NODE, ("mc", "info"), cipher=17)
    assert " -U root " in " ".join(line)
    assert line[-4:] == ["-C", "17", "mc", "info"]
    old = info.parse({"ipmi_address": "bmc-7", "ipmi_protocol_version": "1.5"})
    assert tool.command_line(old, ("mc", "info"))[2:4] == ["-I", "lan"]


@pytest.mark.parametrize(
    ("bridge", "options"),
    [
        (info.Bridge((7, 0x72)), "-b 0x7 -t 0x72"),
        (info.Bridge((7, 0x72), local_address=0x20), "-m 0x20 -b 0x7 -t 0x72"),
        (info.Bridge((7, 0x72), (0, 0x82)), "-B 0x0 -T 0x82 -b 0x7 -t 0x72"),
    ],
)
def test_bridging(bridge: info.Bridge, options: str) -> None:
    line = tool.command_line(info.IpmiInfo("bmc-7", bridge=bridge), ("power", "on"))
    assert " ".join(line).endswith(f"-E {options} power on")


def test_secrets_are_in_the_environment_alone() -> None:
    node = info.IpmiInfo("bmc-7", username="root", password="pässword", key=b"\xff\x01key")
    line = tool.command_line(node, ("power", "on"))
    assert "-K" in line
    assert not any("ssword" in word or "key" in word for word in line)
    assert tool.command_environment(node, {"PATH": "/bin", "HOME": "/root"}) == {
        b"PATH": b"/bin",
        b"LC_ALL": b"C",
        b"IPMI_PASSWORD": "pässword".encode(),
        b"IPMI_KGKEY": b"\xff\x01key",
    }


def test_without_a_password_none_is_asked_for() -> None:
    assert tool.command_environment(info.IpmiInfo("bmc-7"))[b"IPMI_PASSWORD"] == b""


# -- faults ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "kind", "again", "advice"),
    [
        (
            f"> RAKP 2 HMAC is invalid\n{NO_SESSION}",
            errors.BmcAccessDenied,
            IpmiRetry.NEVER,
            "Check ipmi_username, ipmi_password",
        ),
        (
            f"RAKP 2 message indicates an error : unauthorized name\n{NO_SESSION}",
            errors.BmcAccessDenied,
            IpmiRetry.NEVER,
            "user root",
        ),
        (
            f"RAKP 2 message indicates an error : unauthorized role or privilege level requested"
            f"\n{NO_SESSION}",
            errors.BmcAccessDenied,
            IpmiRetry.NEVER,
            "ipmi_priv_level",
        ),
        (
            f"Get Auth Capabilities error\n{NO_SESSION}",
            errors.BmcUnreachable,
            IpmiRetry.SILENCE,
            "UDP port 623",
        ),
        (
            f"Address lookup for bmc-7 failed\nCould not open socket!\n{NO_SESSION}",
            errors.BmcUnreachable,
            IpmiRetry.NEVER,
            "cannot be resolved",
        ),
        (
            f"Error in open session response message : invalid authentication algorithm\n"
            f"{NO_SESSION}",
            errors.HardwareError,
            IpmiRetry.CIPHER,
            "cipher suite 17",
        ),
        (
            f"Error in open session response message : insufficient resources for session\n"
            f"{NO_SESSION}",
            errors.BmcUnreachable,
            IpmiRetry.ANY,
            "for 60 s",
        ),
        (
            "Get Chassis Power Status failed: Node busy",
            errors.BmcUnreachable,
            IpmiRetry.ANY,
            "reset",
        ),
        ("Get Device ID failed: Out of space", errors.BmcUnreachable, IpmiRetry.ANY, "reset"),
        (
            "Get Device ID failed: BMC initialization in progress",
            errors.BmcUnreachable,
            IpmiRetry.ANY,
            "reset",
        ),
        ("Close Session failed: Timeout", errors.BmcUnreachable, IpmiRetry.HARMLESS, "reset"),
        (
            f"Activate Session error:\tNo session slot available\n{NO_SESSION}",
            errors.BmcUnreachable,
            IpmiRetry.ANY,
            "reset",
        ),
        (
            "Get Device ID failed: Device firmeware in update mode",
            errors.BmcUnreachable,
            IpmiRetry.ANY,
            "reset",
        ),
        (
            f"Activate Session error:\tRequested privilege level exceeds limit\n{NO_SESSION}",
            errors.BmcAccessDenied,
            IpmiRetry.NEVER,
            "ipmi_priv_level",
        ),
        (
            f"Set Session Privilege Level to ADMINISTRATOR failed: Unknown (0x81)\n{NO_SESSION}",
            errors.BmcAccessDenied,
            IpmiRetry.NEVER,
            "ipmi_priv_level",
        ),
        (
            f"Set Session Privilege Level to ADMINISTRATOR failed\n{NO_SESSION}",
            errors.BmcUnreachable,
            IpmiRetry.NEVER,
            "then was silent",
        ),
        (
            f"Activate Session command failed\n{NO_SESSION}",
            errors.BmcAccessDenied,
            IpmiRetry.NEVER,
            "Check ipmi_username, ipmi_password",
        ),
        (
            f"Could not open socket!\n{NO_SESSION}",
            errors.BmcUnreachable,
            IpmiRetry.SILENCE,
            "and the network",
        ),
        (
            f"Address lookup for timeout-lab failed\n{NO_SESSION}",
            errors.BmcUnreachable,
            IpmiRetry.NEVER,
            "cannot be resolved",
        ),
        (NO_SESSION, errors.HardwareError, IpmiRetry.NEVER, "IPMI over LAN"),
        (
            "Set Chassis Power Control to Diag failed: Invalid data field in request",
            errors.HardwareError,
            IpmiRetry.NEVER,
            "refused the command power on",
        ),
        ("", errors.HardwareError, IpmiRetry.NEVER, "ipmitool says: nothing"),
    ],
)
def test_messages_of_ipmitool_are_understood(
    said: str, kind: type[errors.Error], again: IpmiRetry, advice: str
) -> None:
    fault = faults.explain(NODE, said, "power on", suite=17, seconds=60)
    assert (type(fault.error), fault.again) == (kind, again)
    assert advice in fault.error.message
    assert "bmc-7" in fault.error.message


def test_a_refusal_behind_a_bridge_names_what_to_check() -> None:
    node = info.IpmiInfo("bmc-7", bridge=info.Bridge((0, 0x82)))
    said = "Get Chassis Power Status failed: Unknown (0x83)"
    message = faults.explain(node, said, "power status", suite=3, seconds=1).error.message
    assert "controller behind the BMC at bmc-7" in message
    assert "ipmi_bridging" in message


def test_an_operator_may_add_words() -> None:
    said = "Get Device ID failed: Unknown (0xD9)"
    assert faults.explain(NODE, said, "", suite=None, seconds=1).again is IpmiRetry.NEVER
    more = ["", "unknown (0xd9)"]
    assert faults.explain(NODE, said, "", suite=None, seconds=1, more=more).again is IpmiRetry.ANY


def test_harmless_messages_of_ipmitool_are_left_out() -> None:
    said = (
        "Loading IANA PEN Registry...\n"
        "Running Get VSO Capabilities my_addr 0x20, transit 0, target 0x20\n"
        "Invalid completion code received: Insufficient privilege level\n"
        "Discovered IPMB address 0x0\n"
        "RAW REQUEST (3 bytes)\n 05 00 00\n"
        "Unable to send RAW command (channel=0x0): Invalid command\n"
    )
    fault = faults.explain(NODE, said, "raw 0x05", suite=None, seconds=1)
    assert type(fault.error) is errors.HardwareError
    reason = "Unable to send RAW command (channel=0x0): Invalid command"
    assert fault.error.facts["reason"] == reason


def test_an_error_is_one_short_line_without_the_password() -> None:
    said = "no session with \x1b[1mcalvin\x07\n" + "x" * 5000
    message = faults.explain(NODE, said, "", suite=None, seconds=1).error.message
    assert "calvin" not in message
    assert message.isprintable()
    assert len(message) < 500


# -- boot flags --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "mode", "persistent", "vendor", "line"),
    [
        ("pxe", "bios", False, None, "chassis bootdev pxe"),
        ("disk", "bios", True, "Supermicro", "chassis bootdev disk options=persistent"),
        ("pxe", "uefi", False, None, "raw 0x00 0x08 0x05 0xa0 0x04 0x00 0x00 0x00"),
        ("disk", "uefi", True, "dell inc.", "raw 0x00 0x08 0x05 0xe0 0x08 0x00 0x00 0x00"),
        ("disk", "uefi", True, "supermicro", "raw 0x00 0x08 0x05 0xe0 0x24 0x00 0x00 0x00"),
        (
            "disk",
            "uefi",
            False,
            "Super Micro Computer Inc.",
            "raw 0x00 0x08 0x05 0xa0 0x24 0x00 0x00 0x00",
        ),
        ("cdrom", "uefi", False, "supermicro", "raw 0x00 0x08 0x05 0xa0 0x14 0x00 0x00 0x00"),
        ("bios", "uefi", False, None, "raw 0x00 0x08 0x05 0xa0 0x18 0x00 0x00 0x00"),
        ("safe", "uefi", True, None, "raw 0x00 0x08 0x05 0xe0 0x0c 0x00 0x00 0x00"),
    ],
)
def test_a_boot_device_is_written(
    device: str, mode: str, persistent: bool, vendor: str | None, line: str
) -> None:
    words = management.write(device, mode=mode, persistent=persistent, vendor=vendor)
    assert " ".join(words) == line


def test_the_maker_is_asked_for_only_where_it_counts() -> None:
    told = {(mode, device) for mode in ("bios", "uefi") for device in management.DEVICES}
    assert {one for one in told if management.quirky(*one)} == {("uefi", "disk")}


@pytest.mark.parametrize(
    ("answer", "device", "persistent"),
    [
        (" 01 05 80 04 00 00 00\n", "pxe", False),
        (" 01 05 e0 08 00 00 00\n", "disk", True),
        (" 01 05 e0 24 00 00 00", "disk", True),
        (" 01 05 a0 14", "cdrom", False),
        (" 01 05 a0 20", "cdrom", False),
        (" 01 05 c0 18", "bios", True),
        (" 01 05 80 0c", "safe", False),
        (" 01 05 00 00 00 00 00", None, None),
        (" 01 05 80 3c 00 00 00", None, None),
        # Bits beside those of the device: the lock of the keyboard, and a blank screen.
        (" 01 05 80 c6 00 00 00", "pxe", False),
    ],
)
def test_a_boot_device_is_read(answer: str, device: str | None, persistent: bool | None) -> None:
    assert management.read_flags(answer) == {"boot_device": device, "persistent": persistent}


@pytest.mark.parametrize("answer", ["", "01 05", "01 06 80 04", "hello", "01 05 80 0", "\0"])
def test_output_without_boot_flags_is_an_error(answer: str) -> None:
    with pytest.raises(ValueError, match=r"too short for boot flags|not a list of"):
        management.read_flags(answer)


# -- the maker, and sensors --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "name"),
    [
        ("Device ID : 32\nManufacturer ID  : 674\nManufacturer Name : Dell Inc.\n", "dell inc."),
        ("Manufacturer Name         : Unknown (0x2A7C)\n", None),
        ("Manufacturer Name         : \nProduct ID                : 1\n", None),
        ("", None),
    ],
)
def test_the_maker_is_read(answer: str, name: str | None) -> None:
    assert management.parse_vendor(answer) == name


SENSORS = """\
Sensor ID              : CPU1 Temp (0x1)
 Entity ID             : 3.1 (Processor)
 Sensor Type (Threshold)  : Temperature (0x01)
 Sensor Reading        : 45 (+/- 0) degrees C
 Status                : ok
 Upper critical        : 95.000

Sensor ID              : FAN1 (0x41)
 Entity ID             : 29.1 (Fan Device)
 Sensor Type (Threshold)  : Fan (0x04)
 Sensor Reading        : Disabled
 Status                : Disabled

Device ID              : BMC FRU
 Entity ID             : 7.1 (System Board)

Sensor ID              : PS1 Status (0xc8)
 Entity ID             : 10.1 (Power Supply)
 Sensor Type (Discrete): Power Supply (0x08)
 Sensor Reading        : 1h
 States Asserted       : Power Supply
                         [Presence detected]
                         [Power Supply AC lost]
 OEM                   : 0

Sensor ID              : Board Temp (0x2)
 Sensor Type (Threshold)  : Temperature (0x01)
 Sensor Reading        : 31 (+/- 0) degrees C
"""


def test_sensors_are_sorted_by_their_types() -> None:
    found = management.parse_sensors(SENSORS)
    assert {kind: sorted(named) for kind, named in found.items()} == {
        "Temperature": ["Board Temp (0x2)", "CPU1 Temp (0x1)"],
        "Fan": ["FAN1 (0x41)"],
        "Power Supply": ["PS1 Status (0xc8)"],
    }
    assert found["Temperature"]["CPU1 Temp (0x1)"] == {
        "Sensor ID": "CPU1 Temp (0x1)",
        "Entity ID": "3.1 (Processor)",
        "Sensor Type (Threshold)": "Temperature (0x01)",
        "Sensor Reading": "45 (+/- 0) degrees C",
        "Status": "ok",
        "Upper critical": "95.000",
    }
    supply = found["Power Supply"]["PS1 Status (0xc8)"]
    assert supply["States Asserted"] == "Presence detected, Power Supply AC lost"
    assert supply["OEM"] == "0"


@pytest.mark.parametrize("text", ["", "\n\n", "garbage\n: \n\0", " Sensor ID"])
def test_output_without_sensors_has_none(text: str) -> None:
    assert management.parse_sensors(text) == {}


# driver_info of an IPMI BMC: what is taken, and that each bad value is refused by its name.

LEAST = {"ipmi_address": "bmc-7"}
SECRET = "p\u00e4ssword-of-21-bytes"


def test_the_address_is_enough() -> None:
    assert info.parse(LEAST) == info.IpmiInfo(address="bmc-7")


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
    assert found == info.IpmiInfo(
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


# Causes of failed IPMI commands: code, completion code, and the command.

PASSWORD_IN_CAUSE = "s3cret-of-the-bmc"
SAID = {
    "silent": (f"Get Auth Capabilities error\\n{NO_SESSION}", "BmcUnreachable", None),
    "denied": (f"RAKP 2 HMAC is invalid\\n{NO_SESSION}", "BmcAccessDenied", None),
    "privilege": ("Set Session Privilege Level to ADMINISTRATOR failed: Unknown (0x81)",
                  "BmcAccessDenied", "0x81"),
    "refused": ("Get Chassis Power Status failed: Command not supported in present state",
                "HardwareError", "0xd5"),
    "raw": ("Unable to send RAW command (channel=0x0 netfn=0x0 lun=0x0 cmd=0x1 rsp=0xc1)",
            "HardwareError", "0xc1"),
}  # fmt: skip
"""The words of ipmitool, the code of the cause, and the completion code."""


def machine() -> BmcTask:
    info = {
        "ipmi_address": "127.0.0.1",
        "ipmi_username": "root",
        "ipmi_password": PASSWORD_IN_CAUSE,
    }
    return task_with(info)


@pytest.mark.parametrize(("said", "code", "completion"), SAID.values(), ids=SAID)
def test_each_fault_of_an_ipmi_bmc_has_a_cause(
    program: Program, said: str, code: str, completion: str | None
) -> None:
    program(f"printf '{said}' >&2\nexit 1")
    with pytest.raises(errors.Error) as caught:
        power.IpmiPower().get_power_state(machine())
    cause = failures.of(caught.value)
    assert (cause["code"], cause["facts"]["command"]) == (code, "power status")
    assert cause["facts"].get("completion_code") == completion
    assert cause["facts"]["address"] == "127.0.0.1"
    assert cause["retryable"] is (code == "BmcUnreachable")
    assert PASSWORD_IN_CAUSE not in str(cause)


def test_refused_power_change_keeps_the_refusal_as_its_cause(program: Program) -> None:
    said = "Set Chassis Power Control to Up/On failed: Invalid data field in request"
    program(
        f'case "$*" in *status*) echo "Chassis Power is off"; exit 0 ;; esac\n'
        f"echo '{said}' >&2\nexit 1"
    )
    with pytest.raises(errors.PowerFailure) as caught:
        power.IpmiPower().set_power_state(machine(), base.POWER_ON)
    cause = failures.of(caught.value)
    assert (cause["code"], cause["facts"]["completion_code"]) == ("HardwareError", "0xcc")
    assert cause["facts"]["command"] == "power on"


@pytest.mark.parametrize("script", ["exit 1", "exec sleep 60"], ids=["refused", "killed"])
def test_bytes_of_a_raw_command_are_not_in_its_cause(program: Program, script: str) -> None:
    program(script)
    words = ("raw", "0x06", "0x47", "0x02", "0x70", "0x77")
    with pytest.raises(errors.Error) as caught:
        tool.run(machine(), words, seconds=1)
    cause = failures.of(caught.value)
    assert cause["facts"]["command"] == "raw 0x06 0x47 (and 3 bytes)"
    assert "raw 0x06 0x47 (and 3 bytes)" in cause["text"]
    assert "0x70" not in str(cause)


# What is counted of commands to IPMI BMCs, and what those do who would rather not wait.

STATUS = ("power", "status")
BUSY = "echo run >> calls\necho 'Error: Node busy' >&2\nexit 1"


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[metrics.BmcCounters]:
    """Counts of this test alone, of BMCs that need no rest."""
    made = metrics.BmcCounters()
    monkeypatch.setattr(metrics, "BMCS", made)
    monkeypatch.setattr(tool, "BMCS", tool.Bmcs())
    yield made


def results(made: metrics.BmcCounters) -> dict[str, int]:
    """Return how many commands were counted, by result."""
    told = made.snapshot()["bmc_calls_total"]
    assert {(one["kind"], one["operation"]) for one in told} <= {("ipmi", "power")}
    return {one["result"]: one["value"] for one in told}


def test_each_command_is_counted_with_its_result(
    program: Program, counted: metrics.BmcCounters
) -> None:
    task = task_with({"ipmi_address": "127.0.0.1", "ipmi_port": 1})
    program("echo 'Chassis Power is on'")
    tool.run(task, STATUS)
    program("echo 'Unable to establish IPMI v2 / RMCP+ session' >&2\nexit 1")
    with pytest.raises(errors.Error), deadline.limit(deadline.UNHURRIED):
        tool.run(task, STATUS)
    assert sum(results(counted).values()) == 2
    assert results(counted)["ok"] == 1
    (seconds,) = counted.snapshot()["bmc_call_seconds"]
    assert seconds["count"] == 2


def test_a_repetition_is_counted_and_who_comes_back_by_himself_causes_none(
    program: Program, counted: metrics.BmcCounters
) -> None:
    config.CONF.set_override("min_command_interval", 1, group="ipmi")
    task = task_with({"ipmi_address": "127.0.0.1", "ipmi_port": 2})
    folder = program(f"[ -e calls ] && {{ echo 'Chassis Power is on'; exit 0; }}\n{BUSY}")
    tool.run(task, STATUS)
    assert counted.snapshot()["bmc_retries_total"] == [{"kind": "ipmi", "value": 1}]
    (folder / "calls").unlink()
    with pytest.raises(errors.HardwareError), deadline.limit(deadline.UNHURRIED):
        tool.run(task, STATUS)
    assert (folder / "calls").read_text() == "run\n"
    assert counted.snapshot()["bmc_retries_total"] == [{"kind": "ipmi", "value": 1}]


class Lines:
    """A sink that keeps what it gets."""

    def __init__(self) -> None:
        self.found: list[tuple[str, str, bool]] = []

    def add(self, source: str, text: str, *, minor: bool = False) -> None:
        self.found.append((source, text.rpartition(" 0.")[0], minor))


def test_each_command_is_a_line_of_the_log_without_the_bytes_of_a_raw_one(
    program: Program,
) -> None:
    task, lines = task_with({"ipmi_address": "127.0.0.1", "ipmi_port": 3}), Lines()
    with log_lines.gathering_run_lines(lines):
        program("echo 'Chassis Power is on'")
        tool.run(task, STATUS)
        tool.run(task, ("raw", "0x06", "0x47", "0x68", "0x75", "0x6e"), once=True)
        program("echo 'Insufficient privilege level' >&2\nexit 1")
        with pytest.raises(errors.Error), deadline.limit(deadline.UNHURRIED):
            tool.run(task, ("power", "on"))
    assert lines.found == [
        ("bmc", "ipmitool power status ok", True),
        ("bmc", "ipmitool raw 0x06 0x47 (and 3 bytes) ok", False),
        ("bmc", "ipmitool power on failed (Insufficient privilege level)", False),
    ]


# A conductor that has lost a node runs ipmitool no more, whatever method it is in.

POWER, MANAGEMENT = power.IpmiPower(), management.IpmiManagement()
INFO = {"ipmi_address": "192.0.2.9", "ipmi_username": "u", "ipmi_password": "p"}
BMC = """\
echo "$*" >> commands
case "$*" in
    *" power status") echo "Chassis Power is $(cat power 2> /dev/null || echo on)" ;;
    *" power on" | *" power reset") echo on > power ;;
    *" power off" | *" power soft") echo off > power ;;
esac
"""
"""A machine that goes where it is sent at once."""

ACTS: dict[str, expiring_locks.Act] = {
    "power on": lambda task: POWER.set_power_state(task, base.POWER_ON, 2),
    "power off": lambda task: POWER.set_power_state(task, base.POWER_OFF, 2),
    "soft power off": lambda task: POWER.set_power_state(task, base.SOFT_POWER_OFF, 2),
    "reboot": lambda task: POWER.reboot(task, 2),
    "boot device": lambda task: MANAGEMENT.set_boot_device(task, "pxe", persistent=False),
    "interrupt": MANAGEMENT.inject_nmi,
    "restart": MANAGEMENT.restart_bmc,
    "sensors": MANAGEMENT.get_sensors_data,
}


@pytest.mark.parametrize("name", ACTS)
def test_no_command_is_run_after_the_lock_is_lost(program: Program, name: str) -> None:
    commands = program(BMC) / "commands"

    def make(answers: int) -> expiring_locks.LeasedTask:
        node = fake_task.node(driver="ipmi", driver_info=INFO, power_state="power on")
        return expiring_locks.LeasedTask(node, answers=answers)

    def orders() -> list[str]:
        return commands.read_text(encoding="utf-8").splitlines() if commands.exists() else []

    assert expiring_locks.interrupt(ACTS[name], make, orders) >= 1


class Unsure(fake_task.FakeTask):
    """A task whose lock is not sure any more when the program has begun."""

    def __init__(self, begun: pathlib.Path, *, ours: bool) -> None:
        super().__init__(fake_task.node(driver="ipmi", driver_info=INFO))
        self._begun = begun
        self._ours = ours

    @property
    def lock_is_sure(self) -> bool:
        return not self._begun.exists()

    def confirm_lock(self, *, changes: bool = False) -> None:
        super().confirm_lock(changes=changes)
        if self._begun.exists() and not self._ours:
            raise errors.LockLost(node=self.node.uuid)


@pytest.mark.parametrize(
    ("ours", "error"), [(False, errors.LockLost), (True, errors.BmcUnreachable)]
)
def test_a_command_that_runs_is_killed_when_the_lock_is_not_sure(
    program: Program, ours: bool, error: type[errors.Error]
) -> None:
    folder = program("touch begun; sleep 20; touch sent")
    began = time.monotonic()
    with pytest.raises(error):
        tool.run(Unsure(folder / "begun", ours=ours), ("power", "on"), once=True)
    assert time.monotonic() - began < 15
    assert not (folder / "sent").exists()
