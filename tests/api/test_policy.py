"""The rules of the policy: their table, files and programs, and verdicts that are remembered."""

from __future__ import annotations

import functools
import itertools
import os
import pathlib
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from oslo_config import cfg
from oslo_policy import policy as library
from oslo_policy import policy as oslo_policy

from ironic_lite.api import middleware, policy
from ironic_lite.api.http import expose
from ironic_lite.api.http.expose import _ROUTES
from ironic_lite.api.policy import enforcement
from ironic_lite.core import clock, config
from ironic_lite.db.engine import session
from ironic_lite.db.queries import runs
from ironic_lite.features.batches import rows as batches_rows
from tests.support import whole_api
from tests.support.api_rows import AddNode
from tests.support.callers import LESSEE, OWNER, Callers, Known
from tests.support.conductor_recorder import Recorder
from tests.support.database_rows import insert_run
from tests.support.statements import count_statements
from tests.support.waiting_client import WaitingApplication
from tests.support.wsgi_client import Client, op

# The table of rules: every route has one, and each is in the language of oslo.policy.


def _routes() -> list[expose.Route]:
    found = []
    for each in whole_api.CONTROLLERS:
        methods = (getattr(each, name) for name in vars(each))
        found += [route for method in methods for route in getattr(method, _ROUTES, ())]
    return found


def test_every_route_has_a_rule() -> None:
    without = [
        f"{route.method} {route.path}"
        for route in _routes()
        if policy.guard(route.method, route.path) is None
    ]

    assert not without, (
        f"write them into the row of their rule in ironic_lite/api/policy: {without}"
    )


@pytest.mark.feature("erasures")
def test_only_these_paths_ask_for_no_login() -> None:
    public = {route.path for route in _routes() if policy.public(route.path)}

    documents = {"", "/", "/openapi", "/openapi.json"}
    assert public == documents | {
        *("/lookup", "/heartbeat", "/heartbeat/{ident}", "/continue_inspection"),
        "/erasures/keys/{key}",
    }
    assert policy.public("/heartbeat/5e4d")
    assert not policy.public("/heartbeat/5e4d/x")
    assert not policy.public("/nodes")


def test_names_are_unique_and_checks_can_be_read() -> None:
    count = Counter(rule.name for rule in policy.TABLE)
    assert max(count.values()) == 1

    for rule in policy.TABLE:
        oslo_policy.RuleDefault(rule.name, rule.check, scope_types=list(rule.scope))
        if "%(node." in rule.check and rule.name.startswith("baremetal"):
            assert rule.about == policy.NODE, rule.name


def test_list_rules_have_a_rule_for_all_rows() -> None:
    for rule in policy.TABLE:
        if rule.lists:
            assert f"{rule.name}_all" in policy.BY_NAME


# What a policy file adds: rules for single steps, and what those of older deployments refer to.

ERASE = {"interface": "deploy", "step": "erase_devices"}
OTHER = {"interface": "deploy", "step": "erase_devices_metadata"}
RULE = "baremetal:step:execute:deploy.erase_devices"

Ruled = Callable[[str], Callers]


@pytest.fixture
def ruled(
    database: session.Database, recorder: Recorder, conf: cfg.ConfigOpts, tmp_path: pathlib.Path
) -> Ruled:
    """Build clients that are bound by the defaults and these lines of a policy file."""

    def build(lines: str) -> Callers:
        file = tmp_path / "policy.yaml"
        file.write_text(lines)
        enforcement.build_enforcer(conf)  # registers the option
        conf.set_override("policy_file", str(file), "oslo_policy")
        inner = whole_api.routed(database, recorder, conf)
        return Callers(
            middleware.RequestMiddleware(inner, conf, Known(enforcement.AccessFactory(conf)))
        )

    return build


