"""Values of columns: what is written is read again, whatever it is, and secrets lie encrypted."""

from __future__ import annotations

import base64
import contextlib
import datetime
import json
from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
import sqlalchemy as sa

from ironic_lite import errors
from ironic_lite.core import clock, config
from ironic_lite.db.engine import encryption, session
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import nodes, resources, sweeps
from ironic_lite.db.tables import models, reencryption
from ironic_lite.domain import fields
from tests.support import database_rows
from tests.support.database_rows import NOON, add_node, get_node
from tests.support.statements import count_statements

# What is written is read again, on every database: texts, times, JSON, booleans.

LONG = "öé€😀" * 60_000  # some 600 kB in UTF-8


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("name", "emoji 😀 and ümläut and 漢字"),
        ("description", "line\nbreaks\tand 'quotes' \"and\" \\ % %s :name {x}"),
        ("last_error", LONG),
        ("maintenance_reason", ""),
        ("provision_updated_at", NOON),
        ("provision_updated_at", datetime.datetime(1970, 1, 1, 0, 0, 0, 1)),
        ("provision_updated_at", datetime.datetime(2038, 12, 31, 23, 59, 59, 999999)),
        ("secure_boot", None),
        ("secure_boot", False),
        ("secure_boot", True),
        ("generation", 2**40),
        ("extra", None),
        ("extra", {}),
        ("extra", {"a": [1, 1.5, None, True, "x\u0000y", {"ü😀": "\ud7ff"}], "": {}}),
        ("extra", {"long": LONG}),
        ("clean_step", {"args": {"number": 0}}),
    ],
)
def test_a_value_comes_back_as_it_was(database: Database, column: str, value: Any) -> None:
    found = get_node(database, add_node(database, **{column: value}))[column]
    assert found == value
    assert type(found) is type(value)


def test_a_time_in_json_is_written_as_utc(database: Database) -> None:
    node = add_node(database, extra={"at": NOON})
    assert get_node(database, node)["extra"] == {"at": "2026-01-31T12:00:00.123456+00:00"}


def test_names_that_differ_in_case_or_accent_are_different(database: Database) -> None:
    uuids = {name: add_node(database, name=name) for name in ("rack", "Rack", "räck")}
    for name, uuid in uuids.items():
        assert get_node(database, name)["uuid"] == uuid


def test_a_text_too_long_for_its_column_is_the_requests_fault(server_database: Database) -> None:
    with pytest.raises(errors.InvalidRequest, match="cannot store a value"):
        add_node(server_database, name="x" * 300)


def test_times_compare_in_the_database_as_they_do_here(database: Database) -> None:
    step = datetime.timedelta(microseconds=1)
    node = add_node(database, wake_at=NOON)
    ask = [NOON - step, NOON, NOON + step]
    found = [
        database.read(lambda conn, now=now: sweeps.due(conn, now=now, limit=5))  # type: ignore[misc]
        for now in ask
    ]
    assert [len(rows) for rows in found] == [0, 1, 1]
    assert found[1][0]["uuid"] == node


# JSON of a column: whatever a machine may have sent, it is stored, and can be shown.


@pytest.mark.parametrize("value", [{"a": [1, -(2**63), 2**64 - 1, 0.5, None, True, "ü\n"]}, [], ""])
def test_json_value_stays_as_it_is(value: object) -> None:
    assert encryption.from_json(encryption.to_json(value)) == value == json.loads(json.dumps(value))


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        (
            '{"disk\\ud800": ["\\udfff", {"a": "b\\u0000\\ud800"}]}',
            '{"disk�": ["�", {"a": "b��"}]}',
        ),
        ('{"size": 18446744073709551616}', '{"size": "18446744073709551616"}'),
        ('[-9223372036854775809, "x"]', '["-9223372036854775809", "x"]'),
        ('["\\ud83d\\ude00"]', '["😀"]'),
    ],
)
def test_text_that_cannot_be_stored_is_replaced(sent: str, kept: str) -> None:
    assert orjson.loads(encryption.to_json(json.loads(sent))) == json.loads(kept)


