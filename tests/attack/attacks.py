"""The attacks: one table. Each returns sentences about answers that nobody should get.

What an attack does to the processes themselves is seen from outside (`story`).
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import functools
import itertools
import json
import random
import string
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Sequence

from tests.attack import outside, own_service
from tests.attack.connections import Address, at_once, chunk, crowd, drip, exchange, request
from tests.attack.connections import statuses as statuses_of
from tests.support.silent_bmcs import silent_bmcs

KIB = 1024
MIB = KIB * KIB
SLOW_SECONDS = 5.0
"""How long slow clients go on; the story lets a body take 2 s."""
LAST_FAULT = 500
UNAVAILABLE = 503


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """The API under attack.

    :ivar node: the UUID of a node, at work like the others.
    :ivar login: a header by which an administrator logs in; empty where none has to.
    """

    address: Address
    node: str
    login: str = ""

    def request(
        self, method: str, path: str, body: bytes = b"", *headers: str, **more: int
    ) -> bytes:
        """Return a request of an administrator."""
        return request(method, path, body, *filter(None, (self.login, *headers)), **more)


Attacker = Callable[[Target], Iterable[str]]


@dataclasses.dataclass(frozen=True, slots=True)
class Attack:
    """One kind of attack.

    :ivar run: attacks, and yields what was wrong with the answers.
    :ivar short: whether it is a part of the short form.
    :ivar auth: the strategies of login under which it is made.
    """

    name: str
    run: Attacker
    short: bool = False
    auth: tuple[str, ...] = ("noauth",)


def _judged(what: str, answer: bytes, wanted: Sequence[int] | None = None) -> Iterator[str]:
    """Yield what is wrong with an answer: a fault of the server, or a status nobody expects."""
    for status in statuses_of(answer):
        if status >= LAST_FAULT and status != UNAVAILABLE:
            yield f"{what}: {answer[:200]!r}"
        elif wanted is not None and status not in wanted:
            yield f"{what}: {status} is none of {wanted}: {answer[:200]!r}"


REFUSED = (400, 403, 404, 405, 406, 408, 411, 413, 414, 415, 417, 421, 426, 429, 431, 501, 503)


# -- slow clients ----------------------------------------------------------------------------


def silent(target: Target) -> Iterator[str]:
    """Connections that say nothing."""
    drip(target.address, 300, b"", lambda: b"", seconds=SLOW_SECONDS)
    yield from ()


def slow_heads(target: Target) -> Iterator[str]:
    """Heads that never end."""
    first = b"GET /v1/nodes HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    drip(target.address, 200, first, lambda: b"X-A: b\r\n", seconds=SLOW_SECONDS)
    yield from ()


def slow_bodies(target: Target) -> Iterator[str]:
    """Bodies that come a byte at a time, to what needs no login and to what does."""
    paths = (f"/v1/heartbeat/{target.node}", "/v1/continue_inspection", "/v1/nodes")
    for path in paths:
        first = request("POST", path, b"{", length=1000)
        drip(target.address, 60, first, lambda: b" ", seconds=SLOW_SECONDS)
    yield from ()


def slow_readers(target: Target) -> Iterator[str]:
    """Clients that ask for a long list and never read it."""
    asked = target.request("GET", "/v1/nodes/detail") * 20
    with crowd(target.address, 60) as opened:
        for one in opened:
            with contextlib.suppress(OSError):
                one.send(asked)
        time.sleep(SLOW_SECONDS)
    yield from ()


def vanishing(target: Target) -> Iterator[str]:
    """Clients that are gone before their answer."""
    for _ in range(20):
        with crowd(target.address, 20) as opened:
            for one in opened:
                with contextlib.suppress(OSError):
                    one.send(target.request("GET", "/v1/nodes/detail"))
    yield from ()


# -- broken HTTP -----------------------------------------------------------------------------


def _change(target: Target, name: str) -> bytes:
    patch = [{"op": "add", "path": f"/extra/{name}", "value": "x" * 200}]
    return json.dumps(patch).encode()


def _cut_requests(target: Target) -> Iterator[tuple[str, bytes]]:
    """Yield changes of a node whose body is incomplete or wrongly framed."""
    path = f"/v1/nodes/{target.node}"
    body = _change(target, "attacked")
    coded = "Transfer-Encoding: chunked"
    patch = functools.partial(target.request, "PATCH", path)
    yield "short of its length", patch(body, length=len(body) + 100)
    yield "cut in its chunk", patch(b"", coded) + chunk(body)[:-50]
    yield "without a last chunk", patch(b"", coded) + chunk(body)
    yield "with a chunk size that is no number", patch(b"", coded) + b"zz\r\n" + body
    yield "with a negative chunk", patch(b"", coded) + b"-5\r\n" + body
    yield "with two lengths", patch(body, "Content-Length: 5")
    yield "with length and chunks", patch(body, coded)
    reason = json.dumps({"reason": "attacked"}).encode()
    maintain = functools.partial(target.request, "PUT", f"{path}/maintenance")
    yield "with chunk size zz", maintain(b"", coded) + b"zz\r\n" + reason
    yield "cut off", maintain(reason, length=len(reason) + 1)


def cut_bodies(target: Target) -> Iterator[str]:
    """Bodies that are incomplete must not be carried out."""
    for what, data in _cut_requests(target):
        answer = exchange(target.address, data, half_close=True)
        yield from _judged(f"a body {what}", answer, REFUSED)
    found = exchange(target.address, target.request("GET", f"/v1/nodes/{target.node}"))
    if b'"attacked"' in found:
        yield f"a body that was cut off has been carried out: {found[-2000:]!r}"


def broken_heads(target: Target) -> Iterator[str]:
    """What is no HTTP request, or an odd one."""
    heads = {
        "no Host": b"GET /v1/nodes HTTP/1.1\r\n\r\n",
        "two Hosts": b"GET /v1/nodes HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "noise": bytes(range(256)) * 8,
        "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 500,
        "HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        "a space before the colon": b"GET / HTTP/1.1\r\nHost : a\r\n\r\n",
        "a folded header": b"GET / HTTP/1.1\r\nHost: a\r\nX: a\r\n b\r\n\r\n",
        "CONNECT": b"CONNECT 127.0.0.1:22 HTTP/1.1\r\nHost: a\r\n\r\n",
        "an odd method": b"\xc3\xa9 /v1 HTTP/1.1\r\nHost: a\r\n\r\n",
        "HTTP/9.9": b"GET / HTTP/9.9\r\nHost: a\r\n\r\n",
    }
    for what, head in heads.items():
        yield from _judged(what, exchange(target.address, head, half_close=True), REFUSED)


def big_heads(target: Target) -> Iterator[str]:
    """Heads of a megabyte, in one line and in many."""
    lines = b"".join(b"X-%d: y\r\n" % number for number in range(50_000))
    begin = b"GET /v1/nodes HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    heads = (begin + lines + b"\r\n", begin + b"X: " + b"y" * MIB + b"\r\n\r\n")
    target_of_64k = b"GET /v1/nodes/" + b"n" * 60_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    for head in (*heads, target_of_64k):
        yield from _judged("a big head", exchange(target.address, head), REFUSED)


def pipelined(target: Target) -> Iterator[str]:
    """Many requests sent before the first answer is read."""
    answer = exchange(
        target.address, target.request("GET", f"/v1/nodes/{target.node}/states") * 200
    )
    yield from _judged("pipelined requests", answer, (200, 503))


# -- bodies ----------------------------------------------------------------------------------


def big_bodies(target: Target) -> Iterator[str]:
    """Bodies that are small on the wire and large in memory."""
    empty = b"[" + b'{"":0},' * (16 * MIB // 7) + b"{}]"
    paths = ("/v1/continue_inspection", f"/v1/heartbeat/{target.node}", "/v1/nodes")
    sends = [
        functools.partial(exchange, target.address, request("POST", path, empty)) for path in paths
    ]
    at_once(sends)
    for path in paths:
        answer = exchange(target.address, request("POST", path, empty))
        yield from _judged(path, answer, (401, *REFUSED))


def deep_bodies(target: Target) -> Iterator[str]:
    """Deep, wide and odd JSON."""
    bodies = {
        "deep lists": b"[" * 100_000,
        "deep and closed": b"[" * 5000 + b"]" * 5000,
        "deep objects": b'{"a":' * 5000 + b"1" + b"}" * 5000,
        "a large number": b'{"name": ' + b"9" * 100_000 + b"}",
        "an odd float": b'{"extra": {"a": 1e999}}',
        "NUL": b'{"name": "a\\u0000b", "driver": "fake-hardware"}',
        "half a surrogate": b'{"name": "\\ud800", "driver": "fake-hardware"}',
        "no UTF-8": b'{"name": "\xff\xfe"}',
        "the same key": b"{" + b'"extra": {},' * 10_000 + b'"driver": "x"}',
    }
    for (what, body), path in itertools.product(
        bodies.items(), ("/v1/nodes", "/v1/continue_inspection", f"/v1/heartbeat/{target.node}")
    ):
        answer = exchange(target.address, request("POST", path, body))
        yield from _judged(f"{what} to {path}", answer, REFUSED)


def long_patches(target: Target) -> Iterator[str]:
    """Patches of very many operations on one document."""
    operations = [
        {"op": "add", "path": f"/extra/k{number}", "value": number} for number in range(2500)
    ] + [{"op": "test", "path": "/extra/k0", "value": "no"}]
    body = json.dumps(operations).encode()
    begun = time.monotonic()
    answer = exchange(target.address, target.request("PATCH", f"/v1/nodes/{target.node}", body))
    yield from _judged("a long patch", answer, (*REFUSED, 409))
    taken = time.monotonic() - begun
    if taken > ANSWERED_WITHIN:
        yield f"a patch of {len(body) // KIB} KiB took {taken:.1f} s"


ANSWERED_WITHIN = 20.0
"""Seconds for an answer to one attacker's request, on a loaded machine."""


