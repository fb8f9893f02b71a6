"""``ironic-lite-status``: obstacles to an upgrade, and the checks of the doctor."""

from __future__ import annotations

from ironic_lite.core import threads

threads.native()  # before anything imports an oslo library

import contextlib  # noqa: E402
import dataclasses  # noqa: E402
import datetime  # noqa: E402
import errno  # noqa: E402
import http.client  # noqa: E402
import json  # noqa: E402
import os  # noqa: E402
import pickle  # noqa: E402
import signal  # noqa: E402
import socket  # noqa: E402
import ssl  # noqa: E402
import sys  # noqa: E402
import urllib.parse  # noqa: E402
from collections.abc import Iterator, Mapping, Sequence  # noqa: E402
from functools import partial  # noqa: E402
from http import HTTPStatus  # noqa: E402
from typing import Any  # noqa: E402

from oslo_config import cfg  # noqa: E402

from ironic_lite import errors, features, membership  # noqa: E402
from ironic_lite.api.http import listen_socket  # noqa: E402
from ironic_lite.checks import database, examiner, machine, start  # noqa: E402
from ironic_lite.cmd import entry, supervise  # noqa: E402
from ironic_lite.core import bounded_http, clock, config  # noqa: E402
from ironic_lite.core.json_types import Json  # noqa: E402
from ironic_lite.core.options import Configuration  # noqa: E402
from ironic_lite.db.engine import encryption, session  # noqa: E402
from ironic_lite.db.engine.session import Database  # noqa: E402
from ironic_lite.db.queries import conductors  # noqa: E402
from ironic_lite.db.tables import reencryption  # noqa: E402
from ironic_lite.domain import examination  # noqa: E402
from ironic_lite.domain.examination import Check, Finding, Status, Verdict, failed, passed, warning  # noqa: E402
from ironic_lite.images import download  # noqa: E402
from ironic_lite.rpc import contract  # noqa: E402

# ``ironic-lite-status doctor``: checks of this machine, and those of the service if it runs.
#
# The command makes its own checks without the service: options, database, disk, programs,
# certificates. It asks the API for all other checks. An API that cannot be reached is one failed
# check.

THIS_MACHINE = "this machine"
DOCTOR_SECONDS = 45.0
"""Time limit of everything; an examination by the API takes up to 30 seconds."""
_CONNECT = 5.0
_MOST_BYTES = 16 * 1024 * 1024
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}
_LOGIN_ADVICE = (
    "Set OS_USERNAME and OS_PASSWORD (http_basic) or OS_TOKEN (keystone) in the environment, or "
    "run baremetal doctor."
)


@dataclasses.dataclass(slots=True)
class MachineSubject:
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
            made = contextlib.closing(start.open_database(self.conf))
            self._database = self.opened.enter_context(made)
        return self._database


# -- the checks ---------------------------------------------------------------------------------


def find_options(subject: MachineSubject) -> Iterator[Verdict]:
    """Check the options for both the API and the conductor."""
    yield from machine.find_api_options(subject.conf)
    yield from machine.find_conductor_options(subject.conf)


def find_folder(subject: MachineSubject) -> Iterator[Verdict]:
    """Check the folder for state, if this machine has one."""
    path = config.state_path(subject.conf)
    if path.exists():
        yield from machine.find_folder("[DEFAULT]state_path", path)
    else:
        yield passed(f"[DEFAULT]state_path {path} can be made, at the first start")


def find_certificates(subject: MachineSubject) -> Iterator[Verdict]:
    """Check the certificates that the configuration names."""
    own = config.api_certificate(subject.conf)
    for option, path in (
        ("[api]ssl_cert_file", own and own[0]),
        ("[deploy]http_ssl_cert_file", subject.conf.deploy.http_ssl_cert_file),
    ):
        if path:
            yield from machine.find_certificate(option, path, machine.RENEW_ADVICE)


def find_service(subject: MachineSubject) -> Iterator[Verdict]:
    """Ask the API for its examination."""
    if subject.conf.api.unix_socket and not subject.url:
        text = f"the API listens at {subject.conf.api.unix_socket}, which has no URL"
        yield warning(text, "Name the URL of the proxy before it by --url.")
        return
    url = subject.url or _own_url(subject.conf)
    do = "Start ironic-lite or ironic-lite-api; if the API is elsewhere, name it by --url."
    try:
        status, body = _fetch_examination(subject, url)
    except (OSError, http.client.HTTPException, ValueError) as why:
        reason = getattr(why, "strerror", None) or str(why) or type(why).__name__
        yield failed(f"the API at {url} cannot be reached: {reason.lower()}", do)
        return
    if status == HTTPStatus.OK and isinstance(body.get("checks"), list):
        subject.told = [Finding.from_json(one) for one in body["checks"]]
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
    scheme = "http" if config.api_certificate(conf) is None else "https"
    return f"{scheme}://{shown}:{conf.api.port}"


