"""Secrets in the words of a failure: masked in each document about it and in the log."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest

from ironic_lite.core import log_lines
from tests.support.operator import Operator

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