# -- words -----------------------------------------------------------------------------------


def forged_lines(target: Target) -> Iterator[str]:
    """Names that hold lines of a log, and escape sequences of terminals."""
    line = urllib.parse.quote(f"a\n{outside.FORGED}forged The service is taken over\n\x1b[31m")
    for method, path in itertools.product(
        ("POST", "GET", "PUT", "DELETE", "PATCH"),
        (f"/v1/heartbeat/{line}", f"/v1/nodes/{line}", f"/{line}", f"/v1/lookup?addresses={line}"),
    ):
        beat = {"callback_url": "https://192.0.2.7:9999", "agent_token": "t", "agent_version": "9"}
        body = json.dumps(beat).encode() if method in ("POST", "PUT", "PATCH") else b""
        answer = exchange(target.address, request(method, path, body, f"User-Agent: {line}"))
        yield from _judged(f"{method} {path}", answer)


def long_names(target: Target) -> Iterator[str]:
    """Refused requests with the longest paths there are, as many as fit into a moment."""
    end = time.monotonic() + SLOW_SECONDS
    for number in itertools.count():
        if time.monotonic() > end:
            return
        path = f"/v1/nodes/{number}{'x' * 30_000}/maintenance"
        yield from _judged("a long name", exchange(target.address, request("PUT", path)))


