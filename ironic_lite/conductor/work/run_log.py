"""Lines of one piece of work for the log of its run, written with the next save.

Lines gather in memory, so they cost no transaction. A crash loses those since the last save, which
the log of the conductor has.
"""

from __future__ import annotations

import collections
import datetime
import threading
from collections import OrderedDict
from typing import NamedTuple

from ironic_lite.core import clock, log_lines, text_masking
from ironic_lite.db.engine.session import Connection
from ironic_lite.db.queries import run_logs
from ironic_lite.domain import run_log
from ironic_lite.records import Node

LIMIT = 256 * 1024
"""Bytes of lines of one run."""
_HEAD, _TAIL = 32 * 1024, 96 * 1024
"""Bytes of unwritten lines, from their beginning and from their end."""
_KEPT_HEAD, _KEPT_TAIL = 64 * 1024, 128 * 1024
"""Bytes of written lines that stay when a run has more than `LIMIT`."""
_CUT = 2 * run_log.LONGEST
"""Characters of a line that are masked; fewer are shown, so no secret is cut in two."""
_BESIDE = 40
"""Bytes of a line beside its text."""
_REMEMBERED = 10_000


class _Line(NamedTuple):
    at: datetime.datetime
    source: str
    text: str
    minor: bool

    @property
    def size(self) -> int:
        """Return at least the bytes that the line will have."""
        length = len(self.text) if self.text.isascii() else len(self.text.encode())
        return length + _BESIDE


class _Row(NamedTuple):
    run: str
    at: datetime.datetime
    text: str


class RunLog:
    """The unwritten lines of one piece of work; the middle is left out if there are too many."""

    def __init__(self) -> None:
        self.run: str | None = None
        """The UUID of the run that has begun or ended last in this work."""
        self._head: list[_Line] = []
        self._tail: collections.deque[_Line] = collections.deque()
        self._sizes = [0, 0]
        self._dropped = 0
        self._ready: _Row | None = None
        self._written: tuple[str, int] | None = None

    def add(self, source: str, text: str, *, minor: bool = False) -> None:
        """Take a line: see `core.run_lines.Sink.add`."""
        new = _Line(clock.now(), source, log_lines.escaped(text[:_CUT]), minor)
        if not self._tail and self._sizes[0] + new.size <= _HEAD:
            self._head.append(new)
            self._sizes[0] += new.size
            return
        self._tail.append(new)
        self._sizes[1] += new.size
        while self._sizes[1] > _TAIL:
            self._sizes[1] -= self._tail.popleft().size
            self._dropped += 1

    def drop_minor(self) -> None:
        """Forget all lines if they are minor ones: a poll that has found nothing new."""
        if all(one.minor for one in (*self._head, *self._tail)):
            self.settle()

    def prepare(self, node: Node) -> None:
        """Make the text of the lines, which takes longer than a transaction should."""
        run = node.run_uuid or self.run
        self._ready = None
        if run is not None and self._head:
            self._ready = _Row(run, self._head[-1].at, self._text(node))

    def write(self, conn: Connection) -> None:
        """Write the prepared lines by one statement, if any; call `settle` after the commit."""
        if self._ready is not None:
            run, at, text = self._ready
            run_logs.append(conn, run, at=at, text=text)
            self._written = run, SIZES.limit(conn, run, len(text.encode()))

    def settle(self) -> None:
        """Forget the lines, because they are written."""
        if self._written is not None:
            SIZES.know(*self._written)
        self._head, self._dropped, self._written, self._ready = [], 0, None, None
        self._tail.clear()
        self._sizes = [0, 0]

    def _text(self, node: Node) -> str:
        """Return the lines without the secrets of the node."""
        hide = text_masking.of_node(node)
        about = f"Node {node.uuid}: "
        lines = [*self._head, *self._tail]
        shown = [
            run_log.line(one.at, one.source, hide(one.text.removeprefix(about))) for one in lines
        ]
        if self._dropped:
            place = len(self._head)
            shown.insert(place, run_log.left_out(lines[place].at, f"{self._dropped} lines"))
        return "\n".join(shown)


class Sizes:
    """The bytes of the logs of recent runs, so that writers need not ask. Thread-safe."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, int] = OrderedDict()
        self._guard = threading.Lock()

    def know(self, run: str, size: int) -> None:
        """Remember the size of a run's log."""
        with self._guard:
            self._known[run] = size
            self._known.move_to_end(run)
            if len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)

    def known(self, run: str) -> int | None:
        """Return the size of a run's log, None if it is not remembered."""
        with self._guard:
            return self._known.get(run)

    def forget(self, run: str) -> None:
        """Forget the log of a run that has ended."""
        with self._guard:
            self._known.pop(run, None)

    def limit(self, conn: Connection, run: str, added: int) -> int:
        """Remove the middle of a log that has become too large; return its size.

        The first write of a process to a run that it has not opened asks the database for the
        size. Only a log that is too large is read.

        :param added: bytes of the row that has been written in this transaction.
        """
        known = self.known(run)
        size = run_logs.size(conn, run) if known is None else known + added
        return size if size <= LIMIT else _shorten(conn, run)


def _shorten(conn: Connection, run: str) -> int:
    """Replace the middle of a log that is too large by one line; return the size of the log.

    The line of an earlier time is in the middle again, so a log has one such line.
    """
    rows = [(one, len(one.text.encode())) for one in run_logs.rows(conn, run)]
    size = sum(length for _, length in rows)
    if size <= LIMIT:
        return size
    first, head = 0, 0
    while head + rows[first][1] <= _KEPT_HEAD and run_log.gap(rows[first][0].text) is None:
        head += rows[first][1]
        first += 1
    last, tail = len(rows), 0
    while last - 1 > first and tail + rows[last - 1][1] <= _KEPT_TAIL:
        tail += rows[last - 1][1]
        last -= 1
    gone = [one for one, _ in rows[first:last]]
    before = sum(run_log.gap(one.text) or 0 for one in gone)
    what = f"{(size - head - tail) // 1024 + before} KiB of lines"
    run_logs.replace(conn, [one.id for one in gone], run_log.left_out(gone[0].at, what))
    return head + tail


SIZES = Sizes()
"""The sizes of this process."""
