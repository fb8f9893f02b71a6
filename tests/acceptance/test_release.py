"""``ironic-lite-status release`` and ``observe``: with this service, and with scripted answers."""

from __future__ import annotations

import contextlib
import json
import pathlib
import sqlite3
from collections.abc import Iterator
from typing import Any

import pytest

from tests.acceptance.test_compare import QuietHandler, run, serving
from tests.support import service
from tests.support.service import Service

pytestmark = pytest.mark.feature("move_in")


def observed(found: Service) -> list[str]:
    """Return the names of the nodes that are only observed."""
    return sorted(one["name"] for one in found.get("/v1/nodes?held=observe")["nodes"])


def change(found: Service, statement: str) -> None:
    """Change rows that no request can change."""
    with contextlib.closing(sqlite3.connect(found.folder / "state/ironic-lite.sqlite")) as file:
        file.execute(statement)
        file.commit()


def test_nodes_are_observed_and_released_by_name_group_and_all() -> None:
    with service.service() as found:
        found.start()
        found.up()
        for number in range(4):
            found.create(f"r{number}")
        change(found, "UPDATE nodes SET conductor_group = 'rack7' WHERE name < 'r2'")
        why = ("--reason", "going back")
        assert run(found.settings, "observe", "--all", *why)[:2] == (
            0,
            "4 nodes are observed now.\n",
        )
        assert run(found.settings, "observe", "--all", *why)[:2] == (
            0,
            "0 nodes are observed now.\n",
        )
        assert observed(found) == ["r0", "r1", "r2", "r3"]
        assert run(found.settings, "release", "r2", "r2", *why)[:2] == (
            0,
            "1 nodes are released.\n",
        )
        status, told, _ = run(found.settings, "release", "--group", "RACK7", *why, "-f", "json")
        assert (status, json.loads(told)) == (0, {"ended": 2, "left": 0, "nodes": [], "exit": 0})
        assert observed(found) == ["r3"]
        assert run(found.settings, "release", "--all", *why)[0] == 0
        assert observed(found) == []
        (hold,) = found.get("/v1/nodes/r3/holds?ended=true")["holds"]
        assert (hold["reason"], hold["end_reason"]) == ("going back", "going back")
        for words, reason in (
            (("release", "no-such", *why), "no-such"),
            (("release", "--all", "--group", "x", *why), "not allowed with"),
            (("release", *why), "required"),
            (("release", "--all"), "--reason"),
            (("observe", "--all", "--reason", " "), "reason"),
        ):
            status, told, said = run(found.settings, *words)
            assert (status, told, reason in said) == (2, "", True), said
        change(found, "UPDATE holds SET kind = 'trial', ended_at = NULL")
        status, _, said = run(found.settings, "release", "--all", *why)
        assert (status, "after the cut-over" in said) == (2, True)
        off = run(found.settings, "release", "--all", *why, OS_FEATURES__ENABLED="")
        assert (off[0], "needs the feature move_in" in off[2]) == (2, True)


@contextlib.contextmanager
def scripted(answers: list[tuple[int, Any]], asked: list[Any]) -> Iterator[str]:
    """Serve answers to POST in their order, and keep the bodies of the requests."""

    class Handler(QuietHandler):
        def do_POST(self) -> None:
            asked.append(
                (self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            )
            status, body = answers.pop(0)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body if isinstance(body, bytes) else json.dumps(body).encode())

    with serving(Handler) as url:
        yield url


@pytest.fixture
def settings(tmp_path: pathlib.Path) -> pathlib.Path:
    """A configuration without options."""
    file = tmp_path / "ironic-lite.conf"
    file.write_text("[DEFAULT]\n", encoding="utf-8")
    return file


LEFT = {"uuid": "u", "name": "r7-12", "code": "PowerUnread", "text": "Its BMC has not answered."}


def test_requests_repeat_while_there_is_more(settings: pathlib.Path) -> None:
    more = {"ended": 1000, "left": 1, "more": True, "nodes": [LEFT]}
    asked: list[Any] = []
    with scripted([(200, more), (200, {**more, "ended": 7, "more": False})], asked) as url:
        status, told, said = run(settings, "release", "--all", "--reason", "x", "--url", url)
    assert (status, said) == (1, "")
    assert told.splitlines() == [
        "r7-12: PowerUnread: Its BMC has not answered.",
        "1007 nodes are released, 1 are left.",
    ]
    body = {"kind": "observe", "all": True, "reason": "x", "unread": False}
    assert asked == [("/v1/holds/end", body)] * 2


def test_names_are_sent_a_thousand_at_a_time(settings: pathlib.Path) -> None:
    names = [f"n{number}" for number in range(1001)]
    asked: list[Any] = []
    done = {"ended": 1, "left": 0, "more": False, "nodes": []}
    with scripted([(200, done)] * 2, asked) as url:
        words = ("--reason", "x", "--unread", "--url", url)
        assert run(settings, "release", *names, *words)[:2] == (0, "2 nodes are released.\n")
    assert [len(body["nodes"]) for _, body in asked] == [1000, 1]
    assert all(body["unread"] for _, body in asked)


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (401, {}, "OS_USERNAME"),
        (403, {"error_message": {"faultstring": "Not allowed."}}, "(403): Not allowed."),
        (200, b"<html>", "JSON object"),
        (200, {}, "without"),
        (200, {"ended": "x", "left": 0, "more": False}, "without"),
    ],
)
def test_refusals_and_wrong_answers_are_named(
    settings: pathlib.Path, status: int, body: Any, reason: str
) -> None:
    with scripted([(status, body)], []) as url:
        found = run(settings, "release", "--all", "--reason", "x", "--url", url)
    assert (found[0], found[1], reason in found[2]) == (2, "", True), found[2]
    with scripted([(status, body)], []) as url:
        found = run(settings, "release", "--all", "--reason", "x", "--url", url, "-f", "json")
    assert (found[0], json.loads(found[1])["exit"]) == (2, 2)
