"""Data state and erasure records: transitions, evidence of each end of a step, and signatures."""

from __future__ import annotations

import hashlib
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tests.support.operator import Json, Operator

Serve = Callable[..., Operator]
ERASED: Json = {"name": "/dev/sda", "serial": "S1", "result": "erased", "level": "clear"}
SKIPPED: Json = {"name": "/dev/sdb", "serial": "S2", "result": "skipped", "why": "read-only"}
FAILED: Json = {"name": "/dev/sdc", "serial": "S3", "result": "failed", "why": "exit 5"}
STEP = "deploy.erase_devices"


def enrol(operator: Operator, *disks: Json, **values: Any) -> str:
    """Add a node with these disks."""
    info = {"fake_erasures": list(disks)} if disks else {}
    return operator.enroll(driver_info=info, **values)


def state(operator: Operator, node: str) -> tuple[str, str | None]:
    """Return data_state, and the run or word that made it so."""
    shown = operator.api.get(f"/v1/nodes/{node}?fields=data_state,data_state_by").json
    return shown["data_state"], shown["data_state_by"]


def records(operator: Operator, node: str) -> list[Json]:
    """Return the whole records of a node, the oldest first."""
    rows = operator.api.get(f"/v1/nodes/{node}/erasures").json["erasures"]
    return [operator.api.get(f"/v1/erasures/{one['uuid']}").json for one in reversed(rows)]


def make_key(folder: pathlib.Path, name: str = "key.pem") -> str:
    """Write a new private key; return its path."""
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    path = folder / name
    pem = serialization.Encoding.PEM
    path.write_bytes(Ed25519PrivateKey.generate().private_bytes(pem, form, plain))
    return str(path)


def declare(operator: Operator, node: str, after: str) -> None:
    """Declare the state of a node's data."""
    body = {"data_state": after, "reason": "new from the factory"}
    answer = operator.api.put(f"/v1/nodes/{node}/data_state", body)
    assert answer.status == 204, answer.text


@pytest.mark.parametrize(
    "before, disks, after, result",
    [
        ("dirty", [ERASED], "clean", "complete"),
        ("clean", [ERASED, SKIPPED], "dirty", "partial"),
        ("dirty", [ERASED, SKIPPED], "dirty", "partial"),
        ("unknown", [SKIPPED], "unknown", "failed"),
        ("clean", [FAILED], "dirty", "failed"),
        ("dirty", [], "unknown", "unknown"),
        ("clean", [], "unknown", "unknown"),
        ("dirty", [{**ERASED, "level": "none"}], "dirty", "complete"),
    ],
)
def test_end_of_an_erasing_step_decides_the_state_and_makes_a_record(
    operator: Operator, before: str, disks: list[Json], after: str, result: str
) -> None:
    node = enrol(operator, *disks)
    declare(operator, node, before)
    answer = operator.asks(node, "clean", clean_steps=[{"interface": "deploy", "step": STEP[7:]}])
    assert answer.status == 202, answer.text
    operator.rig.settled(node)
    (record,) = records(operator, node)
    assert (state(operator, node)[0], record["result"]) == (after, result)
    named = [one["name"] for one in (*record["disks"], *record["not_erased"])]
    assert named == [one["name"] for one in disks]
    step = operator.rig.run(node)["steps"][0]
    assert step["state"] == ("failed" if FAILED in disks else "done")
    assert record["run"]["uuid"] == operator.rig.run(node)["uuid"]
    assert (record["error"] is not None) is (FAILED in disks)


def test_purge_is_needed_where_the_option_asks_for_it(serve: Serve) -> None:
    operator = serve(conductor__clean_level="purge")
    for level, after in (("clear", "unknown"), ("purge", "clean")):
        node = enrol(operator, {**ERASED, "level": level})
        operator.clean(node, STEP)
        assert state(operator, node)[0] == after


def test_deployment_makes_a_clean_node_dirty_and_cleaning_makes_it_clean(
    operator: Operator,
) -> None:
    node = enrol(operator, ERASED, state="available")
    declare(operator, node, "clean")
    assert state(operator, node) == ("clean", "declared")
    operator.provision(node, "active")
    assert state(operator, node)[0] == "dirty"
    operator.provision(node, "deleted")
    assert state(operator, node) == ("clean", records(operator, node)[-1]["run"]["uuid"])


