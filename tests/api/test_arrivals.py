"""Bodies on the wire: clients that stop in the middle, lie about the length, or go away."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.api import arrivals, faults

KIB = 1024


class Stuck(io.RawIOBase):
    """What a client has sent that then stops; ``ended`` tells that it is gone."""

    def __init__(self, sent: bytes) -> None:
        self.sent = sent
        self.ended = threading.Event()
        self.waiting = threading.Event()

    def read(self, size: int = -1, /) -> bytes:
        part, self.sent = self.sent[:size], self.sent[size:]
        if not part:
            self.waiting.set()
            assert self.ended.wait(60)
        return part


@pytest.fixture
def stuck() -> Iterator[Stuck]:
    """A client that has sent a little."""
    client = Stuck(b'{"driver":')
    yield client
    client.ended.set()


def environ(source: Any, length: int | str = 100, **more: str) -> dict[str, Any]:
    return {"CONTENT_LENGTH": str(length), "wsgi.input": source, **more}


def refusal(taken: arrivals.Arrivals, given: dict[str, Any], limit: int = 1) -> faults.Refusal:
    with pytest.raises(faults.Refusal) as caught:
        taken.read(given, limit)
    return caught.value


def test_what_bodies_take_is_bounded_until_their_requests_are_answered(stuck: Stuck) -> None:
    """To announce much costs nobody anything: what has come is counted."""
    waiting = arrivals.Arrivals(memory=1, patience=0.01)
    large = b"x" * (1024 * KIB)
    with futures.ThreadPoolExecutor(1) as pool:
        announced = pool.submit(waiting.read, environ(stuck, 1024 * KIB), 1024)
        assert stuck.waiting.wait(60)
        first = environ(io.BytesIO(large), len(large))
        assert waiting.read(first, 1024) == large
        second = environ(io.BytesIO(large), len(large))
        with pytest.raises(errors.Crowded, match=r"1 MiB of bodies.*max_body_memory_mib"):
            waiting.read(second, 1024)
        assert waiting.held <= 1024 * KIB
        assert waiting.read(environ(io.BytesIO(b"{}"), 2), 1) == b"{}"  # small ones get in
        waiting.forget(first)
        waiting.forget(second)
        waiting.forget(second)
        assert waiting.held == 0
        again = environ(io.BytesIO(large), len(large))
        assert waiting.read(again, 1024) == large
        stuck.ended.set()
        assert isinstance(announced.exception(60), faults.Refusal)


def test_a_body_cut_short_is_not_acted_upon() -> None:
    why = refusal(arrivals.Arrivals(), environ(io.BytesIO(b'{"driver":"fake-hardware"}')))
    assert why.status == 400
    assert b"before the length" in why.body


def test_who_asks_first_is_told_without_sending(stuck: Stuck) -> None:
    waiting = arrivals.Arrivals()
    given = environ(stuck, 2 * KIB, HTTP_EXPECT="100-continue")
    assert refusal(waiting, given).status == 413
    assert not stuck.waiting.is_set()


def test_what_is_too_large_is_read_so_that_the_sender_sees_the_refusal() -> None:
    source = io.BytesIO(b"x" * (200 * KIB))
    assert refusal(arrivals.Arrivals(), environ(source, 200 * KIB)).status == 413
    assert source.read() == b""


def test_a_large_body_is_taken_whole() -> None:
    body = bytes(range(256)) * 1024
    assert arrivals.Arrivals().read(environ(io.BytesIO(body), len(body)), 1024) == body
