"""``ironic-lite-status doctor``: checks of this machine, and those of the service if it runs.

The command makes its own checks without the service: options, database, disk, programs,
certificates. It asks the API for all other checks. An API that cannot be reached is one failed
check.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import datetime
import errno
import http.client
import json
import os
import socket
import ssl
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import Any

from ironic_lite import errors
from ironic_lite.api.traffic import listen_socket
from ironic_lite.cmd import checks, conductors, entry, processes
from ironic_lite.core import bounded_http, clock, config
from ironic_lite.core.configuration import Configuration
from ironic_lite.core.json_types import Json
from ironic_lite.db.engine import encryption, session
from ironic_lite.db.engine.session import Database, Transactions
from ironic_lite.doctor import certificates, database, disk, options, programs, rounds
from ironic_lite.domain import examination
from ironic_lite.domain.examination import Check, Finding, Verdict, failed, passed, warning
from ironic_lite.images import reach

WHERE = "this machine"
SECONDS = 45.0
"""Time limit of everything; an examination by the API takes up to 30 seconds."""
_CONNECT = 5.0
_MOST_BYTES = 16 * 1024 * 1024
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_LOGIN_ADVICE = (
    "Set OS_USERNAME and OS_PASSWORD (http_basic) or OS_TOKEN (keystone) in the environment, or "
    "run baremetal doctor."
)


@dataclasses.dataclass(slots=True)
class Place:
    """The subject of the command's checks; they share one database, opened by the first.

    ``told`` are the findings of the API. ``url`` is its address, None for the configured one.
    """

    conf: Configuration
    node: str | None
    url: str | None
    opened: contextlib.ExitStack
    told: list[Finding] = dataclasses.field(default_factory=list)
    _database: Database | None = None

    @property
    def database(self) -> Database:
        """The database.

        :raises errors.Error: it cannot be opened, or its SQLite file does not exist.
        """
        if self._database is None:
            made = contextlib.closing(checks.database(self.conf))
            self._database = self.opened.enter_context(made)
        return self._database

    @property
    def transactions(self) -> Transactions:
        """The database."""
        return self.database


# -- the checks ---------------------------------------------------------------------------------


def find_options(place: Place) -> Iterator[Verdict]:
    """Check the options for both the API and the conductor."""
    yield from options.find_in_api(place.conf)
    yield from options.find_in_conductor(place.conf)


def find_folder(place: Place) -> Iterator[Verdict]:
    """Check the folder for state, if this machine has one."""
    path = config.state_path(place.conf)
    if path.exists():
        yield from disk.find_folder("[DEFAULT]state_path", path)
    else:
        yield passed(f"[DEFAULT]state_path {path} can be made, at the first start")


def find_programs(place: Place) -> Iterator[Verdict]:
    """Check the programs that enabled drivers need."""
    yield from programs.find_programs(place.conf)


def find_certificates(place: Place) -> Iterator[Verdict]:
    """Check the certificates that the configuration names."""
    own = config.api_certificate(place.conf)
    for option, path in (
        ("[api]ssl_cert_file", own and own[0]),
        ("[deploy]http_ssl_cert_file", place.conf.deploy.http_ssl_cert_file),
    ):
        if path:
            yield from certificates.find_in_file(option, path, certificates.RENEW)


def find_service(place: Place) -> Iterator[Verdict]:
    """Ask the API for its examination."""
    url = place.url or _own_url(place.conf)
    do = "Start ironic-lite or ironic-lite-api; if the API is elsewhere, name it by --url."
    try:
        status, body = _fetch_examination(place, url)
    except (OSError, http.client.HTTPException, ValueError) as why:
        reason = getattr(why, "strerror", None) or str(why) or type(why).__name__
        yield failed(f"the API at {url} cannot be reached: {reason.lower()}", do)
        return
    if status == HTTPStatus.OK and isinstance(body.get("checks"), list):
        place.told = [Finding.from_json(one) for one in body["checks"]]
        yield passed(f"the API at {url} answers; its checks follow")
    elif status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        yield warning(f"the API at {url} needs a login for its checks ({status})", _LOGIN_ADVICE)
    else:
        text = f"the API at {url} answers GET /v1/doctor with {status}: {_reason_in(body)}"
        yield failed(text, "Correct what the text names; or another program has this address.")


def _own_url(conf: Configuration) -> str:
    """Return the address on which this machine's API listens."""
    host = _ANY.get(str(conf.api.host), str(conf.api.host)).strip("[]")
    shown = f"[{host}]" if ":" in host else host
    return (
        f"{'http' if config.api_certificate(conf) is None else 'https'}://{shown}:{conf.api.port}"
    )