def _fetch_examination(subject: MachineSubject, url: str) -> tuple[int, Json]:
    parts = urllib.parse.urlsplit(url)
    limits = bounded_http.Limits(
        connect=_CONNECT, whole=DOCTOR_SECONDS - _CONNECT, size=_MOST_BYTES
    )
    query = f"?{urllib.parse.urlencode({'node': subject.node})}" if subject.node else ""
    tls = _tls_context(subject.conf, subject.url) if parts.scheme == "https" else None
    made = bounded_http.Connection(parts.hostname or "", parts.port, limits=limits, tls=tls)
    path = parts.path.rstrip("/").removesuffix("/v1")
    with contextlib.closing(made):
        answer = made.exchange("GET", f"{path}/v1/doctor{query}", _login_headers())
        body = bounded_http.json_value(bounded_http.content(answer, _MOST_BYTES))
    return answer.status, body if isinstance(body, dict) else {}


def _tls_context(conf: Configuration, url: str | None) -> ssl.SSLContext:
    """Return settings that trust OS_CACERT or public authorities; for our API, its own file."""
    own = config.api_certificate(conf)
    if url or own is None:
        return download.trusted_tls(os.environ.get("OS_CACERT", "True"))
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
        found["Authorization"] = bounded_http.basic_login(user, os.environ.get("OS_PASSWORD", ""))
    return found


def _reason_in(body: Json) -> str:
    """Return the sentence in the body of an error."""
    message: Any = body.get("error_message")
    with contextlib.suppress(ValueError):
        message = json.loads(message) if isinstance(message, str) else message
    found = message.get("faultstring") if isinstance(message, dict) else None
    return str(found or "no reason is given")[:500]


