"""Parsing of what a ramdisk reports of an erasing step. Pure.

A hardware manager of the ramdisk returns a `Report` as the result of an erasing clean step. Any
other result, such as that of a stock agent, proves nothing.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, TypedDict

import orjson

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView

KIND = "ironic_lite.erasure_result/1"
MOST_DISKS = 1000
MOST_TOOLS = 64
"""Programs noted for one disk."""
LARGEST = 960 * 1024
"""Bytes of all disks, so that a record has at most 1 MiB."""
_TEXT = 1024
"""Characters of a text."""
_WORDS = 64
"""Words of a command."""
_LARGEST = 2**63 - 1
_LAST_EXIT = 255
_DIGEST = re.compile("[0-9a-f]{64}")

Level: TypeAlias = Literal["none", "clear", "purge"]
LEVELS: tuple[Level, ...] = ("none", "clear", "purge")
"""Levels of erasure, weakest first: metadata or nothing, all addressable blocks, sanitize."""
RESULTS = ("erased", "skipped", "failed")


class Tool(TypedDict, total=False):
    """A program that the ramdisk ran for a disk; ``name``, ``command`` and ``exit`` are there."""

    name: str
    version: str
    command: list[str]
    exit: int
    output_sha256: str


class Verification(TypedDict):
    """Samples read before and after the erasure: how many changed, how many are blank now."""

    samples: int
    changed: int
    blank: int


class Disk(TypedDict, total=False):
    """A disk of the ramdisk's inventory; ``name`` and ``result`` are there.

    ``size`` is in bytes; times are ISO 8601; ``why`` explains a disk that was not erased.
    """

    name: str
    vendor: str
    model: str
    serial: str
    wwn: str
    size: int
    media: str
    result: Literal["erased", "skipped", "failed"]
    level: Level
    method: str
    tools: list[Tool]
    started_at: str
    ended_at: str
    verification: Verification
    why: str


class Report(TypedDict, total=False):
    """The result of an erasing step: every disk of the ramdisk's inventory at that moment."""

    kind: str
    agent_version: str
    managers: dict[str, str]
    disks: list[Disk]


@dataclasses.dataclass(frozen=True, slots=True)
class Reported:
    """A checked report. ``fault`` explains why the result is no report; then nothing is proven."""

    disks: tuple[Disk, ...] = ()
    agent_version: str | None = None
    managers: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fault: str | None = None


def refuse_failed(value: object) -> None:
    """Fail a step whose report names disks that could not be erased.

    :raises errors.HardwareError: naming them.
    """
    failed = [one for one in parse(value).disks if one["result"] == "failed"]
    if failed:
        told = ", ".join(f"{one['name']} ({one.get('why', 'no reason given')})" for one in failed)
        raise errors.HardwareError(reason=f"these disks were not erased: {told:.1000}")


class _Nonsense(ValueError):
    """A value of a report that is refused, with its path."""


def parse(value: object) -> Reported:
    """Check the result of an erasing step; unknown keys are dropped.

    A report with one invalid value is refused as a whole, because evidence is all or nothing.

    :param value: ``clean_result`` of the agent's answer.
    :return: the disks, or why there are none.
    """
    if not isinstance(value, Mapping) or value.get("kind") != KIND:
        return Reported(fault="the ramdisk does not report its erasures")
    try:
        return _report(value)
    except _Nonsense as why:
        return Reported(fault=f"the ramdisk's report is invalid: {why}")


