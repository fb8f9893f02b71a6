"""Bodies: their bytes on the wire, and the price of their JSON."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent import futures
from typing import Any

import orjson
import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.api.http import limits, refusals, request
from ironic_lite.api.validation import schemas
from ironic_lite.db.engine.session import Database
from tests.support import whole_api
from tests.support.api_rows import AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client, call, environment

# Bodies on the wire: clients that stop in the middle, lie about the length, or go away.

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


def refusal(work: Callable[[], object]) -> refusals.Refusal:
    with pytest.raises(refusals.Refusal) as caught:
        work()
    return caught.value


# -- read by a thread ------------------------------------------------------------------------


def test_memory_of_bodies_is_bounded_until_their_requests_are_answered(stuck: Stuck) -> None:
    """To announce much costs nobody anything: what has come is counted."""
    reader = limits.BodyReader(memory=1, patience=0.01)
    large = b"x" * (1024 * KIB)
    with futures.ThreadPoolExecutor(1) as pool:
        announced = pool.submit(reader.read, environ(stuck, 1024 * KIB), 1024)
        assert stuck.waiting.wait(60)
        first = environ(io.BytesIO(large), len(large))
        assert reader.read(first, 1024) == large
        second = environ(io.BytesIO(large), len(large))
        with pytest.raises(errors.TooManyRequests, match=r"1 MiB of bodies.*max_body_memory_mib"):
            reader.read(second, 1024)
        assert reader.budget.held <= 1024 * KIB
        assert reader.read(environ(io.BytesIO(b"{}"), 2), 1) == b"{}"  # small ones get in
        reader.release(first)
        reader.release(second)
        reader.release(second)
        assert reader.budget.held == 0
        again = environ(io.BytesIO(large), len(large))
        assert reader.read(again, 1024) == large
        stuck.ended.set()
        assert isinstance(announced.exception(60), refusals.Refusal)


def test_senders_without_a_login_leave_memory_for_others() -> None:
    """Sixteen reports that never end would keep every configuration drive out."""
    reader = limits.BodyReader(memory=1, patience=0.01)
    large = b"x" * (200 * KIB)
    reports = [environ(io.BytesIO(large), len(large)) for _ in range(2)]
    assert reader.read(reports[0], 1024, anonymous=True) == large
    with pytest.raises(errors.TooManyRequests, match="max_body_memory_mib"):
        reader.read(reports[1], 1024, anonymous=True)
    drive = environ(io.BytesIO(large * 3), len(large) * 3)
    assert reader.read(drive, 1024) == large * 3
    for one in (*reports, drive):
        reader.release(one)
    assert reader.budget.held == 0
    again = environ(io.BytesIO(large), len(large))
    assert reader.read(again, 1024, anonymous=True) == large


def test_a_body_cut_short_is_refused() -> None:
    given = environ(io.BytesIO(b'{"driver":"fake-hardware"}'))
    why = refusal(lambda: limits.BodyReader().read(given, 1))
    assert (why.status, b"incomplete" in why.body) == (400, True)


def test_a_body_with_a_length_and_in_chunks_is_refused() -> None:
    given = environ(io.BytesIO(b"{}"), 2, HTTP_TRANSFER_ENCODING="chunked")
    assert refusal(lambda: limits.BodyReader().read(given, 1)).status == 400


def test_a_client_that_expects_to_continue_is_refused_without_sending(stuck: Stuck) -> None:
    given = environ(stuck, 2 * KIB, HTTP_EXPECT="100-continue")
    assert refusal(lambda: limits.BodyReader().read(given, 1)).status == 413
    assert not stuck.waiting.is_set()


def test_a_body_too_large_is_read_so_that_its_sender_sees_the_refusal() -> None:
    reader, source = limits.BodyReader(), io.BytesIO(b"x" * (200 * KIB))
    assert refusal(lambda: reader.read(environ(source, 200 * KIB), 1)).status == 413
    assert (source.read(), reader.budget.held) == (b"", 0)


def test_a_large_body_is_taken_whole() -> None:
    body = bytes(range(256)) * 1024
    assert limits.BodyReader().read(environ(io.BytesIO(body), len(body)), 1024) == body


def test_no_room_is_held_while_a_body_comes(
    database: Database, recorder: Recorder, conf: cfg.ConfigOpts, stuck: Stuck
) -> None:
    conf.set_override("max_changes", 1, group="api")
    api = Client(whole_api.build(database, recorder, conf))
    request = environment("POST", "/v1/nodes", b"x" * 100) | {"wsgi.input": stuck}
    with futures.ThreadPoolExecutor(1) as pool:
        slow = pool.submit(call, api.app, request)
        assert stuck.waiting.wait(60)
        assert api.post("/v1/nodes", {}).status == 400
        stuck.ended.set()
        assert slow.result(60).status == 400


# -- received in the event loop --------------------------------------------------------------


class Incoming:
    """A body that comes in pieces, with a pause before each; None stands for no end."""

    def __init__(self, pieces: Iterable[bytes | None], pause: float = 0.0) -> None:
        self._pieces = pieces
        self._pause = pause

    async def __call__(self) -> bytes:
        return b"".join([piece async for piece in self])

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            await asyncio.sleep(self._pause if piece is not None else 600)
            yield piece or b""


def receive(
    reader: limits.BodyReader, given: dict[str, Any], body: Incoming, limit: int = 1024
) -> bytes:
    return asyncio.run(reader.receive(given, limit, body))


def chunked() -> dict[str, Any]:
    return {"HTTP_TRANSFER_ENCODING": "chunked"}


@pytest.mark.parametrize("size", [10, 40 * KIB], ids=["small", "large"])
def test_a_body_of_known_length_is_received_whole(size: int) -> None:
    body = bytes(size)
    given = environ(None, size)
    found = receive(limits.BodyReader(), given, Incoming([body[: size // 2], body[size // 2 :]]))
    assert found == body


def test_a_large_body_that_ends_early_is_refused() -> None:
    body = Incoming([b"x" * KIB, b"", b""])
    why = refusal(lambda: receive(limits.BodyReader(), environ(None, 40 * KIB), body))
    assert (why.status, dict(why.headers)["Connection"]) == (400, "close")


def test_a_body_in_chunks_is_whole_if_it_ends_with_one_empty_piece() -> None:
    assert receive(limits.BodyReader(), chunked(), Incoming([b"ab", b"c", b""])) == b"abc"


@pytest.mark.parametrize("pieces", [[b"ab", b"", b""], [b"", b""], [b"a", b"", b"b", b""], [b"ab"]])
def test_a_body_in_chunks_that_ends_in_another_way_is_refused(pieces: list[bytes]) -> None:
    why = refusal(lambda: receive(limits.BodyReader(), chunked(), Incoming(pieces)))
    assert why.status == 400


@pytest.mark.parametrize("length", [8, 200 * KIB, None], ids=["small", "large", "in chunks"])
def test_a_body_that_stops_is_refused_in_time(length: int | None) -> None:
    reader = limits.BodyReader(seconds=0.1)
    given = chunked() if length is None else environ(None, length)
    body = Incoming([b"x" * min(length or 8, 100 * KIB) for _ in range(1)] + [None])
    why = refusal(lambda: receive(reader, given, body))
    assert (why.status, dict(why.headers)["Connection"]) == (408, "close")
    assert b"[api]body_timeout" in why.body
    reader.release(given)
    assert reader.budget.held == 0


def test_a_body_that_keeps_coming_gets_the_time_that_it_takes() -> None:
    size, begin = 320 * KIB, 0.0

    async def timed() -> tuple[int, float]:
        nonlocal begin
        begin = asyncio.get_running_loop().time()
        body = Incoming([b"x" * 16 * KIB] * 20, pause=0.05)
        found = await limits.BodyReader(seconds=0.5).receive(environ(None, size), 1024, body)
        return len(found), asyncio.get_running_loop().time() - begin

    length, seconds = asyncio.run(timed())
    assert (length, seconds > 0.5) == (size, True)


def test_a_refusal_waits_no_longer_for_a_body_than_anything_else() -> None:
    reader = limits.BodyReader(seconds=0.1)
    body = Incoming([b"x", None])
    assert refusal(lambda: receive(reader, environ(None, 2 * KIB), body, 1)).status == 408


def test_discarded_part_of_a_body_earns_no_time() -> None:
    body = Incoming([b"x" * KIB * KIB] * 8 + [None])

    async def timed() -> float:
        begin = asyncio.get_running_loop().time()
        with pytest.raises(refusals.Refusal):
            await limits.BodyReader(seconds=0.5).receive(chunked(), 1, body)
        return asyncio.get_running_loop().time() - begin

    # Its 8 MiB would earn 128 s.
    assert asyncio.run(timed()) < 60


@pytest.mark.parametrize("length", [200 * KIB, None], ids=["announced", "in chunks"])
def test_nothing_is_kept_of_a_body_too_large(length: int | None) -> None:
    reader = limits.BodyReader()
    given = chunked() if length is None else environ(None, length)
    body = Incoming([b"x" * KIB] * 200 + [b""])
    assert refusal(lambda: receive(reader, given, body, 1)).status == 413
    assert reader.budget.held == 0


def test_memory_is_waited_for_in_the_event_loop() -> None:
    reader = limits.BodyReader(memory=1, patience=30)
    large = b"x" * 900 * KIB
    first, second = environ(None, len(large)), environ(None, len(large))

    async def both() -> bytes:
        await reader.receive(first, 1024, Incoming([large]))
        waiting = asyncio.create_task(reader.receive(second, 1024, Incoming([large])))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        reader.release(first)
        return await waiting

    assert asyncio.run(both()) == large


# Bodies that are no JSON are refused at a price that grows with their length, and not faster.

JSON = "application/json"


@pytest.mark.parametrize("end", [b"", b"\\", b"\\\\", b"\xc3\xa9"], ids=str)
def test_a_string_without_an_end_goes_to_the_end(end: bytes) -> None:
    """Else each quote in it would begin a string that is looked through to the end once more: half
    a megabyte would take an hour, of anybody who may send a body."""
    for times in (40, 200_000):
        with pytest.raises(errors.InvalidRequest, match="not valid JSON"):
            request.parse_body(b'"' + b'\\"[' * times + end, JSON)


@pytest.mark.parametrize("body", [b"[" * 26, b'{"a":' * 2000, b'["]]]]",' * 26], ids=str)
def test_document_nested_too_deep_is_refused(body: bytes) -> None:
    with pytest.raises(refusals.Refusal, match="400"):
        request.parse_body(body, JSON)


@pytest.mark.parametrize(
    "body",
    [
        b'[{"":0}' + b',{"":0}' * (request.MAX_MARKS // 2) + b"]",
        b"[" + b"{}," * request.MAX_MARKS + b"{}]",
        b"[" + b'"",' * (request.MAX_MARKS + 1) + b"0]",
        b'"' + b'","' * 2_000_000,
    ],
    ids=["objects", "empty", "strings", "broken"],
)
def test_a_body_of_too_many_values_is_refused_before_it_is_parsed(body: bytes) -> None:
    with pytest.raises(refusals.Refusal) as caught:
        request.parse_body(body, JSON)
    assert (caught.value.status, str(request.MAX_MARKS) in caught.value.body.decode()) == (
        400,
        True,
    )


@pytest.mark.parametrize("text", ["a,b{[" * 500_000, 'x\\",' * 500_000], ids=["plain", "quotes"])
def test_marks_within_strings_are_not_counted(text: str) -> None:
    value = {"configdrive": text, "a": [1, 2]}
    assert request.parse_body(orjson.dumps(value), JSON) == value


def test_marks_in_strings_do_not_count() -> None:
    for body in (b'["' + b"[" * 40 + b'", ', b'["\\"' + b"[" * 40 + b'" '):
        with pytest.raises(errors.InvalidRequest, match="not valid JSON"):
            request.parse_body(body, JSON)


def test_a_configuration_drive_of_blanks_is_looked_at_once() -> None:
    """Each end of the text would be tried with each other one, for hours."""
    with pytest.raises(errors.InvalidParameter, match="configdrive"):
        schemas.configdrive(" " * 1_000_000 + "!", version=115)


@pytest.mark.parametrize("name", ["limit", "provision_state", "sort_key", "detail"])
def test_an_argument_that_is_one_value_is_given_once(api: Client, name: str) -> None:
    """Else a list of two states would silently be one of the last alone."""
    answer = api.get(f"/v1/nodes?{name}=a&{name}=b")
    assert (answer.status, answer.text) == (400, f"{name}: is given more than once")


def test_an_argument_that_is_a_list_may_come_in_pieces(api: Client, add_node: AddNode) -> None:
    for shard in ("east", "west", "north"):
        add_node(name=f"of-{shard}", shard=shard)
    shown = api.get("/v1/nodes?shard=east&fields=name&shard=north&fields=shard").json["nodes"]
    assert [(one["name"], one["shard"]) for one in shown] == [
        ("of-east", "east"),
        ("of-north", "north"),
    ]


@pytest.mark.parametrize(
    "number", ["18446744073709551616", "-9223372036854775809", "1" * 30, "-" + "9" * 300]
)
def test_a_number_that_would_be_another_is_refused(
    api: Client, add_node: AddNode, number: str
) -> None:
    body = f'[{{"op": "add", "path": "/extra/a", "value": {{"b":[0, {number}]}}}}]'.encode()
    path, headers = f"/v1/nodes/{add_node()['uuid']}", {"Content-Type": JSON}
    answer = api.patch(path, body=body, headers=headers)
    assert answer.status == 400
    assert answer.text.startswith("/0/value/b/1: is a whole number of more than 64 bits")


@pytest.mark.parametrize(
    "number",
    [18446744073709551615, -9223372036854775808, 1e30, 1.2345678901234567, "1" * 30, f": {2**99}"],
    ids=str,
)
def test_other_long_numbers_come_back_as_they_were(
    api: Client, add_node: AddNode, number: object
) -> None:
    patch = [{"op": "add", "path": "/extra/a", "value": number}]
    answer = api.patch(f"/v1/nodes/{add_node()['uuid']}", patch)
    assert (answer.status, answer.json["extra"]) == (200, {"a": number})


def test_a_machine_may_tell_any_number() -> None:
    assert request.parse_body(b'{"a": 18446744073709551616}', JSON, exact=False) == {"a": 2.0**64}
