"""Plans of verbs: they refuse what verbs refuse, and their documents."""

from __future__ import annotations

import json
import socket
import sys
import types
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ironic_lite import errors
from ironic_lite.api.controllers import plans
from ironic_lite.api.http import limits
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Connection, Database
from ironic_lite.db.queries import nodes, reports
from ironic_lite.db.queries.step_durations import UsualTimes
from ironic_lite.db.tables import models
from ironic_lite.domain import verbs
from ironic_lite.domain.states import State
from ironic_lite.drivers.registry import Registry, Settings
from ironic_lite.records import StepsByInterface
from ironic_lite_cli import nodes as node_commands
from tests.api.test_run_logs_and_times import add_past_runs
from tests.support import conductor_fixture
from tests.support.api_rows import AddNode
from tests.support.callers import LESSEE, OWNER, STRANGER, Callers
from tests.support.conductor_fixture import wait_for
from tests.support.conductor_recorder import Recorder
from tests.support.in_process import InProcess
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client, Response

# Plans of verbs: what a plan accepts a verb does not refuse, and a plan has every refusal.

Json = dict[str, Any]
KEYS = {"target", "accepted", "leads_to", "faults", "steps", "ramdisk", "restarts", "destroys"}
KEYS |= {"seconds", "complete", "incomplete", "deploy_interface"}
STEP_KEYS = {"ordinal", "interface", "step", "args", "priority", "abortable", "from", "by"}
STEP_KEYS |= {"known", "destroys", "restarts", "lasting", "usual_seconds"}
AGENT = [
    {
        "version": "1",
        "clean_steps": [{"interface": "deploy", "step": "wash", "priority": 20}],
        "deploy_steps": [{"interface": "deploy", "step": "polish", "priority": 30}],
    }
]
BOOK = {
    "name": "CUSTOM_BOOK",
    "steps": [{"interface": "management", "step": "reset_bmc", "args": {}, "order": 1}],
    "disable_ramdisk": True,
}
GOOD = [
    {"interface": "management", "step": "reset_bmc"},
    {"interface": "bios", "step": "factory_reset", "args": {}},
    {"interface": "vendor", "step": "log_passthrough"},
    {"interface": "power", "step": "reboot"},
    {"interface": "deploy", "step": "wash"},
]
BAD = [
    {"interface": "bios", "step": "factory_reset", "args": {"all": True}},
    {"interface": "bios", "step": "apply_configuration"},
    {"interface": "deploy", "step": "no_such"},
    {"interface": "power", "step": "power_off"},
    {"interface": "power", "step": "wait", "args": {"seconds": -1}},
    {"interface": "vendor", "step": "send_raw"},
    {"interface": "deploy"},
    {"interface": "raid", "step": "hold", "execute_on_child_nodes": True},
    {"interface": "bios", "step": "reboot", "limit_child_node_execution": ["none"]},
]
DEPLOYED = [
    {"interface": "bios", "step": "factory_reset", "args": {}, "priority": 90},
    {"interface": "bios", "step": "factory_reset", "args": {"all": 1}, "priority": "70"},
    {"interface": "deploy", "step": "deploy", "args": {}, "priority": 50},
    {"interface": "deploy", "step": "write_image", "args": {}, "priority": 0},
    {"interface": "deploy", "step": "polish", "args": {}, "priority": 30},
    {"interface": "deploy", "step": "no_such", "args": {}, "priority": 30},
    {"interface": "power", "step": "power_off", "args": {}, "priority": 10},
    {"interface": "power", "step": "hold", "args": {}, "priority": -1},
]
LISTS = st.lists(st.sampled_from([*GOOD, *GOOD, *BAD]), max_size=2)
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "clean_steps": LISTS,
    "service_steps": LISTS,
    "deploy_steps": st.lists(st.sampled_from(DEPLOYED), max_size=2),
    "runbook": st.sampled_from(["CUSTOM_BOOK", "CUSTOM_NONE"]),
    "disable_ramdisk": st.booleans(),
    "rescue_password": st.sampled_from(["sesame", "s" * 300]),
    "retry": st.sampled_from([{}, {"force": True}, {"from": 1}, {"waive": [{"reason": "old"}]}]),
    "configdrive": st.sampled_from([{"meta_data": {}}, "no drive"]),
}
FLAWS: dict[str, st.SearchStrategy[Any]] = {
    "maintenance": st.just(True),
    "protected": st.just(True),
    "retired": st.just(True),
    "reservation": st.just("another"),
    "disable_power_off": st.just(True),
    "automated_clean": st.booleans(),
    "driver_info": st.sampled_from(
        [{"fake_agent": AGENT}, {"fake_fail_steps": 3}, {"fake_steps_unavailable": 5}]
    ),
    "instance_info": st.sampled_from([{"traits": ["CUSTOM_BOOK"]}, {"traits": 3}]),
    "boot_interface": st.just("not-enabled"),
}
WITH_STEPS = [verbs.BY_TARGET[name] for name in ("clean", "service", "active", "rebuild")]


