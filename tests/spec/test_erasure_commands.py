"""The commands for erasure records, with the API in place of the network."""

from __future__ import annotations

import argparse
import datetime
import io
import pathlib
import types
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from cliff import lister
from cryptography.hazmat.primitives import serialization
from ironicclient import exc

from ironic_lite.db.tables import models
from ironic_lite_cli import commands, erasures
from tests.spec.test_erasures import ERASED, SKIPPED, STEP, enrol
from tests.support.evidence_key import make_key
from tests.support.operator import Operator

pytestmark = pytest.mark.feature("erasures")

Serve = Callable[..., Operator]
_ROW = models.erasures.c


class Wire:
    """The HTTP client of the command line, led to the API in this process."""

    def __init__(self, operator: Operator) -> None:
        self._api = operator.api

    def json_request(self, method: str, url: str, body: Any = None, **more: Any) -> Any:
        """Send a request; return the answer and its JSON value."""
        answer = self._api.request(method, url, body, headers=more.get("headers"))
        if answer.status == 404:
            raise exc.NotFound(answer.text)
        assert answer.status < 400, answer.text
        is_json = answer.headers.get("content-type", "").startswith("application/json")
        return types.SimpleNamespace(content=answer.body), answer.json if is_json else None


def run(operator: Operator, kind: Any, *words: str) -> tuple[int, list[dict[str, Any]], str]:
    """Run a command; return its exit status, its rows by column, and its messages."""
    faults = io.StringIO()
    manager = types.SimpleNamespace(baremetal=types.SimpleNamespace(http_client=Wire(operator)))
    command = kind(types.SimpleNamespace(client_manager=manager, stderr=faults), None)
    names, found = command.take_action(command.get_parser("baremetal").parse_args(list(words)))
    rows = found if issubclass(kind, lister.Lister) else [found]
    shown = [dict(zip(names, row, strict=True)) for row in rows]
    return getattr(command, "status", 0), shown, faults.getvalue()


def verify(operator: Operator, *words: str) -> tuple[int, list[str]]:
    """Return the exit status of a verification, and its result for each record."""
    status, rows, _ = run(operator, erasures.VerifyErasures, *words)
    return status, [row["verified"] for row in rows]


def records(operator: Operator, node: str) -> list[Any]:
    """Return the rows of a node's records, the oldest first."""
    statement = sa.select(models.erasures).where(_ROW.node_uuid == node).order_by(_ROW.id)
    return operator.rig.database.read(lambda conn: list(conn.execute(statement)))


@pytest.fixture
def signed(serve: Serve, tmp_path: pathlib.Path) -> tuple[Operator, str]:
    """A service that signs, and a node with three records."""
    operator = serve(conductor__evidence_key_file=make_key(tmp_path), api__max_limit=2)
    node = enrol(operator, ERASED, name="e1")
    for _ in range(3):
        operator.clean(node, STEP)
    return operator, node


def test_list_and_show(operator: Operator) -> None:
    node = enrol(operator, ERASED, SKIPPED)
    operator.clean(node, STEP)
    _, (row,), _ = run(operator, commands.erasure_list, "--node", node, "--result", "partial")
    assert (row["node_uuid"], row["serials"], row["key"]) == (node, "S1,S2", None)
    for words in (["--serial", "S9"], ["--result", "failed"], ["--since", "2100-01-01T00:00:00Z"]):
        assert run(operator, commands.erasure_list, *words)[1] == []
    _, (shown,), _ = run(operator, commands.erasure_show, row["uuid"])
    assert shown["disks"][0]["serial"] == "S1"


def test_good_records_of_a_node_in_several_pages(signed: tuple[Operator, str]) -> None:
    operator, node = signed
    for named in (node, "e1"):
        assert verify(operator, "--node", named) == (0, ["good"] * 3)
    assert verify(operator, records(operator, node)[1].uuid.upper()) == (0, ["good"])
    assert operator.api.delete(f"/v1/nodes/{node}").status == 204
    assert verify(operator, "--node", node) == (0, ["good"] * 3)


def test_changed_byte_is_found(signed: tuple[Operator, str]) -> None:
    operator, node = signed
    change = sa.func.replace(_ROW.statement, '"S1"', '"S9"')
    record = records(operator, node)[0].uuid
    statement = models.erasures.update().where(_ROW.uuid == record).values(statement=change)
    operator.rig.database.write(lambda conn: conn.execute(statement))
    text = "the record was changed, or signed with another key"
    assert verify(operator, record) == (3, [text])
    status, told = verify(operator, "--node", node)
    assert (status, told[0], told[2:]) == (3, text, ["good", "good"])
    assert "missing" in told[1]


OTHER = "11111111-2222-4333-8444-555555555555"


CHANGED: tuple[tuple[str, Any], ...] = (
    ("node_name", "e2"),
    ("node_name", None),
    ("run_uuid", OTHER),
    ("at", datetime.datetime(2030, 1, 2, 3, 4, 5)),
    ("result", "partial"),
    ("level", "purge"),
    ("serials", ["S1", "S7"]),
    ("serials", []),
    ("key", None),
    ("key", "of-someone-else"),
    ("sha256", "0" * 64),
)


