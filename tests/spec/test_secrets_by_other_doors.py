"""A text with a secret that reaches a document, a row or the log without a failed run."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite.core import log_lines
from tests.support.operator import Operator

OWN = "own-s3cret-of-the-bmc"
SAID = f"user root with {OWN} was refused; password=hunter22"
CALLS: dict[str, tuple[str, str, str, Any]] = {
    # name: the call of the driver that fails, and a request that makes it
    "nmi": ("management.inject_nmi", "PUT", "management/inject_nmi", {}),
    "lamp": (
        "management.set_indicator_state",
        "PUT",
        "management/indicators/system/led",
        {"state": "on"},
    ),
    "secure boot": (
        "management.set_secure_boot_state",
        "PUT",
        "states/secure_boot",
        {"target": True},
    ),
    "media": (
        "management.attach_virtual_media",
        "POST",
        "vmedia",
        {"device_type": "cdrom", "image_url": "http://192.0.2.1/a.iso"},
    ),
    "vendor": ("vendor.blink", "POST", "vendor_passthru/blink", {}),
}


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """What the service logs meanwhile, as a program would write it."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(log_lines.OneLine(logging.Formatter()))
    logger = logging.getLogger("ironic_lite")
    logger.addHandler(handler)
    yield stream
    logger.removeHandler(handler)


def leaking(texts: dict[str, str]) -> list[str]:
    return [name for name, text in texts.items() if "hunter" in text or OWN in text]


@pytest.mark.parametrize("wait", [False, True], ids=["at once", "waiting"])
@pytest.mark.parametrize("name", CALLS)
def test_secret_in_the_failure_of_a_call_is_masked(
    operator: Operator, log: io.StringIO, name: str, wait: bool
) -> None:
    call, method, path, body = CALLS[name]
    info = {"fake_fail_calls": {call: SAID}, "ipmi_password": OWN}
    node = operator.rig.node("manageable", driver_info=info)
    headers = {"Prefer": "wait=20"} if wait else None
    answer = operator.api.request(method, f"/v1/nodes/{node}/{path}", body, headers=headers)
    operator.rig.settled(node)
    events = operator.api.get(f"/v1/events?since=0&node={node}").body.decode()
    shown = str({key: value for key, value in operator.shows(node).items() if key != "driver_info"})
    found = {"answer": answer.body.decode(), "events": events, "node": shown}
    assert leaking({**found, "log": log.getvalue()}) == []


def test_secret_in_a_read_of_the_power_state_is_masked(
    operator: Operator, log: io.StringIO
) -> None:
    info = {"fake_fail_power": SAID, "ipmi_password": OWN}
    node = operator.rig.node("manageable", driver_info=info, power_state="power on")
    for _ in range(5):
        operator.sweep()
    assert "power cannot be read" in log.getvalue()
    row = operator.rig.get(node)
    assert "******" in row["maintenance_reason"]
    shown = {name: str(row[name]) for name in ("last_error", "maintenance_reason")}
    assert leaking({**shown, "log": log.getvalue()}) == []


def test_secret_in_the_failure_of_a_batch_is_masked(operator: Operator, log: io.StringIO) -> None:
    info = {"fake_fail_steps": {"management.reset_bmc": SAID}, "ipmi_password": OWN}
    node = operator.rig.node("manageable", driver_info=info)
    steps = [{"interface": "management", "step": "reset_bmc"}]
    body = {"nodes": [node], "request": {"target": "clean", "clean_steps": steps}}
    made = operator.api.post("/v1/batches", body)
    assert made.status == 201, made.text
    for _ in range(3):
        operator.sweep()
        operator.rig.settled(node)
    path = f"/v1/batches/{made.json['uuid']}"
    texts = {
        "batch": operator.api.get(path).body.decode(),
        "nodes": operator.api.get(f"{path}/nodes").body.decode(),
        "events": operator.api.get("/v1/events?since=0").body.decode(),
        "runs": operator.api.get("/v1/runs?detail=true").body.decode(),
    }
    assert "failed" in texts["nodes"]
    assert leaking({**texts, "log": log.getvalue()}) == []


def test_secret_in_sensor_reading_is_masked_in_the_log(
    operator: Operator, log: io.StringIO
) -> None:
    info = {"fake_fail_calls": {"management.get_sensors_data": SAID}, "ipmi_password": OWN}
    operator.rig.node("manageable", driver_info=info)
    operator.sweep()
    assert leaking({"log": log.getvalue()}) == []


def test_secret_in_the_reason_of_a_caller_is_masked(operator: Operator, log: io.StringIO) -> None:
    node = operator.rig.node("manageable", driver_info={"ipmi_password": OWN})
    path = f"/v1/nodes/{node}"
    declared = {"data_state": "dirty", "reason": SAID}
    assert operator.api.put(f"{path}/data_state", declared).status == 204
    hold = operator.api.post(f"{path}/holds", {"kind": "freeze", "reason": SAID})
    assert "******" in hold.json["reason"]
    refused = operator.asks(node, "provide")
    assert (refused.status, "******" in refused.text) == (409, True)
    found = {"hold": hold.body.decode(), "refused": refused.body.decode()}
    why = operator.api.get(f"{path}/why").body.decode()
    ended = f"{path}/holds/{hold.json['uuid']}?reason=token%3Dhunter22%20{OWN}"
    assert operator.api.delete(ended).status == 204
    slow = {"driver_info__fake_async_steps": ["*"], "driver_info__fake_step_seconds": 3600}
    assert operator.patches(node, **slow).status == 200
    steps = [{"interface": "management", "step": "reset_bmc"}] * 2
    assert operator.asks(node, "clean", clean_steps=steps).status == 202
    operator.rig.service.runtime.workers.wait_idle(10)
    stop = operator.api.put(f"{path}/runs/current/stop", {"how": "hold", "reason": SAID})
    assert (stop.status, "******" in stop.json["reason"]) == (202, True)
    surfaces = ("/v1/holds", f"{path}/history?detail=true", "/v1/events?since=0", f"{path}/why")
    found |= {each: operator.api.get(each).body.decode() for each in surfaces}
    found |= {"why of a hold": why, "stop": stop.body.decode(), "log": log.getvalue()}
    assert leaking(found) == []
    assert "token=******" in found["/v1/events?since=0"]


def test_secret_in_the_reason_of_a_waiver_is_masked(operator: Operator, log: io.StringIO) -> None:
    info = {"fake_fail_steps": {"bios.factory_reset": "smoke"}, "ipmi_password": OWN}
    node = operator.rig.node("manageable", driver_info=info)
    operator.clean(node, "bios.factory_reset", "management.reset_bmc")
    waive = {"waive": [{"ordinal": 0, "reason": SAID}]}
    assert operator.provision(node, "retry", retry=waive)["provision_state"] == "manageable"
    path = f"/v1/nodes/{node}"
    surfaces = (f"{path}/history?detail=true", "/v1/events?since=0", f"{path}/runs?detail=true")
    found = {each: operator.api.get(each).body.decode() for each in surfaces}
    assert leaking({**found, "log": log.getvalue()}) == []
    assert "******" in found["/v1/events?since=0"]
