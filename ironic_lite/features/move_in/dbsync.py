"""``ironic-lite-dbsync import-ironic`` and ``export-ironic``: arguments, checks, output."""

from __future__ import annotations

import argparse
import contextlib
import getpass
import json
import os
import pathlib
import sys
import time
import traceback
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from ironic_lite import errors, membership
from ironic_lite.core import config
from ironic_lite.core.json_types import Json
from ironic_lite.core.options import Configuration
from ironic_lite.db import copy
from ironic_lite.db.engine import encryption, faults, session
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import conductors
from ironic_lite.db.tables import migrate
from ironic_lite.drivers.registry import Registry, Settings
from ironic_lite.features.move_in import (
    checks,
    exports,
    imports,
    names,
    report,
    rows,
    rules,
    source,
)
from ironic_lite.features.move_in.imports import Import, ImportRequest
from ironic_lite.features.move_in.names import MAPPED_KINDS, PATH
from ironic_lite.features.move_in.rules import DRIVER

IMPORT, EXPORT = "import-ironic", "export-ironic"
_ABOUT = (
    "copy the database of an Ironic from 24.1 to 39 into this one; its nodes are only looked at "
    "until they are released. Exit status 0: everything is here; 1: done, with a loss or left-out "
    "nodes; 2: refused, nothing was written"
)
_ABOUT_EXPORT = (
    "write all changes since an import back into Ironic's database. Exit status 0: all is carried; "
    "1: something has no place there; 2: refused, nothing was written"
)
LOST, STOPPED = 1, 2
_HEARTBEATS = 60.0
"""Seconds between two looks at heartbeats: Ironic's are 10 s apart, unless configured otherwise."""
_MODE = 0o600


def add_commands(parsers: Any) -> None:
    """Add the commands to ``ironic-lite-dbsync``."""
    _add_import(parsers)
    _add_export(parsers)


def _add_import(parsers: Any) -> None:
    made = parsers.add_parser(IMPORT, help=_ABOUT.partition(";")[0], description=_ABOUT)
    made.set_defaults(act=run)
    made.add_argument(
        *("--from",), dest="source", required=True, metavar="URL|ironic.conf", help="the database"
    )
    made.add_argument("--check", action="store_true", help="report only, and write nothing")
    made.add_argument(
        "--trial",
        action="store_true",
        help="while Ironic runs: the nodes can never be released; leaves out nodes in motion",
    )
    made.add_argument(
        "--group", action="append", default=[], help="only nodes of this conductor group"
    )
    made.add_argument("--nodes", default="", metavar="NAME,UUID,...|@FILE", help="only these nodes")
    made.add_argument(
        "--map",
        action="append",
        default=[],
        type=_read_map,
        metavar="KIND:OLD=NEW",
        help=f"another name, of {DRIVER}, a kind of interface, or {PATH}",
    )
    made.add_argument("--end", action="store_true", help="end the work of nodes in motion")
    made.add_argument("--leave-out", action="store_true", help="leave out nodes that are refused")
    made.add_argument(
        "--history",
        type=_read_count,
        metavar="N",
        help="newest entries of history for each node, 0: all",
    )
    _add_common(made)


def _add_export(parsers: Any) -> None:
    made = parsers.add_parser(
        EXPORT, help=_ABOUT_EXPORT.partition(".")[0], description=_ABOUT_EXPORT
    )
    made.set_defaults(act=run_export)
    made.add_argument(
        *("--to",), dest="target", required=True, metavar="URL|ironic.conf", help="the database"
    )
    what = made.add_mutually_exclusive_group(required=True)
    what.add_argument("--check", action="store_true", help="report only, and write nothing")
    what.add_argument("--yes", action="store_true", help="write; make a backup of it before")
    made.add_argument("--import", dest="origin", metavar="UUID", help="one of several imports")
    _add_common(made)


