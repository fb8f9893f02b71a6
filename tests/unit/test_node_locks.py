"""Locks as clients see them: since when, and for which work."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.core import context
from ironic_lite.domain import node_locks

NOON = datetime.datetime(2026, 11, 22, 12, 0, 0)
RUN = "0f7bd4bb-2b0c-4fa2-9f2f-6ac3c9a1a1b5"
ERASE = {"interface": "deploy", "step": "erase_devices"}
PLAIN = (
    "Node n1 is locked by host c1, please retry after the current operation is completed. "
    "It is held since 2026-11-22 12:00:00 UTC for "
)


def node(**values: Any) -> dict[str, Any]:
    """Return the row of a locked node."""
    row: dict[str, Any] = dict.fromkeys(node_locks.COLUMNS)
    row |= {"uuid": "n1", "provision_state": "manageable", "reservation": "c1"}
    return {**row, "locked_at": NOON, **values}


BUSY = {"provision_state": "cleaning", "run_uuid": RUN, "clean_step": ERASE}
WAITING = {**BUSY, "provision_state": "clean wait"}


@pytest.mark.parametrize(
    ("values", "purpose"),
    [
        ({"lock_note": "conductor:power sync"}, "the power sync"),
        ({"lock_note": "conductor:power sync", **WAITING}, "the power sync"),
        ({"lock_note": "conductor:something newer"}, "something newer"),
        ({"lock_note": "req-1 ann"}, "the request req-1"),
        ({"lock_note": "req-1", **WAITING}, "the request req-1"),
        ({"lock_note": "req-1 ann", **BUSY}, f"the run {RUN}, step deploy.erase_devices"),
        ({"lock_note": "req-1", **BUSY, "clean_step": {}}, f"the run {RUN}"),
        (
            {"lock_note": "conductor:timer", **WAITING},
            f"the run {RUN}, step deploy.erase_devices",
        ),
        ({"lock_note": "conductor:time-outs"}, "the check of its time-out"),
    ],
)
def test_refusal_names_time_and_purpose(values: dict[str, Any], purpose: str) -> None:
    refusal = node_locks.refusal(node(**values))
    stop = " PUT /v1/nodes/n1/runs/current/stop ends it before its next step."
    assert refusal.message == f"{PLAIN}{purpose}.{stop if 'step' in purpose else ''}"
    assert (refusal.facts["host"], refusal.facts["since"]) == ("c1", "2026-11-22T12:00:00")
    assert bool(refusal.facts["run"]) is ("the run" in purpose)


def test_lock_of_an_older_release_gets_the_plain_sentence() -> None:
    old = node_locks.refusal(node(locked_at=None))
    assert old.message == errors.NodeLocked(node="n1", host="c1").message
    assert "for the run" in node_locks.refusal(node(locked_at=None, **BUSY)).message


def test_free_node_has_no_lock() -> None:
    assert node_locks.of(node(reservation=None)) is None
    assert "host unknown" in node_locks.refusal(node(reservation=None)).message


def test_note_has_the_request_and_its_user_or_the_internal_work() -> None:
    assert node_locks.note(context.Context("req-1", user="ann")) == "req-1 ann"
    assert node_locks.note(context.Context("req-1")) == "req-1"
    assert node_locks.note(context.internal("power sync")) == "conductor:power sync"
    assert len(node_locks.note(context.Context("req-1", user="a" * 999))) == 255
