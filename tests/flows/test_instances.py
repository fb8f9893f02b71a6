"""The instance of a node: whose it is, and what is left of it when it is deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from ironic_lite.api.resources import run_stops
from ironic_lite.core.context import Context
from ironic_lite.db.engine.session import Database
from ironic_lite.drivers.fake.console import FakeConsole
from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers
from tests.support.in_process import InProcess

INSTANCE = "0d9e8c4f-70a5-4f2b-9d46-9b1c3f1f7a55"


@pytest.fixture
def start(sqlite_database: Database) -> Iterator[Callable[..., InProcess]]:
    """A function that starts a service with options, as ``group__option``."""
    started: list[InProcess] = []

    def make(**options: Any) -> InProcess:
        started.append(InProcess(sqlite_database, **options))
        return started[-1]

    yield make
    for one in started:
        one.close()


def deployed(whole: InProcess, *, lessee: str | None = None) -> str:
    """Deploy a node for the project p-nova, and return its UUID."""
    about = {"instance_info": {"project_id": "p-nova"}, "lessee": lessee}
    node = whole.rig.node("available", instance_uuid=INSTANCE, **about)
    ask(whole, node, "active")
    return node


def ask(whole: InProcess, node: str, target: str) -> None:
    place = f"/v1/nodes/{node}/states/provision"
    assert whole.api.put(place, {"target": target}).status == 202
    whole.rig.settled(node)


def lessee(whole: InProcess, node: str) -> tuple[str | None, bool]:
    shown = whole.api.get(f"/v1/nodes/{node}").json
    return shown["lessee"], shown["driver_internal_info"].get("automatic_lessee", False)


def found(whole: InProcess, project: str) -> list[str]:
    listed = whole.api.get(f"/v1/nodes?lessee={project}").json["nodes"]
    return [node["uuid"] for node in listed]


def test_instance_lends_its_node_to_its_project(start: Callable[..., InProcess]) -> None:
    whole = start()
    node = deployed(whole)
    assert (lessee(whole, node), found(whole, "p-nova")) == (("p-nova", True), [node])
    ask(whole, node, "rebuild")
    assert lessee(whole, node) == ("p-nova", True)
    ask(whole, node, "deleted")
    assert (lessee(whole, node), found(whole, "p-nova")) == ((None, False), [])


def test_node_with_a_lessee_keeps_it(start: Callable[..., InProcess]) -> None:
    whole = start()
    node = deployed(whole, lessee="p-other")
    assert lessee(whole, node) == ("p-other", False)
    ask(whole, node, "deleted")
    assert lessee(whole, node) == ("p-other", False)


@pytest.mark.parametrize(("source", "wanted"), [("none", None), ("request", "p-asks")])
def test_lessee_comes_from_where_the_option_says(
    build: Callable[..., ConductorFixture], source: str, wanted: str | None
) -> None:
    rig = build(conductor__automatic_lessee_source=source)
    node = rig.node("available", instance_info={"project_id": "p-nova"})
    rig.endpoints.do_node_deploy(Context("req-1", project="p-asks"), node_uuid=node)
    assert rig.settled(node)["lessee"] == wanted


def test_failed_teardown_forgets_the_instance(build: Callable[..., ConductorFixture]) -> None:
    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == "tear_down":
            raise ZeroDivisionError("a bug")
        return call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    node = rig.node("active", instance_uuid=INSTANCE, instance_info={"a": 1}, instance_name="i")
    row = rig.call("do_node_tear_down", node)
    assert row["provision_state"] == "error"
    assert "Failed to tear down" in row["last_error"]
    assert (row["instance_uuid"], row["instance_info"], row["instance_name"]) == (None, {}, None)


def test_console_of_the_lessee_ends_with_its_lease(
    start: Callable[..., InProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    for name in ("start_console", "stop_console"):
        monkeypatch.setattr(FakeConsole, name, lambda *_args, name=name: calls.append(name))
    whole = start()
    node = whole.rig.node(
        "available", instance_info={"project_id": "p-nova"}, console_interface="fake"
    )
    ask(whole, node, "active")
    assert whole.api.put(f"/v1/nodes/{node}/states/console", {"enabled": True}).status == 202
    whole.rig.settled(node)
    ask(whole, node, "deleted")
    row = whole.rig.reaches(node, "available")
    assert (row["lessee"], row["console_enabled"]) == (None, False)
    assert "console_paused" not in row["driver_internal_info"]
    ask(whole, node, "active")
    whole.rig.reaches(node, "active")
    assert calls == ["start_console", "stop_console"]


@pytest.mark.parametrize("project", ["p-nova", "p-owner", None])
def test_stop_by_the_lessee_ends_with_its_lease(
    build: Callable[..., ConductorFixture], project: str | None
) -> None:
    """The cleaning that follows is the owner's, so the former lessee must not hold it."""

    def around(_kind: str, name: str, call: Callable[[], Any]) -> Any:
        if name == "tear_down":
            rig.database.write(lambda conn: run_stops.ask(conn, node, None, given, who))
        return call()

    rig = build(registry=cast(Registry, crashes.Drivers(drivers(), around)))
    given = run_stops.read_body({"how": "hold", "reason": "mine"})
    who = Context("req-1", project=project)
    node = rig.node("available", owner="p-owner", instance_info={"project_id": "p-nova"})
    rig.ask("do_node_deploy", node)
    rig.reaches(node, "active")
    rig.ask("do_node_tear_down", node)
    gone = project == "p-nova"
    row = rig.reaches(node, "available" if gone else "clean hold")
    assert row["lessee"] is None
    told = [one["data"]["reason"] for one in rig.events(node, "stop_withdrawn")]
    assert told == (["mine"] if gone else [])
