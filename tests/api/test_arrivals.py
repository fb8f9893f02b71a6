"""Bodies on the wire: clients that stop in the middle, lie about the length, or go away."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.api import app
from ironic_lite.api.traffic import arrivals, overdue
from ironic_lite.api.wire import faults
from ironic_lite.db.session import Database
from tests.api.client import Client, call, environment
from tests.api.recorder import Recorder

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


def test_who_needs_no_login_leaves_room_for_the_bodies_of_others(stuck: Stuck) -> None:
    """Sixteen reports that never end would keep every configuration drive out."""
    waiting = arrivals.Arrivals(memory=1, patience=0.01)
    large = b"x" * (200 * KIB)
    reports = [environ(io.BytesIO(large), len(large)) for _ in range(2)]
    assert waiting.read(reports[0], 1024, strange=True) == large
    with pytest.raises(errors.Crowded, match="max_body_memory_mib"):
        waiting.read(reports[1], 1024, strange=True)
    drive = environ(io.BytesIO(large * 3), len(large) * 3)
    assert waiting.read(drive, 1024) == large * 3
    for one in (*reports, drive):
        waiting.forget(one)
    assert waiting.held == 0
    again = environ(io.BytesIO(large), len(large))
    assert waiting.read(again, 1024, strange=True) == large


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


class Slow(io.RawIOBase):
    """A client that sends a part of its body after each pause, for ever unless it goes."""

    def __init__(self, part: bytes, pause: float) -> None:
        self.part = part
        self.pause = pause
        self.gone = threading.Event()

    def read(self, size: int = -1, /) -> bytes:
        return b"" if self.gone.wait(self.pause) else self.part[:size]


def told(late: overdue.Overdue, client: Slow, length: int | str) -> tuple[dict[str, Any], Any]:
    """Return the environment of a request whose client goes as soon as it is answered, and a list
    of what it was told.
    """
    said: list[faults.Refusal] = []

    def answer(environ: dict[str, Any], why: faults.Refusal) -> None:
        said.append(why)
        client.gone.set()

    given = environ(client, length, HTTP_TRANSFER_ENCODING="chunked")
    return {**given, overdue.ANSWER: answer}, said


@pytest.fixture
def late() -> overdue.Overdue:
    return overdue.Overdue(("127.0.0.1", 0), moment=0.05)


@pytest.mark.parametrize("length", [200 * KIB, ""], ids=["announced", "in chunks"])
def test_who_sends_too_slowly_is_told_and_what_came_is_forgotten(
    late: overdue.Overdue, length: int | str
) -> None:
    waiting = arrivals.Arrivals(seconds=0.1, late=late)
    given, said = told(late, Slow(b"x" * 8, 0.01), length)
    why = refusal(waiting, given, 1024)
    assert (why.status, dict(why.headers)["Connection"]) == (408, "close")
    assert b"[api]body_timeout" in why.body
    assert said == [why]
    waiting.forget(given)
    assert waiting.held == 0


def test_who_goes_on_sending_gets_the_time_that_it_takes(late: overdue.Overdue) -> None:
    client, size = Slow(b"x" * 16 * KIB, 0.05), 320 * KIB
    given, said = told(late, client, size)
    begin = time.monotonic()
    assert len(arrivals.Arrivals(seconds=0.5, late=late).read(given, 1024)) == size
    assert (time.monotonic() - begin > 0.5, said) == (True, [])


def test_a_refusal_waits_no_longer_for_a_body_than_anything_else(late: overdue.Overdue) -> None:
    given, said = told(late, Slow(b"x", 0.01), 2 * KIB)
    why = refusal(arrivals.Arrivals(seconds=0.1, late=late), given)
    assert (why.status, said) == (413, [why])


def test_a_client_that_breaks_off_is_watched_no_longer(late: overdue.Overdue) -> None:
    class Broken(io.RawIOBase):
        def read(self, size: int = -1, /) -> bytes:
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        arrivals.Arrivals(late=late).read(environ(Broken()), 1)
    assert not late._known


def test_no_room_is_held_while_a_body_comes(
    database: Database, recorder: Recorder, conf: cfg.ConfigOpts, stuck: Stuck
) -> None:
    conf.set_override("max_changes", 1, group="api")
    api = Client(app.build(database, recorder, conf))
    request = environment("POST", "/v1/nodes", b"x" * 100) | {"wsgi.input": stuck}
    with futures.ThreadPoolExecutor(1) as pool:
        slow = pool.submit(call, api.app, request)
        assert stuck.waiting.wait(60)
        assert api.post("/v1/nodes", {}).status == 400
        stuck.ended.set()
        assert slow.result(60).status == 400