@st.composite
def requests(draw: st.DrawFn) -> tuple[Json, Json, int]:
    """Draw a node, a body and a version; most have one flaw or none."""
    verb = draw(st.sampled_from([*verbs.TABLE, *WITH_STEPS * 5]))
    state = draw(st.sampled_from([one for one in State if verbs.possible(verb, one)]))
    node: Json = {"provision_state": state.value}
    for name in draw(st.lists(st.sampled_from([*FLAWS]), max_size=1)):
        node[name] = draw(FLAWS[name])
    others = [] if draw(st.integers(0, 7)) else [*VALUES]
    keys = {*draw(st.lists(st.sampled_from([*verb.needs, *verb.allows, *others] or [""])))} - {""}
    keys |= set() if keys or not verb.needs else {verb.needs[0]}
    body = {key: draw(VALUES[key]) for key in sorted(keys)}
    if not draw(st.integers(0, 9)):
        node["provision_state"] = draw(st.sampled_from(State)).value
    body["target"] = verb.target if draw(st.integers(0, 19)) else "fly"
    return node, body, draw(st.sampled_from([115, 115, 115, 91, 60]))


@pytest.fixture
def whole(sqlite_database: Database) -> Iterator[InProcess]:
    """A service with API and conductor; its nodes are those of all examples."""
    found = InProcess(
        sqlite_database,
        conductor__node_locked_retry_attempts=1,
        conductor__node_locked_retry_interval=0,
        conductor__allow_provisioning_in_maintenance=False,
    )
    assert found.api.post("/v1/runbooks", BOOK).status == 201
    chosen = {"traits": ["CUSTOM_BOOK"]}
    assert found.api.put("/v1/runbooks/CUSTOM_BOOK/traits", chosen).status in (200, 204)
    yield found
    found.close()


def counts(database: Database, node: str) -> dict[str, int]:
    """Return the number of rows of each table with rows of nodes: those of this node."""

    def count(conn: Connection) -> dict[str, int]:
        return {
            table.name: conn.execute(
                sa.select(sa.func.count()).select_from(table).where(table.c.node_uuid == node)
            ).scalar_one()
            for table in models.metadata.sorted_tables
            # Sweeps take up nodes whose search terms are to be made, whatever requests do.
            if "node_uuid" in table.c and table is not models.search_changes
        }

    return database.read(count)


def text_of(answer: Response) -> str:
    """Return the sentence of a refusal."""
    inner = json.loads(json.loads(answer.body)["error_message"])
    found: str = inner.get("faultstring") or inner["description"]
    return found


def has_refusal(plan: Json, status: int, text: str) -> bool:
    """Return whether a plan has the refusal of a request, with a code of the same status."""
    known, verb = vars(errors), verbs.BY_TARGET.get(plan["target"])
    if verb is not None:  # a conductor does not hear which synonym was asked for
        text = text.replace(f"The {verb.event} operation", f"The {verb.target} operation")
    for fault in plan["faults"]:
        same = known[fault["code"]].status == status
        # A lock's sentence goes on with its holder's work, which may change meanwhile.
        lead = fault["text"].partition(", please retry")[0]
        if same and lead in text:
            return True
    return False


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(request=requests())
def test_plan_agrees_with_the_request(whole: InProcess, request: tuple[Json, Json, int]) -> None:
    node, body, version = request
    agree(whole, node, body, version)


@pytest.mark.parametrize(
    ("state", "target", "key", "steps"),
    [
        ("manageable", "clean", "clean_steps", [*GOOD, *BAD]),
        ("active", "service", "service_steps", [*GOOD, *BAD]),
        ("available", "active", "deploy_steps", DEPLOYED),
    ],
)
def test_plan_agrees_about_each_step(
    whole: InProcess, state: str, target: str, key: str, steps: list[Json]
) -> None:
    found = [
        agree(whole, {"provision_state": state, **more}, {"target": target, key: [step]}, 115)
        for step in steps
        for more in ({}, {"disable_power_off": True}, {"driver_info": {"fake_agent": AGENT}})
    ]
    assert {*found} == {True, False}


