"""What is noted of an agent."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ironic_lite.conductor.work.notes import Notes
from tests.support.fake_task import node

AT = datetime.datetime(2026, 1, 1).isoformat()
INFO: dict[str, Any] = {"redfish_address": "https://192.0.2.1", "redfish_password": "secret"}


def _heard() -> tuple[Any, Notes]:
    """Return a node whose agent has got its token and sent a heartbeat, and its notes."""
    about = node(driver="redfish", driver_info=dict(INFO))
    notes = Notes(about)
    notes.new_token()
    notes.heard(url="https://192.0.2.9:9999", version="13.0.0", at=AT, verify_ca=None)
    return about, notes


def test_an_agent_belongs_to_the_machine_it_was_made_for() -> None:
    about, notes = _heard()
    about.driver_info = dict(reversed(INFO.items()))  # the same, told in another order
    assert notes.agent is not None
    assert notes.agent.moved is False


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("driver_info", {**INFO, "redfish_address": "https://192.0.2.2"}),
        ("driver_info", {}),
        ("driver", "ipmi"),
    ],
    ids=["another BMC", "no BMC", "another driver"],
)
def test_agent_has_moved_once_the_node_has_other_data(column: str, value: Any) -> None:
    about, notes = _heard()
    setattr(about, column, value)
    assert notes.agent is not None
    assert notes.agent.moved is True


def test_machine_fingerprint_goes_with_the_token_and_reveals_nothing() -> None:
    about, notes = _heard()
    kept = about.driver_internal_info["agent_secret_machine"]
    other, _ = _heard()
    assert kept != other.driver_internal_info["agent_secret_machine"]
    notes.forget_agent()
    assert "agent_secret_machine" not in about.driver_internal_info
