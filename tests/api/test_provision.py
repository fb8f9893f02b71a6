"""PUT .../states/provision: every verb in every state, and bodies that are refused."""

from __future__ import annotations

import base64
import gzip
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite import errors
from ironic_lite.db.engine import session
from ironic_lite.db.queries import nodes
from ironic_lite.domain.states import State
from tests.support.api_rows import AddNode
from tests.support.conductor_recorder import Recorder
from tests.support.wsgi_client import Client

# PUT .../states/provision: every verb in every state at every version that matters.
#
# What is possible is written down here from the specification, not read from our tables.

STEPS = [{"interface": "deploy", "step": "erase_devices"}]
DEPLOY_STEPS = [{"interface": "deploy", "step": "deploy", "args": {}, "priority": 100}]
DELETABLE = (
    "active|error|deploy failed|wait call-back|rescue|rescue wait|rescue failed|unrescue failed"
    "|service wait|service failed"
)

# target: (first version, states it is possible in, needed body, its event)
SPECIFIED: dict[str, tuple[int, str, dict[str, Any], str]] = {
    "active": (1, "available|deploy failed", {}, "deploy"),
    "deploy": (73, "available|deploy failed", {}, "deploy"),
    "rebuild": (1, "active|deploy failed|error", {}, "rebuild"),
    "deleted": (1, DELETABLE, {}, "delete"),
    "undeploy": (1, DELETABLE, {}, "delete"),
    "manage": (
        4,
        "enroll|available|clean failed|inspect failed|adopt failed",
        {},
        "manage",
    ),
    "provide": (4, "manageable|clean failed", {}, "provide"),
    "cleaned": (4, "manageable|clean failed", {}, "provide"),
    "available": (4, "clean failed", {}, "available"),
    "inspect": (6, "manageable|inspect failed", {}, "inspect"),
    "abort": (
        13,
        "clean wait|clean hold|wait call-back|deploy hold|inspect wait|rescue wait|service wait"
        "|service hold|service failed",
        {},
        "abort",
    ),
    "clean": (15, "manageable", {"clean_steps": STEPS}, "clean"),
    "adopt": (17, "manageable|adopt failed", {}, "adopt"),
    "rescue": (
        38,
        "active|rescue|rescue failed|unrescue failed|service failed",
        {"rescue_password": "secret"},
        "rescue",
    ),
    "unrescue": (38, "rescue|rescue failed|unrescue failed", {}, "unrescue"),
    "unhold": (85, "clean hold|deploy hold|service hold", {}, "unhold"),
    "service": (
        87,
        "active|service hold|service failed",
        {"service_steps": STEPS},
        "service",
    ),
    "retry": (1, "clean failed|deploy failed|service failed", {}, "retry"),
}
ABORT_SINCE = {"inspect wait": 41, "wait call-back": 110}


def states_of(target: str) -> set[State]:
    return {State(name) for name in SPECIFIED[target][1].split("|")}


def put(api: Client, node: dict[str, Any], target: str, **more: Any) -> Any:
    return api.put(f"/v1/nodes/{node['uuid']}/states/provision", {"target": target, **more})


def reread(database: session.Database, node: dict[str, Any]) -> dict[str, Any]:
    return database.read(lambda conn: nodes.get(conn, node["uuid"]))


@pytest.mark.parametrize("target", SPECIFIED)
def test_a_verb_is_accepted_exactly_in_its_states(
    target: str, api: Client, recorder: Recorder, add_node: AddNode, database: session.Database
) -> None:
    _, _, body, event = SPECIFIED[target]
    for state in State:
        node = add_node(provision_state=state.value)
        recorder.calls.clear()
        answer = put(api, node, target, **body)
        if state in states_of(target):
            assert answer.status == 202, (state, answer.text)
            asked = {"node_uuid": node["uuid"], "event": event, "body": {"target": target, **body}}
            assert recorder.calls == [("start_verb", asked)]
        else:
            assert answer.status == 400, state
            assert f'"{target}"' in answer.text and f'"{state}"' in answer.text
            assert not recorder.calls
        assert reread(database, node) == node


