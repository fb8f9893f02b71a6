"""The checks of an API process: its options, database and certificate, and the conductors."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator

from ironic_lite import errors, membership
from ironic_lite.checks import database, machine
from ironic_lite.core import clock, config
from ironic_lite.core.json_types import Json, RowView
from ironic_lite.core.options import Configuration
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import conductors, server_health
from ironic_lite.domain.examination import (
    WARNING_DAYS,
    Check,
    Verdict,
    failed,
    passed,
    unknown,
    warning,
)

SECONDS = 6.0
"""Time limit of the checks that the API process makes by itself."""
CALL_SECONDS = 22.0
"""Time limit of the calls of conductors, which is longer than their own limits."""

LOST_SECONDS = 86400.0
"""Silence of a conductor after which it is a warning only: others have its nodes by then."""
_SILENT_ADVICE = (
    "Start it again on its machine, or find out why it hangs. If it is gone for good, run a "
    "conductor with its [DEFAULT]host once and stop it, which signs it off."
)


@dataclasses.dataclass(slots=True)
class ApiSubject:
    """The subject of an API process's checks.

    ``living`` returns the living conductors, by their rows as read now. The check of the conductors
    sets ``members``.
    """

    conf: Configuration
    database: Database
    living: Callable[[Iterable[RowView]], tuple[membership.Member, ...]]
    members: tuple[membership.Member, ...] = ()


@dataclasses.dataclass(slots=True)
class ConductorCall:
    """A call of a conductor by which it makes its checks, and its answer."""

    act: Callable[[], list[Json]]
    answer: list[Json] = dataclasses.field(default_factory=list)


def find_certificate(subject: ApiSubject) -> Iterator[Verdict]:
    """Check when the certificates of the API expire."""
    yield from machine.find_rpc_certificates(subject.conf)
    pair = config.api_certificate(subject.conf)
    if pair is not None:
        yield from machine.find_certificate("[api]ssl_cert_file", pair[0], machine.RENEW_ADVICE)
        yield from machine.find_renewal("[api]ssl_cert_file", pair[0])


def find_conductors(subject: ApiSubject) -> Iterator[Verdict]:
    """Compare the registered conductors with those that are alive, and their releases."""
    rows = subject.database.read(conductors.all)
    subject.members = subject.living(subject.database.read(conductors.members))
    living = {one.host for one in subject.members}
    for row in rows:
        if row["online"] and row["hostname"] not in living:
            age = clock.lived(row["updated_at"]) if row["updated_at"] else 0.0
            judge = failed if age < LOST_SECONDS else warning
            yield judge(f"{row['hostname']} has sent no heartbeat for {age:.0f} s", _SILENT_ADVICE)
    here = config.version()
    other = [row for row in rows if row["hostname"] in living and row["version"] != here]
    if other:
        names = ", ".join(f"{row['hostname']} ({row['version']})" for row in other)
        do = "Finish the upgrade: all conductors and APIs of one release."
        yield warning(f"conductors of another version than {here}: {names}", do)
    if not living:
        do = "Start ironic-lite-conductor, or ironic-lite."
        yield failed("no conductor is alive", do)
    else:
        yield passed(f"{len(living)} alive: {', '.join(sorted(living))}")


def find_groups(subject: ApiSubject) -> Iterator[Verdict]:
    """Check that living conductors can drive all nodes, and that none is alone where others are."""
    rows = subject.database.read(server_health.node_groups)
    sound = 0
    for group, driver, count in rows:
        able = membership.candidates(subject.members, group, driver)
        what = f"{count} nodes of hardware type {driver}, conductor group {group or '(none)'!r}"
        if not able:
            do = "Start a conductor with this [conductor]conductor_group and enabled hardware type."
            yield failed(f"{what}: no living conductor can drive them", do)
        elif len(able) == 1 and len(subject.members) > 1:
            do = "Start a second conductor with the same group and hardware type."
            yield warning(f"{what}: {able[0].host} alone can drive them", do)
        else:
            sound += 1
    if sound == len(rows):
        alone = len(subject.members) == 1
        more = "; there is one conductor only" if alone else ""
        yield passed(f"living conductors can drive all nodes{more}")


def find_answer(call: ConductorCall) -> Iterator[Verdict]:
    """Call a conductor, which makes its checks."""
    try:
        call.answer = call.act()
    except (errors.Pinned, errors.UnknownMethod) as why:
        yield unknown(why.message, "Ask again after the upgrade of the conductors.")
    else:
        yield passed("it answers calls")


TABLE: tuple[Check[ApiSubject], ...] = (
    Check(
        "options",
        "Clients need a login, and passwords are encrypted, unless the API is on loopback.",
        lambda subject: machine.find_api_options(subject.conf),
        "Correct the option.",
    ),
    database.SERVER,
    database.SCHEMA,
    database.KEYS,
    Check(
        "certificate",
        "``[api]ssl_cert_file``, and the certificate and the authority in ``[direct]``, are valid "
        f"for {WARNING_DAYS} days, and those in the files are in use.",
        find_certificate,
        "Correct the option that names the file.",
    ),
    Check(
        "conductors",
        "Every conductor that has not been stopped sends heartbeats, and has the API's release.",
        find_conductors,
        "Start the conductors.",
        needs=("database", "schema"),
    ),
    Check(
        "groups",
        "Each conductor group and hardware type of nodes has a living conductor, and a second one "
        "if there are several conductors.",
        find_groups,
        "Start a conductor for these nodes.",
        needs=("database", "schema"),
    ),
    database.CLOCK,
    # The last of those on the database, because it waits for other writers.
    database.WRITE,
)
"""The checks of an API process; they need nothing but the database."""

CONDUCTOR: Check[ConductorCall] = Check(
    "conductor",
    "The conductor answers calls; its own checks follow.",
    find_answer,
    "Restart that conductor; if it is up, check transport_url and the broker on both sides.",
)
NODE: Check[ConductorCall] = Check(
    "node",
    "The conductor of the node answers; its checks of the node follow.",
    find_answer,
    "Start a conductor for the node's hardware type and group, and enable its interfaces there.",
)
