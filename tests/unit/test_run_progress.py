"""The progress of a run as the command line shows it: lines, a picture, a screen."""

from __future__ import annotations

import io
import os
from typing import Any

from ironic_lite.cli import progress, tables

Json = dict[str, Any]


def step(name: str, state: str, **more: Any) -> Json:
    return {
        "kind": "clean",
        "ordinal": 0,
        "interface": "deploy",
        "step": name,
        "state": state,
        "attempt": 1,
        "error": None,
        "ended_at": "2026-01-01T00:00:00+00:00" if state in ("done", "failed") else None,
        "duration_seconds": None if state == "pending" else 7.2,
        "usual_seconds": None,
        "overdue": None,
        **more,
    }


def a_run(state: str, *steps: Json, **more: Any) -> Json:
    numbered = [{**one, "ordinal": number} for number, one in enumerate(steps)]
    known = {"uuid": "u-1", "verb": "clean", "requester": "ann", "error": None, "eta": None}
    return {**known, "state": state, "duration_seconds": 65.0, "steps": numbered, **more}


def test_durations_are_shown_as_on_a_clock() -> None:
    shown = [progress.clock_time(seconds) for seconds in (0.9, 7, 65, 3600, 90061)]
    assert shown == ["0:00", "0:07", "1:05", "1:00:00", "25:01:01"]


def test_lines_show_each_change_once_with_elapsed_time_attempt_and_usual_duration() -> None:
    shown: progress.Shown = {}
    usual = {"p50": 90.0, "p90": 120.0, "samples": 9}
    first = a_run("running", step("a", "running", usual_seconds=usual), step("b", "pending"))
    assert list(progress.changes(first, shown)) == ["1:05 [1/2] deploy.a: running, usually 1:30"]
    assert list(progress.changes(first, shown)) == []
    again = a_run("running", step("a", "running", attempt=2), step("b", "pending"))
    assert list(progress.changes(again, shown)) == ["1:05 [1/2] deploy.a: running, attempt 2"]
    failed = step("b", "failed", error={"text": "disk 3\nis \x1b[31mbroken"})
    last = a_run("failed", step("a", "done", attempt=2), failed, error={"text": "No."})
    assert list(progress.changes(last, shown)) == [
        "1:05 [1/2] deploy.a: done 0:07, attempt 2",
        "1:05 [2/2] deploy.b: failed 0:07 disk 3 is ?[31mbroken",
    ]
    assert progress.ending(last) == "clean: failed after 1:05 No."
    assert progress.opening(last) == "clean u-1 by ann: failed"


def test_picture_counts_on_between_two_answers() -> None:
    usual = {"p50": 20.0, "p90": 30.0, "samples": 9}
    run = a_run(
        "running",
        step("a", "done"),
        step("long_name", "running", usual_seconds=usual, attempt=2, overdue={"since": "x"}),
        step("c", "pending"),
        step("d", "pending"),
        eta={"ends_at": "2026-01-01T12:00:00.5+00:00", "late_at": "2026-01-01T12:05:00+00:00"},
    )
    lines = progress.picture(run, 2.9, 200, 40)
    assert lines[0] == "clean running 1:07  [#######-------------] 1/4"
    assert lines[1] == "  1. deploy.a          done 0:07"
    assert lines[2] == "  2. deploy.long_name  running 0:10, usually 0:20, overdue, attempt 2"
    assert lines[3] == "  3. deploy.c          pending"
    assert lines[5] == "expected end 2026-01-01 12:00:00, late after 2026-01-01 12:05:00 (UTC)"
    done = a_run("done", step("a", "done"))
    assert progress.picture(done, 100, 200, 40)[0] == "clean done 1:05  [####################] 1/1"


def test_picture_fits_into_the_terminal() -> None:
    steps = [step(f"s{number}", "done") for number in range(500)]
    steps += [step("now", "running"), *(step(f"p{number}", "pending") for number in range(499))]
    lines = progress.picture(a_run("running", *steps), 0, 40, 20)
    assert len(lines) == 19
    assert all(len(line) < 40 for line in lines)
    assert any("501. deploy.now" in line for line in lines)


def test_screen_draws_over_its_last_picture() -> None:
    stream = io.StringIO()
    screen = progress.Screen(stream, lambda: os.terminal_size((80, 24)))
    run = a_run("running", step("a", "running"), step("b", "pending"))
    screen.draw(run, 0)
    first = stream.getvalue()
    screen.draw(run, 1)
    assert "\x1b[3F" not in first
    assert stream.getvalue().removeprefix(first).startswith("\x1b[3Fclean running 1:06")


def test_table_of_a_run_has_a_line_for_each_step_with_its_ordinal() -> None:
    error = {"code": "CleanStepFailed", "text": "No\ndisk.", "cause": {"code": "HardwareError"}}
    kept, waived = {"done_in": "u-0"}, {"waiver": {"reason": "No need."}, "duration_seconds": None}
    steps = (
        step("a", "done", **kept),
        step("b", "failed", attempt=2, error=error),
        step("c", "waived", **waived),
        step("d", "pending"),
    )
    eta = {"ends_at": "2026-01-01T01:02:03+00:00", "late_at": "2026-01-01T02:03:04+00:00"}
    names, values = tables.run(a_run("failed", *steps, error=error, eta=eta, links=[]))
    shown = dict(zip(names, values, strict=True))
    assert shown["steps"].human_readable().splitlines() == [
        "0 deploy.a: done 0:07, kept from run u-0",
        "1 deploy.b: failed 0:07, attempt 2 No disk.",
        "2 deploy.c: waived No need.",
        "3 deploy.d: pending",
    ]
    assert shown["error"].human_readable() == "HardwareError: No disk."
    ends = "2026-01-01 01:02:03, late after 2026-01-01 02:03:04 (UTC)"
    assert (shown["eta"].human_readable(), shown["links"].human_readable()) == (ends, "")
    assert [one["step"] for one in shown["steps"].machine_readable()] == ["a", "b", "c", "d"]
