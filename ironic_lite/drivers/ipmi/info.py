"""Parsing and checking of the IPMI settings in driver_info."""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Callable, Mapping

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.drivers import settings
from ironic_lite.drivers.settings import DriverField

PORT = 623
"""Default UDP port of BMCs (IPMI 2.0, 13.1.2)."""

PRIVILEGES = ("ADMINISTRATOR", "OPERATOR", "USER", "CALLBACK")
VERSIONS: Mapping[str, str] = {"2.0": "lanplus", "1.5": "lan"}
"""Protocol versions, and ipmitool's names for them."""

CIPHER_SUITES = range(18)
"""Suites of IPMI 2.0, and 15 to 17 with SHA-256; 3 and 17 are recommended."""

BRIDGING: Mapping[str, tuple[str, ...]] = {
    "no": (),
    "single": ("ipmi_target_channel", "ipmi_target_address"),
    "dual": (
        "ipmi_transit_channel",
        "ipmi_transit_address",
        "ipmi_target_channel",
        "ipmi_target_address",
    ),
}
"""Kinds of bridging, and their required keys."""

USERNAME_BYTES = 16
PASSWORD_BYTES: Mapping[str, int] = {"2.0": 20, "1.5": 16}
KEY_BYTES = 20
"""Field sizes of the protocol (IPMI 2.0, 22.28, 22.30, 13.20)."""

_HOST = re.compile(r"(?=.{1,253}$)[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_.])?")


@dataclasses.dataclass(frozen=True, slots=True)
class Bridge:
    """The route through the BMC to a controller behind it; dual if it has a transit."""

    target: tuple[int, int]
    """Channel and address."""
    transit: tuple[int, int] | None = None
    local_address: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class IpmiInfo:
    """Address and login of one machine's BMC, and its special needs.

    ``interface`` is ipmitool's name for the protocol version. ``cipher_suite`` None: the list of
    [ipmi]cipher_suite_versions, or ipmitool's choice. ``key`` is the BMC key (Kg) as bytes.
    ``disable_boot_timeout`` None: the option [ipmi]disable_boot_timeout.
    """

    address: str
    port: int = PORT
    username: str | None = None
    password: str = dataclasses.field(default="", repr=False)
    privilege: str = "ADMINISTRATOR"
    interface: str = "lanplus"
    cipher_suite: int | None = None
    key: bytes | None = dataclasses.field(default=None, repr=False)
    bridge: Bridge | None = None
    force_boot_device: bool = False
    disable_boot_timeout: bool | None = None
    terminal_port: int | None = None


def parse(driver_info: JsonView) -> IpmiInfo:
    """Parse driver_info.

    :raises errors.MissingParameter: naming all missing keys at once.
    :raises errors.InvalidParameter: naming the first invalid value.
    """
    _refuse_missing(driver_info)
    values = _read_values(driver_info)
    return IpmiInfo(
        address=values["ipmi_address"],
        port=values.get("ipmi_port", PORT),
        username=values.get("ipmi_username"),
        password=values.get("ipmi_password", ""),
        privilege=values.get("ipmi_priv_level", "ADMINISTRATOR"),
        interface=VERSIONS[values.get("ipmi_protocol_version", "2.0")],
        cipher_suite=values.get("ipmi_cipher_suite"),
        key=values.get("ipmi_hex_kg_key"),
        bridge=_read_bridge(values),
        force_boot_device=values.get("ipmi_force_boot_device", False),
        disable_boot_timeout=values.get("ipmi_disable_boot_timeout"),
        terminal_port=values.get("ipmi_terminal_port"),
    )


def check(driver_info: JsonView) -> None:
    """Reject invalid values; missing values are accepted here.

    :raises errors.InvalidParameter: naming ``driver_info/<key>``.
    """
    _read_values(driver_info)


def _refuse_missing(driver_info: JsonView) -> None:
    bridging = driver_info.get("ipmi_bridging")
    kind = bridging.strip().lower() if isinstance(bridging, str) else "no"
    bridge = [name for name in BRIDGING.get(kind, ()) if settings.absent(driver_info, name)]
    missing = [*settings.missing(FIELDS, driver_info), *bridge]
    if missing:
        raise errors.MissingParameter(path=", ".join(f"driver_info/{name}" for name in missing))


def _read_values(driver_info: JsonView) -> Json:
    found = settings.values(FIELDS, driver_info)
    _check_version(found)
    return found


def _check_version(values: JsonView) -> None:
    """Reject values that the protocol version does not support."""
    version = values.get("ipmi_protocol_version", "2.0")
    for name in ("ipmi_cipher_suite", "ipmi_hex_kg_key") if version == "1.5" else ():
        if name in values:
            raise _invalid_value(name, "is not supported by ipmi_protocol_version 1.5")
    most = PASSWORD_BYTES[version]
    if len(values.get("ipmi_password", "").encode()) > most:
        raise _invalid_value("ipmi_password", f"is longer than the {most} bytes of IPMI {version}")


def _invalid_value(name: str, reason: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path=f"driver_info/{name}", reason=reason)


def _read_bridge(values: JsonView) -> Bridge | None:
    kind = values.get("ipmi_bridging", "no")
    if kind == "no":
        return None
    transit = None
    if kind == "dual":
        transit = (values["ipmi_transit_channel"], values["ipmi_transit_address"])
    target = (values["ipmi_target_channel"], values["ipmi_target_address"])
    return Bridge(target, transit, values.get("ipmi_local_address"))