def _add_common(made: Any) -> None:
    made.add_argument(
        "--conductors-stopped", action="store_true", help="do not look for conductors of Ironic"
    )
    made.add_argument("-f", "--format", dest="form", choices=("text", "json"), default="text")
    made.add_argument("--output", metavar="FILE", help="write the whole report to this file")


def _read_map(text: str) -> tuple[str, str, str]:
    kind, _, rest = text.partition(":")
    old, _, new = rest.partition("=")
    if kind not in (*MAPPED_KINDS, PATH) or not old or not new:
        known = ", ".join((*MAPPED_KINDS, PATH))
        raise argparse.ArgumentTypeError(f"{text!r} is no KIND:OLD=NEW; kinds are {known}")
    if kind != PATH and not names.is_installed(kind, new):
        raise argparse.ArgumentTypeError(f"{text!r}: {new} is no {kind} of this service")
    return kind, old, new


def _read_count(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is no number")
    return int(text)


def _read_nodes(text: str) -> tuple[str, ...]:
    if text.startswith("@"):
        try:
            text = pathlib.Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, ValueError) as why:
            raise config.ConfigError(reason=f"--nodes: {text[1:]}: {why}") from None
    return tuple(rules.canonical_uuid(one) for one in text.replace(",", " ").split())


def _maps(given: Sequence[tuple[str, str, str]]) -> rules.Maps:
    found: dict[str, dict[str, str]] = {}
    for kind, old, new in given:
        if kind != PATH:
            found.setdefault(kind, {})[old] = new
    return rules.Maps(found, tuple((old, new) for kind, old, new in given if kind == PATH))


def _request(conf: Any) -> ImportRequest:
    asked = conf.command
    history = conf.conductor.node_history_max_entries if asked.history is None else asked.history
    return ImportRequest(
        check=asked.check,
        trial=asked.trial,
        groups=tuple(group.lower() for group in asked.group),
        nodes=_read_nodes(asked.nodes),
        maps=_maps(asked.map),
        end=asked.end,
        leave_out=asked.leave_out,
        history=history,
        by=_user(),
        portgroup_mode=conf.default_portgroup_mode,
    )


def _user() -> str:
    try:
        return os.environ.get("SUDO_USER") or getpass.getuser()
    except (KeyError, OSError):  # an account without a name
        return str(os.geteuid())


def run(conf: Any, database: Database) -> int:
    """Run the command, and return its exit status.

    :raises errors.Error: it is refused before a row was looked at.
    """
    asked = conf.command
    with contextlib.ExitStack() as opened:
        with nothing_written():
            if "move_in" not in conf.features.enabled:
                reason = f"{IMPORT} needs the feature move_in. Add it to [features]enabled"
                raise config.ConfigError(reason=reason)
            migrate.check(database)
            _check_output(asked)
            request = _request(conf)
            _check_target(conf, database)
            known = names.NameTable(Registry.load(Settings.read(conf)))
            folders = checks.KnownFolders(
                tuple(conf.conductor.file_url_allowed_paths), conf.redfish.ca_folder
            )
            patient = opened.enter_context(contextlib.closing(session.patient(database)))
            there = source.open_database(patient, asked.source)
            opened.callback(there.close)
            warnings = check_conductors(there, request, stopped=asked.conductors_stopped)
            snapshot = opened.enter_context(source.open_snapshot(there))
            made = Import(snapshot, request, known, checks.NodeChecks(folders), _progress())
            taken = imports.perform(patient, made, check=request.check)
        made.report.extend(warnings, "import")
        lost = made.left_out or made.report.has(report.LOSS, report.REFUSED)
        status = (LOST if lost else 0) if taken else STOPPED
        _print(asked, made, snapshot, status, encryption.keys_of(database.engine).first)
    return status


