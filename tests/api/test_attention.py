"""GET /v1/attention: what needs a person, by cause, for each kind of caller."""

from __future__ import annotations

import datetime
import threading
from typing import Any

import pytest

from ironic_lite.api.resources.recent import Recent
from ironic_lite.core import clock
from ironic_lite.db.engine.session import Database
from ironic_lite.db.queries import runs as run_rows
from ironic_lite.db.tables import models
from ironic_lite.domain import causes
from ironic_lite.features.attention import api as attention_api
from ironic_lite.features.attention import rows, rules
from tests.api.test_policy import Ruled, ruled  # noqa: F401
from tests.support.api_rows import AddNode, set_node
from tests.support.callers import LESSEE, OWNER, STRANGER, Callers
from tests.support.database_rows import insert_run, new_uuid
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client

pytestmark = pytest.mark.feature("attention")

CLEANED, STEP = "clean failed", "deploy.erase_devices"
KEY = causes.key("clean", STEP, "HardwareError", "disk sd#: read-only, sector #")


@pytest.fixture
def kept_seconds() -> float:
    """Seconds for which a document is kept: each request is computed."""
    return 0.0


@pytest.fixture(autouse=True)
def _keep(monkeypatch: pytest.MonkeyPatch, kept_seconds: float) -> None:
    monkeypatch.setattr(attention_api, "KEPT_SECONDS", kept_seconds)


def ago(**units: float) -> datetime.datetime:
    return clock.now() - datetime.timedelta(**units)


def error(text: str, step: str | None = STEP) -> dict[str, Any]:
    """Return the error of a failed step as a run has it."""
    cause = {"code": "HardwareError", "text": text, "retryable": False, "facts": {}}
    shown = {"code": "CleanStepFailed", "text": f"Cannot clean: {text}", "step": step}
    return {**shown, "retryable": False, "cause": cause}


def fail(
    database: Database,
    node: dict[str, Any],
    text: str = "disk sdb: read-only, sector 7",
    **values: Any,
) -> str:
    """Add the failed run in which a node stands; return its UUID."""
    why = error(text)
    at = ago(minutes=5)
    row = {"uuid": new_uuid(), "node_uuid": node["uuid"], "verb": "clean", "state": "failed"}
    row |= {"started_at": at, "ended_at": at, "error": why, "code": "HardwareError"}
    row |= {name: node[name] for name in ("owner", "lessee")}
    row |= {"cause": causes.of_error("clean", why, node), **values}
    database.write(lambda conn: insert_run(conn, row))
    return str(row["uuid"])


def read(client: Client, query: str = "") -> dict[str, Any]:
    answer = client.get(f"/v1/attention?{query}")
    assert answer.status == 200, answer.text
    shown: dict[str, Any] = answer.json
    return shown


def hold(client: Client, node: dict[str, Any], kind: str, **more: Any) -> None:
    body = {"kind": kind, "reason": "r", **more}
    assert client.post(f"/v1/nodes/{node['uuid']}/holds", body).status == 201


def test_quiet_fleet_is_ok(api: Client, add_node: AddNode) -> None:
    add_node(provision_state="available")
    shown = read(api)
    assert shown.pop("at")
    first = shown["failures"].pop("from")
    assert datetime.datetime.fromisoformat(first).minute == 0
    assert shown == {
        "status": "ok",
        "needs_human": 0,
        "of": 1,
        "causes_left_out": 0,
        "silenced": {"maintenance": 0, "held": 0},
        "causes": [],
        "fleet": {"available": 1},
        "runs": {"running": 0, "waiting": 0},
        "failures": {"seconds": 3600, "counts": [0] * 24},
        "batches": [],
        "conductors": [],
        "findings": None,
        "certificates": None,
        "webhooks": [],
    }


