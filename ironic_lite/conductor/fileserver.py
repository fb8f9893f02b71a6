"""Serves ``[deploy]http_root`` to BMCs and machines, for those who have no other web server.

It gives files to whoever knows their names, in parts if that is asked for (RFC 9110, 14.2: BMCs
read media as their machines do), and shows no folder. Requests beyond its connections wait.
"""

from __future__ import annotations

import logging
import os
import pathlib
import ssl
import threading
from collections.abc import Callable, Iterable
from typing import Any

from cheroot import wsgi
from cheroot.ssl import builtin
from webob import exc, static

from ironic_lite import config
from ironic_lite.images import published

LOG = logging.getLogger(__name__)

SILENCE_SECONDS = 30
"""A client that neither sends nor takes anything for so long loses its connection."""
_CLOSING_SECONDS = 3
_HEADER_BYTES = 16 * 1024

Application = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


def application(root: pathlib.Path) -> Application:
    """Return the WSGI application that gives the files below ``root``.

    Outside it is also what a link in it leads to; a name that begins with a dot is no one's.
    """
    real = pathlib.Path(os.path.realpath(root))

    def serve(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        found = _file(real, str(environ.get("PATH_INFO", "")))
        answer: Any = exc.HTTPNotFound()
        if found is not None:
            answer = static.FileApp(str(found), content_type=_type(found), etag=_tag(found))
        given: Iterable[bytes] = answer(environ, start_response)
        return given

    return serve


def _file(root: pathlib.Path, name: str) -> pathlib.Path | None:
    """Return the file of a request's path, None if there is none for the public."""
    # WSGI carries bytes as Latin-1 (PEP 3333).
    parts = name.encode("latin-1", "replace").decode("utf-8", "replace").strip("/").split("/")
    if "\0" in name or any(not part or part.startswith(".") for part in parts):
        return None
    try:
        found = pathlib.Path(os.path.realpath(root.joinpath(*parts)))
        usable = found.is_relative_to(root) and found.is_file() and os.access(found, os.R_OK)
    except (OSError, ValueError):
        return None
    return found if usable else None


def _tag(file: pathlib.Path) -> str:
    """Return a validator of a file's content (RFC 9110, 8.8.3)."""
    try:
        seen = file.stat()
    except OSError:  # gone meanwhile: whoever opens it says so
        return ""
    return f"{seen.st_ino:x}-{seen.st_size:x}-{seen.st_mtime_ns:x}"


def _type(file: pathlib.Path) -> str:
    return "text/plain" if file.suffix in {".ipxe", ""} else "application/octet-stream"


class _Tls(builtin.BuiltinSSLAdapter):
    """TLS whose handshake is made by the thread of its connection.

    cheroot would make it where it accepts connections: a client that says nothing would keep all
    others from being accepted.
    """

    def wrap(self, sock: Any) -> tuple[Any, dict[str, str]]:
        """Return the socket with TLS, and what the application is told of it."""
        found = self.context.wrap_socket(sock, do_handshake_on_connect=False, server_side=True)
        return found, {"wsgi.url_scheme": "https", "HTTPS": "on"}


class FileServer:
    """The server in its threads.

    :param tls: the PEM files of certificate chain and private key; None: no TLS.
    :raises config.ConfigError: they do not belong together, or need a password.
    """

    def __init__(
        self, host: str, port: int, connections: int, *, tls: tuple[str, str] | None = None
    ) -> None:
        self._server = wsgi.Server(
            (host.strip("[]"), port),
            application(published.root()),
            # A thread for each: cheroot never adds any, and a slow BMC holds one for minutes.
            numthreads=connections,
            max=connections,
            timeout=SILENCE_SECONDS,
            shutdown_timeout=_CLOSING_SECONDS,
        )
        self._server.max_request_header_size = _HEADER_BYTES
        self._server.max_request_body_size = 1
        if tls is not None:
            self._server.ssl_adapter = _adapter(*tls)
        setattr(self._server, "error_log", _log)  # noqa: B010 - a method, and meant to be replaced
        self._thread = threading.Thread(target=self._server.serve, name="files", daemon=True)

    @property
    def port(self) -> int:
        """Where it listens, also if it was told 0."""
        return int(self._server.bind_addr[1])

    def start(self) -> None:
        """Listen and serve.

        :raises config.ConfigError: the address is taken, or not of this machine.
        """
        try:
            self._server.prepare()
        except OSError as why:
            where = "[deploy]http_host, http_port"
            raise config.ConfigError(reason=f"{where}: cannot listen there: {why}") from None
        self._thread.start()
        LOG.info("Serving %s on port %d", published.root(), self.port)

    def stop(self) -> None:
        """Stop; what is being fetched is cut off."""
        self._server.stop()
        if self._thread.is_alive():
            self._thread.join(_CLOSING_SECONDS)


def configured(conf: Any) -> FileServer:
    """Return the server that the configuration asks for by ``[deploy]http_port``.

    :raises config.ConfigError: nobody can be told its address: it listens on all, and
        ``[deploy]http_url`` is not set.
    """
    deploy = conf.deploy
    if deploy.http_host.strip("[]") in {"0.0.0.0", "::"} and not deploy.http_url:
        reason = "[deploy]http_url: must be set where http_host means every address"
        raise config.ConfigError(reason=reason)
    tls = None
    if deploy.http_ssl_cert_file:
        tls = (deploy.http_ssl_cert_file, deploy.http_ssl_key_file)
    return FileServer(deploy.http_host, deploy.http_port, deploy.http_connections, tls=tls)


def _adapter(certificate: str, key: str) -> _Tls:
    try:
        # Without a password, one would be asked for on the terminal.
        return _Tls(certificate, key, private_key_password="")
    except (ssl.SSLError, OSError, ValueError) as error:
        why = getattr(error, "reason", None) or error
        raise config.ConfigError(
            reason=f"[deploy]http_ssl_cert_file, http_ssl_key_file: {certificate} and {key} are "
            f"not a PEM certificate and its unencrypted key: {why}"
        ) from None


def _log(msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
    """Take what cheroot has to say: faults of clients are no news."""
    LOG.log(min(level, logging.WARNING), "%s", msg, exc_info=traceback)
