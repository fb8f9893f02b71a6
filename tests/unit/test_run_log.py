"""Lines of the log of a run: times, sentences of events, and the join by time."""

from __future__ import annotations

import datetime
from typing import Any, cast

import pytest

from ironic_lite.domain import notifications, run_log
from ironic_lite.records import Event

AT = datetime.datetime(2026, 11, 22, 10, 11, 12, 123456)


def event(kind: str, second: int = 0, **more: Any) -> Event:
    row: Any = {
        "id": 1,
        "at": AT + datetime.timedelta(seconds=second),
        "node_uuid": "n",
        "run_uuid": "r",
        "kind": kind,
        "event": None,
        "before": None,
        "after": None,
        "conductor": "c1",
        "requester": "ann",
        "request_id": "req-1",
        "data": None,
    }
    return cast(Event, {**row, **more})


def told(*events: Event) -> list[str]:
    """Return the texts, without time and source."""
    lines = run_log.RunLogWriter().lines(events)
    assert all(line[27:37] == " run      " for line in lines), lines
    return [line[37:] for line in lines]


def test_line_has_time_source_and_text() -> None:
    line = run_log.line(AT, run_log.BMC, "GET /redfish/v1 200 0.213 s")
    assert line == "2026-11-22T10:11:12.123456Z bmc      GET /redfish/v1 200 0.213 s"


def test_line_stays_one_line() -> None:
    line = run_log.line(AT, run_log.DRIVER, "one\ntwo\x1b[31m\u202e")
    assert line.endswith(r"one\x0atwo\x1b[31m\u202e")


def test_long_line_is_cut() -> None:
    assert len(run_log.line(AT, run_log.DRIVER, "x" * 9000)) < run_log.LONGEST + 60


def test_lines_are_joined_by_time_and_events_come_first() -> None:
    at = [run_log.line(AT + datetime.timedelta(seconds=n), run_log.RUN, "e") for n in range(3)]
    stored = [
        "\n".join(
            run_log.line(AT + datetime.timedelta(seconds=n), run_log.BMC, f"b{n}") for n in (0, 1)
        ),
        run_log.line(AT, run_log.BMC, "late row"),
    ]
    merged = [line[28:].split(maxsplit=1) for line in run_log.merge(at, stored)]
    assert merged == [
        ["run", "e"],
        ["bmc", "b0"],
        ["bmc", "late row"],
        ["run", "e"],
        ["bmc", "b1"],
        ["run", "e"],
    ]


def test_move_names_its_request_once() -> None:
    moves = [
        event("provision", event="clean", before="manageable", after="cleaning"),
        event("provision", event="wait", before="cleaning", after="clean wait"),
        event("provision", event="resume", before="clean wait", after="cleaning", request_id="b"),
    ]
    assert told(*moves) == [
        "clean, manageable -> cleaning (ann, req-1)",
        "wait, cleaning -> clean wait",
        "resume, clean wait -> cleaning (ann, b)",
    ]


def test_error_is_worded_once() -> None:
    error = {"error": "disk 3 is broken"}
    step = {"step": "deploy.erase_devices", "ordinal": 0}
    lines = told(
        event("step_started", event="clean", data=step),
        event("step_ended", event="clean", data={**step, **error}),
        event("flow_ended", event="cleaning", data={"outcome": "failed", "step": None}),
        event("provision", event="fail", before="cleaning", after="clean failed", data=error),
        event("fault", event="error", data=error),
    )
    assert lines == [
        "deploy.erase_devices begins",
        "deploy.erase_devices failed: disk 3 is broken",
        "Cleaning failed",
        "fail, cleaning -> clean failed (ann, req-1)",
    ]


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (event("power", event="changed", before=None, after="power on"), "power changed, power on"),
        (
            event("power", event="changed", before="power off", after="power on"),
            "power changed, power off -> power on",
        ),
        (event("taken_over", data={"from": "c1"}), "Taken over from the conductor c1"),
        (
            event("agent_changed", data={"step": "a.b", "error": "other managers"}),
            "another agent refused a.b: other managers",
        ),
        (event("fault", event="error", data={"error": "x"}), "fault error: x"),
        (event("overdue", data={"step": "a.b"}), "a.b takes longer than usual"),
        (event("step_waived", data={"step": "a.b", "reason": "r"}), "a.b is waived: r"),
        (event("stop_requested", event="hold", data={"reason": "r"}), "stop requested hold r"),
    ],
)
def test_event_has_a_sentence(found: Event, text: str) -> None:
    assert told(found) == [text]


def test_addresses_in_sentences_show_no_password_and_no_query() -> None:
    error = "cannot fetch https://ann:hunter2@images/x.qcow2?sig=hunter3"
    (text,) = told(event("fault", event="error", data={"error": error}))
    assert "hunter" not in text
    assert "images/x.qcow2" in text


def test_newest_lines_are_the_last() -> None:
    assert run_log.newest(["a", "b", "c"], 2) == ["b", "c"]
    assert run_log.newest(["a"], 0) == []


@pytest.mark.parametrize("kind", notifications.KINDS)
def test_event_of_every_kind_has_a_sentence(kind: str) -> None:
    (text,) = told(
        event(kind, event="x", before="a", after="b", data={"step": "s.t", "from": "c0"})
    )
    assert text
    assert "None" not in text


def test_erasure_and_state_of_the_data_are_sentences() -> None:
    record = event("erasure", event="complete", data={"erasure": "e1", "result": "complete"})
    state = event("data_state", before="unknown", after="clean")
    assert told(record, state) == [
        "an erasure record is made, result complete",
        "state of the data unknown -> clean",
    ]