@contextlib.contextmanager
def nothing_written() -> Iterator[None]:
    """Add to errors that nothing was written, and let unexpected ones be one line as others.

    The text of an unexpected error is not shown, because it may have a secret of a node.

    :raises errors.Error: in place of each other error.
    """
    try:
        yield
    except errors.Unavailable as why:
        more = "Nothing was written."
        if why.facts.get("doubtful"):
            more = "Repeat the command: it is refused if its nodes are here already."
        raise errors.Error(f"{why.message} {more}") from None
    except errors.Error:
        raise
    except Exception as why:
        place = traceback.extract_tb(why.__traceback__)[-1]
        said = f": {faults.reason(why)}" if isinstance(why, faults.DRIVER_ERRORS) else ""
        raise errors.Error(
            f"Stopped by an unexpected {type(why).__name__} in line {place.lineno} of "
            f"{pathlib.Path(place.filename).name}{said}. Nothing was written. Please report this "
            f"line to the developers, with the version {config.version()}."
        ) from why


def _progress() -> Callable[[str, int], None]:
    """Return what prints a line a second on a terminal."""
    if not sys.stderr.isatty():
        return lambda _table, _count: None
    last = time.monotonic()

    def show(table: str, count: int) -> None:
        nonlocal last
        if time.monotonic() - last >= 1:
            last = time.monotonic()
            print(f"{table}: {count}", file=sys.stderr)

    return show


def _check_target(conf: Configuration, database: Database) -> None:
    """Refuse a service whose conductors do not know observed nodes.

    :raises errors.Conflict: a conductor is older, or alive while the database is SQLite.
    """
    seconds = conf.conductor.heartbeat_timeout
    if database.kind == "sqlite":
        membership.refuse_living(lambda: database.read(conductors.all), seconds, "you import")
        return
    living = membership.living_hosts(lambda: database.read(conductors.all), seconds)
    for row in database.read(conductors.all):
        if row["hostname"] in living and row["version"] != config.version():
            raise errors.Conflict(
                f"Conductor {row['hostname']} runs version {row['version']}, this program "
                f"{config.version()}: upgrade it first, because it may not know observed nodes."
            )


def _wait() -> None:
    print(f"Waiting {_HEARTBEATS:g} s for heartbeats of Ironic's conductors.", file=sys.stderr)
    time.sleep(_HEARTBEATS)


def check_conductors(
    there: Database,
    request: ImportRequest,
    *,
    stopped: bool,
    wait: Callable[[], None] = _wait,
) -> list[report.MoveFinding]:
    """Refuse while conductors of the selected nodes run there; a check only reports them.

    :param wait: lets time for a heartbeat pass.
    :raises errors.Conflict: one runs.
    """
    if request.trial or stopped:
        return []
    with source.open_snapshot(there) as snapshot:
        head = snapshot.head
        selected = Import(snapshot, request, _NO_NAMES, checks.NodeChecks(_NO_FOLDERS))
    online = _online(there, head, selected.groups)
    if online and there.kind != "sqlite" and not request.check:
        wait()
        # Also those that have started since: an unchanged row alone is of a killed one.
        online = [one for one in _online(there, head, selected.groups) if one not in online]
    found = [
        f"conductor {one.hostname} is up, or was killed; stop it, or add --conductors-stopped"
        for one in online
    ]
    if found and not request.check:
        raise errors.Conflict(f"Ironic's {'; '.join(found)}. Nothing was written.")
    return [report.MoveFinding(report.INFO, "conductor", "", text) for text in found]


_NO_NAMES = names.NameTable(Registry({}, {kind: {} for kind in MAPPED_KINDS[1:]}, {}, {}))
_NO_FOLDERS = checks.KnownFolders((), "/")


def _online(there: Database, head: str, groups: Collection[str]) -> list[source.IronicConductor]:
    return [one for one in _conductors(there, head) if one.online and one.group in groups]


def _conductors(there: Database, head: str) -> list[source.IronicConductor]:
    """Return the conductors there as they are now, outside of any snapshot."""
    with copy.reading(there, "Ironic"):
        return there.read(lambda conn: source.conductors(conn, head))