def _fetch_examination(place: Place, url: str) -> tuple[int, Json]:
    parts = urllib.parse.urlsplit(url)
    limits = bounded_http.Limits(connect=_CONNECT, whole=SECONDS - _CONNECT, size=_MOST_BYTES)
    query = f"?{urllib.parse.urlencode({'node': place.node})}" if place.node else ""
    tls = _tls_context(place) if parts.scheme == "https" else None
    made = bounded_http.Connection(parts.hostname or "", parts.port, limits=limits, tls=tls)
    path = parts.path.rstrip("/").removesuffix("/v1")
    with contextlib.closing(made):
        answer = made.exchange("GET", f"{path}/v1/doctor{query}", _login_headers())
        body = bounded_http.json_value(bounded_http.content(answer, _MOST_BYTES))
    return answer.status, body if isinstance(body, dict) else {}


def _tls_context(place: Place) -> ssl.SSLContext:
    """Return settings that trust OS_CACERT or public authorities; for our API, its own file."""
    own = config.api_certificate(place.conf)
    if place.url or own is None:
        return reach.trusted(os.environ.get("OS_CACERT", "True"))
    context = bounded_http.tls_context()
    context.check_hostname = False  # the address is this machine's, and its certificate is known
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    context.load_verify_locations(cafile=own[0])
    return context


