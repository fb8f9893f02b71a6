"""HTTP/1.1 for many machines in one process: a raw server, and a client with kept connections."""

from __future__ import annotations

import asyncio
import contextlib
import http
import urllib.parse
from collections.abc import AsyncIterator, Callable, Mapping
from typing import NamedTuple, cast

import orjson

PATIENCE = 90.0
"""Seconds a request may take."""
_END = b"\r\n\r\n"
_PHRASES = {status.value: status.phrase for status in http.HTTPStatus}


class Request(NamedTuple):
    """A request as a server receives it; names of headers are in lower case."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes


class Reply(NamedTuple):
    """An answer; without a body, its length is 0."""

    status: int
    body: bytes = b""
    headers: Mapping[str, str] = {}


def parsed(head: bytes) -> tuple[str, dict[str, str]]:
    """Return the first line and the headers."""
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return first, {name.lower(): value.strip() for name, _, value in pairs}


class Connection(asyncio.Protocol):
    """One connection to a server: one request at a time.

    :param take: receives each request, and calls `reply` once.
    :param begin: called with the address of this side.
    """

    def __init__(
        self, take: Callable[[Connection, Request], None], begin: Callable[[str], None]
    ) -> None:
        self._take, self._begin = take, begin
        self._data, self._closing = b"", False
        self.host = ""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's for TLS is no subclass
        self.host = transport.get_extra_info("sockname")[0]
        self._begin(self.host)

    def data_received(self, data: bytes) -> None:
        """Hand over a request when it is complete."""
        self._data += data
        head, end, body = self._data.partition(_END)
        if not end:
            return
        first, headers = parsed(head)
        length = int(headers.get("content-length") or 0)
        if len(body) < length:
            return
        self._data = body[length:]
        self._closing = headers.get("connection", "").lower() == "close"
        method, target, _ = first.split(" ", 2)
        path, _, query = target.partition("?")
        self._take(self, Request(method, urllib.parse.unquote(path), query, headers, body[:length]))

    def reply(self, found: Reply, *, head_only: bool = False) -> None:
        """Send an answer."""
        if self._transport.is_closing():
            return
        lines = [f"HTTP/1.1 {found.status} {_PHRASES.get(found.status, '')}"]
        if found.body:
            lines.append("Content-Type: application/json")
        if found.status != http.HTTPStatus.NO_CONTENT:
            lines.append(f"Content-Length: {len(found.body)}")
        lines += [f"{name}: {value}" for name, value in found.headers.items()]
        lines += ["Connection: close"] if self._closing else []
        head = "\r\n".join([*lines, "", ""]).encode()
        self._transport.write(head if head_only else head + found.body)
        if self._closing:
            self._transport.close()

    def abort(self) -> None:
        """Cut the connection off."""
        self._transport.abort()


Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Client:
    """A client of one server, with kept connections.

    :param source: the address that requests come from.
    """

    def __init__(self, host: str, port: int, source: str | None = None) -> None:
        self._host, self._port = host, port
        self._local = None if source is None else (source, 0)
        self._idle: list[Streams] = []
        self.connections = 0

    async def _open(self) -> Streams:
        self.connections += 1
        return await asyncio.open_connection(
            self._host, self._port, local_addr=self._local, limit=1 << 20
        )

    async def ask(
        self, method: str, target: str, body: object = None, headers: Mapping[str, str] = {}
    ) -> Reply:
        """Send a request and return the answer; a kept connection that has ended is replaced.

        :raises OSError: there is no answer.
        """
        kept = self._idle.pop() if self._idle else None
        async with asyncio.timeout(PATIENCE):
            if kept is not None:
                with contextlib.suppress(OSError, asyncio.IncompleteReadError):
                    return await self._exchange(kept, method, target, body, headers)
            try:
                return await self._exchange(await self._open(), method, target, body, headers)
            except asyncio.IncompleteReadError as why:
                raise ConnectionResetError(f"{method} {target}: no whole answer") from why

    async def _exchange(
        self, streams: Streams, method: str, target: str, body: object, headers: Mapping[str, str]
    ) -> Reply:
        reader, writer = streams
        try:
            await self._send(writer, method, target, body, headers)
            first, told = parsed((await reader.readuntil(_END)).removesuffix(_END))
            content = await reader.readexactly(int(told.get("content-length") or 0))
        except BaseException:
            writer.transport.abort()
            raise
        if told.get("connection", "").lower() == "close":
            writer.close()
        else:
            self._idle.append(streams)
        return Reply(int(first.split(" ", 2)[1]), content, told)

    async def _send(
        self,
        writer: asyncio.StreamWriter,
        method: str,
        target: str,
        body: object,
        headers: Mapping[str, str],
    ) -> None:
        sent = b"" if body is None else orjson.dumps(body)
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._host}:{self._port}"]
        if body is not None:
            lines += ["Content-Type: application/json", f"Content-Length: {len(sent)}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        writer.write("\r\n".join([*lines, "", ""]).encode() + sent)
        await writer.drain()

    async def lines(self, target: str) -> AsyncIterator[bytes]:
        """Yield the lines of a stream, which comes in chunks (RFC 9112, 7.1), until it ends."""
        reader, writer = await self._open()
        try:
            await self._send(writer, "GET", target, None, {})
            first, _ = parsed((await reader.readuntil(_END)).removesuffix(_END))
            if int(first.split(" ", 2)[1]) != http.HTTPStatus.OK:
                raise ConnectionResetError(f"{target}: {first}")
            left = b""
            while size := int(await reader.readline() or b"0", 16):
                *whole, left = (left + await reader.readexactly(size)).split(b"\n")
                await reader.readexactly(2)
                for line in whole:
                    yield line
        except asyncio.IncompleteReadError as why:
            raise ConnectionResetError(f"{target}: it has ended early") from why
        finally:
            writer.transport.abort()

    def close(self) -> None:
        """Close the idle connections."""
        for _, writer in self._idle:
            writer.transport.abort()
        self._idle.clear()
