"""Queries on erasure records and their public keys; rows are added, and never changed."""

from __future__ import annotations

import contextlib
import datetime
from typing import Any

import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core.json_types import Row, RowView
from ironic_lite.db.engine import prepared
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import paging
from ironic_lite.db.tables import models

_RECORD = models.erasures.c
_DISK = models.erasure_disks.c
_KEY = models.evidence_keys.c
_NAMING = sa.select(_DISK.erasure_uuid).where(
    _DISK.serial == sa.bindparam("serial", type_=sa.String)
)
_OF_OWNER = _RECORD.owner == sa.bindparam("of_owner", type_=sa.String)
_ONE = sa.select(models.erasures).where(_RECORD.uuid == sa.bindparam("k_uuid"))
_ONE_OWNED = _ONE.where(_OF_OWNER)
_LAST = (
    sa.select(_RECORD.sha256)
    .where(_RECORD.node_uuid == sa.bindparam("k_node"))
    .order_by(_RECORD.id.desc())
    .limit(1)
)
_PROOF = (
    sa.select(_RECORD.statement)
    .where(_RECORD.node_uuid == sa.bindparam("k_node"))
    .where(_RECORD.run_uuid == sa.bindparam("k_run"))
    .where(_RECORD.result == "complete", _RECORD.level != "none")
    .order_by(_RECORD.id.desc())
    .limit(1)
)
_RUN = models.runs.c
_STEP = models.run_steps.c
OF_RUN = ("verb", "requester", "project", "request_id")
_OF_STEP = ("kind", "ordinal", "interface", "step", "attempt", "started_at", "waiver")
_PLACE = sa.and_(_STEP.kind == sa.bindparam("k_kind"), _STEP.ordinal == sa.bindparam("k_ordinal"))
_STEPS = (
    sa.select(*(_RUN[name] for name in OF_RUN), *(_STEP[name] for name in _OF_STEP))
    .outerjoin_from(
        models.runs,
        models.run_steps,
        sa.and_(_STEP.run_uuid == _RUN.uuid, sa.or_(_PLACE, _STEP.waiver.is_not(None))),
    )
    .where(_RUN.uuid == sa.bindparam("k_run"))
    .order_by(_STEP.id)
)
_INSERT = prepared.Write(models.erasures.insert().inline(), computed=paging.OWNERS_OF_NODE)
_INSERT_DISKS = prepared.Write(models.erasure_disks.insert().inline())
_PEM = sa.select(_KEY.pem).where(_KEY.key == sa.bindparam("k_key"))

LISTING = paging.Listing(
    models.erasures,
    {
        **paging.owner_filters(models.erasures),
        "serial": paging.Bound(_RECORD.uuid.in_(_NAMING)),
        "since": paging.Bound(_RECORD.at >= sa.bindparam("since", type_=_RECORD.at.type)),
    },
)
page = LISTING.page


def last_digest(conn: Connection, node_uuid: str) -> str | None:
    """Return the SHA-256 of a node's newest record, None without records."""
    found: str | None = conn.execute(_LAST, {"k_node": node_uuid}).scalar()
    return found


def steps(conn: Connection, run: str, kind: str, ordinal: int) -> list[Row]:
    """Return a step of a run and the waived steps, each with facts of its run.

    A row without a kind is the run alone.
    """
    found = conn.execute(_STEPS, {"k_run": run, "k_kind": kind, "k_ordinal": ordinal})
    return [dict(zip((*OF_RUN, *_OF_STEP), row, strict=True)) for row in found]


def proof(conn: Connection, node_uuid: str, run_uuid: str) -> str | None:
    """Return the newest statement of a run that all disks of a node were erased, None without."""
    found: str | None = conn.execute(_PROOF, {"k_node": node_uuid, "k_run": run_uuid}).scalar()
    return found


def add(conn: Connection, row: RowView) -> None:
    """Add a record with the serial numbers of its disks."""
    _INSERT.insert_all(conn, [{"owner": None, "lessee": None, **row}])
    disks = [{"erasure_uuid": row["uuid"], "serial": one} for one in row["serials"]]
    if disks:
        _INSERT_DISKS.insert_all(conn, disks)


def get(conn: Connection, uuid: str, *, owner: str | None = None) -> Any:
    """Return a record with all columns.

    :param owner: the project that must have owned its node then; None for all records.
    :raises errors.NotFound: there is no such record.
    """
    statement = _ONE if owner is None else _ONE_OWNED
    values: Row = {"k_uuid": uuid} if owner is None else {"k_uuid": uuid, "of_owner": owner}
    found = conn.execute(statement, values).first()
    if found is None:
        raise errors.NotFound(what="Erasure record", ident=uuid)
    return dict(zip(models.columns(models.erasures), found, strict=True))


def publish_key(conn: Connection, key: str, pem: str, at: datetime.datetime) -> None:
    """Add a public key unless it is there; conductors with one key may start at the same time."""
    if conn.execute(_PEM, {"k_key": key}).first() is None:
        row = {"key": key, "pem": pem, "created_at": at}
        with contextlib.suppress(sa.exc.IntegrityError), conn.begin_nested():
            conn.execute(models.evidence_keys.insert().inline(), row)


def public_key(conn: Connection, key: str) -> str:
    """Return the public key, PEM.

    :raises errors.NotFound: no conductor has used this key.
    """
    found: str | None = conn.execute(_PEM, {"k_key": key}).scalar()
    if found is None:
        raise errors.NotFound(what="Evidence key", ident=key)
    return found
