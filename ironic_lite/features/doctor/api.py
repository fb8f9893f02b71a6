"""The doctor: checks of the whole service, and of one node. Ironic does not have it."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import itertools
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from ironic_lite import errors, membership
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request
from ironic_lite.api.policy import Rule
from ironic_lite.api.policy.node_rules import READER
from ironic_lite.api.resources import node_lookup
from ironic_lite.api.service import Extension, Service
from ironic_lite.checks import database, examiner, machine
from ironic_lite.core import clock, config
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json, JsonView, RowView
from ironic_lite.core.options import Configuration
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import conductors, server_health
from ironic_lite.domain import examination
from ironic_lite.domain.examination import (
    WARNING_DAYS,
    Check,
    Examination,
    Finding,
    Verdict,
    failed,
    passed,
    unknown,
    warning,
)
from ironic_lite.features.doctor import certificates

if TYPE_CHECKING:
    from ironic_lite.api.openapi.parts import Schemas

# The checks of an API process: its options, database and certificate, and the conductors.

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
    yield from certificates.find_rpc_certificates(subject.conf)
    pair = config.api_certificate(subject.conf)
    if pair is not None:
        yield from machine.find_certificate("[api]ssl_cert_file", pair[0], machine.RENEW_ADVICE)
        yield from certificates.find_renewal("[api]ssl_cert_file", pair[0])


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
        yield unknown(
            why.message, "Ask again when all conductors are of this release, with doctor on."
        )
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


# Examinations for GET /v1/doctor: one at a time in a process, and kept for a moment.
#
# So many requests cost no more than one, and none waits longer than `EXAMINATION_SECONDS`
# for its turn.

EXAMINATION_SECONDS = 30.0
"""Seconds that an examination takes at most, and that a request waits for its turn."""
KEPT_SECONDS = 10.0
MOST_WAITING = 8
"""Requests that wait for the examination of another one."""
_MARGIN = 0.5


class _Kept(NamedTuple):
    """Findings about the service or a node, and their time by the steady and the wall clock."""

    since: float
    at: datetime.datetime
    findings: list[Finding]


class Examinations:
    """Makes and keeps examinations; one object serves all threads of a process."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._examiner = examiner.Examiner()
        self._turn = threading.Lock()
        self._waiting = threading.BoundedSemaphore(MOST_WAITING)
        self._kept: dict[str | None, _Kept] = {}

    def examine(self, who: Context, node: JsonView | None) -> Examination:
        """Return all findings as JSON.

        :param node: to be examined, too: uuid, name, driver, conductor_group. None: no node.
        :raises errors.Unavailable: too many requests wait, or the one before took too long.
        """
        found = self._recent_document(node)
        if found is not None:
            return found
        if not self._waiting.acquire(blocking=False):
            raise errors.Unavailable(_BUSY)
        try:
            if not self._turn.acquire(timeout=EXAMINATION_SECONDS):
                raise errors.Unavailable(_BUSY)
        finally:
            self._waiting.release()
        try:
            found = self._recent_document(node)
            if found is None:
                found = self._examine_now(who, node)
            return found
        finally:
            self._turn.release()

    def _recent(self, key: str | None) -> _Kept | None:
        kept = self._kept.get(key)
        return kept if kept and time.monotonic() - kept.since < KEPT_SECONDS else None

    def _recent_document(self, node: JsonView | None) -> Examination | None:
        """Return the answer made of kept findings, None if they are too old."""
        service, one = self._recent(None), None if node is None else self._recent(_key(node))
        if service is None or (node is not None and one is None):
            return None
        return _document(service, one)

    def _examine_now(self, who: Context, node: JsonView | None) -> Examination:
        """Examine what is not kept: the service, the node, or both beside each other."""
        begun = clock.now()
        service = self._recent(None)
        own: list[Finding] = []
        calls: list[examiner.Line] = []
        if service is None:
            own, calls = self._own_findings(who)
        if node is not None:
            act = functools.partial(self._ask_about_node, who, node)
            calls.append(_asking(f"node {node['name'] or node['uuid']}", NODE, act))
        answers = self._answers(calls)
        one = None if node is None else _Kept(time.monotonic(), begun, answers.pop())
        if service is None:
            service = _Kept(time.monotonic(), begun, [*own, *itertools.chain(*answers)])
        self._keep(service, node, one)
        return _document(service, one)

    def _keep(self, service: _Kept, node: JsonView | None, one: _Kept | None) -> None:
        fresh = {key: kept for key in self._kept if (kept := self._recent(key)) is not None}
        fresh[None] = service
        if node is not None and one is not None:
            fresh[_key(node)] = one
        self._kept = fresh

    def _own_findings(self, who: Context) -> tuple[list[Finding], list[examiner.Line]]:
        """Return the findings of this process, and the calls of the living conductors."""
        service = self._service
        subject = ApiSubject(service.conf, service.database, service.fleet.living)
        table = (*TABLE, *(one for each in service.extensions for one in each.checks))
        lines = examiner.lines(f"API {socket.gethostname()}", table, subject)
        found = self._examiner.examine(lines, SECONDS)
        acts = {
            member.host: functools.partial(self._ask_conductor, who, member.host)
            for member in subject.members
        }
        calls = [_asking(f"conductor {host}", CONDUCTOR, act) for host, act in acts.items()]
        return found, calls

    def _answers(self, calls: Sequence[examiner.Line]) -> list[list[Finding]]:
        """Return for each call its own finding, followed by those in its answer."""
        told = self._examiner.examine(calls, CALL_SECONDS + _MARGIN)
        return [
            [one, *(Finding.from_json(given, line.where) for given in line.subject.answer)]
            for line, one in zip(calls, told, strict=True)
        ]

    def _ask_conductor(self, who: Context, host: str) -> list[Json]:
        return self._service.conductor(host, timeout=CALL_SECONDS).examine(who)

    def _ask_about_node(self, who: Context, node: JsonView) -> list[Json]:
        host = self._service.fleet.host_for(node)
        conductor = self._service.conductor(host, timeout=CALL_SECONDS)
        return conductor.examine_node(who, node_uuid=str(node["uuid"]))


