"""The certificate of this process and its authority, read again when the files change."""

from __future__ import annotations

import datetime
import logging
import ssl
from typing import NamedTuple

from ironic_lite.core import certificate_files, clock, config
from ironic_lite.core.configuration import Configuration

LOG = logging.getLogger(__name__)

GROUP = "direct"
OPTION = f"[{GROUP}]cert_file"
"""The name of the certificate in logs, checks and metrics."""


class Files(NamedTuple):
    """Paths of files in PEM."""

    cert_file: str
    key_file: str
    ca_file: str


class _Contexts(NamedTuple):
    client: ssl.SSLContext
    server: ssl.SSLContext


class Credentials:
    """The TLS contexts of a process; one object serves all threads."""

    def __init__(self, files: Files) -> None:
        """Read the files. Raises config.ConfigError if one of them cannot be used."""
        self._files = files
        self._loaded = certificate_files.state(*files), _read_contexts(files)
        certificate_files.note_use(OPTION, files.cert_file)

    def client(self) -> ssl.SSLContext:
        """Return the context for connections to conductors."""
        return self._current_contexts().client

    def server(self) -> ssl.SSLContext:
        """Return the context for connections of clients."""
        return self._current_contexts().server

    def check_own(self, host: str) -> None:
        """Check that clients will accept the certificate of this machine.

        :param host: the name or address by which clients call this machine.
        :raises config.ConfigError: the certificate is for other hosts, or is not valid now.
        """
        path = self._files.cert_file
        try:
            pem = certificate_files.read_start(path)
            known = certificate_files.subject_names(pem)
            begin, end = certificate_files.validity(pem)
        except (OSError, ValueError) as why:
            raise config.ConfigError(reason=f"[{GROUP}]cert_file {path}: {_problem(why)}") from None
        if not certificate_files.covers(known, host.lower()):
            names = ", ".join(sorted(known)) or "no host"
            reason = (
                f"[{GROUP}]cert_file {path}: valid for {names}, and clients call {host}; make a "
                f"certificate with the subject alternative name {host}, or correct [DEFAULT]host"
            )
            raise config.ConfigError(reason=reason)
        if not begin <= clock.now().replace(tzinfo=datetime.UTC) <= end:
            reason = (
                f"[{GROUP}]cert_file {path}: valid from {begin} to {end}, or the clock is wrong"
            )
            raise config.ConfigError(reason=reason)

    def _current_contexts(self) -> _Contexts:
        """Return the contexts of the present files, or of the last usable ones."""
        # Without a lock, which a fork could copy while it is held; two threads may read the files.
        known, contexts = self._loaded
        state = certificate_files.state(*self._files)
        if state == known:
            return contexts
        try:
            contexts = _read_contexts(self._files)
        except config.ConfigError as why:
            LOG.warning("The files used before stay in use until these change: %s", why)
        else:
            LOG.info("The changed certificates of [%s] are in use", GROUP)
            certificate_files.note_use(OPTION, self._files.cert_file)
        self._loaded = state, contexts
        return contexts


def find_files(conf: Configuration) -> Files:
    """Return the configured files. Raises config.ConfigError if an option is unset."""
    settings = conf[GROUP]
    missing = [name for name in Files._fields if not settings[name]]
    if missing:
        names = ", ".join(f"[{GROUP}]{name}" for name in missing)
        raise config.ConfigError(
            reason=f"[DEFAULT]transport_url: direct:// needs {names}: a certificate of this "
            "machine, its key, and the authority of all machines of the service"
        )
    return Files(*(settings[name] for name in Files._fields))


def _read_contexts(files: Files) -> _Contexts:
    client = _read_context(ssl.PROTOCOL_TLS_CLIENT, files)
    # The subject alternative names count alone, as for the checks of the own certificate.
    client.hostname_checks_common_name = False
    server = _read_context(ssl.PROTOCOL_TLS_SERVER, files)
    server.verify_mode = ssl.CERT_REQUIRED
    # Tickets would resume a session, but connections are kept, and carry data only.
    server.num_tickets = 0
    return _Contexts(client, server)


def _read_context(protocol: int, files: Files) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    try:
        # Without the function, the library would ask the terminal for the password of a key.
        context.load_cert_chain(files.cert_file, files.key_file, lambda: "")
    except (OSError, ValueError) as why:
        reason = (
            f"[{GROUP}]cert_file {files.cert_file} and key_file {files.key_file}: "
            f"{_problem(why)}; they must be readable, in PEM, belong together, and need no password"
        )
        raise config.ConfigError(reason=reason) from None
    try:
        context.load_verify_locations(cafile=files.ca_file)
    except (OSError, ValueError) as why:
        reason = (
            f"[{GROUP}]ca_file {files.ca_file}: {_problem(why)}; it must be readable, with "
            "certificates of authorities in PEM"
        )
        raise config.ConfigError(reason=reason) from None
    return context


def _problem(why: Exception) -> str:
    return (isinstance(why, OSError) and why.strerror) or str(why)
