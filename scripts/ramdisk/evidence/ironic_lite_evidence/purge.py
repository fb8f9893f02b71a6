"""Sanitize commands of NVMe and ATA disks, for ``[deploy]erase_method = purge``.

A disk goes on with a sanitize that has begun, also after a reset, so the end is polled.
"""

from __future__ import annotations

import enum
import glob
import json
import re
import time
from collections.abc import Callable

from ironic_lite_evidence import devices

HOURS = 48
_POLL = 5.0  # seconds
UNREADABLE = 120
"""Polls in a row without a status, after which the end of a sanitize is not awaited."""
_NVME = ((1, "2"), (0, "4"), (2, "3"))
"""Bits of SANICAP and the action for each, best first: block erase, cryptographic, overwrite."""
_SSTAT = slice(2, 4)
"""Place of the status in the log page."""
_DONE, _RUNNING, _DONE_NO_DEALLOCATE = 1, 2, 4
_ATA = (
    ("BLOCK_ERASE_EXT", "--sanitize-block-erase"),
    ("CRYPTO_SCRAMBLE_EXT", "--sanitize-crypto-scramble"),
)
_YES = "--yes-i-know-what-i-am-doing"


class Failed(Exception):
    """A sanitize began, or may have begun, and did not end well."""


class _State(enum.Enum):
    RUNNING, DONE, FAILED, UNREADABLE = range(4)


def sanitize(name: str, sleep: Callable[[float], None] = time.sleep) -> bool:
    """Sanitize a disk; False if the disk cannot, and nothing was done.

    :raises Failed: the sanitize began and failed, has not ended within ``HOURS``, or reports no
        status; or its start did not end, so it may have begun.
    """
    begun, state = _nvme(name) if name.startswith("/dev/nvme") else _ata(name)
    if not begun:
        return False
    unreadable = 0
    for _ in range(int(HOURS * 3600 / _POLL)):
        found = state()
        if found is _State.DONE:
            return True
        if found is _State.FAILED:
            raise Failed(f"the sanitize of {name} failed")
        unreadable = unreadable + 1 if found is _State.UNREADABLE else 0
        if unreadable == UNREADABLE:
            raise Failed(f"the sanitize of {name} began, and its status cannot be read")
        sleep(_POLL)
    raise Failed(f"the sanitize of {name} has not ended within {HOURS} hours")


def _begins(name: str, *command: str) -> bool:
    """Start a sanitize; return False if the disk refuses it."""
    status, _ = devices.ask(*command)
    if status == devices.TOO_SLOW:
        raise Failed(f"the start of a sanitize of {name} did not end; it may have begun")
    return status == 0


def _nvme(name: str) -> tuple[bool, Callable[[], _State]]:
    def state() -> _State:
        # The raw page is the same in each release of nvme-cli, its JSON form is not.
        status, page = devices.ask("nvme", "sanitize-log", name, "-b")
        field = page[_SSTAT]
        if status != 0 or len(field) < _SSTAT.stop - _SSTAT.start:
            return _State.UNREADABLE
        code = int.from_bytes(field, "little") & 7
        if code == _RUNNING:
            return _State.RUNNING
        return _State.DONE if code in {_DONE, _DONE_NO_DEALLOCATE} else _State.FAILED

    controller = re.fullmatch(r"(/dev/nvme\d+)n\d+", name)
    if controller is None or len(glob.glob(f"{controller[1]}n*[0-9]")) > 1 + _partitions(name):
        # A sanitize erases all namespaces, also those that must be left alone.
        return False, state
    try:
        able = int(json.loads(devices.text("nvme", "id-ctrl", name, "-o", "json"))["sanicap"])
    except (ValueError, KeyError, TypeError):
        return False, state
    for bit, action in _NVME:
        if able >> bit & 1:
            return _begins(name, "nvme", "sanitize", name, "-a", action), state
    return False, state


def _partitions(name: str) -> int:
    return len(glob.glob(f"{name}p*[0-9]"))


def _ata(name: str) -> tuple[bool, Callable[[], _State]]:
    def state() -> _State:
        told = devices.text("hdparm", "--sanitize-status", name)
        if not told:
            return _State.UNREADABLE
        if re.search(r"\bSD2\b|In Process", told, re.IGNORECASE):
            return _State.RUNNING
        return _State.DONE if "Completed Without Error" in told else _State.FAILED

    able = devices.text("hdparm", "-I", name)
    for word, option in _ATA:
        if re.search(rf"\*\s+{word}\b", able):
            return _begins(name, "hdparm", _YES, option, name), state
    return False, state
