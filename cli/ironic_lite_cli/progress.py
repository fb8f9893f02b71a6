"""Runs and batches as text: lines, a picture for a terminal, and values of tables.

The functions take a run or batch as the API shows it and need no network.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TextIO

from cliff import columns

from ironic_lite_cli.http_api import Json, JsonView, in_commands

OPEN = frozenset({"running", "waiting"})
"""States of runs and steps that have not ended."""
BATCH_ENDED = ("done", "failed", "aborted", "refused", "skipped")
"""Results of nodes of a batch."""
BATCH_FAILED = ("failed", "refused")
_PENDING = "pending"
_BAR = 20
_LEAST_WIDTH, _LEAST_STEPS = 20, 3
_TO_SECONDS = len("2026-01-01T00:00:00")
USUAL = os.terminal_size((80, 24))
"""Size of a terminal that does not report its size."""
_AROUND = 2
"""Lines of a picture beside its steps."""

Shown = dict[tuple[str, int], tuple[str, int]]
"""Kind and ordinal of a step -> state and attempt of its last line."""


def opening(run: Json) -> str:
    """Return the first line about a run."""
    by = f" by {run['requester']}" if run.get("requester") else ""
    return one_line(f"{run['verb']} {run['uuid']}{by}: {run['state']}")


def ending(run: Json) -> str:
    """Return the last line about a run that has ended."""
    seconds = clock_time(run["duration_seconds"] or 0.0)
    return one_line(f"{run['verb']}: {run['state']} after {seconds} {_reason(run)}")


def changes(run: Json, shown: Shown) -> Iterator[str]:
    """Yield a line for each step whose state or attempt has changed.

    :param shown: what earlier lines have shown; updated.
    """
    for number, step in enumerate(run["steps"], 1):
        place, state = (step["kind"], step["ordinal"]), (step["state"], step["attempt"])
        if step["state"] == _PENDING or shown.get(place) == state:
            continue
        shown[place] = state
        elapsed = clock_time(run["duration_seconds"] or 0.0)
        words = f"{_title(step)}: {step['state']}{_details(step, 0.0)} {_reason(step)}"
        yield one_line(f"{elapsed} [{number}/{len(run['steps'])}] {words}")


def steps(found: Sequence[Json]) -> Iterator[str]:
    """Yield a line for each step, with the ordinal that ``--from`` and ``--waive-step`` take."""
    for step in found:
        words = f"{step['ordinal']} {_title(step)}: {step['state']}{_details(step, 0.0)}"
        if step.get("done_in"):
            words += f", kept from run {step['done_in']}"
        yield one_line(f"{words} {(step.get('waiver') or {}).get('reason') or _reason(step)}")


def picture(run: Json, since: float, width: int, lines: int) -> list[str]:
    """Return the lines of a picture: a bar, the steps around the current one, the expected end.

    :param since: seconds since the API has shown the run.
    :param width: columns of the terminal.
    :param lines: height of the terminal.
    """
    steps, alive = run["steps"], run["state"] in OPEN
    elapsed = clock_time((run["duration_seconds"] or 0.0) + (since if alive else 0.0))
    ended = sum(step["state"] not in (*OPEN, _PENDING) for step in steps)
    head = f"{run['verb']} {run['state']} {elapsed}  {_bar(steps, since)} {ended}/{len(steps)}"
    shown = [head, *_step_lines(steps, since, lines - _AROUND)]
    eta = run.get("eta")
    if alive and eta:
        shown.append(f"expected end {expected_end(eta)}")
    return [_printable(line)[: max(width - 1, _LEAST_WIDTH)] for line in shown]


def expected_end(eta: Json) -> str:
    """Return the expected end of a run, and the time after which it is late."""
    ends, late = (str(eta[name])[:_TO_SECONDS].replace("T", " ") for name in ("ends_at", "late_at"))
    return f"{ends}, late after {late} (UTC)"


def _step_lines(steps: Sequence[Json], since: float, room: int) -> Iterator[str]:
    room = max(room, _LEAST_STEPS)
    current = next((n for n, step in enumerate(steps) if step["state"] in (*OPEN, _PENDING)), 0)
    first = max(0, min(current - room // 2, len(steps) - room))
    width = max((len(_title(step)) for step in steps), default=0)
    for number, step in enumerate(steps[first : first + room], first + 1):
        name = _title(step).ljust(width)
        yield f"  {number:>{len(str(len(steps)))}}. {name}  {step['state']}{_details(step, since)}"


def _bar(steps: Sequence[Json], since: float) -> str:
    """Return a bar; a step under way counts by its usual duration, if that is known."""
    share = sum(_share_done(step, since) for step in steps) / max(len(steps), 1)
    full = int(_BAR * share)
    return f"[{'#' * full}{'-' * (_BAR - full)}]"


def _share_done(step: Json, since: float) -> float:
    if step["state"] not in OPEN:
        return 0.0 if step["state"] == _PENDING else 1.0
    usual = _usual(step)
    return min(0.95, ((step["duration_seconds"] or 0.0) + since) / usual) if usual else 0.0


def _details(step: Json, since: float) -> str:
    """Return duration, usual duration and attempt of a step, as far as they are known."""
    words = ""
    alive = step["state"] in OPEN
    if step["duration_seconds"] is not None and (step["ended_at"] or since):
        words += f" {clock_time(step['duration_seconds'] + (since if alive else 0.0))}"
    usual = _usual(step)
    if alive and usual:
        words += f", usually {clock_time(usual)}"
    if alive and step.get("overdue"):
        words += ", overdue"
    if step["attempt"] > 1:
        words += f", attempt {step['attempt']}"
    return words


def _usual(step: Json) -> float:
    return float((step.get("usual_seconds") or {}).get("p50") or 0.0)


def _title(step: Json) -> str:
    return f"{step['interface']}.{step['step']}"


def _reason(failed: Json) -> str:
    return str((failed["error"] or {}).get("text", ""))


def clock_time(seconds: float) -> str:
    """Return a duration as a clock shows it: 0:07, 12:30 or 1:00:00."""
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def one_line(text: str) -> str:
    """Return a text without line breaks and without characters that control a terminal."""
    return _printable(" ".join(text.split()))


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "?" for char in text)


class Screen:
    """Draws a picture over the last one.

    :param size: returns columns and lines of the terminal.
    """

    def __init__(self, stream: TextIO, size: Callable[[], os.terminal_size]) -> None:
        self._stream = stream
        self._size = size
        self._drawn = 0

    def draw(self, run: Json, since: float) -> None:
        """Draw the run as it is by now."""
        size = self._size()
        width, height = size.columns or USUAL.columns, size.lines or USUAL.lines
        lines = picture(run, since, width, height - 1)
        up = f"\x1b[{self._drawn}F" if self._drawn else ""
        body = "".join(f"{line}\x1b[K\n" for line in lines)
        self._stream.write(f"{up}{body}\x1b[J")
        self._stream.flush()
        self._drawn = len(lines)


# Batches.


def batch_line(batch: JsonView) -> str:
    """Return the progress of a batch as one line of text."""
    counts = batch["counts"]
    total, ended = sum(counts.values()), sum(counts[name] for name in BATCH_ENDED)
    full = _BAR * ended // max(1, total)
    name = f"{batch['name']}: " if batch["name"] else ""
    by = f" by {batch['paused_by']}" if batch["paused_by"] else ""
    wave = f"wave {batch['wave'] + 1} of {len(batch['waves'])}"
    bar = f"[{'#' * full}{'-' * (_BAR - full)}] {ended}/{total}"
    return one_line(f"{name}{batch['state']}{by}, {wave} {bar}: {_counts(counts)}")


def failure_line(member: JsonView) -> str:
    """Return a line about a node that failed or was refused."""
    error = member["error"] or {}
    name = member["name"] or member["uuid"]
    code, text = error.get("code") or "no code", error.get("text", "")
    return one_line(f"{name} {member['result']}: {code}: {text}")


def _counts(found: Mapping[str, int]) -> str:
    """Return the numbers that are not 0, with their names."""
    return ", ".join(f"{number} {name}" for name, number in found.items() if number)


# Values of tables.


class _Steps(columns.FormattableColumn[list[Json]]):
    """The steps of a run: a line for each in a table."""

    def human_readable(self) -> str:
        """Return ordinal, name, state, duration and error of each step."""
        return "\n".join(steps(self._value))


class _Reason(columns.FormattableColumn[Json | None]):
    """The error of a run: code and text in a table."""

    def human_readable(self) -> str:
        """Return the code of the cause, and the text."""
        if not self._value:
            return ""
        code = (self._value.get("cause") or self._value).get("code")
        return one_line(f"{code}: {self._value['text']}")


class _Eta(columns.FormattableColumn[Json | None]):
    """The expected end of a run: two times in a table."""

    def human_readable(self) -> str:
        """Return the expected end, and the time after which the run is late."""
        return expected_end(self._value) if self._value else ""


class _Links(columns.FormattableColumn[list[Json]]):
    """The links of a run: the first address in a table."""

    def human_readable(self) -> str:
        """Return the address of the run."""
        return str(self._value[0]["href"]) if self._value else ""


class _Counts(columns.FormattableColumn[dict[str, int]]):
    """The nodes of a batch by result: those that are not 0, in a table."""

    def human_readable(self) -> str:
        """Return the numbers with their results."""
        return _counts(self._value)


class _FirstWave(columns.FormattableColumn[list[Json]]):
    """The first nodes of a planned batch: their names in a table."""

    def human_readable(self) -> str:
        """Return the names."""
        return ", ".join(node["name"] or node["uuid"] for node in self._value)


class _Refusals(columns.FormattableColumn[Json]):
    """The nodes that would refuse a batch: their number and a line for each in a table."""

    def human_readable(self) -> str:
        """Return the number, and name and reason of the first ones."""
        nodes = self._value.get("first") or self._value.get("nodes", ())
        lines = (in_commands(f"{node['name'] or node['uuid']}: {node['text']}") for node in nodes)
        return "\n".join([str(self._value["count"]), *map(one_line, lines)])


class _Fit(columns.FormattableColumn[Json]):
    """The nodes that can get the request of a batch: number, digest, and marked ones in a table."""

    def human_readable(self) -> str:
        """Return the number, the numbers of those that are marked, and the digest of all."""
        marks = ", ".join(f"{len(self._value[mark])} {mark}" for mark in ("retired", "protected"))
        return f"{self._value['count']} ({marks}), digest {self._value['digest']}"


_Columns = Mapping[str, type[columns.FormattableColumn[Any]]]
_OF_RUN: _Columns = {"steps": _Steps, "error": _Reason, "eta": _Eta, "links": _Links}
_OF_BATCH: _Columns = {
    **{"counts": _Counts, "first_wave": _FirstWave, "refused": _Refusals},
    **{"fit": _Fit, "unfit": _Refusals},
}


def run_columns(found: Json) -> Json:
    """Return the values of a run, for cliff."""
    return {**found, **{name: kind(found[name]) for name, kind in _OF_RUN.items() if name in found}}


def batch_columns(found: Json) -> Json:
    """Return the values of a batch, for cliff."""
    return {
        **found,
        **{name: kind(found[name]) for name, kind in _OF_BATCH.items() if name in found},
    }
