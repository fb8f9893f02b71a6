"""Bodies of PUT .../states/provision that are refused: by name, and with nothing changed."""

from __future__ import annotations

from typing import Any

import pytest

from ironic_lite.db.engine import session
from ironic_lite.db.queries import nodes
from tests.support.api_rows import AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client

STEPS = [{"interface": "deploy", "step": "erase_devices"}]
DEPLOY_STEPS = [{"interface": "deploy", "step": "deploy", "args": {}, "priority": 100}]

# what is wrong: (state, minor version, body, status, what the answer names)
WRONG_BODIES = {
    "no target": ("manageable", 115, {"clean_steps": STEPS}, 400, "target"),
    "unknown verb": ("manageable", 115, {"target": "fly"}, 400, '"fly"'),
    "target of a wrong type": ("manageable", 115, {"target": 5}, 400, "target"),
    "unknown key": ("manageable", 115, {"target": "clean", "steps": []}, 400, "steps"),
    "clean without steps": ("manageable", 115, {"target": "clean"}, 400, "clean_steps"),
    "no step at all": ("manageable", 115, {"target": "clean", "clean_steps": []}, 400, "clean"),
    "null steps": ("manageable", 115, {"target": "clean", "clean_steps": None}, 400, "clean_steps"),
    "a step without its name": (
        "manageable",
        115,
        {"target": "clean", "clean_steps": [{"interface": "deploy"}]},
        400,
        "clean_steps/0/step",
    ),
    "a step without its interface": (
        "manageable",
        115,
        {"target": "clean", "clean_steps": [{"step": "erase_devices"}]},
        400,
        "clean_steps/0/interface",
    ),
    "a disallowed step": (
        "manageable",
        115,
        {"target": "clean", "clean_steps": [{"interface": "vendor", "step": "send_raw"}]},
        400,
        "vendor.send_raw",
    ),
    "clean steps for provide": (
        "manageable",
        115,
        {"target": "provide", "clean_steps": STEPS},
        400,
        "clean_steps",
    ),
    "service steps for clean": (
        "manageable",
        115,
        {"target": "clean", "clean_steps": STEPS, "service_steps": STEPS},
        400,
        "service_steps",
    ),
    "service steps before 1.87": (
        "manageable",
        86,
        {"target": "clean", "clean_steps": STEPS, "service_steps": STEPS},
        406,
        "service_steps",
    ),
    "disable_ramdisk for provide": (
        "manageable",
        115,
        {"target": "provide", "disable_ramdisk": True},
        400,
        "disable_ramdisk",
    ),
    "disable_ramdisk before 1.70": (
        "manageable",
        69,
        {"target": "clean", "clean_steps": STEPS, "disable_ramdisk": True},
        406,
        "disable_ramdisk",
    ),
    "disable_ramdisk of a service before 1.108": (
        "active",
        107,
        {"target": "service", "service_steps": STEPS, "disable_ramdisk": True},
        406,
        "disable_ramdisk",
    ),
    "disable_ramdisk that is no boolean": (
        "manageable",
        115,
        {"target": "clean", "clean_steps": STEPS, "disable_ramdisk": "maybe"},
        400,
        "disable_ramdisk",
    ),
    "deploy steps before 1.69": (
        "available",
        68,
        {"target": "active", "deploy_steps": DEPLOY_STEPS},
        406,
        "deploy_steps",
    ),
    "deploy steps for deploy": (
        "available",
        115,
        {"target": "deploy", "deploy_steps": DEPLOY_STEPS},
        400,
        "deploy_steps",
    ),
    "a configdrive that is nothing": (
        "available",
        115,
        {"target": "active", "configdrive": "nothing"},
        400,
        "configdrive",
    ),
    "a configdrive by ftp": (
        "available",
        115,
        {"target": "active", "configdrive": "ftp://images.example/drive"},
        400,
        "configdrive",
    ),
    "a configdrive of the conductor's machine": (
        "active",
        115,
        {"target": "rebuild", "configdrive": "file:///etc/passwd"},
        400,
        "configdrive",
    ),
    "a configdrive for manage": (
        "enroll",
        115,
        {"target": "manage", "configdrive": "http://drive"},
        400,
        "configdrive",
    ),
    "a configdrive for rebuild before 1.35": (
        "active",
        34,
        {"target": "rebuild", "configdrive": "http://drive"},
        400,
        "configdrive",
    ),
    "a runbook nobody has": (
        "manageable",
        115,
        {"target": "clean", "runbook": "CUSTOM_X"},
        404,
        "CUSTOM_X",
    ),
    "a runbook before 1.92": (
        "manageable",
        91,
        {"target": "clean", "runbook": "CUSTOM_X"},
        406,
        "runbook",
    ),
    "a runbook for provide": (
        "manageable",
        115,
        {"target": "provide", "runbook": "CUSTOM_X"},
        400,
        "runbook",
    ),
    "rescue without password": ("active", 115, {"target": "rescue"}, 400, "rescue_password"),
    "a blank password": (
        "active",
        115,
        {"target": "rescue", "rescue_password": "  "},
        400,
        "rescue_password",
    ),
    "a password for unrescue": (
        "rescue",
        115,
        {"target": "unrescue", "rescue_password": "x"},
        400,
        "rescue_password",
    ),
}


@pytest.mark.parametrize("case", WRONG_BODIES)
def test_a_wrong_body_is_refused_by_name_and_changes_nothing(
    case: str, api: Client, recorder: Recorder, add_node: AddNode, database: session.Database
) -> None:
    state, version, body, status, named = WRONG_BODIES[case]
    node = add_node(provision_state=state)
    answer = api.at(version).put(f"/v1/nodes/{node['uuid']}/states/provision", body)
    assert (answer.status, named in answer.text) == (status, True), answer.text
    assert not recorder.calls
    assert database.read(lambda conn: nodes.get(conn, node["uuid"])) == node


# -- retry -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "path"),
    [
        ([], "retry"),
        ({"from": -1}, "retry/from"),
        ({"from": "1"}, "retry/from"),
        ({"forced": True}, "retry/forced"),
        ({"force": "yes"}, "retry/force"),
        ({"waive": [{"ordinal": 1}]}, "retry/waive/0/reason"),
        ({"waive": [{"reason": ""}]}, "retry/waive/0/reason"),
        ({"waive": [{"reason": "x" * 256}]}, "retry/waive/0/reason"),
        ({"waive": {"reason": "no list"}}, "retry/waive"),
    ],
)
def test_malformed_retry_is_refused_by_its_path(
    api: Client, recorder: Recorder, add_node: AddNode, given: Any, path: str
) -> None:
    node = add_node(provision_state="clean failed")
    body = {"target": "retry", "retry": given}
    answer = api.put(f"/v1/nodes/{node['uuid']}/states/provision", body)
    assert answer.status == 400
    assert f"{path}:" in answer.text
    assert not recorder.calls


def test_retry_object_belongs_to_its_target(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    node = add_node(provision_state="manageable")
    body = {"target": "provide", "retry": {}}
    answer = api.put(f"/v1/nodes/{node['uuid']}/states/provision", body)
    assert (answer.status, "belongs to the targets retry" in answer.text) == (400, True)
    assert not recorder.calls
