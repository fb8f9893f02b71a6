"""Erasure records: evidence of what an erasing step did to each disk. Pure.

A record is a JSON statement, signed over its exact bytes. The records of one node form a chain by
the digests of their predecessors. A record is evidence, never a certificate.
"""

from __future__ import annotations

import datetime
import enum
import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import orjson

from ironic_lite.core.json_types import Json, JsonView, RowView
from ironic_lite.domain import step_planning
from ironic_lite.domain.erasure_results import LEVELS, Disk, Reported
from ironic_lite.records import StoredStep

KIND = "ironic_lite.erasure/1"
RESULTS = ("complete", "partial", "failed", "unknown")
DECLARED = "declared"
"""The value of data_state_by for a state that an operator has set."""
_INTERFACE = "deploy"
_ERASING = frozenset({"erase_devices", "erase_devices_express"})
_METADATA = "erase_devices_metadata"


class DataState(enum.StrEnum):
    """State of the last user's data on a node's disks."""

    CLEAN = "clean"
    DIRTY = "dirty"
    UNKNOWN = "unknown"


class Verdict(NamedTuple):
    """The result of an erasing step: ``after`` is the node's data_state, None if it stays."""

    result: str
    level: str
    after: DataState | None


def erases(step: StoredStep) -> bool:
    """Return whether a clean step erases disks or their metadata."""
    return step["interface"] == _INTERFACE and step["step"] in (*_ERASING, _METADATA)


def erases_data(step: StoredStep) -> bool:
    """Return whether a clean step erases disks, not their metadata alone."""
    return erases(step) and not of_metadata(step)


def of_metadata(step: StoredStep) -> bool:
    """Return whether an erasing step removes metadata alone, so data stay."""
    return step["step"] == _METADATA


def judge(
    reported: Reported, *, before: str | None, failed: bool, wanted: str, metadata: bool = False
) -> Verdict:
    """Return the result of an erasing step from the ramdisk's report.

    :param before: the node's data_state.
    :param failed: the step has failed.
    :param wanted: ``[conductor]clean_level``.
    :param metadata: the step erases metadata alone.
    """
    fallen = DataState.DIRTY if before == DataState.CLEAN else None
    if not reported.disks:
        doubt = DataState.UNKNOWN if before == DataState.CLEAN or not failed else None
        result = "failed" if failed else "unknown"
        return Verdict(result, "none", None if metadata else doubt)
    erased = [one for one in reported.disks if one["result"] == "erased"]
    level = min((one["level"] for one in erased), key=LEVELS.index, default="none")
    if failed or len(erased) < len(reported.disks):
        partial = erased and len(erased) < len(reported.disks)
        after = None if metadata or len(erased) == len(reported.disks) else fallen
        return Verdict("partial" if partial else "failed", level if partial else "none", after)
    enough = LEVELS.index(level) >= LEVELS.index("purge" if wanted == "purge" else "clear")
    return Verdict("complete", level, DataState.CLEAN if enough and not metadata else None)


def after_waiver(before: str | None, step: StoredStep) -> DataState | None:
    """Return data_state after a step was waived, None if it stays.

    A step on child nodes erases no disk of its own node.
    """
    mine = erases_data(step) and not step_planning.for_children(step)
    return DataState.DIRTY if mine and before == DataState.CLEAN else None


class Facts(NamedTuple):
    """The facts of a record that its step and its node give; each a part of the statement."""

    issuer: Json
    node: Json
    run: Json
    step: Json
    waived: list[Json]
    error: str | None


def statement(
    uuid: str,
    at: datetime.datetime,
    reported: Reported,
    *,
    facts: Facts,
    verdict: Verdict,
    previous: str | None,
) -> bytes:
    """Return the bytes to sign.

    :param at: naive UTC.
    :param previous: SHA-256 of the node's record before this one; None for its first record.
    """
    erased = [one for one in reported.disks if one["result"] == "erased"]
    others = [one for one in reported.disks if one["result"] != "erased"]
    document = {
        "kind": KIND,
        "uuid": uuid,
        "issued_at": moment(at),
        "issuer": facts.issuer,
        "node": facts.node,
        "run": facts.run,
        "step": facts.step,
        "ramdisk": {"agent_version": reported.agent_version, "managers": dict(reported.managers)},
        "disks": erased,
        "not_erased": others,
        "not_known": reported.fault,
        "error": facts.error,
        "waived": facts.waived,
        "result": verdict.result,
        "level": verdict.level,
        "previous": None if previous is None else f"sha256:{previous}",
    }
    return orjson.dumps(document)


def moment(at: datetime.datetime | None) -> str | None:
    """Return a time, naive UTC, in ISO 8601."""
    return None if at is None else at.replace(tzinfo=datetime.UTC).isoformat()


def digest(data: bytes) -> str:
    """Return the SHA-256 of a statement, by which the next record names it."""
    return hashlib.sha256(data).hexdigest()


def serials(disks: Sequence[Disk]) -> list[str]:
    """Return the serial numbers of the disks, each once."""
    return list(dict.fromkeys(one["serial"][:255] for one in disks if one.get("serial")))


def unrecorded_disks(inventory: JsonView, proof: str) -> list[str]:
    """Return the disks of an inventory that a record does not name, by serial number or WWN.

    A disk without both cannot be compared, so it is no stranger.

    :param proof: the statement of the record.
    :return: their serial numbers or WWNs.
    """
    statement = orjson.loads(proof)
    known = [_identity(one) for one in (*statement["disks"], *statement["not_erased"])]
    listed = inventory.get("disks")
    told = [_identity(one) for one in (listed if isinstance(listed, list) else ())]
    return [sorted(one)[0] for one in told if one and not any(one & each for each in known)]


def _identity(disk: object) -> set[str]:
    """Return serial number and WWN of a disk without the marks in which two reports differ."""
    about = disk if isinstance(disk, dict) else {}
    texts = [about.get(name) for name in ("serial", "wwn")]
    bare = ("".join(filter(str.isalnum, text)) for text in texts if isinstance(text, str))
    return {text.casefold() for text in bare if text}


def machine(inventory: RowView | None) -> Json:
    """Return manufacturer, model and serial number of a machine from its inspection."""
    vendor = (inventory or {}).get("system_vendor")
    about = vendor if isinstance(vendor, dict) else {}
    names = {"manufacturer": "manufacturer", "model": "product_name", "serial": "serial_number"}
    return {name: str(about[key])[:255] if about.get(key) else None for name, key in names.items()}