@pytest.mark.feature("events")
def test_event_shows_values_of_a_field_to_those_who_may_read_it(
    ruled: Ruled, add_node: AddNode, database: session.Database
) -> None:
    manages = '"role:manager and project_id:%(node.owner)s"'
    callers = ruled(
        '"baremetal:node:get:filter_threshold": "!"\n'
        f'"baremetal:node:get:driver_info": {manages}\n'
        f'"baremetal:node:get:last_error": {manages}\n'
    )
    node = add_node(owner=OWNER, provision_state="manageable")["uuid"]
    path = f"/v1/nodes/{node}"
    owner = callers("admin", OWNER)
    patch = [
        op("add", "/driver_info", {"redfish_address": "https://bmc"}),
        op("add", "/description", "seen by all"),
    ]
    assert owner.patch(path, patch).status == 200
    assert owner.put(f"{path}/maintenance", {"reason": "why it is so"}).status == 202
    streaming = WaitingApplication(callers.application, database)
    feed = "/v1/events?since=0&kind=node_updated"
    for role, project, reads in (
        ("manager", OWNER, True),
        ("reader", OWNER, False),
        ("reader", None, False),
    ):
        texts = [
            callers(role, project).get(path).body,
            callers(role, project).get(feed).body,
            Callers(streaming)(role, project).get(f"{feed}&follow=true&limit=2").body,
        ]
        for text in texts:
            assert b"seen by all" in text
            assert (b"https://bmc" in text) is reads
            assert (b"why it is so" in text) is reads


@pytest.mark.parametrize(
    ("state", "body"),
    [
        ("manageable", {"target": "clean", "clean_steps": [OTHER, ERASE]}),
        ("active", {"target": "service", "service_steps": [ERASE]}),
        ("available", {"target": "active", "deploy_steps": [{**ERASE, "priority": 1, "args": {}}]}),
    ],
    ids=["clean", "service", "deploy"],
)
def test_a_step_with_a_rule_is_for_who_passes_it(
    ruled: Ruled, recorder: Recorder, add_node: AddNode, state: str, body: dict[str, Any]
) -> None:
    callers = ruled(f'"{RULE}": "role:admin and project_id:%(node.owner)s"\n')
    node = add_node(owner=OWNER, lessee=LESSEE, provision_state=state)["uuid"]
    path = f"/v1/nodes/{node}/states/provision"
    for role, project in (("member", OWNER), ("admin", LESSEE), ("admin", None)):
        answer = callers(role, project).put(path, body)
        assert answer.status == 403
        assert RULE in answer.text
    assert recorder.calls == []
    assert callers("admin", OWNER).put(path, body).status == 202


@pytest.mark.parametrize(
    ("stored", "status"),
    [({"requested": True}, 403), ({"requested": False}, 202), ({"runbook": "b"}, 202)],
    ids=["by an operator", "by drivers", "by a runbook"],
)
def test_retry_needs_the_rules_of_steps_that_an_operator_has_chosen(
    ruled: Ruled,
    database: session.Database,
    add_node: AddNode,
    stored: dict[str, Any],
    status: int,
) -> None:
    callers = ruled(f'"{RULE}": "role:admin and project_id:%(node.owner)s"\n')
    node = add_node(owner=OWNER, provision_state="clean failed")["uuid"]
    run = {"uuid": str(uuid.uuid4()), "node_uuid": node, "verb": "provide", "state": "failed"}
    listed = {"kind": "clean", "steps": [ERASE], **stored}
    row = {**run, "started_at": clock.now(), "listed": listed}
    step = {"run_uuid": run["uuid"], "ordinal": 0, "kind": "clean", **ERASE}
    database.write(lambda conn: insert_run(conn, row))
    database.write(lambda conn: runs.insert_steps(conn, [step]))
    answer = callers("member", OWNER).put(f"/v1/nodes/{node}/states/provision", {"target": "retry"})
    assert answer.status == status, answer.text