def _login_headers() -> dict[str, str]:
    found = {"Accept": "application/json", "Connection": "close"}
    user, token = os.environ.get("OS_USERNAME"), os.environ.get("OS_TOKEN")
    if token:
        found["X-Auth-Token"] = token
    elif user:
        pair = f"{user}:{os.environ.get('OS_PASSWORD', '')}"
        found["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    return found


def _reason_in(body: Json) -> str:
    """Return the sentence in the body of an error."""
    message: Any = body.get("error_message")
    with contextlib.suppress(ValueError):
        message = json.loads(message) if isinstance(message, str) else message
    found = message.get("faultstring") if isinstance(message, dict) else None
    return str(found or "no reason is given")[:500]


TABLE: tuple[Check[Place], ...] = (
    Check(
        "options",
        "As in the API and in a conductor.",
        find_options,
        "Correct the option.",
    ),
    database.SERVER,
    database.SCHEMA,
    database.KEYS,
    database.CLOCK,
    database.WRITE,
    Check(
        "disk",
        "``state_path`` is writable, with free space.",
        find_folder,
        "Create the folder, or correct [DEFAULT]state_path.",
    ),
    Check("programs", "As in a conductor.", find_programs, "Install the program."),
    Check(
        "certificate",
        "``[api]ssl_cert_file`` and ``[deploy]http_ssl_cert_file`` are valid for "
        f"{examination.WARNING_DAYS} days.",
        find_certificates,
        "Correct the option.",
    ),
    Check(
        "api",
        "The API answers ``GET /v1/doctor``; its checks follow.",
        find_service,
        "Start ironic-lite or ironic-lite-api.",
    ),
)
"""The checks that the command makes."""


# -- the checks of a configuration ---------------------------------------------------------------


def find_transport(place: Place) -> Iterator[Verdict]:
    """Check the transports as all programs do at their start."""
    checks.transports(place.conf)
    yield passed("[DEFAULT]transport_url and the options of notifications can be used")


def find_api(place: Place) -> Iterator[Verdict]:
    """Check certificate, logins and policy as the API does at its start."""
    listen_socket.check_tls(place.conf)
    entry.load("ironic_lite.api.server").check(place.conf)
    entry.load("ironic_lite.api.policy.enforcer").build(place.conf)
    _check_address("[api]host, port", place.conf.api.host, place.conf.api.port)
    yield passed("certificate, logins and policy file can be used")


def _check_address(option: str, host: str, port: int) -> None:
    """Check that this machine has an address, which a running service may have taken.

    :raises errors.OpenError: it has not, or this user may not listen there.
    """
    try:
        found = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, *_, address = found[0]
        with socket.socket(family, socket.SOCK_STREAM) as tried:
            # A port that needs no rights is left to a service that starts in this moment.
            tried.bind((address[0], port if port < _FREE_PORTS else 0, *address[2:]))
    except OSError as why:
        if why.errno != errno.EADDRINUSE:
            reason = f"cannot listen on {host} port {port}: {why.strerror or why}"
            raise errors.OpenError(reason=f"{option}: {reason}") from None


_FREE_PORTS = 1024
"""The first port that every user may listen on, by default."""


def find_conductor(place: Place) -> Iterator[Verdict]:
    """Load keys, drivers and rules as a conductor does at its start."""
    encryption.Keys(place.conf.database.encryption_keys)
    conductors.children(place.conf, registered=processes.Flag())
    registry = entry.load("ironic_lite.drivers.registry")
    found = registry.Registry.load(registry.Settings.read(place.conf))
    for what, reason in found.failures.items():
        yield warning(f"{what} cannot be loaded: {reason}", "Install it, or disable it.")
    checks.servers(place.conf)
    deploy = place.conf.deploy
    if deploy.http_port is not None:
        entry.load("ironic_lite.conductor.fileserver").configured(place.conf)
        _check_address("[deploy]http_host, http_port", deploy.http_host, deploy.http_port)
    with contextlib.closing(session.configured(place.conf)) as closed:
        entry.load("ironic_lite.conductor.service").Service(place.conf, closed, found, None)
    yield passed(f"hardware types {', '.join(found.hardware_types)}")


STARTS: tuple[Check[Place], ...] = (
    *(one for one in TABLE if one.name in ("options", "programs", "certificate")),
    Check("transport", "As at a start.", find_transport, "Correct the option."),
    Check("API", "As at a start.", find_api, "Correct the option."),
    Check("conductor", "As at a start.", find_conductor, "Correct the option."),
    database.SERVER,
    database.SCHEMA,
    database.KEYS,
)
"""Checks of all that stops the start of a program, made without a start."""
STARTS_OF: Mapping[str, Sequence[Check[Place]]] = {
    config.API: [one for one in STARTS if one.name != "conductor"],
    "ironic-lite-conductor": [one for one in STARTS if one.name != "API"],
}
"""The same for the programs of one part each."""


# -- the command --------------------------------------------------------------------------------


def add_arguments(parser: Any) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--node", metavar="NODE", help="examine this node, too: name or UUID")
    parser.add_argument(
        "--url", metavar="URL", help="of the API (default: the configured address of this machine)"
    )
    parser.add_argument(
        "-f", dest="form", choices=("text", "json"), default="text", help="form of the output"
    )


def run(
    conf: Configuration,
    *,
    node: str | None = None,
    url: str | None = None,
    form: str = "text",
    table: Sequence[Check[Place]] = TABLE,
    where: str = WHERE,
) -> int:
    """Make all checks and print them; return 0, 1 for a warning, or 2 for a failed check."""
    with checks.quiet(), contextlib.ExitStack() as opened:
        place = Place(conf, node, url, opened)
        at = clock.now().replace(tzinfo=datetime.UTC).isoformat()
        own = rounds.Examiner().examine(rounds.lines(where, table, place), SECONDS)
    findings = own + place.told
    if form == "json":
        print(json.dumps(examination.document(findings, at), indent=2))
    else:
        print("\n".join(_text_lines(findings)))
    return examination.exit_status(examination.worst(one.status for one in findings))


def _text_lines(findings: Sequence[Finding]) -> Iterator[str]:
    for finding in findings:
        yield f"{finding.status:<8} {finding.where}: {finding.name}: {finding.text}"
        if finding.do:
            yield f"         Do: {finding.do}"
