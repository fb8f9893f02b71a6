"""What is read out of an agent's words: statuses, failures, and which command was ours."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite.drivers import base
from ironic_lite.drivers.agent import results
from ironic_lite.drivers.agent.results import Result, Status

CLEAN = base.StepKind.CLEAN
ID = "run/3/0"


def command(known: str, status: str, name: str = "execute_clean_step", **more: Any) -> Any:
    return {"id": known, "command_name": name, "command_status": status, **more}


def ran(known: str, status: Status, step_id: str | None = None, **more: Any) -> Result:
    value = {"clean_step": {"step": "x", results.MARK: step_id}} if step_id else {}
    return Result(known, more.pop("name", "execute_clean_step"), status, value, **more)


@pytest.mark.parametrize(
    ("word", "status"),
    [
        ("RUNNING", Status.RUNNING),
        ("SUCCEEDED", Status.SUCCEEDED),
        ("FAILED", Status.FAILED),
        ("CLEAN_VERSION_MISMATCH", Status.CHANGED),
        ("VERSION_MISMATCH", Status.CHANGED),
    ],
    ids=str,
)
def test_statuses_of_the_wire(word: str, status: Status) -> None:
    assert results.read(command("1", word)).status is status


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        ({"type": "CleaningError", "message": "m", "details": "d"}, "CleaningError", "d"),
        ({"type": "CleaningError", "message": "m", "details": ""}, "CleaningError", "m"),
        ("plain", "", "plain"),
        (None, "", ""),
    ],
    ids=["details", "message", "text", "none"],
)
def test_details_say_more_than_the_message(error: Any, kind: str, reason: str) -> None:
    found = results.read(command("1", "FAILED", command_error=error))
    assert (found.kind, found.reason) == (kind, reason)


def test_a_very_long_reason_keeps_its_beginning_and_its_end() -> None:
    said = "mdadm: " + "x" * 5_000_000 + " no space left"
    for error in ({"type": "T" * 9999, "details": said}, said):
        found = results.read(command("1", "FAILED", command_error=error))
        assert found.reason.startswith("mdadm: x")
        assert found.reason.endswith("x no space left")
        assert len(found.reason) + len(found.kind) < 5000


@pytest.mark.parametrize(
    "document",
    [
        None,
        [],
        {"commands": None},
        {"commands": ["x"]},
        {"commands": [{"id": 1}]},
        {"commands": [command("1", "DANCING")]},
        {"commands": [{**command("1", "RUNNING"), "command_status": ["RUNNING"]}]},
    ],
    ids=["null", "list", "no list", "text", "no name", "status", "odd status"],
)
def test_nonsense_is_told_as_such(document: Any) -> None:
    with pytest.raises(ValueError, match="command"):
        results.read_list(document)


@pytest.mark.parametrize("broken", [None, {}, command("0", "DANCING")])
def test_broken_command_before_the_last_is_left_out(broken: Any) -> None:
    listed = results.read_list({"commands": [broken, command("1", "RUNNING")]})
    assert [one.id for one in listed] == ["1"]


def test_extensions_of_a_name_are_left_out() -> None:
    assert results.read(command("1", "RUNNING", "clean.execute_clean_step")).name == (
        "execute_clean_step"
    )


LISTED = ran("0", Status.SUCCEEDED, name="get_clean_steps")


@pytest.mark.parametrize(
    ("commands", "found"),
    [
        ([], None),
        ([LISTED], None),
        ([LISTED, ran("1", Status.RUNNING)], "1"),
        ([LISTED, ran("1", Status.SUCCEEDED, ID)], "1"),
        ([LISTED, ran("1", Status.SUCCEEDED, "run/2/0")], None),
        ([LISTED, ran("1", Status.SUCCEEDED)], None),
        ([LISTED, ran("1", Status.FAILED)], None),
        ([ran("1", Status.SUCCEEDED, ID), LISTED], None),
        ([ran("1", Status.RUNNING, name="execute_deploy_step")], None),
    ],
    ids=[
        *("booted", "listed", "runs", "ended", "of the step before", "of nobody", "failed"),
        *("others since", "of another kind"),
    ],
)
def test_a_conductor_that_knows_nothing_finds_its_step(
    commands: list[Result], found: str | None
) -> None:
    begun = results.begun(commands, CLEAN, ID)
    assert (begun and begun.id) == found


@pytest.mark.parametrize(
    ("now", "found"),
    [
        ([], None),
        ([ran("1", Status.RUNNING)], None),
        ([ran("1", Status.FAILED), ran("2", Status.RUNNING)], "2"),
        ([ran("1", Status.FAILED), ran("2", Status.FAILED)], "2"),
        ([ran("1", Status.FAILED), ran("2", Status.RUNNING, name="sync")], None),
    ],
    ids=["none", "the old one", "runs", "has failed already", "another"],
)
def test_an_order_whose_answer_was_lost_is_found_by_what_is_new(
    now: list[Result], found: str | None
) -> None:
    new = results.unknown([ran("1", Status.FAILED)], now, "execute_clean_step")
    assert (new and new.id) == found
