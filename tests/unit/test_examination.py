"""Tables of checks: their results, dependencies and the time limit of an examination."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from ironic_lite import errors
from ironic_lite.checks import examiner
from ironic_lite.domain import examination
from ironic_lite.domain.examination import Check, Finding, Status, Verdict
from tests.support.thread_limit import no_new_threads

SECONDS = 60.0


def check(
    name: str, find: Callable[[Any], Iterator[Verdict]], *needs: str, do: str = "Do this."
) -> Check[Any]:
    return Check(name, "A check.", find, do, needs)


def passes(_subject: Any) -> Iterator[Verdict]:
    yield examination.passed("well")


def fails(_subject: Any) -> Iterator[Verdict]:
    raise errors.Error("It is\nbroken: http://ann:s3cret@host/x.")
    yield


def found(*checks: Check[Any], seconds: float = SECONDS) -> list[Finding]:
    return examiner.Examiner().examine(examiner.lines("here", checks, None), seconds)


def results(findings: list[Finding]) -> dict[str, str]:
    return {one.name: str(one.status) for one in findings}


def test_worst_status_is_that_of_the_whole() -> None:
    order = [Status.OK, Status.UNKNOWN, Status.WARNING, Status.FAILED]
    for place, status in enumerate(order):
        assert examination.worst(reversed(order[: place + 1])) is status
    assert examination.worst(()) is Status.OK
    assert [examination.exit_status(status) for status in order] == [0, 1, 1, 2]


def test_error_of_a_check_is_a_failed_finding_without_passwords() -> None:
    (one,) = found(check("a", fails))
    assert one.status is Status.FAILED
    assert one.text == "It is broken: http://ann:******@host/x."
    assert (one.do, one.where) == ("Do this.", "here")


def test_checks_without_a_thread_leave_their_places_to_the_next_examination() -> None:
    limited = examiner.Examiner(places=1)
    lines = examiner.lines("here", [check("a", passes)], None)
    with no_new_threads():
        assert results(limited.examine(lines, SECONDS)) == {"a": "unknown"}
    assert results(limited.examine(lines, SECONDS)) == {"a": "ok"}


def test_finding_survives_its_way_through_another_process() -> None:
    (one,) = found(check("a", fails))
    assert Finding.from_json(one.as_json()) == one
    moved = Finding.from_json({**one.as_json(), "status": "of a later release"}, "there")
    assert (moved.status, moved.where) == (Status.UNKNOWN, "there")


def test_check_is_not_made_if_one_that_it_needs_has_failed() -> None:
    findings = found(
        check("a", fails), check("b", passes, "a"), check("c", passes, "b"), check("d", passes)
    )
    assert results(findings) == {"a": "failed", "b": "unknown", "c": "unknown", "d": "ok"}
    assert "because a has failed" in findings[1].text


def test_check_without_verdicts_has_no_finding() -> None:
    def yields_nothing(_subject: Any) -> Iterator[Verdict]:
        yield from ()

    assert found(check("a", yields_nothing)) == []
    assert found() == []


def test_fault_of_a_check_itself_hides_no_other_check() -> None:
    def breaks(_subject: Any) -> Iterator[Verdict]:
        raise ZeroDivisionError("s3cret")
        yield

    findings = found(check("a", breaks), check("b", passes))
    assert results(findings) == {"a": "unknown", "b": "ok"}
    assert "s3cret" not in findings[0].text


def test_hanging_check_delays_no_answer_and_keeps_its_place() -> None:
    released = threading.Event()

    def hangs(_subject: Any) -> Iterator[Verdict]:
        released.wait(SECONDS)
        yield examination.passed("too late")

    limited = examiner.Examiner(places=2)
    table = [check("a", hangs), check("after", passes, "a"), check("b", passes)]
    try:
        begun = time.monotonic()
        findings = limited.examine(examiner.lines("here", table, None), 0.3)
        assert time.monotonic() - begun < SECONDS / 2
        assert results(findings) == {"a": "failed", "after": "unknown", "b": "ok"}
        assert "not finished within 0.3 s" in findings[0].text
        assert limited.examine(examiner.lines("here", table, None), 0.3)[0].name == "a"
        # Both places hang now: nothing can be examined, and that is said.
        third = limited.examine(examiner.lines("here", [check("b", passes)], None), 0.3)
        assert results(third) == {"b": "unknown"}
    finally:
        released.set()
    end = time.monotonic() + SECONDS
    while results(limited.examine(examiner.lines("here", table, None), SECONDS)) != {
        "a": "ok",
        "after": "ok",
        "b": "ok",
    }:
        assert time.monotonic() < end
        time.sleep(0.05)