@pytest.mark.feature("batches")
def test_batch_of_retries_names_the_node_whose_steps_are_refused(
    ruled: Ruled, database: session.Database, add_node: AddNode
) -> None:
    callers = ruled(f'"{RULE}": "role:admin and project_id:%(node.owner)s"\n')
    nodes = [add_node(owner=OWNER, provision_state="clean failed")["uuid"] for _ in range(3)]
    known = {}
    for node, listed in zip(nodes, (OTHER, ERASE, OTHER), strict=True):
        known[node] = str(uuid.uuid4())
        about = {"verb": "clean", "state": "failed", "started_at": clock.now()}
        row = {**about, "uuid": known[node], "node_uuid": node, "listed": {"requested": True}}
        step = {"run_uuid": known[node], "ordinal": 0, "kind": "clean", **listed}
        database.write(functools.partial(insert_run, values=row))
        database.write(functools.partial(runs.insert_steps, rows=[step]))
    body: dict[str, Any] = {"nodes": nodes, "request": {"target": "retry"}}
    with count_statements(database) as sent:
        answer = callers("member", OWNER).post("/v1/batches", body)
    assert (answer.status, nodes[1] in answer.text) == (403, True), answer.text
    assert RULE in answer.text
    assert len(sent) <= 6, "a statement for each node"
    made = callers("member", OWNER).post("/v1/batches", {**body, "nodes": nodes[::2]})
    assert made.status == 201, made.text
    columns = batches_rows.NODE_COLUMNS
    rows = database.read(lambda conn: batches_rows.NODES.page(conn, columns=columns, limit=9))
    assert {row["node_uuid"]: row["retry_of"] for row in rows} == {
        node: known[node] for node in nodes[::2]
    }


def test_a_step_without_a_rule_is_for_who_may_name_steps(ruled: Ruled, add_node: AddNode) -> None:
    callers = ruled(f'"{RULE}": "!"\n')
    node = add_node(owner=OWNER, provision_state="manageable")["uuid"]
    body = {"target": "clean", "clean_steps": [OTHER]}
    path = f"/v1/nodes/{node}/states/provision"
    assert callers("member", OWNER).put(path, body).status == 202
    malformed: tuple[Any, ...] = ([OTHER, 1], {"deploy": ERASE}, [{"step": ["x"]}])
    for steps, status in (([ERASE, 1], 403), *((each, 400) for each in malformed)):
        assert callers("member", OWNER).put(path, {**body, "clean_steps": steps}).status == status


def test_a_runbook_holds_what_its_writer_may_ask_for(
    ruled: Ruled, recorder: Recorder, add_node: AddNode
) -> None:
    callers = ruled(f'"{RULE}": "role:admin"\n')
    erase, other = ({**step, "args": {}, "order": 1} for step in (ERASE, OTHER))
    manager, admin = callers("manager", OWNER), callers("admin", OWNER)
    place, body = "/v1/runbooks", {"name": "CUSTOM_A", "steps": [erase]}

    refused = manager.post(place, body)
    assert (refused.status, RULE in refused.text) == (403, True)
    made = manager.post(place, {**body, "steps": [other]})
    assert made.status == 201
    path = f"{place}/{made.json['uuid']}"
    patch = [op("replace", "/steps/0/step", "erase_devices")]
    assert manager.patch(path, patch).status == 403
    assert manager.patch(path, [op("add", "/extra/a", 1)]).status == 200
    assert admin.patch(path, patch).status == 200
    assert manager.patch(path, [op("add", "/extra/a", 2)]).status == 200

    assert admin.put(f"{path}/traits", {"traits": ["CUSTOM_A"]}).status == 204
    node = add_node(owner=OWNER, provision_state="manageable")["uuid"]
    assert admin.put(f"/v1/nodes/{node}/traits/CUSTOM_A").status == 204
    asked = {"target": "clean", "runbook": "CUSTOM_A"}
    assert manager.put(f"/v1/nodes/{node}/states/provision", asked).status == 202


def test_a_deploy_template_holds_what_its_writer_may_ask_for(ruled: Ruled) -> None:
    templates = '"baremetal:deploy_template:create": "role:member"\n'
    templates += '"baremetal:deploy_template:update": "role:member"\n'
    callers = ruled(f'"{RULE}": "role:admin"\n{templates}')
    erase, other = ({**step, "args": {}, "priority": 1} for step in (ERASE, OTHER))
    member, admin = callers("member"), callers("admin")
    place, body = "/v1/deploy_templates", {"name": "CUSTOM_A", "steps": [erase]}

    refused = member.post(place, body)
    assert (refused.status, RULE in refused.text) == (403, True)
    made = member.post(place, {**body, "steps": [other]})
    assert made.status == 201, made.text
    path = f"{place}/{made.json['uuid']}"
    patch = [op("replace", "/steps/0/step", "erase_devices")]
    assert member.patch(path, patch).status == 403
    assert member.patch(path, [op("add", "/extra/a", 1)]).status == 200
    assert admin.patch(path, patch).status == 200
    assert member.patch(path, [op("add", "/extra/a", 2)]).status == 200


