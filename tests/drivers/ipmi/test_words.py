"""What is said to ipmitool, and what is made of its words: no program runs here."""

from __future__ import annotations

import pytest

from ironic_lite import errors
from ironic_lite.drivers.ipmi import command, faults, flags, info, sensors, vendors
from ironic_lite.drivers.ipmi.faults import Again

NODE = info.parse({"ipmi_address": "bmc-7", "ipmi_username": "root", "ipmi_password": "calvin"})
NO_SESSION = "Error: Unable to establish IPMI v2 / RMCP+ session"


# -- the command line --------------------------------------------------------------------------


def test_the_shortest_line() -> None:
    line = command.line(info.parse({"ipmi_address": "bmc-7"}), ("power", "status"))
    told = ["-v", "-I", "lanplus", "-H", "bmc-7", "-p", "623", "-L", "ADMINISTRATOR"]
    assert line[:10] == ["ipmitool", *told]
    assert line[-3:] == ["-E", "power", "status"]


def test_user_suite_and_version() -> None:
    line = command.line(NODE, ("mc", "info"), cipher=17)
    assert " -U root " in " ".join(line)
    assert line[-4:] == ["-C", "17", "mc", "info"]
    old = info.parse({"ipmi_address": "bmc-7", "ipmi_protocol_version": "1.5"})
    assert command.line(old, ("mc", "info"))[2:4] == ["-I", "lan"]


@pytest.mark.parametrize(
    ("bridge", "options"),
    [
        (info.Bridge((7, 0x72)), "-b 0x7 -t 0x72"),
        (info.Bridge((7, 0x72), local_address=0x20), "-m 0x20 -b 0x7 -t 0x72"),
        (info.Bridge((7, 0x72), (0, 0x82)), "-B 0x0 -T 0x82 -b 0x7 -t 0x72"),
    ],
)
def test_bridging(bridge: info.Bridge, options: str) -> None:
    line = command.line(info.Info("bmc-7", bridge=bridge), ("power", "on"))
    assert " ".join(line).endswith(f"-E {options} power on")


def test_secrets_are_in_the_environment_alone() -> None:
    node = info.Info("bmc-7", username="root", password="pässword", key=b"\xff\x01key")
    line = command.line(node, ("power", "on"))
    assert "-K" in line
    assert not any("ssword" in word or "key" in word for word in line)
    assert command.environment(node, {"PATH": "/bin", "HOME": "/root"}) == {
        b"PATH": b"/bin",
        b"LC_ALL": b"C",
        b"IPMI_PASSWORD": "pässword".encode(),
        b"IPMI_KGKEY": b"\xff\x01key",
    }


def test_without_a_password_none_is_asked_for() -> None:
    assert command.environment(info.Info("bmc-7"))[b"IPMI_PASSWORD"] == b""


