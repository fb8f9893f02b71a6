"""PUT .../states/provision: every verb in every state at every version that matters.

What is possible is written down here from the specification, not read from our tables.
"""

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

STEPS = [{"interface": "deploy", "step": "erase_devices"}]
DEPLOY_STEPS = [{"interface": "deploy", "step": "deploy", "args": {}, "priority": 100}]
DELETABLE = (
    "active|error|deploy failed|wait call-back|rescue|rescue wait|rescue failed|unrescue failed"
    "|service wait|service failed"
)

# target: (first version, states it is possible in, needed body, what the conductor is asked)
SPECIFIED: dict[str, tuple[int, str, dict[str, Any], str]] = {
    "active": (1, "available|deploy failed", {}, "do_node_deploy"),
    "deploy": (73, "available|deploy failed", {}, "do_node_deploy"),
    "rebuild": (1, "active|deploy failed|error", {}, "do_node_deploy"),
    "deleted": (1, DELETABLE, {}, "do_node_tear_down"),
    "undeploy": (1, DELETABLE, {}, "do_node_tear_down"),
    "manage": (
        4,
        "enroll|available|clean failed|inspect failed|adopt failed",
        {},
        "do_provisioning_action",
    ),
    "provide": (4, "manageable|clean failed", {}, "do_provisioning_action"),
    "cleaned": (4, "manageable|clean failed", {}, "do_provisioning_action"),
    "available": (4, "clean failed", {}, "do_provisioning_action"),
    "inspect": (6, "manageable|inspect failed", {}, "inspect_hardware"),
    "abort": (
        13,
        "clean wait|clean hold|wait call-back|deploy hold|inspect wait|rescue wait|service wait"
        "|service hold|service failed",
        {},
        "do_provisioning_action",
    ),
    "clean": (15, "manageable", {"clean_steps": STEPS}, "do_node_clean"),
    "adopt": (17, "manageable|adopt failed", {}, "do_provisioning_action"),
    "rescue": (
        38,
        "active|rescue|rescue failed|unrescue failed|service failed",
        {"rescue_password": "secret"},
        "do_node_rescue",
    ),
    "unrescue": (38, "rescue|rescue failed|unrescue failed", {}, "do_node_unrescue"),
    "unhold": (85, "clean hold|deploy hold|service hold", {}, "do_provisioning_action"),
    "service": (
        87,
        "active|service hold|service failed",
        {"service_steps": STEPS},
        "do_node_service",
    ),
    "retry": (1, "clean failed|deploy failed|service failed", {}, "do_node_retry"),
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
    _, _, body, method = SPECIFIED[target]
    for state in State:
        node = add_node(provision_state=state.value)
        recorder.calls.clear()
        answer = put(api, node, target, **body)
        if state in states_of(target):
            assert answer.status == 202, (state, answer.text)
            assert [name for name, _ in recorder.calls] == [method]
            assert recorder.calls[0][1]["node_uuid"] == node["uuid"]
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
    recorder.answers["do_provisioning_action"] = errors.NodeLocked(node="n", host="other-host")
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
    assert [call["action"] for _, call in recorder.calls] == ["provide", "available"]


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
    said = [{k: v for k, v in call.items() if k != "node_uuid"} for _, call in recorder.calls]
    assert said == [
        {"rebuild": False, "configdrive": drive, "deploy_steps": DEPLOY_STEPS},
        {"rebuild": True, "configdrive": None, "deploy_steps": None},
        {"clean_steps": STEPS, "disable_ramdisk": False},
        {"service_steps": STEPS, "disable_ramdisk": True},
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
        recorder.answers["do_provisioning_action"] = why
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