@pytest.mark.parametrize("flaw", FLAWS)
def test_plan_agrees_about_each_flaw_of_a_node(whole: InProcess, flaw: str) -> None:
    bodies: Json = {"clean": {"clean_steps": GOOD[:1]}, "rescue": {"rescue_password": "sesame"}}
    bodies["service"] = {"service_steps": GOOD[:1]}
    values: Json = {"driver_info": {"fake_fail_steps": 3}, "instance_info": {"traits": 3}}
    values |= {"reservation": "another", "boot_interface": "not-enabled"}
    for verb in verbs.TABLE:
        for state in State:
            if verbs.possible(verb, state):
                node = {"provision_state": state.value, flaw: values.get(flaw, True)}
                body = {"target": verb.target, **bodies.get(verb.target, {})}
                agree(whole, node, body, 115)


def agree(whole: InProcess, node: Json, body: Json, version: int) -> bool:
    """Check that plan and request agree, and that the plan changes nothing.

    :returns: whether the request was accepted.
    """
    rig, api = whole.rig, whole.api.at(version)
    state = node["provision_state"]
    uuid = rig.node(state, **{key: node[key] for key in node if key != "provision_state"})
    if "runbook" in body and "reservation" not in node:
        now = rig.get(uuid)["generation"]
        whole.database.write(
            lambda conn: nodes.add_trait(conn, uuid, "CUSTOM_BOOK", generation=now)
        )
    before, row = counts(whole.database, uuid), rig.get(uuid)
    planned = api.post(f"/v1/nodes/{uuid}/plan", body)
    assert (counts(whole.database, uuid), rig.get(uuid)) == (before, row)
    answer = api.put(f"/v1/nodes/{uuid}/states/provision", body)
    wait_for(lambda: rig.service.runtime.workers.wait_idle(60))
    accepted = answer.status == HTTPStatus.ACCEPTED
    if planned.status not in (HTTPStatus.OK, HTTPStatus.UNPROCESSABLE_ENTITY):
        assert (planned.status, planned.body) == (answer.status, answer.body)
        return accepted
    plan = planned.json
    assert set(plan) == KEYS
    assert plan["accepted"] is (planned.status == HTTPStatus.OK) is not bool(plan["faults"])
    if plan["accepted"]:
        assert accepted, (text_of(answer), plan)
        agree_with_run(whole, uuid, plan)
    elif not accepted:
        assert has_refusal(plan, answer.status, text_of(answer)), (text_of(answer), plan)
    return accepted


def agree_with_run(whole: InProcess, uuid: str, plan: Json) -> None:
    """Check that the run has the steps of its plan, and that its list is not refused."""
    runs = whole.rig.runs(uuid)
    if not runs or not plan["complete"]:
        return
    run = runs[-1]
    listed = [(step["interface"], step["step"]) for step in run["steps"]]
    if listed:
        assert listed == [(step["interface"], step["step"]) for step in plan["steps"]]
    elif run["error"] is not None and plan["steps"]:
        assert run["error"]["code"] != "InvalidParameter", run["error"]


# Documents of plans: origins, effects and durations of steps; rights; the command line.

PLANNED = {
    **{"faults": [], "steps": [], "ramdisk": False, "restarts": 0, "destroys": []},
    **{"complete": True, "incomplete": None},
}
AGENT_WITHOUT_STEPS = {"fake_agent": [{"version": "1", "clean_steps": []}]}


@pytest.fixture
def configured(sqlite_database: Database) -> Iterator[InProcess]:
    """A service with API and conductor, one priority of which is configured."""
    found = InProcess(
        sqlite_database,
        conductor__clean_step_priority_override=["bios.factory_reset:42"],
        deploy__erase_devices_priority=0,
    )
    yield found
    found.close()


def plan(whole: InProcess, node: str, status: int = 200, **body: Any) -> Json:
    """Return the plan of a request."""
    answer = whole.api.post(f"/v1/nodes/{node}/plan", body)
    assert answer.status == status, answer.body
    found: Json = answer.json
    return found


