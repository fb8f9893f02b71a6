"""Who gets past the rules with which request, role by role and project by project.

``rights.json`` was written by asking an Ironic 39 with its default rules: a line for each set of
callers, and below it what all of them may ask for, and nobody else. Letters are roles, with those
they imply: a administrator, g manager, m member, r reader, s service. Whether a request that gets
past the rules is carried out depends on more; here nothing is, and no conductor answers.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.db.engine import session
from tests.support import fleet_fixture
from tests.support.callers import LESSEE, OWNER, STRANGER, Callers
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Response

RIGHTS = json.loads(pathlib.Path(__file__).with_name("rights.json").read_text())
ROLES = {"a": "admin", "g": "manager", "m": "member", "r": "reader", "s": "service"}
SCOPES = ("system", OWNER, LESSEE, STRANGER)
REFUSED = {401, 403, 404}


class _Undone(Exception):
    def __init__(self, result: Any) -> None:
        self.result = result


class _Nobody(dict[str, Any]):
    """The answers of conductors that are away, but for what POST of a node asks."""

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self else errors.Unavailable("away")


@pytest.fixture
def stage(
    callers: Callers,
    recorder: Recorder,
    database: session.Database,
    monkeypatch: pytest.MonkeyPatch,
) -> Callers:
    """The fleet, on which nothing that is asked for is done in the end."""
    fleet_fixture.build(callers("admin"), database)
    recorder.answers = _Nobody(recorder.answers)
    write = session.Database.write

    def rehearse(self: session.Database, work: Callable[[Any], Any], **more: Any) -> Any:
        def undone(conn: Any) -> None:
            raise _Undone(work(conn))

        try:
            return write(self, undone, **more)
        except _Undone as why:
            return why.result

    monkeypatch.setattr(session.Database, "write", rehearse)
    return callers


def _refused(answer: Response) -> bool:
    # What a body names must be the caller's to see: 400, as if it were not there.
    hidden = answer.status == 400 and "could not be found" in answer.text
    return answer.status in REFUSED or hidden


def _stricter(line: str, body: Any, may: dict[str, str]) -> dict[str, str]:
    """Return who may send a POST with fields that a PATCH grants to fewer callers.

    Ironic checks no rule of these fields in a POST.
    """
    if line == "POST /runbooks" and (body.get("owner") or body.get("public")):
        return {**may, "system": may["system"].replace("s", "")}
    if line != "POST /nodes":
        return may
    if body.keys() & {"chassis_uuid", "conductor_group", "shard"}:
        return {"system": "a"}
    return {**may, "system": "a"} if "owner" in body else may


def test_rights_are_those_of_ironic(stage: Callers) -> None:
    wrong = []
    for told, requests in RIGHTS.items():
        may = dict(part.split(":") for part in told.split())
        for request in requests:
            line, body = request if isinstance(request, list) else (request, None)
            method, path = line.split(" ")
            here = _stricter(line, body, may)
            for scope in SCOPES:
                project = None if scope == "system" else scope
                passed = ""
                for letter, role in ROLES.items():
                    answer = stage(role, project).request(method, f"/v1{path}", body)
                    assert answer.status < 500 or answer.status == 503, (line, body, answer.text)
                    passed += "" if _refused(answer) else letter
                if passed != here.get(scope, ""):
                    wrong.append((line, body, scope, f"{passed!r}, not {here.get(scope, '')!r}"))
    assert not wrong
