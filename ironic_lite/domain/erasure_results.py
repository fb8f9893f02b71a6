"""Parsing of what a ramdisk reports of an erasing step. Pure.

A hardware manager of the ramdisk returns a `Report` as the result of an erasing clean step. Any
other result, such as that of a stock agent, proves nothing.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias, TypedDict, TypeGuard, cast

import orjson

from ironic_lite import errors
from ironic_lite.core.json_types import Json, JsonView

KIND = "ironic_lite.erasure_result/1"
_KINDS = "ironic_lite.erasure_result/"
"""Begin of the kinds of all versions; only `KIND` can be read."""
READER = "erasure_reports"
"""Key of driver_internal_info, true for ramdisks: the service fails the step for a failed disk."""
MOST_DISKS = 1000
MOST_TOOLS = 64
"""Programs noted for one disk."""
LARGEST = 960 * 1024
"""Bytes of all disks and managers, so that a record has at most 1 MiB."""
_TEXT = 1024
"""Characters of a text."""
_WORDS = 64
"""Words of a command."""
_LARGEST = 2**63 - 1
_LAST_EXIT = 255
_DIGITS = 20
_COUNTS = ("samples", "changed", "blank")
_DIGEST = re.compile("[0-9a-f]{64}")
_OVERWRITE = "overwrite"
"""Begin of the methods that write all addressable blocks."""

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


class Verification(TypedDict, total=False):
    """Samples read before and after the erasure; ``samples``, ``changed``, ``blank`` are there.

    ``unchanged`` samples hold what they held before, and ``unreadable`` ones cannot be read after.
    """

    samples: int
    changed: int
    blank: int
    unchanged: int
    unreadable: int


class HiddenAreas(TypedDict, total=False):
    """Hidden areas of an ATA disk; a fact that the ramdisk could not read is missing.

    ``hpa`` is a host protected area, ``dco`` a device configuration overlay. ``sectors`` are
    addressable; ``native_sectors`` include the host protected area.
    """

    hpa: bool
    dco: bool
    sectors: int
    native_sectors: int


class Disk(TypedDict, total=False):
    """A disk of the ramdisk's inventory; ``name`` and ``result`` are there.

    A record also has disks with the result ``missing``, which only the node's inventory has.
    ``size`` is in bytes, ``logical_sectors`` are bytes of a sector; times are ISO 8601; ``why``
    explains a disk that was not erased.
    """

    name: str
    vendor: str
    model: str
    serial: str
    wwn: str
    by_path: str
    size: int
    logical_sectors: int
    media: str
    hidden_areas: HiddenAreas
    result: Literal["erased", "skipped", "failed", "missing"]
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
    """Fail a step whose report names disks that could not be erased, or is invalid.

    A ramdisk reports a failed disk as a result, so an invalid report may hide one.

    :raises errors.HardwareError: naming the disks, or the fault of the report.
    """
    reported = parse(value)
    if reported.fault is not None and is_report(value):
        raise errors.HardwareError(
            reason=f"{reported.fault}. It may hide a failed disk; update the ramdisk's manager."
        )
    failed = [one for one in reported.disks if one["result"] == "failed"]
    if failed:
        told = ", ".join(f"{one['name']} ({one.get('why', 'no reason given')})" for one in failed)
        raise errors.HardwareError(reason=f"these disks were not erased: {told:.1000}")


def is_report(value: object) -> TypeGuard[JsonView]:
    """Return whether a value is meant as a report; `parse` checks it."""
    return isinstance(value, Mapping) and str(value.get("kind")).startswith(_KINDS)


class _InvalidValue(ValueError):
    """A value of a report that is refused, with its path."""


def parse(value: object) -> Reported:
    """Check the result of an erasing step; unknown keys are dropped.

    A report with one invalid value is refused as a whole, because evidence is all or nothing.

    :param value: ``clean_result`` of the agent's answer.
    :return: the disks, or why there are none.
    """
    if not is_report(value):
        return Reported(fault="the ramdisk does not report its erasures")
    try:
        return _report(value)
    except _InvalidValue as why:
        return Reported(fault=f"the ramdisk's report is invalid: {why}")


def _report(value: JsonView) -> Reported:
    if value["kind"] != KIND:
        raise _InvalidValue(f"kind is not {KIND}, the only one that this version reads")
    listed, managers = value.get("disks"), value.get("managers", {})
    if not isinstance(listed, list) or len(listed) > MOST_DISKS:
        raise _InvalidValue(f"disks is not a list of at most {MOST_DISKS}")
    if _size([listed, managers]) > LARGEST:
        raise _InvalidValue(f"disks and managers have more than {LARGEST} bytes")
    disks = tuple(_disk(one, f"disks/{place}") for place, one in enumerate(listed))
    names = [one["name"] for one in disks]
    if len(set(names)) < len(names):
        raise _InvalidValue("disks names a disk twice")
    if not isinstance(managers, Mapping) or len(managers) > _WORDS:
        raise _InvalidValue(f"managers is not an object of at most {_WORDS} names")
    versions = {_text(key, "managers"): _text(one, "managers") for key, one in managers.items()}
    version = value.get("agent_version")
    return Reported(
        disks, None if version is None else _text(version, "agent_version"), versions, None
    )


def _size(value: object) -> int:
    try:
        return len(orjson.dumps(value))
    except TypeError as why:  # such as lists within lists, more than JSON is written with
        raise _InvalidValue(f"disks or managers cannot be written as JSON ({why})") from why


def _disk(value: object, path: str) -> Disk:
    found = _object(value, path, _DISK)
    if found.get("result") not in RESULTS or "name" not in found:
        raise _InvalidValue(f"{path} has no name, or its result is not one of {', '.join(RESULTS)}")
    if found["result"] == "erased":
        if found.setdefault("level", "none") not in LEVELS:
            raise _InvalidValue(f"{path}/level is not one of {', '.join(LEVELS)}")
        samples = cast(Verification, found.get("verification", {}))
        if samples.get("unchanged") or samples.get("unreadable"):
            raise _InvalidValue(f"{path} is erased, but samples are unchanged or cannot be read")
        if found["level"] != "none" and (doubt := _level_conflict(found)) is not None:
            raise _InvalidValue(f"{path} is erased with the level {found['level']}, but {doubt}")
    else:
        found["level"] = "none"
    return found  # type: ignore[return-value]  # checked above


def _level_conflict(disk: Json) -> str | None:
    """Return what speaks against the level of an erased disk, None for nothing."""
    if (tools := disk.get("tools")) and tools[-1]["exit"] != 0:
        return "its last program failed"
    if "verification" in disk and disk["verification"]["samples"] == 0:
        return "no sample was read"
    areas = disk.get("hidden_areas", {})
    if disk.get("method", "").startswith(_OVERWRITE) and (areas.get("hpa") or areas.get("dco")):
        return "an overwrite does not reach its hidden area"
    return None


def _tool(value: object, path: str) -> Tool:
    found = _object(value, path, _TOOL)
    if {"name", "command", "exit"} - set(found):
        raise _InvalidValue(f"{path} lacks name, command or exit")
    return found  # type: ignore[return-value]  # checked above


def _verification(value: object, path: str) -> Verification:
    found = _object(value, path, dict.fromkeys((*_COUNTS, "unchanged", "unreadable"), _count))
    counts = cast(dict[str, int], found)
    if set(_COUNTS) - set(counts) or max(counts.values()) > counts["samples"]:
        raise _InvalidValue(
            f"{path} lacks one of {', '.join(_COUNTS)}, or a count is above samples"
        )
    return found  # type: ignore[return-value]  # checked above


def _hidden_areas(value: object, path: str) -> HiddenAreas:
    return _object(value, path, _HIDDEN)  # type: ignore[return-value]  # each value is checked


_Reader: TypeAlias = Callable[[object, str], object]


def _object(value: object, path: str, readers: Mapping[str, _Reader]) -> Json:
    if not isinstance(value, Mapping):
        raise _InvalidValue(f"{path} is not an object")
    return {
        key: read(value[key], f"{path}/{key}")
        for key, read in readers.items()
        if value.get(key) is not None
    }


def _text(value: object, path: str) -> str:
    if not isinstance(value, str) or len(value) > _TEXT or not value.isprintable():
        raise _InvalidValue(f"{path} is not a printable text of at most {_TEXT} characters")
    return value


def _count(value: object, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
        raise _InvalidValue(f"{path} is not an integer from 0")
    return value


def _number(value: object, path: str) -> int:
    """Return a count; lsblk of older ramdisks reports numbers as text."""
    text = isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < _DIGITS
    return _count(int(str(value)) if text else value, path)


def _flag(value: object, path: str) -> bool:
    if not isinstance(value, bool):
        raise _InvalidValue(f"{path} is not true or false")
    return value


def _exit(value: object, path: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _LAST_EXIT:
        raise _InvalidValue(f"{path} is not an exit status from -255 to 255")
    return value


def _digest(value: object, path: str) -> str:
    text = _text(value, path)
    if not _DIGEST.fullmatch(text):
        raise _InvalidValue(f"{path} is not a SHA-256 in lower hexadecimal")
    return text


def _words(value: object, path: str) -> list[str]:
    if not isinstance(value, list) or not 1 <= len(value) <= _WORDS:
        raise _InvalidValue(f"{path} is not a list of 1 to {_WORDS} words")
    return [_text(one, path) for one in value]


def _tools(value: object, path: str) -> list[Tool]:
    if not isinstance(value, list) or len(value) > MOST_TOOLS:
        raise _InvalidValue(f"{path} is not a list of at most {MOST_TOOLS} programs")
    return [_tool(one, f"{path}/{place}") for place, one in enumerate(value)]


_TOOL: Mapping[str, _Reader] = {
    "name": _text,
    "version": _text,
    "command": _words,
    "exit": _exit,
    "output_sha256": _digest,
}
_HIDDEN: Mapping[str, _Reader] = {
    **dict.fromkeys(("hpa", "dco"), _flag),
    **dict.fromkeys(("sectors", "native_sectors"), _count),
}
_DISK: Mapping[str, _Reader] = {
    **dict.fromkeys(("name", "vendor", "model", "serial", "wwn", "by_path", "media"), _text),
    **dict.fromkeys(("size", "logical_sectors"), _number),
    "hidden_areas": _hidden_areas,
    **dict.fromkeys(("result", "level", "method"), _text),
    "tools": _tools,
    **dict.fromkeys(("started_at", "ended_at"), _text),
    "verification": _verification,
    "why": _text,
}
