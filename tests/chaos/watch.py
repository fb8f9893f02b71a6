"""What the database says while it all goes on: where the nodes are, and when a dead owner's have
another.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.db.engine import session
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import nodes
from ironic_lite.db.tables import models
from ironic_lite.domain import fields
from tests.chaos import machine
from tests.chaos.fleet import LEASE
from tests.chaos.records import Batch, Erasure, Event, Fault, Glance, Hook, Member, Node, Run

EVERY = 0.3
STARVED = 1.5
"""Seconds more than `EVERY` between two looks at which this machine has no time for anybody."""
SILENT = LEASE - 1
"""Seconds without a new sign of life at which a conductor has lost its leases, or is about to."""
FIRST = "manageable"
_LOOK = ("uuid", "provision_state", "maintenance", "reservation", "lock_token", "run_uuid")
_MEMBER = models.batch_nodes.c
_OPEN = (
    sa.select(_MEMBER.batch_uuid, _MEMBER.wave, _MEMBER.state, sa.func.count())
    .select_from(
        models.batch_nodes.join(models.batches, models.batches.c.uuid == _MEMBER.batch_uuid)
    )
    .where(models.batches.c.ended_at.is_(None))
    .group_by(_MEMBER.batch_uuid, _MEMBER.wave, _MEMBER.state)
)
_OPTIONS: dict[str, Any] = {"connect_timeout": 2, "statement_timeout": 5, "max_pool_size": 2}


@dataclasses.dataclass(frozen=True, slots=True)
class Look:
    """One look at all nodes."""

    at: float
    rows: Mapping[str, Mapping[str, Any]]


class Watch:
    """Looks at the database again and again, by a way that no fault cuts.

    :ivar recoveries: seconds from each death of a conductor until none of the nodes that it had
        locked was locked by it any more.
    :ivar starved: when this machine was too busy: to let our processes run, or to let a conductor
        give its sign of life in time. That is the same as a pause.
    :ivar glances: the open batches, each time that something of them has changed.
    :ivar open_batches: how many there are.
    :ivar pid_of: tells the process of a host.
    """

    def __init__(self, url: str) -> None:
        self.database = session.open_database(url, **_OPTIONS)
        self.recoveries: list[float] = []
        self.starved: list[Fault] = []
        self.pid_of: Callable[[str], int] = lambda _host: 0
        self.glances: list[Glance] = []
        self.open_batches = 0
        self._counts: dict[str, tuple[tuple[int, str, int], ...]] = {}
        self._signs: dict[str, tuple[Any, float, int]] = {}
        self.look = Look(0.0, {})
        self._guard = threading.Lock()
        self._orphaned: list[tuple[float, dict[str, str]]] = []
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def fill(self, count: int, seconds: float, *, alike: bool = False) -> None:
        """Enroll nodes, all of them manageable; a quarter have an agent, as many have timers.

        :param alike: none has, and none fails.
        """
        rows = [row_of(0 if alike else number, seconds) for number in range(count)]
        self.add([{**row, "name": f"node-{number}"} for number, row in enumerate(rows)])

    def add(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Enroll nodes."""

        def write(conn: Connection) -> None:
            for row in rows:
                nodes.insert(conn, dict(row))

        self.database.write(write)

    def start(self) -> None:
        """Begin to look."""
        self._see()
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._closing.set()
        if self._thread.ident is not None:
            self._thread.join()
        self.database.close()

    def _run(self) -> None:
        slept = time.monotonic()
        while not self._closing.wait(EVERY):
            woken = time.monotonic()
            if woken - slept > EVERY + STARVED:
                self.starved.append(Fault("starved", slept, woken))
            with contextlib.suppress(errors.Error, sa.exc.SQLAlchemyError):
                self._see()
            slept = time.monotonic()

    def _see(self) -> None:
        table = models.nodes.c
        asked = sa.select(*(table[name] for name in _LOOK))
        rows = self.database.read(lambda conn: conn.execute(asked).mappings().all())
        self.look = Look(time.monotonic(), {row["uuid"]: dict(row) for row in rows})
        self._listen()
        self._see_batches()
        with self._guard:
            for begun, left in list(self._orphaned):
                for node in [n for n, token in left.items() if self._token(n) != token]:
                    del left[node]
                if not left:
                    self.recoveries.append(self.look.at - begun)
                    self._orphaned.remove((begun, left))

    def _listen(self) -> None:
        """Note who has given a sign of life, and who was silent for long before it.

        A process that was killed while it was silent gave no further sign; its successor does.
        """
        row = models.conductors.c
        asked = sa.select(row.hostname, row.updated_at)
        now = time.monotonic()
        for host, sign in self.database.read(lambda conn: list(conn.execute(asked).all())):
            pid = self.pid_of(host)
            known, since, before = self._signs.get(host, (None, now, pid))
            if sign == known:
                continue
            if now - since > SILENT:
                self.starved.append(Fault("silent", since, now, tuple({before, pid})))
            self._signs[host] = (sign, now, pid)

    def _see_batches(self) -> None:
        counts: dict[str, list[tuple[int, str, int]]] = {}
        for batch, *count in self.database.read(lambda conn: list(conn.execute(_OPEN).all())):
            counts.setdefault(batch, []).append(tuple(count))
        found = {batch: tuple(sorted(rows)) for batch, rows in counts.items()}
        for batch, rows in found.items():
            if self._counts.get(batch) != rows:
                self.glances.append(Glance(batch, time.monotonic(), rows))
        self._counts, self.open_batches = found, len(found)

    def _token(self, node: str) -> str | None:
        token: str | None = self.look.rows[node]["lock_token"]
        return token

    def died(self, host: str) -> None:
        """Follow what becomes of the nodes of a conductor that has just been killed."""
        with contextlib.suppress(errors.Error, sa.exc.SQLAlchemyError):
            self._see()
        rows = self.look.rows.items()
        held = {n: r["lock_token"] for n, r in rows if r["reservation"] == host and r["lock_token"]}
        if held:
            with self._guard:
                self._orphaned.append((time.monotonic(), held))

    # -- afterwards --------------------------------------------------------------------------

    def newest(self, node: str | None = None) -> int:
        """Return the id of the newest event, of one node or of all; 0 without one."""
        row = models.events.c
        asked = sa.select(sa.func.max(row.id))
        if node is not None:
            asked = asked.where(row.node_uuid == node)
        return int(self.database.read(lambda conn: conn.execute(asked).scalar()) or 0)

    def nodes(self) -> tuple[Node, ...]:
        """Return all nodes."""
        return tuple(_node(row) for row in self._all(models.nodes))

    def events(self) -> tuple[Event, ...]:
        """Return the event log."""
        return tuple(_event(row) for row in self._all(models.events))

    def runs(self) -> tuple[Run, ...]:
        """Return all runs."""
        steps: dict[str, list[Mapping[str, Any]]] = {}
        for row in self._all(models.run_steps):
            steps.setdefault(row["run_uuid"], []).append(row)
        return tuple(_run(row, steps.get(row["uuid"], [])) for row in self._all(models.runs))

    def batches(self) -> tuple[Batch, ...]:
        """Return all batches."""
        return tuple(_batch(row) for row in self._all(models.batches))

    def members(self) -> tuple[Member, ...]:
        """Return the nodes of all batches."""
        return tuple(_member(row) for row in self._all(models.batch_nodes))

    def erasures(self) -> tuple[Erasure, ...]:
        """Return all erasure records."""
        keys = {row["key"]: row["pem"] for row in self._all(models.evidence_keys)}
        return tuple(_erasure(row, keys) for row in self._all(models.erasures))

    def hooks(self) -> tuple[Hook, ...]:
        """Return all webhooks."""
        rows = self._all(models.webhooks)
        return tuple(Hook(row["uuid"], row["state"], row["position"]) for row in rows)

    def _all(self, table: sa.Table) -> list[Mapping[str, Any]]:
        asked = sa.select(table).order_by(table.c.id)
        return self.database.read(
            lambda conn: [dict(row) for row in conn.execute(asked).mappings()]
        )


