"""Observed nodes: the service looks at their machines, and changes nothing until a release."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ironic_lite import errors
from ironic_lite.db.tables import models
from ironic_lite.domain import holds
from tests.support.conductor_fixture import listed
from tests.support.operator import Json, Operator
from tests.support.statements import count_statements

Serve = Callable[..., Operator]


def observe(operator: Operator, *nodes: str, **body: Any) -> Json:
    """Hold these nodes, or all, with the kind observe."""
    which: Json = {"nodes": list(nodes)} if nodes else {"all": True}
    given = {"kind": "observe", "reason": "looked at", **which, **body}
    answer = operator.api.post("/v1/holds", given)
    assert answer.status == 200, answer.text
    return dict(answer.json)


def release(operator: Operator, **body: Any) -> Json:
    """End the holds of the kind observe."""
    answer = operator.api.post(
        "/v1/holds/end", {"kind": "observe", "reason": "seen", **({"all": True} | body)}
    )
    assert answer.status == 200, answer.text
    return dict(answer.json)


ORDERS: dict[str, tuple[str, str, Any]] = {
    "boot device": ("PUT", "management/boot_device", {"boot_device": "pxe"}),
    "boot mode": ("PUT", "states/boot_mode", {"target": "uefi"}),
    "secure boot": ("PUT", "states/secure_boot", {"target": True}),
    "lamp": ("PUT", "management/indicators/system/led", {"state": "on"}),
    "NMI": ("PUT", "management/inject_nmi", {}),
    "insert": ("POST", "vmedia", {"device_type": "cdrom", "image_url": "http://192.0.2.1/i.iso"}),
    "eject": ("DELETE", "vmedia", None),
    "console on": ("PUT", "states/console", {"enabled": True}),
    "console off": ("PUT", "states/console", {"enabled": False}),
    "vendor method": ("POST", "vendor_passthru?method=remember", {"value": 1}),
    "vendor method without the lock": ("POST", "vendor_passthru?method=echo", {}),
}
"""Every request outside of verbs and power that changes a machine or its BMC."""

READS = (
    "management/boot_device",
    "management/indicators",
    "vmedia",
    "states",
    "states/console",
    "vendor_passthru?method=echo",
    "validate",
    "why",
)


def send(operator: Operator, name: str, of: str) -> tuple[int, str]:
    """Send an order, and return status and text of the answer."""
    method, path, body = ORDERS[name]
    text = None if body is None else body
    answer = operator.api.request(method, f"/v1/nodes/{of}/{path}", text)
    return answer.status, answer.text if answer.body else ""


@pytest.mark.parametrize("name", ORDERS)
def test_orders_are_refused_until_the_release(operator: Operator, name: str) -> None:
    of = operator.enroll("manageable")
    observe(operator, of)
    before = operator.rig.get(of)
    status, text = send(operator, name, of)
    assert (status, "It blocks machine, and so " in text) == (409, True), text
    assert operator.rig.get(of) == before
    assert release(operator)["ended"] == 1
    assert send(operator, name, of)[0] in {200, 202, 204}
    operator.rig.settled(of)


def test_other_holds_refuse_no_order(operator: Operator) -> None:
    of = operator.enroll("manageable")
    body = {"kind": "freeze", "reason": "audit"}
    assert operator.api.post(f"/v1/nodes/{of}/holds", body).status == 201
    assert send(operator, "boot device", of)[0] == 204


def test_fields_are_corrected_and_everything_is_read(operator: Operator) -> None:
    of = operator.enroll("available")
    observe(operator)
    for path in READS:
        assert operator.api.get(f"/v1/nodes/{of}/{path}").status == 200, path
    assert (
        operator.patches(of, driver_info__fake_vendor="right", resource_class="gpu").status == 200
    )
    port = {"node_uuid": of, "address": "52:54:00:00:00:01"}
    assert operator.api.post("/v1/ports", port).status == 201
    assert operator.api.put(f"/v1/nodes/{of}/traits/CUSTOM_A", None).status == 204
    assert operator.api.put(f"/v1/nodes/{of}/maintenance", {"reason": "x"}).status == 202
    assert operator.api.delete(f"/v1/nodes/{of}/maintenance").status == 202
    assert operator.api.post(f"/v1/nodes/{of}/vifs", {"id": "vif-1"}).status == 204
    assert operator.api.delete(f"/v1/nodes/{of}/vifs/vif-1").status == 204
    volumes = {"logical_disks": [{"size_gb": 100, "raid_level": "1"}]}
    assert operator.api.put(f"/v1/nodes/{of}/states/raid", volumes).status == 204
    assert "is held (observe, " in operator.refused(of, "active", 409)
    for method, path, body in (
        ("PUT", "/states/power", {"target": "power off"}),
        ("DELETE", "", None),
    ):
        assert operator.api.request(method, f"/v1/nodes/{of}{path}", body).status == 409


def test_offered_orders_name_the_hold(operator: Operator) -> None:
    of = operator.enroll("manageable")
    observe(operator)
    offers = operator.api.get(f"/v1/nodes/{of}/why").json["orders"]
    refused = {one["order"]: (one["refused"] or {}).get("code") for one in offers}
    assert {name: code for name, code in refused.items() if code == "NodeHeld"}.keys() == {
        *("power", "boot_device", "boot_mode", "secure_boot", "vmedia", "indicators", "nmi"),
        *("console", "delete"),
    }


# -- the gate --------------------------------------------------------------------------------


def test_change_that_no_door_has_seen_is_refused_before_it_is_sent(operator: Operator) -> None:
    of = operator.enroll("manageable")
    observe(operator, of)
    with operator.rig.tasks.lock(operator.rig.who, of) as task:
        task.confirm_lock()
        with pytest.raises(errors.NodeHeld, match="It blocks machine"):
            task.confirm_lock(changes=True)
    look = operator.rig.tasks.look(operator.rig.who, of)
    with pytest.raises(errors.NodeHeld):
        look.confirm_lock(changes=True)
    release(operator)
    with operator.rig.tasks.lock(operator.rig.who, of) as task:
        task.confirm_lock(changes=True)


@pytest.mark.parametrize(
    "due",
    [
        {"provision_state": "clean wait", "target_provision_state": "available"},
        {"target_power_state": "power on"},
        {"driver_internal_info": {"order": "insert an image"}},
        {"driver_internal_info": {"untidied": True}},
    ],
)
def test_work_that_was_admitted_goes_on(operator: Operator, due: Json) -> None:
    of = operator.enroll("manageable")
    operator.rig.edit(of, **due)
    observe(operator, of)
    with operator.rig.tasks.lock(operator.rig.who, of) as task:
        task.confirm_lock(changes=True)


def test_run_that_is_under_way_ends_as_without_the_hold(operator: Operator) -> None:
    of = operator.enroll("manageable", fake_step_seconds=1)
    steps = listed("deploy.erase_devices")
    assert operator.asks(of, "clean", clean_steps=steps).status == 202
    observe(operator, of)
    operator.rig.settled(of)
    assert operator.shows(of)["last_error"] is None


# -- sweeps ----------------------------------------------------------------------------------


def test_silent_bmc_is_not_put_into_maintenance(serve: Serve) -> None:
    operator = serve(conductor__power_state_sync_max_retries=1)
    of, other = (operator.enroll("active") for _ in range(2))
    observe(operator, of)
    for one in (of, other):
        operator.rig.edit(one, driver_info={"fake_fail_power": True})
    for _ in range(4):
        operator.sweep()
    shown = operator.shows(of)
    assert (shown["maintenance"], shown["fault"], shown["last_error"]) == (False, None, None)
    assert operator.shows(other)["fault"] == "power failure"
    observe(operator, other)
    operator.rig.edit(other, driver_info={})
    operator.sweep()
    assert operator.shows(other)["fault"] == "power failure"
    release(operator, unread=True)
    operator.sweep()
    assert operator.shows(other)["fault"] is None


def test_nodes_whose_bmcs_fall_silent_are_counted_and_left_by_name(serve: Serve) -> None:
    operator = serve(conductor__power_state_sync_max_retries=1)
    first, second, _ = nodes = [operator.enroll("active", name=f"r7-{n}") for n in range(3)]
    observe(operator)
    for one in (first, second):
        operator.rig.edit(one, driver_info={"fake_fail_power": True})
    for _ in range(4):
        operator.sweep()
    shown = [operator.shows(one) for one in nodes]
    power = shown[2]["power_state"]
    assert power is not None
    assert [one["power_state"] for one in shown] == [None, None, power]
    assert not any(one["maintenance"] or one["fault"] for one in shown)
    answer = release(operator)
    assert (answer["ended"], answer["left"]) == (1, 2)
    assert [(one["name"], one["code"]) for one in answer["nodes"]] == [
        ("r7-0", "PowerUnread"),
        ("r7-1", "PowerUnread"),
    ]
    operator.rig.edit(first, driver_info={})
    operator.sweep()
    assert operator.shows(first)["power_state"] == power
    assert (release(operator)["ended"], release(operator, unread=True)["ended"]) == (1, 1)
    for _ in range(4):
        operator.sweep()
    assert [operator.shows(one)["fault"] for one in nodes] == [None, "power failure", None]


@pytest.mark.feature("doctor", "move_in")
def test_doctor_names_observed_nodes_that_have_fallen_silent(serve: Serve) -> None:
    operator = serve(conductor__power_state_sync_max_retries=1)
    operator.enroll("active", name="r7-1")
    silent = operator.enroll("active", name="r7-2")
    observe(operator)
    operator.rig.edit(silent, driver_info={"fake_fail_power": True})
    for _ in range(3):
        operator.sweep()
    checks = operator.api.get("/v1/doctor").json["checks"]
    (text,) = (one["text"] for one in checks if one["name"] == "imports")
    assert text.startswith("of 2 nodes that are only observed, ")
    assert text.endswith(", 1 have not answered: r7-2")


def test_difference_is_stored_and_not_corrected(serve: Serve) -> None:
    operator = serve(conductor__force_power_state_during_sync=True)
    of = operator.enroll("active")
    observe(operator, of)
    before = operator.shows(of)["power_state"]
    operator.rig.edit(of, power_state="power off" if before == "power on" else "power on")
    operator.sweep()
    assert operator.shows(of)["power_state"] == before


def test_console_stays_enabled_and_is_not_started(operator: Operator) -> None:
    of = operator.enroll("active")
    observe(operator, of)
    operator.rig.edit(of, console_enabled=True)
    operator.sweep()
    shown = operator.rig.get(of)
    assert shown["console_enabled"]
    assert "fake_console" not in str(shown["driver_internal_info"])


# -- many nodes ------------------------------------------------------------------------------


def test_all_nodes_are_held_and_released_in_parts(operator: Operator) -> None:
    nodes = [operator.enroll("manageable") for _ in range(3)]
    assert observe(operator, limit=2) == {"held": 2, "left": 0, "more": True}
    assert observe(operator, limit=2) == {"held": 1, "left": 0, "more": False}
    assert observe(operator, limit=2) == {"held": 0, "left": 0, "more": False}
    found = operator.api.get("/v1/nodes?held=observe").json["nodes"]
    assert [one["uuid"] for one in found] == nodes
    assert operator.api.get("/v1/nodes?held=legal").json["nodes"] == []
    assert operator.api.get("/v1/nodes?held=No-Kind").status == 400
    history = operator.api.get(f"/v1/nodes/{nodes[0]}/history").json["history"]
    assert any("observe" in str(entry) for entry in history)
    first = release(operator, limit=2)
    assert (first["ended"], first["more"], first["left"]) == (2, True, 0)
    assert release(operator)["ended"] == 1
    assert operator.api.get("/v1/nodes?held=true").json["nodes"] == []


def test_group_and_names_select(operator: Operator) -> None:
    one = operator.enroll("manageable", name="r1", conductor_group="")
    two = operator.enroll("manageable", name="r2")
    operator.rig.edit(two, conductor_group="rack2")
    answer = operator.api.post(
        "/v1/holds", {"kind": "freeze", "reason": "x", "conductor_group": "Rack2"}
    )
    assert answer.json["held"] == 1
    assert [n["uuid"] for n in operator.api.get("/v1/nodes?held=freeze").json["nodes"]] == [two]
    assert observe(operator, "r1", two)["held"] == 2
    body = {"kind": "observe", "reason": "x", "nodes": [one]}
    assert operator.api.post("/v1/holds/end", body).json["ended"] == 1
    assert [n["uuid"] for n in operator.api.get("/v1/nodes?held=observe").json["nodes"]] == [two]
    body["nodes"] = ["r1", "no-such"]
    assert operator.api.post("/v1/holds/end", body).status == 404


def test_node_whose_power_is_unknown_is_left(operator: Operator) -> None:
    silent, new, good = (operator.enroll("manageable", name=f"n{n}") for n in range(3))
    operator.rig.edit(silent, power_state=None)
    operator.rig.edit(new, power_state=None, provision_state="enroll")
    observe(operator)
    hold = operator.api.get(f"/v1/nodes/{silent}/holds").json["holds"][0]
    one = operator.api.delete(f"/v1/nodes/{silent}/holds/{hold['uuid']}")
    assert (one.status, "GET /v1/doctor?node=" in one.text) == (409, True)
    answer = release(operator)
    assert (answer["ended"], answer["left"], answer["more"]) == (2, 1, False)
    left = answer["nodes"]
    assert [(n["uuid"], n["name"], n["code"]) for n in left] == [(silent, "n0", "PowerUnread")]
    assert left[0]["text"].endswith("GET /v1/doctor?node=n0 says why.")
    assert operator.api.get(f"/v1/nodes/{good}/holds").json["holds"] == []
    path = f"/v1/nodes/{silent}/holds/{hold['uuid']}"
    assert operator.api.delete(f"{path}?unread=true").status == 204
    assert operator.api.delete(path).status == 204, "it has ended"


def test_many_holds_end_by_one_statement_for_each_masked_reason(operator: Operator) -> None:
    for number in range(20):
        info = {"redfish_password": "hunter2"} if number < 2 else {}
        operator.rig.node(name=f"n{number}", driver_info=info, power_state="power on")
    observe(operator)
    with count_statements(operator.rig.database) as sent:
        assert release(operator, reason="not hunter2")["ended"] == 20
    assert len([one for one in sent if one.startswith("UPDATE holds")]) == 2
    ended = operator.api.get("/v1/holds?ended=true").json["holds"]
    assert [one["end_reason"] for one in ended] == ["not ******"] * 2 + ["not hunter2"] * 18
    assert len({one["ended_at"] for one in ended}) == 1


def test_repeated_release_names_some_of_the_nodes_that_are_left(operator: Operator) -> None:
    for number in range(120):
        operator.rig.node(name=f"silent-{number:03}", power_state=None)
    observe(operator)
    body = {"kind": "observe", "reason": "x" * 9, "all": True}
    first, again = (
        operator.api.post("/v1/holds/end", body, headers={"Idempotency-Key": "k"}).json
        for _ in range(2)
    )
    assert (first["left"], len(first["nodes"])) == (120, 120)
    assert again == {**first, "nodes": first["nodes"][:20]}


def test_observing_has_no_end_of_its_own(operator: Operator) -> None:
    of = operator.enroll("manageable")
    body = {"kind": "observe", "reason": "x", "until": "2037-01-01T00:00:00Z"}
    answer = operator.api.post(f"/v1/nodes/{of}/holds", body)
    assert (answer.status, "until" in answer.text) == (400, True)
    soon = {"kind": "freeze", "reason": "x", "until": "2037-01-01T00:00:00Z"}
    assert operator.api.post(f"/v1/nodes/{of}/holds", soon).status == 201
    freeze = {"kind": "freeze", "reason": "x", "all": True}
    assert operator.api.post("/v1/holds", freeze).json["held"] == 1, "it goes on after the other"


def test_ramdisk_of_an_observed_node_gets_no_token(serve: Serve) -> None:
    operator = serve(api__restrict_lookup=False)
    of, other = (operator.enroll("manageable") for _ in range(2))
    observe(operator, of)
    assert operator.api.get(f"/v1/lookup?node_uuid={of}").status == 404
    assert operator.api.get(f"/v1/lookup?node_uuid={other}").status == 200
    assert operator.rig.get(of)["driver_internal_info"].get("agent_secret_token") is None


BAD: dict[str, tuple[Any, int, str]] = {
    "nothing": ({"kind": "observe", "reason": "x"}, 400, "all"),
    "two": ({"kind": "observe", "reason": "x", "all": True, "nodes": ["a"]}, 400, "nodes"),
    "not all": ({"kind": "observe", "reason": "x", "all": False}, 400, "all"),
    "no reason": ({"kind": "observe", "all": True}, 400, "reason"),
    "limit": ({"kind": "observe", "reason": "x", "all": True, "limit": 1001}, 400, "limit"),
    "no nodes": ({"kind": "observe", "reason": "x", "nodes": []}, 400, "nodes"),
    "no blocks of its own": ({"kind": "audit", "reason": "x", "all": True}, 400, "kind"),
    "trial": ({"kind": "trial", "reason": "x", "all": True}, 400, "kind"),
}


@pytest.mark.parametrize("fault", BAD)
def test_bad_request_for_many_is_refused_by_its_path(operator: Operator, fault: str) -> None:
    operator.enroll("manageable")
    body, status, path = BAD[fault]
    answer = operator.api.post("/v1/holds", body)
    assert (answer.status, path in answer.text) == (status, True), answer.text
    assert operator.api.get("/v1/holds").json["holds"] == []


def test_trial_never_ends(operator: Operator) -> None:
    of = operator.enroll("manageable")
    observe(operator, of)
    held = operator.api.get("/v1/holds").json["holds"][0]["uuid"]
    operator.rig.database.write(
        lambda conn: conn.execute(models.holds.update().values(kind="trial"))
    )
    answer = operator.api.delete(f"/v1/nodes/{of}/holds/{held}")
    assert (answer.status, "Import it again after the cut-over." in answer.text) == (409, True)
    for kind in ("trial", "observe"):
        body = {"kind": kind, "reason": "x", "all": True}
        answer = operator.api.post("/v1/holds/end", body)
        assert (answer.status, "after the cut-over" in answer.text) == (409, True)
    other = operator.enroll("manageable")
    operator.rig.edit(other, power_state=None)
    observe(operator, other)
    assert release(operator)["left"] == 1, "the trial beside it does not hide it"
    assert release(operator, unread=True)["ended"] == 1
    assert send(operator, "NMI", of)[0] == 409
    assert holds.KINDS["trial"] == holds.KINDS["observe"]
