"""Inspection rules over HTTP: from 1.96 on, checked whole, and silent where they are sensitive."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from oslo_config import cfg

from ironic_lite.api import app
from ironic_lite.db.engine import session
from ironic_lite.db.queries import inspection_rules
from tests.support.conductor_recorder import Ear, Recorder
from tests.support.statements import count_statements
from tests.support.wsgi_client import Client, Response, op

ABSENT = "00000000-5a0c-4a3f-8a0a-6d1d0b0a9c77"
PLACE = "/v1/inspection_rules"
SET = {"op": "set-attribute", "args": {"path": "/extra/a", "value": "{node.name}"}}
IF = {"op": "eq", "args": {"values": ["{inventory[cpu][count]}", 4]}}
FIELDS = {
    *("uuid", "description", "phase", "priority", "sensitive", "conditions", "actions"),
    *("created_at", "updated_at", "links"),
}

Json = dict[str, Any]


def add(api: Client, **values: Any) -> Json:
    answer = api.post(PLACE, {"actions": [SET], **values})
    assert answer.status == 201, answer.text
    return dict(answer.json)


def test_a_rule_lives(api: Client) -> None:
    body = {
        "uuid": ABSENT,
        "description": "why",
        "priority": 7,
        "phase": "main",
        "conditions": [IF, {**IF, "loop": [1], "multiple": "all"}],
        "actions": [SET, {**SET, "loop": [{"a": 1}]}],
        "sensitive": False,
    }
    answer = api.post(PLACE, body)
    assert answer.status == 201, answer.text
    path = f"{PLACE}/{ABSENT}"
    assert answer.headers["location"] == f"http://localhost:6385{path}"
    shown = answer.json
    assert set(shown) == FIELDS
    assert {name: shown[name] for name in body} == body
    assert api.get(path).json == shown
    after = api.patch(path, [op("replace", "/priority", 9), op("remove", "/conditions")]).json
    assert (after["priority"], after["conditions"]) == (9, [])
    assert api.delete(path).status == 204
    assert api.get(path).status == api.delete(path).status == 404


def test_rule_gets_defaults_for_missing_fields(api: Client) -> None:
    shown = add(api)
    assert (shown["phase"], shown["priority"], shown["conditions"]) == ("main", 0, [])
    assert (shown["sensitive"], shown["description"]) == (False, None)


def test_sensitive_rule_shows_its_actions_nowhere(api: Client) -> None:
    shown = add(api, sensitive=True, conditions=[IF])
    path = f"{PLACE}/{shown['uuid']}"
    patched = api.patch(path, [op("add", "/actions/-", SET)])
    assert patched.status == 200
    listed = api.get(f"{PLACE}?detail=true").json["inspection_rules"]
    chosen = api.get(f"{PLACE}?fields=actions,conditions").json["inspection_rules"]
    one = api.get(f"{path}?fields=actions,conditions").json
    for each in (shown, patched.json, api.get(path).json, *listed, *chosen, one):
        assert (each["actions"], each["conditions"]) == (None, None)
    answer = api.patch(path, [op("replace", "/sensitive", False)])
    assert (answer.status, "sensitive" in answer.text) == (400, True)


BAD: dict[str, tuple[Json, str]] = {
    "no actions": ({"actions": []}, "actions"),
    "actions null": ({"actions": None}, "actions"),
    "an unknown action": ({"actions": [{"op": "x", "args": {}}]}, "actions/0/op"),
    "no arguments": ({"actions": [{"op": "fail"}]}, "actions/0/args"),
    "an argument is missing": ({"actions": [{"op": "fail", "args": {}}]}, "actions/0/args/msg"),
    "another key": ({"actions": [{**SET, "x": 1}]}, "actions/0/x"),
    "an unknown operator": ({"conditions": [{"op": "x", "args": {}}]}, "conditions/0/op"),
    "a bad regex": (
        {"conditions": [{"op": "matches", "args": {"value": "a", "regex": "("}}]},
        "conditions/0/args/regex",
    ),
    "a bad multiple": ({"conditions": [{**IF, "multiple": "x"}]}, "conditions/0/multiple"),
    "a low priority": ({"priority": -1}, "priority"),
    "a high priority": ({"priority": 10_000}, "priority"),
    "a priority of text": ({"priority": "high"}, "priority"),
    "an unknown phase": ({"phase": "early"}, "phase"),
    "a long description": ({"description": "a" * 256}, "description"),
    "a name": ({"name": "x"}, "name"),
    "a scope": ({"scope": "x"}, "scope"),
}


def test_a_password_that_a_rule_writes_is_hidden_and_stays_when_it_is_sent_back(
    api: Client, database: session.Database
) -> None:
    rule: Json = {
        "op": "set-attribute",
        "args": {"path": "driver_info/ipmi_password", "value": "s"},
    }
    path = f"{PLACE}/{add(api, actions=[rule, SET])['uuid']}"
    shown = api.get(path).json["actions"]
    assert shown == [{**rule, "args": {**rule["args"], "value": "******"}}, SET]
    assert api.get(f"{PLACE}?detail=true").json["inspection_rules"][0]["actions"] == shown
    sent = [*shown, SET]
    assert api.patch(path, [op("replace", "/actions", sent)]).json["actions"] == sent
    (kept,) = database.read(lambda conn: inspection_rules.of_phase(conn, "main"))
    assert kept["actions"] == [rule, SET, SET]


@pytest.mark.parametrize("case", BAD)
def test_a_bad_rule_is_refused(api: Client, case: str) -> None:
    values, path = BAD[case]
    answer = api.post(PLACE, {"actions": [SET], **values})
    assert (answer.status, f"{path}: " in answer.text) == (400, True), answer.text
    assert api.get(PLACE).json == {"inspection_rules": []}


def test_rule_needs_actions(api: Client) -> None:
    assert api.post(PLACE, {}).text == "Schema error for inspection rule: actions: is required"


def test_versions_of_rules(api: Client) -> None:
    shown = add(api)
    for version, status in ((95, 404), (96, 200)):
        old = api.at(version)
        assert {old.get(one).status for one in (PLACE, f"{PLACE}/{shown['uuid']}")} == {status}
        assert ("inspection_rules" in old.get("/v1").json) == (status == 200)
    assert api.at(95).post(PLACE, {"actions": [SET]}).status == 405
    assert api.at(95).delete(PLACE).status == 405


def test_lists_are_brief_filtered_and_paged(api: Client) -> None:
    made = [add(api, priority=priority)["uuid"] for priority in (3, 1, 2)]

    def uuids(query: str) -> list[str]:
        answer = api.get(f"{PLACE}?{query}")
        assert answer.status == 200, answer.text
        return [one["uuid"] for one in answer.json["inspection_rules"]]

    brief = api.get(PLACE).json["inspection_rules"][0]
    assert set(brief) == {"uuid", "description", "phase", "priority", "links"}
    assert uuids("sort_key=priority") == [made[1], made[2], made[0]]
    assert uuids("phase=main") == made
    assert uuids("phase=other") == []
    page = api.get(f"{PLACE}?limit=2").json
    assert uuids(page["next"].partition("?")[2]) == made[2:]
    for bad in ("sort_key=actions", "fields=nope", "limit=0", "name=x"):
        assert api.get(f"{PLACE}?{bad}").status == 400, bad
    assert api.get(f"{PLACE}?marker=x").status == 404
    assert api.delete(PLACE).status == 204
    assert uuids("") == []


@pytest.mark.parametrize(
    "patch",
    [
        [op("replace", "/actions", [])],
        [op("add", "/actions/-", {"op": "x", "args": {}})],
        [op("remove", "/actions")],
        [op("replace", "/phase", "early")],
        [op("replace", "/priority", -1)],
        [op("replace", "/uuid", ABSENT)],
    ],
    ids=["no actions", "unknown", "removed", "phase", "priority", "uuid"],
)
def test_a_bad_patch_changes_nothing(api: Client, patch: list[Json]) -> None:
    before = add(api)
    path = f"{PLACE}/{before['uuid']}"
    assert api.patch(path, patch).status == 400
    assert api.get(path).json == before


def test_listeners_are_told_of_rules_but_not_what_a_sensitive_one_does(
    database: session.Database, recorder: Recorder, conf: cfg.ConfigOpts
) -> None:
    ear = Ear()
    api = Client(app.build(database, recorder, conf, ear))  # type: ignore[arg-type]
    for sensitive in (False, True):
        path = f"{PLACE}/{add(api, sensitive=sensitive)['uuid']}"
        api.patch(path, [op("replace", "/priority", 9)])
        api.delete(path)
    kinds = [f"inspection_rule_{what}" for what in ("created", "updated", "deleted")]
    assert ear.kinds == [*kinds, *kinds]
    assert [about["actions"] for _, about in ear.heard] == [[SET]] * 3 + [None] * 3
    assert [about["conditions"] for _, about in ear.heard] == [[]] * 3 + [None] * 3


def test_each_request_has_a_budget_of_statements(api: Client, database: session.Database) -> None:
    path = f"{PLACE}/{add(api)['uuid']}"
    asked: tuple[tuple[int, Callable[[], Response]], ...] = (
        (1, lambda: api.get(PLACE)),
        (1, lambda: api.get(path)),
        (3, lambda: api.patch(path, [op("replace", "/priority", 9)])),
        (3, lambda: api.delete(path)),
    )
    for budget, ask in asked:
        with count_statements(database) as sent:
            assert ask().status < 300
        assert len(sent) <= budget, sent