def test_fields_are_shown_only_when_named_and_filter_lists(operator: Operator) -> None:
    node = enrol(operator)
    for path in (f"/v1/nodes/{node}", "/v1/nodes/detail", "/v1/nodes"):
        assert b"data_state" not in operator.api.get(path).body
    declare(operator, node, "dirty")
    found = operator.api.get("/v1/nodes?data_state=dirty").json["nodes"]
    assert [one["uuid"] for one in found] == [node]
    assert operator.api.get("/v1/nodes?data_state=clean").json["nodes"] == []
    assert operator.api.get("/v1/nodes?data_state=gone").status == 400


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"data_state": "clean"},
        {"data_state": "gone", "reason": "x"},
        {"data_state": "clean", "reason": "  "},
        {"data_state": "clean", "reason": "x", "by": "y"},
    ],
)
def test_invalid_declarations_change_nothing(operator: Operator, body: Json) -> None:
    node = enrol(operator)
    assert operator.api.put(f"/v1/nodes/{node}/data_state", body).status == 400
    assert state(operator, node) == ("unknown", None)


def test_required_proof_fails_cleaning_and_refuses_available(serve: Serve) -> None:
    operator = serve(conductor__require_clean_data=True)
    node = enrol(operator)
    operator.asks(node, "provide")
    row = operator.rig.settled(node)
    assert row["provision_state"] == "clean failed"
    assert "not proven" in row["last_error"]
    proven = enrol(operator, ERASED)
    operator.provision(proven, "provide")
    assert operator.rig.get(proven)["provision_state"] == "available"


def test_signatures_verify_with_openssl_and_chains_show_gaps(
    serve: Serve, tmp_path: pathlib.Path
) -> None:
    operator = serve(conductor__evidence_key_file=make_key(tmp_path))
    node = enrol(operator, ERASED)
    for _ in range(3):
        operator.clean(node, STEP)
    rows = operator.api.get(f"/v1/nodes/{node}/erasures").json["erasures"][::-1]
    told = [operator.api.get(f"/v1/erasures/{one['uuid']}") for one in rows]
    digests = [hashlib.sha256(one.body).hexdigest() for one in told]
    assert digests == [one["sha256"] for one in rows]
    previous = [one.json["previous"] for one in told]
    assert previous == [None, *(f"sha256:{one}" for one in digests[:-1])]
    key = told[0].json["issuer"]["key"]
    sealed = operator.api.get(f"/v1/erasures/{rows[0]['uuid']}/signature").body
    pem = operator.api.get(f"/v1/erasures/keys/{key}").body
    assert b"PRIVATE" not in pem
    assert verifies(tmp_path, told[0].body, sealed, pem)
    assert not verifies(tmp_path, told[0].body.replace(b'"S1"', b'"S9"'), sealed, pem)


def verifies(folder: pathlib.Path, record: bytes, sealed: bytes, pem: bytes) -> bool:
    """Return whether openssl accepts the signature of a record."""
    for name, data in (("e.json", record), ("e.sig", sealed), ("key.pub", pem)):
        (folder / name).write_bytes(data)
    command = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", "key.pub", "-rawin"]
    command += ["-in", "e.json", "-sigfile", "e.sig"]
    return subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode == 0


def test_unsigned_records_say_so(operator: Operator) -> None:
    node = enrol(operator, ERASED)
    operator.clean(node, STEP)
    (row,) = operator.api.get("/v1/erasures?serial=S1").json["erasures"]
    assert row["key"] is None
    assert operator.api.get(f"/v1/erasures/{row['uuid']}/signature").status == 404
    assert operator.api.get("/v1/erasures/keys/none").status == 404
    assert operator.api.get(f"/v1/erasures/{node}").status == 404
    assert operator.api.get("/v1/erasures?serial=S7").json["erasures"] == []


def test_records_outlive_their_node(operator: Operator) -> None:
    node = enrol(operator, ERASED)
    operator.clean(node, STEP)
    assert operator.api.delete(f"/v1/nodes/{node}").status == 204
    (row,) = operator.api.get(f"/v1/erasures?node={node}").json["erasures"]
    assert operator.api.get(f"/v1/erasures/{row['uuid']}").json["node"]["uuid"] == node