def strangers(target: Target) -> Iterator[str]:
    """Heartbeats with wrong tokens and lookups of addresses that nobody has."""
    dice = random.Random(3)
    end = time.monotonic() + SLOW_SECONDS
    while time.monotonic() < end:
        token = "".join(dice.choices(string.ascii_letters, k=32))
        callback = f"https://192.0.2.7:9999/{token * 40}"
        body = json.dumps({"callback_url": callback, "agent_token": token}).encode()
        answer = exchange(target.address, request("POST", f"/v1/heartbeat/{target.node}", body))
        yield from _judged("a heartbeat with a wrong token", answer)
        mac = ":".join(f"{dice.randrange(256):02x}" for _ in range(6))
        looked = exchange(target.address, request("GET", f"/v1/lookup?addresses={mac}"))
        yield from _judged("a lookup", looked)


def passwords(target: Target) -> Iterator[str]:
    """Logins with wrong passwords, sixteen at once."""
    end = time.monotonic() + SLOW_SECONDS

    def guess(number: int) -> None:
        dice = random.Random(number)
        while time.monotonic() < end:
            pair = f"{dice.choice(('attack', 'nobody'))}:{dice.random()}"
            login = f"Authorization: Basic {base64.b64encode(pair.encode()).decode()}"
            answers.append(exchange(target.address, request("GET", "/v1/nodes", b"", login)))

    answers: list[bytes] = []
    at_once([functools.partial(guess, number) for number in range(16)])
    for answer in answers:
        yield from _judged("a wrong password", answer, (401, 429, 503))