def _print(asked: Any, made: Import, snapshot: source.Snapshot, status: int, key: str) -> None:
    """Print the report.

    :param key: the name of the key that seals secrets here.
    """
    written = not (asked.check or status == STOPPED)
    document: Json = {
        "source": snapshot.database.name,
        "release": made.release,
        "head": snapshot.head,
        "at": made.move.at.isoformat(),
        "trial": asked.trial,
        "counts": made.report.table_counts(),
        "findings": made.report.documents(),
        "secrets": {
            "values": made.report.secrets,
            "key": None if key == encryption.PLAIN else key,
        },
        "import": made.uuid if written else None,
        "exit": status,
    }
    last = _last_line(made, status, check=asked.check)
    _show(asked, document, made.report, [*report.lines(document), last])


def _open_private(path: str, flags: int) -> int:
    """Open a file that only its owner may read, also if it exists."""
    found = os.open(path, flags, _MODE)
    os.fchmod(found, _MODE)
    return found


def _check_output(asked: Any) -> None:
    """Refuse a file that cannot be written, before anything else is done.

    :raises config.ConfigError: it cannot.
    """
    if asked.output:
        try:
            os.close(_open_private(asked.output, os.O_WRONLY | os.O_CREAT))
        except OSError as why:
            raise config.ConfigError(reason=f"--output: {asked.output}: {why.strerror}") from None


def _show(asked: Any, document: Json, found: report.MoveReport, lines: Sequence[str]) -> None:
    if asked.output:
        whole = {**document, "findings": found.documents(None)}
        try:
            with open(asked.output, "w", encoding="utf-8", opener=_open_private) as file:
                json.dump(whole, file, indent=2)
        except OSError as why:  # what was done stays done, and stands in the lines below
            print(f"--output: {asked.output}: {why.strerror}", file=sys.stderr)
    text = json.dumps(document, indent=2) if asked.form == "json" else "\n".join(lines)
    encoding = sys.stdout.encoding or "ascii"
    try:
        print(text.encode(encoding, "backslashreplace").decode(encoding), flush=True)
    except OSError as why:
        print(f"The report cannot be printed: {why.strerror}", file=sys.stderr)
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # flushed at the exit


def _last_line(made: Import, status: int, *, check: bool) -> str:
    if status == STOPPED:
        return "Refused: nothing was written."
    counts = made.report.counts.get("nodes")
    number = counts[report.WRITTEN] if counts else 0
    if check:
        return f"Nothing was written. The import would write {number} nodes, exit status {status}."
    return f"Import {made.uuid}: {number} nodes are here, and only looked at until their release."


# The way back.


def run_export(conf: Any, database: Database) -> int:
    """Run the command of the way back, and return its exit status.

    :raises errors.Error: it is refused before a row was looked at.
    """
    asked = conf.command
    with contextlib.ExitStack() as opened, nothing_written():
        migrate.check(database)
        _check_output(asked)
        seconds = conf.conductor.heartbeat_timeout
        membership.refuse_living(lambda: database.read(conductors.all), seconds, "you export")
        imported = database.read(lambda conn: rows.origin(conn, asked.origin))
        patient = opened.enter_context(contextlib.closing(session.patient(database)))
        there = source.open_database(patient, asked.target, option="--to", write=asked.yes)
        opened.callback(there.close)
        request = request_of(imported, check=asked.check)
        warnings = check_conductors(there, request, stopped=asked.conductors_stopped)
        here = opened.enter_context(copy.snapshot(patient))
        if asked.yes:
            looked = None if asked.conductors_stopped else _conductors(there, imported["head"])
            confirm = refusal_of_work(patient, here, imported["head"], looked)
            made = there.write(lambda conn: carry(there, conn, here, imported, confirm), once=True)
        else:
            made = carry(
                there, opened.enter_context(copy.snapshot(there, "Ironic")), here, imported
            )
    made.report.extend(warnings, "export")
    lost = made.report.has(report.LOSS)
    status = STOPPED if made.report.has(report.REFUSED) else LOST if lost else 0
    _print_export(asked, made, there.name, status)
    return status


