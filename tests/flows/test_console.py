"""Consoles over HTTP: of a machine that has one, of one without, and of a driver that fails."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ironic_lite.db.engine.session import Database
from ironic_lite.drivers.fake.console import FakeConsole
from tests.support.operator import Operator
from tests.support.real_socket import baremetal, listening


@pytest.fixture
def operator(sqlite_database: Database) -> Iterator[Operator]:
    started = Operator(sqlite_database)
    yield started
    started.close()


def path(node: str) -> str:
    return f"/v1/nodes/{node}/states/console"


def test_a_console_is_started_and_stopped(operator: Operator) -> None:
    node = operator.enroll("enroll", name="web", console_interface="fake")
    off = {"console_enabled": False, "console_info": None}
    assert operator.api.get(path("web")).json == off
    answer = operator.api.put(path("web"), {"enabled": "on"})
    assert (answer.status, answer.body) == (202, b"")
    assert answer.headers["location"] == f"http://localhost:6385{path('web')}"
    operator.rig.settled(node)
    assert operator.api.get(path(node)).json == {"console_enabled": True, "console_info": {}}
    assert operator.shows(node)["console_enabled"] is True
    assert operator.patches(node, driver="fake-hardware").status == 200
    assert operator.api.put(path(node), {"enabled": False}).status == 202
    operator.rig.settled(node)
    assert operator.api.get(path(node)).json == off


def test_console_stays_enabled_over_an_undeployment(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for name in ("start_console", "stop_console"):
        monkeypatch.setattr(FakeConsole, name, lambda *_args, name=name: calls.append(name))
    node = operator.enroll("active", console_interface="fake", console_enabled=True)
    assert operator.asks(node, "deleted").status == 202
    row = operator.rig.reaches(node, "available")
    assert (row["console_enabled"], calls) == (True, ["stop_console"])
    assert operator.api.get(path(node)).json == {"console_enabled": True, "console_info": {}}
    assert operator.asks(node, "active").status == 202
    row = operator.rig.reaches(node, "active")
    assert (row["console_enabled"], calls) == (True, ["stop_console", "start_console"])
    assert "console_paused" not in row["driver_internal_info"]


@pytest.mark.parametrize("field", ["owner", "lessee"])
def test_console_ends_when_the_node_changes_hands(
    operator: Operator, monkeypatch: pytest.MonkeyPatch, field: str
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(FakeConsole, "stop_console", lambda *_args: calls.append("stop"))
    node = operator.enroll("manageable", console_interface="fake", **{field: "p-a"})
    assert operator.api.put(path(node), {"enabled": True}).status == 202
    operator.rig.settled(node)
    assert operator.patches(node, name="same-hands").json["console_enabled"] is True
    moved = operator.patches(node, **{field: "p-b"})
    assert (moved.status, moved.json["console_enabled"]) == (200, False), moved.text
    operator.rig.settled(node)
    assert (operator.shows(node)["console_enabled"], calls) == (False, ["stop"])


def test_a_machine_without_a_console_says_so(operator: Operator) -> None:
    node = operator.enroll("enroll", console_interface="no-console")
    assert operator.api.get(path(node)).json == {"console_enabled": False, "console_info": None}
    for enabled in (True, False):
        answer = operator.api.put(path(node), {"enabled": enabled})
        assert (answer.status, "does not support console" in answer.text) == (400, True)
    assert operator.shows(node)["console_enabled"] is False


@pytest.mark.parametrize(
    ("body", "named"),
    [({}, "enabled"), ({"enabled": "perhaps"}, "enabled"), ({"enabled": True, "x": 1}, "x")],
    ids=["nothing", "no boolean", "more"],
)
def test_a_bad_wish_is_refused(operator: Operator, body: dict[str, object], named: str) -> None:
    node = operator.enroll("enroll", console_interface="fake")
    answer = operator.api.put(path(node), body)
    assert (answer.status, named in answer.text) == (400, True)
    assert operator.api.get(path("nope")).status == 404
    assert operator.api.put(path("nope"), {"enabled": True}).status == 404


def test_a_console_that_cannot_be_started_is_told_of(
    operator: Operator, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_args: object) -> None:
        raise RuntimeError("no port is free")

    monkeypatch.setattr(FakeConsole, "start_console", fail)
    node = operator.enroll("enroll", console_interface="fake")
    assert operator.api.put(path(node), {"enabled": True}).status == 202
    row = operator.rig.settled(node)
    assert row["console_enabled"] is False
    assert "Failed to start the console" in row["last_error"]


def test_the_command_line_starts_and_shows_it(operator: Operator) -> None:
    node = operator.enroll("enroll", console_interface="fake")
    with listening(operator) as url:
        done = baremetal(url, "node", "console", "enable", node)
        assert done.returncode == 0, done.stderr
        operator.rig.settled(node)
        shown = baremetal(url, "node", "console", "show", node, "-f", "json")
        assert (shown.returncode, '"console_enabled": true' in shown.stdout) == (0, True)
