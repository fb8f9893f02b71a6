"""Runs checks beside each other, and returns in time although a check may hang.

Python cannot end a thread that hangs, such as on a dead network file system. The examination then
goes on without it, and the thread keeps its place until it ends.
"""

from __future__ import annotations

import collections
import contextvars
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ironic_lite import errors
from ironic_lite.core import context
from ironic_lite.core.masking import PROSE, TextMask
from ironic_lite.domain import examination
from ironic_lite.domain.examination import Check, Finding, Verdict

LOG = logging.getLogger(__name__)

PLACES = 96
"""Threads of one process, hanging ones included."""
AT_ONCE = 32
"""Threads of one examination."""
_LOGS = "Read the log of that process; the name of the check is in the line."


class Line(NamedTuple):
    """Checks that are made in their order, of one subject at one place."""

    where: str
    checks: Sequence[Check[Any]]
    subject: Any
    hide: TextMask = PROSE


def lines(
    where: str, checks: Sequence[Check[Any]], subject: Any, hide: TextMask = PROSE
) -> list[Line]:
    """Return a table of checks as lines that can be examined beside each other.

    :param hide: the mask of what they find.
    """
    return [Line(where, group, subject, hide) for group in examination.independent_groups(checks)]


class Examiner:
    """Runs examinations; one object serves all threads of a process."""

    def __init__(self, places: int = PLACES) -> None:
        self._places = threading.BoundedSemaphore(places)

    def examine(self, given: Sequence[Line], seconds: float) -> list[Finding]:
        """Make all checks, and return their findings in the order of the lines.

        Checks that have not ended in time are failed, and those not begun are unknown. Never raises
        and takes no longer than ``seconds``.
        """
        work, started = _ExaminerRound(given), 0
        for _ in range(min(len(given), AT_ONCE)):
            if not self._places.acquire(blocking=False):
                break
            # The thread sees the time limits and the request of this one.
            run = contextvars.copy_context().run
            arguments = (self._run_lines, work, context.current())
            thread = threading.Thread(target=run, args=arguments, name="doctor", daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system has no thread left
                self._places.release()
                break
            started += 1
        if started:
            work.done.wait(seconds)
        return work.findings(seconds)

    def _run_lines(self, work: _ExaminerRound, whose: context.Context | None) -> None:
        context.enter(whose)
        try:
            work.run()
        finally:
            self._places.release()


class _ExaminerRound:
    """The lines of one examination, and what is known about each."""

    def __init__(self, given: Sequence[Line]) -> None:
        self.done = threading.Event()
        self._lines = given
        self._waiting = collections.deque(range(len(given)))
        self._left = len(given)
        self._guard = threading.Lock()
        self._found: list[list[Finding]] = [[] for _ in given]
        self._checked: list[int] = [-1 for _ in given]  # place of the check under way
        if not given:
            self.done.set()

    def run(self) -> None:
        """Take lines until none is left."""
        while True:
            with self._guard:
                if not self._waiting or self.done.is_set():
                    return
                place = self._waiting.popleft()
            self._run_line(place)
            with self._guard:
                self._checked[place] = len(self._lines[place].checks)
                self._left -= 1
                if not self._left:
                    self.done.set()

    def _run_line(self, place: int) -> None:
        where, checks, subject, hide = self._lines[place]
        for number, check in enumerate(checks):
            with self._guard:
                if self.done.is_set():
                    return
                self._checked[place] = number
                blocked = examination.blocked_by(check, self._found[place])
            verdicts = _not_made(check, subject, blocked) if blocked else _verdicts(check, subject)
            begun = time.monotonic()
            for verdict in verdicts:
                now = time.monotonic()
                found = examination.as_finding(check, where, verdict, now - begun, hide)
                begun = now
                with self._guard:
                    if not self.done.is_set():
                        self._found[place].append(found)

    def findings(self, seconds: float) -> list[Finding]:
        """Return what has been found until now; later results are dropped."""
        with self._guard:
            self.done.set()
            found = []
            for line, known, at in zip(self._lines, self._found, self._checked, strict=True):
                found += known
                for number, check in enumerate(line.checks):
                    if number >= at:
                        verdict = _unfinished(seconds, begun=number == at)
                        spent = seconds if number == at else 0.0
                        found.append(
                            examination.as_finding(check, line.where, verdict, spent, line.hide)
                        )
            return found


def _unfinished(seconds: float, *, begun: bool) -> Verdict:
    if begun:
        text = f"not finished within {seconds:g} s"
        return examination.failed(text, "")
    do = "Ask again; if it stays so, correct the checks that have not finished, too."
    return examination.unknown(f"not begun within {seconds:g} s", do)


def _not_made(check: Check[Any], subject: Any, name: str) -> Iterator[Verdict]:
    if check.applies is None or check.applies(subject):
        yield examination.unknown(
            f"not checked, because {name} has failed", f"Correct {name} first."
        )


def _verdicts(check: Check[Any], subject: Any) -> Iterator[Verdict]:
    """Yield the verdicts of a check; an error becomes a failed one."""
    try:
        yield from check.find(subject)
    except errors.Error as why:
        yield examination.failed(why.message, "")
    except Exception:
        LOG.exception("The check %s of the doctor has failed by a fault of its own", check.name)
        yield examination.unknown("the check itself has failed", _LOGS)
