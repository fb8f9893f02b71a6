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