# -- faults ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "kind", "again", "advice"),
    [
        (
            f"> RAKP 2 HMAC is invalid\n{NO_SESSION}",
            errors.BmcAccessDenied,
            Again.NEVER,
            "Check ipmi_username, ipmi_password",
        ),
        (
            f"RAKP 2 message indicates an error : unauthorized name\n{NO_SESSION}",
            errors.BmcAccessDenied,
            Again.NEVER,
            "user root",
        ),
        (
            f"RAKP 2 message indicates an error : unauthorized role or privilege level requested"
            f"\n{NO_SESSION}",
            errors.BmcAccessDenied,
            Again.NEVER,
            "ipmi_priv_level",
        ),
        (
            f"Get Auth Capabilities error\n{NO_SESSION}",
            errors.BmcUnreachable,
            Again.SILENCE,
            "UDP port 623",
        ),
        (
            f"Address lookup for bmc-7 failed\nCould not open socket!\n{NO_SESSION}",
            errors.BmcUnreachable,
            Again.NEVER,
            "cannot be resolved",
        ),
        (
            f"Error in open session response message : invalid authentication algorithm\n"
            f"{NO_SESSION}",
            errors.HardwareError,
            Again.CIPHER,
            "cipher suite 17",
        ),
        (
            f"Error in open session response message : insufficient resources for session\n"
            f"{NO_SESSION}",
            errors.BmcUnreachable,
            Again.ANY,
            "for 60 s",
        ),
        ("Get Chassis Power Status failed: Node busy", errors.BmcUnreachable, Again.ANY, "reset"),
        ("Get Device ID failed: Out of space", errors.BmcUnreachable, Again.ANY, "reset"),
        (
            "Get Device ID failed: BMC initialization in progress",
            errors.BmcUnreachable,
            Again.ANY,
            "reset",
        ),
        ("Close Session failed: Timeout", errors.BmcUnreachable, Again.HARMLESS, "reset"),
        (
            f"Activate Session error:\tNo session slot available\n{NO_SESSION}",
            errors.BmcUnreachable,
            Again.ANY,
            "reset",
        ),
        (
            "Get Device ID failed: Device firmeware in update mode",
            errors.BmcUnreachable,
            Again.ANY,
            "reset",
        ),
        (
            f"Activate Session error:\tRequested privilege level exceeds limit\n{NO_SESSION}",
            errors.BmcAccessDenied,
            Again.NEVER,
            "ipmi_priv_level",
        ),
        (
            f"Set Session Privilege Level to ADMINISTRATOR failed: Unknown (0x81)\n{NO_SESSION}",
            errors.BmcAccessDenied,
            Again.NEVER,
            "ipmi_priv_level",
        ),
        (
            f"Set Session Privilege Level to ADMINISTRATOR failed\n{NO_SESSION}",
            errors.BmcUnreachable,
            Again.NEVER,
            "then was silent",
        ),
        (
            f"Activate Session command failed\n{NO_SESSION}",
            errors.BmcAccessDenied,
            Again.NEVER,
            "Check ipmi_username, ipmi_password",
        ),
        (
            f"Could not open socket!\n{NO_SESSION}",
            errors.BmcUnreachable,
            Again.SILENCE,
            "and the network",
        ),
        (
            f"Address lookup for timeout-lab failed\n{NO_SESSION}",
            errors.BmcUnreachable,
            Again.NEVER,
            "cannot be resolved",
        ),
        (NO_SESSION, errors.HardwareError, Again.NEVER, "IPMI over LAN"),
        (
            "Set Chassis Power Control to Diag failed: Invalid data field in request",
            errors.HardwareError,
            Again.NEVER,
            "refused the command power on",
        ),
        ("", errors.HardwareError, Again.NEVER, "ipmitool says: nothing"),
    ],
)
def test_messages_of_ipmitool_are_understood(
    said: str, kind: type[errors.Error], again: Again, advice: str
) -> None:
    fault = faults.explain(NODE, said, "power on", suite=17, seconds=60)
    assert (type(fault.error), fault.again) == (kind, again)
    assert advice in fault.error.message
    assert "bmc-7" in fault.error.message


def test_a_refusal_behind_a_bridge_names_what_to_check() -> None:
    node = info.Info("bmc-7", bridge=info.Bridge((0, 0x82)))
    said = "Get Chassis Power Status failed: Unknown (0x83)"
    message = faults.explain(node, said, "power status", suite=3, seconds=1).error.message
    assert "controller behind the BMC at bmc-7" in message
    assert "ipmi_bridging" in message


def test_an_operator_may_add_words() -> None:
    said = "Get Device ID failed: Unknown (0xD9)"
    assert faults.explain(NODE, said, "", suite=None, seconds=1).again is Again.NEVER
    more = ["", "unknown (0xd9)"]
    assert faults.explain(NODE, said, "", suite=None, seconds=1, more=more).again is Again.ANY


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
    words = flags.write(device, mode=mode, persistent=persistent, vendor=vendor)
    assert " ".join(words) == line


def test_the_maker_is_asked_for_only_where_it_counts() -> None:
    told = {(mode, device) for mode in ("bios", "uefi") for device in flags.DEVICES}
    assert {one for one in told if flags.quirky(*one)} == {("uefi", "disk")}


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
    assert flags.read(answer) == {"boot_device": device, "persistent": persistent}


@pytest.mark.parametrize("answer", ["", "01 05", "01 06 80 04", "hello", "01 05 80 0", "\0"])
def test_output_without_boot_flags_is_an_error(answer: str) -> None:
    with pytest.raises(ValueError, match=r"too short for boot flags|not a list of"):
        flags.read(answer)


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
    assert vendors.parse(answer) == name


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
    found = sensors.parse(SENSORS)
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
    assert sensors.parse(text) == {}
