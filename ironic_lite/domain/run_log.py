"""The log of a run: its events as sentences, and the lines of drivers, joined by time; no I/O.

A line is ``time source text``: the time in UTC with microseconds, a source of `SOURCES`, and a text
without control characters. Lines are stored as they are shown, so a text of stored lines needs no
parser.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable

from ironic_lite.core import log_lines
from ironic_lite.core.json_types import JsonView
from ironic_lite.core.masking import PROSE
from ironic_lite.domain import history
from ironic_lite.records import Event

RUN, BMC, AGENT, RAMDISK, DRIVER = "run", "bmc", "agent", "ramdisk", "driver"
SOURCES = (RUN, BMC, AGENT, RAMDISK, DRIVER)
"""The service itself, calls to the BMC, calls to the agent, the ramdisk's journal, drivers."""
LONGEST = 2000
"""Characters of one line's text; the rest is cut off."""
_STAMP = len("2026-11-22T10:11:12.123456Z")
_GAP = re.compile(rf"\S{{27}} {RUN} +\((\d+) KiB of lines left out here\)")


def line(at: datetime.datetime, source: str, text: str) -> str:
    """Return one line, without a line end.

    :param at: naive UTC.
    """
    shown = log_lines.escaped(text if len(text) <= LONGEST else f"{text[:LONGEST]}...")
    return f"{at.isoformat(timespec='microseconds')}Z {source:<8} {shown}".rstrip()


def left_out(at: datetime.datetime, what: str) -> str:
    """Return the line that stands for lines left out of a log.

    :param what: such as ``137 lines``, or ``12 KiB of lines`` for `gap`.
    """
    return line(at, RUN, f"({what} left out here)")


def gap(text: str) -> int | None:
    """Return how many KiB a line of `left_out` stands for, None for another text."""
    found = _GAP.fullmatch(text)
    return int(found[1]) if found else None


def merge(added: Iterable[str], stored: Iterable[str]) -> list[str]:
    """Join the lines of events and stored texts by their times.

    Lines of one time keep their order, events first: a step begins before its driver is called.

    :param stored: texts of one line or more.
    """
    lines = [*added, *(one for text in stored for one in text.splitlines())]
    return sorted(lines, key=lambda one: one[:_STAMP])


class RunLogWriter:
    """Words the events of one run, in their order; repeats no name and no error."""

    def __init__(self) -> None:
        self._request: str | None = None
        self._error: str | None = None

    def lines(self, events: Iterable[Event]) -> list[str]:
        """Return a line for each event that brings something new."""
        return [line(one["at"], RUN, text) for one in events if (text := self._sentence(one))]

    def _sentence(self, event: Event) -> str:
        data = event["data"] or {}
        error = data.get("error")
        if event["kind"] == "fault" and error is not None and error == self._error:
            return ""  # last_error, which the event of the failure contains
        text = _WORDS.get(event["kind"], _other)(event, data)
        if error is not None and error != self._error and error not in text:
            text = f"{text}: {error}"
        self._error = error or self._error
        return PROSE(text) + self._asked(event)

    def _asked(self, event: Event) -> str:
        """Return who asked for a change of state, if that is another request than before."""
        if event["kind"] != "provision" or event["request_id"] == self._request:
            return ""
        self._request = event["request_id"]
        names = [name for name in (event["requester"], self._request) if name]
        return f" ({', '.join(names)})" if names else ""


# -- sentences -------------------------------------------------------------------------------


def _moved(event: Event, _data: JsonView) -> str:
    return f"{event['event']}, {event['before']} -> {event['after']}"


def _step_started(_event: Event, data: JsonView) -> str:
    return f"{data.get('step')} begins"


def _step_ended(_event: Event, data: JsonView) -> str:
    return f"{data.get('step')} {'failed' if data.get('error') else 'is done'}"


def _step_waived(_event: Event, data: JsonView) -> str:
    reason = data.get("reason")
    return f"{data.get('step')} is waived{f': {reason}' if reason else ''}"


def _overdue(_event: Event, data: JsonView) -> str:
    return f"{data.get('step')} takes longer than usual"


def _power(event: Event, _data: JsonView) -> str:
    known = " -> ".join(state for state in (event["before"], event["after"]) if state)
    return f"power {event['event']}, {known}" if known else f"power {event['event']}"


def _agent_changed(_event: Event, data: JsonView) -> str:
    return f"another agent refused {data.get('step')}"


def _erasure(event: Event, _data: JsonView) -> str:
    return f"an erasure record is made, result {event['event']}"


def _data_state(event: Event, _data: JsonView) -> str:
    return f"state of the data {event['before']} -> {event['after']}"


def _entry(event: Event, _data: JsonView) -> str:
    text: str = history.entry(event)["event"]
    return text if ". " in text else text.removesuffix(".")


def _other(event: Event, data: JsonView) -> str:
    words = [event["kind"].replace("_", " "), event["event"], data.get("step"), data.get("reason")]
    return " ".join(str(word) for word in words if word)


_WORDS = {
    "provision": _moved,
    "step_started": _step_started,
    "step_ended": _step_ended,
    "step_waived": _step_waived,
    "overdue": _overdue,
    "power": _power,
    "agent_changed": _agent_changed,
    "fault": _other,
    "erasure": _erasure,
    "data_state": _data_state,
    **dict.fromkeys(("flow_started", "flow_ended", "abort_requested", "taken_over"), _entry),
}
