"""A read request to a TFTP server, for the first block of a file (RFC 1350).

The transfer is ended after that block. Sockets are plain, and each wait is limited.
"""

from __future__ import annotations

import contextlib
import http.client
import os
import pathlib
import secrets
import socket
import struct
import time
import urllib.parse
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from typing import NamedTuple

from ironic_lite import errors
from ironic_lite.checks import machine
from ironic_lite.core import bounded_http, config, networks
from ironic_lite.core.options import Configuration
from ironic_lite.domain.examination import Verdict, failed, passed, warning
from ironic_lite.images import cache, download, published

TFTP_PORT = 69
_READ, _DATA, _ERROR = 1, 3, 5
_TRIES, _SECONDS = 2, 2.0
_BLOCK = 512
_MOST = 1024
_HEAD = struct.Struct("!HH")


class TftpFailed(Exception):
    """The server did not send the file; the text gives the reason."""


def first_tftp_block(server: str, name: str, port: int = TFTP_PORT) -> int:
    """Return the number of bytes in the first block of a file.

    :param server: a name or an IP address.
    :raises TftpFailed: no answer within `_TRIES` requests, or the server refuses.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            server, port, type=socket.SOCK_DGRAM
        )[0]
    except (OSError, UnicodeError) as why:
        raise TftpFailed(f"the name {server} cannot be resolved") from why
    request = struct.pack("!H", _READ) + name.encode() + b"\0octet\0"
    with contextlib.closing(socket.socket(family, kind, protocol)) as sock:
        for _ in range(_TRIES):
            try:
                sock.sendto(request, address)
                answer, sender = _read_answer(sock, str(address[0]))
            except TimeoutError:
                continue
            except OSError as why:
                reason = (why.strerror or type(why).__name__).lower()
                raise TftpFailed(f"{server}: {reason}") from why
            with contextlib.suppress(OSError):
                # Code 0 with a text: the transfer is not wanted any more.
                sock.sendto(_HEAD.pack(_ERROR, 0) + b"examined\0", sender)
            return _block_size(answer)
    raise TftpFailed(f"no answer from {server} within {_TRIES * _SECONDS:g} s")


def _read_answer(sock: socket.socket, server: str) -> tuple[bytes, tuple[object, ...]]:
    """Return the server's next packet, from whatever port it uses for the transfer.

    :raises TimeoutError: none has arrived in time.
    """
    end = time.monotonic() + _SECONDS
    while True:
        sock.settimeout(max(0.001, end - time.monotonic()))
        answer, sender = sock.recvfrom(_MOST)
        if sender[0] == server and len(answer) >= _HEAD.size:
            return answer, sender


def _block_size(answer: bytes) -> int:
    kind, number = _HEAD.unpack_from(answer)
    if kind == _ERROR:
        text = answer[_HEAD.size :].partition(b"\0")[0].decode("ascii", "replace")
        words = "".join(letter if letter.isprintable() else "?" for letter in text)
        raise TftpFailed(f"the server refuses (error {number}): {words or 'no reason given'}")
    if kind != _DATA:
        raise TftpFailed(f"the answer is not TFTP data (opcode {kind})")
    return len(answer) - _HEAD.size


# Checks of the servers that machines use: images, boot files, the call-back URL, TFTP.

FIRST_BYTES = 1024
_CONNECT, _SILENCE, _WHOLE = 3.0, 4.0, 6.0
_MOST_BYTES = 16 * 1024 * 1024
_MIB = 1024 * 1024
_MOST_URLS = 8
_HTML = (b"<!doctype html", b"<html")


class Start(NamedTuple):
    """The beginning of a file: its first bytes, and a description of size and age."""

    content: bytes
    about: str


def _terms(conf: Configuration, trusted: str, *, guarded: bool) -> download.Terms:
    blocked = networks.parse(conf.conductor.image_blocked_networks) if guarded else ()
    return download.Terms(
        blocked=blocked,
        tls=download.trusted_tls(trusted),
        connect=_CONNECT,
        silence=_SILENCE,
        seconds=_WHOLE,
        size=_MOST_BYTES,
    )


def read_start(conf: Configuration, given: str, path: str) -> Start:
    """Fetch the first KiB of a file that ramdisks consist of.

    :param path: where its URL stands.
    :raises errors.Error: it cannot be fetched, is empty, or is a web page.
    """
    source = download.read_source(given, path)
    if source.file is None:
        found = _fetched_start(conf, source)
    else:
        # As for an image: an option may name any file, a node only those of some folders.
        named = path.startswith("[")
        allowed = conf.conductor.file_url_allowed_paths
        file = source.file if named else download.file_within(source.file, allowed, path)
        found = _local_start(file)
    if not found.content:
        raise errors.DownloadFailed(url=source.shown, reason="it is empty")
    if found.content.lstrip().lower().startswith(_HTML):
        raise errors.DownloadFailed(url=source.shown, reason="it is a web page (HTML), not a file")
    return found


def _local_start(file: pathlib.Path) -> Start:
    try:
        # O_NONBLOCK opens a pipe without waiting for a writer.
        flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(file, flags), "rb") as opened:
            content, size = opened.read(FIRST_BYTES) or b"", os.fstat(opened.fileno()).st_size
    except OSError as why:
        reason = (why.strerror or type(why).__name__).lower()
        raise errors.LocalFileError(path=str(file), reason=reason) from None
    return Start(content, _size_text(size))


def _fetched_start(conf: Configuration, source: download.Source) -> Start:
    terms = _terms(conf, conf.webserver_verify_ca, guarded=True)
    headers = {"Range": f"bytes=0-{FIRST_BYTES - 1}"}
    login = cache.server_authorization(source.url)
    if login is not None:
        headers["Authorization"] = login
    try:
        with download.get(source.url, terms, headers) as answer:
            if answer.status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
                reason = f"the server answers with status {answer.status}"
                raise errors.DownloadFailed(url=source.shown, reason=reason)
            content = next(download.parts(answer), b"")
            return Start(content[:FIRST_BYTES], _described(answer))
    except download.FetchFailed as why:
        raise errors.DownloadFailed(url=source.shown, reason=str(why)) from None


def _described(answer: http.client.HTTPResponse) -> str:
    _, slash, whole = (answer.headers.get("Content-Range") or "").rpartition("/")
    size = whole if slash else answer.headers.get("Content-Length") or ""
    changed = answer.headers.get("Last-Modified")
    text = _size_text(int(size)) if size.isdecimal() else "of unknown size"
    return f"{text}, changed on {changed[:64]}" if changed else text


def _size_text(size: int) -> str:
    return f"{size / _MIB:.1f} MiB"


def find_files(conf: Configuration, given: Mapping[str, str]) -> Iterator[Verdict]:
    """Fetch the first KiB of files.

    :param given: where a URL stands -> the URL.
    """
    for path, url in list(given.items())[:_MOST_URLS]:
        place = path
        try:
            place = f"{path} {download.read_source(url, path).shown}"
            found = read_start(conf, url, path)
        except errors.Error as why:
            yield failed(f"{place}: {why.message}", "Put the file there, or correct the URL.")
        else:
            yield passed(f"{place}: {found.about}")


def configured_files(conf: Configuration, *names: str) -> dict[str, str]:
    """Return the URLs of options of [conductor], general ones and those by architecture."""
    found = {}
    for name in names:
        if conf.conductor[name]:
            found[f"[conductor]{name}"] = conf.conductor[name]
        for arch, url in (conf.conductor[f"{name}_by_arch"] or {}).items():
            found[f"[conductor]{name}_by_arch {arch}"] = url
    return found


# -- the file server --------------------------------------------------------------------------


def find_file_server(conf: Configuration) -> Iterator[Verdict]:
    """Write a file below [deploy]http_root, and fetch it by its URL."""
    if not (machine.RAMDISK_BOOT - {"pxe"}) & set(conf.enabled_boot_interfaces):
        return
    try:
        base = published.base()
    except errors.MissingParameter:
        yield warning(
            "[deploy]http_url and http_port are not set: neither boot media nor iPXE work",
            "Set [deploy]http_host and http_port for the conductor to serve the files, or http_url "
            "for another web server; or disable these boot interfaces.",
        )
        return
    name, content = f"doctor-{secrets.token_hex(8)}", secrets.token_hex(16)
    published.write(published.root() / name, content)
    try:
        yield _check_served(conf, f"{base}/{name}", content)
    finally:
        published.remove(published.root() / name)


def _check_served(conf: Configuration, url: str, content: str) -> Verdict:
    base = url.rpartition("/")[0]
    try:
        with download.get(url, _terms(conf, conf.webserver_verify_ca, guarded=False), {}) as answer:
            status = answer.status
            body = b"".join(download.parts(answer))
    except download.FetchFailed as why:
        do = "Start the web server, or correct [deploy]http_url; machines and BMCs need it."
        return failed(f"{base}: {why}", do)
    if status == HTTPStatus.OK and body == content.encode():
        return _check_base(base)
    do = "Let the web server of [deploy]http_url serve [deploy]http_root, and read its files."
    text = f"{base} does not serve {published.folder()}: a file written there gives {status}"
    return failed(text if status != HTTPStatus.OK else f"{text} with other content", do)


def _check_base(base: str) -> Verdict:
    if config.is_loopback(published.host(base)) or published.host(base) == "localhost":
        do = "Set [deploy]http_host, or http_url, to an address in the network of the machines."
        return warning(f"{base} is loopback: no other machine reaches it", do)
    return passed(f"{base} serves {published.folder()}")


# -- the call-back URL ------------------------------------------------------------------------


def find_callback(conf: Configuration) -> Iterator[Verdict]:
    """Fetch /v1 at the URLs by which agents call the API."""
    if not machine.RAMDISK_BOOT & set(conf.enabled_boot_interfaces):
        return
    either = {
        "[service_catalog]endpoint_override": conf.service_catalog.endpoint_override,
        "[api]public_endpoint": conf.api.public_endpoint,
    }
    places = [(option, url) for option, url in either.items() if url][:1]
    if conf.deploy.external_callback_url:
        places.append(("[deploy]external_callback_url", conf.deploy.external_callback_url))
    if not places:
        yield warning(
            "[service_catalog]endpoint_override is not set: ramdisks have no URL to call back",
            "Set it to the URL at which machines reach the API, such as http://192.0.2.10:6385.",
        )
        return
    for option, given in places:
        url = given.rstrip("/").removesuffix("/v1")
        host = urllib.parse.urlsplit(url).hostname or ""
        if config.is_loopback(host) or host == "localhost":
            do = "Set it to an address of the API in the network of the machines."
            yield warning(f"{option} {url} is loopback: no ramdisk reaches it", do)
        yield _check_callback(conf, f"{option} {url}", f"{url}/v1")


def _check_callback(conf: Configuration, place: str, url: str) -> Verdict:
    do = "Correct the option, or start the API and whatever stands before it."
    trusted = str(conf.agent.api_ca_file or conf.webserver_verify_ca)
    try:
        with download.get(url, _terms(conf, trusted, guarded=False), {}) as answer:
            status, body = answer.status, bounded_http.content(answer, _MIB)
    except (download.FetchFailed, OSError, http.client.HTTPException) as why:
        return failed(f"{place}: {why}", do)
    if status != HTTPStatus.OK or b'"v1"' not in body:
        return failed(f"{place} does not lead to this API: GET /v1 gives {status}", do)
    return passed(f"{place} answers GET /v1")


# -- TFTP ---------------------------------------------------------------------------------------


def find_tftp(conf: Configuration, port: int = TFTP_PORT) -> Iterator[Verdict]:
    """Request the first block of the boot loaders by TFTP.

    A fault is a warning if options only imply the server: the site may boot from virtual media.
    """
    if not machine.TFTP_BOOT & set(conf.enabled_boot_interfaces):
        return
    server = conf.pxe.tftp_server or conf.my_ip or published.host(conf.deploy.http_url or "")
    if not server:
        yield warning(
            "neither [pxe]tftp_server nor [deploy]http_url is set: machines cannot boot over the "
            "network",
            "Set [pxe]tftp_server, or remove ipxe and pxe from [DEFAULT]enabled_boot_interfaces.",
        )
        return
    chosen = bool(conf.pxe.tftp_server) or conf.dhcp.dhcp_provider == "dnsmasq"
    for option, name in _loaders(conf).items():
        place = f"{option} {name} from {server}"
        do = f"Start a TFTP server there, and put {name} into its folder (ironic-lite-netboot)."
        try:
            size = first_tftp_block(server, name, port)
        except TftpFailed as why:
            less = f"{do} Without network boot: remove ipxe and pxe from enabled_boot_interfaces."
            text = f"{place}: {why}"
            yield failed(text, do) if chosen else warning(text, less)
        else:
            yield passed(f"{place}: {size} bytes in the first block")


def _loaders(conf: Configuration) -> dict[str, str]:
    """Return the loaders for the default boot mode: option -> file."""
    uefi = conf.deploy.default_boot_mode == "uefi"
    found = {}
    for interface in sorted(machine.TFTP_BOOT & set(conf.enabled_boot_interfaces)):
        name = f"{'uefi_' if uefi else ''}{interface}_bootfile_name"
        found[f"[pxe]{name}"] = str(conf.pxe[name])
    return found