def browsers(target: Target) -> Iterator[str]:
    """Pages of others: a rebound name, and a form that posts without a body."""
    path = f"/v1/nodes/{target.node}"
    rebound = request("GET", path).replace(b"Host: 127.0.0.1", b"Host: evil.example")
    yield from _judged("a foreign Host", exchange(target.address, rebound), REFUSED)
    posted = request(
        "POST",
        f"{path}/vmedia?device_type=cdrom&image_url=http://192.0.2.1/x.iso",
        b"",
        "Origin: https://evil.example",
        "Sec-Fetch-Site: cross-site",
        "Content-Length: 0",
    )
    yield from _judged("a foreign Origin", exchange(target.address, posted), REFUSED)


# -- rights that were checked before ---------------------------------------------------------


def moved_leases(target: Target) -> Iterator[str]:
    """A paused batch on a node whose lease moves to another project before it goes on."""

    ask = functools.partial(_asked, target)

    def wait_for(batch: object, state: str) -> None:
        end = time.monotonic() + MOVED_WITHIN
        while ask("GET", f"/batches/{batch}?fields=state")["state"] != state:
            if time.monotonic() > end:
                raise _Refused(f"batch {batch} is not {state} after {MOVED_WITHIN:.0f} s")
            time.sleep(0.2)

    # Nothing here leaves a run or a node for the checker of the load.
    body = {"driver": "fake-hardware", "lessee": "p-a"}
    made: list[str] = []

    def begin(nodes: object, power: str, **more: object) -> str:
        found = ask("POST", "/batches", {"nodes": nodes, "request": {"power": power}, **more})
        made.append(f"/batches/{found['uuid']}")
        return str(found["uuid"])

    try:
        nodes = [ask("POST", "/nodes", body)["uuid"] for _ in range(3)]
        made += [f"/nodes/{node}" for node in nodes]
        batch = begin(nodes, "power on", waves=[1, 2], between_waves="pause")
        wait_for(batch, "paused")
        lease = [{"op": "replace", "path": "/lessee", "value": "p-b"}]
        ask("PATCH", f"/nodes/{nodes[1]}", lease)
        other = begin(nodes[1:2], "power off")  # of the new lessee
        ask("PUT", f"/batches/{batch}/state", {"target": "resume"})
        for one in (batch, other):
            wait_for(one, "done")
        if (shown := ask("GET", f"/nodes/{nodes[1]}"))["power_state"] == "power on":
            yield f"a batch went on with the node of a new lessee: {shown}"
    except _Refused as why:
        yield str(why)
    for path in made:
        with contextlib.suppress(_Refused):
            ask("DELETE", path)


MOVED_WITHIN = 120.0
"""Seconds for a step of a batch, on a loaded machine."""


class _Refused(Exception):
    """The service has refused an honest request."""