def test_value_that_is_no_json_is_an_error() -> None:
    with pytest.raises(TypeError):
        encryption.to_json({"a": object()})


# What is secret lies encrypted in the database, under keys that can be changed while it runs.

OLD, NEW, OTHER = (base64.urlsafe_b64encode(byte * 32).decode() for byte in (b"o", b"n", b"x"))
TEXT = '{"redfish_password":"s3cret","deeper":[{"ä":null}]}'
VALUE = {"redfish_password": "s3cret", "deeper": [{"ä": None}]}
OBJECTS = ("driver_info", "driver_internal_info", "instance_info", "clean_step")

Reopen = Callable[..., Database]


@pytest.fixture
def reopen(database: Database) -> Iterator[Reopen]:
    """A function that opens the test's database as another process would, with keys."""
    with contextlib.ExitStack() as opened:

        def open_(*keys: str) -> Database:
            found = session.open_database(database.url, encryption_keys=keys)
            return opened.enter_context(contextlib.closing(found))

        yield open_


def stored(database: Database, table: sa.Table, *names: str) -> list[tuple[Any, ...]]:
    """Return columns as they lie there, row after row as they were inserted."""
    chosen = [sa.cast(table.c[name], sa.Text) for name in names]
    query = sa.select(*chosen).order_by(*table.primary_key)
    found = database.read(lambda conn: conn.execute(query).all())
    return [tuple(row) for row in found]


def test_nothing_secret_lies_open(reopen: Reopen) -> None:
    database = reopen(NEW)
    node = database_rows.add_node(database, **dict.fromkeys(OBJECTS, VALUE), extra={"a": 1})

    for text in stored(database, models.nodes, *OBJECTS)[0]:
        assert text.startswith('{"$fernet":')
        assert "s3cret" not in text
    assert stored(database, models.nodes, "extra") == [('{"a":1}',)]
    row = database_rows.get_node(database, node)
    assert [row[name] for name in OBJECTS] == [VALUE] * len(OBJECTS)


def test_lists_read_them_as_they_were(reopen: Reopen) -> None:
    database = reopen(NEW)
    database_rows.add_node(database, driver_info=VALUE, instance_info={})
    database_rows.add_node(database, driver_info=None, instance_info=VALUE)
    names = ("driver_info", "instance_info")

    def read(conn: session.Connection) -> list[dict[str, Any]]:
        return nodes.LISTING.page(conn, columns=names, texts=names)

    assert database.read(read) == [
        {"driver_info": TEXT, "instance_info": "{}"},
        {"driver_info": None, "instance_info": TEXT},
    ]
    with count_statements(database) as sent:
        database.read(read)
    assert len(sent) == 1


def test_each_opening_of_a_database_has_its_own_keys(reopen: Reopen) -> None:
    """Although the columns are the same, and a driver may remember what makes JSON of values."""
    first, second, both = reopen(NEW), reopen(OTHER), reopen(NEW, OTHER)
    names = [database_rows.add_node(each, driver_info=VALUE) for each in (first, second, first)]
    texts = [text for (text,) in stored(both, models.nodes, "driver_info")]
    idents = [encryption.Keys([key]).first for key in (NEW, OTHER, NEW)]
    assert [text.partition(":")[2].partition(":")[0].strip('"') for text in texts] == idents
    assert [database_rows.get_node(both, name)["driver_info"] for name in names] == [VALUE] * 3
    with pytest.raises(errors.KeyMissing):
        database_rows.get_node(first, names[1])


def test_text_that_looks_encrypted_in_an_open_column_is_returned_as_written(reopen: Reopen) -> None:
    odd = {encryption.MARK: "none:{}"}
    node = database_rows.add_node(reopen(NEW), extra=odd, driver_info=odd)
    row = database_rows.get_node(reopen(NEW), node)
    assert (row["extra"], row["driver_info"]) == (odd, odd)