def test_option_that_sets_a_priority_is_the_origin(configured: InProcess) -> None:
    found = plan(configured, configured.rig.node(), target="provide")
    assert [(step["step"], step["priority"], step["from"]) for step in found["steps"]] == [
        ("erase_devices_metadata", 99, {"what": "driver", "name": None}),
        (
            "factory_reset",
            42,
            {"what": "option", "name": "[conductor]clean_step_priority_override"},
        ),
    ]
    assert found["destroys"] == ["data", "settings"]


def test_steps_of_the_last_ramdisk_have_their_time(configured: InProcess) -> None:
    node, now = configured.rig.node(driver_info=AGENT_WITHOUT_STEPS), clock.now()
    first = plan(configured, node, target="provide")
    assert (first["complete"], first["destroys"], first["restarts"]) == (False, None, None)
    assert "not known" in first["incomplete"]
    listed: StepsByInterface = {
        "deploy": [{"interface": "deploy", "step": "scrub", "priority": 30, "abortable": False}]
    }
    configured.database.write(lambda conn: reports.put_agent_steps(conn, node, listed, at=now))
    found = plan(configured, node, target="provide")
    step = next(one for one in found["steps"] if one["step"] == "scrub")
    assert step["known"] == now.isoformat()
    assert (step["from"]["what"], step["by"], step["destroys"]) == ("agent", "ramdisk", None)
    assert (found["ramdisk"], found["complete"]) == (True, False)
    assert now.isoformat()[:10] in found["incomplete"]


@pytest.mark.parametrize(
    ("state", "body"),
    [
        ("manageable", {"target": "inspect"}),
        ("manageable", {"target": "adopt"}),
        ("active", {"target": "rescue", "rescue_password": "sesame"}),
        ("rescue", {"target": "unrescue"}),
        ("active", {"target": "inspect"}),
        ("manageable", {"target": "clean"}),
        ("manageable", {"target": "clean", "clean_steps": []}),
    ],
)
def test_plan_does_not_claim_what_it_does_not_know(
    configured: InProcess, state: str, body: Json
) -> None:
    found = configured.api.post(f"/v1/nodes/{configured.rig.node(state)}/plan", body).json
    assert [found[key] for key in ("ramdisk", "restarts", "destroys")] == [None] * 3
    assert found["complete"] is False
    assert found["incomplete"].endswith(".")


def test_plan_of_a_verb_that_only_changes_the_state_is_complete(configured: InProcess) -> None:
    found = plan(configured, configured.rig.node("available"), target="manage")
    assert [found[key] for key in ("ramdisk", "restarts", "destroys")] == [False, 0, []]
    assert found["complete"] is True


def test_unknown_step_of_a_ramdisk_is_no_fault(configured: InProcess) -> None:
    node = configured.rig.node(driver_info=AGENT_WITHOUT_STEPS)
    steps = [{"interface": "deploy", "step": "scrub"}]
    found = plan(configured, node, target="clean", clean_steps=steps)
    step = found["steps"][0]
    assert (step["by"], step["known"], step["destroys"]) == ("ramdisk", None, None)
    assert (found["accepted"], found["destroys"]) == (True, None)


def test_steps_of_a_runbook_name_it(configured: InProcess) -> None:
    book = {
        "name": "CUSTOM_BOOK",
        "steps": [{"interface": "deploy", "step": "no_such", "args": {}, "order": 1}],
    }
    assert configured.api.post("/v1/runbooks", book).status == 201
    node = configured.rig.node()
    configured.api.put(f"/v1/nodes/{node}/traits/CUSTOM_BOOK")
    configured.api.put("/v1/runbooks/CUSTOM_BOOK/traits", {"traits": ["CUSTOM_BOOK"]})
    found = plan(configured, node, 422, target="clean", runbook="CUSTOM_BOOK")
    assert found["faults"][-1]["path"] == "runbook"
    assert found["steps"][0]["from"] == {"what": "runbook", "name": "CUSTOM_BOOK"}


def test_steps_of_a_template_name_it(configured: InProcess) -> None:
    steps = [{"interface": "bios", "step": "factory_reset", "args": {}, "priority": 150}]
    body = {"name": "CUSTOM_RESET", "steps": steps}
    assert configured.api.post("/v1/deploy_templates", body).status == 201
    node = configured.rig.node("available", instance_info={"traits": ["CUSTOM_RESET"]})
    configured.api.put(f"/v1/nodes/{node}/traits/CUSTOM_RESET")
    found = plan(configured, node, target="active")
    assert found["steps"][0]["from"] == {"what": "template", "name": "CUSTOM_RESET"}
    assert (found["destroys"], found["restarts"]) == (["data", "settings"], 1)