def row_of(number: int, seconds: float) -> dict[str, Any]:
    """Return the columns of a manageable node."""
    info: dict[str, Any] = {"fake_step_seconds": seconds}
    if number % 4 == 1:
        info[machine.AGENT] = True
    if number % 4 == 2:
        info["fake_async_steps"] = ["deploy.erase_devices", "deploy.write_image"]
    if number % 4 == 3:
        info[machine.UNSTEADY] = True
    if number % 20 == 4:
        info["fake_fail_steps"] = {"deploy.erase_devices": "the disk is worn out"}
    if number % 5:
        info["fake_erasures"] = [_disk(number, "a"), *_more_disks(number)]
    kinds = {f"{kind}_interface": "fake" for kind in fields.INTERFACE_KINDS}
    ours = {"deploy_interface": "chaos", "power_interface": "chaos"}
    noop = {"network_interface": "noop", "storage_interface": "noop"}
    return {
        **kinds,
        **ours,
        **noop,
        "uuid": str(uuid.uuid4()),
        "name": f"node-{number}",
        "driver": "fake-hardware",
        "driver_info": info,
        "driver_internal_info": {},
        "properties": {},
        "extra": {},
        "instance_info": {},
        "provision_state": FIRST,
        "provision_updated_at": clock.now(),
        "power_state": "power off",
    }


