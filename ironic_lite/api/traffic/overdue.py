"""Answer clients whose bodies take too long, and close their connections if they stay.

A request reads its body itself, and cannot be told to stop: WSGI knows no time limit. So a thread
of its own answers in its place, and then ends the read by closing the connection. WSGI tells the
address of a client without its port; but which connections of that address were sent something last
at the moment of the answer, the system knows. If there are more of them than clients that stay,
others were answered then, too, and have been silent since: they will speak, or be closed for
idleness, so these are looked for again later. What a client does not take is sent again and again,
or waits: he may be one that stays, and is counted, but the system ends his connection, not we.
Nobody is cut off for what another does.
"""

from __future__ import annotations

import collections
import contextlib
import ipaddress
import logging
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ironic_lite.api.traffic import farewell
from ironic_lite.api.wire import faults

LOG = logging.getLogger(__name__)

ANSWER = "ironic_lite.answer"
"""Where the server leaves an `Answer` in the WSGI environment."""
Answer = Callable[[dict[str, Any], faults.Refusal], None]
"""Sends a refusal from any thread; what the request itself answers later goes nowhere."""

_MOMENT = 1.0
"""Seconds between two looks, and those that a client has to go by itself."""
_EARLY, _LATE = 0.05, 0.5
"""Seconds around the time of an answer in which it is sent: the clock of TCP is coarse, and the
server sends after it was told to."""
# Of struct tcp_info, linux/tcp.h, unsigned integers: milliseconds since something was sent (of who
# was never sent anything, since he is connected), and how many segments were.
_LAST_DATA_SENT, _DATA_SEGS_OUT, _INFO_BYTES = 44, 156, 160
# What was sent and not acknowledged, in segments; what waits to be sent, in bytes.
_UNACKED, _NOT_SENT = 24, 144


class Arrival:
    """A body on its way.

    :param environ: of its request.
    :param seconds: that it may take at first.
    :param rate: bytes that make it a second more, once they have come.
    :param refusal: what its client is told if it takes longer.
    """

    __slots__ = ("_begin", "_rate", "environ", "refusal", "size", "told")

    def __init__(
        self, environ: dict[str, Any], *, seconds: float, rate: int, refusal: faults.Refusal
    ) -> None:
        self.environ = environ
        self.refusal = refusal
        self.size = 0
        """Bytes that have come."""
        self.told: float | None = None
        """When its client was told, by time.monotonic."""
        self._begin = time.monotonic() + seconds
        self._rate = rate

    @property
    def end(self) -> float:
        """When it must be here, by time.monotonic."""
        return self._begin + self.size / self._rate


class Overdue:
    """Watches the bodies that come to one process.

    :param address: where it listens, as ``socket.getsockname``.
    :param moment: seconds between two looks.
    """

    def __init__(self, address: object, *, moment: float = _MOMENT) -> None:
        self._address = address
        self._moment = moment
        self._known: set[Arrival] = set()
        self._guard = threading.Lock()
        self._some = threading.Event()
        self._started = False

    def add(self, arrival: Arrival) -> None:
        """Watch a body from now on."""
        with self._guard:
            self._known.add(arrival)
            start, self._started = not self._started, True
        if not self._some.is_set():
            self._some.set()
        if start:  # not earlier: a fork may have come before
            threading.Thread(target=self._watch, name="overdue", daemon=True).start()

    def remove(self, arrival: Arrival) -> bool:
        """Watch it no longer; return whether its client has been told that it took too long."""
        with self._guard:
            self._known.discard(arrival)
            return arrival.told is not None

    def _watch(self) -> None:
        while True:
            self._some.wait()
            time.sleep(self._moment)
            try:
                self._look(time.monotonic())
            except Exception:  # no /proc or no descriptor left, for instance
                LOG.exception("Bodies that took too long are still waited for")

    def _look(self, now: float) -> None:
        with self._guard:
            if not self._known:
                self._some.clear()
                return
            late = [one for one in self._known if one.told is None and one.end <= now]
            for one in late:
                one.told = time.monotonic()
            stay = [one for one in self._known if (one.told or now) < now - self._moment]
        for one in late:
            answer: Answer | None = one.environ.get(ANSWER)
            if answer is not None:
                answer(one.environ, one.refusal)
        if stay:
            self._close(stay)

    def _close(self, stay: list[Arrival]) -> None:
        """Close the connections of those who stay, where it is known for certain which they are."""
        times: dict[str, list[float]] = {}
        for one in stay:
            times.setdefault(_peer(one), []).append(one.told or 0.0)
        with contextlib.ExitStack() as opened:
            found: dict[str, list[socket.socket]] = {}
            deaf: collections.Counter[str] = collections.Counter()
            for _, line in farewell.sockets(self._address):
                for peer, hears in _meant(line, times):
                    if hears:
                        found.setdefault(peer, []).append(opened.enter_context(line.dup()))
                    else:
                        deaf[peer] += 1
            for peer, lines in found.items():
                with self._guard:
                    left = sum(one in self._known for one in stay if _peer(one) == peer)
                if len(lines) + deaf[peer] <= left:
                    for line in lines:
                        with contextlib.suppress(OSError):
                            line.shutdown(socket.SHUT_RDWR)


def _peer(arrival: Arrival) -> str:
    return _plain(str(arrival.environ.get("REMOTE_ADDR") or ""))


def _meant(line: socket.socket, times: dict[str, list[float]]) -> Iterator[tuple[str, bool]]:
    """Yield the address that a connection leads to, if it may have been sent an answer of these
    times and nothing since, and whether its client has taken all it was sent.

    :param times: by address.
    """
    with contextlib.suppress(OSError, struct.error):  # it has gone, or the system is too old
        if line.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return
        peer = _plain(str(line.getpeername()[0]))
        if peer not in times:
            return
        info = line.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
        sent = time.monotonic() - struct.unpack_from("I", info, _LAST_DATA_SENT)[0] / 1000
        some = struct.unpack_from("I", info, _DATA_SEGS_OUT)[0]
        if some and any(struct.unpack_from("I", info, at)[0] for at in (_UNACKED, _NOT_SENT)):
            yield peer, False
        elif some and _any_about(sent, times[peer]):
            yield peer, True


def _any_about(sent: float, times: Iterable[float]) -> bool:
    return any(told - _EARLY <= sent <= told + _LATE for told in times)


def _plain(address: str) -> str:
    """Return an address as there is only one way to write it."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    return str(getattr(found, "ipv4_mapped", None) or found)
