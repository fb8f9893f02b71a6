"""Completion codes of IPMI commands in the messages of ipmitool. Pure.

ipmitool prints the words for a code, or the code itself. The codes are those of table 5-2 of the
IPMI specification, version 2.0; codes of single commands are printed as numbers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

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
