"""Documents of plans: origins, effects and durations of steps; rights; the command line."""

from __future__ import annotations

import json
import socket
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

from ironic_lite.api.resources import plans
from ironic_lite.api.traffic import limits
from ironic_lite.cli import planning
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import agent_steps
from ironic_lite.db.queries.usual import UsualTimes
from ironic_lite.drivers.registry import Registry, Settings
from ironic_lite.records import StepsByInterface
from tests.api.test_run_times import add_past_runs
from tests.support import conductor_fixture
from tests.support.api_rows import AddNode
from tests.support.callers import LESSEE, OWNER, STRANGER, Callers
from tests.support.conductor_recorder import Recorder
from tests.support.in_process import InProcess
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

Json = dict[str, Any]
PLANNED = {
    **{"faults": [], "steps": [], "ramdisk": False, "restarts": 0, "destroys": []},
    **{"complete": True, "incomplete": None},
}
AGENT = {"fake_agent": [{"version": "1", "clean_steps": []}]}


@pytest.fixture
def whole(sqlite_database: Database) -> Iterator[InProcess]:
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


def test_option_that_sets_a_priority_is_the_origin(whole: InProcess) -> None:
    found = plan(whole, whole.rig.node(), target="provide")
    assert [(step["step"], step["priority"], step["from"]) for step in found["steps"]] == [
        ("erase_devices_metadata", 99, {"what": "driver", "name": None}),
        (
            "factory_reset",
            42,
            {"what": "option", "name": "[conductor]clean_step_priority_override"},
        ),
    ]
    assert found["destroys"] == ["data", "settings"]


def test_steps_of_the_last_ramdisk_have_their_time(whole: InProcess) -> None:
    node, now = whole.rig.node(driver_info=AGENT), clock.now()
    first = plan(whole, node, target="provide")
    assert (first["complete"], first["destroys"], first["restarts"]) == (False, None, None)
    assert "not known" in first["incomplete"]
    listed: StepsByInterface = {
        "deploy": [{"interface": "deploy", "step": "scrub", "priority": 30, "abortable": False}]
    }
    whole.database.write(lambda conn: agent_steps.put(conn, node, listed, at=now))
    found = plan(whole, node, target="provide")
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
    whole: InProcess, state: str, body: Json
) -> None:
    found = whole.api.post(f"/v1/nodes/{whole.rig.node(state)}/plan", body).json
    assert [found[key] for key in ("ramdisk", "restarts", "destroys")] == [None] * 3
    assert found["complete"] is False
    assert found["incomplete"].endswith(".")


def test_plan_of_a_verb_that_only_changes_the_state_is_complete(whole: InProcess) -> None:
    found = plan(whole, whole.rig.node("available"), target="manage")
    assert [found[key] for key in ("ramdisk", "restarts", "destroys")] == [False, 0, []]
    assert found["complete"] is True


def test_unknown_step_of_a_ramdisk_is_no_fault(whole: InProcess) -> None:
    node = whole.rig.node(driver_info=AGENT)
    steps = [{"interface": "deploy", "step": "scrub"}]
    found = plan(whole, node, target="clean", clean_steps=steps)
    step = found["steps"][0]
    assert (step["by"], step["known"], step["destroys"]) == ("ramdisk", None, None)
    assert (found["accepted"], found["destroys"]) == (True, None)


def test_steps_of_a_runbook_name_it(whole: InProcess) -> None:
    book = {
        "name": "CUSTOM_BOOK",
        "steps": [{"interface": "deploy", "step": "no_such", "args": {}, "order": 1}],
    }
    assert whole.api.post("/v1/runbooks", book).status == 201
    node = whole.rig.node()
    whole.api.put(f"/v1/nodes/{node}/traits/CUSTOM_BOOK")
    whole.api.put("/v1/runbooks/CUSTOM_BOOK/traits", {"traits": ["CUSTOM_BOOK"]})
    found = plan(whole, node, 422, target="clean", runbook="CUSTOM_BOOK")
    assert found["faults"][-1]["path"] == "runbook"
    assert found["steps"][0]["from"] == {"what": "runbook", "name": "CUSTOM_BOOK"}