def _asking(
    where: str, check: Check[ConductorCall], act: Callable[[], list[Json]]
) -> examiner.Line:
    return examiner.Line(where, (check,), ConductorCall(act))


def _key(node: JsonView) -> str:
    """Return what findings are of: a node that has changed is examined again."""
    return f"{node['uuid']} {node['updated_at']}"


def _document(service: _Kept, one: _Kept | None) -> Examination:
    findings = service.findings + (one.findings if one else [])
    at = (one or service).at.replace(tzinfo=datetime.UTC).isoformat()
    return examination.document(findings, at)


_BUSY = "The service is being examined for other requests; retry in a minute."


_NODE = ("uuid", "name", "driver", "conductor_group", "updated_at")


class Doctor(expose.Controller):
    """/v1/doctor."""

    def __init__(self, service: Service) -> None:
        super().__init__(service)
        self._examinations = Examinations(service)

    @expose.expose("GET", "/doctor")
    def show(self, request: Request, node: str | None = None) -> Examination:
        """Return the findings about the service, and about one node if it is named.

        The status is 200, whatever the findings are.
        """
        found = None
        if node is not None:
            found = node_lookup.fetch(self.service, request, node, _NODE)
        return self._examinations.examine(request.who, found)


def _answers() -> Mapping[str, Schemas]:
    from ironic_lite.api.openapi.parts import Schemas  # noqa: PLC0415

    return {"GET /doctor": Schemas(refusals=(HTTPStatus.NOT_FOUND,))}


EXTENSION = Extension(
    (Doctor,),
    (
        Rule(
            "baremetal:doctor:get",
            READER,
            "Examine the service and its nodes.",
            ("GET /doctor",),
        ),
    ),
    _answers,
)
