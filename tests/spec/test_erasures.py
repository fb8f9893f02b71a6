"""Data state and erasure records: transitions, evidence of each end of a step, and signatures."""

from __future__ import annotations

import hashlib
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.conductor_fixture import wait_for
from tests.support.evidence_key import make_key
from tests.support.operator import Json, Operator

pytestmark = pytest.mark.feature("erasures")

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


def declare(operator: Operator, node: str, after: str) -> None:
    """Declare the state of a node's data."""
    body = {"data_state": after, "reason": "new from the factory"}
    answer = operator.api.put(f"/v1/nodes/{node}/data_state", body)
    assert answer.status == 204, answer.text


@pytest.mark.parametrize("fails", [False, True])
def test_adoption_makes_the_data_dirty_even_if_it_fails(operator: Operator, fails: bool) -> None:
    info: Json = {"fake_fail_verbs": {"adopt": "no instance"}} if fails else {}
    node = operator.enroll("manageable", driver_info=info)
    declare(operator, node, "clean")
    shown = operator.provision(node, "adopt")
    assert shown["provision_state"] == ("adopt failed" if fails else "active")
    assert state(operator, node) == ("dirty", operator.rig.run(node)["uuid"])


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


@pytest.mark.parametrize("found", ["active", "deploy failed", "rescue", "service hold", "error"])
def test_node_that_may_have_an_instance_is_not_declared_clean(
    operator: Operator, found: str
) -> None:
    node = operator.rig.node(found)
    before = state(operator, node)
    body = {"data_state": "clean", "reason": "new from the factory"}
    answer = operator.api.put(f"/v1/nodes/{node}/data_state", body)
    assert (answer.status, found in answer.text) == (409, True)
    assert state(operator, node) == before
    declare(operator, node, "dirty")


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


@pytest.mark.parametrize("disks", [[], [ERASED, SKIPPED], [{**ERASED, "level": "none"}]])
def test_automated_cleaning_that_does_not_end_clean_fails_by_its_own_error(
    serve: Serve, disks: list[Json]
) -> None:
    operator = serve(conductor__require_clean_data=True)
    node = enrol(operator, *disks)
    operator.asks(node, "provide")
    assert operator.rig.settled(node)["provision_state"] == "clean failed"
    run = operator.rig.run(node)
    assert (run["state"], run["error"]["code"]) == ("failed", "DataNotProven")
    assert [step["state"] for step in run["steps"]] == ["done", "done"]
    assert len(records(operator, node)) == 1


def test_unproven_erasure_is_repeated_as_the_error_says(serve: Serve) -> None:
    operator = serve(conductor__require_clean_data=True)
    node = enrol(operator, ERASED, SKIPPED)
    operator.asks(node, "provide")
    row = operator.rig.settled(node)
    assert '{"retry": {"from": n}}' in row["last_error"]
    (ordinal,) = [
        one["ordinal"] for one in operator.rig.run(node)["steps"] if one["step"] == "erase_devices"
    ]
    operator.patches(node, driver_info__fake_erasures=[ERASED])
    answer = operator.asks(node, "retry", retry={"from": ordinal})
    assert answer.status == 202, answer.text
    assert operator.rig.settled(node)["provision_state"] == "available"
    assert state(operator, node)[0] == "clean"


def test_waived_erasure_of_children_leaves_their_parent_clean(operator: Operator) -> None:
    parent = enrol(operator)
    child = enrol(operator, FAILED, parent_node=parent)
    for one in (parent, child):
        declare(operator, one, "clean")
    step = {"interface": "deploy", "step": STEP[7:], "execute_on_child_nodes": True}
    operator.asks(parent, "clean", clean_steps=[step])
    assert operator.rig.settled(parent)["provision_state"] == "clean failed"
    answer = operator.asks(parent, "retry", retry={"waive": [{"reason": "not ours"}]})
    assert answer.status == 202, answer.text
    assert operator.rig.settled(parent)["provision_state"] == "manageable"
    assert state(operator, parent) == ("clean", "declared")
    assert state(operator, child)[0] == "dirty"


