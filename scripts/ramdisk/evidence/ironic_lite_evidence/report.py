"""What is told about each disk: the facts of one erasing step."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ironic_lite_evidence import commands, devices, samples

KIND = "ironic_lite.erasure_result/1"
ERASED, SKIPPED, FAILED = "erased", "skipped", "failed"
_MOST = 1000  # characters of a reason
Json = dict[str, Any]


def now() -> str:
    """Return the time in UTC as ISO 8601."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def identity(disk: Mapping[str, Any]) -> Json:
    """Return the lasting facts of a disk of the agent's inventory."""
    kept = ("name", "vendor", "model", "serial", "wwn", "size", "logical_sectors", "by_path")
    # Some disks have control characters in their serial numbers.
    found: Json = {
        key: line(value) if isinstance(value := disk.get(key), str) else value for key in kept
    }
    found["media"] = devices.media(dict(disk))
    return found


def erased(
    disk: Mapping[str, Any],
    seen: Sequence[Sequence[str]],
    verification: Mapping[str, int],
    failure: str | None,
) -> Json:
    """Return the facts of one disk.

    :param seen: command lines that ran, oldest first.
    :param verification: of `samples.compare`.
    :param failure: the error of the step for this disk, None without one.
    """
    name = str(disk["name"])
    ran = commands.erasing(name, seen)
    areas = devices.hidden_areas(disk)
    found: Json = {
        **identity(disk),
        "hidden_areas": areas,
        "method": None,
        "level": commands.NONE,
        "tools": _tools(ran, failure is None),
        "verification": dict(verification),
    }
    if failure is not None:
        return {**found, "result": FAILED, "why": line(failure)}
    if not ran:
        why = devices.why_untouched(name) or "no erasing program was seen"
        return {**found, "result": SKIPPED, "why": why}
    last = ran[-1]
    found["method"] = last.text
    if not samples.proves(dict(verification)):
        why = "samples are unchanged or cannot be read after the erasure"
        return {**found, "result": FAILED, "why": why}
    hidden = areas["hpa"] or areas["dco"]
    if hidden and last.text.startswith("overwrite"):
        why = "sectors in a hidden area (HPA or DCO) were not overwritten"
        return {**found, "result": ERASED, "why": why}
    earlier = ", ".join(method.text for method in ran[:-1])
    notes = [f"tried before: {earlier}"] if earlier else []
    if not verification["changed"]:
        notes.append("all samples were blank before, or could not be read")
    return {**found, "result": ERASED, "level": last.level, "why": "; ".join(notes) or None}


def skipped(disk: Mapping[str, Any], why: str) -> Json:
    """Return the facts of a disk that nothing was done to."""
    return {**identity(disk), "result": SKIPPED, "level": commands.NONE, "why": why}


def failed(disk: Mapping[str, Any], why: str) -> Json:
    """Return the facts of a disk whose content nobody knows."""
    return {**identity(disk), "result": FAILED, "level": commands.NONE, "why": line(why)}


def _tools(ran: Sequence[commands.Method], well: bool) -> list[Json]:
    """Return the last program; the agent goes on after a failed one and keeps no exit status."""
    return [
        {
            "name": os.path.basename(method.command[0]),
            "version": devices.version(method.command[0]),
            "command": list(method.command),
            "exit": 0,
        }
        for method in (ran[-1:] if well else ())
    ]


def line(text: str) -> str:
    """Return a text as one bounded line, as the service takes it."""
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())[:_MOST]


def of_step(found: Sequence[Json], managers: Mapping[str, str], agent: str) -> Json:
    """Return what an erasing step returns to the service."""
    return {
        "kind": KIND,
        "agent_version": agent,
        "managers": dict(managers),
        "disks": [{key: disk[key] for key in disk if disk[key] is not None} for disk in found],
    }