def test_usual_durations_are_added_up(configured: InProcess) -> None:
    node = configured.rig.node()
    add_past_runs(configured.database, node, "erase_devices", 10, 20, 30, 40, 50)
    one = {"interface": "deploy", "step": "erase_devices"}
    found = plan(configured, node, target="clean", clean_steps=[one, one])
    assert found["steps"][0]["usual_seconds"] == {"p50": 30.0, "p90": 50.0, "samples": 5}
    assert found["seconds"] == {"p50": 60.0, "p90": 100.0, "samples": 5}


def test_durations_of_any_number_of_names_cost_one_statement(sqlite_database: Database) -> None:
    times, node = UsualTimes(sqlite_database), {"driver": "fake-hardware", "resource_class": None}
    invented = [{"interface": "deploy", "step": f"s{place}", "by": None} for place in range(1000)]
    with count_statements(sqlite_database) as sent:
        assert plans.read_durations(times, node, invented) == {}
    assert len(sent) == 0
    offered = [{**row, "by": "ramdisk"} for row in invented]
    with count_statements(sqlite_database) as sent:
        found = plans.read_durations(times, node, offered)
    assert (len(found), len(sent)) == (plans.MOST_DURATIONS, 1)


def test_plan_of_a_retry_has_the_steps_that_are_left(configured: InProcess) -> None:
    node = configured.rig.node(driver_info={"fake_fail_steps": {"bios.factory_reset": "no"}})
    names = [("management", "reset_bmc"), ("bios", "factory_reset"), ("deploy", "erase_devices")]
    configured.rig.clean(node, *(".".join(name) for name in names))
    assert configured.rig.get(node)["provision_state"] == "clean failed"
    found = plan(configured, node, target="retry")
    run = configured.rig.run(node)["uuid"]
    assert [(one["interface"], one["step"]) for one in found["steps"]] == names[1:]
    assert {one["from"]["name"] for one in found["steps"]} == {run}


def test_secret_arguments_are_masked(configured: InProcess) -> None:
    step = {"interface": "bios", "step": "factory_reset", "args": {"password": "sesame"}}
    found = plan(configured, configured.rig.node(), 422, target="clean", clean_steps=[step])
    assert "sesame" not in json.dumps(found)


@pytest.mark.parametrize(
    ("state", "body"),
    [
        ("enroll", {"target": "manage"}),
        ("manageable", {"target": "provide"}),
        ("manageable", {"target": "inspect"}),
        ("available", {"target": "active"}),
        (
            "manageable",
            {"target": "clean", "clean_steps": [{"interface": "bios", "step": "factory_reset"}]},
        ),
    ],
)
def test_plan_asks_no_bmc(sqlite_database: Database, state: str, body: Json) -> None:
    types_of = {"DEFAULT__enabled_hardware_types": ["fake-hardware", "redfish"]}
    registry = Registry.load(Settings.read(conductor_fixture.configure(**types_of)))
    with socket.socket() as bmc:
        bmc.bind(("127.0.0.1", 0))
        bmc.listen()
        bmc.setblocking(False)
        info = {
            "redfish_address": f"http://127.0.0.1:{bmc.getsockname()[1]}",
            "redfish_system_id": "/redfish/v1/Systems/1",
            **{"redfish_username": "admin", "redfish_password": "sesame"},
        }
        rig = conductor_fixture.build(sqlite_database, registry, **types_of)
        try:
            node = rig.node(state, driver="redfish", driver_info=info)
            arguments = {key: value for key, value in body.items() if key != "target"}
            found = rig.endpoints.plan_provision(
                rig.who, node_uuid=node, target=body["target"], body=arguments
            )
        finally:
            rig.service.stop()
        assert {"faults", "steps", "destroys"} <= set(found)
        with pytest.raises(BlockingIOError):
            bmc.accept()


def test_plans_are_counted_by_their_answer(configured: InProcess) -> None:
    plan(configured, configured.rig.node(), target="provide")
    text = configured.api.get("/metrics?only=api").body.decode()
    assert 'plans_total{accepted="true"}' in text