def test_failures_of_one_cause_are_one_line(
    api: Client, database: Database, add_node: AddNode
) -> None:
    for number, disk in enumerate("bcd"):
        since = clock.now()
        node = add_node(name=f"n{number}", provision_state=CLEANED, provision_updated_at=since)
        fail(database, node, f"disk sd{disk}: read-only, sector {number}")
    shown = read(api)
    [cause] = shown["causes"]
    assert cause.pop("first_at") <= cause.pop("last_at")
    assert [one["name"] for one in cause.pop("sample")] == ["n0", "n2"]
    assert cause == {
        "cause": KEY,
        "kind": "failed",
        "verb": "clean",
        "step": STEP,
        "code": "HardwareError",
        "text": "disk sd#: read-only, sector #",
        "example": "disk sdb: read-only, sector 0",
        "nodes": 3,
        "retrying": 0,
        "silenced": 0,
        "do": "Read the log of the run, and fix the cause. Then use retry.",
        "verbs": ["retry", "manage"],
        "usual_p90": None,
        "longest_seconds": None,
        "href": f"/v1/nodes?cause={KEY}",
    }
    assert (shown["needs_human"], shown["status"], shown["fleet"]) == (3, "warning", {CLEANED: 3})
    assert sum(shown["failures"]["counts"]) == 3
    assert len(api.get(cause["href"]).json["nodes"]) == 3


def test_each_kind_has_its_line_and_each_node_one_kind(
    api: Client, database: Database, add_node: AddNode
) -> None:
    failed = add_node(provision_state=CLEANED, fault="clean failure", health="Critical")
    fail(database, failed)
    enrolled = add_node(
        provision_state="enroll",
        last_error="no",
        provision_updated_at=clock.now(),
        health="Critical",
    )
    fail(database, enrolled, "no BMC", verb="manage")
    add_node(provision_state="active", fault="power failure", maintenance=True, health="Critical")
    late = add_node(name="late", provision_state="cleaning", health="Critical")
    overdue(database, late)
    add_node(provision_state="active", health="Critical")
    add_node(provision_state="active", health="Warning")
    add_node(provision_state="active", health="OK")
    shown = read(api)
    found = [(one["kind"], one["text"], one["nodes"]) for one in shown["causes"]]
    assert found == [
        ("failed", "disk sd#: read-only, sector #", 1),
        ("unverified", "no BMC", 1),
        ("fault", "power failure", 1),
        ("overdue", "overdue", 1),
        ("health", "Critical", 1),
        ("health", "Warning", 1),
    ]
    assert (shown["needs_human"], shown["of"]) == (5, 7)
    assert all(one["do"] for one in shown["causes"])
    assert len({one["cause"] for one in shown["causes"]}) == 6
    for one in shown["causes"]:
        assert api.get(one["href"]).status == 200, one
        [same] = read(api, f"cause={one['cause']}")["causes"]
        assert {**same, "longest_seconds": None} == {**one, "longest_seconds": None}
    step = shown["causes"][3]
    assert (step["verb"], step["step"], step["verbs"]) == ("clean", STEP, ["abort"])
    assert step["longest_seconds"] == pytest.approx(2400, abs=60)
    assert [one["name"] for one in step["sample"]] == ["late"]


def overdue(database: Database, node: dict[str, Any], **values: Any) -> None:
    """Add a run whose step is marked as overdue."""
    run = {"uuid": new_uuid(), "node_uuid": node["uuid"], "verb": "clean", "state": "running"}
    run |= {"started_at": ago(minutes=41), **values}
    step = {"run_uuid": run["uuid"], "kind": "clean", "ordinal": 0, "interface": "deploy"}
    step |= {"step": "erase_devices", "state": "running", "started_at": ago(minutes=40)}
    database.write(lambda conn: insert_run(conn, run))
    database.write(lambda conn: run_rows.insert_steps(conn, [step]))
    database.write(
        lambda conn: conn.execute(models.run_steps.update().values(overdue_at=ago(minutes=3)))
    )


def test_maintenance_of_the_operator_silences_and_that_of_the_service_does_not(
    api: Client, database: Database, add_node: AddNode
) -> None:
    why = "Cannot clean: disk sdb: read-only, sector 7"
    fault = {"provision_state": CLEANED, "fault": "clean failure", "maintenance": True}
    fault |= {"last_error": why, "maintenance_reason": why}
    nodes = [add_node(name=f"n{number}", **fault) for number in range(4)]
    for node in nodes:
        fail(database, node)
    assert read(api)["needs_human"] == 4
    assert api.put(f"/v1/nodes/{nodes[0]['uuid']}/maintenance", {"reason": "disk"}).status == 202
    assert api.put(f"/v1/nodes/{nodes[1]['uuid']}/maintenance").status == 202
    # An operation that failed later has changed last_error.
    set_node(database, nodes[2], last_error="Power on failed.")
    shown = read(api)
    assert shown["silenced"] == {"maintenance": 2, "held": 0}
    assert (shown["needs_human"], shown["causes"][0]["silenced"]) == (2, 2)
    assert {one["name"] for one in shown["causes"][0]["sample"]} == {"n2", "n3"}
    assert api.delete(f"/v1/nodes/{nodes[0]['uuid']}/maintenance").status == 202
    assert read(api)["needs_human"] == 3


