"""Erasure records: evidence of what an erasing step did to each disk. Pure.

A record is a JSON statement, signed over its exact bytes. The records of one node form a chain by
the digests of their predecessors. A record is evidence, never a certificate.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Sequence
from typing import NamedTuple

import orjson

from ironic_lite.core.json_types import Json, JsonView, RowView
from ironic_lite.domain.erasure_records import ErasureVerdict, title, unreported
from ironic_lite.domain.erasure_results import Disk, Reported

KIND = "ironic_lite.erasure/1"


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
    verdict: ErasureVerdict,
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
    """Return the names of the disks of an inventory that a record does not name; see `unreported`.

    :param proof: the statement of the record.
    """
    statement = orjson.loads(proof)
    return [title(one) for one in unreported(inventory, statement["disks"])]


def machine(inventory: RowView | None) -> Json:
    """Return manufacturer, model and serial number of a machine from its inspection."""
    vendor = (inventory or {}).get("system_vendor")
    about = vendor if isinstance(vendor, dict) else {}
    names = {"manufacturer": "manufacturer", "model": "product_name", "serial": "serial_number"}
    return {name: str(about[key])[:255] if about.get(key) else None for name, key in names.items()}
