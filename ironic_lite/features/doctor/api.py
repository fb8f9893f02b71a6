"""The doctor: checks of the whole service, and of one node. Ironic does not have it."""

from __future__ import annotations

import datetime
import functools
import itertools
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, NamedTuple

from ironic_lite import errors
from ironic_lite.api.http import expose
from ironic_lite.api.http.request import Request
from ironic_lite.api.policy import Rule
from ironic_lite.api.policy.node_rules import READER
from ironic_lite.api.resources import node_lookup
from ironic_lite.api.service import Extension, Service
from ironic_lite.checks import api as checks
from ironic_lite.checks import examiner
from ironic_lite.core import clock
from ironic_lite.core.context import Context
from ironic_lite.core.json_types import Json, JsonView
from ironic_lite.domain import examination
from ironic_lite.domain.examination import Check, Examination, Finding

if TYPE_CHECKING:
    from ironic_lite.api.openapi.parts import Schemas

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
            calls.append(_asking(f"node {node['name'] or node['uuid']}", checks.NODE, act))
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
        subject = checks.ApiSubject(service.conf, service.database, service.fleet.living)
        table = (*checks.TABLE, *(one for each in service.extensions for one in each.checks))
        lines = examiner.lines(f"API {socket.gethostname()}", table, subject)
        found = self._examiner.examine(lines, checks.SECONDS)
        acts = {
            member.host: functools.partial(self._ask_conductor, who, member.host)
            for member in subject.members
        }
        calls = [_asking(f"conductor {host}", checks.CONDUCTOR, act) for host, act in acts.items()]
        return found, calls

    def _answers(self, calls: Sequence[examiner.Line]) -> list[list[Finding]]:
        """Return for each call its own finding, followed by those in its answer."""
        told = self._examiner.examine(calls, checks.CALL_SECONDS + _MARGIN)
        return [
            [one, *(Finding.from_json(given, line.where) for given in line.subject.answer)]
            for line, one in zip(calls, told, strict=True)
        ]

    def _ask_conductor(self, who: Context, host: str) -> list[Json]:
        return self._service.conductor(host, timeout=checks.CALL_SECONDS).examine(who)

    def _ask_about_node(self, who: Context, node: JsonView) -> list[Json]:
        host = self._service.fleet.host_for(node)
        conductor = self._service.conductor(host, timeout=checks.CALL_SECONDS)
        return conductor.examine_node(who, node_uuid=str(node["uuid"]))


def _asking(
    where: str, check: Check[checks.ConductorCall], act: Callable[[], list[Json]]
) -> examiner.Line:
    return examiner.Line(where, (check,), checks.ConductorCall(act))


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