def test_holds_that_leave_a_node_alone_silence_it(
    api: Client, database: Database, add_node: AddNode
) -> None:
    nodes = [add_node(name=f"n{number}", provision_state=CLEANED) for number in range(6)]
    for node in nodes:
        fail(database, node)
    hold(api, nodes[0], "hardware")
    hold(api, nodes[1], "freeze")
    hold(api, nodes[2], "sampling", blocks=["power"])
    hold(api, nodes[3], "legal")
    hold(api, nodes[4], "asset", blocks=["forget", "erase"])
    shown = read(api)
    assert (shown["needs_human"], shown["silenced"]["held"]) == (3, 3)
    database.write(lambda conn: conn.execute(models.holds.update().values(until=ago(minutes=1))))
    assert read(api)["needs_human"] == 6


def test_cause_of_silenced_nodes_alone_is_not_listed(
    api: Client, database: Database, add_node: AddNode
) -> None:
    fail(database, add_node(provision_state=CLEANED, maintenance=True))
    add_node(provision_state="active", health="Warning", maintenance=True)
    shown = read(api)
    assert (shown["status"], shown["causes"], shown["needs_human"]) == ("ok", [], 0)
    assert shown["silenced"]["maintenance"] == 1


def test_automatic_retries_that_are_due_are_counted(
    api: Client, database: Database, add_node: AddNode
) -> None:
    for wake_at in (None, clock.after(60)):
        fail(database, add_node(provision_state=CLEANED, wake_at=wake_at))
    [cause] = read(api)["causes"]
    assert (cause["nodes"], cause["retrying"]) == (2, 1)


def test_failure_whose_run_was_removed_has_the_last_error(api: Client, add_node: AddNode) -> None:
    add_node(provision_state="deploy failed", last_error="no disk in 10.0.0.7")
    [cause] = read(api)["causes"]
    assert (cause["text"], cause["href"], cause["verb"]) == ("no disk in #", None, None)
    assert cause["verbs"] == ["retry"]


def test_runs_without_a_key_are_one_cause_for_each_verb_and_code(
    api: Client, database: Database, add_node: AddNode
) -> None:
    for verb, code in (("clean", "A"), ("clean", "A"), ("clean", "B"), ("provide", None)):
        node = add_node(provision_state=CLEANED)
        fail(database, node, f"why {code}", verb=verb, code=code, cause=None)
    found = read(api)["causes"]
    assert sorted((one["verb"], one["text"], one["nodes"]) for one in found) == [
        ("clean", "why A", 2),
        ("clean", "why B", 1),
        ("provide", "why None", 1),
    ]
    assert {one["href"] for one in found} == {None}
    assert len({one["cause"] for one in found}) == 3


def test_filters_are_those_of_the_list_of_nodes(
    api: Client, database: Database, add_node: AddNode
) -> None:
    for name, kind in (("a", "gpu"), ("b", "gpu"), ("c", "cpu")):
        node = add_node(name=name, provision_state=CLEANED, resource_class=kind)
        fail(database, node)
    overdue(database, add_node(provision_state="cleaning", resource_class="cpu"))
    shown = read(api, "resource_class=gpu")
    assert (shown["needs_human"], shown["of"], shown["runs"]["running"]) == (2, 2, 0)
    assert sum(shown["failures"]["counts"]) == 2
    assert read(api, "resource_class=cpu")["runs"]["running"] == 1
    assert read(api, "held=true")["needs_human"] == 0
    assert read(api, f"project={OWNER}")["of"] == 0
    assert read(api, "provision_state=clean failed,cleaning&limit=1")["causes_left_out"] == 1


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("colour=red", "colour"),
        ("conductor=c1", "conductor: is computed for each node"),
        ("cause=x", "cause: 'x' is not the key of a cause"),
        ("cause=", "cause"),
        ("limit=0", "limit"),
        ("limit=many", "limit"),
        ("maintenance=perhaps", "maintenance"),
        ("fields=uuid", "fields"),
        ("marker=x", "marker"),
    ],
)
def test_bad_argument_is_refused_by_its_name(api: Client, query: str, said: str) -> None:
    answer = api.get(f"/v1/attention?{query}")
    assert (answer.status, said in answer.text) == (400, True), answer.text


