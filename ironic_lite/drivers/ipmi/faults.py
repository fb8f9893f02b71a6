"""Table of ipmitool's error messages and their meanings.

Its exit status only says that a command failed; the reason is text on standard error. The first
matching row wins.
"""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Mapping, Sequence

from ironic_lite import errors
from ironic_lite.drivers.ipmi import info

# Completion codes of IPMI commands in the messages of ipmitool. Pure.
#
# ipmitool prints the words for a code, or the code itself. The codes are those of table 5-2 of the
# IPMI specification, version 2.0; codes of single commands are printed as numbers.

_NUMBER = re.compile(
    r"(?:rsp=|completion code |unknown \(|error code )0x([0-9a-f]{2})\b", re.IGNORECASE
)
WORDS: Mapping[str, int] = {
    "node busy": 0xC0,
    "invalid command on lun": 0xC2,
    "invalid command": 0xC1,
    "out of space": 0xC4,
    "reservation cancelled or invalid": 0xC5,
    "request data truncated": 0xC6,
    "request data length invalid": 0xC7,
    "request data field length limit exceeded": 0xC8,
    "parameter out of range": 0xC9,
    "cannot return number of requested data bytes": 0xCA,
    "requested sensor, data, or record not found": 0xCB,
    "invalid data field in request": 0xCC,
    "command illegal for specified sensor or record type": 0xCD,
    "command response could not be provided": 0xCE,
    "cannot execute duplicated request": 0xCF,
    "sdr repository in update mode": 0xD0,
    "device firmware in update mode": 0xD1,
    "device firmeware in update mode": 0xD1,  # as older versions of ipmitool print it
    "bmc initialization in progress": 0xD2,
    "destination unavailable": 0xD3,
    "insufficient privilege level": 0xD4,
    "command not supported in present state": 0xD5,
    "cannot execute command, command disabled": 0xD6,
    "unspecified error": 0xFF,
}
"""The words of ipmitool in lower case; the longer of two that begin alike comes first."""


def found(said: str) -> str | None:
    """Return the completion code in a message, such as ``0xd5``; None without one."""
    number = _NUMBER.search(said)
    if number is not None:
        return f"0x{number[1].lower()}"
    low = said.lower()
    code = next((code for words, code in WORDS.items() if words in low), None)
    return None if code is None else f"0x{code:02x}"


class IpmiRetry(enum.Enum):
    """Kinds of commands that may be sent again after a fault."""

    NEVER = "never"
    ANY = "any"
    """The BMC was busy, and did nothing."""
    HARMLESS = "harmless"
    """The command may have run, so only idempotent commands are sent again."""
    CIPHER = "cipher"
    """The command was not sent: retry at once with another cipher suite."""
    LOGIN = "login"
    """The command was not sent: retry once if the BMC has accepted this login before."""
    SILENCE = "silence"
    """Nothing answers, so no password was sent: callers that have time may wait for the BMC."""


class Sort(enum.Enum):
    """Kinds of faults; the value is the message with advice."""

    BUSY = (
        "The BMC at {address} is busy, and was retried for {seconds:g} s. If it stays "
        "busy, reset the BMC."
    )
    SILENT = (
        "The BMC at {address} does not answer on UDP port {port}. Check ipmi_address, ipmi_port "
        "and the network."
    )
    NAMELESS = (
        "The BMC's name {address} cannot be resolved. Check the name, and the DNS of the "
        "conductor's machine."
    )
    LOST = (
        "The BMC at {address} began to answer on UDP port {port}, and then was silent. It may be "
        "restarting: retry. If the error persists, check user and password, and reset the BMC."
    )
    DENIED = (
        "The BMC at {address} refused the login of user {user}. Check ipmi_username, "
        "ipmi_password, that user's rights on the channel, and ipmi_hex_kg_key if the BMC has "
        "such a key."
    )
    PRIVILEGE = (
        "The BMC at {address} does not give user {user} the privilege {privilege}. Raise the "
        "user's on the BMC, or set ipmi_priv_level."
    )
    CIPHER = (
        "The BMC at {address} does not support cipher suite {suite}. Set ipmi_cipher_suite to one "
        "that it supports, usually 17 or 3."
    )
    SESSION = (
        "The BMC at {address} opened no session. Check that IPMI over LAN is switched on there, "
        "user and password, and ipmi_protocol_version."
    )
    PROGRAM = (
        "The program ipmitool cannot run on the conductor's machine. Its list of vendors, usually "
        "/usr/share/misc/enterprise-numbers, is damaged: install it anew, or remove it."
    )
    REFUSED = "The BMC at {address} refused the command {command}."
    BEHIND = (
        "The controller behind the BMC at {address} refused the command {command}. If it "
        "refuses all commands, check the channels and addresses that go with ipmi_bridging."
    )