DOCTOR_CHECKS: tuple[Check[MachineSubject], ...] = (
    Check("options", "As in the API and in a conductor.", find_options, "Correct the option."),
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
    Check(
        "programs",
        "As in a conductor.",
        lambda subject: machine.find_programs(subject.conf),
        "Install the program.",
    ),
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


def find_transport(subject: MachineSubject) -> Iterator[Verdict]:
    """Check the transports as all programs do at their start."""
    start.check_transports(subject.conf)
    yield passed("[DEFAULT]transport_url and the options of notifications can be used")


def find_api(subject: MachineSubject) -> Iterator[Verdict]:
    """Check certificate, logins and policy as the API does at its start."""
    listen_socket.check_tls(subject.conf)
    entry.load("ironic_lite.api.server").check(subject.conf)
    entry.load("ironic_lite.api.policy.enforcement").build_enforcer(subject.conf)
    if subject.conf.api.unix_socket:
        listen_socket.check_path(subject.conf.api.unix_socket)
    else:
        _check_address("[api]host, port", subject.conf.api.host, subject.conf.api.port)
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


def find_conductor(subject: MachineSubject) -> Iterator[Verdict]:
    """Load keys, drivers and rules as a conductor does at its start."""
    encryption.Keys(subject.conf.database.encryption_keys)
    supervise.children(subject.conf, registered=supervise.Flag())
    registry = entry.load("ironic_lite.drivers.registry")
    found = registry.Registry.load(registry.Settings.read(subject.conf))
    for what, reason in found.failures.items():
        yield warning(f"{what} cannot be loaded: {reason}", "Install it, or disable it.")
    start.check_servers(subject.conf)
    deploy = subject.conf.deploy
    if deploy.http_port is not None:
        entry.load("ironic_lite.conductor.fileserver").configured(subject.conf)
        _check_address("[deploy]http_host, http_port", deploy.http_host, deploy.http_port)
    with contextlib.closing(session.configured(subject.conf)) as closed:
        entry.load("ironic_lite.conductor.service").ConductorService(
            subject.conf, closed, found, None
        )
    yield passed(f"hardware types {', '.join(found.hardware_types)}")


STARTS: tuple[Check[MachineSubject], ...] = (
    *(one for one in DOCTOR_CHECKS if one.name in ("options", "programs", "certificate")),
    Check("transport", "As at a start.", find_transport, "Correct the option."),
    Check("API", "As at a start.", find_api, "Correct the option."),
    Check("conductor", "As at a start.", find_conductor, "Correct the option."),
    database.SERVER,
    database.SCHEMA,
    database.KEYS,
)
"""Checks of all that stops the start of a program, made without a start."""
STARTS_OF: Mapping[str, Sequence[Check[MachineSubject]]] = {
    config.API: [one for one in STARTS if one.name != "conductor"],
    "ironic-lite-conductor": [one for one in STARTS if one.name != "API"],
}
"""The same for the programs of one part each."""


# -- the command --------------------------------------------------------------------------------


def add_doctor_arguments(parser: Any) -> None:
    """Add the arguments of the command."""
    parser.add_argument("--node", metavar="NODE", help="examine this node, too: name or UUID")
    parser.add_argument(
        "--url", metavar="URL", help="of the API (default: the configured address of this machine)"
    )
    parser.add_argument(
        "-f", dest="form", choices=("text", "json"), default="text", help="form of the output"
    )


def run_doctor(
    conf: Configuration,
    *,
    node: str | None = None,
    url: str | None = None,
    form: str = "text",
    table: Sequence[Check[MachineSubject]] = DOCTOR_CHECKS,
    where: str = THIS_MACHINE,
) -> int:
    """Make all checks and print them; return 0, 1 for a warning, or 2 for a failed check."""
    with start.quiet(), contextlib.ExitStack() as opened:
        subject = MachineSubject(conf, node, url, opened)
        at = clock.now().replace(tzinfo=datetime.UTC).isoformat()
        own = examiner.Examiner().examine(examiner.lines(where, table, subject), DOCTOR_SECONDS)
    findings = own + subject.told
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


def write_reading(argv: Sequence[str]) -> None:
    """Read and check a program's configuration as at its start, for `entry.Reload`.

    A file gets the release, the `entry.Reading` and the faults, by pickle.

    :param argv: the descriptor of that file, the name of the program, and its command line.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    number, prog, *given = argv
    try:
        with start.quiet(), contextlib.ExitStack() as opened:
            conf: Any = config.load(prog, given, create=False)
            features.enabled(conf)
            subject = MachineSubject(conf, None, None, opened)
            lines = examiner.lines(prog, STARTS_OF.get(prog, STARTS), subject)
            findings = examiner.Examiner().examine(lines, DOCTOR_SECONDS)
        faults = [one.text for one in findings if one.status is Status.FAILED]
        unknown = (f"{one.name}: {one.text}" for one in findings if one.status is Status.UNKNOWN)
        found: object = (config.version(), entry.read_again(conf), faults or list(unknown))
    except errors.Error as why:
        found = (config.version(), None, [why.message])
    except Exception as why:
        entry.LOG.exception("The configuration cannot be checked")
        found = (config.version(), None, [f"its checks end by a fault: {type(why).__name__}"])
    with open(int(number), "wb") as answer:
        answer.write(pickle.dumps(found))


PROG = "ironic-lite-status"


def _find_old_rows(subject: MachineSubject) -> Iterator[Verdict]:
    yield from list(database.find_old_rows(subject)) or [passed("no row is of an older form")]


def find_keys_in_use(subject: MachineSubject) -> Iterator[Verdict]:
    """Compare the encryption keys with those that all rows need, also rows of large tables."""
    keys = encryption.keys_of(subject.database.engine)
    needed = subject.database.read(reencryption.used)
    missing = keys.lacks(needed)
    older = ", ".join(sorted(needed - {keys.first, encryption.PLAIN}))
    if missing:
        yield failed(errors.KeyMissing(key=", ".join(missing)).message, "")
    elif older:
        yield passed(f"older ones are still needed ({older}) until all is reencrypted")
    else:
        yield passed("all encrypted values use the first key, or nothing is encrypted")


def find_versions(subject: MachineSubject) -> Iterator[Verdict]:
    """Compare the releases of the living conductors with this one."""
    here = config.version()
    living = membership.Membership(subject.conf.conductor.heartbeat_timeout)
    rows = [row for row in subject.database.read(conductors.all) if living.lives(row)]
    others = ", ".join(
        f"{row['hostname']} ({row['version']})" for row in rows if row["version"] != here
    )
    if others:
        yield warning(f"conductors of another version than {here} are up: {others}", "")
    else:
        yield passed(f"no conductor of another version than {here} is up")


def find_pin(subject: MachineSubject) -> Iterator[Verdict]:
    """Check that a release is pinned only while there are conductors of two releases."""
    pin, here = contract.pinned_release(subject.conf), contract.release_of(config.version())
    if pin is None:
        yield passed("no release is pinned")
    elif all(one.status is Status.OK for one in find_versions(subject)):
        yield warning(f"{pin} is pinned, but all conductors are of {here}", "Remove the pin.")
    else:
        yield passed(f"{pin} is pinned while conductors are upgraded")


def find_deprecated(subject: MachineSubject) -> Iterator[Verdict]:
    """Find deprecated names of options in the configuration."""
    conf: Any = subject.conf
    found = config.deprecated(config.assigned_values(conf))
    yield warning("; ".join(found), "") if found else passed("no deprecated option is set")


UPGRADE_CHECKS: tuple[Check[MachineSubject], ...] = (
    # The other checks need the tables that the first one checks.
    Check("database schema", "The tables are of this release.", database.find_tables),
    Check("data migrations", "No row is of an older form.", _find_old_rows),
    Check("encryption keys", "All keys that values need are configured.", find_keys_in_use),
    Check("conductors", "All living conductors are of this release.", find_versions),
    Check("deprecations", "No option is set by a deprecated name.", find_deprecated),
    Check("pin_release_version", "A pin is removed after the upgrade.", find_pin),
)
_WORDS = {Status.OK: "Success", Status.WARNING: "Warning", Status.FAILED: "Failure"}


def check_upgrade(conf: Configuration) -> int:
    """Print each check with its message until one fails; return the worst result.

    :raises errors.Error: the database cannot be opened, or is away.
    """
    worst = Status.OK
    with start.quiet(), contextlib.ExitStack() as opened:
        subject = MachineSubject(conf, None, None, opened)
        for check in UPGRADE_CHECKS:
            (found,) = check.find(subject)
            advice = f": {found.do[0].lower()}{found.do[1:].rstrip('.')}" if found.do else ""
            print(f"{_WORDS[found.status]:<8} {check.name}: {found.text}{advice}")
            worst = examination.worst((worst, found.status))
            if found.status is Status.FAILED:
                break
    return examination.exit_status(worst)


CHECK = "check-ironic-conf"
"""The command that needs no configuration of its own."""


def _add_commands(commands: Any) -> None:
    about = "checks before and after an upgrade"
    upgrade = commands.add_parser("upgrade", help=about, description=about)
    what = upgrade.add_subparsers(dest="what", required=True)
    what.add_parser("check", help="exit status 0: no problem; 1: a warning; 2: it would fail")
    about = "check what stops a program's start, without a start"
    starts = commands.add_parser("config", help=about, description=about)
    starts.add_argument(
        "--program",
        choices=tuple(STARTS_OF),
        help="only what this program needs (default: what all programs need)",
    )
    about = "examine this machine, the service and a node; works without the service, too"
    status = f"{about}. Exit status 0: all is well; 1: a warning; 2: a check has failed."
    add_doctor_arguments(commands.add_parser("doctor", help=about, description=status))
    commands.add_parser(CHECK, help="show what becomes of each line of Ironic's configuration")
    commands.add_parser(
        "files", help="print the folder with the units and examples of this release"
    )
    features.add_commands(commands)


def _run_command(conf: Any) -> int:
    asked = conf.command
    if asked.name == "doctor":
        return run_doctor(conf, node=asked.node, url=asked.url, form=asked.form)
    if asked.name == "config":
        return _check_starts(conf)
    if asked.name == "upgrade":
        return check_upgrade(conf)
    if asked.name == "files":
        print(config.sample_path().parents[1])
        return 0
    url = asked.url or conf.api.unix_socket or _own_url(conf)
    trusted = partial(_tls_context, conf, asked.url)
    return features.run_command(conf, url, _login_headers(), trusted)


def _check_starts(conf: Any) -> int:
    """Check the configuration of each program that this machine can start."""
    only, worst = conf.command.program, 0
    places = (conf.get_location(name) for name in ("config_file", "config_dir"))
    if any(one is not None and one.location is cfg.Locations.command_line for one in places):
        return run_doctor(conf, table=STARTS_OF.get(only, STARTS))
    common = config.files(config.PROJECT)
    apart = any(config.files(prog) != common for prog in STARTS_OF)
    # Without files of their own, all programs read the same ones.
    programs = STARTS_OF if apart or only else {config.PROJECT: STARTS}
    for prog, table in programs.items():
        if only not in (None, prog):
            continue
        config.load(prog, ["config"], create=False)
        worst = max(worst, run_doctor(conf, table=table, where=f"{THIS_MACHINE}, {prog}"))
    return worst


def check_ironic_conf(argv: Sequence[str]) -> int:
    """Print what becomes of each line of Ironic's files, and return the exit status."""
    try:
        return features.check_ironic_conf(argv, f"{PROG} {CHECK}")
    except errors.Error as why:
        return entry.refuse(PROG, why)


def main(argv: Sequence[str] | None = None) -> None:
    """Entry point."""
    command = cfg.SubCommandOpt(
        "command", title="Commands", help="The command to run.", handler=_add_commands
    )
    about = "Check an installation."
    given = sys.argv[1:] if argv is None else argv
    if given[:1] == [CHECK]:
        sys.exit(check_ironic_conf(given[1:]))
    sys.exit(entry.run(PROG, about, _run_command, argv, cli_opts=[command], create=False))


if __name__ == "__main__":
    main()