def test_a_change_is_sealed_as_well(reopen: Reopen) -> None:
    database = reopen(NEW)
    node = database_rows.add_node(database)
    database.write(lambda conn: nodes.edit(conn, node, {"driver_info": VALUE}, generation=0))
    assert "s3cret" not in stored(database, models.nodes, "driver_info")[0][0]
    assert database_rows.get_node(database, node)["driver_info"] == VALUE


def test_without_keys_all_is_as_ever(reopen: Reopen) -> None:
    for database in (reopen(), reopen("none"), reopen("none", OLD)):
        node = database_rows.add_node(database, driver_info=VALUE)
        assert stored(database, models.nodes, "driver_info")[-1][0].startswith('{"redfish_')
        assert database_rows.get_node(database, node)["driver_info"] == VALUE


def test_keys_are_changed_while_others_read_and_write(reopen: Reopen) -> None:
    """The way that docs/security.rst tells, process after process."""
    before = reopen()
    names = [
        database_rows.add_node(before, driver_info=VALUE, name=f"n{place}") for place in range(3)
    ]

    def all_read(*processes: Database) -> None:
        for each in processes:
            for name in names:
                assert database_rows.get_node(each, name)["driver_info"] == VALUE

    first = reopen("none", OLD)
    all_read(before, first)
    second = reopen(OLD)
    names.append(database_rows.add_node(second, driver_info=VALUE, name="n3"))
    all_read(first, second)
    done = {one.table: one for one in reencryption.run(second)}
    assert (done["nodes"].found, done["nodes"].done) == (4, 3)
    all_read(first, second)

    third = reopen(OLD, NEW)
    fourth = reopen(NEW, OLD)
    names.append(database_rows.add_node(fourth, driver_info=VALUE, name="n4"))
    names.append(database_rows.add_node(third, driver_info=VALUE, name="n5"))
    all_read(third, fourth)
    assert sum(one.done for one in reencryption.run(fourth)) == 5
    assert sum(one.done for one in reencryption.run(fourth)) == 0
    all_read(reopen(NEW))
    with pytest.raises(errors.KeyMissing, match=r"\[database\]encryption_keys"):
        all_read(reopen(OLD))
    with pytest.raises(errors.KeyMissing):
        all_read(reopen())

    open_again = reopen("none", NEW)
    reencryption.run(open_again)
    all_read(reopen())


def test_database_lists_the_keys_that_it_needs(
    reopen: Reopen, caplog: pytest.LogCaptureFixture
) -> None:
    def idents(*keys: str) -> set[str]:
        return {encryption.Keys([key]).first for key in keys}

    def needed(database: Database) -> set[str]:
        return database.read(reencryption.used)

    before = reopen()
    database_rows.add_node(before, driver_info=VALUE, instance_info={"$fernet": "odd"}, name="open")
    assert needed(before) == {"none"}
    database_rows.add_node(reopen(OLD), driver_info=VALUE, name="old")
    node = database_rows.add_node(reopen(NEW, OLD), clean_step=VALUE, name="new")
    assert needed(before) == {"none"} | idents(OLD, NEW)

    for keys in ((), ("none",), (OTHER,)):
        with pytest.raises(errors.KeyMissing, match=r"\[database\]encryption_keys"):
            reencryption.check(reopen(*keys))
    reencryption.check(reopen(OTHER, NEW, OLD))
    assert caplog.text == ""
    reencryption.check(reopen(OLD))
    (told,) = caplog.messages
    assert idents(NEW).pop() in told
    assert idents(OLD).pop() not in told

    args = {"run_uuid": _run(before, node), "ordinal": 0, "kind": "clean", "interface": "deploy"}
    step = {**args, "step": "x", "state": "done", "args": VALUE}
    reopen(OTHER).write(lambda conn: conn.execute(models.run_steps.insert(), step) and None)
    assert needed(before) == {"none"} | idents(OLD, NEW, OTHER)
    reencryption.check(reopen(OLD, NEW))  # what is large is looked through on demand alone