@pytest.mark.parametrize("target", SPECIFIED)
def test_a_verb_is_unknown_to_older_versions_in_whatever_state(
    target: str, api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    since, _, body, _ = SPECIFIED[target]
    if since == 1:
        return
    for state in State:
        node = add_node(provision_state=state.value)
        answer = put(api.at(since - 1), node, target, **body)
        assert answer.status == 406, state
    assert not recorder.calls


@pytest.mark.parametrize("target", SPECIFIED)
def test_a_verb_is_known_from_its_first_version_on(
    target: str, api: Client, add_node: AddNode
) -> None:
    since, _, body, _ = SPECIFIED[target]
    state = min(states_of(target), key=lambda state: ABORT_SINCE.get(state, 0))
    node = add_node(provision_state=state.value)
    assert put(api.at(since), node, target, **body).status == 202


@pytest.mark.parametrize("state", ABORT_SINCE)
def test_abort_of_some_states_is_younger_than_abort(
    state: str, api: Client, add_node: AddNode
) -> None:
    node = add_node(provision_state=state)
    assert put(api.at(ABORT_SINCE[state] - 1), node, "abort").status == 406
    assert put(api.at(ABORT_SINCE[state]), node, "abort").status == 202


@pytest.mark.parametrize("target", SPECIFIED)
def test_an_impossible_verb_on_a_locked_node_is_a_conflict(
    target: str, api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    wrong = next(state for state in State if state not in states_of(target))
    node = add_node(provision_state=wrong.value, reservation="other-host")
    answer = put(api, node, target, **SPECIFIED[target][2])
    assert answer.status == 409
    assert "other-host" in answer.text
    assert not recorder.calls


def test_a_possible_verb_on_a_locked_node_is_for_the_conductor_to_judge(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    node = add_node(provision_state="manageable", reservation="other-host")
    recorder.answers["start_verb"] = errors.NodeLocked(node="n", host="other-host")
    assert put(api, node, "provide").status == 409
    assert len(recorder.calls) == 1


def test_acceptance_has_a_location_and_nothing_else(api: Client, add_node: AddNode) -> None:
    add_node(name="some-node")
    answer = api.put("/v1/nodes/some-node/states/provision", {"target": "manage"})
    assert answer.status == 202
    assert answer.body == b""
    assert answer.headers["location"] == "http://localhost:6385/v1/nodes/some-node/states"
    assert answer.headers["content-length"] == "0"
    assert "content-type" not in answer.headers


@pytest.mark.parametrize("target", SPECIFIED)
def test_maintenance_refuses_what_would_touch_the_machine(
    target: str, api: Client, add_node: AddNode
) -> None:
    refusing = {"active", "deploy", "rebuild", "clean", "rescue", "unrescue", "service", "retry"}
    for state in sorted(states_of(target)):
        node = add_node(provision_state=state.value, maintenance=True)
        answer = put(api, node, target, **SPECIFIED[target][2])
        assert answer.status == (400 if target in refusing else 202), state
        if target in refusing:
            assert "maintenance" in answer.text


@pytest.mark.parametrize("target", ["provide", "cleaned", "available"])
def test_a_retired_node_is_not_made_available(
    target: str, api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    node = add_node(provision_state="clean failed", retired=True)
    answer = put(api, node, target)
    assert answer.status == 409
    assert "retired" in answer.text
    assert not recorder.calls


@pytest.mark.parametrize("target", ["deleted", "undeploy", "rebuild"])
def test_a_protected_node_keeps_its_instance(
    target: str, api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    node = add_node(provision_state="active", protected=True)
    assert put(api, node, target).status == 403
    assert not recorder.calls


def test_cleaned_is_another_word_for_provide(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    put(api, add_node(provision_state="clean failed"), "cleaned")
    put(api, add_node(provision_state="clean failed"), "available")
    assert [call["event"] for _, call in recorder.calls] == ["provide", "available"]


def test_body_of_a_verb_reaches_the_conductor(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    drive = base64.b64encode(gzip.compress(b"an image")).decode()
    node = add_node(provision_state="available")
    put(api, node, "active", configdrive=drive, deploy_steps=DEPLOY_STEPS)
    put(api, add_node(provision_state="active"), "rebuild")
    put(api, add_node(provision_state="manageable"), "clean", clean_steps=STEPS)
    put(
        api,
        add_node(provision_state="active"),
        "service",
        service_steps=STEPS,
        disable_ramdisk=True,
    )
    assert [(call["event"], call["body"]) for _, call in recorder.calls] == [
        ("deploy", {"target": "active", "configdrive": drive, "deploy_steps": DEPLOY_STEPS}),
        ("rebuild", {"target": "rebuild"}),
        ("clean", {"target": "clean", "clean_steps": STEPS}),
        ("service", {"target": "service", "service_steps": STEPS, "disable_ramdisk": True}),
    ]


def test_the_operator_disallows_steps(
    api: Client, recorder: Recorder, add_node: AddNode, conf: cfg.ConfigOpts
) -> None:
    conf.set_override("disallow_clean_steps", ["deploy.erase_devices"], "api")
    node = add_node(provision_state="manageable")
    assert put(api, node, "clean", clean_steps=STEPS).status == 400
    assert not recorder.calls


def test_a_node_that_is_not_there_is_told_before_anything_else(api: Client) -> None:
    assert api.put("/v1/nodes/nobody/states/provision", {"target": "clean"}).status == 404


def test_only_put_is_possible(api: Client, add_node: AddNode) -> None:
    answer = api.get(f"/v1/nodes/{add_node()['uuid']}/states/provision")
    assert answer.status == 405
    assert answer.headers["allow"] == "PUT"


def test_the_conductors_refusals_come_through(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    node = add_node()
    for why, status in [
        (errors.NoFreeWorker(), 503),
        (errors.NoConductor(host="h"), 503),
        (errors.NodeProtected(node="n"), 403),
        (errors.InvalidParameter(path="driver_info", reason="wrong"), 400),
        (errors.TooManyActions(limit=1, action="cleaning"), 503),
    ]:
        recorder.answers["start_verb"] = why
        answer = put(api, node, "manage")
        assert (answer.status, answer.text) == (status, why.message)


def test_a_configdrive_of_megabytes_passes(
    api: Client, recorder: Recorder, add_node: AddNode
) -> None:
    drive = base64.b64encode(b"\x1f\x8b" + bytes(4_000_000)).decode()
    node = add_node(provision_state="available")
    assert put(api, node, "active", configdrive=drive).status == 202


@pytest.mark.parametrize(
    ("state", "target", "said"),
    [
        (
            "enroll",
            "clean",
            'The requested action "clean" can not be performed on node "{}" while it is in state '
            '"enroll". Possible targets now: manage.',
        ),
        (
            "available",
            "dance",
            'The requested action "dance" can not be performed on node "{}" while it is in state '
            '"available". This action does not exist. Possible targets now: active, manage.',
        ),
        (
            "cleaning",
            "manage",
            'The requested action "manage" can not be performed on node "{}" while it is in state '
            '"cleaning". Possible targets now: none.',
        ),
    ],
)
def test_a_verb_at_the_wrong_time_is_told_which_are_possible(
    api: Client, add_node: AddNode, state: str, target: str, said: str
) -> None:
    node = add_node(provision_state=state)
    answer = put(api, node, target)
    assert (answer.status, answer.text) == (400, said.format(node["uuid"]))


# Bodies of PUT .../states/provision that are refused: by name, and with nothing changed.

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