def test_older_files_may_speak_of_public_routes(ruled: Ruled) -> None:
    callers = ruled('"baremetal:driver:ipa_lookup": "rule:public_api"\n')
    missing = "/v1/lookup?node_uuid=9d5f0a6e-0000-4000-8000-000000000000"
    assert Client(callers.application).get(missing).status == 404


# The programs of oslo.policy find the rules and the policy file by our entry points.

REDUNDANT = '"baremetal:node:list": "(role:reader) or (role:service)"'


def run(program: str, *words: str) -> subprocess.CompletedProcess[str]:
    path = pathlib.Path(sys.executable).parent / program
    command = [str(path), "--namespace", "ironic_lite", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def configured(tmp_path: pathlib.Path) -> tuple[str, str]:
    rules, conf = tmp_path / "policy.yaml", tmp_path / "ironic-lite.conf"
    rules.write_text(f'"baremetal:node:get": "role:admin"\n{REDUNDANT}\n')
    conf.write_text(f"[oslo_policy]\npolicy_file = {rules}\n")
    return "--config-file", str(conf)


def test_the_sample_has_every_rule() -> None:
    sample = run("oslopolicy-sample-generator").stdout
    for rule in policy.TABLE:
        assert f'"{rule.name}": ' in sample
    assert "# PUT  /v1/nodes/{ident}/states/provision" in sample


def test_redundant_lines_of_a_policy_file_are_found(configured: tuple[str, str]) -> None:
    done = run("oslopolicy-list-redundant", *configured)
    assert (done.returncode, done.stdout.strip()) == (0, REDUNDANT)


def test_the_effective_policy_is_told(configured: tuple[str, str], tmp_path: pathlib.Path) -> None:
    place = tmp_path / "effective.yaml"
    done = run("oslopolicy-policy-generator", *configured, "--output-file", str(place))
    assert done.returncode == 0, done.stderr
    assert '"baremetal:node:get": "role:admin"' in place.read_text()


def test_a_policy_file_is_validated(configured: tuple[str, str], tmp_path: pathlib.Path) -> None:
    assert run("oslopolicy-validator", *configured).returncode == 0
    (tmp_path / "policy.yaml").write_text('"baremetal:none:such": "role:admin"\n')
    done = run("oslopolicy-validator", *configured)
    assert done.returncode == 1
    assert "baremetal:none:such" in done.stdout


# Remembered verdicts are those of the library's own enforcer, and follow changed files.

ROLES = (
    (),
    ("reader",),
    ("member",),
    ("manager",),
    ("admin",),
    ("service",),
    ("OBSERVER", "Admin"),
)
PROJECTS = (None, "p1", "p2")
OTHERS: dict[str, str] = {
    "own:strange": "not role:admin and ('yes':%(answer)s or rule:is_member)",
    "own:missing": "rule:no_such_rule",
    "own:everybody": "@",
    "own:nobody": "!",
    "own:endless": "role:admin or (role:reader and not (project_id:p1 and not role:member))",
}


def fresh(conf: cfg.ConfigOpts) -> Any:
    """Return the library's enforcer, with more rules than ours."""
    made = enforcement.build_enforcer(conf)
    made.register_defaults([library.RuleDefault(name, check) for name, check in OTHERS.items()])
    made.load_rules()
    return made


@pytest.fixture
def plain() -> Iterator[cfg.ConfigOpts]:
    conf = cfg.ConfigOpts()
    config.register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    yield conf
    conf.clear()


def callers() -> Iterator[dict[str, Any]]:
    for roles, project, system, domain in itertools.product(
        ROLES, PROJECTS, (None, "all"), (None, "d")
    ):
        caller = {"roles": list(roles), "project_id": project, "user_id": "u", "domain_id": domain}
        yield {**caller, "system_scope": system, "system": system, "is_public_api": not roles}


def owned() -> Iterator[dict[str, str]]:
    for owner, lessee in itertools.product(PROJECTS, PROJECTS):
        given = {"node.owner": owner, "node.lessee": lessee, "allocation.owner": owner}
        yield {name: value for name, value in given.items() if value}


def test_every_verdict_is_the_librarys(plain: cfg.ConfigOpts) -> None:
    judge, verdicts = fresh(plain), enforcement.Verdicts(plain, fresh)
    names = [rule.name for rule in policy.TABLE] + list(OTHERS)
    asked = [(who, owners) for who in callers() for owners in owned()]
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(str(judge.rules[name]), []).append(name)
    assert max(map(len, alike.values())) < len(asked) / 7
    seen = set()
    for number, (text, group) in enumerate(alike.items()):
        # Rules of one text take turns; each seventh question, as all of them take a minute.
        turns = itertools.cycle(group)
        for name, (who, owners) in zip(turns, asked[number % 7 :: 7], strict=False):
            own = {key: value for key, value in who.items() if value is not None}
            wanted = bool(judge.enforce(name, {**own, "answer": "yes", **owners}, dict(who)))
            for _ in range(2):  # computed, and remembered
                caller = enforcement.Caller(dict(who), {"answer": "yes"})
                assert verdicts.passes(name, owners, caller) is wanted, (name, who, owners)
            seen.add((text, wanted))
    decided = {text for text, _ in seen if {(text, True), (text, False)} <= seen}
    assert sum(len(alike[text]) for text in decided) > 100


def test_a_rule_that_is_not_there_is_passed_by_nobody(plain: cfg.ConfigOpts) -> None:
    who = {"roles": ["admin"], "system": "all", "project_id": None}
    verdicts = enforcement.Verdicts(plain, enforcement.build_enforcer)
    assert not verdicts.passes("baremetal:no:such", {}, enforcement.Caller(who, {}))
    assert not verdicts.has("baremetal:no:such")
    assert verdicts.has("baremetal:node:get")


class Counted(library.Check):
    """A rule of a plug-in that lets in the user u, and counts how often it is asked."""

    asked = 0

    def __call__(self, target: Any, creds: Any, enforcer: Any, name: Any = None) -> bool:
        type(self).asked += 1
        return bool(creds["user_id"] == "u")


@pytest.fixture
def counted(plain: cfg.ConfigOpts, monkeypatch: pytest.MonkeyPatch) -> enforcement.Verdicts:
    monkeypatch.setattr(Counted, "asked", 0)

    def build(conf: cfg.ConfigOpts) -> Any:
        made = enforcement.build_enforcer(conf)
        made.set_rules({"own:counted": Counted("counted", "x")}, overwrite=False)
        return made

    return enforcement.Verdicts(plain, build)


def test_a_rule_is_asked_once_for_a_caller_and_owners(counted: enforcement.Verdicts) -> None:
    callers = [{"user_id": "u", "roles": ["a"]}, {"user_id": "v", "roles": ["a"]}]
    owners = [{}, {"node.owner": "p"}, {"node.lessee": "p"}]
    for _ in range(3):
        for who, what in itertools.product(callers, owners):
            caller = enforcement.Caller(dict(who), {})
            assert counted.passes("own:counted", what, caller) is (who["user_id"] == "u")
    assert Counted.asked == len(callers) * len(owners)


def test_a_verdict_is_forgotten_after_a_while(
    counted: enforcement.Verdicts, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = enforcement.Caller({"user_id": "u", "roles": []}, {})
    monkeypatch.setattr(enforcement, "KEPT", 0.0)
    assert all(counted.passes("own:counted", {}, caller) for _ in range(3))
    assert Counted.asked == 3


def test_verdicts_of_many_callers_are_bounded(
    counted: enforcement.Verdicts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(enforcement, "_MOST", 10)
    for number in range(25):
        caller = enforcement.Caller({"user_id": f"u{number}", "roles": []}, {})
        assert not counted.passes("own:counted", {}, caller)
        assert counted.remembered <= 10


@pytest.fixture
def file(tmp_path: pathlib.Path) -> pathlib.Path:
    """A policy file that lets in who is first."""
    found = tmp_path / "policy.yaml"
    found.write_text('"baremetal:node:get": "role:first"\n')
    return found


@pytest.fixture
def rules(file: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[enforcement.Verdicts]:
    """The rules with that file, which is looked at each time."""
    monkeypatch.setattr(enforcement, "FRESH", 0.0)
    conf = cfg.ConfigOpts()
    config.register(conf)
    place = file.with_name("service.conf")
    place.write_text(f"[oslo_policy]\npolicy_file = {file}\n")
    conf([], default_config_files=[str(place)], default_config_dirs=[])
    yield enforcement.Verdicts(conf, enforcement.build_enforcer)
    conf.clear()


def change(file: pathlib.Path, text: str, seconds: int) -> None:
    file.write_text(text)
    os.utime(file, (time.time() + seconds, time.time() + seconds))


def passing(rules: enforcement.Verdicts) -> list[str]:
    """Return which of two may see a node."""
    callers = {
        role: enforcement.Caller({"roles": [role], "project_id": "p"}, {})
        for role in ("first", "second")
    }
    return [role for role, who in callers.items() if rules.passes("baremetal:node:get", {}, who)]


def test_a_changed_file_is_followed(rules: enforcement.Verdicts, file: pathlib.Path) -> None:
    assert passing(rules) == ["first"]
    change(file, '"baremetal:node:get": "role:second"\n', 5)
    assert passing(rules) == ["second"]


@pytest.mark.parametrize("text", ['"baremetal:node:get": [\n', "no rules\n", "- a\n", "a: 7\n"])
def test_a_file_that_was_broken_changes_nothing(
    rules: enforcement.Verdicts, file: pathlib.Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert passing(rules) == ["first"]
    change(file, text, 5)
    assert passing(rules) == ["first"]
    assert "policy file cannot be used" in caplog.text
    change(file, '"baremetal:node:get": "role:second"\n', 10)
    assert passing(rules) == ["second"]


@pytest.mark.parametrize(
    "text",
    ['"a": "rule:a"\n', '"a": "rule:b"\n"b": "role:x or rule:a"\n', '"a": "rule:none"\n'],
    ids=["itself", "in turn", "none"],
)
def test_rules_that_lead_nowhere_change_nothing(
    rules: enforcement.Verdicts, file: pathlib.Path, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """They end the service at its start; here the next to ask for them would fail."""
    assert passing(rules) == ["first"]
    change(file, f'"baremetal:node:get": "rule:a"\n{text}', 5)
    assert passing(rules) == ["first"]
    assert "policy file cannot be used" in caplog.text
    assert passing(rules) == ["first"]
    change(file, '"baremetal:node:get": "role:second"\n', 10)
    assert passing(rules) == ["second"]


def test_a_broken_file_takes_no_rules_of_others_away(
    rules: enforcement.Verdicts, file: pathlib.Path
) -> None:
    """The library drops all rules before it reads a folder, and stops at what is broken."""
    admin = enforcement.Caller({"roles": ["admin"], "system_scope": "all"}, {})
    broken, last = (file.with_name("policy.d") / f"{name}.yaml" for name in "ab")
    last.parent.mkdir()
    last.write_text('"baremetal:chassis:create": "!"\n')
    assert not rules.passes("baremetal:chassis:create", {}, admin)
    broken.write_text("no rules\n")
    for _ in range(2):
        assert not rules.passes("baremetal:chassis:create", {}, admin)
        assert passing(rules) == ["first"]
    change(broken, '"baremetal:node:get": "role:second"\n', 5)
    assert passing(rules) == ["second"]
    assert not rules.passes("baremetal:chassis:create", {}, admin)


def test_a_file_that_has_gone_changes_nothing(
    rules: enforcement.Verdicts, file: pathlib.Path
) -> None:
    """An editor may be about to write it anew; the defaults let in others."""
    assert passing(rules) == ["first"]
    file.unlink()
    assert passing(rules) == ["first"]
    change(file, '"baremetal:node:get": "role:second"\n', 5)
    assert passing(rules) == ["second"]


def test_a_broken_file_is_told_of_once(
    rules: enforcement.Verdicts, file: pathlib.Path, caplog: pytest.LogCaptureFixture
) -> None:
    change(file, "no rules\n", 5)
    for _ in range(3):
        assert passing(rules) == ["first"]
    assert caplog.text.count("policy file cannot be used") == 1