@pytest.mark.parametrize(("column", "value"), CHANGED)
def test_listed_value_that_differs_from_the_signed_record_is_named(
    signed: tuple[Operator, str], column: str, value: object
) -> None:
    operator, node = signed
    record = records(operator, node)[2].uuid
    statement = models.erasures.update().where(_ROW.uuid == record).values({column: value})
    operator.rig.database.write(lambda conn: conn.execute(statement))
    for words, place in ((["--node", node], 2), ([record], 0)):
        status, told = verify(operator, *words)
        assert status == 3
        assert told[place].startswith(f"the list differs: {column} is ")
        assert told[:place] == ["good"] * place


def test_each_column_of_lists_is_compared(signed: tuple[Operator, str]) -> None:
    operator, _node = signed
    row = operator.api.get("/v1/erasures?limit=1").json["erasures"][0]
    others = {"uuid", "node_uuid"}  # a record with another one is not that of the list
    assert row.keys() - {"links"} == others | {column for column, _ in CHANGED}


def test_record_of_a_list_of_another_node_is_found_by_its_uuid(
    signed: tuple[Operator, str],
) -> None:
    operator, node = signed
    record = records(operator, node)[1].uuid
    statement = models.erasures.update().where(_ROW.uuid == record).values(node_uuid=OTHER)
    operator.rig.database.write(lambda conn: conn.execute(statement))
    assert verify(operator, record) == (3, [f"the list of node {node} does not have it"])


@pytest.mark.parametrize("removed", [0, 1])
def test_removed_record_is_named(signed: tuple[Operator, str], removed: int) -> None:
    operator, node = signed
    gone = records(operator, node)[removed]
    statement = models.erasures.delete().where(_ROW.uuid == gone.uuid)
    operator.rig.database.write(lambda conn: conn.execute(statement))
    status, rows, _ = run(operator, erasures.VerifyErasures, "--node", node)
    (missing,) = [row for row in rows if row["verified"] != "good"]
    assert (status, len(rows)) == (3, 3)
    assert missing["record"] == f"sha256:{gone.sha256}"
    assert "missing" in missing["verified"]
    assert rows.index(missing) == removed


def test_record_of_another_node_is_found(signed: tuple[Operator, str]) -> None:
    operator, node = signed
    other = enrol(operator, ERASED)
    statement = models.erasures.update().values(node_uuid=other)
    operator.rig.database.write(lambda conn: conn.execute(statement))
    assert verify(operator, "--node", other) == (3, [f"the record is about node {node}"] * 3)


def test_only_given_keys_are_trusted(signed: tuple[Operator, str], tmp_path: pathlib.Path) -> None:
    operator, node = signed
    record = records(operator, node)[0]
    mine, other = tmp_path / "mine.pem", tmp_path / "other.pem"
    mine.write_bytes(operator.api.get(f"/v1/erasures/keys/{record.key}").body)
    other.write_bytes(public_of(make_key(tmp_path, "second.pem")))
    assert verify(operator, record.uuid, "--key", str(mine)) == (0, ["good"])
    status, _ = verify(operator, record.uuid, "--key", str(other))
    assert status == 3
    both = ["--key", str(other), "--key", str(mine)]
    assert verify(operator, "--node", node, *both) == (0, ["good"] * 3)
    for path in (tmp_path / "key.pem", tmp_path / "absent.pem"):
        with pytest.raises((SystemExit, argparse.ArgumentError)):
            verify(operator, record.uuid, "--key", str(path))


def public_of(path: str) -> bytes:
    """Return the public part of a private key, PEM."""
    private = serialization.load_pem_private_key(pathlib.Path(path).read_bytes(), None)
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return private.public_key().public_bytes(serialization.Encoding.PEM, form)


def test_unsigned_or_absent_records_are_not_good(operator: Operator) -> None:
    node = enrol(operator, ERASED)
    status, rows, told = run(operator, erasures.VerifyErasures, "--node", node)
    assert (status, rows, told) == (3, [], f"Node {node} has no erasure records.\n")
    operator.clean(node, STEP)
    assert verify(operator, "--node", node) == (3, ["not signed"])
    with pytest.raises(exc.NotFound):
        verify(operator, node)


def test_key_that_the_service_has_lost_is_named(signed: tuple[Operator, str]) -> None:
    operator, node = signed
    operator.rig.database.write(lambda conn: conn.execute(models.evidence_keys.delete()))
    key = records(operator, node)[0].key
    assert verify(operator, "--node", node) == (3, [f"the service has no key {key}"] * 3)


def test_data_state_is_declared_and_shown(operator: Operator) -> None:
    node = enrol(operator, name="d1")
    _, (before,), _ = run(operator, commands.data_state_show, "d1")
    assert (before["uuid"], before["data_state"]) == (node, "unknown")
    words = ("d1", "clean", "--reason", "new from the factory")
    _, (after,), _ = run(operator, commands.SetDataState, *words)
    assert (after["data_state"], after["data_state_by"]) == ("clean", "declared")
    with pytest.raises((SystemExit, argparse.ArgumentError)):
        run(operator, commands.SetDataState, "d1", "spotless", "--reason", "x")