@dataclasses.dataclass(frozen=True, slots=True)
class FaultRow:
    """``words``, a regular expression for ipmitool's message in lower case, and its meaning."""

    words: str
    sort: Sort
    again: IpmiRetry = IpmiRetry.NEVER


# IPMI 2.0: completion codes in table 5-2, RMCP+ status codes in table 13-15.
TABLE: Sequence[FaultRow] = (
    FaultRow("initialize the oem info dictionary", Sort.PROGRAM),
    FaultRow("address lookup for", Sort.NAMELESS),
    FaultRow("insufficient resources", Sort.BUSY, IpmiRetry.ANY),
    FaultRow("no (session )?slot available", Sort.BUSY, IpmiRetry.ANY),
    FaultRow("node busy", Sort.BUSY, IpmiRetry.ANY),
    FaultRow("out of space", Sort.BUSY, IpmiRetry.ANY),
    FaultRow("bmc initialization in progress", Sort.BUSY, IpmiRetry.ANY),
    FaultRow("in update mode", Sort.BUSY, IpmiRetry.ANY),
    FaultRow("timeout", Sort.BUSY, IpmiRetry.HARMLESS),
    FaultRow("invalid authentication algorithm", Sort.CIPHER, IpmiRetry.CIPHER),
    FaultRow("invalid integrity algorithm", Sort.CIPHER, IpmiRetry.CIPHER),
    FaultRow("invalid confidentiality algorithm", Sort.CIPHER, IpmiRetry.CIPHER),
    FaultRow("no matching authentication payload", Sort.CIPHER, IpmiRetry.CIPHER),
    FaultRow("no matching integrity payload", Sort.CIPHER, IpmiRetry.CIPHER),
    FaultRow("no cipher suite match", Sort.CIPHER, IpmiRetry.CIPHER),
    FaultRow("no matching cipher suite", Sort.CIPHER, IpmiRetry.CIPHER),
    FaultRow("unsupported cipher suite", Sort.CIPHER, IpmiRetry.CIPHER),
    # With a reason after it, the BMC has answered.
    FaultRow("no response from rakp", Sort.LOST, IpmiRetry.LOGIN),
    FaultRow("get session challenge command failed$", Sort.LOST),
    FaultRow(r"set session privilege level to \w+ failed$", Sort.LOST),
    FaultRow("hmac is invalid", Sort.DENIED),
    FaultRow("invalid integrity check value", Sort.DENIED),
    FaultRow("unauthorized name", Sort.DENIED),
    FaultRow("invalid user name", Sort.DENIED),
    FaultRow("privilege level exceeds limit", Sort.PRIVILEGE),
    # Version 1.5: a BMC drops packets signed with a wrong password, without an answer.
    FaultRow("activate session", Sort.DENIED),
    FaultRow("unauthorized role", Sort.PRIVILEGE),
    # Some BMCs answer so to a suite that they do not support.
    FaultRow("open session response message : invalid role", Sort.PRIVILEGE, IpmiRetry.CIPHER),
    FaultRow("invalid role", Sort.PRIVILEGE),
    FaultRow("insufficient privilege level", Sort.PRIVILEGE),
    FaultRow("set session privilege level", Sort.PRIVILEGE),
    FaultRow("get auth capabilities", Sort.SILENT, IpmiRetry.SILENCE),
    FaultRow("channel authentication capabilities", Sort.SILENT, IpmiRetry.SILENCE),
    FaultRow("could not open socket", Sort.SILENT, IpmiRetry.SILENCE),
    FaultRow("close session command failed$", Sort.LOST),
    FaultRow("unable to establish", Sort.SESSION),
)