def test_causes_beyond_the_limit_are_counted(
    api: Client, database: Database, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    for word in ("disk", "fan", "fan", "link"):
        fail(database, add_node(provision_state=CLEANED), word)
    shown = read(api, "limit=1")
    assert [one["text"] for one in shown["causes"]] == ["fan"]
    assert (shown["causes_left_out"], shown["needs_human"]) == (2, 4)
    monkeypatch.setattr(rows, "MOST_FAILED", 1)
    shown = read(api)
    assert (len(shown["causes"]), shown["causes_left_out"], shown["needs_human"]) == (1, 3, 4)
    monkeypatch.setattr(rules, "MOST_BYTES", 10)
    assert (read(api)["causes"], read(api)["causes_left_out"]) == ([], 4)


def test_nodes_that_are_not_read_are_counted(
    api: Client, database: Database, add_node: AddNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(3):
        node = add_node(provision_state="enroll", last_error="no", provision_updated_at=clock.now())
        fail(database, node, "no BMC", verb="manage")
        overdue(database, add_node(provision_state="cleaning"))
        add_node(provision_state="active", fault="power failure", maintenance=True)
        add_node(provision_state="active", health="Critical")
        add_node(provision_state="active", health="Warning")
    monkeypatch.setattr(rows, "MOST_FAILED", 2)
    monkeypatch.setattr(rows, "MOST_LATE", 1)
    shown = read(api)
    assert [(one["kind"], one["nodes"]) for one in shown["causes"]] == [
        ("unverified", 2),
        ("fault", 3),
        ("overdue", 1),
        ("health", 3),
        ("health", 3),
    ]
    assert (shown["needs_human"], shown["causes_left_out"]) == (12, 3)
    filtered = read(api, "provision_state=active")
    assert (filtered["needs_human"], filtered["causes_left_out"]) == (6, 0)


def test_node_that_fails_before_its_first_verification_is_unverified(
    api: Client, add_node: AddNode
) -> None:
    add_node(name="n1", provision_state="enroll", last_error="no answer", health="Critical")
    add_node(provision_state="enroll")
    shown = read(api)
    [cause] = shown["causes"]
    assert (cause["kind"], cause["text"], cause["verbs"]) == ("unverified", "no answer", ["manage"])
    assert ([one["name"] for one in cause["sample"]], shown["needs_human"]) == (["n1"], 1)


def test_many_failed_nodes_are_critical(api: Client, database: Database, add_node: AddNode) -> None:
    for number in range(6):
        fail(database, add_node(provision_state=CLEANED))
        assert read(api)["status"] == ("critical" if number == 5 else "warning")
    for _ in range(114):
        add_node(provision_state="active")
    assert read(api)["status"] == "warning"


def test_dead_conductor_is_listed_and_a_group_without_one_is_critical(
    api: Client, database: Database, add_node: AddNode
) -> None:
    database.write(
        lambda conn: conn.execute(models.conductors.update().values(updated_at=ago(hours=1)))
    )
    shown = read(api)
    assert [one["hostname"] for one in shown["conductors"]] == ["conductor-1"]
    assert shown["status"] == "warning"
    add_node(conductor_group="")
    assert read(api)["status"] == "critical"
    database.write(
        lambda conn: conn.execute(models.conductors.update().values(updated_at=clock.now()))
    )
    assert read(api)["status"] == "ok"
    add_node(conductor_group="rack-1")
    assert read(api)["status"] == "critical"
    database.write(lambda conn: conn.execute(models.conductors.update().values(online=False)))
    assert read(api)["conductors"] == []


@pytest.mark.feature("batches")
def test_open_batches_are_listed_the_paused_ones_first(api: Client, add_node: AddNode) -> None:
    found = []
    for name in ("first", "second"):
        node = add_node(provision_state="manageable")
        body = {"name": name, "nodes": [node["uuid"]], "request": {"target": "inspect"}}
        found.append(api.post("/v1/batches", body).json["uuid"])
    assert read(api)["status"] == "ok"
    assert api.put(f"/v1/batches/{found[0]}/state", {"target": "pause"}).status == 200
    shown = read(api)
    assert [one["name"] for one in shown["batches"]] == ["first", "second"]
    assert shown["batches"][0] == {
        "uuid": found[0],
        "name": "first",
        "state": "paused",
        "nodes": 1,
        "done": 0,
        "failed": 0,
        "under_way": 0,
        "ends_at": None,
        "paused_by": "anonymous",
    }
    assert shown["status"] == "warning"


@pytest.mark.feature("webhooks")
def test_suspended_webhooks_and_those_far_behind_are_listed(
    api: Client, database: Database, add_node: AddNode
) -> None:
    answer = api.post("/v1/webhooks", {"url": "https://203.0.113.9/x"})
    assert answer.status == 201, answer.text
    hook = answer.json["uuid"]
    assert read(api)["webhooks"] == []

    def change(**values: Any) -> None:
        database.write(lambda conn: conn.execute(models.webhooks.update().values(**values)))

    change(state="suspended")
    [shown] = read(api)["webhooks"]
    assert (shown["uuid"], shown["state"]) == (hook, "suspended")
    assert read(api)["status"] == "warning"
    change(state="active", position=-2000)
    [shown] = read(api)["webhooks"]
    assert shown["behind"] > 1000
    change(state="paused")
    assert read(api)["webhooks"] == []


# -- callers ---------------------------------------------------------------------------------


def test_caller_sees_its_own_nodes_and_causes_of_runs_that_it_may_read(
    database: Database, callers: Callers, add_node: AddNode
) -> None:
    failed = {"provision_state": CLEANED, "last_error": "secret of the owner"}
    mine = add_node(name="mine", owner=OWNER, lessee=LESSEE, **failed)
    bought = add_node(name="bought", owner=OWNER, **failed)
    theirs = add_node(name="theirs", owner=STRANGER, **failed)
    fail(database, mine, "secret of the owner")
    fail(database, bought, "secret of the seller", owner=STRANGER)
    fail(database, theirs, "secret of the stranger")
    add_node(name="gone", owner=OWNER, provision_state=CLEANED, last_error="secret of a run")

    def found(project: str | None) -> tuple[int, int, list[tuple[str, str]], int]:
        caller = callers("reader", project)
        shown = read(caller)
        listed = [(one["text"], one["sample"][0]["name"]) for one in shown["causes"]]
        return shown["needs_human"], shown["of"], listed, sum(shown["failures"]["counts"])

    assert found(OWNER) == (3, 3, [("secret of the owner", "mine")], 1)
    assert found(LESSEE) == (1, 1, [], 0)
    assert found(STRANGER) == (1, 1, [("secret of the stranger", "theirs")], 1)
    assert found("p-none") == (0, 0, [], 0)
    needs, of, listed, failures = found(None)
    assert (needs, of, len(listed), failures) == (4, 4, 4, 3)
    lessee = callers("reader", LESSEE).get("/v1/attention").body
    assert b"secret" not in lessee
    assert b"bought" not in lessee


@pytest.mark.parametrize("kept_seconds", [600.0])
def test_node_that_has_left_the_project_is_not_named(
    database: Database, callers: Callers, add_node: AddNode
) -> None:
    left = add_node(name="left", owner=OWNER, provision_state=CLEANED)
    kept = add_node(name="kept", owner=OWNER, provision_state=CLEANED)
    for node in (left, kept):
        fail(database, node)
    caller = callers("reader", OWNER)
    assert len(read(caller)["causes"][0]["sample"]) == 2
    set_node(database, left, owner=STRANGER)
    [cause] = read(caller)["causes"]
    assert cause["sample"] == [{"uuid": kept["uuid"], "name": "kept"}]


def test_last_error_is_hidden_where_a_rule_hides_it(
    ruled: Ruled,  # noqa: F811
    database: Database,
    add_node: AddNode,
) -> None:
    rule = "baremetal:node:get:last_error"
    lines = f'"{rule}": "role:manager"\n"baremetal:node:get:filter_threshold": "!"\n'
    callers = ruled(lines)
    add_node(provision_state=CLEANED, last_error="secret of the node")
    add_node(provision_state="enroll", last_error="secret of the node")
    fail(database, add_node(provision_state=CLEANED, last_error="Cannot."), "known from its run")
    texts = {one["example"] for one in read(callers("manager"))["causes"]}
    assert texts == {"secret of the node", "known from its run"}
    shown = callers("reader").get("/v1/attention")
    assert (b"secret" in shown.body, rule.encode() in shown.body) == (False, True)
    assert shown.json["needs_human"] == 3
    assert "known from its run" in {one["example"] for one in shown.json["causes"]}


def test_parts_about_the_service_need_their_own_rules(callers: Callers, database: Database) -> None:
    parts = ("conductors", "findings", "certificates", "webhooks")
    expected = {
        ("admin", None): {"findings", "certificates"},
        ("reader", None): {"findings", "certificates", "webhooks"},
        ("admin", OWNER): set(parts),
    }
    for (role, project), hidden in expected.items():
        shown = read(callers(role, project))
        assert {name for name in parts if shown[name] is None} == hidden, (role, project)
    database.write(
        lambda conn: conn.execute(models.conductors.update().values(updated_at=ago(hours=1)))
    )
    assert read(callers("reader", OWNER))["status"] == "ok"


@pytest.mark.feature("batches")
def test_project_sees_its_own_batches(
    callers: Callers, database: Database, add_node: AddNode
) -> None:
    node = add_node(provision_state="manageable", owner=OWNER)
    body = {"nodes": [node["uuid"]], "request": {"target": "inspect"}}
    assert callers("admin", OWNER).post("/v1/batches", body).status == 201
    database.write(lambda conn: conn.execute(models.batches.update().values(project=OWNER)))
    found = {who: len(read(callers("reader", who))["batches"]) for who in (OWNER, STRANGER, None)}
    assert found == {OWNER: 1, STRANGER: 0, None: 1}


def test_caller_without_a_role_is_refused(callers: Callers) -> None:
    caller = callers("reader", OWNER)
    answer = caller.get("/v1/attention", headers={"X-Roles": "guest"})
    assert answer.status == 403


def test_old_versions_have_the_path_and_newer_filters_are_refused(api: Client) -> None:
    api.version = "1.1"
    assert read(api)["status"] == "ok"
    assert api.get("/v1/attention?owner=x").status == 406


# -- costs -----------------------------------------------------------------------------------


@pytest.mark.feature("batches", "webhooks")
@pytest.mark.parametrize("count", [1, 30])
def test_document_costs_at_most_twelve_statements(
    api: Client, database: Database, add_node: AddNode, count: int
) -> None:
    for number in range(count):
        fail(database, add_node(provision_state=CLEANED), f"word{'x' * number}")
        overdue(database, add_node(provision_state="cleaning"))
        add_node(provision_state="active", health="Critical")
        add_node(provision_state="active", fault="power failure")
        node = add_node(provision_state="manageable")
        body = {"nodes": [node["uuid"]], "request": {"target": "inspect"}}
        assert number or api.post("/v1/batches", body).status == 201
    with count_statements(database) as sent:
        shown = read(api)
    assert shown["needs_human"] == 4 * count
    assert len(sent) <= 12, sent


def test_document_that_took_long_is_kept_from_its_end() -> None:
    now = [0.0]

    def make() -> float:
        now[0] += 2.5
        return now[0]

    kept: Recent[float] = Recent(2.0, 1, lambda: now[0])
    assert [kept.of("key", make) for _ in range(4)] == [2.5] * 4


@pytest.mark.parametrize("kept_seconds", [600.0])
def test_equal_questions_share_one_computation(
    database: Database, callers: Callers, add_node: AddNode
) -> None:
    fail(database, add_node(provision_state=CLEANED, owner=OWNER))
    caller = callers("reader", OWNER)
    with count_statements(database) as sent:
        threads = [threading.Thread(target=read, args=(caller,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    once = len(sent)
    with count_statements(database) as sent:
        assert len(read(caller)["causes"]) == 1
        assert read(caller, "limit=1")["needs_human"] == 1
    # The one statement looks for nodes that have left the project.
    assert (once <= 12, len(sent)) == (True, 2)
    assert read(callers("reader", LESSEE))["needs_human"] == 0