def _run(database: Database, node: str) -> str:
    run = {"uuid": database_rows.new_uuid(), "node_uuid": node, "verb": "clean", "state": "done"}
    made = {**run, "started_at": clock.now()}
    database.write(lambda conn: conn.execute(models.runs.insert(), made) and None)
    return str(run["uuid"])


def test_reencrypting_changes_nothing_else(reopen: Reopen) -> None:
    first, second = reopen(OLD), reopen(NEW, OLD)
    node = database_rows.add_node(first, driver_info=VALUE, generation=7)
    before = database_rows.get_node(first, node)
    reencryption.run(second)
    assert database_rows.get_node(second, node) == before


def test_many_rows_and_every_family(reopen: Reopen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reencryption, "PART", 2)
    plain, database = reopen(), reopen(NEW)
    for place in range(5):
        database_rows.add_node(plain, driver_info=VALUE, name=f"n{place}")
    args = [{"interface": "deploy", "step": "x", "args": VALUE, "priority": 1}]
    template = {"uuid": database_rows.new_uuid(), "name": "CUSTOM_T", "steps": args, "extra": {}}
    plain.write(lambda conn: resources.DEPLOY_TEMPLATES.insert(conn, template))
    done = {one.table: (one.found, one.done) for one in reencryption.run(database)}
    assert done["nodes"] == (5, 5)
    assert done["deploy_templates"] == (1, 1)
    assert "s3cret" not in stored(database, models.deploy_templates, "steps")[0][0]
    found = database.read(lambda conn: resources.DEPLOY_TEMPLATES.get(conn, "CUSTOM_T"))
    assert found["steps"] == args


@pytest.mark.parametrize("keys", [(), (NEW,)], ids=["open", "sealed"])
def test_a_callers_value_of_our_form_is_a_value(reopen: Reopen, keys: tuple[str, ...]) -> None:
    database = reopen(*keys)
    for odd in ({"$fernet": "deadbeef:gAAAA"}, {"$fernet": None, "x": 1}):
        node = database_rows.add_node(database, driver_info=odd)
        assert database_rows.get_node(database, node)["driver_info"] == odd
        database.write(
            lambda conn, node=node: conn.execute(  # type: ignore[misc]
                models.nodes.delete().where(models.nodes.c.uuid == node)
            )
        )


def test_a_broken_token_is_told_apart_from_none(reopen: Reopen) -> None:
    database = reopen(NEW)
    node = database_rows.add_node(database, driver_info=VALUE)
    ident = encryption.Keys([NEW]).encrypt_value({"a": 1})["$fernet"].partition(":")[0]
    broken = '{"$fernet":"' + ident + ':nonsense"}'
    reopen().write(
        lambda conn: conn.execute(sa.text("UPDATE nodes SET driver_info = :it"), {"it": broken})
    )
    with pytest.raises(errors.KeyMissing):
        database_rows.get_node(database, node)


@pytest.mark.parametrize(
    "key", ["short", "", "x" * 44, NEW[:-2]], ids=["short", "empty", "odd", "cut"]
)
def test_a_key_that_is_none_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(config.ConfigError, match="number 2 is no Fernet key") as refusal:
        encryption.Keys([OLD, key])
    assert not key or key not in str(refusal.value)


@pytest.mark.parametrize(
    ("table", "known"),
    [
        (models.nodes, fields.NODE),
        (models.deploy_templates, fields.DEPLOY_TEMPLATE),
        (models.runbooks, fields.RUNBOOK),
        (models.volume_targets, fields.VOLUME_TARGET),
        (models.inspection_rules, fields.INSPECTION_RULE),
    ],
    ids=lambda each: getattr(each, "name", ""),
)
def test_every_field_that_is_masked_is_sealed(
    table: sa.Table, known: tuple[fields.Field, ...]
) -> None:
    secret = {str(field.stored) for field in known if field.secret}
    assert secret == set(encryption.encrypted_columns(table))