def test_steps_of_a_template_name_it(whole: InProcess) -> None:
    steps = [{"interface": "bios", "step": "factory_reset", "args": {}, "priority": 150}]
    body = {"name": "CUSTOM_RESET", "steps": steps}
    assert whole.api.post("/v1/deploy_templates", body).status == 201
    node = whole.rig.node("available", instance_info={"traits": ["CUSTOM_RESET"]})
    whole.api.put(f"/v1/nodes/{node}/traits/CUSTOM_RESET")
    found = plan(whole, node, target="active")
    assert found["steps"][0]["from"] == {"what": "template", "name": "CUSTOM_RESET"}
    assert (found["destroys"], found["restarts"]) == (["data", "settings"], 1)


def test_usual_durations_are_added_up(whole: InProcess) -> None:
    node = whole.rig.node()
    add_past_runs(whole.database, node, "erase_devices", 10, 20, 30, 40, 50)
    one = {"interface": "deploy", "step": "erase_devices"}
    found = plan(whole, node, target="clean", clean_steps=[one, one])
    assert found["steps"][0]["usual_seconds"] == {"p50": 30.0, "p90": 50.0, "samples": 5}
    assert found["seconds"] == {"p50": 60.0, "p90": 100.0, "samples": 5}


def test_durations_of_any_number_of_names_cost_one_statement(sqlite_database: Database) -> None:
    times, node = UsualTimes(sqlite_database), {"driver": "fake-hardware", "resource_class": None}
    invented = [{"interface": "deploy", "step": f"s{place}", "by": None} for place in range(1000)]
    with count_statements(sqlite_database) as sent:
        assert plans.durations(times, node, invented) == {}
    assert len(sent) == 0
    offered = [{**row, "by": "ramdisk"} for row in invented]
    with count_statements(sqlite_database) as sent:
        found = plans.durations(times, node, offered)
    assert (len(found), len(sent)) == (plans.MOST_DURATIONS, 1)


def test_plan_of_a_retry_has_the_steps_that_are_left(whole: InProcess) -> None:
    node = whole.rig.node(driver_info={"fake_fail_steps": {"bios.factory_reset": "no"}})
    names = [("management", "reset_bmc"), ("bios", "factory_reset"), ("deploy", "erase_devices")]
    whole.rig.clean(node, *(".".join(name) for name in names))
    assert whole.rig.get(node)["provision_state"] == "clean failed"
    found = plan(whole, node, target="retry")
    run = whole.rig.run(node)["uuid"]
    assert [(one["interface"], one["step"]) for one in found["steps"]] == names[1:]
    assert {one["from"]["name"] for one in found["steps"]} == {run}


def test_secret_arguments_are_masked(whole: InProcess) -> None:
    step = {"interface": "bios", "step": "factory_reset", "args": {"password": "sesame"}}
    found = plan(whole, whole.rig.node(), 422, target="clean", clean_steps=[step])
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


def test_plans_are_counted_by_their_answer(whole: InProcess) -> None:
    plan(whole, whole.rig.node(), target="provide")
    text = whole.api.get("/metrics?only=api").body.decode()
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
    whole: InProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    node = whole.rig.node()
    manager = types.SimpleNamespace(baremetal=Caller(whole))
    app: Any = types.SimpleNamespace(client_manager=manager, stdout=sys.stdout)
    command = planning.PlanNode(app, None)
    parser = command.get_parser("plan")
    assert command.run(parser.parse_args([node, "provide", "-f", "json"])) == 0
    assert json.loads(capsys.readouterr().out)["leads_to"] == "available"
    steps = '[{"interface": "deploy", "step": "no_such"}]'
    assert command.run(parser.parse_args([node, "clean", "--clean-steps", steps])) == 1
    shown = capsys.readouterr().out
    assert "clean_steps/0/step: node does not support" in shown
    assert "destroys unknown" in shown


def test_command_plans_a_retry_from_a_step_and_without_another(
    whole: InProcess, capsys: pytest.CaptureFixture[str]
) -> None:
    node = whole.rig.node(driver_info={"fake_fail_steps": {"bios.factory_reset": "no"}})
    whole.rig.clean(node, "management.reset_bmc", "bios.factory_reset", "deploy.erase_devices")
    manager = types.SimpleNamespace(baremetal=Caller(whole))
    app: Any = types.SimpleNamespace(client_manager=manager, stdout=sys.stdout)
    command = planning.PlanNode(app, None)
    given = [node, "retry", "--from", "0", "--waive-step", "1", "replaced", "--force", "-f", "json"]
    assert command.run(command.get_parser("plan").parse_args(given)) == 0
    found = json.loads(capsys.readouterr().out)
    assert [step["step"] for step in found["steps"]] == ["reset_bmc", "erase_devices"]
