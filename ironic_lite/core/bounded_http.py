"""HTTP/1.1 requests to checked addresses, with limits on time and response size.

http.client parses the responses. This module makes the sockets, of the public classes
``socket.socket`` and ``ssl.SSLSocket``. Each receive gets the time that is left for the whole
exchange, because a socket's own timeout starts anew with each byte. A name is resolved once, and
the checked address is the one connected to. Proxies of the environment are not used, redirections
are not followed.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import errno
import http.client
import math
import re
import select
import socket
import ssl
import threading
import time
import urllib.parse
import zlib
from collections.abc import Callable, Hashable, Iterator, Mapping
from http import HTTPStatus
from typing import Any, NamedTuple

import certifi
import orjson

PUBLIC_AUTHORITIES = certifi.where()
"""The file with the certificates of public authorities."""

Judge = Callable[[str], None]
"""Checks each IP address before the connection; raises `AddressRefused`."""

MOST_MARKS = 1_000_000
"""Limit of the characters ``{``, ``[`` and ``,`` in a JSON body.

Each may cost a hundred bytes of memory once parsed, so the size of a body alone is no sufficient
bound.
"""

MEMORY = 192 * 1024 * 1024
"""Bytes that the large answers of all machines may take while they are read, and the same again
while they are parsed."""

_FRESH_SECONDS = 1.0  # since the last answer, for requests that must not be lost
_END_SECONDS = 1.0  # in which a connection that has ended fails
_MOST_KEPT = 256  # unused connections of one `IdleConnections`
_CLOSING_SECONDS = 0.5  # between two looks for unused connections
_CHUNK = 64 * 1024
_UNPACKED = 1024 * 1024  # bytes that one step of decompression may give
_SMALL = 2 * 1024 * 1024  # bytes of an answer that are free
_MARK_BYTES = 128
"""Most memory that a value takes once parsed, for each of the characters of `MOST_MARKS`."""
_WITHOUT_BODY = frozenset({HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED})
_SAFE = "!#$%&'()*+,/:;=?@[]~"
"""Characters of a path and query that are sent as they are (RFC 3986, 2.2)."""
_LENGTH = re.compile(r"[0-9]{1,18}")
_PEM = re.compile(r"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.DOTALL)
_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32


class AddressRefused(OSError):
    """An address must not be connected to; nothing was sent."""


class ConnectTimeout(TimeoutError):
    """No connection was made in time, TLS included."""


class NoConnection(OSError):
    """The system reports why no connection can be made."""


class AnswerTooLarge(http.client.HTTPException):
    """A response exceeds its limit of bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"the answer is larger than {limit // 1024**2} MiB")


class NoMemory(TimeoutError):
    """The large answers of other machines took all memory for them."""

    def __init__(self) -> None:
        super().__init__(
            f"its answer is large, and those of other machines take all {MEMORY // 1024**2} MiB of "
            "memory for them; retry later"
        )


class TooManyValues(ValueError):
    """A JSON body would take too much memory."""

    def __init__(self) -> None:
        super().__init__(f"JSON with more than {MOST_MARKS} of the characters {{, [ and ,")


class AnswerCutOff(http.client.HTTPException):
    """An answer ended before its announced length."""

    def __init__(self, count: int, promised: int) -> None:
        self.told = f"broke off after {count} of {promised} bytes"
        super().__init__(f"it {self.told}")


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one exchange.

    ``connect``: seconds until there is a connection, TLS included; ``whole``: seconds for the
    request to be sent, and then for the answer to be read; ``size``: bytes of an answer with its
    headers. ``head``: seconds for the headers, None: ``whole``. ``silence``: seconds without a
    byte, None: ``whole``. ``last``: seconds from the start of the connection to the last byte,
    None: the sum of the other spans.
    """

    connect: float
    whole: float
    size: int
    head: float | None = None
    silence: float | None = None
    last: float | None = None


class _Budget:
    """Remaining time and bytes of an exchange."""

    __slots__ = ("_begin", "_end", "_last", "_size_left", "limits")

    def __init__(self, limits: Limits) -> None:
        self.start_all(limits)

    def start_all(self, limits: Limits) -> None:
        """Begin an exchange: the time of all spans together, the first one, and the bytes."""
        self.limits = limits
        self._size_left = limits.size
        limit = limits.last
        self._last = math.inf if limit is None else time.monotonic() + limit
        self.start()

    def start(self, seconds: float | None = None) -> None:
        """Begin a new span of ``seconds``, or of the whole exchange without it."""
        self._begin = time.monotonic()
        self._end = self._begin + (self.limits.whole if seconds is None else seconds)

    def allow_whole(self) -> None:
        """Continue with the time of the whole exchange, after the headers have arrived."""
        self._end = self._begin + self.limits.whole

    def seconds(self) -> float:
        """Return the longest wait for the next byte.

        :raises TimeoutError: the time is over.
        """
        left = min(self._end, self._last) - time.monotonic()
        if left <= 0:
            raise TimeoutError("the exchange took too long")
        silence = self.limits.silence
        return left if silence is None else min(left, silence)

    def is_untouched(self, seconds: float) -> bool:
        """Return whether a span began less than ``seconds`` ago, and no byte was received."""
        return self._size_left == self.limits.size and time.monotonic() - self._begin < seconds

    def take(self, count: int) -> int:
        """Count received bytes.

        :raises AnswerTooLarge: they exceed the limit.
        """
        self._size_left -= count
        if self._size_left < 0:
            raise AnswerTooLarge(self.limits.size)
        return count


class _Socket(socket.socket):
    budget: _Budget

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self.settimeout(self.budget.seconds())
        return self.budget.take(super().recv_into(*args, **kwargs))

    def sendall(self, *args: Any, **kwargs: Any) -> None:
        self.settimeout(self.budget.seconds())  # for all of it
        super().sendall(*args, **kwargs)


class _TlsSocket(ssl.SSLSocket):
    budget: _Budget

    def recv_into(self, *args: Any, **kwargs: Any) -> int:
        self.settimeout(self.budget.seconds())
        return self.budget.take(super().recv_into(*args, **kwargs))

    def send(self, *args: Any, **kwargs: Any) -> int:
        # This class's sendall is a loop of send.
        self.settimeout(self.budget.seconds())
        return super().send(*args, **kwargs)


def tls_context() -> ssl.SSLContext:
    """Return settings for a `Connection` that trust no certificate yet."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.sslsocket_class = _TlsSocket
    return context


def limit_tls(context: ssl.SSLContext, minimum: str | None, ciphers: str | None) -> None:
    """Set the oldest TLS version, such as 1.2, and the ciphers up to TLS 1.2."""
    if minimum:
        context.minimum_version = ssl.TLSVersion[f"TLSv{minimum.replace('.', '_')}"]
    if ciphers:
        context.set_ciphers(ciphers)


class _PinnedContext(ssl.SSLContext):
    trusted: frozenset[bytes] = frozenset()

    def wrap_socket(self, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        made = super().wrap_socket(*args, **kwargs)
        if made.getpeercert(binary_form=True) not in self.trusted:
            made.close()
            raise ssl.SSLCertVerificationError("the server has another certificate")
        return made


def pinned_tls_context(pem: str) -> ssl.SSLContext:
    """Return settings for a `Connection` that trust only servers with one of these certificates.

    The octets are compared, and the server proves in the handshake that it has the private key.
    So the names and the time of the certificate do not matter: the clock of a machine without a
    battery, or of this host, may be wrong by years. A connection to another server raises
    ``ssl.SSLCertVerificationError`` before anything is sent.

    :raises ValueError: ``pem`` contains no certificate.
    """
    context = _PinnedContext(ssl.PROTOCOL_TLS_CLIENT)
    context.sslsocket_class = _TlsSocket
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.trusted = frozenset(map(ssl.PEM_cert_to_DER_cert, _PEM.findall(pem)))
    if not context.trusted:
        raise ValueError("it is not in PEM")
    return context


class Connection(http.client.HTTPConnection):
    """A connection for one exchange, or for one after another in a `IdleConnections`."""

    def __init__(
        self,
        host: str,
        port: int | None,
        *,
        limits: Limits,
        judge: Judge | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        """Prepare; nothing is resolved or connected yet.

        :param tls: of `tls_context` or `pinned_tls_context`; None speaks plain HTTP.
        """
        usual = http.client.HTTP_PORT if tls is None else http.client.HTTPS_PORT
        super().__init__(host, port or usual)
        self.limits = limits
        self.judge = judge
        self.tls = tls
        self.budget = _Budget(limits)
        self.exchanges, self.used = 0, 0.0  # complete ones, and the time of the last

    def connect(self) -> None:
        """Resolve the host, check its addresses, connect.

        :raises AddressRefused: no address of the host may be connected to.
        :raises ConnectTimeout: it took too long.
        :raises socket.gaierror: the host cannot be resolved.
        :raises ConnectionError: it is refused.
        :raises ssl.SSLError: no TLS.
        :raises NoConnection: another reason.
        """
        end = time.monotonic() + self.limits.connect
        self.budget.start_all(self.limits)
        try:
            plain = _connect_any_address(self.host, self.port, end, self.judge)
            plain.budget = self.budget
            self.sock = plain if self.tls is None else self._secured_socket(plain, self.tls, end)
        except TimeoutError as why:
            seconds = self.limits.connect
            raise ConnectTimeout(f"no connection within {seconds:g} s") from why
        self.budget.start()

    def _secured_socket(self, plain: _Socket, tls: ssl.SSLContext, end: float) -> ssl.SSLSocket:
        with contextlib.ExitStack() as opened:
            opened.enter_context(plain)
            plain.settimeout(_seconds_left(end))
            name = self.host.partition("%")[0].rstrip(".")
            found = tls.wrap_socket(plain, server_hostname=name)
            if not isinstance(found, _TlsSocket):
                raise TypeError("the TLS settings are not those of tls_context()")
            found.budget = self.budget
            opened.pop_all()
        return found

    def exchange(
        self, method: str, target: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> http.client.HTTPResponse:
        """Send a request and return its response with the body unread.

        :param target: path and query.
        :raises OSError: no connection, or no headers of a response in time.
        :raises http.client.HTTPException: the response is not HTTP, or too large.
        """
        host = f"[{self.host.partition('%')[0]}]" if ":" in self.host else self.host
        usual = http.client.HTTP_PORT if self.tls is None else http.client.HTTPS_PORT
        named = host if self.port == usual else f"{host}:{self.port}"
        self.request(method, quoted(target), body=body, headers={"Host": named, **headers})
        self.budget.start(self.limits.head)
        answer = self.getresponse()
        self.budget.allow_whole()
        return answer


class HttpRequest(NamedTuple):
    """A request; ``target`` is path and query."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | None = None


class HttpAnswer(NamedTuple):
    """The status and headers of a response, and its whole body."""

    status: int
    headers: http.client.HTTPMessage
    content: bytes


_ENDED = (ConnectionError, ssl.SSLError, http.client.BadStatusLine)
"""Errors of a request to a server that has closed the connection, or lost it in a restart."""


def _is_no_http(why: Exception) -> bool:
    """Return whether an answer came that is not HTTP."""
    gone = http.client.RemoteDisconnected
    return isinstance(why, http.client.BadStatusLine) and not isinstance(why, gone)


class _Unusable(Exception):
    """A kept connection must not carry a request; nothing was sent."""


class IdleConnections:
    """Connections between two exchanges; one thread at a time has each.

    At most 256 are kept; one more closes the one that was unused longest.

    :param seconds: time after which an unused connection is closed.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._guard = threading.Condition()
        self._kept: dict[Hashable, Connection] = {}
        self._closing = False

    def exchange(
        self,
        key: Hashable,
        fresh: Connection,
        request: HttpRequest,
        *,
        before: Callable[[], None],
        memory: AnswerMemory,
    ) -> HttpAnswer:
        """Send a request over a kept connection, else over ``fresh``, and return the answer.

        A GET on a connection that fails at once is sent again. Another request is sent once. It
        uses a kept connection only if that has answered within the last second, and has carried a
        second exchange: some servers close each connection after an answer without announcing it.

        :param key: of the server; None keeps no connection.
        :param before: called once there is a connection, which may take long; if it raises,
            nothing is sent.
        :param memory: of the answer.
        :raises http.client.RemoteDisconnected: the kept connection ended; the request may have
            taken effect.
        :raises OSError, http.client.HTTPException: see `Connection.connect` and `content`.
        """
        kept = None if key is None else self._take(key)
        if kept is not None:
            kept.limits = fresh.limits
            try:
                return self._send(key, kept, request, before, memory)
            except _Unusable:
                again = True
            except (*_ENDED, TimeoutError) as why:
                # The system's own error has a number: the server does not acknowledge.
                if isinstance(why, TimeoutError) and why.errno is None:
                    raise
                again = request.method == "GET" and kept.budget.is_untouched(_END_SECONDS)
                if not again and _is_no_http(why):
                    raise
            if not again:  # raised here, because errors of TLS in its context would mislead
                words = "the connection ended before an answer"
                raise http.client.RemoteDisconnected(words)
        fresh.connect()
        return self._send(key, fresh, request, before, memory)

    def drop(self, key: Hashable) -> None:
        """Close the unused connection of a key."""
        found = self._take(key)
        if found is not None:
            found.close()

    def close(self) -> None:
        """Close the unused connections, because their process ends."""
        with self._guard:
            while self._kept:
                self._kept.popitem()[1].close()
            self._guard.notify_all()

    def _send(
        self,
        key: Hashable,
        connection: Connection,
        request: HttpRequest,
        before: Callable[[], None],
        memory: AnswerMemory,
    ) -> HttpAnswer:
        with contextlib.ExitStack() as opened:
            opened.callback(connection.close)
            before()
            method, target, headers, sent = request
            if connection.exchanges:
                _prepare_kept(connection, reads=method == "GET")
            if key is None:
                headers = {**headers, "Connection": "close"}
            with connection.exchange(method, target, headers, sent) as answer:
                body = content(answer, memory.size, memory)
                found = HttpAnswer(answer.status, answer.headers, body)
            ends = key is None or answer.will_close or _has_forbidden_body(found)
            if not ends and self._keep(key, connection):
                opened.pop_all()
        return found

    def _take(self, key: Hashable) -> Connection | None:
        with self._guard:
            return self._kept.pop(key, None)

    def _keep(self, key: Hashable, connection: Connection) -> bool:
        connection.exchanges += 1
        connection.used = time.monotonic()
        with self._guard:
            if key in self._kept:  # of another thread
                return False
            if not self._closing:
                closer = threading.Thread(target=self._close_unused, name="kept", daemon=True)
                try:
                    closer.start()
                except RuntimeError:  # the system has no thread left
                    return False
                self._closing = True
            self._kept[key] = connection
            while len(self._kept) > _MOST_KEPT:
                self._kept.pop(next(iter(self._kept))).close()  # unused longest
        return True

    def _close_unused(self) -> None:
        closing = True
        while closing:
            with self._guard:
                self._guard.wait(_CLOSING_SECONDS)
                end = time.monotonic() - self._seconds
                over = [(key, one) for key, one in self._kept.items() if one.used <= end]
                for key, _ in over:
                    del self._kept[key]
                closing = self._closing = bool(self._kept)
            for _, connection in over:
                connection.close()


def _prepare_kept(connection: Connection, *, reads: bool) -> None:
    """Begin an exchange on a kept connection.

    :raises _Unusable: it has ended, or is not fresh enough for a change.
    """
    sock, limits = connection.sock, connection.limits
    arrival = select.poll()
    arrival.register(sock, select.POLLIN)
    # Bytes that no request has asked for are the end of the stream, or belong to no answer.
    unasked = arrival.poll(0) or (isinstance(sock, ssl.SSLSocket) and sock.pending())
    fresh = connection.exchanges > 1 and time.monotonic() - connection.used < _FRESH_SECONDS
    if unasked or not (reads or fresh):
        raise _Unusable
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # A server that vanished acknowledges nothing. One may be slow to take a large change.
        wait = max(1, int(limits.connect * 1000)) if reads else 0
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, wait)
    connection.budget.start_all(limits)


def _has_forbidden_body(answer: HttpAnswer) -> bool:
    """Return whether a body follows an answer that must not have one; http.client leaves it."""
    told = answer.headers
    length = told.get("Content-Length", "0").strip()
    return answer.status in _WITHOUT_BODY and (length != "0" or "Transfer-Encoding" in told)


def basic_login(user: str, password: str) -> str:
    """Return the header Authorization with a user and password (RFC 7617, in UTF-8)."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def quoted(target: str) -> str:
    """Return a path and query as sent: without a fragment, in ASCII."""
    return urllib.parse.quote(target.partition("#")[0], safe=_SAFE) or "/"


def parts(answer: http.client.HTTPResponse, size: int = _CHUNK) -> Iterator[bytes]:
    """Yield the body of a response as it arrives, still compressed.

    :raises AnswerCutOff: it ended before its announced length.
    :raises OSError, http.client.HTTPException: it broke off, or exceeds its limit.
    """
    promised = answer.headers.get("Content-Length", "")
    chunked = "chunked" in answer.headers.get("Transfer-Encoding", "").lower()
    whole = chunked or answer.status in _WITHOUT_BODY or not _LENGTH.fullmatch(promised)
    count = 0
    while part := answer.read1(size):
        count += len(part)
        yield part
    # http.client takes the end of a connection for the end of the body.
    if not whole and count < int(promised):
        raise AnswerCutOff(count, int(promised))


@dataclasses.dataclass(slots=True, eq=False)
class _Share:
    """The bytes that an answer has of a pool, and the most that it may come to need."""

    limit: int
    taken: int = 0

    @property
    def lacks(self) -> int:
        return self.limit - self.taken


class _Pool:
    """Memory of all large answers, of which each may take more and more.

    Bytes are given only while all answers can still grow to their limits one after another (the
    banker's algorithm), so answers never wait for each other without end. A machine that sends
    slowly holds what it has sent, and does not keep the rest of the memory from others.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._held: set[_Share] = set()

    def take(self, share: _Share, count: int, seconds: float) -> bool:
        """Give ``count`` bytes to an answer; return False if they do not become free in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._try(share, count), seconds)

    def give_back(self, share: _Share) -> None:
        """Free the bytes of an answer."""
        with self._changed:
            self._held.discard(share)
            share.taken = 0
            self._changed.notify_all()

    def _try(self, share: _Share, count: int) -> bool:
        share.taken += count
        if self._all_can_end({*self._held, share}):
            self._held.add(share)
            return True
        share.taken -= count
        return False

    def _all_can_end(self, held: set[_Share]) -> bool:
        free = MEMORY - sum(one.taken for one in held)
        for one in sorted(held, key=lambda one: one.lacks):
            if one.lacks > free:
                return False
            free += one.taken
        return True


_BODIES, _DOCUMENTS = _Pool(), _Pool()


class AnswerMemory:
    """The memory of one answer while it is read and parsed; a context that frees it at its end.

    The first 2 MiB of each are free, so usual answers wait for nothing.

    :param size: the most bytes of the answer's body.
    :param seconds: the longest wait for memory, all waits of the answer together.
    """

    def __init__(self, size: int, seconds: float) -> None:
        self.size = size
        self._body = _Share(min(size, MEMORY))
        self._document = _Share(0)
        self._seconds = seconds

    def __enter__(self) -> AnswerMemory:
        return self

    def __exit__(self, *_: object) -> None:
        _BODIES.give_back(self._body)
        _DOCUMENTS.give_back(self._document)

    @property
    def taken(self) -> int:
        """The bytes beyond the free ones."""
        return self._body.taken + self._document.taken

    def read(self, count: int) -> None:
        """Have memory for ``count`` bytes of the body in all, after waiting for it if necessary.

        :raises NoMemory: it did not become free in time.
        """
        self._take(_BODIES, self._body, min(count - _SMALL, self._body.limit))

    def parse(self, body: bytes) -> None:
        """Have memory for the values of a JSON body.

        :raises NoMemory: it did not become free in time.
        """
        self._document.limit = min(_marks(body), MOST_MARKS) * _MARK_BYTES - _SMALL
        self._take(_DOCUMENTS, self._document, self._document.limit)

    def _take(self, pool: _Pool, share: _Share, wanted: int) -> None:
        more = wanted - share.taken
        if more <= 0:
            return
        begun = time.monotonic()
        if not pool.take(share, more, max(0.0, self._seconds)):
            raise NoMemory
        self._seconds -= time.monotonic() - begun


def content(
    answer: http.client.HTTPResponse, limit: int, memory: AnswerMemory | None = None
) -> bytes:
    """Return the whole body of a response, decompressed if necessary.

    :param limit: bytes of the decompressed body.
    :param memory: takes the body as it arrives, and then the values that its JSON has.
    :raises AnswerTooLarge: it has more.
    :raises NoMemory: other large answers take all memory.
    :raises AnswerCutOff, OSError, http.client.HTTPException: see `parts`.
    """
    packing = answer.headers.get("Content-Encoding", "").strip().lower()
    unpack = zlib.decompressobj(_GZIP_OR_ZLIB) if packing in {"gzip", "x-gzip", "deflate"} else None
    body = bytearray()
    for part in parts(answer):
        try:
            for piece in (part,) if unpack is None else _unpacked(unpack, part):
                body += piece
                if len(body) > limit:
                    raise AnswerTooLarge(limit)
                if memory is not None:
                    memory.read(len(body))
        except zlib.error as why:
            raise http.client.HTTPException(f"its body is not {packing}: {why}") from None
    whole = bytes(body)
    if memory is not None:
        memory.parse(whole)
    return whole


def _unpacked(unpack: Any, part: bytes) -> Iterator[bytes]:
    """Yield a decompressed part in pieces, because a few bytes may stand for megabytes."""
    while piece := unpack.decompress(part, _UNPACKED):
        yield piece
        part = unpack.unconsumed_tail


def _marks(body: bytes) -> int:
    return sum(map(body.count, (b"{", b"[", b",")))


def json_value(body: bytes) -> Any:
    """Return the value of a JSON body.

    :raises TooManyValues: it has more than `MOST_MARKS`.
    :raises ValueError: it is not JSON.
    """
    if _marks(body) > MOST_MARKS:
        raise TooManyValues
    return orjson.loads(body)


def _connect_any_address(host: str, port: int, end: float, judge: Judge | None) -> _Socket:
    """Return a connection to the first address of a host that accepts one.

    Each address gets its share of the remaining time, so that a silent one does not block the
    others.
    """
    failure: OSError | None = None
    found = _resolved_addresses(host, port)
    for number, (family, kind, protocol, _, address) in enumerate(found):
        try:
            if judge is not None:
                judge(str(address[0]))
            share = _seconds_left(end) / (len(found) - number)
            return _connect_socket(_Socket(family, kind, protocol), address, share)
        except OSError as why:
            # The error of an address that was tried is more useful than a refusal.
            failure = why if failure is None or not isinstance(why, AddressRefused) else failure
    raise failure or NoConnection(errno.EADDRNOTAVAIL, "the host has no address")


def _resolved_addresses(host: str, port: int) -> list[Any]:
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as why:  # a label that no name can have
        raise socket.gaierror(socket.EAI_NONAME, str(why)) from None


def _connect_socket(sock: _Socket, address: Any, seconds: float) -> _Socket:
    with contextlib.ExitStack() as opened:
        opened.enter_context(sock)
        sock.settimeout(seconds)
        try:
            sock.connect(address)
        except (TimeoutError, ConnectionError):
            raise
        except OSError as why:  # no route, for instance
            raise NoConnection(why.errno, why.strerror) from None
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.pop_all()
    return sock


def _seconds_left(end: float) -> float:
    left = end - time.monotonic()
    if left <= 0:
        raise TimeoutError("no connection in time")
    return left
