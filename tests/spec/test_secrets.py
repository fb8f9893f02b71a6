"""Secrets in the words of a failure: masked in each document about it and in the log."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite.core import log_lines
from tests.support.operator import Operator

pytestmark = pytest.mark.feature("why")

OWN = "own-s3cret-of-the-bmc"
MARK = "hunter"
TEXTS = ("last_error", "maintenance_reason")
SECRETS: dict[str, str] = {
    "password of a URL": "bmc http://root:hunter22@10.0.0.1/x is gone",
    "query of a URL": "cannot fetch https://images/x.iso?sig=hunter22",
    "name and value": "the BMC says password=hunter22, and more",
    "word after a name": "the BMC says password: hunter",
    "header": "it answered X-Auth-Token: hunter",
    "cookie": "it answered Set-Cookie: hunter",
    "JSON": 'it sent {"token": "hunter22"}',
    "long option": "curl --password hunter22 has failed",
    "short option": "ipmitool -I lanplus -P hunter22 power on has failed",
    "list of words": "['ipmitool', '-P', 'hunter22', 'power'] has failed",
    "login of curl": "curl -u admin:hunter22 https://bmc/ has failed",
    "the node's own": f"user root with {OWN} was refused",
}
"""Words of a failure, by the kind of the secret in them."""
OF_A_RUN: dict[str, str] = {
    "run": "/v1/nodes/{node}/runs/{run}",
    "runs": "/v1/nodes/{node}/runs?detail=true",
    "log": "/v1/nodes/{node}/runs/{run}/log",
}
OF_A_NODE: dict[str, str] = {
    "why": "/v1/nodes/{node}/why",
    "events": "/v1/events?since=0&node={node}",
    "doctor": "/v1/doctor?node={node}",
}


def shown(operator: Operator, node: str, surfaces: dict[str, str]) -> dict[str, str]:
    """Return the text of each surface."""
    runs = operator.api.get(f"/v1/nodes/{node}/runs").json["runs"]
    run, found = runs[0]["uuid"] if runs else None, {}
    for name, path in surfaces.items():
        answer = operator.api.get(path.format(node=node, run=run))
        assert answer.status == 200, (name, answer.text)
        found[name] = answer.body.decode()
    return found


def leaking(texts: dict[str, str]) -> list[str]:
    return [name for name, text in texts.items() if MARK in text or OWN in text]


def texts_of(operator: Operator, node: str) -> dict[str, str]:
    """Return the texts that the service has written into a node."""
    info = operator.shows(node)["driver_internal_info"]
    return {name: str(operator.shows(node)[name]) for name in TEXTS} | {"internal": str(info)}


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


@pytest.mark.parametrize("said", SECRETS.values(), ids=SECRETS)
def test_secret_in_a_failure_is_masked_in_every_document_about_it(
    operator: Operator, log: io.StringIO, said: str
) -> None:
    info = {"fake_fail_steps": {"deploy.erase_devices": said}, "ipmi_password": OWN}
    node = operator.rig.node("manageable", driver_info=info)
    failed = operator.clean(node, "deploy.erase_devices")
    assert not leaking(texts_of(operator, node))
    assert "******" in failed["last_error"]
    found = shown(operator, node, OF_A_RUN | OF_A_NODE)
    assert [name for name, text in found.items() if "******" in text] == [
        *OF_A_RUN,
        *(name for name in OF_A_NODE if name != "doctor"),
    ]
    assert not leaking(found)
    failure = operator.api.get(f"/v1/nodes/{node}/why").json["failure"]
    assert (failure["code"], failure["step"]) == ("CleanStepFailed", "deploy.erase_devices")
    history = operator.api.get(f"/v1/nodes/{node}/history?detail=true").json["history"]
    assert failed["last_error"] in [entry["event"] for entry in history]
    assert not leaking({"history": str(history), "log": log.getvalue()})
    assert "******" in log.getvalue()


@pytest.mark.parametrize("said", SECRETS.values(), ids=SECRETS)
def test_secret_in_the_failure_of_an_operation_is_masked(
    operator: Operator, log: io.StringIO, said: str
) -> None:
    info = {"fake_fail_power": said, "ipmi_password": OWN}
    node = operator.rig.node("manageable", driver_info=info)
    reason = {"reason": said}
    assert operator.api.put(f"/v1/nodes/{node}/maintenance", reason).status == 202
    order = {"target": "power off"}
    assert operator.api.put(f"/v1/nodes/{node}/states/power", order).status == 202
    failed = operator.rig.settled(node)
    assert not leaking({"last_error": failed["last_error"], "log": log.getvalue()})
    found = shown(operator, node, OF_A_NODE)
    assert [name for name, text in found.items() if "******" in text] == list(OF_A_NODE)
    assert not leaking(found)
    explained = operator.api.get(f"/v1/nodes/{node}/why").json
    assert explained["failure"]["cause"] is not None
    assert "******" in explained["maintenance"]["reason"]
    assert operator.shows(node)["maintenance_reason"] == said


# A text with a secret that reaches a document, a row or the log without a failed run.

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


def leaking_elsewhere(texts: dict[str, str]) -> list[str]:
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
    assert leaking_elsewhere({**found, "log": log.getvalue()}) == []


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
    assert leaking_elsewhere({**shown, "log": log.getvalue()}) == []


@pytest.mark.feature("batches")
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
    assert leaking_elsewhere({**texts, "log": log.getvalue()}) == []


def test_secret_in_sensor_reading_is_masked_in_the_log(
    operator: Operator, log: io.StringIO
) -> None:
    info = {"fake_fail_calls": {"management.get_sensors_data": SAID}, "ipmi_password": OWN}
    operator.rig.node("manageable", driver_info=info)
    operator.sweep()
    assert leaking_elsewhere({"log": log.getvalue()}) == []


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
    operator.rig.service.runtime.workers.wait_idle(60)
    stop = operator.api.put(f"{path}/runs/current/stop", {"how": "hold", "reason": SAID})
    assert (stop.status, "******" in stop.json["reason"]) == (202, True)
    surfaces = ("/v1/holds", f"{path}/history?detail=true", "/v1/events?since=0", f"{path}/why")
    found |= {each: operator.api.get(each).body.decode() for each in surfaces}
    found |= {"why of a hold": why, "stop": stop.body.decode(), "log": log.getvalue()}
    assert leaking_elsewhere(found) == []
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
    assert leaking_elsewhere({**found, "log": log.getvalue()}) == []
    assert "******" in found["/v1/events?since=0"]
