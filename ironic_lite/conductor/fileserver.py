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
import dataclasses
import email.utils
import errno
import logging
import os
import pathlib
import re
import ssl
import stat
import threading
import urllib.parse
from collections.abc import Mapping
from concurrent import futures
from http import HTTPStatus
from typing import Any, BinaryIO

from ironic_lite import errors
from ironic_lite.core import certificate_files, config, log_lines, masking
from ironic_lite.core.options import Configuration
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
            reply = await self._read_in_thread(answer, self._root, method, target, headers)
            who, shown = headers.get("user-agent"), masking.address(urllib.parse.unquote(target))
            LOG.debug("%s %s by %s: %d", method, shown, who, reply.status)
            if reply.file is not None:
                boot_requests.SEEN.note_file(target)
            more = {"Connection": "keep-alive" if going else "close"}
            await self._send_reply(client, reply, more)

    async def _send_reply(self, client: _Client, reply: Reply, more: Mapping[str, str]) -> None:
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


# Replies to requests for files below a folder: file, byte range and headers.
#
# A file is opened first, and everything said of it is asked of its descriptor, because files are
# replaced while they are served. This module reads no content.

_RANGE = re.compile(r"bytes=(?P<first>[0-9]{0,18})-(?P<last>[0-9]{0,18})")
_METHODS = frozenset({"GET", "HEAD"})
_TRIES = 3  # the target of a link may be replaced between its reading and its opening


@dataclasses.dataclass(frozen=True, slots=True)
class Reply:
    """A reply: status, headers, and an open file, at the bytes to send; the caller closes it."""

    status: HTTPStatus
    headers: Mapping[str, str]
    file: BinaryIO | None = None
    size: int = 0


def answer(root: pathlib.Path, method: str, target: str, headers: Mapping[str, str]) -> Reply:
    """Return the reply to a request (RFC 9110, 13 and 14).

    :param root: the real path of the folder.
    :param target: as in the request line.
    :param headers: of the request, with names in lower case.
    """
    if method not in _METHODS:
        return _empty_reply(HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "GET, HEAD"})
    file = _open_public_file(root, target)
    if file is None:
        return _empty_reply(HTTPStatus.NOT_FOUND, {})
    reply = _file_reply(file, method, headers)
    if reply.file is None:
        file.close()
    return reply


def _file_reply(file: BinaryIO, method: str, headers: Mapping[str, str]) -> Reply:
    about = os.fstat(file.fileno())
    tag = f'"{about.st_ino:x}-{about.st_size:x}-{about.st_mtime_ns:x}"'
    known = {
        "ETag": tag,
        "Last-Modified": email.utils.formatdate(about.st_mtime, usegmt=True),
        "Accept-Ranges": "bytes",
    }
    if _is_known(headers, tag, about.st_mtime):
        return Reply(HTTPStatus.NOT_MODIFIED, known)
    known["Content-Type"] = _content_type(file.name)
    asked = headers.get("range") if _range_applies(headers.get("if-range"), known) else None
    part = _requested_part(asked, about.st_size)
    start, end = part or (0, about.st_size)
    status = HTTPStatus.OK
    if part is not None:
        if start >= end:
            beyond = {"Content-Range": f"bytes */{about.st_size}"}
            return _empty_reply(HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, beyond)
        status = HTTPStatus.PARTIAL_CONTENT
        known["Content-Range"] = f"bytes {start}-{end - 1}/{about.st_size}"
    known["Content-Length"] = str(end - start)
    file.seek(start)
    return Reply(status, known, file if method == "GET" else None, end - start)


def _empty_reply(status: HTTPStatus, headers: Mapping[str, str]) -> Reply:
    return Reply(status, {**headers, "Content-Length": "0"})


def _open_public_file(root: pathlib.Path, target: str) -> BinaryIO | None:
    """Return the open file of a target, None if the target is not public.

    The target of a link must be below ``root``. Names that begin with a dot are not public.
    """
    try:
        path = urllib.parse.urlsplit(target).path if "://" in target else target.partition("?")[0]
    except ValueError:  # the host of an absolute URL is malformed
        return None
    parts = urllib.parse.unquote(path, errors="replace").removeprefix("/").split("/")
    if "\0" in "".join(parts) or any(not part or part.startswith(".") for part in parts):
        return None
    for _ in range(_TRIES):
        try:
            found = pathlib.Path(os.path.realpath(root.joinpath(*parts)))
            return _open_below(root, found.relative_to(root))
        except ValueError:  # it is elsewhere
            return None
        except OSError as why:
            if why.errno not in {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}:
                return None
    return None


def _open_below(root: pathlib.Path, path: pathlib.Path) -> BinaryIO | None:
    """Return an open regular file, None for another kind.

    :param path: below ``root``; a link that was put into it meanwhile is not followed.
    :raises OSError: it is missing, unreadable, or has a link.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    with contextlib.ExitStack() as opened:
        folder = os.open(root, flags | os.O_DIRECTORY)
        opened.callback(os.close, folder)
        for part in path.parts[:-1]:
            folder = os.open(part, flags | os.O_DIRECTORY, dir_fd=folder)
            opened.callback(os.close, folder)

        def is_file(name: str | int, **more: Any) -> bool:
            return stat.S_ISREG(os.stat(name, **more).st_mode)

        # Opening a device may have an effect, and opening a pipe waits for a writer.
        if not is_file(path.name or ".", dir_fd=folder, follow_symlinks=False):
            return None
        file = open(  # noqa: SIM115  # the caller closes it
            path.name,
            "rb",
            buffering=0,
            opener=lambda name, _: os.open(name, flags | os.O_NONBLOCK, dir_fd=folder),
        )
    if is_file(file.fileno()):
        return file
    file.close()
    return None


def _content_type(name: str) -> str:
    return (
        "text/plain" if pathlib.Path(name).suffix in {".ipxe", ""} else "application/octet-stream"
    )


def _is_known(headers: Mapping[str, str], tag: str, changed: float) -> bool:
    """Return whether the client already has this version of the file."""
    tags = headers.get("if-none-match")
    if tags is not None:
        given = {one.strip().removeprefix("W/") for one in tags.split(",")}
        return tag in given or "*" in given
    since = _read_date(headers.get("if-modified-since"))
    return since is not None and int(changed) <= since


def _range_applies(condition: str | None, known: Mapping[str, str]) -> bool:
    """Return whether the range is for the current file version (RFC 9110, 13.1.5)."""
    return condition is None or condition in {known["ETag"], known["Last-Modified"]}


def _read_date(text: str | None) -> float | None:
    try:
        return None if text is None else email.utils.parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None


def _requested_part(asked: str | None, size: int) -> tuple[int, int] | None:
    """Return start and end of the requested part; None for the whole file.

    A header that cannot be parsed, or names several ranges, is ignored (RFC 9110, 14.2).
    """
    found = _RANGE.fullmatch(asked.strip()) if asked else None
    if found is None or not (found["first"] or found["last"]):
        return None
    if not found["first"]:
        return max(0, size - int(found["last"])), size
    first = int(found["first"])
    last = int(found["last"]) if found["last"] else size - 1
    if found["last"] and last < first:
        return None
    return first, min(last + 1, size)