def _asked(target: Target, method: str, path: str, body: object = None) -> dict[str, object]:
    """Return the answer to a request below ``/v1``, {} without one.

    :raises _Refused: it was refused.
    """
    sent = json.dumps(body).encode() if body is not None else b""
    data = target.request(method, f"/v1{path}", sent, "Connection: close")
    answer = exchange(target.address, data)
    (status,) = statuses_of(answer)
    if status >= REFUSED[0]:
        raise _Refused(f"{method} {path}: {answer[-300:]!r}")
    return dict(json.loads(answer.partition(b"\r\n\r\n")[2] or b"{}"))


# -- machines that do not answer -------------------------------------------------------------


def silent_machines(target: Target) -> Iterator[str]:
    """A project with many silent BMCs has them all switched; another one has work as well."""
    ask = functools.partial(_asked, target)
    made: list[str] = []

    def enroll(driver: str, owner: str, **more: object) -> str:
        found = ask("POST", "/nodes", {"driver": driver, "owner": owner, **more})
        made.append(f"/nodes/{found['uuid']}")
        return made[-1]

    try:
        with silent_bmcs(SILENT_MACHINES) as infos:
            silent = [enroll("redfish", "p-a", driver_info=info) for info in infos]
            honest = [enroll("fake-hardware", "p-b") for _ in range(HONEST_MACHINES)]
            on = {"target": "power on"}
            for node in silent * 2:  # whatever the service refuses, it refuses at once
                with contextlib.suppress(_Refused):
                    ask("PUT", f"{node}/states/power", on)
            for node in honest:
                yield from _switched(target, node)
    except _Refused as why:
        yield str(why)
    for path in made:  # the BMCs have gone, so the last requests to them end
        end = time.monotonic() + MOVED_WITHIN
        while time.monotonic() < end:
            with contextlib.suppress(_Refused):
                ask("DELETE", path)
                break
            time.sleep(0.5)


SILENT_MACHINES, HONEST_MACHINES = 90, 6
"""So many that they would take all workers of two conductors, and those of another project."""


def _switched(target: Target, node: str) -> Iterator[str]:
    """Yield that a machine is not switched on in time; its client repeats a 503."""
    end, said = time.monotonic() + ANSWERED_WITHIN, "it is still being switched"
    accepted = False
    while time.monotonic() < end:
        try:
            if not accepted:
                _asked(target, "PUT", f"{node}/states/power", {"target": "power on"})
                accepted = True
            if _asked(target, "GET", node)["power_state"] == "power on":
                return
        except _Refused as why:
            said = str(why)
        time.sleep(1)
    yield f"{node} of another project is not on after {ANSWERED_WITHIN:.0f} s: {said}"


BOTH = ("noauth", "http_basic")
TABLE: tuple[Attack, ...] = (
    Attack("silent", silent),
    Attack("slow-heads", slow_heads),
    Attack("slow-bodies", slow_bodies, short=True, auth=BOTH),
    Attack("slow-readers", slow_readers),
    Attack("vanishing", vanishing),
    Attack("cut-bodies", cut_bodies, short=True, auth=BOTH),
    Attack("broken-heads", broken_heads, short=True),
    Attack("big-heads", big_heads),
    Attack("pipelined", pipelined),
    Attack("big-bodies", big_bodies, short=True, auth=BOTH),
    Attack("deep-bodies", deep_bodies),
    Attack("long-patches", long_patches),
    Attack("forged-lines", forged_lines, short=True, auth=BOTH),
    Attack("long-names", long_names, auth=BOTH),
    Attack("strangers", strangers, auth=BOTH),
    Attack("passwords", passwords, auth=("http_basic",)),
    Attack("browsers", browsers, short=True),
    Attack("moved-leases", moved_leases, short=True, auth=BOTH),
    Attack("silent-machines", silent_machines, auth=BOTH),
    Attack("lost-log", own_service.lost_log),
    Attack("cut-database", own_service.cut_database, short=True),
    Attack("stalled-readers", own_service.stalled_readers),
    Attack("full-image-cache", own_service.full_image_cache, short=True),
)