NOISE = re.compile(
    r"Loading IANA|IANA PEN registry|Failed to load entries from IANA|Running Get |Error response "
    r"0x[0-9a-f]{2} from Get PICMG|Invalid completion code received|Discovered IPMB|Get HPM\.x|RAW "
    r"RE|RAW RSP|Using best available|Unable to Get Channel Cipher|[0-9a-f]{2}( [0-9a-f]{2})*$"
)
"""Beginnings of lines that ipmitool also writes without a fault."""

_LONGEST = 300


@dataclasses.dataclass(frozen=True, slots=True)
class IpmiFault:
    """A failed command: the error to raise, and whether to retry before."""

    error: errors.HardwareError
    again: IpmiRetry
    unopened: bool = False
    """True if the BMC may have refused the cipher suite by another reason, or by silence, before
    it got a password."""


def explain(
    node: info.IpmiInfo,
    said: str,
    command: str,
    *,
    suite: int | None,
    seconds: float,
    more: Sequence[str] = (),
    tried: Sequence[int | None] = (),
) -> IpmiFault:
    """Return the fault that a failed command stands for.

    :param said: standard error of ipmitool.
    :param command: its words, for the error.
    :param suite: the requested cipher suite, None if ipmitool chose it.
    :param seconds: how long a busy BMC is retried.
    :param more: words of further faults after which a command may be sent again.
    :param tried: cipher suites tried so far because none is configured.
    """
    lines = [line.strip(" >\t") for line in said.splitlines()]
    heard = [line for line in lines if line and not NOISE.match(line)]
    text = "\n".join(heard).lower()
    row = _matching_row(text, more, node)
    reason = _shown_text("; ".join(dict.fromkeys(heard)) or "nothing", node)
    sentence = row.sort.value.format(
        address=node.address,
        port=node.port,
        user=node.username or "(none)",
        privilege=node.privilege,
        suite="chosen by ipmitool" if suite is None else suite,
        seconds=seconds,
        command=command,
    )
    kind = KINDS.get(row.sort, errors.HardwareError)
    facts = {"address": node.address, "user": node.username, "reason": reason, "command": command}
    if (code := found("; ".join(heard))) is not None:
        facts["completion_code"] = code
    error = kind(f"{sentence}{_tried_suites(tried)} ipmitool says: {reason}", **facts)
    return IpmiFault(error, row.again, bool(_UNOPENED.search(text)))


_UNOPENED = re.compile(
    r"error in open session response|\A(set session privilege level to \w+ failed\n)?"
    r"error: unable to establish [^\n]*\Z"
)


def _tried_suites(tried: Sequence[int | None]) -> str:
    if len(tried) < _SEVERAL:
        return ""
    names = ", ".join("ipmitool's choice" if one is None else str(one) for one in tried)
    return f" Cipher suites tried: {names}. Switch on one of these on the BMC if all are off."


_SEVERAL = 2


KINDS: Mapping[Sort, type[errors.HardwareError]] = {
    Sort.BUSY: errors.BmcUnreachable,
    Sort.LOST: errors.BmcUnreachable,
    Sort.SILENT: errors.BmcUnreachable,
    Sort.NAMELESS: errors.BmcUnreachable,
    Sort.DENIED: errors.BmcAccessDenied,
    Sort.PRIVILEGE: errors.BmcAccessDenied,
}
"""Errors by kind of fault; ``HardwareError`` for the others."""


def _matching_row(text: str, more: Sequence[str], node: info.IpmiInfo) -> FaultRow:
    if any(words.lower() in text for words in more if words):
        return FaultRow(text, Sort.BUSY, IpmiRetry.ANY)
    other = FaultRow("", Sort.REFUSED if node.bridge is None else Sort.BEHIND)
    return next((row for row in TABLE if re.search(row.words, text, re.MULTILINE)), other)


def _shown_text(text: str, node: info.IpmiInfo) -> str:
    """Return text for an error: one short line, without the password."""
    text = errors.blanked(text, node.password)
    clean = "".join(letter if letter.isprintable() else "?" for letter in text)
    return clean if len(clean) <= _LONGEST else f"{clean[:_LONGEST]}..."