def test_cleaning_by_hand_needs_no_proof(serve: Serve) -> None:
    operator = serve(conductor__require_clean_data=True)
    node = enrol(operator, SKIPPED)
    assert operator.clean(node, STEP)["provision_state"] == "manageable"


@pytest.mark.parametrize("before", ["unknown", "dirty"])
def test_available_is_refused_until_the_data_are_gone(serve: Serve, before: str) -> None:
    operator = serve(conductor__require_clean_data=True)
    node = enrol(operator)
    operator.asks(node, "provide")
    assert operator.rig.settled(node)["provision_state"] == "clean failed"
    operator.api.delete(f"/v1/nodes/{node}/maintenance")
    declare(operator, node, before)
    text = operator.refused(node, "available", 409)
    assert "require_clean_data" in text
    assert f"data_state is {before}" in text
    declare(operator, node, "clean")
    assert operator.provision(node, "available")["provision_state"] == "available"


def test_allocation_passes_by_a_node_whose_data_may_be_there(serve: Serve) -> None:
    operator = serve(conductor__require_clean_data=True)
    nodes = [
        enrol(operator, ERASED, state="available", resource_class="big", name=f"n{number}")
        for number in range(3)
    ]
    for node, after in zip(nodes, ("dirty", "unknown"), strict=False):
        declare(operator, node, after)
    chosen = [allocated(operator) for _ in range(2)]
    assert [(one["state"], one["node_uuid"]) for one in chosen] == [
        ("active", nodes[2]),
        ("error", None),
    ]


def allocated(operator: Operator) -> Json:
    """Return an allocation whose search is over."""
    uuid = operator.api.post("/v1/allocations", {"resource_class": "big"}).json["uuid"]

    def ended() -> Json | None:
        found: Json = operator.api.get(f"/v1/allocations/{uuid}").json
        return None if found["state"] == "allocating" else found

    found: Json = wait_for(ended)
    return found


@pytest.mark.parametrize("required", [False, True])
@pytest.mark.parametrize("before", ["clean", "dirty", "unknown"])
def test_waived_erasure_never_makes_a_node_clean(serve: Serve, required: bool, before: str) -> None:
    operator = serve(conductor__require_clean_data=required)
    node = enrol(operator, FAILED)
    operator.asks(node, "provide")
    assert operator.rig.settled(node)["provision_state"] == "clean failed"
    declare(operator, node, before)
    waive = [{"reason": "the disk goes to the shredder"}]
    answer = operator.asks(node, "retry", retry={"waive": waive})
    assert answer.status == 202, answer.text
    row = operator.rig.settled(node)
    assert row["provision_state"] == ("clean failed" if required else "available")
    assert state(operator, node)[0] == ("dirty" if before == "clean" else before)
    assert operator.rig.run(node)["steps"][1]["state"] == "waived"
    assert [one["result"] for one in records(operator, node)] == ["failed"]


def test_record_of_a_run_names_its_waived_steps(operator: Operator) -> None:
    node = enrol(operator, ERASED)
    operator.patches(node, driver_info__fake_fail_steps={"bios.factory_reset": "no"})
    operator.clean(node, "bios.factory_reset", STEP)
    answer = operator.asks(node, "retry", retry={"waive": [{"reason": "the BIOS is new"}]})
    assert answer.status == 202, answer.text
    operator.rig.settled(node)
    (record,) = records(operator, node)
    (waived,) = record["waived"]
    (told,) = [one for one in operator.rig.run(node)["steps"] if one["waiver"]]
    assert waived == {"ordinal": 0, "step": "bios.factory_reset", **told["waiver"]}
    assert waived["reason"] == "the BIOS is new"
    assert {"requester", "at"} <= waived.keys()
    assert state(operator, node)[0] == "clean"


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