Confirm = Callable[[Connection], None]
"""Raises an error, before the commit there, if one of both services has worked meanwhile."""


def carry(
    there: Database,
    conn: Connection,
    here: Connection,
    imported: Json,
    confirm: Confirm | None = None,
) -> exports.Export:
    """Compare the rows of both sides, and write what differs.

    :param conn: of the transaction there.
    :param here: sees the rows of one moment.
    :param confirm: None to write nothing.
    :raises errors.Error: the database there does not fit, or does not take a row.
    """
    snapshot = source.snapshot_of(there, conn)
    exports.check_head(imported, snapshot)
    if confirm is not None:
        source.lock(snapshot)
    request = request_of(imported, check=confirm is None)
    again = Import(snapshot, request, _NO_NAMES, checks.NodeChecks(_NO_FOLDERS))
    made = exports.Export(snapshot, imported, again)
    if made.plan(here) and confirm is not None:
        made.write(here, _progress())
        confirm(conn)
    return made


def refusal_of_work(
    database: Database,
    here: Connection,
    head: str,
    looked: list[source.IronicConductor] | None,
) -> Confirm:
    """Return what refuses the commit if one of both services was started meanwhile.

    :param here: sees the rows that are compared.
    :param looked: the conductors there when they were seen to be stopped; None to trust.
    """
    before = here.execute(copy.STATE).one()

    def confirm(conn: Connection) -> None:
        if database.read(lambda now: now.execute(copy.STATE).one()) != before:
            raise errors.Conflict(
                f"{database.name} has changed while it was exported; stop its API and its "
                "conductors, and repeat. Nothing was written."
            )
        if looked not in (None, source.conductors(conn, head)):
            raise errors.Conflict(
                "A conductor of Ironic was started while its database was written; stop it, and "
                "repeat. Nothing was written."
            )

    return confirm


def request_of(imported: Json, *, check: bool) -> ImportRequest:
    """Return the request of an import that was done."""
    asked, maps = imported["selection"], imported["maps"]
    return ImportRequest(
        check=check,
        groups=tuple(asked["groups"]),
        nodes=tuple(asked["nodes"]),
        maps=rules.Maps(maps["names"], tuple((old, new) for old, new in maps["paths"])),
        end=asked["end"],
        leave_out=asked["leave_out"],
        history=asked["history"],
        portgroup_mode=asked["portgroup_mode"],
    )


def _print_export(asked: Any, made: exports.Export, target: str, status: int) -> None:
    written = asked.yes and status != STOPPED
    document: Json = {
        "target": target,
        "release": made.release,
        "head": made.move.head,
        "import": made.origin,
        "counts": {
            table: {what: found[what] for what in exports.WHAT}
            for table, found in made.report.counts.items()
        },
        "findings": made.report.documents(),
        "secrets": made.secrets,
        "written": written,
        "exit": status,
    }
    lines = [f"Target: {target}, Ironic {made.release}, {made.move.head}; import {made.origin}"]
    for table, found in document["counts"].items():
        lines.append(f"{table}: " + ", ".join(f"{found[what]} {what}" for what in exports.WHAT))
    lines += map(report.line, document["findings"])
    if made.secrets:
        lines.append(f"{made.secrets} values with secrets, in clear, because Ironic stores them so")
    if status == STOPPED:
        last = "Refused: nothing was written."
    elif made.empty:
        last = "nothing to carry back"
    elif written:
        last = "All changes are in Ironic's database. Run ironic-status upgrade check there."
    else:
        last = f"Nothing was written. Repeat the command with --yes, exit status {status}."
    _show(asked, document, made.report, [*lines, last])
