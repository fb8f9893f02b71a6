"""Erasure records, written by the transaction that ends a step, and the key that signs them."""

from __future__ import annotations

import dataclasses
import datetime
import logging
import uuid

from ironic_lite.conductor.engine import evidence
from ironic_lite.conductor.engine.task import Task
from ironic_lite.conductor.service import ConductorService, FeatureWork
from ironic_lite.conductor.watch.sweep_threads import Sweep
from ironic_lite.core import certificate_files, clock, config, metrics
from ironic_lite.core.evidence_key import EvidenceKey
from ironic_lite.core.json_types import Json, JsonView, Row
from ironic_lite.core.masking import TextMask
from ironic_lite.db.engine.session import Connection
from ironic_lite.domain import erasure_records, erasure_results, steps
from ironic_lite.domain.erasure_records import DataState
from ironic_lite.features.erasures import rows, rules
from ironic_lite.features.erasures.rules import Facts

LOG = logging.getLogger(__name__)


class KeyPublisher(FeatureWork):
    """Publishes the key of a conductor, and renews it when its file has changed."""

    def __init__(self, service: ConductorService) -> None:
        self._runtime = service.runtime
        self._runtime.erased.append(record)
        self._runtime.inspected.append(inspected)

    def sweeps(self) -> list[Sweep]:
        """Return the sweep that looks for another key."""
        return [Sweep("evidence key", certificate_files.LOOK_SECONDS, self._renew_key)]

    def announce(self) -> None:
        """Store the public key, so that no record is older than its key."""
        if self._runtime.evidence_key.current is not None:
            self._publish_key(self._runtime.evidence_key.current)

    def _renew_key(self) -> None:
        self._runtime.evidence_key.renew(self._publish_key)

    def _publish_key(self, key: EvidenceKey) -> None:
        at = clock.now()
        self._runtime.database.write(lambda conn: rows.publish_key(conn, key.name, key.pem, at))


extend = KeyPublisher


def inspected(task: Task) -> None:
    """Note, for the next save, that a clean node has a disk that its proof does not name.

    A declared state needs no record, so it stays.
    """
    found, node, run = task.inventory, task.node.uuid, task.node.data_state_by
    if found is None or task.node.data_state != DataState.CLEAN or run is None:
        return
    proof = task.runtime.database.read(lambda conn: rows.proof(conn, node, run))
    if proof is not None and rules.unrecorded_disks(found, proof):
        evidence.change(task, DataState.UNKNOWN)


def record(
    task: Task,
    end: evidence.Ended,
    reported: erasure_results.Reported,
    verdict: erasure_records.ErasureVerdict,
    inventory: JsonView | None,
) -> None:
    """Make the record of an erasing step, for the save that ends the step."""
    at, ident, hide = clock.now(), str(uuid.uuid4()), task.journal.hide
    reported = _without_secrets(reported, hide)
    # Once, because its file may get another key meanwhile.
    key = task.runtime.evidence_key.current
    name = None if key is None else key.name
    row: Json = {
        "uuid": ident,
        "node_uuid": task.node.uuid,
        "node_name": task.node.name,
        "run_uuid": end.run,
        "at": at,
        "result": verdict.result,
        "level": verdict.level,
        "serials": rules.serials(reported.disks),
        "key": name,
        "owner": task.node.owner,
        "lessee": task.node.lessee,
    }

    def write(conn: Connection) -> None:
        facts = _facts(conn, task, end, at, key=name, inventory=inventory, hide=hide)
        previous = rows.last_digest(conn, task.node.uuid)
        data = rules.statement(ident, at, reported, facts=facts, verdict=verdict, previous=previous)
        signature, sha256 = None if key is None else key.sign(data), rules.digest(data)
        signed = {"statement": data.decode(), "signature": signature, "sha256": sha256}
        rows.add(conn, {**row, **signed})

    task.add_write(write)
    _tell(task, end, reported, {name: row[name] for name in ("uuid", "result", "level")})


def _tell(task: Task, end: evidence.Ended, reported: erasure_results.Reported, about: Json) -> None:
    """Add the event of a record, and count it; warn of the disks that were not reported."""
    missing = [one["name"] for one in reported.disks if one["result"] == "missing"]
    data: Json = {"erasure": about["uuid"], "result": about["result"], "level": about["level"]}
    if missing:
        data["missing"] = missing
        text = "Node %s: the ramdisk has not reported these disks of its inventory: %s"
        LOG.warning(text, task.node.uuid, ", ".join(missing))
    task.journal.event("erasure", run=end.run, event=about["result"], data=data)
    labels = (about["result"], about["level"])
    task.transaction.after_commit(lambda: metrics.BOARD.count("erasures_total", *labels))


def _without_secrets(
    reported: erasure_results.Reported, hide: TextMask
) -> erasure_results.Reported:
    """Return a report without the node's secrets, because records are never removed."""
    disks = []
    for disk in reported.disks:
        masked = disk.copy()
        if "why" in disk:
            masked["why"] = hide(disk["why"])
        if "method" in disk:
            masked["method"] = hide(disk["method"])
        if "tools" in disk:
            masked["tools"] = [
                {**tool, "command": [hide(word) for word in tool["command"]]}
                for tool in disk["tools"]
            ]
        disks.append(masked)
    return dataclasses.replace(reported, disks=tuple(disks))


def _facts(
    conn: Connection,
    task: Task,
    end: evidence.Ended,
    at: datetime.datetime,
    *,
    key: str | None,
    inventory: JsonView | None,
    hide: TextMask,
) -> Facts:
    """Return the facts of a record, as the transaction that ends its step finds them."""
    node, step = task.node, end.step
    listed = [] if end.run is None else rows.steps(conn, end.run, end.kind, end.ordinal)
    place = (end.kind, end.ordinal)
    mine = next((one for one in listed if (one["kind"], one["ordinal"]) == place), None)
    begun = end.begun or (None if mine is None else mine["started_at"])
    return Facts(
        issuer={"host": task.runtime.host, "version": config.version(), "key": key},
        node={"uuid": node.uuid, "name": node.name, **rules.machine(inventory)},
        run={
            "uuid": end.run,
            "node": end.node,
            **{name: listed[0][name] if listed else None for name in rows.OF_RUN},
        },
        step={
            "interface": step["interface"],
            "step": step["step"],
            "ordinal": end.ordinal,
            "attempt": 1 if mine is None else mine["attempt"],
            "started_at": rules.moment(begun),
            "ended_at": rules.moment(at),
        },
        waived=_waived(listed, hide),
        error=None if end.failure is None else hide(end.failure.message)[:1024],
    )


def _waived(listed: list[Row], hide: TextMask) -> list[Json]:
    """Return the steps of a run that were waived, with who waived them, when and why."""
    return [
        {
            "ordinal": one["ordinal"],
            "step": steps.title({"interface": one["interface"], "step": one["step"]}),
            **waiver,
            "reason": hide(waiver["reason"]),
        }
        for one in listed
        if (waiver := one["waiver"])
    ]