def _report(value: JsonView) -> Reported:
    listed = value.get("disks")
    if not isinstance(listed, list) or len(listed) > MOST_DISKS:
        raise _Nonsense(f"disks is not a list of at most {MOST_DISKS}")
    if len(orjson.dumps(listed)) > LARGEST:
        raise _Nonsense(f"disks has more than {LARGEST} bytes")
    disks = tuple(_disk(one, f"disks/{place}") for place, one in enumerate(listed))
    names = [one["name"] for one in disks]
    if len(set(names)) < len(names):
        raise _Nonsense("disks names a disk twice")
    managers = value.get("managers", {})
    if not isinstance(managers, Mapping) or len(managers) > _WORDS:
        raise _Nonsense(f"managers is not an object of at most {_WORDS} names")
    versions = {_text(key, "managers"): _text(one, "managers") for key, one in managers.items()}
    version = value.get("agent_version")
    return Reported(
        disks, None if version is None else _text(version, "agent_version"), versions, None
    )


def _disk(value: object, path: str) -> Disk:
    found = _object(value, path, _DISK)
    if found.get("result") not in RESULTS or "name" not in found:
        raise _Nonsense(f"{path} has no name, or its result is not one of {', '.join(RESULTS)}")
    if found["result"] == "erased":
        if found.setdefault("level", "none") not in LEVELS:
            raise _Nonsense(f"{path}/level is not one of {', '.join(LEVELS)}")
    else:
        found["level"] = "none"
    return found  # type: ignore[return-value]  # checked above


def _tool(value: object, path: str) -> Tool:
    found = _object(value, path, _TOOL)
    if {"name", "command", "exit"} - set(found):
        raise _Nonsense(f"{path} lacks name, command or exit")
    return found  # type: ignore[return-value]  # checked above


def _verification(value: object, path: str) -> Verification:
    found = _object(value, path, dict.fromkeys(("samples", "changed", "blank"), _count))
    counts = [int(str(found.get(key, -1))) for key in ("samples", "changed", "blank")]
    if min(counts) < 0 or max(counts) > counts[0]:
        raise _Nonsense(f"{path} is not three counts, none above samples")
    return found  # type: ignore[return-value]  # checked above


_Reader: TypeAlias = Callable[[object, str], object]


def _object(value: object, path: str, readers: Mapping[str, _Reader]) -> Json:
    if not isinstance(value, Mapping):
        raise _Nonsense(f"{path} is not an object")
    return {
        key: read(value[key], f"{path}/{key}")
        for key, read in readers.items()
        if value.get(key) is not None
    }


def _text(value: object, path: str) -> str:
    if not isinstance(value, str) or len(value) > _TEXT or not value.isprintable():
        raise _Nonsense(f"{path} is not a printable text of at most {_TEXT} characters")
    return value


def _count(value: object, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
        raise _Nonsense(f"{path} is not an integer from 0")
    return value


def _exit(value: object, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _LAST_EXIT:
        raise _Nonsense(f"{path} is not an exit status from -255 to 255")
    return value


def _digest(value: object, path: str) -> str:
    text = _text(value, path)
    if not _DIGEST.fullmatch(text):
        raise _Nonsense(f"{path} is not a SHA-256 in lower hexadecimal")
    return text


def _words(value: object, path: str) -> list[str]:
    if not isinstance(value, list) or not 1 <= len(value) <= _WORDS:
        raise _Nonsense(f"{path} is not a list of 1 to {_WORDS} words")
    return [_text(one, path) for one in value]


def _tools(value: object, path: str) -> list[Tool]:
    if not isinstance(value, list) or len(value) > MOST_TOOLS:
        raise _Nonsense(f"{path} is not a list of at most {MOST_TOOLS} programs")
    return [_tool(one, f"{path}/{place}") for place, one in enumerate(value)]


_TOOL: Mapping[str, _Reader] = {
    "name": _text,
    "version": _text,
    "command": _words,
    "exit": _exit,
    "output_sha256": _digest,
}
_DISK: Mapping[str, _Reader] = {
    **dict.fromkeys(("name", "vendor", "model", "serial", "wwn", "media"), _text),
    "size": _count,
    **dict.fromkeys(("result", "level", "method"), _text),
    "tools": _tools,
    **dict.fromkeys(("started_at", "ended_at"), _text),
    "verification": _verification,
    "why": _text,
}
