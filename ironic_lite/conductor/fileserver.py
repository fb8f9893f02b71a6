"""File server for ``[deploy]http_root``, for sites without another web server.

BMCs and machines fetch files by name, in whole or in ranges (RFC 9110, 14.2). The server lists no
folder. All connections share one thread, so a slow client costs only a buffer. A few other threads
read the files, so a hanging disk blocks only those.

The server uses asyncio's public streams. granian's embedded server was rejected: it does not limit
clients that stop reading, shares a used port with another process (SO_REUSEPORT), and costs 8 MiB.
"""

from __future__ import annotations

import asyncio
import contextlib
import email.utils
import logging
import os
import pathlib
import re
import ssl
import threading
from collections.abc import Mapping
from concurrent import futures
from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.conductor import served_files
from ironic_lite.core import certificate_files, config, log_lines
from ironic_lite.core.configuration import Configuration
from ironic_lite.images import boot_requests, published

LOG = logging.getLogger(__name__)

CERTIFICATE = "[deploy]http_ssl_cert_file"
"""The name of the server's certificate in logs, checks and metrics."""
HEAD_SECONDS = 10.0
"""Seconds in which a client must send a whole request before it loses its connection."""
PIECE_SECONDS = 30.0
"""Seconds in which a client must take a piece before it loses its connection: two KiB a second
suffice.
"""
_PIECE = 64 * 1024
_CLOSING_SECONDS = 3.0
_ENDING_SECONDS = 2.0
_HEADER_BYTES = 16 * 1024
_READERS = 4
_BACKLOG = 1024
_FIELD = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):([^\r\n\0]*)")
_FAILED = (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError)


class _BadRequest(Exception):
    """The client did not send a request for a file."""


