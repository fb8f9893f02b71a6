"""The lock of a node is taken before the node is read, and released whatever comes next."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest

from ironic_lite import errors
from ironic_lite.core import clock
from ironic_lite.core.context import Context
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import holds, nodes
from ironic_lite.drivers.registry import Registry
from tests.support import crashes
from tests.support.conductor_fixture import ConductorFixture, drivers, listed, wait_for
from tests.support.statements import count_statements

Build = Callable[..., ConductorFixture]
STEPS = listed("bios.factory_reset")


def describe(conn: Connection, node: str) -> None:
    """Change a field as a PATCH does."""
    known = nodes.load(conn, node)
    nodes.edit(conn, node, {"description": "changed"}, generation=known.generation)


def hold(conn: Connection, node: str, blocks: str = "verbs,power") -> None:
    """Set a hold as the API does."""
    row = {
        "uuid": "00000000-0000-4000-8000-000000000001",
        "node_uuid": node,
        "kind": "audit",
        "reason": "an audit",
        "blocks": blocks,
        "until": None,
        "created_at": clock.now(),
        "created_by": "auditor",
    }
    holds.add(conn, row)


def checking(build: Build, check: Callable[[Any], None], **options: Any) -> ConductorFixture:
    """Return a conductor whose drivers first make this check of the power settings of a task."""

    def around(kind: str, name: str, call: Callable[[], Any]) -> Any:
        if (kind, name) == ("power", "validate"):
            check(cast(Any, call).args[0])
        return call()

    registry = cast(Registry, crashes.Drivers(drivers(), around, more=("validate",)))
    return build(registry=registry, conductor__node_locked_retry_interval=0, **options)


def idle(rig: ConductorFixture) -> bool:
    return rig.tasks.locks.held == frozenset() and rig.service.runtime.workers.busy == 0


def test_node_cannot_change_while_a_verb_is_checked(
    build: Build, sqlite_database: Database
) -> None:
    refused: list[str] = []

    def check(task: Any) -> None:
        task.confirm_lock()  # as before each request to a BMC
        with pytest.raises(errors.NodeLocked) as caught:
            sqlite_database.write(lambda conn: describe(conn, task.node.uuid))
        refused.append(caught.value.facts["host"])

    rig = checking(build, check)
    node = rig.node()
    row = rig.call("clean", node, clean_steps=STEPS)
    assert (row["provision_state"], row["description"]) == ("manageable", None)
    assert set(refused) == {"here"}
    assert len(rig.runs(node)) == 1
    wait_for(lambda: idle(rig))


@pytest.mark.parametrize(
    "refusal",
    [errors.InvalidParameter(path="driver_info", reason="x"), RuntimeError("broken")],
    ids=["refusal", "fault"],
)
def test_nothing_stays_locked_after_a_refused_verb(build: Build, refusal: Exception) -> None:
    def check(_task: Any) -> None:
        raise refusal

    rig = checking(build, check)
    node = rig.node()
    before = rig.get(node)
    with pytest.raises(
        errors.InvalidRequest if isinstance(refusal, errors.Error) else RuntimeError
    ):
        rig.ask("clean", node, clean_steps=STEPS)
    assert rig.get(node) == before
    assert not rig.runs(node)
    assert idle(rig)


def test_locked_node_refuses_a_verb_after_the_configured_attempts(
    build: Build, sqlite_database: Database
) -> None:
    rig = build(conductor__node_locked_retry_interval=0, conductor__node_locked_retry_attempts=3)
    node = rig.node(reservation="there", lock_token="other", lock_expires=clock.after(60))
    before = rig.get(node)
    with (
        count_statements(sqlite_database) as sent,
        pytest.raises(errors.NodeLocked, match="there"),
    ):
        rig.ask("clean", node, clean_steps=STEPS)
    assert sum(one.startswith("UPDATE nodes") for one in sent) == 3
    assert rig.get(node) == before
    assert idle(rig)


def test_conductor_that_dies_with_the_lock_just_taken_leaves_a_node_as_it_was(
    build: Build, sqlite_database: Database
) -> None:
    life = crashes.Life()
    rig = build(crashes.database(sqlite_database, life))
    rig.database = sqlite_database
    node = rig.node()
    before = rig.get(node)
    life.arm(commit=1)
    with pytest.raises(crashes.Died):
        rig.ask("clean", node, clean_steps=STEPS)
    rig.bury()
    assert rig.get(node)["reservation"] == "here"
    again = build(sqlite_database)
    wait_for(lambda: again.get(node)["reservation"] is None)
    assert {**again.get(node), "generation": 0} == {**before, "generation": 0}
    assert not again.runs(node)
    assert again.call("clean", node, clean_steps=STEPS)["provision_state"] == "manageable"


def test_verb_finds_no_node_that_was_deleted(build: Build) -> None:
    rig = build()
    with pytest.raises(errors.NodeNotFound):
        rig.ask("clean", "00000000-0000-4000-8000-000000000001", clean_steps=STEPS)
    assert idle(rig)


def test_hold_refuses_the_verb_also_while_the_limit_is_full(
    build: Build, sqlite_database: Database
) -> None:
    rig = build(conductor__max_concurrent_clean=1)
    rig.node("clean wait", conductor_group="elsewhere")
    node = rig.node()
    with pytest.raises(errors.TooManyActions):
        rig.ask("clean", node, clean_steps=STEPS)
    sqlite_database.write(lambda conn: hold(conn, node))
    with pytest.raises(errors.NodeHeld, match="an audit"):
        rig.ask("clean", node, clean_steps=STEPS)
    assert rig.get(node)["lock_token"] is None
    assert idle(rig)


def test_hold_refuses_the_deletion_of_a_node(build: Build, sqlite_database: Database) -> None:
    rig = build()
    node = rig.node()
    sqlite_database.write(lambda conn: hold(conn, node, "forget"))
    with pytest.raises(errors.NodeHeld, match="an audit"):
        rig.ask("destroy_node", node)
    assert rig.get(node)["lock_token"] is None
    assert idle(rig)


def test_two_lookups_at_once_learn_one_token(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = build(api__restrict_lookup=False)
    node = rig.node()
    lock, found = rig.tasks.lock, []

    @contextlib.contextmanager
    def second_first(context: Context, node_uuid: str, **how: Any) -> Iterator[Any]:
        monkeypatch.setattr(rig.tasks, "lock", lock)
        found.append(rig.endpoints.get_node_with_token(rig.who, node_uuid=node))
        with lock(context, node_uuid, **how) as task:
            yield task

    monkeypatch.setattr(rig.tasks, "lock", second_first)
    found.append(rig.endpoints.get_node_with_token(rig.who, node_uuid=node))
    assert [one["fresh"] for one in found] == [True, False]
    assert found[0]["agent_token"] == found[1]["agent_token"]
    assert idle(rig)