def test_plan_takes_a_place_among_reads_and_not_among_changes() -> None:
    assert limits.room_of("POST", "/nodes/n/plan") == limits.READS
    assert limits.room_of("POST", "/nodes/n/vifs") == limits.CHANGES
    assert limits.room_of("POST", "/runbooks/plan") == limits.CHANGES


@pytest.mark.parametrize(
    ("who", "status"),
    [
        (("admin", OWNER), 200),
        (("member", OWNER), 200),
        (("admin", LESSEE), 200),
        (("reader", OWNER), 403),
        (("member", LESSEE), 403),
        (("admin", STRANGER), 404),
    ],
)
def test_rights_are_those_of_verbs(
    callers: Callers, add_node: AddNode, recorder: Recorder, who: tuple[str, str], status: int
) -> None:
    recorder.answers["plan_provision"] = PLANNED
    node = add_node(provision_state="manageable", owner=OWNER, lessee=LESSEE)["uuid"]
    answer = callers(*who).post(f"/v1/nodes/{node}/plan", {"target": "provide"})
    assert answer.status == status, answer.body


@pytest.mark.parametrize(
    ("told", "used"), [({"autodetect": ["ramdisk", "fake"]}, "fake"), ({}, "direct")]
)
def test_conductor_decides_what_autodetect_chooses(
    api: Client, add_node: AddNode, recorder: Recorder, told: Json, used: str
) -> None:
    """The conductor of an older release does not tell its choice."""
    recorder.answers["plan_provision"] = {**PLANNED, **told}
    node = add_node(provision_state="available", deploy_interface="autodetect")["uuid"]
    found = api.post(f"/v1/nodes/{node}/plan", {"target": "active"}).json
    assert found["deploy_interface"] == {"own": "autodetect", "used": used}


def test_unusable_body_is_refused_as_by_the_verb(api: Client, add_node: AddNode) -> None:
    node = add_node()["uuid"]
    assert api.post(f"/v1/nodes/{node}/plan", {}).status == 400
    assert api.post(f"/v1/nodes/{node}/plan", {"target": "clean", "no": 1}).status == 400
    assert api.post("/v1/nodes/absent/plan", {"target": "clean"}).status == 404


class Caller:
    """Answers the command as the API of a service does."""

    def __init__(self, whole: InProcess) -> None:
        self.http_client = self
        self._api = whole.api

    def json_request(self, method: str, url: str, *, body: Json, timeout: float) -> Any:
        assert (method, timeout > 0) == ("POST", True)
        answer = self._api.post(url, body)
        if answer.status >= 400:
            why: Any = RuntimeError("refused")
            why.http_status = answer.status
            why.response = types.SimpleNamespace(content=answer.body)
            raise why
        return answer, answer.json


def test_command_prints_the_plan_and_its_exit_status(
    configured: InProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    node = configured.rig.node()
    manager = types.SimpleNamespace(baremetal=Caller(configured))
    app: Any = types.SimpleNamespace(client_manager=manager, stdout=sys.stdout)
    command = node_commands.PlanNode(app, None)
    parser = command.get_parser("plan")
    assert command.run(parser.parse_args([node, "provide", "-f", "json"])) == 0
    assert json.loads(capsys.readouterr().out)["leads_to"] == "available"
    steps = '[{"interface": "deploy", "step": "no_such"}]'
    assert command.run(parser.parse_args([node, "clean", "--clean-steps", steps])) == 1
    shown = capsys.readouterr().out
    assert "clean_steps/0/step: node does not support" in shown
    assert "destroys unknown" in shown


def test_command_plans_a_retry_from_a_step_and_without_another(
    configured: InProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    node = configured.rig.node(driver_info={"fake_fail_steps": {"bios.factory_reset": "no"}})
    configured.rig.clean(node, "management.reset_bmc", "bios.factory_reset", "deploy.erase_devices")
    manager = types.SimpleNamespace(baremetal=Caller(configured))
    app: Any = types.SimpleNamespace(client_manager=manager, stdout=sys.stdout)
    command = node_commands.PlanNode(app, None)
    given = [node, "retry", "--from", "0", "--waive-step", "1", "replaced", "--force", "-f", "json"]
    assert command.run(command.get_parser("plan").parse_args(given)) == 0
    found = json.loads(capsys.readouterr().out)
    assert [step["step"] for step in found["steps"]] == ["reset_bmc", "erase_devices"]