# -- one reader for each kind of value; its ValueError names the fault, never a secret ----------


def _read_text(value: object) -> str:
    text = settings.text(value)
    if any(ord(letter) < ord(" ") or letter == "\x7f" for letter in text):
        raise ValueError("must not contain control characters")
    return text


def _read_address(value: object) -> str:
    """Return a host name or an IP address; reject words that ipmitool would take for an option."""
    text = _read_text(value).strip()
    bare = text[1:-1] if text.startswith("[") and text.endswith("]") else text
    try:
        return str(ipaddress.ip_address(bare))
    except ValueError:
        pass
    if not _HOST.fullmatch(text):
        raise ValueError(f"{text!r} is not a host name or an IP address; set the port in ipmi_port")
    return text


def _read_username(value: object) -> str:
    text = _read_text(value)
    if len(text.encode()) > USERNAME_BYTES:
        raise ValueError(f"is longer than the {USERNAME_BYTES} bytes of IPMI")
    return text


def _number_reader(low: int, high: int) -> Callable[[object], int]:
    """Return a reader of integers, also as text, in hexadecimal after 0x."""

    def read(value: object) -> int:
        number: object = value
        if isinstance(value, str):
            try:
                number = int(value.strip(), 16 if value.strip().lower().startswith("0x") else 10)
            except ValueError:
                number = None
        if not isinstance(number, int) or isinstance(number, bool) or not low <= number <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return number

    return read


def _read_key(value: object) -> bytes:
    text = _read_text(value).strip()
    try:
        key = bytes.fromhex(text)
    except ValueError:
        raise ValueError("must be an even number of hexadecimal digits") from None
    if not key or len(key) > KEY_BYTES:
        raise ValueError(f"must be 1 to {KEY_BYTES} bytes in hexadecimal")
    # The protocol pads keys with zeros at the end.
    key = key.rstrip(b"\0")
    if not key or b"\0" in key:
        raise ValueError(
            "must not be all zeros or contain a zero byte before another one: ipmitool accepts "
            "such a key only where every user of the conductor's machine can read it"
        )
    return key


_CHANNEL, _BYTE, _PORT = _number_reader(0, 15), _number_reader(0, 255), _number_reader(1, 65535)

FIELDS: Mapping[str, DriverField] = {
    "ipmi_address": DriverField(
        _read_address, "IP address or host name of the BMC.", required=True, example="192.0.2.10"
    ),
    "ipmi_port": DriverField(_PORT, "UDP port of the BMC.", default=str(PORT)),
    "ipmi_username": DriverField(
        _read_username,
        f"User of the BMC, up to {USERNAME_BYTES} bytes. Default: the nameless user.",
    ),
    "ipmi_password": DriverField(
        _read_text,
        "Password of that user, up to 20 bytes (16 with version 1.5). Default: empty.",
    ),
    "ipmi_priv_level": DriverField(
        settings.one_of(*PRIVILEGES, case=str.upper),
        f"Privilege to request: {', '.join(PRIVILEGES)}.",
        default="ADMINISTRATOR",
    ),
    "ipmi_protocol_version": DriverField(
        settings.one_of(*VERSIONS),
        "2.0 or 1.5, which sends the password unprotected.",
        default="2.0",
    ),
    "ipmi_cipher_suite": DriverField(
        _number_reader(CIPHER_SUITES[0], CIPHER_SUITES[-1]),
        "Cipher suite: 17, or 3 on older BMCs; not with version 1.5. Default: those of "
        "[ipmi]cipher_suite_versions, or the best that BMC and ipmitool both support.",
        example="17",
    ),
    "ipmi_hex_kg_key": DriverField(
        _read_key, f"BMC key (Kg) for two-key logins, up to {KEY_BYTES} bytes in hexadecimal."
    ),
    "ipmi_bridging": DriverField(
        settings.one_of(*BRIDGING),
        "single or dual if the machine's controller is behind the BMC.",
        default="no",
    ),
    "ipmi_target_channel": DriverField(
        _CHANNEL, "Channel of the controller. Required for single and dual bridging."
    ),
    "ipmi_target_address": DriverField(
        _BYTE, "Address of the controller. Required for single and dual bridging."
    ),
    "ipmi_transit_channel": DriverField(
        _CHANNEL, "Channel of the controller between. Required for dual bridging."
    ),
    "ipmi_transit_address": DriverField(
        _BYTE, "Address of the controller between. Required for dual bridging."
    ),
    "ipmi_local_address": DriverField(_BYTE, "IPMB address of the sender, for bridging."),
    "ipmi_force_boot_device": DriverField(
        settings.flag,
        "true: the BMC forgets its boot device, so it is sent again before each power on.",
        default="false",
    ),
    "ipmi_disable_boot_timeout": DriverField(
        settings.flag,
        "true: tell the BMC to keep a boot device for longer than IPMI's minute.",
        default="[ipmi]disable_boot_timeout",
    ),
    "ipmi_terminal_port": DriverField(
        _PORT,
        "TCP port of the conductor for the serial console. Default: a free one of "
        "[console]port_range.",
    ),
}
