"""Deploy templates: found by either name, listed, unique, and asked for by many names at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import deploy_templates
from ironic_lite.records import StoredTemplate
from tests.support.database_rows import NOON, new_uuid
from tests.support.statements import count_statements

UUID = "1be26c0b-03f2-4d2e-ae87-c02d7f33c123"
STEP = {
    "interface": "bios",
    "step": "apply_configuration",
    "args": {"settings": [{"name": "Ü😀", "value": None}], "deep": {"a": [1, 1.5, True]}},
    "priority": 150,
}


def add(database: Database, name: str, **values: Any) -> str:
    """Insert a template and return its UUID."""
    row = {"uuid": new_uuid(), "name": name, "steps": [STEP], **values}
    database.write(lambda conn: deploy_templates.insert(conn, row))
    return str(row["uuid"])


def get(database: Database, ident: str) -> dict[str, Any]:
    """Return a template."""
    return database.read(lambda conn: deploy_templates.get(conn, ident))


def named(database: Database, *names: str) -> list[StoredTemplate]:
    """Return the templates with these names."""
    return database.read(lambda conn: deploy_templates.named(conn, names))


def test_a_template_is_found_by_uuid_and_name_as_it_was_written(database: Database) -> None:
    other = {**STEP, "step": "factory_reset", "args": {}, "priority": 2**53}
    uuid = add(database, "CUSTOM_A", steps=[other, STEP], extra={"a": "b"}, created_at=NOON)
    add(database, "CUSTOM_B")
    for ident in (uuid, uuid.upper(), "CUSTOM_A"):
        row = get(database, ident)
        assert (row["uuid"], row["name"], row["extra"]) == (uuid, "CUSTOM_A", {"a": "b"})
        assert row["steps"] == [other, STEP]
        assert (row["created_at"], row["updated_at"]) == (NOON, None)
    for ident in (new_uuid(), "CUSTOM_C", "custom_a", ""):
        with pytest.raises(errors.DeployTemplateNotFound, match="Deploy template"):
            get(database, ident)


@pytest.mark.parametrize(("key", "value"), [("name", "CUSTOM_A"), ("uuid", UUID)])
def test_a_templates_taken_unique_value_is_named(database: Database, key: str, value: str) -> None:
    add(database, **{"name": "CUSTOM_X", key: value})
    with pytest.raises(errors.Duplicate, match=f"A deploy template with {key} {value} already"):
        add(database, **{"name": "CUSTOM_Y", key: value})


def test_a_template_is_changed_and_removed(database: Database) -> None:
    uuid = add(database, "CUSTOM_A")
    add(database, "CUSTOM_B")
    change = {"name": "CUSTOM_C", "steps": [{**STEP, "priority": 0}], "updated_at": NOON}
    database.write(lambda conn: deploy_templates.update(conn, uuid, change))
    assert {name: get(database, "CUSTOM_C")[name] for name in change} == change
    with pytest.raises(errors.Duplicate, match="name CUSTOM_B"):
        database.write(lambda conn: deploy_templates.update(conn, uuid, {"name": "CUSTOM_B"}))
    database.write(lambda conn: deploy_templates.delete(conn, uuid.upper()))
    database.write(lambda conn: deploy_templates.delete(conn, "CUSTOM_B"))
    acts: list[Callable[[Connection], Any]] = [
        lambda conn: deploy_templates.delete(conn, uuid),
        lambda conn: deploy_templates.delete(conn, "CUSTOM_B"),
        lambda conn: deploy_templates.update(conn, uuid, {"extra": {}}),
    ]
    for act in acts:
        with pytest.raises(errors.DeployTemplateNotFound):
            database.write(act)


def test_templates_are_asked_for_by_many_names_in_one_statement(database: Database) -> None:
    for name in ("CUSTOM_B", "CUSTOM_A", "CUSTOM_C", "HW_CPU_X86_VMX"):
        add(database, name, steps=[{**STEP, "step": name}])
    with count_statements(database) as sent:
        found = named(database, "HW_CPU_X86_VMX", "CUSTOM_NONE", "CUSTOM_B", "CUSTOM_A", "CUSTOM_B")
    assert len(sent) == 1, sent
    assert [row["name"] for row in found] == ["CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_VMX"]
    assert found[0] == {"name": "CUSTOM_A", "steps": [{**STEP, "step": "CUSTOM_A"}]}
    with count_statements(database) as sent:
        assert named(database) == []
    assert len(sent) == 0, sent


@pytest.mark.parametrize(
    ("sort", "direction"), [("id", "asc"), ("name", "asc"), ("name", "desc"), ("updated_at", "asc")]
)
def test_pages_walk_the_templates_in_one_order_everywhere(
    database: Database, sort: str, direction: str
) -> None:
    names = ["CUSTOM_A_", "CUSTOM_A", "CUSTOM_B", "CUSTOM_AA", "CUSTOM_A0"]
    uuids = {name: add(database, name) for name in names}
    expected = sorted(names, reverse=direction == "desc") if sort == "name" else names

    def page(marker: str | None) -> list[dict[str, Any]]:
        more: dict[str, Any] = {"sort": sort, "direction": direction, "marker_id": marker}
        return database.read(lambda conn: deploy_templates.page(conn, limit=2, **more))

    walked: list[str] = []
    marker = None
    while some := page(marker):
        walked += [row["name"] for row in some]
        marker = some[-1]["uuid"]
    assert walked == expected
    assert marker == uuids[expected[-1]]
    with pytest.raises(errors.NotFound):
        page(new_uuid())


def test_changes_of_one_template_follow_each_other(database: Database) -> None:
    uuid = add(database, "CUSTOM_A", steps=[])

    def append(number: int) -> None:
        def work(conn: Connection) -> None:
            before = deploy_templates.get(conn, uuid, hold=True)
            steps = [*before["steps"], {**STEP, "priority": number}]
            deploy_templates.update(conn, uuid, {"steps": steps})

        database.write(work)

    with ThreadPoolExecutor(5) as pool:
        list(pool.map(append, range(20)))
    numbers = [step["priority"] for step in get(database, uuid)["steps"]]
    assert sorted(numbers) == list(range(20))