class _Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self.waiting = True
        """No request has arrived yet: this connection may be closed in favour of another."""

    def abort(self) -> None:
        """Cut the connection off."""
        self._writer.transport.abort()

    async def request(self) -> tuple[str, str, str, dict[str, str]] | None:
        """Return method, target, version and headers of the next request; None: no more.

        :raises _BadRequest: the request is malformed, or has a body.
        :raises OSError, asyncio.IncompleteReadError: the connection broke.
        """
        self.waiting = True
        try:
            async with asyncio.timeout(HEAD_SECONDS):
                head = await self._reader.readuntil(b"\r\n\r\n")
        except asyncio.IncompleteReadError as why:
            if not why.partial:
                return None
            raise
        except asyncio.LimitOverrunError:
            raise _BadRequest from None
        self.waiting = False
        return _parsed_head(head.decode("latin-1"))

    async def send_head(self, status: HTTPStatus, headers: Mapping[str, str]) -> None:
        """Send status line and headers."""
        now = email.utils.formatdate(usegmt=True)
        lines = [f"HTTP/1.1 {status.value} {status.phrase}", f"Date: {now}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        await self.send("\r\n".join([*lines, "", ""]).encode("latin-1"))

    async def send(self, piece: bytes) -> None:
        """Send a piece; return when there is room for the next one.

        :raises TimeoutError: the client does not take it in time.
        """
        self._writer.write(piece)
        async with asyncio.timeout(PIECE_SECONDS):
            await self._writer.drain()

    async def close(self) -> None:
        """Close the connection once everything is sent."""
        self._writer.close()
        with contextlib.suppress(*_FAILED):
            async with asyncio.timeout(PIECE_SECONDS):
                await self._writer.wait_closed()
        self.abort()


def _parsed_head(head: str) -> tuple[str, str, str, dict[str, str]]:
    """Return the parts of a request's head (RFC 9112, 2 to 5).

    :raises _BadRequest: the head is malformed, or announces a body.
    """
    first, *lines = head.lstrip("\r\n").removesuffix("\r\n\r\n").split("\r\n")
    words = first.split(" ")
    fields = [_FIELD.fullmatch(line) for line in lines]
    headers = {found[1].lower(): found[2].strip(" \t") for found in fields if found}
    if len(words) != 3 or words[2] not in {"HTTP/1.0", "HTTP/1.1"}:  # noqa: PLR2004
        raise _BadRequest
    if not all(fields):
        raise _BadRequest
    if words[2] == "HTTP/1.1" and "host" not in headers:
        raise _BadRequest
    if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
        # The server would parse a body as the next request.
        raise _BadRequest
    return words[0], words[1], words[2], headers


class FileServer:
    """The file server in its thread.

    :param port: to listen on; 0 for any.
    :param connections: the limit; a further connection replaces one that has sent no request.
    :param tls: the PEM files of certificate chain and private key; None: no TLS.
    :raises config.ConfigError: certificate and key do not match, or need a password.
    """

    def __init__(
        self, host: str, port: int, connections: int, *, tls: tuple[str, str] | None = None
    ) -> None:
        self._where = host.strip("[]"), port
        self._most = connections
        self._pair = None if tls is None else certificate_files.Pair(CERTIFICATE, *tls)
        self._tls = None if self._pair is None else _tls_context(self._pair)
        self._clients: dict[_Client, None] = {}
        self._complaints = log_lines.LogThrottle()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._started: futures.Future[int] = futures.Future()
        self._thread = threading.Thread(target=self._run_server, name="files", daemon=True)
        self._root = pathlib.Path()
        self._readers: futures.ThreadPoolExecutor | None = None

    @property
    def port(self) -> int:
        """The port the server listens on, also if it was configured as 0."""
        return self._started.result(_CLOSING_SECONDS)

    def start(self) -> None:
        """Listen and serve.

        :raises errors.OpenError: the address is in use, or not an address of this machine.
        """
        self._root = pathlib.Path(os.path.realpath(published.root()))
        self._thread.start()
        try:
            port = self._started.result()
        except OSError as why:
            where = "[deploy]http_host, http_port"
            raise errors.OpenError(
                reason=f"{where}: cannot listen on this address: {why}"
            ) from None
        LOG.info("Serving %s on port %d", published.root(), port)

    def stop(self) -> None:
        """Stop; running transfers are cut off."""
        if self._loop is not None and self._over is not None and self._thread.is_alive():
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join(_CLOSING_SECONDS)

    # -- in the thread -----------------------------------------------------------------------

    def _run_server(self) -> None:
        try:
            asyncio.run(self._serve_forever())
        except Exception as why:
            if not self._started.done():  # `start` waits for the result
                self._started.set_exception(why)
                return
            LOG.exception("The file server has ended")

    async def _serve_forever(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        host, port = self._where
        shake = {} if self._tls is None else {"ssl_handshake_timeout": HEAD_SECONDS}
        server = await asyncio.start_server(
            self._serve_client,
            host,
            port,
            limit=_HEADER_BYTES,
            backlog=_BACKLOG,
            ssl=self._tls,
            **shake,
        )
        with futures.ThreadPoolExecutor(_READERS, "files") as self._readers:
            self._started.set_result(int(server.sockets[0].getsockname()[1]))
            await self._renew_until_over(self._over)
            server.close()
            for client in list(self._clients):
                client.abort()
            # The clients close their files in the reader threads, which end with this block.
            answering = asyncio.all_tasks() - {asyncio.current_task()}
            if answering:
                await asyncio.wait(answering, timeout=_ENDING_SECONDS)

    async def _renew_until_over(self, over: asyncio.Event) -> None:
        """Use a changed certificate for new connections, until the server stops."""
        while not over.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(over.wait(), certificate_files.LOOK_SECONDS)
                return
            if self._pair is not None and self._tls is not None and self._pair.renewed():
                # Between the look and this, the files may have been replaced again.
                with contextlib.suppress(ValueError):
                    certificate_files.load_pair(self._tls, self._pair.certificate, self._pair.key)
                    certificate_files.note_use(CERTIFICATE, self._pair.certificate)

    async def _serve_client(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        client = _Client(reader, writer)
        if not self._has_room():
            client.abort()
            return
        self._clients[client] = None
        try:
            await self._answer_requests(client)
        except _FAILED:
            client.abort()  # faults of clients are not logged
        except Exception as why:  # asyncio would log each
            client.abort()
            if self._complaints.new(type(why).__name__):
                LOG.exception("A request for a file ended in an unexpected fault")
        finally:
            self._clients.pop(client, None)
            await client.close()

    def _has_room(self) -> bool:
        """Return whether another client fits.

        A client that has sent no request is closed to make room.
        """
        if len(self._clients) < self._most:
            return True
        idle = next((client for client in self._clients if client.waiting), None)
        if idle is not None:
            self._clients.pop(idle)
            idle.abort()
        return idle is not None

    async def _answer_requests(self, client: _Client) -> None:
        """Answer the client's requests in order."""
        going = True
        while going:
            try:
                asked = await client.request()
            except _BadRequest:
                headers = {"Content-Length": "0", "Connection": "close"}
                await client.send_head(HTTPStatus.BAD_REQUEST, headers)
                return
            if asked is None:
                return
            method, target, version, headers = asked
            wish = headers.get("connection", "").lower()
            going = "close" not in wish and (version == "HTTP/1.1" or "keep-alive" in wish)
            reply = await self._read_in_thread(
                served_files.answer, self._root, method, target, headers
            )
            if reply.file is not None:
                boot_requests.SEEN.note_file(target)
            more = {"Connection": "keep-alive" if going else "close"}
            await self._send_reply(client, reply, more)

    async def _send_reply(
        self, client: _Client, reply: served_files.Reply, more: Mapping[str, str]
    ) -> None:
        if reply.file is None:
            await client.send_head(reply.status, {**reply.headers, **more})
            return
        try:
            await client.send_head(reply.status, {**reply.headers, **more})
            left = reply.size
            while left > 0:
                piece = await self._read_in_thread(reply.file.read, min(left, _PIECE))
                if not piece:
                    raise OSError("the file has become shorter")
                left -= len(piece)
                await client.send(piece)
        finally:
            await self._read_in_thread(reply.file.close)

    async def _read_in_thread(self, act: Any, *args: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._readers, act, *args)


def configured(conf: Configuration) -> FileServer:
    """Return the server that ``[deploy]http_port`` asks for.

    :raises config.ConfigError: the server listens on all addresses and ``[deploy]http_url`` is not
        set, so clients could not be given an address.
    """
    deploy = conf.deploy
    if deploy.http_host.strip("[]") in {"0.0.0.0", "::"} and not deploy.http_url:
        reason = "[deploy]http_url: must be set where http_host means every address"
        raise config.ConfigError(reason=reason)
    tls, port = None, deploy.http_port
    if deploy.http_ssl_cert_file and deploy.http_ssl_key_file:  # both or none, `config.load` checks
        tls = (deploy.http_ssl_cert_file, deploy.http_ssl_key_file)
    assert port is not None  # otherwise there is no server
    return FileServer(deploy.http_host, port, deploy.http_connections, tls=tls)


def _tls_context(pair: certificate_files.Pair) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        certificate_files.load_pair(context, pair.certificate, pair.key)
    except ValueError as why:
        reason = f"[deploy]http_ssl_cert_file, http_ssl_key_file: {why}"
        raise config.ConfigError(reason=reason) from None
    certificate_files.note_use(pair.option, pair.certificate)
    return context