def _disk(number: int, letter: str, result: str = "erased") -> dict[str, Any]:
    serial = f"S{number}{letter}"
    return {"name": f"/dev/sd{letter}", "serial": serial, "result": result, "level": "clear"}


def _more_disks(number: int) -> list[dict[str, Any]]:
    """Return a second disk of some machines, which is skipped or fails."""
    result = {1: "skipped", 2: "failed"}.get(number % 9)
    return [] if result is None else [{**_disk(number, "b", result), "why": "read-only"}]


def _node(row: Mapping[str, Any]) -> Node:
    return Node(
        uuid=row["uuid"],
        state=row["provision_state"],
        first=FIRST,
        reservation=row["reservation"],
        lock_token=row["lock_token"],
        run=row["run_uuid"],
        wakes=row["wake_at"] is not None,
        last_error=row["last_error"],
        value=(row["extra"] or {}).get("value"),
        data_state=row["data_state"],
        data_state_by=row["data_state_by"],
    )


def _erasure(row: Mapping[str, Any], keys: Mapping[str, str]) -> Erasure:
    data = row["statement"].encode()
    said = json.loads(data)
    return Erasure(
        uuid=row["uuid"],
        node=said["node"]["uuid"],
        run=said["run"]["uuid"],
        ordinal=said["step"]["ordinal"],
        attempt=said["step"]["attempt"],
        result=said["result"],
        level=said["level"],
        digest=hashlib.sha256(data).hexdigest(),
        previous=said["previous"],
        signed=_is_signed(data, row["signature"], keys.get(said["issuer"]["key"])),
    )


def _is_signed(data: bytes, signature: str | None, pem: str | None) -> bool:
    if signature is None or pem is None:
        return False
    key = serialization.load_pem_public_key(pem.encode())
    assert isinstance(key, Ed25519PublicKey)
    try:
        key.verify(bytes.fromhex(signature), data)
    except InvalidSignature:
        return False
    return True


def _event(row: Mapping[str, Any]) -> Event:
    return Event(
        id=row["id"],
        node=row["node_uuid"],
        kind=row["kind"],
        event=row["event"],
        before=row["before"],
        after=row["after"],
        run=row["run_uuid"],
        data=row["data"] or {},
    )


def _batch(row: Mapping[str, Any]) -> Batch:
    ended, most = row["ended_at"] is not None, row["options"]["concurrency"]
    return Batch(row["uuid"], row["state"], ended, most)


def _member(row: Mapping[str, Any]) -> Member:
    return Member(
        batch=row["batch_uuid"],
        node=row["node_uuid"],
        wave=row["wave"],
        state=row["state"],
        request_id=row["request_id"],
        run=row["run_uuid"],
    )


def _run(row: Mapping[str, Any], steps: Sequence[Mapping[str, Any]]) -> Run:
    return Run(
        uuid=row["uuid"],
        node=row["node_uuid"],
        verb=row["verb"],
        request_id=row["request_id"],
        state=row["state"],
        ended=row["ended_at"] is not None,
        steps=tuple(step["state"] for step in steps),
        explained=row["state"] not in {"failed", "aborted"} or "cause" in (row["error"] or {}),
        retry_of=row["retry_of"],
        done=tuple(step["ordinal"] for step in steps if step["state"] == "done"),
        kept=tuple(step["ordinal"] for step in steps if step["done_in"] is not None),
        erased=tuple(step["ordinal"] for step in steps if _has_erased(step)),
    )


def _has_erased(step: Mapping[str, Any]) -> bool:
    """Tell whether an erasing step has begun in its run and ended, well or not."""
    erases = (step["kind"], step["interface"], step["step"]) == ("clean", "deploy", "erase_devices")
    ended = step["state"] in ("done", "failed", "aborted")
    return erases and ended and step["started_at"] is not None and step["done_in"] is None
