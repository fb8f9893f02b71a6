"""What an operator writes in ``driver_info`` to steer a fake machine, and what of it is nonsense.

Pure: ``parse`` reads and refuses, ``stage`` acts. The keys are those of ``PROPERTIES``.
"""

from __future__ import annotations

import dataclasses
import re
import reprlib
from collections.abc import Callable, Mapping
from typing import Any

from ironic_lite import errors
from ironic_lite.drivers import base

VERBS = ("inspect", "rescue", "unrescue", "adopt", "delete", "verify")
ASYNC_VERBS = ("inspect", "rescue")
ALL = "*"
LONGEST = 366 * 24 * 3600
"""Seconds: what a timer is asked for must stay a date."""
LONGEST_MESSAGE = 1024
_MAC = re.compile(r"[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}")

PROPERTIES: Mapping[str, str] = {
    "fake_step_seconds": (
        "Seconds each step takes, a number of 0 or more. Default: [fake]step_seconds. Optional."
    ),
    "fake_async_steps": (
        'List of "interface.step", or ["*"] for all: these steps wait and finish by themselves '
        "after fake_step_seconds. Verify steps never wait. Optional."
    ),
    "fake_fail_steps": (
        'Dictionary of "interface.step" to a message: these steps fail with it. Optional.'
    ),
    "fake_fail_power": "Message with which every power call fails. Optional.",
    "fake_fail_verbs": (
        f"Dictionary of a verb ({', '.join(VERBS)}) to the message it fails with. Optional."
    ),
    "fake_async_verbs": (
        f"List of verbs ({', '.join(ASYNC_VERBS)}) that pass through their wait state and finish "
        "by themselves after fake_step_seconds. Optional."
    ),
    "fake_ports": "List of MAC addresses: an inspection finds these network cards. Optional.",
    "fake_steps_unavailable": (
        "Seconds, an integer: only an agent knows the clean steps. Before the first cleaning the "
        "list is not available, retry after that time; -1 is unknown. Optional."
    ),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Behaviour:
    """The keys of one node, checked; a field is empty or None if its key is not there."""

    step_seconds: float | None = None
    async_steps: frozenset[str] = frozenset()
    fail_steps: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fail_power: str | None = None
    fail_verbs: Mapping[str, str] = dataclasses.field(default_factory=dict)
    async_verbs: frozenset[str] = frozenset()
    ports: frozenset[str] = frozenset()
    steps_unavailable: int | None = None

    def waits(self, title: str) -> bool:
        """Tell whether the step ``interface.step`` goes on by itself."""
        return title in self.async_steps or ALL in self.async_steps


def parse(driver_info: Mapping[str, Any]) -> Behaviour:
    """Read the ``fake_`` keys of a node; all others are none of our business.

    A step that no implementation has is let through if it is well formed: an interface derived from
    a fake one may well have it.

    :raises errors.InvalidParameter: naming ``driver_info/<key>``.
    """
    found = {
        key.removeprefix("fake_"): read(key, driver_info[key])
        for key, read in _READERS.items()
        if key in driver_info
    }
    return Behaviour(**found) if found else _PLAIN


def _refuse(key: str, reason: str) -> errors.InvalidParameter:
    return errors.InvalidParameter(path=f"driver_info/{key}", reason=reason)


def _shown(value: object) -> str:
    """An error must not carry ten megabytes back."""
    return reprlib.repr(value)


def _seconds(key: str, value: object) -> float:
    fits = isinstance(value, int | float) and not isinstance(value, bool)
    # Comparing, not math.isfinite: that one fails on a very large int. NaN compares as false.
    if not fits or not 0 <= value <= LONGEST:  # type: ignore[operator]  # fits
        raise _refuse(key, f"{_shown(value)} is not a number of seconds from 0 to {LONGEST}")
    return value  # type: ignore[return-value]  # narrowed by the isinstance above


def _whole_seconds(key: str, value: object) -> int:
    fits = isinstance(value, int) and not isinstance(value, bool)
    if not fits or not -1 <= value <= LONGEST:  # type: ignore[operator]  # fits
        raise _refuse(key, f"{_shown(value)} is not an integer from -1 (unknown) to {LONGEST}")
    return value  # type: ignore[return-value]  # narrowed by the isinstance above


def _message(key: str, value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise _refuse(key, f"{_shown(value)} is not a message; remove the key to fail no more")
    if len(value) > LONGEST_MESSAGE:
        raise _refuse(key, f"a message has at most {LONGEST_MESSAGE} characters")
    return value


def _title(key: str, value: object) -> str:
    interface, _, step = value.partition(".") if isinstance(value, str) else ("", "", "")
    if interface not in base.KINDS or not step.isidentifier():
        raise _refuse(
            key,
            f'{_shown(value)} is not of the form "interface.step" '
            f"with an interface of {', '.join(base.KINDS)}",
        )
    return str(value)


def _async_title(key: str, value: object) -> str:
    return ALL if value == ALL else _title(key, value)


def _verb(key: str, value: object) -> str:
    if value not in VERBS:
        raise _refuse(key, f"{_shown(value)} is not one of {', '.join(VERBS)}")
    return str(value)


def _async_verb(key: str, value: object) -> str:
    if value not in ASYNC_VERBS:
        raise _refuse(key, f"{_shown(value)} is not one of {', '.join(ASYNC_VERBS)}")
    return str(value)


def _mac(key: str, value: object) -> str:
    if not isinstance(value, str) or not _MAC.fullmatch(value):
        raise _refuse(key, f"{_shown(value)} is not a MAC address")
    return value


def _several(entry: Callable[[str, object], str]) -> Callable[[str, object], frozenset[str]]:
    def read(key: str, value: object) -> frozenset[str]:
        if not isinstance(value, list):
            raise _refuse(key, f"{_shown(value)} is not a list")
        return frozenset(entry(key, each) for each in value)

    return read


def _messages(name: Callable[[str, object], str]) -> Callable[[str, object], dict[str, str]]:
    def read(key: str, value: object) -> dict[str, str]:
        if not isinstance(value, dict):
            raise _refuse(key, f"{_shown(value)} is not a dictionary of names to messages")
        return {name(key, each): _message(key, message) for each, message in value.items()}

    return read


_READERS: Mapping[str, Callable[[str, object], Any]] = {
    "fake_step_seconds": _seconds,
    "fake_async_steps": _several(_async_title),
    "fake_fail_steps": _messages(_title),
    "fake_fail_power": _message,
    "fake_fail_verbs": _messages(_verb),
    "fake_async_verbs": _several(_async_verb),
    "fake_ports": _several(_mac),
    "fake_steps_unavailable": _whole_seconds,
}
_PLAIN = Behaviour()
